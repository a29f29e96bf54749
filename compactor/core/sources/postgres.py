"""PostgreSQL's type names → Hive types.

The names are those of `format_type()` (PostgreSQL 15, "System Information Functions"), as wal2json writes them: `numeric(20,4)`,
`timestamp(3) with time zone`, `character varying(40)`, `integer[]`, `public.mood`. Other SQL spellings (`int`, `varchar(9)`, `timestamptz`) work too.
Types without a counterpart in Hive stay the text that PostgreSQL prints: uuid, json, time of day, interval, inet, ranges, bit strings, money,
geometry, composite, enum and domain types.
"""

from __future__ import annotations

import re

from compactor.core.model import types
from compactor.core.schema.writer import WriterField

TEXT, HEX, NUMBER = "text", "text:hex", "text:number"
"""Semantic types of values that come as text (`spark/decode/pg_text.py` parses them). HEX: bytes as hexadecimal digits. NUMBER: a number that stays
text, because its column has no scale, or more digits than engines have."""

MIXED = -1
"""The depth of an array column whose values have different depths."""

_TYPES = {
    **dict.fromkeys(("smallint", "int2", "smallserial"), "smallint"),
    **dict.fromkeys(("integer", "int", "int4", "serial"), "int"),
    **dict.fromkeys(("bigint", "int8", "bigserial", "oid", "long"), "bigint"),
    **dict.fromkeys(("real", "float4"), "float"),
    **dict.fromkeys(("double precision", "float8", "double", "float"), "double"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("timestamp", "timestamptz", "datetime"), "timestamp"),
    **dict.fromkeys(("bytea", "binary", "varbinary", "blob"), "binary"),
    "date": "date",
}
_NUMBERS = ("numeric", "decimal", "dec")
_NAME = re.compile(r"(?P<base>[^(\[]+?)\s*(\((?P<modifier>[^)]*)\))?(\s+with(out)? time zone)?\s*(?P<arrays>(\[\d*\])*)")


def is_array(type_name: str | None) -> bool:
    """Return whether a type is an array: `integer[]`, or `_int4` by its name in the catalog (wal2json without typmod). The name does not show its
    number of dimensions: both may contain `{{1,2},{3,4}}`.
    """
    return bool(type_name) and (str(type_name).rstrip().endswith("]") or str(type_name).startswith("_"))


def column(name: str, type_name: str, depth: int = 1) -> WriterField:
    """Return a column by the name of its type. `depth`: number of dimensions of an array's values; MIXED arrays stay JSON text.

    >>> column("price", "numeric(20,4)").type
    ('decimal', 20, 4)
    """
    kind = _scalar(type_name)
    number = kind == ("string",) and (match := _NAME.fullmatch(type_name.strip().lower())) is not None and _base(match) in _NUMBERS
    meaning = HEX if kind == ("binary",) else NUMBER if number else TEXT
    item = WriterField("", ("string",), kind, meaning)
    if not is_array(type_name):
        return WriterField(name, ("string",), kind, meaning)
    if depth == MIXED:
        return WriterField(name, ("string",), ("string",), TEXT, item=item)
    for _ in range(max(depth, 1)):
        item = WriterField(name, ("string",), ("array", item.type), TEXT, item=item)
    return item


def _scalar(type_name: str) -> types.Type:
    match = _NAME.fullmatch(type_name.strip().lower())
    if match is None:
        return ("string",)
    base = _base(match)
    if base in _NUMBERS:
        return _number(match["modifier"])
    return (_TYPES.get(base, "string"),)


def _base(match: re.Match[str]) -> str:
    return match["base"].removeprefix("pg_catalog.").removeprefix("_")


def _number(modifier: str | None) -> types.Type:
    """Return the type for numeric(p,s). The scale may be negative or exceed the precision. Without (p,s) each value has a scale: exact text."""
    if not modifier:
        return ("string",)
    digits, _, scale = (part.strip() for part in modifier.partition(","))
    whole, fraction = int(digits) - min(int(scale or 0), 0), max(int(scale or 0), 0)
    precision = max(whole, fraction)
    return ("decimal", precision, fraction) if precision <= 38 else ("string",)
