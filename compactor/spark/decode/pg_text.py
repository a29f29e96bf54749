"""Convert values that arrive as text to what Hive stores: PostgreSQL's output format, and that of hand-made events. No expression can fail.

| type | text | stored |
|---|---|---|
| numbers, boolean | `12.50`, `-3`, `true`, `t` | as the type says; `NaN` of a float, null for a decimal |
| date, timestamp | ISO, `0044-03-15 BC`, `2024-03-05 10:00:00.5+05:30` | in UTC; `infinity`, and years that the type cannot hold: null |
| binary | `\\x00ff` (bytea also without `\\x`), else base64 | bytes |
| array | `{1,NULL,"a \\"b\\""}`, `{{1,2},{3,4}}`, `[0:1]={1,2}`; else JSON `[1,null]` | array; JSON text for columns whose values differ in depth |
"""

from __future__ import annotations

import json

from compactor.core.model import types
from compactor.core.schema.semantic_types import DECIMAL, DIGITS
from compactor.core.schema.writer import WriterField
from compactor.core.sources.postgres import HEX
from compactor.spark.sql import cast, from_json, literal

STRING = r'"(?:[^"\\]++|\\.)*+"'
"""A JSON string as a regular expression. Possessive quantifiers keep long ones off the stack."""
_TEXT = rf"{STRING}|'(?:[^'\\]++|\\.)*+'"
"""A text as Spark's JSON reader takes it: also one in single quotes, which stand in no other place outside of strings."""
_NUMBER = r"(?:-?[0-9][0-9.eE+-]*+|-?Infinity|NaN)"
"""A number outside of strings in JSON, also one that JSON does not have."""
_FRACTION = "-?[0-9]++[.eE][0-9.eE+-]*+"
_DEPTHS = 3

ISO_DATE = r"^[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
"""Begins an ISO date or timestamp."""
MOMENT_YEAR = r"^(?:-[0-9]{4,}|[+]?[0-9]{4,5}|[+]?[01][0-9]{5}|[+]?2[0-7][0-9]{4})-"
"""Begins the text of a timestamp that `MICROS_MAX` allows."""
MICROS_MAX = 101_548_372 * 86_400_000_000 - 1
"""The end of the year 279999 in microseconds since 1970. INT96 counts from 4714 BC: what Spark writes of later years than 287563 overflows, and other
engines read a year BC.
"""
_HEX, HEX_DIGITS = "\\x", r"^(\\x)?([0-9A-Fa-f]{2})*+$"
"""Bytes in PostgreSQL's text."""
INFINITE = r"^[+-]?infinity$"
"""PostgreSQL's infinite dates and timestamps."""
_VALUE = r"[:,\[]\s*+-?"
"""Stands before each number in a JSON object. A regular expression that begins with such a sign costs a third of one that begins with digits."""
FRACTION = _VALUE + r"[0-9]++[.eE]"
"""A number with a fraction or an exponent in JSON; text may look like it."""
LARGE_NUMBER = _VALUE + r"(?:[0-9]{39}|[0-9.]++[eE][+]?[0-9]{2})"
"""Begins a number that a decimal or a double may not hold; text may look like it."""
LONG_NUMBER = _VALUE + r"(?:9[0-9]{15}|[1-9][0-9]{16})(?![.eE])"
"""Begins a whole number that a double may not hold; text may look like it."""
_LONG_FRACTION = _VALUE + r"(?=[0-9.]{17})[0-9]++[.eE]"
"""Begins a fraction of 16 digits or more, which a double may not hold; text may look like it."""
MARK = "\ue000"
"""Begins a string that stands for a number: a character for private use, which begins no base64 and no number."""
_SPECIAL = r"[0-9]++[.eE]|9[0-9]{15}|[0-9]{17}"
SPECIAL_NUMBER = f"{_VALUE}(?:{_SPECIAL})"
"""Begins a number that is one of these three, and some others: to look for all costs as much as for one."""
UNUSUAL = rf'{_VALUE}(?:{_SPECIAL}|[\[{{]|"(?:"|NaN|[+-]?Infinity))'
"""Begins a value that needs another look: such a number, an array, an object, an empty text, or a word for a number."""
BLANK_ELEMENT = r'(?<=[\[,])\s*""(?=\s*[,\]])'
"""An empty text as an element of an array. Inside of texts quotes are escaped, so that none can look like it."""
_OPENING = r"^(\{+|\[+)[^\]}]"
_BOUNDS = r"^(\[[0-9:-]+\])+="


