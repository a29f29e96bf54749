"""SQL on the configured tables without Spark: DuckDB reads the files of the versions that readers see. No catalog and no lock is needed."""

from __future__ import annotations

import difflib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from compactor.app.query import GENERATION, Rows
from compactor.core.catalog import base_views, daily_views, feed, history_views, statements, views
from compactor.core.catalog.ddl import ViewDef
from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.parallel import in_parallel
from compactor.duckdb import exact, queries
from compactor.duckdb.exact import Inexact
from compactor.duckdb.session import Session, StatementRefused, UnknownTable, connect
from compactor.flows.publish import daily
from compactor.flows.read.visible import none_visible, visible
from compactor.flows.table import Table

if TYPE_CHECKING:
    from compactor.app.base import AppBase

log = logging.getLogger(__name__)

HISTORY, CHANGES, ROWS, DAYS, COMPACTED = "history", "changes", "rows", "days", "compacted"


_UNKNOWN_TO_SPARK = ("PARSE_SYNTAX_ERROR", "UNRESOLVED_ROUTINE")
_DUCKDB_ONLY = ("summarize", "pivot", "unpivot", "describe", "desc", "show")
"""First words of statements whose result only DuckDB has, or has in this form."""


def either(local: LocalSql, text: str, moment: int | None, spark: Callable[[], Rows]) -> Rows:
    """Run a statement on DuckDB if it means the same in Spark, else on Spark.

    What only one engine can parse runs there. Raises Refused with the errors of both if none runs it.
    """
    try:
        return local.rows(text, moment, only_exact=True)
    except (Inexact, StatementRefused, UnknownTable) as error:
        why = str(error).removeprefix("sql: ")
        log.warning("runs on Spark: %s", why.partition("\n")[0])
        try:
            return spark()
        except Refused as other:
            if isinstance(error, Inexact) and any(code in str(other) for code in _UNKNOWN_TO_SPARK):
                log.warning("runs on DuckDB: Spark does not know this syntax")
                return local.rows(text, moment)
            if isinstance(error, StatementRefused):
                raise StatementRefused(f"{error}\nSpark: {str(other).removeprefix('sql: ')}") from other
            if isinstance(error, UnknownTable) and "TABLE_OR_VIEW_NOT_FOUND" in str(other):
                # ours has the hint
                raise error from other
            raise


def possible(text: str) -> bool:
    """Return whether a statement is one that DuckDB may run: it only reads."""
    if statements.first_word(text) in ("describe", "desc", "show"):
        return statements.described(text) is not None or statements.shows_tables(text)
    return statements.first_word(text) in statements.READS


