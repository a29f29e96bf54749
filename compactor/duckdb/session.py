"""SQL statements over views of Snapshots: a DuckDB in memory, whose errors become one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from compactor.core.catalog.ddl import ViewDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.catalog.statements import READS, first_word
from compactor.core.model.errors import CompactorError, Refused
from compactor.duckdb.connection import configure, connect
from compactor.duckdb.rows import object_text
from compactor.ports import Storage

_T = TypeVar("_T")
_BATCH = 2_000
_UNKNOWN = re.compile(r"Catalog Error: Table with name (?P<name>.+?) does not exist", re.IGNORECASE)


class UnknownTable(Refused):
    """A statement reads a table that is neither in the configuration nor, if Spark runs it, in the catalog."""

    advice = "Check the name. `compactor status` lists the tables; beside them are `<table>_history` and `<table>_changes`, if they are switched on."

    def __init__(self, name: str, near: str = "") -> None:
        super().__init__(f"sql: there is no table {name}" + (f"; did you mean {near}?" if near else ""))
        self.name = name


class Session:
    """A DuckDB in memory. `databases`: where names without a database are looked up; `remote`: whether files are in S3."""

    def __init__(self, storage: Storage, databases: Sequence[str], remote: bool) -> None:
        self.connection = connect(storage, remote)
        self._path = ",".join(DUCKDB.name(name) for name in dict.fromkeys(databases))
        for name in databases:
            self._schema(name)

    def define(self, view: ViewDef) -> None:
        """Create or replace a view."""
        self._schema(view.database)
        name = f"{DUCKDB.name(view.database)}.{DUCKDB.name(view.name)}"
        with_errors(lambda: self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {view.text}"))

    def drop(self, database: str, name: str) -> None:
        """Drop a view. A missing one is ignored."""
        self._schema(database)
        self.connection.execute(f"DROP VIEW IF EXISTS {DUCKDB.name(database)}.{DUCKDB.name(name)}")

    def query(self, text: str) -> tuple[list[str], Iterator[str]]:
        """Run one statement. Return its columns, and its rows as JSON objects; no columns for a statement without a result.

        Raises UnknownTable, and Refused for other mistakes.
        """
        # a cursor of its own: the rows of an earlier statement may still be read
        cursor = self.connection.cursor()
        configure(cursor)
        cursor.execute(f"SET search_path = {DUCKDB.text(self._path)}")
        if first_word(text) not in READS:
            return _other(cursor, text)
        relation = with_errors(lambda: cursor.sql(text))
        columns, kinds = list(relation.columns), list(relation.types)
        # by place: two columns may have the same name
        names = [f"c{at}" for at in range(len(columns))]
        chosen = object_text(columns, [f"r.{name}" for name in names], kinds)
        # the statement may end in a comment
        with_errors(lambda: cursor.execute(f"SELECT {chosen} FROM ({text}\n) AS r({', '.join(names)})"))
        return columns, _rows(cursor)

    def _schema(self, name: str) -> None:
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {DUCKDB.name(name)}")


def _rows(cursor: Any) -> Iterator[str]:
    while batch := with_errors(lambda: cursor.fetchmany(_BATCH)):
        for (text,) in batch:
            yield text


def _other(cursor: Any, text: str) -> tuple[list[str], Iterator[str]]:
    """Run a statement that is no query, such as `explain` or `copy`. Its few rows are Python values."""
    with_errors(lambda: cursor.execute(text))
    columns: Sequence[str] = [column[0] for column in cursor.description or ()]
    rows = with_errors(cursor.fetchall) if columns else []
    return list(columns), iter([json.dumps(dict(zip(columns, row)), ensure_ascii=False, separators=(",", ":"), default=str) for row in rows])


def with_errors(call: Callable[[], _T]) -> _T:
    """Call DuckDB. Its errors become Refused, or the error of the store behind them."""
    import duckdb

    try:
        return call()
    except duckdb.Error as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, CompactorError):
            raise cause from error
        # the part after it shows the text around the statement, which is ours
        text = str(error).strip().partition("\n\nLINE ")[0]
        unknown = _UNKNOWN.search(text)
        if unknown is not None:
            raise UnknownTable(unknown["name"]) from error
        raise Refused(f"sql: {text[:2000]}") from error
