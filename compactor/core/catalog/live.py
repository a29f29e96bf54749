"""Landed files that no version has yet: the table `<t>_incremental` over them, and the view `<t>_live` that merges them with the stored rows.

The live view needs a flat source with a key, and an order of plain columns. It finds the newest landed row of each key with a window over the landed
files only, and compares it with the stored rows by two anti-joins:

    stored rows that no newer landed row replaces  ∪  landed rows (no deletes) that no newer stored row or tombstone replaces
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Optional

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef, quoted
from compactor.core.catalog.dialect import HIVE
from compactor.core.model import types
from compactor.core.model.errors import Refused
from compactor.core.model.layout import Layout
from compactor.core.model.position import payload_column
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import OPERATIONS, TableSpec
from compactor.core.sources import increment

HOUR = "landed_folder"
_LINE = (("line", "string"),)


Registered = Callable[[str], Optional[TableDef]]
"""Returns the registered table of a name, or None."""


def incremental_table(spec: TableSpec, snapshot: Snapshot, registered: Registered = lambda name: None) -> TableDef:
    """Return the table over the landing folders, with one partition for each folder. Text files show their lines.

    No engine reads files of another type than the table's. So the table is the first of `<t>_incremental`, `<t>_incremental_g2` .. that is free, or
    whose columns have the types of the files that the newest run read.
    """
    generation = 1
    while True:
        table = _table(spec, snapshot, generation)
        there = registered(table.name)
        columns = _continued(there, table) if there is not None else table.columns
        if columns is not None:
            return dataclasses.replace(table, columns=columns)
        generation += 1


def other_tables(spec: TableSpec, current: TableDef, registered: Registered) -> list[TableDef]:
    """Return the other registered tables over the landing folders."""
    names = (views.table_name(spec, "incremental", generation) for generation in itertools.count(1))
    tables = itertools.takewhile(lambda table: table is not None, map(registered, names))
    return [table for table in tables if table is not None and table.name != current.name]


def _continued(there: TableDef, table: TableDef) -> tuple[Column, ...] | None:
    """Return the columns of a registered table and the new ones after them; None if the files have other types."""
    if there.format != table.format:
        return None
    if table.format == "json":
        return there.columns
    kinds = {column.name: types.parse(column.type) for column in there.columns}
    if any(kinds.get(column.name, types.parse(column.type)) != types.parse(column.type) for column in table.columns):
        return None
    return (*there.columns, *(column for column in table.columns if column.name not in kinds))


def _table(spec: TableSpec, snapshot: Snapshot, generation: int) -> TableDef:
    columns = tuple(Column(name, kind) for name, kind in snapshot.raw or _LINE)
    kind = spec.format if spec.format != "auto" else "parquet" if snapshot.raw else "json"
    # CSV files show their lines too
    kind = "json" if kind == "csv" else kind
    return TableDef(
        spec.tables_in,
        views.table_name(spec, "incremental", generation),
        columns,
        (Column(HOUR, "string"),),
        spec.landing,
        {views.UUID: snapshot.uuid},
        format=kind,
        comment=f"compactor: landed files of {spec.database}.{spec.view} that are not archived yet",
    )


def incremental_partitions(spec: TableSpec, paths: Iterable[str]) -> list[PartitionDef]:
    """Return one partition for each folder with files. Values start with a letter."""
    layout = Layout(spec.root, spec.landing)
    places = (increment.landed(spec.pattern, path) for path in paths if not increment.ignored(path))
    folders = sorted({place.folder for place in places if place})
    return [PartitionDef((f"f_{folder.replace('/', '_')}",), layout.landed(folder) if folder else spec.landing) for folder in folders]


def name(spec: TableSpec) -> str:
    """Return the name of the live view."""
    return f"{spec.view}_live"


def problem(spec: TableSpec, snapshot: Snapshot) -> str | None:
    """Return why the table cannot have a live view, or None if it can."""
    if not spec.source.live_view or not snapshot.raw:
        return "only flat Parquet and Avro files can be read by a view"
    if spec.keyless or snapshot.unavailable_columns:
        return "rows without a key, or with unavailable values, cannot be merged by a view"
    columns = {name for name, _ in snapshot.raw}
    others = [name for name, _ in snapshot.order if (payload_column(name) or "").lower() not in columns]
    return f"expected an order of plain columns of the files, found {', '.join(others)}; set `order_by:`" if others else None


def live_view(spec: TableSpec, snapshot: Snapshot, files: TableDef) -> ViewDef:
    """Return the view `<t>_live` over the table of landed files. Raises Refused if the table cannot have one."""
    why = problem(spec, snapshot)
    if why:
        raise Refused(f"table {spec.name}: `live_view` is not possible: {why}")
    schema = snapshot.schema
    keys = [(schema.field(name).source.lower(), name) for name in schema.key]
    order = [(str(payload_column(name)).lower(), f"`_p{at}`") for at, (name, _) in enumerate(snapshot.order)]
    landed = _landed(snapshot, files, keys, order)
    stored = _stored(spec, snapshot)
    same = " AND ".join(f"`__l`.{quoted(source)} = `__s`.{quoted(name)}" for source, name in keys)
    newer = _newer([f"`__l`.`_o{at}`" for at in range(len(order))], [f"`__s`.{column}" for _, column in order])
    shown = [(schema.view_name(field), field) for field in schema.payload]
    of_stored = ", ".join(f"{views.value('`__s`', field, snapshot, HIVE)} AS {quoted(name)}" for name, field in shown)
    of_landed = ", ".join(f"{_landed_value(snapshot, field.source.lower(), field.type)} AS {quoted(name)}" for name, field in shown)
    text = (
        f"SELECT {of_stored} FROM ({stored}) `__s` WHERE `__s`.`_op` <> 'd' "
        f"AND NOT EXISTS (SELECT 1 FROM ({landed}) `__l` WHERE {same} AND {newer}) "
        f"UNION ALL SELECT {of_landed} FROM ({landed}) `__l` WHERE NOT {_is_delete(spec, snapshot)} "
        f"AND NOT EXISTS (SELECT 1 FROM ({stored}) `__s` WHERE {same} AND NOT ({newer}))"
    )
    columns = tuple(Column(name, field.type, field.comment) for name, field in shown)
    comment = f"rows of {spec.view} with landed files that no version has yet; in a long-lived Spark server set spark.sql.metadataCacheTTLSeconds"
    return ViewDef(spec.database, name(spec), text, columns, {views.UUID: snapshot.uuid, views.VERSION: str(snapshot.version), "comment": comment})


def _landed(snapshot: Snapshot, files: TableDef, keys: list[tuple[str, str]], order: list[tuple[str, str]]) -> str:
    table = f"{quoted(files.database)}.{quoted(files.name)}"
    ranked = ", ".join(f"{_number(snapshot, name)} AS `_o{at}`" for at, (name, _) in enumerate(order))
    by = ", ".join(quoted(source) for source, _ in keys)
    last = ", ".join(f"{_number(snapshot, name)} DESC" for name, _ in order)
    rank = f"row_number() OVER (PARTITION BY {by} ORDER BY {last}) AS `_rank`"
    return f"SELECT * FROM (SELECT `__i`.*, {ranked}, {rank} FROM {table} `__i`) `__r` WHERE `__r`.`_rank` = 1"


def _number(snapshot: Snapshot, name: str) -> str:
    """Return SQL for an order column of the files, in its type in stored Positions."""
    kind = dict(snapshot.raw)[name]
    stored = next(kind for column, kind in snapshot.order if str(payload_column(column)).lower() == name)
    if kind == "timestamp":
        return f"CAST(CAST({quoted(name)} AS DECIMAL(20,6)) * 1000000 AS BIGINT)"
    return quoted(name) if kind == stored else f"CAST({quoted(name)} AS {stored})"


def _stored(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return SQL for base rows without a Delta row, and Delta rows, tombstones included, with their Positions."""
    schema = snapshot.schema
    # extracted from the struct here, because Spark cannot do it in the condition of an anti-join
    places = [f"`_position`.`o{at + 1}` AS `_p{at}`" for at in range(len(snapshot.order))]
    columns = ", ".join([*(quoted(field.name) for field in schema.fields), "`_op`", "`_position`", *places])
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


