"""Read tables in Python, without a JVM: DuckDB reads the Parquet files of one version, on this machine or in S3.

    from compactor.read import Table

    table = Table.open("compactor.yaml", "student")
    table.to_pandas(columns=["id", "email"], filter="id < 100")

A Table shows one version, whatever is committed meanwhile. Open it again to see newer rows. The files of a version stay for the `grace` period after
a newer one has replaced it, for longer if the version is pinned. Needs the extra `read`: pandas, pyarrow and pytz.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.app.base import AppBase
from compactor.app.query import micros
from compactor.core.catalog import base_views, feed
from compactor.core.catalog.ddl import Column, ViewDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.reports import TableFile, table_files
from compactor.duckdb import queries
from compactor.duckdb import session as duck
from compactor.flows.read.visible import kept
from compactor.flows.table import Table as Stored

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    import pandas
    import pyarrow
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


@dataclass(frozen=True)
class Source:
    """A table's Snapshot and a connection for it."""

    stored: Stored
    snapshot: Snapshot
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)
    """Held while footers are read: a connection answers one query at a time."""

    @property
    def remote(self) -> bool:
        return self.stored.spec.root.startswith("s3://")

    @cached_property
    def connection(self) -> DuckDBPyConnection:
        made: DuckDBPyConnection = duck.connect(self.stored.storage, self.remote)
        return made


class Rows:
    """Rows of one version of a table: the current ones, the history, or changes. Nothing is read before a `to_` method is called.

    Every `to_` method takes `columns` (default: all) and `filter`, a condition in SQL such as `"id < 100 AND email LIKE '%@example.org'"`. Only
    these columns, and the row groups that may hold such rows, are read.
    """

    def __init__(self, source: Source, define: Callable[[Any, TableSpec, Snapshot], ViewDef]) -> None:
        """Keep what defines the rows. `define`: one of the functions in `queries`."""
        self._source, self._define = source, define

    @cached_property
    def _view(self) -> ViewDef:
        source = self._source
        with source.lock:
            return duck.with_errors(lambda: self._define(source.connection, source.stored.spec, source.snapshot))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns, with Hive types."""
        return self._view.columns

    @property
    def sql(self) -> str:
        """Return the query as SQL of DuckDB. It names every file, so that DuckDB can run it without compactor; in S3 with its `httpfs` extension."""
        return queries.portable(self._view)

    def to_arrow(self, columns: Sequence[str] | None = None, filter: str | None = None) -> pyarrow.Table:
        """Return the rows as a pyarrow Table. Timestamps have the time zone UTC."""
        return duck.with_errors(self.to_batches(columns, filter).read_all)

    def to_batches(self, columns: Sequence[str] | None = None, filter: str | None = None, rows: int = 100_000) -> pyarrow.RecordBatchReader:
        """Return a reader of batches of at most `rows` rows, for results larger than memory."""
        _require("pyarrow")
        cursor = self._source.connection.cursor()
        duck.configure(cursor)
        made = duck.with_errors(lambda: cursor.sql(self._selected(columns, filter)))
        reader: pyarrow.RecordBatchReader = duck.with_errors(lambda: made.to_arrow_reader(rows))
        return reader

    def to_pandas(self, columns: Sequence[str] | None = None, filter: str | None = None) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame.

        Whole numbers and booleans keep their type beside nulls (`Int64`, `boolean`), whole numbers also inside of lists, structs and maps. Decimals
        are `decimal.Decimal`, dates `datetime.date`. Raises Refused for dates and nested times outside of the years 1 to 9999.
        """
        _require("pandas")
        import pandas
        import pyarrow

        exact = {
            **{getattr(pyarrow, f"int{bits}")(): getattr(pandas, f"Int{bits}Dtype")() for bits in (8, 16, 32, 64)},
            pyarrow.bool_(): pandas.BooleanDtype(),
        }
        rows = self.to_arrow(columns, filter)
        try:
            return rows.to_pandas(types_mapper=exact.get, integer_object_nulls=True)
        except ValueError as error:
            raise Refused(f"table {self._source.stored.name}: a value does not fit pandas ({error}). Use to_arrow, or other columns.") from error

    def to_duckdb(
        self, connection: DuckDBPyConnection | None = None, columns: Sequence[str] | None = None, filter: str | None = None
    ) -> DuckDBPyRelation:
        """Return a relation of DuckDB, to go on with: conditions and columns that are added to it reach the files.

        `connection`: where the relation belongs to; default a connection of the table's own. Its time zone is set to UTC.
        """
        if connection is not None:
            duck.prepare(connection, self._source.stored.storage, self._source.remote)
        used = connection if connection is not None else self._source.connection
        made: DuckDBPyRelation = duck.with_errors(lambda: used.sql(self._selected(columns, filter)))
        return made

    def _selected(self, columns: Sequence[str] | None, filter: str | None) -> str:
        if columns is not None and not columns:
            raise Refused(f"table {self._source.stored.name}: `columns` is empty; name some, or omit it for all")
        names = [column.name for column in self.columns]
        unknown = [name for name in columns or () if name.lower() not in names]
        if unknown:
            raise Refused(f"table {self._source.stored.name}: there is no column {unknown[0]}; expected {', '.join(names)}")
        shown = ", ".join(DUCKDB.name(name) for name in columns) if columns is not None else "*"
        where = f" WHERE {filter}\n" if filter is not None else ""
        return f"SELECT {shown} FROM ({self._view.text}) AS {DUCKDB.name(self._source.stored.name)}{where}"


