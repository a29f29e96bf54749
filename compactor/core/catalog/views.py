"""The main view of a table, and the base and Delta tables below it.

Rules for portable SQL (measured on Spark, Hive 2 and 4, Trino; docs/design/view.md): every table is qualified, aliases are inside the SELECT,
literals pin the Snapshot, and there is no CTE, no IN, no cast that can fail, and no alias with the name of a column. NOT EXISTS replaces LEFT JOIN
… IS NULL, because Spark estimates its size as that of the base.
"""

from __future__ import annotations

from typing import Any

from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef, quoted
from compactor.core.catalog.dialect import HIVE, PRESTO, Dialect
from compactor.core.model import names, types
from compactor.core.model.errors import Refused
from compactor.core.model.files import DELETED as TOMBSTONES
from compactor.core.model.files import LIVE, ROW_STATE, Delta, Segment
from compactor.core.model.position import Order, Position, constant, members, state_columns
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

DELETED = "_deleted"
"""The view's last column under `delete: soft`."""

ROW_VERSION = "__row_version"
"""The version that stored a row, where a query shows it. No view does."""

UUID, VERSION, ROOT = "compactor.uuid", "compactor.version", "compactor.root"
WHOLE_TO, UNKNOWN = "compactor.whole_to", "not known"
"""A property of the view: the end of the newest whole hour, ISO 8601, or UNKNOWN."""
NOBODY = "none"
"""The uuid of a view that was made before the table's first Snapshot. The first Snapshot of the table stored at ROOT takes it over."""

COMPARED_MAX = 8
"""The greatest number of Segments that the text of a view names."""

ATHENA = "athena"
"""Ending of a view's name in the form for Athena, which cannot read the other: `student_athena`."""


def dialects(spec: TableSpec) -> tuple[Dialect, ...]:
    """Return the dialects in which the table's views are published."""
    return (HIVE, PRESTO) if spec.athena else (HIVE,)


def in_dialect(name: str, dialect: Dialect) -> str:
    """Return the name of a view in this dialect."""
    return f"{name}_{ATHENA}" if dialect is PRESTO else name


def table_name(spec: TableSpec, part: str, generation: int) -> str:
    """Return the name of a catalog table, such as `student_base`. A type change begins a new generation: `student_delta_g2`."""
    return f"{spec.name}_{part}" + (f"_g{generation}" if generation > 1 else "")


def column_comment(field: Field) -> str:
    """Return the comment of a column, with the source's spelling if it differs."""
    spelled = f"source name {field.source}" if field.source != field.name else ""
    # Hadoop would put a setting for `${name}` where a reader of Parquet passes comments on
    return names.comment("; ".join(part for part in (field.comment, spelled) if part)).replace("${", "$ {")


def payload_columns(schema: Schema) -> tuple[Column, ...]:
    """Return the source's columns as views show them."""
    return tuple(Column(schema.view_name(field), types.text(types.parse(field.type)), column_comment(field)) for field in schema.payload)


def deleted_column(spec: TableSpec) -> tuple[Column, ...]:
    """Return the column that the view has under `delete: soft`."""
    return (Column(DELETED, "boolean", "whether the source has deleted the row"),) if spec.soft else ()


def columns(schema: Schema) -> tuple[Column, ...]:
    """Return the stored columns for a catalog table over our files."""
    return tuple(Column(field.name, field.type, column_comment(field)) for field in schema.fields)


