"""DuckDB in memory, with settings that make its answers equal Spark's, and SQL statements over views of Snapshots. Errors become one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from compactor.core.catalog.ddl import ViewDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.catalog.statements import READS, first_word
from compactor.core.model.errors import CompactorError, Refused
from compactor.duckdb.rows import object_text
from compactor.duckdb.sources import PROTOCOL
from compactor.ports import Storage

INSTALL = "pip install pandas 'pyarrow>=20' pytz"
"""What to do if a package is missing."""

SETTINGS = {
    # timestamps are instants in UTC
    "TimeZone": "UTC",
    # as in Spark: nulls come first, with DESC last
    "default_null_order": "nulls_first_on_asc_last_on_desc",
    # a division by zero is null, not infinite
    "ieee_floating_point_ops": "false",
    "enable_progress_bar": "false",
    # the name of a missing table is no variable of ours
    "python_enable_replacements": "false",
    # nothing is fetched from the network
    "autoinstall_known_extensions": "false",
}


def connect(storage: Storage, remote: bool) -> Any:
    """Return a DuckDB connection in memory that reads files of this store. `remote`: whether files are in S3."""
    import duckdb

    connection = duckdb.connect(":memory:")
    configure(connection)
    if remote:
        register(connection, storage)
    return connection


def configure(connection: Any) -> None:
    """Apply the settings to a connection, or to a cursor, which does not inherit them."""
    for name, value in SETTINGS.items():
        connection.execute(f"SET {name} = '{value}'")


def prepare(connection: Any, storage: Storage, remote: bool) -> None:
    """Prepare anybody's DuckDB connection for the queries of `queries`. Sets its time zone to UTC."""
    connection.execute(f"SET TimeZone = '{SETTINGS['TimeZone']}'")
    if remote:
        register(connection, storage)


def register(connection: Any, storage: Storage) -> None:
    """Let a connection read objects in S3 through the store."""
    from compactor.duckdb.store import StoreFileSystem

    if connection.filesystem_is_registered(PROTOCOL):
        # the connection may have read another configuration before
        connection.unregister_filesystem(PROTOCOL)
    connection.register_filesystem(StoreFileSystem(storage))


_T = TypeVar("_T")
_BATCH = 2_000
_UNKNOWN = re.compile(r"Catalog Error: Table with name (?P<name>.+?) does not exist", re.IGNORECASE)


class UnknownTable(Refused):
    """A statement reads a table that is neither in the configuration nor, if Spark runs it, in the catalog."""

    advice = "Check the name. `compactor status` lists the tables; beside them are `<table>_history` and `<table>_changes`, if they are switched on."

    def __init__(self, name: str, near: str = "") -> None:
        super().__init__(f"sql: there is no table {name}" + (f"; did you mean {near}?" if near else ""))
        self.name = name


class StatementRefused(Refused):
    """DuckDB cannot parse or compute a statement. If `--engine auto` asked Spark too, Spark's error is the second one in the message."""

    advice = "Correct the statement. DuckDB has its own dialect; `--engine spark` runs Hive's ([where they differ](readers.md#sql))."


class Session:
    """A DuckDB in memory. `databases`: where names without a database are looked up; `remote`: whether files are in S3."""

    def __init__(self, storage: Storage, databases: Sequence[str], remote: bool) -> None:
        self.connection = connect(storage, remote)
        self._path = ",".join(DUCKDB.name(name) for name in dict.fromkeys(databases))
        for name in databases:
            self._schema(name)

    def define(self, view: ViewDef) -> None:
        self._schema(view.database)
        name = f"{DUCKDB.name(view.database)}.{DUCKDB.name(view.name)}"
        with_errors(lambda: self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {view.text}"))

    def drop(self, database: str, name: str) -> None:
        self._schema(database)
        self.connection.execute(f"DROP VIEW IF EXISTS {DUCKDB.name(database)}.{DUCKDB.name(name)}")

    def tree(self, text: str) -> dict[str, Any]:
        """Return the parse tree of a query. Raises StatementRefused."""
        (parsed,) = with_errors(lambda: self.connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone())
        result = json.loads(parsed)
        if result["error"]:
            raise StatementRefused(f"sql: {result['error_type'].capitalize()} Error: {result['error_message']}")
        tree: dict[str, Any] = result["statements"][0]
        return tree

    def bind(self, text: str) -> None:
        """Raise what `query` would raise for a query without computing it."""
        with_errors(lambda: self._cursor().sql(text))

    def query(self, text: str, names: Sequence[str] | None = None, as_spark: bool = False) -> tuple[list[str], Iterator[str]]:
        """Run one statement. Return its columns, and its rows as JSON objects; no columns for a statement without a result.

        `names`: the names of the columns, if not DuckDB's; `as_spark`: a sum beyond 64 bits is an error. Raises UnknownTable, StatementRefused, and
        Refused for other mistakes.
        """
        cursor = self._cursor()
        if first_word(text) not in READS:
            return _other(cursor, text)
        relation = with_errors(lambda: cursor.sql(text))
        columns, kinds = list(names or relation.columns), list(relation.types)
        # by place: two columns may have the same name
        places = [f"c{at}" for at in range(len(columns))]
        values = [f"CAST(r.{name} AS BIGINT)" if as_spark and kind.id == "hugeint" else f"r.{name}" for name, kind in zip(places, kinds)]
        chosen = object_text(columns, values, kinds)
        # the statement may end in a comment
        with_errors(lambda: cursor.execute(f"SELECT {chosen} FROM ({text}\n) AS r({', '.join(places)})"))
        return columns, _rows(cursor, with_errors(lambda: cursor.fetchmany(_BATCH)))

    def _cursor(self) -> Any:
        # one for each statement: the rows of an earlier one may still be read
        cursor = self.connection.cursor()
        configure(cursor)
        cursor.execute(f"SET search_path = {DUCKDB.text(self._path)}")
        return cursor

    def _schema(self, name: str) -> None:
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {DUCKDB.name(name)}")


def _rows(cursor: Any, batch: list[tuple[str]]) -> Iterator[str]:
    while batch:
        for (text,) in batch:
            yield text
        batch = with_errors(lambda: cursor.fetchmany(_BATCH))


def _other(cursor: Any, text: str) -> tuple[list[str], Iterator[str]]:
    """Run a statement that is no query, such as `explain` or `copy`. Its few rows are Python values."""
    with_errors(lambda: cursor.execute(text))
    columns: Sequence[str] = [column[0] for column in cursor.description or ()]
    rows = with_errors(cursor.fetchall) if columns else []
    return list(columns), iter([json.dumps(dict(zip(columns, row)), ensure_ascii=False, separators=(",", ":"), default=str) for row in rows])


def with_errors(call: Callable[[], _T]) -> _T:
    """Call DuckDB. Its errors become StatementRefused, Refused if not the statement is the cause, or the error of the store behind them."""
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
        kind = Refused if isinstance(error, duckdb.OperationalError) else StatementRefused
        raise kind(f"sql: {text[:2000]}") from error
