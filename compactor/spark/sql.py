"""Spark SQL text, built safely: names, literals, and the casts that cannot fail.

Expressions are text here, not Column objects: `try_cast` has no Column form in Spark 3.5, and text reads the same in 3.5 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from compactor.core.catalog.ddl import quoted, text_literal
from compactor.core.model import types

__all__ = [
    "BY_HASH",
    "DIGEST",
    "EXACT_JSON",
    "LONG_STRINGS",
    "cast",
    "cited",
    "coalesce",
    "from_json",
    "literal",
    "member",
    "named",
    "null",
    "once",
    "quoted",
    "struct",
    "with_cited",
]

EXACT_JSON = "map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'ignoreNullFields', 'false')"
"""Options of `to_json` for text in which other values differ. By default it cuts timestamps to milliseconds, and leaves out nulls in structs."""

DIGEST = f"bit_xor(xxhash64(to_json(struct(*), {EXACT_JSON})))"
"""For an aggregation: a number that changes when any of the rows changes."""

BY_HASH = "collect_set(CASE WHEN false THEN 1 END)"
"""SQL for an aggregation: always empty. Beside it Spark groups rows by hash; for the minimum of a struct alone it would sort all rows."""

LONG_STRINGS = {"maxStringLen": str(2**31 - 1)}
"""For every reader of records. By default Jackson refuses strings beyond 20 million characters, and only in queries that use the string."""


def literal(value: Any) -> str:
    """Return a Python scalar as a SQL literal. Text is escaped, whatever it contains."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}L" if abs(value) > 2**31 - 1 else str(value)
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return text_literal(str(value))


def cited(value: str, chars_max: int = 80) -> str:
    """Return the beginning of a value of a record for a reason why the record is invalid. `with_cited` shows or hides it."""
    return f"concat('\\u0002', translate(substr({value}, 1, {chars_max}), '\\u0002\\u0003', ''), '\\u0003')"


def with_cited(reason: str, shown: bool) -> str:
    """Return a reason with the values that `cited` put into it, or without them."""
    return re.sub("\x02([^\x03]*)\x03", r"\1" if shown else "(not shown)", reason)


def from_json(text: str, schema: str, **options: str) -> str:
    """Return JSON text of a record as the type `schema` (a SQL literal); null, or what `options` say, where it is no JSON."""
    given = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in {**LONG_STRINGS, **options}.items())
    return f"from_json({text}, {schema}, map({given}))"


def cast(value: str, kind: types.Type) -> str:
    """Return a cast that gives null for a value that does not fit, with ANSI mode on or off."""
    return f"try_cast({value} AS {types.text(kind, quote=True)})"


def null(kind: types.Type) -> str:
    """Return a typed null."""
    return f"CAST(NULL AS {types.text(kind, quote=True)})"


def member(value: str, name: str) -> str:
    """Return a struct's member; the name may hold any character."""
    return f"{value}.{quoted(name)}"


def coalesce(values: Sequence[str]) -> str:
    """Return the first of the values that is not null."""
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def struct(members: Sequence[tuple[str, str]]) -> str:
    """Return a struct of (name, expression) pairs."""
    inside = ", ".join(f"{literal(name)}, {value}" for name, value in members)
    return f"named_struct({inside})"


def named(sql: str, name: str) -> Any:
    """Return an expression with an alias, for `agg`."""
    return F.expr(sql).alias(name)


def once(rows: DataFrame) -> DataFrame:
    """Return the same rows, and make Spark compute each of their columns once.

    Spark copies an expression into every place that uses its column, so that steps on top of each other grow beyond what it can plan. It does not
    look through a generator (`inline`), which this puts between.
    """
    return rows.selectExpr(f"inline(array(struct({', '.join(quoted(name) for name in rows.columns)})))")