def exact_numbers(text: str, mark: str = "") -> str:
    """SQL: JSON text in which every number is a string that begins with `mark`. JSON readers make doubles of fractions, and 30 digits become 17."""
    return _as_strings(text, rf"[^\"'0-9NI-]++|{_TEXT}", _NUMBER, mark)


def long_numbers(text: str) -> str:
    """SQL: JSON text in which whole numbers of more than 38 digits are strings."""
    others = rf"[^\"'0-9-]++|{_TEXT}|{_FRACTION}|-?[0-9]{{1,38}}+(?![0-9.eE])"
    return _as_strings(text, others, "-?[0-9]{39,}+")


def _as_strings(text: str, others: str, numbers: str, mark: str = "") -> str:
    """SQL: JSON text in which these numbers are strings that begin with `mark`. `others`: an expression for all else."""
    # \G continues where the last match ended, so only numbers outside of strings match; possessive quantifiers keep long strings off the stack
    pattern = rf"(?s)\G((?:{others})*+)({numbers})"
    return f"regexp_replace({text}, {literal(pattern)}, '$1\"{mark}$2\"')"


def fractions_kept(text: str, decimals: str, long: bool = False) -> str:
    """SQL: JSON text whose fractions are strings that begin with MARK, where `decimals` (SQL) holds; with `long` also where one of them is long.

    Spark's JSON reader writes an object anew that it returns as text, and its fractions as doubles. `fractions_back` makes numbers of these strings.
    A decimal of many digits becomes text: it must not depend on the other numbers of its record whether `4.00` is `4.0`.
    """
    others = rf"[^\"'0-9-]++|{_TEXT}|-?[0-9]++(?![0-9.eE])|-(?![0-9])"
    kept = _as_strings(text, others, _FRACTION, MARK)
    fraction = f"{text} RLIKE {literal(FRACTION)}"
    kept_if = f"{fraction} AND ({decimals} OR {text} RLIKE {literal(_LONG_FRACTION)})" if long else f"{decimals} AND {fraction}"
    return f"CASE WHEN {kept_if} THEN {kept} ELSE {text} END"


def names_decimal(text: str) -> str:
    """SQL: whether a text has the name of a decimal, as the text of a schema has it; false for null."""
    return f"coalesce({' OR '.join(f'contains({text}, {literal(json.dumps(name))})' for name in (DECIMAL, DIGITS))}, false)"


def fractions_back(text: str) -> str:
    """SQL: the text that a reader of `fractions_kept` has made, with numbers in it as the source wrote them."""
    back = f"regexp_replace({text}, '\"{MARK}([0-9.eE+-]+)\"', '$1')"
    return f"CASE WHEN contains({text}, '{MARK}') THEN {back} ELSE {text} END"


def to_stored(value: str, field: WriterField) -> str:
    """SQL: text as a value of type `field.type`."""
    kind = field.type
    if field.item is not None:
        return _array(value, field) if kind[0] == "array" else _array_text(value, field.item)
    if kind[0] == "date":
        return cast(f"CASE WHEN {value} RLIKE '{ISO_DATE}( BC|Z)?$' THEN {iso(value)} END", kind)
    if kind[0] == "timestamp":
        return cast(f"CASE WHEN {value} RLIKE '{ISO_DATE}' AND {value} RLIKE '{MOMENT_YEAR}' THEN {iso(value)} END", kind)
    if kind[0] == "binary":
        coded = f"try_to_binary({value}, 'base64')"
        return from_hex(value) if field.semantic == HEX else f"CASE WHEN {is_hex(value)} THEN {from_hex(value)} ELSE {coded} END"
    if kind[0] in ("array", "map", "struct"):
        return from_json(value, f"'{types.text(kind, quote=True)}'")
    if kind[0] == "decimal":
        return exact_decimal(value, kind)
    return value if kind == ("string",) else cast(value, kind)


def is_hex(value: str) -> str:
    """SQL: whether text begins like PostgreSQL's of bytes, which base64 never does."""
    return f"startswith({value}, {literal(_HEX)})"


def from_hex(value: str) -> str:
    """SQL: hexadecimal digits, with `\\x` or without, as bytes. `unhex` alone would fill an odd number of digits up."""
    return f"CASE WHEN {value} RLIKE {literal(HEX_DIGITS)} THEN unhex(ltrim({literal(_HEX)}, {value})) END"