def tables(spec: TableSpec, snapshot: Snapshot) -> tuple[TableDef, TableDef]:
    layout = spec.layout
    # our columns come first, because a metastore appends new columns only at the end, and new ones are the source's
    stored = (*(Column(name, kind) for name, kind in state_columns(snapshot.order)), *columns(snapshot.schema))
    properties = {UUID: snapshot.uuid, **registered(snapshot.schema)}
    generation = snapshot.schema.generation
    base = TableDef(
        spec.tables_in,
        table_name(spec, "base", generation),
        stored,
        (Column("base_version", "string"), Column("segment", "string"), Column(ROW_STATE, "string")),
        layout.inside("base"),
        properties,
        comment=f"compactor: base of {spec.database}.{spec.view}; read the view",
    )
    delta = TableDef(
        spec.tables_in,
        table_name(spec, "delta", generation),
        stored,
        (Column("delta_version", "string"), Column(ROW_STATE, "string")),
        layout.inside("delta"),
        properties,
        comment=f"compactor: delta of {spec.database}.{spec.view}; read the view",
    )
    return base, delta


def registered(schema: Schema) -> dict[str, str]:
    """Return the properties of tables and views about the registered schema."""
    if schema.registered is None:
        return {}
    subject, version, schema_id = schema.registered
    properties = {"subject": subject, "version": str(version), "id": None if schema_id is None else str(schema_id)}
    return {f"compactor.schema.{name}": value for name, value in properties.items() if value is not None}


def partitions(spec: TableSpec, snapshot: Snapshot) -> tuple[list[PartitionDef], list[PartitionDef]]:
    """Return the base and Delta partitions that this Snapshot's view reads, with statistics, by which planners see that the Delta is small."""
    layout = spec.layout

    def of(part: Segment | Delta, *values: str) -> list[PartitionDef]:
        places = ((each, layout.inside(each.path)) for each in part.folders)
        return [PartitionDef((*values, each.state), place, each.rows, each.size, len(each.files)) for each, place in places]

    base = [each for segment in snapshot.segments for each in of(segment, snapshot.base_id, segment.id)]
    return base, of(snapshot.delta, snapshot.delta.id) if snapshot.delta else []


def value(alias: str, field: Field, snapshot: Snapshot, dialect: Dialect, readable: str = "", at: str = "_at") -> str:
    """Return SQL for a stored column as the view shows it. `readable`: what `exists` returns, for rows that may be tombstones.

    `at`: the column with the Position of the values.
    """
    column = f"{alias}.{dialect.name(field.name)}"
    reads = snapshot.schema.defaults.get(field.name)
    if reads is None:
        return column
    # rows from before the column show the default, as in the source
    older = _below(f"{alias}.{dialect.name(at)}", reads[0], snapshot.order, dialect)
    return f"CASE WHEN {older} AND {column} IS NULL{readable} THEN {dialect.constant(field.default, field.type)} ELSE {column} END"


def _below(position: str, bound: Position, order: Order, dialect: Dialect) -> str:
    """Return SQL for `position` < `bound`; it is never null. `position` is SQL for a Position's struct.

    Hive cannot compare structs, so their members are compared one by one, nulls first as everywhere.
    """
    out = ""
    for (name, kind), value in reversed([*zip(members(order), bound)]):
        member = f"{position}.{dialect.name(name)}"
        if value is None:
            # nothing lies below null
            out = f"({member} IS NULL AND {out})" if out else ""
            continue
        least = f"({member} IS NULL OR {member} < {_literal(value, kind, dialect)})"
        out = f"({least} OR ({member} = {_literal(value, kind, dialect)} AND {out}))" if out else least
    return out or "(1 = 0)"


def _literal(value: Any, kind: str, dialect: Dialect) -> str:
    if isinstance(value, int) and kind in ("int", "bigint"):
        return str(value)
    return dialect.constant(constant(value, kind), kind)


def exists(alias: str, spec: TableSpec, dialect: Dialect) -> str:
    """Return the condition under which a row can read defaults, to append to another one: a tombstone may hide no row."""
    return f" AND {alias}.{dialect.name('_at')} IS NOT NULL" if spec.soft else ""


