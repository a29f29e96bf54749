"""`<t>_history`: the table of stored events, its partitions, and the view that shows versions of rows.

The view shows exactly one Snapshot, as the main view does (`core/catalog/views.py`): literals name the set and the newest of the closed parts, and
the two ids of open rows. `__end_day` is the partition column: `d2026-11-20` for versions that ended on that day, `open` for current ones. The
filter `__end_day >= 'd2026-11-20'` skips everything that ended before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.dialect import HIVE, Dialect
from compactor.core.model import times, types
from compactor.core.model.history import FOREVER, ROWS, History, values
from compactor.core.model.position import ddl
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec


def state_types(position: str) -> tuple[tuple[str, str], ...]:
    """Return (name, Hive type) of the columns of a stored event beside the table's own. `position`: the type of a Position.

    | column | meaning |
    |---|---|
    | `_op` | u, d, or t (a truncate, one row for each key) |
    | `_version` | the version that took the event |
    | `__time_us` | the source's time; `__begun_us`: the greatest time of this event and all before it |
    | `__missing` | columns without a value in the event |
    | `_from`, `_moved_to`, `__link` | as in `spark/rows/conform.py` |
    | `__shown` | whether it is the last event of a version, so that readers see it |
    | `__start_us`, `__start_time`, `__start_position`, `__previous_key` | values of the version's first event |
    | `__end_us`, `__end_time`, `__end_position` | values of the next event; `FOREVER`, null, null without one |
    | `__is_deleted` | whether the next event deleted the row |
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
    ("__start_time", "timestamp", "source time at which this version began"),
    ("__end_time", "timestamp", "source time at which this version ended"),
    ("__is_current", "boolean", "whether this version is the current one"),
    ("__is_deleted", "boolean", "whether a delete or truncate ended this version"),
    ("__start_position", "", "Position of the change that began this version"),
    ("__end_position", "", "Position of the change that ended this version"),
    ("__previous_key", "string", "JSON array: the earlier key of the row, if this version begins with a key change"),
    ("__start_us", "bigint", "__start_time as microseconds since 1970"),
    ("__end_us", "bigint", f"__end_time as microseconds since 1970; {FOREVER} while open"),
    ("__end_day", "string", "partition: d and the day of __end_time (UTC), or open"),
)


def name(spec: TableSpec) -> str:
    return f"{spec.view}_history"


def table(spec: TableSpec, snapshot: Snapshot) -> TableDef:
    state = (Column(column, kind) for column, kind in state_types(ddl(snapshot.order)))
    return TableDef(
        spec.tables_in,
        views.table_name(spec, ROWS, snapshot.schema.generation),
        (*state, *(Column(field.name, field.type, views.column_comment(field)) for field in snapshot.schema.fields)),
        tuple(Column(column, "string") for column in ("history_set", "history_day", "history_part")),
        spec.layout.inside("history"),
        {views.UUID: snapshot.uuid},
        comment=f"compactor: events of {spec.database}.{name(spec)}; read the view",
    )


def partitions(spec: TableSpec, history: History) -> list[PartitionDef]:
    """Return the partitions that the view reads, with statistics, by which planners see that the open Delta is small."""
    layout = spec.layout
    return [PartitionDef(value, layout.inside(part.path), part.rows, part.size, len(part.files)) for value, part in values(history)]


def view_text(spec: TableSpec, snapshot: Snapshot, history: History, dialect: Dialect = HIVE) -> str:
    """Return the query of the view: closed versions, open rows without one in the open Delta, and rows of the open Delta."""
    q = dialect.name
    rows = dialect.table(spec.tables_in, views.table_name(spec, ROWS, snapshot.schema.generation))
    h, d = q("__h"), q("__d")
    select = f"SELECT {', '.join(shown(h, spec, snapshot, dialect))} FROM {rows} {h} WHERE {h}.{q('__shown')}"
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


def shown(alias: str, spec: TableSpec, snapshot: Snapshot, dialect: Dialect = HIVE) -> list[str]:
    """Return SQL for the columns of the view, from stored events and their partition columns."""
    q, schema = dialect.name, snapshot.schema
    computed = {"__is_current": f"({alias}.{q('__end_us')} = {FOREVER})", "__end_day": f"{alias}.{q('history_day')}"}
    payload = [f"{views.value(alias, field, snapshot, dialect, at='_position')} AS {q(schema.view_name(field))}" for field in schema.payload]
    return [*payload, *(f"{computed.get(column, f'{alias}.{q(column)}')} AS {q(column)}" for column, _, _ in _SHOWN)]


def view(spec: TableSpec, snapshot: Snapshot, history: History, dialect: Dialect = HIVE) -> ViewDef:
    position_type = types.text(types.parse(ddl(snapshot.order)))
    columns = (*views.payload_columns(snapshot.schema), *(Column(column, kind or position_type, comment) for column, kind, comment in _SHOWN))
    properties = {views.UUID: snapshot.uuid, views.VERSION: str(snapshot.version), "comment": f"history of {spec.name}, kept by compactor"}
    text, called = view_text(spec, snapshot, history, dialect), views.in_dialect(name(spec), dialect)
    return ViewDef(spec.database, called, text, columns, properties, dialect.called)


def published(spec: TableSpec, snapshot: Snapshot) -> list[ViewDef]:
    """Return the view in the form of each engine; [] for a table without history."""
    history = snapshot.history
    return [view(spec, snapshot, history, dialect) for dialect in views.dialects(spec)] if history is not None else []


def as_of_text(spec: TableSpec, columns: Sequence[str], moment: int, dialect: Dialect = HIVE) -> str:
    """Return the query for the rows at a source time (microseconds since 1970). `columns`: those of the view. docs/readers.md explains it."""
    q, at = dialect.name, dialect.whole(moment)
    # under `delete: soft` the main view has deleted rows too; the history has only rows that existed
    chosen = ", ".join(f"false AS {q(column)}" if spec.soft and column == views.DELETED else q(column) for column in columns)
    day = f"d{times.moment(moment).date().isoformat()}"
    at_moment = f"{q('__end_day')} >= '{day}' AND {q('__start_us')} <= {at} AND {q('__end_us')} > {at}"
    return f"SELECT {chosen} FROM {dialect.table(spec.database, name(spec))} WHERE {at_moment}"


def not_begun(spec: TableSpec, since: str | None, moment: int, value: Callable[[str], int | None], dialect: Dialect = HIVE) -> str | None:
    """Return why the rows at a source time (microseconds since 1970) are not known; None if they are.

    `since`: as `History.since`. `value` returns the first value of a query over the history, None without a row.
    """
    if since is None or moment >= times.to_micros(since):
        start, rows = dialect.name("__start_us"), dialect.table(spec.database, name(spec))
        # ends with the first row that has begun, in most cases with the first file
        begun = value(f"SELECT {start} FROM {rows} WHERE {start} <= {dialect.whole(moment)} LIMIT 1")
        first = value(f"SELECT min({start}) FROM {rows}") if begun is None else None
        if first is None:
            return None
        since = times.from_micros(first)
    return f"table {spec.name}: its history begins at {since}; what its rows were at {times.from_micros(moment)} is not known"
