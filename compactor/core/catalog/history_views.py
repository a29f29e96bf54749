"""`<t>_history`: the table of stored events, its partitions, and the view that shows versions. Pure: (spec, snapshot) → values.

The view is pinned as the main one is (`core/catalog/views.py`): closed parts by their set and the newest of them, open rows by the two ids.
`__end_day` is the partition column: `d2026-11-20` for versions that ended that day, `open` for those that did not, so that
`__end_day >= 'd2026-11-20'` leaves out what had ended before.
"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.dialect import HIVE, PRESTO, Dialect
from compactor.core.model import times, types
from compactor.core.model.history import FOREVER, ROWS, History, values
from compactor.core.model.layout import Layout
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

FAR = "9999-12-31 00:00:00"
"""`__end_time` of an open version under `history_end: 9999-12-31`."""


def state_types(position: str) -> tuple[tuple[str, str], ...]:
    """Name and Hive type of what a stored event holds beside the table's columns; `position`: the type of a Position.

    | column | meaning |
    |---|---|
    | `_op` | u, d, or t: a truncate as it met this key |
    | `_version` | the version that absorbed it |
    | `__time_us` | the source's time; `__begun_us`: the greatest of it and of those before it (H26) |
    | `__missing` | columns that the event did not tell |
    | `_from`, `_moved_to`, `__link` | as in `spark/rows/conform.py` |
    | `__shown` | whether readers see it: it is the last event of a version |
    | `__start_us`, `__start_time`, `__start_position`, `__previous_key` | of the version's first event |
    | `__end_us`, `__end_time`, `__end_position` | of the event that followed; none: `FOREVER`, null, null |
    | `__is_deleted` | that event deleted the row |
    """
    return (
        ("_op", "string"),
        ("_version", "bigint"),
        ("_position", position),
        ("__time_us", "bigint"),
        ("__begun_us", "bigint"),
        ("__missing", "array<string>"),
        ("_from", "string"),
        ("_moved_to", "string"),
        ("__link", "string"),
        ("__shown", "boolean"),
        ("__start_time", "timestamp"),
        ("__end_time", "timestamp"),
        ("__start_us", "bigint"),
        ("__end_us", "bigint"),
        ("__is_deleted", "boolean"),
        ("__start_position", position),
        ("__end_position", position),
        ("__previous_key", "string"),
    )


_SHOWN = (
    ("__start_time", "timestamp", "source time from which the row was so"),
    ("__end_time", "timestamp", "source time at which that ended"),
    ("__is_current", "boolean", "whether it is so still"),
    ("__is_deleted", "boolean", "whether a delete or truncate ended it"),
    ("__start_position", "", "Position of the change that began it"),
    ("__end_position", "", "Position of the change that ended it"),
    ("__previous_key", "string", "JSON array: the key that the row had before, where this version begins with a key change"),
    ("__start_us", "bigint", "__start_time as microseconds since 1970"),
    ("__end_us", "bigint", f"__end_time as microseconds since 1970; {FOREVER} while open"),
    ("__end_day", "string", "partition: d and the day of __end_time (UTC), or open"),
)


def name(spec: TableSpec) -> str:
    """The view's."""
    return f"{spec.view}_history"


def table(spec: TableSpec, snapshot: Snapshot) -> TableDef:
    """The table of stored events."""
    state = (Column(column, kind) for column, kind in state_types(views.position_type(snapshot.order)))
    return TableDef(
        spec.tables_in,
        views.table_name(spec, ROWS, snapshot.schema.generation),
        (*state, *(Column(field.name, field.type, views.column_comment(field)) for field in snapshot.schema.fields)),
        tuple(Column(column, "string") for column in ("history_set", "history_day", "history_part")),
        Layout(spec.root, spec.landing).inside("history"),
        {views.UUID: snapshot.uuid},
        comment=f"compactor: events of {spec.database}.{name(spec)}; read the view",
    )


def partitions(spec: TableSpec, history: History) -> list[PartitionDef]:
    """What the view reads, with statistics (E2)."""
    layout = Layout(spec.root, spec.landing)
    return [PartitionDef(value, layout.inside(part.path), part.rows, part.size, len(part.files)) for value, part in values(history)]


