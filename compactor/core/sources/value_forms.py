"""Notice values whose form stands for something else than their type.

In CSV files: dates and times, which are text unless `types:` declares them, and numbers in a form that stays text. In JSON without schema: base64 of
decimals, and numbers that are days or times since 1970. Kafka Connect's JSON converter writes them so, unless `schemas.enable` is set.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compactor.core.model import types

DECIMAL = "decimal(10,?)"
"""What is proposed for base64, with more digits if the values have more. Whoever uses it must know the scale: no value shows it, and any other makes
wrong numbers.
"""

_DIGITS_MAX = 38

_MOMENTS = {"timestamp_millis": 10**12, "timestamp_micros": 10**15, "timestamp_nanos": 10**18}
"""Word of `types:` → a moment of 2001. From there to 2042, little else is as large. Earlier ones, from 1897, need a column that is named like
a time, and one value that is as far from 1970 as 1973."""

_DAYS, _DAYS_SURE = range(-25_567, 30_000), 3_000
"""Days from 1900 to 2052. Small numbers are more often counts, so one value must be as far from 1970 as the second number."""

_DATED = re.compile(
    r"(?:^|_)(?:date|day|born|birth|birthday|dob|opened|closed|shipped|started|ended|paid|hired|joined|signed|issued|due|valid|effective|expiry)(?:$|_)"
    r"|(?:date|birth|_on)$",
    re.IGNORECASE,
)
_TIMED = re.compile(
    rf"{_DATED.pattern}|(?:^|_)(?:at|time|timestamp|ts|since|until|created|updated|modified|expires)(?:$|_)|time$|(?-i:[a-z]At$)", re.IGNORECASE
)
_NAMED = re.compile(r"(?:^|_)(?:id|uuid|guid|key|no|nr|number|code|phone|hash)$|I[Dd]$|^[iI][dD]$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)")
_NO_WORD = re.compile(r"=|[a-z0-9+/][A-Z]|[A-Z]{2}[a-z]")
_CHARS_MAX, _UNPADDED_MIN = 24, 5
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_MOMENT = r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}([.]\d%s)?)?( ?(Z|UTC|[+-]\d{2}(:?\d{2})?))?"
_TEXTS = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    # a timestamp would lose more digits
    "timestamp": re.compile(_MOMENT % "{1,6}0*"),
    "numbers with a decimal comma": re.compile(r"[+-]?\d{1,3}(\.?\d{3})*,\d+"),
    "dates as day.month.year": re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    "decimal": re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"),
}

_DECLARED = {**_TEXTS, "timestamp": re.compile(_MOMENT % "+"), "date": re.compile(r"[+-]?\d{4,}-\d{2}-\d{2}(Z|[ T]00:00:00([.]0+)?)?")}
"""What values of declared types look like. A date may be Debezium's isostring, or Oracle's midnight."""

JSON_FORMS = (*_MOMENTS, "date_days", DECIMAL)
DATED = ("date", "timestamp")
FOREIGN = ("numbers with a decimal comma", "dates as day.month.year")
CSV_FORMS = (*DATED, *FOREIGN)


def word(column: str, values: Sequence[Any], words: Sequence[str]) -> str:
    """Return the one of `words`, of JSON_FORMS or CSV_FORMS, that all values of a column most likely are; "" if they are what they look like.

    `values` has no null.
    """
    fitting = (each for each in words if values and all(_may_be(value, each) for value in values))
    return next((each for each in fitting if each in CSV_FORMS or (_is_likely(column, values, each) and not _NAMED.search(column))), "")


def _is_likely(column: str, values: Sequence[Any], word: str) -> bool:
    """Return whether values that may be of one of JSON_FORMS are."""
    if word in _MOMENTS:
        furthest = max(map(abs, values))
        return min(values) >= _MOMENTS[word] or (bool(_TIMED.search(column)) and furthest >= _MOMENTS[word] // 10)
    if word == "date_days":
        return bool(_DATED.search(column)) and max(map(abs, values)) >= _DAYS_SURE
    # no word ends with the sign that fills up base64
    padded, unlike_words = any(value.endswith("=") for value in values), sum(bool(_NO_WORD.search(value)) for value in values)
    return padded or (len(values) >= _UNPADDED_MIN and 2 * unlike_words >= len(values))


def sentence(words: Mapping[str, str], example: Callable[[str], Any]) -> str:
    """Return what columns (→ word of JSON_FORMS) look like. `example`: returns a value of a column."""
    examples = {name: f"{name} ({example(name)})" for name in words}
    packed, numbers = ([examples[name] for name in words if is_decimal(words[name]) is decimal] for decimal in (True, False))
    texts = f"{', '.join(packed)} looks like base64 of a decimal, which needs the precision and scale of the source, or of bytes (binary)"
    times = f"{', '.join(numbers)} looks like days or times since 1970 as whole numbers (else bigint)"
    return "; ".join([*([texts] if packed else []), *([times] if numbers else [])])


def is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def wide_enough(values: Sequence[str]) -> str:
    """Return DECIMAL with as many digits as base64 of decimals has.

    >>> wide_enough(["BH4="]), wide_enough(["BH4=", "AIAAAAAAAAAA"])
    ('decimal(10,?)', 'decimal(19,?)')
    """
    return f"decimal({max(10, *map(_digits, values))},?)"


def has_type(value: str, kind: str, packed: bool = False) -> bool:
    """Return whether a text has the form of a type. Types whose forms are many (booleans, floats) accept every text.

    `packed`: a decimal may be base64.

    >>> [has_type("2019-03-12Z", kind) for kind in ("int", "decimal(10,2)", "date", "double")]
    [False, False, True, True]
    """
    form = _DECLARED.get(kind.partition("(")[0])
    if form is None or form.fullmatch(value):
        return True
    return packed and is_decimal(kind) and bool(_BASE64.fullmatch(value)) and _digits(value) <= types.parse(kind)[1]


def _may_be(value: Any, word: str) -> bool:
    if word in _TEXTS:
        return isinstance(value, str) and bool(_TEXTS[word].fullmatch(value))
    if word == DECIMAL:
        packed = isinstance(value, str) and len(value) <= _CHARS_MAX and bool(_BASE64.fullmatch(value))
        return packed and _is_shortest(base64.b64decode(value)) and _digits(value) <= _DIGITS_MAX
    latest = _MOMENTS.get(word, 0) * 23 // 10
    # the nanoseconds of a counter, such as Stitch's, would be cut off
    exact = not (word == "timestamp_nanos" and isinstance(value, int) and value % 1000)
    return isinstance(value, int) and not isinstance(value, bool) and exact and value in (range(-latest, latest) if latest else _DAYS)


def _digits(value: str) -> int:
    """Return the number of digits of a decimal in base64."""
    return len(str(abs(int.from_bytes(base64.b64decode(value), "big", signed=True))))


def _is_shortest(data: bytes) -> bool:
    """Return whether no byte of a number (two's complement) is superfluous, as Java writes it."""
    return len(data) < 2 or not ((data[0] == 0 and data[1] < 128) or (data[0] == 255 and data[1] >= 128))