def _select(alias: str, snapshot: Snapshot, spec: TableSpec, dialect: Dialect = HIVE, versions: bool = False) -> str:
    schema = snapshot.schema
    deleted = [f"({alias}.{dialect.name(ROW_STATE)} = '{TOMBSTONES}') AS {dialect.name(DELETED)}"] if spec.soft else []
    shown = (
        f"{value(alias, field, snapshot, dialect, exists(alias, spec, dialect))} AS {dialect.name(schema.view_name(field))}"
        for field in schema.payload
    )
    version = [f"{alias}.{dialect.name('_version')} AS {dialect.name(ROW_VERSION)}"] if versions else []
    return ", ".join([*shown, *deleted, *version])


def live_only(alias: str, spec: TableSpec, dialect: Dialect = HIVE) -> str:
    """Return the condition that hides tombstones, to append to another condition. It selects partitions."""
    return "" if spec.soft else f" AND {alias}.{dialect.name(ROW_STATE)} = '{LIVE}'"


def compared(snapshot: Snapshot) -> tuple[str, ...] | None:
    """Return the ids of the Segments whose rows the view compares with the Delta, if that is worth a branch of its own for the others; else None.

    The text names them, so they must be few (docs/design/view.md#untouched-segments).
    """
    untouched = {*(snapshot.delta.untouched if snapshot.delta else ())}
    ids = tuple(segment.id for segment in snapshot.segments if segment.id not in untouched)
    alone = sum(segment.rows for segment in snapshot.segments if segment.id in untouched)
    return ids if 2 * alone >= sum(segment.rows for segment in snapshot.segments) > 0 and len(ids) <= COMPARED_MAX else None


def view_text(spec: TableSpec, snapshot: Snapshot, dialect: Dialect = HIVE, versions: bool = False) -> str:
    """Return the query of the view: base rows without a Delta row, and Delta rows, without tombstones. Literals pin the Snapshot.

    Segments that own no row of the Delta are read without a comparison. `versions`: with ROW_VERSION as the last column.
    """
    schema, generation, q = snapshot.schema, snapshot.schema.generation, dialect.name
    base, delta = (dialect.table(spec.tables_in, table_name(spec, part, generation)) for part in ("base", "delta"))
    b, d = q("__b"), q("__d")
    live = f"{b}.{q('base_version')} = '{snapshot.base_id}'{live_only(b, spec, dialect)}"
    rows = f"SELECT {_select(b, snapshot, spec, dialect, versions)} FROM {base} {b} WHERE {live}"
    if snapshot.delta is None:
        return rows
    pinned = f"{d}.{q('delta_version')} = '{snapshot.delta.id}'"
    same = " AND ".join(f"{d}.{q(name)} = {b}.{q(name)}" for name in schema.key)
    replaced = f"SELECT 1 FROM {delta} {d} WHERE {pinned} AND {same}"
    changed = f"SELECT {_select(d, snapshot, spec, dialect, versions)} FROM {delta} {d} WHERE {pinned}{live_only(d, spec, dialect)}"
    segments, segment = compared(snapshot), f"{b}.{q('segment')}"
    if not segments:
        return f"{rows} AND NOT EXISTS ({replaced}) UNION ALL {changed}"
    others = " AND ".join(f"{segment} <> '{name}'" for name in segments)
    these = " OR ".join(f"{segment} = '{name}'" for name in segments)
    return f"{rows} AND {others} UNION ALL {rows} AND ({these}) AND NOT EXISTS ({replaced}) UNION ALL {changed}"