def exact_decimal(value: str, kind: types.Type) -> str:
    """SQL: text as a decimal, null where a digit would be lost."""
    made = cast(value, kind)
    # digits before an exponent are compared as doubles
    other = f"CAST({made} AS DOUBLE) <> {cast(value, ('double',))}"
    lost = f"CASE WHEN {value} RLIKE '[eE]' THEN {other} ELSE {value} RLIKE '[.][0-9]{{{kind[2]}}}0*[1-9]' END"
    return f"CASE WHEN NOT {lost} THEN {made} END"


def iso(value: str) -> str:
    """SQL: text of a date or a timestamp in the form of ISO that Spark reads.

    PostgreSQL counts years before Christ from 1, ISO has a year 0: `0044-03-15 BC` is `-0043-03-15`. Java leaves out seconds that are 0, and Spark
    wants them before a zone: `2026-11-28T01:00Z`.
    """
    year = f"lpad(CAST(CAST(regexp_extract({value}, '^([0-9]+)', 1) AS INT) - 1 AS STRING), 4, '0')"
    return (
        # nearly no value has any of these; the first tests are cheap
        f"CASE WHEN contains({value}, ' BC') AND {value} RLIKE '^[0-9]{{4,6}}-.* BC$' "
        f"THEN concat('-', {year}, regexp_extract({value}, '^[0-9]+(-.*) BC$', 1)) "
        f"WHEN length({value}) < 13 AND {value} RLIKE 'Z$' THEN rtrim('Z', {value}) "
        f"WHEN substr({value}, 17, 1) IN ('Z', ' ', '+', '-') AND {value} RLIKE '^.{{10}}[T ][0-9]{{2}}:[0-9]{{2}} ?[Z+-]' "
        f"THEN concat(substr({value}, 1, 16), ':00', substr({value}, 17)) ELSE {value} END"
    )


def dimensions(value: str) -> str:
    """SQL: the number of dimensions of an array's text. Null for an empty array and for text that is not an array, which fit any number."""
    return f"nullif(length(regexp_extract({_bare(value)}, {literal(_OPENING)}, 1)), 0)"


def _bare(value: str) -> str:
    return f"regexp_replace({value}, {literal(_BOUNDS)}, '')"


def _array(value: str, field: WriterField) -> str:
    """SQL: an array of the field's depth. A value of another depth is null; `signatures` makes a column of differing depths text."""
    depth, item = 0, field
    while item.item is not None:
        depth, item = depth + 1, item.item
    fits = f"CASE WHEN coalesce({dimensions(value)}, {depth}) = {depth} THEN {as_json(value)} END"
    parsed = from_json(fits, f"'{'array<' * depth}string{'>' * depth}'", allowUnquotedControlChars="true")
    return _each(parsed, depth, item)


def _each(parsed: str, depth: int, item: WriterField) -> str:
    if item.type == ("string",):
        return parsed
    inner = f"_i{depth}"
    return f"transform({parsed}, {inner} -> {_each(inner, depth - 1, item) if depth > 1 else to_stored(inner, item)})"


def _array_text(value: str, item: WriterField) -> str:
    cases = []
    field = item
    for depth in range(1, _DEPTHS + 1):
        field = WriterField("", ("string",), ("array", field.type), item=field)
        test = f"{dimensions(value)} = {depth}" if depth > 1 else f"coalesce({dimensions(value)}, 1) = 1"
        cases.append(f"WHEN {test} THEN to_json({_array(value, field)})")
    return f"CASE {' '.join(cases)} ELSE {value} END"


def as_json(value: str) -> str:
    """SQL: PostgreSQL's array text as JSON text whose leaves are strings and nulls. JSON stays as it is."""
    text = _bare(value)
    between = rf"(?:[{{}},]|{STRING})"
    steps = (
        (rf"(?s)\G((?:{between}|(?!NULL[,}}])[^{{}},\"]++)*+)NULL(?=[,}}])", "$1null"),
        (rf"(?s)\G((?:{between}|null(?=[,}}]))*+)(?!null[,}}])([^{{}},\"]++)", '$1"$2"'),
        (rf"(?s)\G((?:[^\"{{]++|{STRING})*+)\{{", "$1["),
        (rf"(?s)\G((?:[^\"}}]++|{STRING})*+)\}}", "$1]"),
    )
    for pattern, put in steps:
        text = f"regexp_replace({text}, {literal(pattern)}, '{put}')"
    return f"CASE WHEN {value} LIKE '[%' AND {value} NOT RLIKE {literal(_BOUNDS)} THEN {value} ELSE {text} END"