def _newer(left: list[str], right: list[str]) -> str:
    """Return SQL for `left` > `right`, two lists of values in lexicographic order."""
    cases = [" AND ".join([*(f"{left[i]} = {right[i]}" for i in range(at)), f"{left[at]} > {right[at]}"]) for at in range(len(left))]
    return "(" + " OR ".join(f"({case})" for case in cases) + ")"


def _landed_value(snapshot: Snapshot, source: str, kind: str) -> str:
    landed_type = dict(snapshot.raw).get(source)
    if landed_type is None:
        return f"CAST(NULL AS {kind})"
    column = f"`__l`.{quoted(source)}"
    return column if types.parse(landed_type) == types.parse(kind) else f"CAST({column} AS {kind})"


def _is_delete(spec: TableSpec, snapshot: Snapshot) -> str:
    columns = dict(snapshot.raw)
    op = spec.op.lower() if spec.op else next((name for name in ("op", "__op") if name in columns), None)
    operations = {**OPERATIONS, **{code.lower(): meaning for code, meaning in spec.op_map}}
    codes = ", ".join(f"'{code}'" for code, meaning in operations.items() if meaning == "d")
    tests = [f"lower(coalesce(`__l`.{quoted(op)}, 'u')) IN ({codes})"] if op and op in columns else []
    tests += ["lower(coalesce(CAST(`__l`.`__deleted` AS STRING), 'false')) = 'true'"] if "__deleted" in columns else []
    return f"({' OR '.join(tests)})" if tests else "(1 = 0)"