def view_text(spec: TableSpec, snapshot: Snapshot, history: History, dialect: Dialect = HIVE) -> str:
    """Closed versions, open rows that the open Delta does not replace, and the Delta's."""
    q = dialect.name
    rows = f"{q(spec.tables_in)}.{q(views.table_name(spec, ROWS, snapshot.schema.generation))}"
    h, d = q("__h"), q("__d")
    select = f"SELECT {_select(h, spec, snapshot.schema, dialect)} FROM {rows} {h} WHERE {h}.{q('__shown')}"
    out = []
    if history.closed:
        newest = max(part.id for part in history.closed)
        out.append(f"{select} AND {h}.{q('history_set')} = '{history.set}' AND {h}.{q('history_part')} <= '{newest}'")
    if history.open:
        live = f"{select} AND {h}.{q('history_set')} = '{history.open_id}'"
        if history.delta:
            same = " AND ".join(f"{d}.{q(column)} = {h}.{q(column)}" for column in snapshot.schema.key)
            live += f" AND NOT EXISTS (SELECT 1 FROM {rows} {d} WHERE {d}.{q('history_set')} = '{history.delta.id}' AND {same})"
        out.append(live)
    if history.delta:
        out.append(f"{select} AND {h}.{q('history_set')} = '{history.delta.id}'")
    return " UNION ALL ".join(out) if out else f"{select} AND {h}.{q('history_set')} = '{history.open_id}'"


def _select(alias: str, spec: TableSpec, schema: Schema, dialect: Dialect) -> str:
    q = dialect.name
    end = f"{alias}.{q('__end_time')}"
    computed = {
        "__end_time": end if spec.history_end == "null" else f"coalesce({end}, TIMESTAMP '{FAR}')",
        "__is_current": f"({alias}.{q('__end_us')} = {FOREVER})",
        "__end_day": f"{alias}.{q('history_day')}",
    }
    payload = [f"{views.value(alias, field, dialect)} AS {q(schema.view_name(field))}" for field in schema.payload]
    return ", ".join([*payload, *(f"{computed.get(column, f'{alias}.{q(column)}')} AS {q(column)}" for column, _, _ in _SHOWN)])


def view(spec: TableSpec, snapshot: Snapshot, history: History, dialect: Dialect = HIVE) -> ViewDef:
    """The view as the catalog is to hold it."""
    position = types.text(types.parse(views.position_type(snapshot.order)))
    schema = snapshot.schema
    payload = (Column(schema.view_name(field), types.text(types.parse(field.type)), views.column_comment(field)) for field in schema.payload)
    columns = (*payload, *(Column(column, kind or position, comment) for column, kind, comment in _SHOWN))
    properties = {views.UUID: snapshot.uuid, views.VERSION: str(snapshot.version), "comment": f"history of {spec.name}, kept by compactor"}
    called = name(spec) if dialect is HIVE else f"{name(spec)}_{views.ATHENA}"
    return ViewDef(spec.database, called, view_text(spec, snapshot, history, dialect), columns, properties, dialect.called)


def published(spec: TableSpec, snapshot: Snapshot) -> list[ViewDef]:
    """The view in every form; none for a table without a history."""
    if snapshot.history is None:
        return []
    return [view(spec, snapshot, snapshot.history), *([view(spec, snapshot, snapshot.history, PRESTO)] if views.ATHENA in spec.engines else [])]


def as_of_text(spec: TableSpec, columns: Sequence[str], moment: int) -> str:
    """The rows at a source time (microseconds since 1970), for Hive and Spark. `docs/history.md` shows it as a recipe."""
    # under `delete: soft` the view shows deleted rows too, the history only what was there
    chosen = ", ".join(f"false AS {HIVE.name(column)}" if spec.soft and column == views.DELETED else HIVE.name(column) for column in columns)
    day = times.moment(moment).strftime("d%Y-%m-%d")
    known = f"`__end_day` >= '{day}' AND `__start_us` <= {moment}L AND `__end_us` > {moment}L"
    return f"SELECT {chosen} FROM {HIVE.name(spec.database)}.{HIVE.name(name(spec))} WHERE {known}"
