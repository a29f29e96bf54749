"""Notice values whose form stands for something else than their type.

In CSV files: dates and times, which are text unless `types:` declares them, and numbers in a form that stays text. In JSON without schema: base64 of
decimals, and numbers that are days or times since 1970. Kafka Connect's JSON converter writes them so, unless `schemas.enable` is set.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DECIMAL = "decimal(10,2)"
"""What is proposed for base64: the source's precision and scale are not in the values."""

_MOMENTS = {f"timestamp_{unit}": range(10**digits, 23 * 10 ** (digits - 1)) for unit, digits in (("millis", 12), ("micros", 15), ("nanos", 18))}
"""Word of `types:` → numbers that are moments from 2001 to 2042. Hardly anything else is as large."""

_DAYS, _DAYS_SURE = range(-25_567, 30_000), 3_000
"""Days from 1900 to 2052. Small numbers are more often counts, so one value must be as far from 1970 as the second number."""

_DATED = re.compile(r"(?:^|_)(?:date|day|born|birth|birthday|dob)(?:$|_)|(?:date|birth|_on)$", re.IGNORECASE)
_NAMED = re.compile(r"(?:^|_)(?:id|uuid|guid|key|no|nr|number|code|phone|hash)$|I[Dd]$|^[iI][dD]$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)")
_NO_WORD = re.compile(r"=|[a-z0-9+/][A-Z]|[A-Z]{2}[a-z]")
_CHARS_MAX, _UNPADDED_MIN = 24, 5
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_TEXTS = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "timestamp": re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}([.]\d+)?)?(Z|[+-]\d{2}:?\d{2})?"),
    "numbers with a decimal comma": re.compile(r"[+-]?\d{1,3}(\.?\d{3})*,\d+"),
    "dates as day.month.year": re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    "decimal": re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"),
}

JSON_FORMS = (*_MOMENTS, "date_days", DECIMAL)
CSV_FORMS = ("date", "timestamp", "numbers with a decimal comma", "dates as day.month.year")


@dataclass
class Values:
    """The values of one column, summarized."""

    words: Sequence[str]
    """The forms that all values have."""
    count: int = 0
    far: bool = False
    """Whether a number is too far from zero to be a count of something."""
    padded: bool = False
    """Whether a text ends with the sign that fills up base64, as no word does."""
    unlike_words: int = 0
    """Texts with the letters of no language's words."""
    example: Any = None

    def add(self, value: Any) -> None:
        """Add a value that is not null."""
        self.count, self.example = self.count + 1, value if self.count == 0 else self.example
        self.words = [word for word in self.words if _may_be(value, word)]
        if isinstance(value, str):
            self.padded, self.unlike_words = self.padded or value.endswith("="), self.unlike_words + bool(_NO_WORD.search(value))
        else:
            self.far = self.far or (isinstance(value, int) and abs(value) >= _DAYS_SURE)

    def word(self, column: str) -> str:
        """Return what the values most likely are, a word of `types:` or of CSV_FORMS; "" if they are what they look like."""
        word = self.words[0] if self.words else ""
        if word in CSV_FORMS:
            return word
        if word == "date_days":
            likely = self.far and bool(_DATED.search(column))
        else:
            likely = word != DECIMAL or self.padded or (self.count >= _UNPADDED_MIN and 2 * self.unlike_words >= self.count)
        return word if likely and not _NAMED.search(column) else ""


@dataclass
class ValueForms:
    """The values of the columns of a source."""

    columns: dict[str, Values] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], forms: Sequence[str]) -> None:
        """Add the values of a row. Columns that a connector added have a known meaning."""
        for name, value in row.items():
            if value not in (None, "") and not name.startswith("__"):
                self.columns.setdefault(name, Values(forms)).add(value)

    def _all(self, forms: Sequence[str]) -> dict[str, str]:
        return {name: word for name, values in self.columns.items() if (word := values.word(name)) in forms}

    @property
    def encoded(self) -> dict[str, str]:
        """Return column → word of `types:`, for columns of JSON whose values most likely stand for something else."""
        return self._all(JSON_FORMS)

    @property
    def dated(self) -> dict[str, str]:
        """Return column → `date` or `timestamp`, for columns of CSV files."""
        return self._all(CSV_FORMS[:2])

    @property
    def foreign(self) -> dict[str, str]:
        """Return column → its form, for columns of CSV files with numbers or dates that stay text."""
        return self._all(CSV_FORMS[2:])

    def sentence(self, named: Mapping[str, str]) -> str:
        """Return what these columns (→ word) look like."""
        examples = {name: f"{name} ({self.columns[name].example})" for name in named}
        packed, numbers = ([examples[name] for name in named if (named[name] == DECIMAL) is decimal] for decimal in (True, False))
        texts = f"{', '.join(packed)} looks like base64 of a decimal, with the precision and scale of the source, or of bytes (binary)"
        times = f"{', '.join(numbers)} looks like days or times since 1970 as whole numbers (else bigint)"
        return "; ".join([*([texts] if packed else []), *([times] if numbers else [])])


def has_type(value: str, kind: str) -> bool:
    """Return whether a text has the form of a type. Types whose forms are many (booleans, floats) accept every text.

    >>> [has_type("2019-03-12", kind) for kind in ("int", "decimal(10,2)", "date", "double")]
    [False, False, True, True]
    """
    form = _TEXTS.get(kind.partition("(")[0])
    return form is None or bool(form.fullmatch(value))


def _may_be(value: Any, word: str) -> bool:
    if word in _TEXTS:
        return isinstance(value, str) and bool(_TEXTS[word].fullmatch(value))
    if word == DECIMAL:
        return isinstance(value, str) and len(value) <= _CHARS_MAX and bool(_BASE64.fullmatch(value)) and _is_shortest(base64.b64decode(value))
    numbers = _MOMENTS.get(word, _DAYS)
    return isinstance(value, int) and not isinstance(value, bool) and value in numbers


def _is_shortest(data: bytes) -> bool:
    """Return whether no byte of a number (two's complement) is superfluous, as Java writes it."""
    return len(data) < 2 or not ((data[0] == 0 and data[1] < 128) or (data[0] == 255 and data[1] >= 128))
