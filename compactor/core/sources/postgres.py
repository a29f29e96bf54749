"""PostgreSQL's type names → Hive types.

The names are those of `format_type()` (PostgreSQL 15, "System Information Functions"), as wal2json writes them: `numeric(20,4)`,
`timestamp(3) with time zone`, `character varying(40)`, `integer[]`, `public.mood`. Other spellings of SQL (`int`, `varchar(9)`, `timestamptz`) are
understood too. What has no counterpart in Hive - uuid, json, time of day, interval, inet, ranges, bit strings, money, geometry, composite, enum and
domain types - stays the text that PostgreSQL prints.
"""

from __future__ import annotations

import re

from compactor.core.model import types
from compactor.core.schema.writer import WriterField

TEXT, HEX = "text", "text:hex"
"""Semantics of fields whose values came as text; `spark/decode/pg_text.py` reads them. HEX: bytes written as hexadecimal digits."""

MIXED = -1
"""The depth of an array column whose values do not agree on one."""

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


def is_array(said: str | None) -> bool:
    """Whether a type name is an array's. Its number of dimensions is not part of it: `integer[]` may hold `{{1,2},{3,4}}`."""
    return bool(said) and str(said).rstrip().endswith("]")


def column(name: str, said: str, depth: int = 1) -> WriterField:
    """The column that a type name describes; `depth` counts the dimensions of an array's values (MIXED: kept as JSON text).

    >>> column("price", "numeric(20,4)").type
    ('decimal', 20, 4)
    """
    kind = _scalar(said)
    meaning = HEX if kind == ("binary",) else TEXT
    item = WriterField("", ("string",), kind, meaning)
    if not is_array(said):
        return WriterField(name, ("string",), kind, meaning)
    if depth == MIXED:
        return WriterField(name, ("string",), ("string",), TEXT, item=item)
    for _ in range(max(depth, 1)):
        item = WriterField(name, ("string",), ("array", item.type), TEXT, item=item)
    return item


def _scalar(said: str) -> types.Type:
    found = _NAME.fullmatch(said.strip().lower())
    if found is None:
        return ("string",)
    base = found["base"].removeprefix("pg_catalog.")
    if base in _NUMBERS:
        return _number(found["modifier"])
    return (_TYPES.get(base, "string"),)


def _number(modifier: str | None) -> types.Type:
    """numeric(p,s): a scale may be negative or exceed the precision. Without a modifier each value has its own scale: exact text."""
    if not modifier:
        return ("string",)
    digits, _, scale = (part.strip() for part in modifier.partition(","))
    whole, fraction = int(digits) - min(int(scale or 0), 0), max(int(scale or 0), 0)
    precision = max(whole, fraction)
    return ("decimal", precision, fraction) if precision <= 38 else ("string",)
