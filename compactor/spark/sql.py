"""Spark SQL text, built safely: names, literals, and the casts that cannot fail.

Expressions are text here, not Column objects: `try_cast` has no Column form in Spark 3.5, and text reads the same in 3.5 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from compactor.core.catalog.ddl import quoted
from compactor.core.model import types

__all__ = ["cast", "coalesce", "literal", "member", "named", "null", "once", "quoted", "struct"]


def literal(value: Any) -> str:
    """A Python scalar as a SQL literal; text is escaped whatever it holds."""
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
    escaped = "".join(f"\\u{ord(char):04x}" if char in "\\'\"" or ord(char) < 32 else char for char in str(value))
    return f"'{escaped}'"


def cast(value: str, wanted: types.Type) -> str:
    """A cast that gives null where the value does not fit, ANSI or not."""
    return f"try_cast({value} AS {types.text(wanted, quote=True)})"


def null(kind: types.Type) -> str:
    """A typed null."""
    return f"CAST(NULL AS {types.text(kind, quote=True)})"


def member(value: str, name: str) -> str:
    """A struct's member, whatever its name."""
    return f"{value}.{quoted(name)}"


def coalesce(values: Sequence[str]) -> str:
    """The first that is not null."""
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def struct(members: Sequence[tuple[str, str]]) -> str:
    """A struct of (name, expression) pairs."""
    inside = ", ".join(f"{literal(name)}, {value}" for name, value in members)
    return f"named_struct({inside})"


def named(sql: str, name: str) -> Any:
    """An expression with a name, for `agg`."""
    return F.expr(sql).alias(name)


def once(rows: DataFrame) -> DataFrame:
    """The same rows, each column computed once. Spark writes an expression into every place that uses its column, and steps that build on each
    other grow beyond what it can plan; it does not look through a generator.
    """
    return rows.selectExpr(f"inline(array(struct({', '.join(quoted(name) for name in rows.columns)})))")