def reference_text(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return a simpler query for the same rows (union, newest row of each key). `verify` compares the view with it."""
    schema, generation = snapshot.schema, snapshot.schema.generation
    base, delta = (f"{quoted(spec.tables_in)}.{quoted(table_name(spec, part, generation))}" for part in ("base", "delta"))
    # in a struct: a source column may be called like any of the columns that this query adds
    chosen = f"struct({_select('`__b`', snapshot, spec)}) AS `__row`, {_rank('`__b`', schema, 0)}"
    parts = [f"SELECT {chosen} FROM {base} `__b` WHERE `__b`.`base_version` = '{snapshot.base_id}'"]
    if snapshot.delta is not None:
        chosen = f"struct({_select('`__d`', snapshot, spec)}) AS `__row`, {_rank('`__d`', schema, 1)}"
        parts.append(f"SELECT {chosen} FROM {delta} `__d` WHERE `__d`.`delta_version` = '{snapshot.delta.id}'")
    keys = ", ".join(f"`_k{at}`" for at in range(len(schema.key)))
    names = [*(schema.view_name(field) for field in schema.payload), *([DELETED] if spec.soft else [])]
    shown = ", ".join(f"`__row`.{quoted(name)}" for name in names)
    newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY `_from_delta` DESC) AS `_rank`"
    ranked = f"SELECT `__u`.*, {newest} FROM ({' UNION ALL '.join(parts)}) `__u`"
    return f"SELECT {shown} FROM ({ranked}) `__r` WHERE `_rank` = 1{live_only('`__r`', spec)}"


def _rank(alias: str, schema: Schema, from_delta: int) -> str:
    keys = ", ".join(f"{alias}.{quoted(name)} AS `_k{at}`" for at, name in enumerate(schema.key))
    return f"{keys}, {alias}.`{ROW_STATE}` AS `{ROW_STATE}`, {from_delta} AS `_from_delta`"


def check_names(spec: TableSpec, schema: Schema) -> None:
    """Raise Refused if the source has a column with the name of the view's own."""
    if spec.soft and DELETED in map(schema.view_name, schema.payload):
        raise Refused(
            f"table {spec.name}: under `delete: soft` the view has a column {DELETED}, and so has the source. Set `delete: hide`, or leave the "
            f"source's out: `columns: {{{DELETED}: exclude}}`."
        )


def view(spec: TableSpec, snapshot: Snapshot, dialect: Dialect = HIVE) -> ViewDef:
    """Return the view. Raises Refused for two columns of one name."""
    check_names(spec, snapshot.schema)
    columns = (*payload_columns(snapshot.schema), *deleted_column(spec))
    properties = {UUID: snapshot.uuid, VERSION: str(snapshot.version), WHOLE_TO: snapshot.watermark.whole_to or UNKNOWN}
    properties.update(_described(spec, snapshot.schema))
    return ViewDef(spec.database, in_dialect(spec.view, dialect), view_text(spec, snapshot, dialect), columns, properties, dialect.called)


def published(spec: TableSpec, snapshot: Snapshot) -> list[ViewDef]:
    """Return the view, and its other form for each engine that cannot read it."""
    return [view(spec, snapshot, dialect) for dialect in dialects(spec)]


def _described(spec: TableSpec, schema: Schema) -> dict[str, str]:
    return {**registered(schema), "comment": f"current rows of {spec.name}, kept by compactor"}


def declared(spec: TableSpec, schema: Schema) -> tuple[TableDef, ViewDef]:
    """Return the table `<t>_schema` for a table without rows yet, and the view over it.

    It is partitioned and has no partitions, so that no engine lists a directory.
    """
    columns = (*payload_columns(schema), *deleted_column(spec))
    table = TableDef(
        spec.tables_in,
        f"{spec.name}_schema",
        columns,
        (Column("delta_version", "string"),),
        spec.layout.inside("_compactor/schema"),
        registered(schema),
        comment=f"compactor: columns of {spec.database}.{spec.view} before its first rows",
    )
    chosen = ", ".join(f"`__s`.{quoted(column.name)} AS {quoted(column.name)}" for column in columns)
    text = f"SELECT {chosen} FROM {quoted(table.database)}.{quoted(table.name)} `__s`"
    properties = {UUID: NOBODY, VERSION: "0", ROOT: spec.root, **_described(spec, schema)}
    return table, ViewDef(spec.database, spec.view, text, columns, properties)
