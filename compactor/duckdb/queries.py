"""The views of a Snapshot as SQL for DuckDB. The text comes from `core/catalog`, as for every engine; queries over files stand for the tables."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from compactor.core.catalog import base_views, daily_views, feed, history_views, views
from compactor.core.catalog.daily_views import Form
from compactor.core.catalog.ddl import Column, ViewDef
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.model import types
from compactor.core.model.errors import Refused
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.duckdb import sources
from compactor.duckdb.rows import spark_text


def rows(connection: Any, spec: TableSpec, snapshot: Snapshot) -> ViewDef:
    """Return the view with the current rows. The connection only opens footers."""
    dialect = dataclasses.replace(DUCKDB, sources=sources.of_rows(connection, spec, snapshot))
    return views.view(spec, snapshot, dialect)


def compacted_rows(connection: Any, spec: TableSpec, snapshot: Snapshot) -> ViewDef:
    """Return the view with the rows as of the last compaction."""
    dialect = dataclasses.replace(DUCKDB, sources=sources.of_rows(connection, spec, base_views.shown(snapshot)))
    return base_views.view(spec, snapshot, dialect)


def history(connection: Any, spec: TableSpec, snapshot: Snapshot) -> ViewDef:
    """Return the view with the versions of rows. Raises Refused for a table without history."""
    check_history(spec, snapshot)
    assert snapshot.history is not None  # noqa: S101 - checked
    dialect = dataclasses.replace(DUCKDB, sources=sources.of_history(connection, spec, snapshot))
    return history_views.view(spec, snapshot, snapshot.history, dialect)


def days(connection: Any, spec: TableSpec, snapshot: Snapshot, forms: Sequence[Form], versions: Iterable[tuple[str, Snapshot]]) -> ViewDef:
    """Return the view with the rows of frozen days. `forms`: those of all days; `versions`: (day, its version)."""
    tables = daily_views.tables(spec, snapshot, forms)
    dialect = dataclasses.replace(DUCKDB, sources=sources.of_days(connection, spec, tables, versions), as_text=spark_text)
    return daily_views.view(spec, snapshot, forms, dialect)


def widened(view: ViewDef) -> ViewDef:
    """Return a view whose small whole numbers are computed with as INTEGER. DuckDB takes `small * 100` for a SMALLINT, Spark for an int."""
    names = [DUCKDB.name(column.name) for column in view.columns if column.type in ("tinyint", "smallint")]
    changed = ", ".join(f"CAST({name} AS INTEGER) AS {name}" for name in names)
    return dataclasses.replace(view, text=f"SELECT * REPLACE ({changed}) FROM ({view.text})") if names else view


def portable(view: ViewDef) -> str:
    """Return the query of a view for a DuckDB without our file system."""
    return re.sub(f"'{sources.PROTOCOL}://[0-9]+@", "'s3://", view.text)


def check_history(spec: TableSpec, snapshot: Snapshot) -> None:
    """Raise Refused for a version without history."""
    if snapshot.history is None:
        begins = "it" if spec.history else "set `history: true`, it"
        raise Refused(f"table {spec.name}: version {snapshot.version} has no history; {begins} begins with the next run that has changes")


def as_of(connection: Any, spec: TableSpec, snapshot: Snapshot, moment: int) -> ViewDef:
    """Return the rows at a source time (microseconds since 1970). Raises Refused for a table without history, and for a time before it began."""
    past, shown = history(connection, spec, snapshot), views.view(spec, snapshot)
    dialect = dataclasses.replace(DUCKDB, sources={past.name: f"({past.text})"})

    def value(query: str) -> int | None:
        row = connection.execute(query).fetchone()
        return None if row is None else row[0]

    problem = history_views.not_begun(spec, snapshot.history.since if snapshot.history else None, moment, value, dialect)
    if problem is not None:
        raise Refused(problem)
    text = history_views.as_of_text(spec, [column.name for column in shown.columns], moment, dialect)
    return dataclasses.replace(shown, text=text)


def changes(connection: Any, spec: TableSpec, newest: Snapshot, snapshots: Sequence[Snapshot]) -> ViewDef:
    """Return the changes of these Snapshots (in the order of versions) in the columns and types of the newest one, which must have a feed."""
    for snapshot in snapshots:
        _check_types(spec, snapshot.schema, newest)
    schema, q, definition = newest.schema, DUCKDB.name, feed.table(spec, newest)
    # files of every generation are read in the columns of the newest
    made = [dataclasses.replace(newest, feed=snapshot.feed) for snapshot in snapshots]
    (_, source), *_ = sources.of_feed(connection, spec, made or [_idle(newest)]).values()
    own = [(column.name, column.name, column.type) for column in definition.columns if column.name not in schema.names]
    # the identity of a row without key
    own += [(name, name, schema.field(name).type) for name in schema.key if name not in [field.name for field in schema.payload]]
    taken = {name for name, _, _ in own}
    # `_deleted` or `_position` of the source, which the view shows under its name
    called = {field.name: field.name if schema.view_name(field) in taken else schema.view_name(field) for field in schema.payload}
    shown = [*own, *((field.name, called[field.name], field.type) for field in schema.payload)]
    text = f"SELECT {', '.join(f'{q(name)} AS {q(view)}' for name, view, _ in shown)} FROM {source}"
    return ViewDef(spec.database, definition.name, text, tuple(Column(view, types.text(types.parse(kind))) for _, view, kind in shown))


def _idle(newest: Snapshot) -> Snapshot:
    """Return a version without a part of the feed, so that its table is empty: a part of `newest` may be deleted by now."""
    return dataclasses.replace(newest, feed=newest.feed.idle() if newest.feed else None)


def feed_tables(connection: Any, spec: TableSpec, newest: Snapshot, snapshots: Sequence[Snapshot]) -> list[ViewDef]:
    """Return the tables of the change feed as the catalog has them, one a generation. `snapshots`: in the order of versions."""
    tables = sources.of_feed(connection, spec, snapshots or [_idle(newest)]).values()
    return [ViewDef(table.database, table.name, f"SELECT * FROM {source}", (*table.columns, *table.partition_columns)) for table, source in tables]


_EXACT = (*types.INTEGERS, "decimal")


def _check_types(spec: TableSpec, schema: Schema, newest: Snapshot) -> None:
    kinds = {field.name: types.parse(field.type) for field in newest.schema.fields}
    for field in schema.fields:
        old, new = types.parse(field.type), kinds.get(field.name)
        # other types are converted by a run, in ways that a cast does not follow
        if new is not None and old != new and not (types.widest(old, new) == new and {old[0], new[0]} <= {*_EXACT}):
            raise Refused(
                f"table {spec.name}: the column {field.source} was {types.text(old)} and is {types.text(new)} now. Read the changes since the "
                f"version that changed its type, or all of them with `compactor changes {spec.name} --after N`."
            )
