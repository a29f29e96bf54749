"""The view `<t>_live`: the rows as the next run will leave them, as far as SQL over the landed files can show it.

The view reads the folders with files that no run has taken. It needs flat Parquet or Avro rows with a key, an order of plain columns, and columns of
the stored types. It finds the newest landed event of each key with a window over these folders, and compares it with the stored row by anti-joins:

    stored rows that no newer landed event replaces  ∪  landed rows (no deletes) that are newer than the stored row or tombstone

Rules, the same as a run's (docs/semantics.md):

- Positions compare as (epoch, order columns), nulls first. A stored row stays if a landed event has its Position.
- What a run would put into quarantine or ignore does not count: a null in the key or the order, an unknown operation, another source table.
- Rows at or below a truncate, stored or landed, are gone. So are rows from before an epoch that replaces, once an event of it has landed.
- An event at or below the purged tombstones counts only if its key is stored.

A folder may also hold files that were ingested before. Their events are stored, or older than what is stored, so they change nothing. `hides` returns
whether a file is an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.core.catalog import landed, views
from compactor.core.catalog.ddl import TableDef, ViewDef, quoted
from compactor.core.catalog.dialect import HIVE
from compactor.core.model import types
from compactor.core.model.errors import Refused
from compactor.core.model.files import DELETED, LIVE, ROW_STATE
from compactor.core.model.inputs import Input
from compactor.core.model.position import NULLABLE, Position, constant, payload_column
from compactor.core.model.schema import Field
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.adoption import ADOPTED
from compactor.core.sources import flat_rows, shared_stream

PLACEHOLDER = "__debezium_unavailable_value"
_EPOCH, _OP, _RANK = "_live_epoch", "_live_op", "_live_rank"

Folders = Mapping[str, int]
"""Folder with files that the next run takes → epoch of their events."""


def name(spec: TableSpec) -> str:
    return f"{spec.view}_live"


def problem(spec: TableSpec, snapshot: Snapshot, files: TableDef) -> str | None:
    """Return why the table cannot have a live view over a table of landed files, or None if it can."""
    if not spec.source.live_view or not snapshot.raw or spec.container == "kafka":
        return "only flat Parquet and Avro files can be read by a view"
    if spec.keyless or snapshot.unavailable_columns or spec.soft or spec.patch_rows:
        return "rows without a key, `delete: soft`, `patch_rows` or unavailable values cannot be merged by a view"
    raw, schema = _columns(files), snapshot.schema
    others = [name for name, _ in snapshot.order if _column(name) not in raw]
    if others:
        return f"expected an order of plain columns of the files, found {', '.join(others)}; set `order_by:`"
    text = [name for name, _ in snapshot.order if raw[_column(name)] == "string"]
    if text:
        return f"the order column {text[0]} is text, which a run compares as the number or time in it"
    sources: dict[str, str] = {}
    for field in schema.payload:
        name = field.source.lower()
        other = sources.setdefault(name, field.source)
        if other != field.source:
            return f"the columns {other} and {field.source} of the files differ in case only, and engines read them as one"
        kind = types.parse(raw.get(name, field.type))
        if name not in raw and (field.name in schema.key or name in dict(snapshot.raw)):
            return f"the column {field.source} of the files has a name that not all engines can read"
        if kind != types.parse(field.type) and (types.widest(kind, types.parse(field.type)) != types.parse(field.type) or not types.is_scalar(kind)):
            return f"the column {field.source} of the files is {types.text(kind)}, it is stored as {field.type}"
    op = _operation(spec, snapshot, files)
    if op and raw[op] != "string":
        return f"the operation column {op} is not text"
    return None


def hides(spec: TableSpec, snapshot: Snapshot, epoch: int, ingested: Input) -> bool:
    """Return whether a folder with this input, ingested before, cannot be read beside new files of an epoch: its events would count again."""
    if ingested.reason or ingested.outcome in ("undone", "discarded", ADOPTED):
        return True
    return ingested.epoch != epoch or (snapshot.purged_to is not None and spec.beyond_retention == "apply")


def live_view(spec: TableSpec, snapshot: Snapshot, files: TableDef, folders: Folders) -> ViewDef:
    """Return the view over the table of landed files. Raises Refused if the table cannot have one."""
    why = problem(spec, snapshot, files)
    if why:
        raise Refused(f"table {spec.name}: `live_view` is not possible: {why}")
    shown = [(snapshot.schema.view_name(field), field) for field in snapshot.schema.payload]
    text = " UNION ALL ".join(_branches(spec, snapshot, files, folders, shown))
    comment = (
        f"rows of {spec.view} with the landed files of {len(folders)} folders that no version has yet, as of the last run or `compactor publish`; in "
        "a long-lived Spark server set spark.sql.metadataCacheTTLSeconds"
    )
    properties = {views.UUID: snapshot.uuid, views.VERSION: str(snapshot.version), "comment": comment}
    return ViewDef(spec.database, name(spec), text, views.payload_columns(snapshot.schema), properties)


def _branches(spec: TableSpec, snapshot: Snapshot, files: TableDef, folders: Folders, shown: Sequence[tuple[str, Field]]) -> list[str]:
    """Return the queries whose rows are the view. `shown`: (name in the view, column)."""
    of_stored = ", ".join(f"{views.value('`__s`', field, snapshot, HIVE)} AS {quoted(name)}" for name, field in shown)
    stored = _stored(spec, snapshot)
    kept = f"SELECT {of_stored} FROM ({stored}) `__s` WHERE `__s`.`{ROW_STATE}` = '{LIVE}'"
    if not folders:
        return [kept]
    events = _Events(spec, snapshot, files, folders)
    at, stored_at = events.position("__l"), _stored_position(snapshot)
    of_landed = ", ".join(f"{_or_default(_landed_value(files, field), at, field, snapshot)} AS {quoted(name)}" for name, field in shown)
    keys = [(snapshot.schema.field(name).source.lower(), name) for name in snapshot.schema.key]
    same = " AND ".join(f"`__l`.{quoted(source)} = `__s`.{quoted(name)}" for source, name in keys)
    newer = newer_than(at, stored_at)
    kept += f" AND NOT EXISTS (SELECT 1 FROM ({events.newest}) `__l` WHERE {same} AND {newer}){events.barrier(stored_at)}"
    rows = f"SELECT {of_landed} FROM ({events.newest}) `__l` WHERE `__l`.`{_OP}` <> 'd'{events.barrier(at)}"
    rows += _above(at, snapshot.truncated_to, snapshot)
    no_newer_row = f"NOT EXISTS (SELECT 1 FROM ({stored}) `__s` WHERE {same} AND NOT {newer})"
    if snapshot.purged_to is None or spec.beyond_retention == "apply":
        return [kept, f"{rows} AND {no_newer_row}"]
    purged = f" AND NOT {newer_than(at, _literals(snapshot.purged_to, snapshot))}"
    older_row = f"EXISTS (SELECT 1 FROM ({stored}) `__s` WHERE {same} AND {newer})"
    return [kept, f"{rows}{_above(at, snapshot.purged_to, snapshot)} AND {no_newer_row}", f"{rows}{purged} AND {older_row}"]


class _Events:
    """The landed events that the next run takes, as subqueries."""

    def __init__(self, spec: TableSpec, snapshot: Snapshot, files: TableDef, folders: Folders) -> None:
        self._spec, self._snapshot, self._files, self._folders = spec, snapshot, files, folders
        keys = [snapshot.schema.field(name).source.lower() for name in snapshot.schema.key]
        at = self.position("__e")
        placed = [(value, kind) for value, (name, kind) in zip(at[1:], snapshot.order) if name not in NULLABLE]
        # NaN has no order; all engines write it so
        ordered = (f"CAST({value} AS string) <> 'NaN'" if kind == "double" else f"{value} IS NOT NULL" for value, kind in placed)
        whole = " AND ".join(f"`__e`.{quoted(name)} IS NOT NULL" for name in keys)
        usable = " AND ".join([f"`__e`.`{_OP}` IS NOT NULL", *ordered, f"(`__e`.`{_OP}` = 't' OR ({whole}))"])
        self._every = f"SELECT * FROM ({self._read()}) `__e` WHERE {usable}"
        by = ", ".join(f"`__w`.{quoted(name)}" for name in keys)
        last = ", ".join(f"{value} DESC" for value in (*self.position("__w"), f"`__w`.`{landed.FOLDER}`"))
        rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {last}) AS `{_RANK}`"
        self.newest = f"SELECT * FROM (SELECT `__w`.*, {rank} FROM ({self._every}) `__w` WHERE `__w`.`{_OP}` <> 't') `__r` WHERE `__r`.`{_RANK}` = 1"
        """The newest event of each key, truncates aside."""

    def position(self, alias: str) -> list[str]:
        """Return SQL for epoch and order columns of an event."""
        return [f"`{alias}`.`{_EPOCH}`", *(f"`{alias}`.`_live_o{at}`" for at in range(len(self._snapshot.order)))]

    def barrier(self, position: Sequence[str]) -> str:
        """Return a condition, to append to another one, that no landed truncate or new epoch has removed a row at a Position."""
        spec, cases = self._spec, []
        if spec.truncate == "apply" and _operation(spec, self._snapshot, self._files):
            cases.append(f"(`__t`.`{_OP}` = 't' AND NOT {newer_than(position, self.position('__t'))})")
        if spec.epoch_replaces and spec.epoch in self._folders.values():
            cases.append(f"(`__t`.`{_EPOCH}` = {spec.epoch} AND {position[0]} < {spec.epoch})")
        return f" AND NOT EXISTS (SELECT 1 FROM ({self._every}) `__t` WHERE {' OR '.join(cases)})" if cases else ""

    def _read(self) -> str:
        spec, snapshot = self._spec, self._snapshot
        order = ", ".join(f"{_order_value(snapshot, self._files, name)} AS `_live_o{at}`" for at, (name, _) in enumerate(snapshot.order))
        table = f"{quoted(self._files.database)}.{quoted(self._files.name)}"
        epochs = sorted(set(self._folders.values()))
        within = {epoch: self._inside(sorted(name for name, other in self._folders.items() if other == epoch)) for epoch in epochs}
        cases = "".join(f"WHEN {within[epoch]} THEN {epoch} " for epoch in epochs[:-1])
        epoch = f"CASE {cases}ELSE {epochs[-1]} END" if cases else str(epochs[-1])
        head = f"SELECT `__i`.*, {epoch} AS `{_EPOCH}`, {order}, {_operation_of_row(spec, snapshot, self._files)} AS `{_OP}`"
        return f"{head} FROM {table} `__i` WHERE {self._inside(sorted(self._folders))}"

    def _inside(self, folders: Sequence[str]) -> str:
        """Return the condition that a row lies in one of some folders. A tree, because parsers recurse into a chain of ORs."""
        if len(folders) == 1:
            return f"`__i`.`{landed.FOLDER}` = {HIVE.text(landed.partition(self._spec, folders[0]).values[0])}"
        half = len(folders) // 2
        return f"({self._inside(folders[:half])} OR {self._inside(folders[half:])})"


def newer_than(left: Sequence[str], right: Sequence[str]) -> str:
    """Return SQL, never null, for `left` > `right`: two Positions, compared from left to right, nulls first.

    >>> newer_than(["a"], ["b"])
    '(CASE WHEN a > b THEN 1 WHEN a < b THEN 0 WHEN b IS NULL AND a IS NOT NULL THEN 1 WHEN a IS NULL AND b IS NOT NULL THEN 0 ELSE 0 END = 1)'
    """
    cases = " ".join(
        f"WHEN {one} > {other} THEN 1 WHEN {one} < {other} THEN 0 WHEN {other} IS NULL AND {one} IS NOT NULL THEN 1 "
        f"WHEN {one} IS NULL AND {other} IS NOT NULL THEN 0"
        for one, other in zip(left, right)
    )
    return f"(CASE {cases} ELSE 0 END = 1)"


def _above(position: Sequence[str], bound: Position | None, snapshot: Snapshot) -> str:
    """Return the condition, to append to another one, that a Position is above a bound."""
    return "" if bound is None else f" AND {newer_than(position, _literals(bound, snapshot))}"


def _literals(bound: Position, snapshot: Snapshot) -> list[str]:
    """Return SQL for epoch and order columns of a given Position."""
    kinds = ["int", *(kind for _, kind in snapshot.order)]
    values = zip(bound, kinds)
    return [
        "NULL" if value is None else str(value) if kind in ("int", "bigint") else f"CAST({HIVE.text(str(constant(value, kind)))} AS {kind})"
        for value, kind in values
    ]


def _columns(files: TableDef) -> dict[str, str]:
    return {column.name: column.type for column in files.columns}


def _column(name: str) -> str:
    """Return the column of the files that an order column stands for; "" for a field of the connector."""
    return (payload_column(name) or "").lower()


def _order_value(snapshot: Snapshot, files: TableDef, name: str) -> str:
    """Return SQL for an order column of the files, in its type in stored Positions."""
    landed_type, stored = _columns(files)[_column(name)], dict(snapshot.order)[name]
    column = f"`__i`.{quoted(_column(name))}"
    if landed_type == "timestamp":
        return f"CAST(CAST({column} AS DECIMAL(20,6)) * 1000000 AS BIGINT)"
    if landed_type == "date":
        return f"CAST(datediff({column}, '1970-01-01') AS BIGINT)"
    return column if landed_type == stored else f"CAST({column} AS {stored})"


def _operation(spec: TableSpec, snapshot: Snapshot, files: TableDef) -> str | None:
    """Return the column of the files with the operation, in lower case."""
    columns = set(_columns(files))
    if spec.op is not None:
        return spec.op.lower() if spec.op.lower() in columns else None
    # a run has stored it as a column of the row
    payload = {field.source.lower() for field in snapshot.schema.payload} - {name.lower() for name in spec.metadata_columns}
    return flat_rows.operation_column(spec, columns - (payload & {"op"}))


def _operation_of_row(spec: TableSpec, snapshot: Snapshot, files: TableDef) -> str:
    """Return SQL for what a record is: u (a row), d (a delete), t (a truncate), or null if a run ignores it or puts it into quarantine."""
    columns, op, meanings = _columns(files), _operation(spec, snapshot, files), flat_rows.operations(spec)
    cases = []
    table, above = flat_rows.origin(columns)
    if spec.source_table and table:
        name, *levels = (f"`__i`.`{names[0]}`" for names in (table, *above))
        cases.append(f"WHEN NOT {shared_stream.condition(spec.source_table, name, levels, HIVE.text)} THEN NULL")

    def means(operations: str) -> str:
        codes = [code for code, meaning in meanings.items() if meaning in operations]
        return " OR ".join(f"lower(trim(`__i`.{quoted(op or '')})) = {HIVE.text(code)}" for code in codes) or "1 = 0"

    if op:
        cases.append(f"WHEN `__i`.{quoted(op)} IS NOT NULL AND NOT ({means('curdt')}) THEN NULL")
    if columns.get(flat_rows.DELETED) == "boolean":
        cases.append(f"WHEN `__i`.`{flat_rows.DELETED}` THEN 'd'")
    elif columns.get(flat_rows.DELETED) == "string":
        cases.append(f"WHEN lower(`__i`.`{flat_rows.DELETED}`) = 'true' THEN 'd'")
    if op:
        cases.append(f"WHEN {means('d')} THEN 'd' WHEN {means('t')} THEN 't'")
    return f"CASE {' '.join(cases)} ELSE 'u' END" if cases else "'u'"


def _stored_position(snapshot: Snapshot) -> list[str]:
    return ["`__s`.`_live_epoch`", *(f"`__s`.`_live_o{at}`" for at in range(len(snapshot.order)))]


def _stored(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return SQL for base rows without a Delta row, and Delta rows, tombstones included, with their Positions."""
    schema = snapshot.schema
    # extracted from the struct here, because Spark cannot do it in the condition of an anti-join
    members = ["epoch", *(f"o{at + 1}" for at in range(len(snapshot.order)))]
    newest = [f"CASE WHEN `{ROW_STATE}` = '{DELETED}' THEN `_gone`.`{name}` ELSE `_at`.`{name}` END" for name in members]
    places = [f"{value} AS {column.removeprefix('`__s`.')}" for value, column in zip(newest, _stored_position(snapshot))]
    columns = ", ".join([*(quoted(field.name) for field in schema.fields), f"`{ROW_STATE}`", "`_at`", *places])
    base = f"{quoted(spec.tables_in)}.{quoted(views.table_name(spec, 'base', schema.generation))}"
    head = f"SELECT {columns} FROM {base} `__b` WHERE `__b`.`base_version` = '{snapshot.base_id}'"
    if snapshot.delta is None:
        return head
    delta = f"{quoted(spec.tables_in)}.{quoted(views.table_name(spec, 'delta', schema.generation))}"
    pinned = f"`__d`.`delta_version` = '{snapshot.delta.id}'"
    same = " AND ".join(f"`__d`.{quoted(name)} = `__b`.{quoted(name)}" for name in schema.key)
    return (
        f"{head} AND NOT EXISTS (SELECT 1 FROM {delta} `__d` WHERE {pinned} AND {same}) UNION ALL SELECT {columns} FROM {delta} `__d` WHERE {pinned}"
    )


def _landed_value(files: TableDef, field: Field) -> str:
    """Return SQL for a landed value in the type of the column. A value that an update left out is null until a run has looked it up."""
    source, kind = field.source.lower(), field.type
    landed_type = _columns(files).get(source)
    if landed_type is None:
        return "NULL"
    column = f"`__l`.{quoted(source)}"
    if types.parse(landed_type) != types.parse(kind):
        return f"CAST({column} AS {kind})"
    return f"CASE WHEN {column} = '{PLACEHOLDER}' THEN NULL ELSE {column} END" if kind == "string" else column


def _or_default(value: str, position: Sequence[str], field: Field, snapshot: Snapshot) -> str:
    """Return SQL for a landed value, or for the default of its column where the event is older than the column."""
    reads = snapshot.schema.defaults.get(field.name)
    if reads is None:
        return value
    older = newer_than(_literals(reads[0], snapshot), position)
    return f"CASE WHEN {older} AND {value} IS NULL THEN {HIVE.constant(field.default, field.type)} ELSE {value} END"