class LocalSql:
    """Statements on the tables of an App, at the versions that readers see."""

    def __init__(self, app: AppBase) -> None:
        self._app = app
        self._specs = app.specs()
        self._lock = threading.Lock()
        remote = any(spec.root.startswith("s3://") for spec in self._specs)
        databases = [app.settings.catalog.database, *(name for spec in self._specs for name in (spec.database, spec.tables_in))]
        self._session = Session(app.runtime.storage, databases, remote)

    def rows(self, text: str, moment: int | None = None, only_exact: bool = False) -> Rows:
        """Run a statement. Raises UnknownTable, StatementRefused if another engine may run it, and Refused for other mistakes.

        `moment` (microseconds since 1970): show the tables as of that source time; `only_exact`: raise Inexact if Spark may answer otherwise.
        """
        with self._lock:
            if statements.shows_tables(text):
                return Rows(["namespace", "tableName", "isTemporary"], list(self._listed()))
            described, written = statements.described(text), statements.for_duckdb(text)
            defined = self._define(statements.mentioned(text), moment, only_exact)
            try:
                if described is not None:
                    return _described(defined, described)
                columns = self._names_in_spark(text, written, defined.values()) if only_exact else None
                return Rows(*self._session.query(written, columns, only_exact))
            except UnknownTable as error:
                self._explain(error, moment)
                names = {name for spec in self._specs for name in _names(spec)} - {error.name.lower()}
                near = difflib.get_close_matches(error.name.lower(), sorted(names), 1, 0.6)
                raise UnknownTable(error.name, *near) from error

    def words(self, statement: str) -> list[str]:
        """Return the names of all views, and the columns of those that a statement mentions."""
        names = {name for spec in self._specs for name in _names(spec)}
        with self._lock:
            views_ = self._define(statements.mentioned(statement), None)
        return sorted(names | {column.name for view in views_.values() for column in view.columns})

    def _names_in_spark(self, text: str, written: str, defined: Iterable[ViewDef]) -> list[str] | None:
        """Return the names of a statement's columns in Spark; None if they are DuckDB's. Raises Inexact if Spark may answer otherwise.

        `written`: the statement with names as DuckDB quotes them.
        """
        if statements.first_word(text) in _DUCKDB_ONLY:
            return None
        if part := statements.in_one_dialect(text):
            raise Inexact(f"{part} means something else there")
        tables = {view.name: [(column.name, column.type) for column in view.columns] for view in defined}
        try:
            return exact.names(self._session.tree(written), tables)
        except Inexact as error:
            self._session.bind(written)
            raise Inexact(f"DuckDB may answer {error} otherwise (--engine duckdb takes it all the same)") from error
        except exact.UnknownColumn as missing:
            try:
                self._session.bind(written)
            except StatementRefused as error:
                # a mistake to Spark too
                raise Refused(str(error)) from error
            raise Inexact(f"DuckDB has a column {missing} that is in no table") from missing

    def _define(self, names: set[str], moment: int | None, only_exact: bool = False) -> dict[str, ViewDef]:
        """Define the views with these names, as of now or of a source time. Return name → view. `only_exact`: as Spark computes with them."""
        defined = {}
        for spec in self._specs:
            kinds = {kind for kind in (_kind(spec, name) for name in names) if kind is not None}
            snapshot = visible(self._app.table(spec.name)) if kinds else None
            if snapshot is not None:
                for view in self._views(spec, snapshot, kinds, moment):
                    self._session.define(queries.widened(view) if only_exact else view)
                    defined[view.name] = view
        return defined

    def _views(self, spec: TableSpec, snapshot: Snapshot, kinds: set[str], moment: int | None) -> Iterator[ViewDef]:
        connection = self._session.connection
        if HISTORY in kinds and snapshot.history is not None:
            yield queries.history(connection, spec, snapshot)
        if DAYS in kinds and snapshot.days is not None:
            table = self._app.table(spec.name)
            yield queries.days(connection, spec, snapshot, daily.forms(table, snapshot), daily.versions(table, snapshot))
        if COMPACTED in kinds:
            yield queries.compacted_rows(connection, spec, snapshot)
        if CHANGES in kinds and snapshot.feed is not None:
            versions = list(self._app.table(spec.name).after(snapshot.feed.first, snapshot))
            yield from queries.feed_tables(connection, spec, snapshot, versions)
        if ROWS in kinds:
            # what an earlier statement has defined is as of another time
            self._session.drop(spec.database, spec.view)
            if moment is None:
                yield queries.rows(connection, spec, snapshot)
            elif spec.history and snapshot.history is not None:
                yield queries.as_of(connection, spec, snapshot, moment)

    def _listed(self) -> Iterator[str]:
        """Yield what `show tables` shows: views of tables that have a version."""
        snapshots = in_parallel(lambda spec: visible(self._app.table(spec.name)), self._specs)
        for spec, snapshot in sorted(zip(self._specs, snapshots, strict=True), key=lambda each: each[0].view):
            if snapshot is not None:
                names = [spec.view, *([history_views.name(spec)] if snapshot.history else []), *([_changes(spec, snapshot)] if snapshot.feed else [])]
                names += [daily_views.called(spec)] if snapshot.days is not None else []
                names += [base_views.called(spec)] if spec.read_optimized else []
                for name in sorted(names):
                    yield json.dumps({"namespace": spec.database, "tableName": name, "isTemporary": False}, ensure_ascii=False, separators=(",", ":"))

    def _explain(self, error: UnknownTable, moment: int | None) -> None:
        """Raise NoRowsYet if the table is one of ours without a version, Refused if it has no history to read it as of a time."""
        for spec in self._specs:
            kind = _kind(spec, error.name.lower())
            snapshot = visible(self._app.table(spec.name)) if kind else None
            if kind and snapshot is None:
                raise none_visible(self._app.table(spec.name)) from error
            if snapshot is not None and spec.history and (kind == HISTORY or (kind == ROWS and moment is not None)):
                queries.check_history(spec, snapshot)
            if error.name.lower() == history_views.name(spec).lower() and not spec.history:
                raise Refused(f"table {spec.name} has no history: set `history: true`") from error
            if moment is not None and kind == ROWS and not spec.history:
                raise Refused(f"table {spec.name} has no history: set `history: true`, or omit --as-of") from error


def query_of_files(table: Table, snapshot: Snapshot) -> str:
    """Return the query for a version's rows over its files."""
    connection = connect(table.storage, table.spec.root.startswith("s3://"))
    return queries.portable(queries.rows(connection, table.spec, snapshot))


def _names(spec: TableSpec) -> dict[str, str]:
    """Return the name of every view and table → its kind."""
    history = {history_views.name(spec): HISTORY} if spec.history else {}
    history |= {daily_views.called(spec): DAYS} if spec.daily else {}
    history |= {base_views.called(spec): COMPACTED} if spec.read_optimized else {}
    return {f"{spec.name}_{feed.TABLE}": CHANGES, **history, spec.view: ROWS}


def _kind(spec: TableSpec, name: str) -> str | None:
    """Return the kind of a view or table of this name, without the number of its generation; None if it is none of the table's."""
    names = _names(spec)
    return names.get(name) or names.get(GENERATION.sub("", name))


def _changes(spec: TableSpec, snapshot: Snapshot) -> str:
    return views.table_name(spec, feed.TABLE, snapshot.schema.generation)


def _described(defined: dict[str, ViewDef], name: str) -> Rows:
    """Return the columns of a view as Hive describes them."""
    if name not in defined:
        raise UnknownTable(name)
    columns = [{"col_name": column.name, "data_type": column.type, "comment": column.comment or None} for column in defined[name].columns]
    return Rows(["col_name", "data_type", "comment"], [json.dumps(column, ensure_ascii=False, separators=(",", ":")) for column in columns])
