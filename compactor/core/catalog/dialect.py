"""SQL dialects of views: how names, strings, types and constants are written.

Spark and Hive read views in Hive's dialect, Athena in Presto's. Trino reads both: its legacy translation of a Hive view rewrites quotes and nothing
else (`HiveQlToTrinoTranslator`), so that every type name and function in Hive's dialect must mean the same in Trino. DuckDB reads no catalog: in its
text, queries over files stand for the tables.
Type names: https://trino.io/docs/current/language/types.html, and the mapping of its Hive connector.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.core.catalog.ddl import quoted
from compactor.core.model import types

HIVE_NAME, PRESTO_NAME, DUCKDB_NAME = "hive", "presto", "duckdb"
_PRESTO = {"int": "integer", "float": "real", "string": "varchar", "binary": "varbinary", "timestamp": "timestamp(3)"}
_PRESTO |= {"decimal": "decimal({},{})", "array": "array({})", "map": "map({},{})", "struct": "row({})"}
_DUCKDB = {name: name.upper() for name in ("boolean", "tinyint", "smallint", "bigint", "float", "double", "date")}
_DUCKDB |= {"int": "INTEGER", "string": "VARCHAR", "binary": "BLOB", "timestamp": "TIMESTAMPTZ"}
_DUCKDB |= {"decimal": "DECIMAL({},{})", "array": "{}[]", "map": "MAP({},{})", "struct": "STRUCT({})"}


@dataclass(frozen=True)
class Dialect:
    """How an engine writes SQL."""

    called: str
    """HIVE_NAME, PRESTO_NAME or DUCKDB_NAME."""
    name: Callable[[str], str]
    """Quotes an identifier."""
    text: Callable[[str], str]
    """Quotes a string."""
    type: Callable[[str], str]
    """Converts a Hive type text."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Name of a table → SQL that stands for it. Other tables are written as names."""
    as_text: Callable[[str, types.Type], str] | None = None
    """Returns SQL that converts a value of a type to text as Spark does; None: a cast does."""

    def table(self, database: str, name: str) -> str:
        """Return SQL for a table in a FROM clause."""
        source = self.sources.get(name)
        return source if source is not None else f"{self.name(database)}.{self.name(name)}"

    def moment(self, text: str) -> str:
        """Return a constant of a UTC timestamp such as `9999-12-31 00:00:00`."""
        return f"TIMESTAMPTZ '{text}+00'" if self.called == DUCKDB_NAME else f"TIMESTAMP '{text}'"

    def whole(self, value: int) -> str:
        """Return a constant of a 64-bit number."""
        return f"{value}L" if self.called == HIVE_NAME else str(value)

    def constant(self, value: Any, kind: str) -> str:
        """Return a constant of a Hive type. `value` is a value of that type as `types.constant` returns it.

        An expression with it and a column of that type has that type in every engine.

        >>> HIVE.constant(False, "boolean"), HIVE.constant("a", "string"), PRESTO.constant(7, "int")
        ('false', "'a'", "CAST('7' AS integer)")
        """
        if kind == "boolean":
            return "true" if value else "false"
        if kind == "string":
            # Spark would replace `${name}` in the text of a view by the reader's setting of this name
            parts = re.split(r"(?<=\$)(?=\{)", str(value))
            return self.text(parts[0]) if len(parts) == 1 else f"concat({', '.join(self.text(part) for part in parts)})"
        if kind == "timestamp" and self.called == DUCKDB_NAME:
            return self.moment(str(value))
        return f"CAST({self.text(_number(value))} AS {self.type(kind)})"


PORTABLE = re.compile(r"tinyint|smallint|int|bigint|double|date|decimal\(\d+,\d+\)", re.IGNORECASE)
"""Type names that Spark, Hive and Trino understand alike: the only ones that Hive's dialect may use."""


def _number(value: Any) -> str:
    """Return a number as every engine reads it out of text."""
    special = {math.inf: "Infinity", -math.inf: "-Infinity"} if isinstance(value, float) else {}
    return special.get(value) or ("NaN" if value != value else str(value))


def _hive_text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _presto_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _presto_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _typed(kind: types.Type, forms: Mapping[str, str]) -> str:
    """Return a type in the words of `forms`, which have braces for its parts; a struct has one, for all members."""
    form = forms.get(kind[0], kind[0])
    if kind[0] == "struct":
        return form.format(",".join(f"{_presto_name(name)} {_typed(member, forms)}" for name, member in kind[1]))
    return form.format(*(_typed(part, forms) if isinstance(part, tuple) else part for part in kind[1:]))


def presto_type(text: str) -> str:
    """Return a Hive type text in Presto's form.

    >>> presto_type("array<struct<a:int,b c:string>>")
    'array(row("a" integer,"b c" varchar))'
    """
    return _typed(types.parse(text), _PRESTO)


HIVE = Dialect(HIVE_NAME, quoted, _hive_text, str)
PRESTO = Dialect(PRESTO_NAME, _presto_name, _presto_text, presto_type)


def duckdb_type(text: str) -> str:
    """Return a Hive type text in DuckDB's form.

    >>> duckdb_type("array<struct<a:int,b c:map<string,timestamp>>>")
    'STRUCT("a" INTEGER,"b c" MAP(VARCHAR,TIMESTAMPTZ))[]'
    """
    return _typed(types.parse(text), _DUCKDB)


DUCKDB = Dialect(DUCKDB_NAME, _presto_name, _presto_text, duckdb_type)