class Table(Rows):
    """The rows of a table at one version."""

    def __init__(self, stored: Stored, snapshot: Snapshot) -> None:
        super().__init__(Source(stored, snapshot), queries.rows)

    def __repr__(self) -> str:
        """Return text such as `<Table student, version 12>`."""
        return f"<Table {self._source.stored.spec.name}, version {self._source.snapshot.version}>"

    @classmethod
    def open(cls, config: str | Path, name: str, version: int | None = None) -> Table:
        """Open a table of a configuration at the version that readers see (of a table with `checks:` one that passed), or at another one.

        Raises ConfigError, NoRowsYet for a table without a version, and Refused for a version that is not kept.
        """
        stored = AppBase.open(config).table(name)
        return cls(stored, kept(stored, version))

    @property
    def name(self) -> str:
        """Return the table's name in the configuration."""
        return self._source.stored.name

    @property
    def version(self) -> int:
        return self._source.snapshot.version

    @property
    def whole_to(self) -> str | None:
        """Return the time (ISO 8601) before which every change of the source is in this version; None if that is not known."""
        return self._source.snapshot.watermark.whole_to

    @property
    def key(self) -> tuple[str, ...]:
        """Return the key columns, as the view names them."""
        schema = self._source.snapshot.schema
        return tuple(schema.view_name(schema.field(name)) for name in schema.key)

    def as_of(self, time: str | datetime) -> Rows:
        """Return the rows at a source time (text without a zone is UTC). Needs `history: true`.

        Raises Refused for a table without history.
        """
        moment = micros(time if isinstance(time, str) else time.isoformat())
        queries.check_history(self._source.stored.spec, self._source.snapshot)
        return Rows(self._source, lambda connection, spec, snapshot: queries.as_of(connection, spec, snapshot, moment))

    @property
    def compacted_version(self) -> int:
        """Return the version that `compacted` gives the rows of."""
        return base_views.state(self._source.snapshot)[0]

    def compacted(self) -> Rows:
        """Return the rows as of the last compaction, as `<table>_ro` shows them. They are older and cost no join with the Delta."""
        return Rows(self._source, queries.compacted_rows)

    def history(self) -> Rows:
        """Return every version of every row, as `<table>_history` shows them. Needs `history: true`."""
        queries.check_history(self._source.stored.spec, self._source.snapshot)
        return Rows(self._source, queries.history)

    def changes(self, since: int) -> Rows:
        """Return what changed after version `since`, up to this one. Needs `change_feed: true`.

        Order the rows by `_commit_version`. Raises Refused if the feed does not reach back to `since`.
        """
        feed.check_start(self._source.stored.spec, self._source.snapshot, since)

        def define(connection: Any, spec: TableSpec, snapshot: Snapshot) -> ViewDef:
            return queries.changes(connection, spec, snapshot, list(self._source.stored.after(since, snapshot)))

        return Rows(self._source, define)

    def files(self) -> list[TableFile]:
        """Return the Parquet files of this version."""
        return table_files(self._source.stored.spec, self._source.snapshot)


def _require(package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise Refused(f"this needs the package {package}: {duck.INSTALL}") from None
