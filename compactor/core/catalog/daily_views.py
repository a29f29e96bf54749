"""`<view>_daily`: the frozen days of a table, and the tables below the view (docs/design/history.md#frozen-days).

A partition of `<t>_daily_rows` is a Segment or the Delta of a day's version. It points at the directory that the version wrote, and days share
directories. The view selects the days by their first and last one, so that a day is shown as a whole or not at all.

The columns are those of the newest version. Each *form*, days whose versions have the same columns, is a query of its own over the table of its
generation. A column of another type is cast to the widest type of all forms. What a form lacks, or what no cast can convert, is null: the table has
a column for each such type that no file has, because no engine-independent SQL writes nulls of every type.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.catalog.dialect import HIVE, HIVE_NAME, PORTABLE, Dialect
from compactor.core.model import types
from compactor.core.model.files import DELETED as TOMBSTONES
from compactor.core.model.files import ROW_STATE
from compactor.core.model.names import unique
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec

ROWS = "daily_rows"
"""Suffix of the table below the view."""

DAY = "dt"
"""The view's last column. A column of the source with this name is shown as `dt_2`."""

DAY_COLUMN, PART_COLUMN = "daily_day", "daily_part"
"""The partition columns: the day; the id of a Segment, or `delta`."""

_DELTA = "delta"


@dataclass(frozen=True)
class Form:
    """Days, one after the other, whose versions have the same columns."""

    snapshot: Snapshot
    """One of their versions, or its stub."""
    first: str
    last: str


@dataclass(frozen=True)
class _Shown:
    """A column of the view."""

    field: Field
    main: str
    name: str
    type: types.Type
    """The type that holds its values of all days."""


def form(version: Snapshot) -> str:
    """Return a digest of what the query over a version's files depends on. Days with the same one share a query."""
    schema = version.schema
    fields = [(field.name, field.type, schema.view_name(field) if field.visible else None) for field in schema.fields]
    text = json.dumps([schema.generation, schema.key, version.order, fields, schema.defaults], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def called(spec: TableSpec) -> str:
    return f"{spec.view}_daily"


def has_days(name: str) -> bool:
    """Return whether a catalog table is one below the view of days."""
    return re.search(rf"_{ROWS}(_g\d+)?$", name) is not None


def table(spec: TableSpec, version: Snapshot) -> str:
    """Return the name of the table with the partitions of a version."""
    return views.table_name(spec, ROWS, version.schema.generation)


def tables(spec: TableSpec, snapshot: Snapshot, forms: Sequence[Form]) -> list[TableDef]:
    """Return the tables that the view reads, one a generation."""
    layout, shown = spec.layout, _columns(snapshot, forms)
    newest = {each.schema.generation: each for each in _versions(snapshot, forms)}
    absent: dict[int, dict[str, Column]] = {generation: {} for generation in newest}
    for each in _versions(snapshot, forms):
        lacking = (column.type for column in shown if _read(each.schema, column) is None)
        absent[each.schema.generation].update((_absent(kind), Column(_absent(kind), types.text(kind), "null")) for kind in lacking)
    return [
        TableDef(
            spec.tables_in,
            table(spec, each),
            (*views.tables(spec, each)[0].columns, *absent[generation].values()),
            (Column(DAY_COLUMN, "string"), Column(PART_COLUMN, "string"), Column(ROW_STATE, "string")),
            layout.inside("base"),
            {views.UUID: snapshot.uuid},
            comment=f"compactor: days of {spec.database}.{called(spec)}; read the view",
        )
        for generation, each in newest.items()
    ]


def extended(definition: TableDef, registered: TableDef | None) -> TableDef:
    """Return a table with the registered columns first: a metastore only appends columns."""
    if registered is None:
        return definition
    requested = {column.name: column for column in definition.columns}
    there = [requested.pop(column.name, column) for column in registered.columns]
    return TableDef(**{**vars(definition), "columns": (*there, *requested.values())})


def partitions(spec: TableSpec, day: str, version: Snapshot) -> list[PartitionDef]:
    """Return the partitions of a day. `version`: its Snapshot."""
    base, delta = views.partitions(spec, version)
    parts = [(part.values[1:], part) for part in base] + [((_DELTA, part.values[1]), part) for part in delta]
    return [PartitionDef((day, *values), part.location, part.rows, part.size, part.files) for values, part in parts]


def _versions(snapshot: Snapshot, forms: Sequence[Form]) -> list[Snapshot]:
    # without a day the view reads the newest form, and no row of it
    return [form.snapshot for form in forms] or [snapshot]


def _columns(snapshot: Snapshot, forms: Sequence[Form]) -> list[_Shown]:
    """Return the columns of the newest version, in the widest type that days have."""
    schema, out = snapshot.schema, list[_Shown]()
    names = {DAY, *(schema.view_name(field) for field in schema.payload)}
    for field in schema.payload:
        main, kind = schema.view_name(field), types.parse(field.type)
        for form in forms:
            old = _match(form.snapshot.schema, field, main)
            kind = (_common(types.parse(old.type), kind) if old else None) or kind
        out.append(_Shown(field, main, unique(main, names) if main == DAY else main, kind))
    return out


def _match(schema: Schema, field: Field, main: str) -> Field | None:
    """Return the column of a form that a column of the newest version continues: the same stored one, else what was shown under its name."""
    there = {each.name: each for each in schema.payload}
    return there.get(field.name) or next((each for each in schema.payload if schema.view_name(each) == main), None)


def _common(old: types.Type, new: types.Type) -> types.Type | None:
    """Return the type that holds both without loss and to which every engine casts both; None without one."""
    if old == new:
        return new
    if not (types.is_scalar(old) and types.is_scalar(new)):
        return None
    if ("string",) in (old, new):
        return ("string",)
    # as JSON has one kind of number only, its numbers become double as soon as a run has seen a fraction
    kind = types.widest(old, new, numbers=True, also=("date_to_timestamp",))
    return kind if kind and (kind == ("timestamp",) or PORTABLE.fullmatch(types.text(kind))) else None


def _read(schema: Schema, column: _Shown) -> Field | None:
    """Return the column of a form that `column` reads, or None if it is null there."""
    old = _match(schema, column.field, column.main)
    return old if old is not None and _common(types.parse(old.type), column.type) == column.type else None


def _absent(kind: types.Type) -> str:
    return f"__null_{hashlib.sha256(types.text(kind).encode()).hexdigest()[:8]}"


def _values(alias: str, spec: TableSpec, form: Snapshot, columns: Sequence[_Shown], dialect: Dialect) -> Iterator[str]:
    q = dialect.name
    for column in columns:
        field = _read(form.schema, column)
        if field is None:
            value = f"{alias}.{q(_absent(column.type))}"
        else:
            value = views.value(alias, field, form, dialect, views.exists(alias, spec, dialect))
            old, text = types.parse(field.type), column.type == ("string",)
            if old != column.type and text and dialect.as_text is not None:
                value = dialect.as_text(value, old)
            elif old != column.type:
                # of the text types only varchar with a length is known to Spark, Hive and Trino
                text = text and dialect.called == HIVE_NAME
                value = f"CAST({value} AS {'varchar(65535)' if text else dialect.type(types.text(column.type))})"
        yield f"{value} AS {q(column.name)}"
    if spec.soft:
        yield f"({alias}.{q(ROW_STATE)} = '{TOMBSTONES}') AS {q(views.DELETED)}"
    yield f"{alias}.{q(DAY_COLUMN)} AS {q(DAY)}"


def view_text(spec: TableSpec, snapshot: Snapshot, forms: Sequence[Form], dialect: Dialect = HIVE) -> str:
    """Return the query of the view: for each form, base rows without a Delta row of that day, and Delta rows, without tombstones.

    The main view has NOT EXISTS in the place of the join. Spark infers for joins only that the Delta is of the same day.
    """
    q, columns, out = dialect.name, _columns(snapshot, forms), []
    b, d = q("__b"), q("__d")

    def of_days(alias: str, form: Form) -> str:
        return f"{alias}.{q(DAY_COLUMN)} >= '{form.first}' AND {alias}.{q(DAY_COLUMN)} <= '{form.last}' AND {alias}.{q(PART_COLUMN)}"

    # no partition has the day `none`
    for form in forms or [Form(snapshot, "none", "none")]:
        rows = dialect.table(spec.tables_in, table(spec, form.snapshot))
        select = {alias: f"SELECT {', '.join(_values(alias, spec, form.snapshot, columns, dialect))} FROM {rows} {alias}" for alias in (b, d)}
        live = {alias: views.live_only(alias, spec, dialect) for alias in (b, d)}
        same = " AND ".join(f"{d}.{q(column)} = {b}.{q(column)}" for column in (DAY_COLUMN, *form.snapshot.schema.key))
        replaced = f"LEFT JOIN {rows} {d} ON {of_days(d, form)} = '{_DELTA}' AND {same}"
        out.append(f"{select[b]} {replaced} WHERE {of_days(b, form)} <> '{_DELTA}'{live[b]} AND {d}.{q('_version')} IS NULL")
        out.append(f"{select[d]} WHERE {of_days(d, form)} = '{_DELTA}'{live[d]}")
    return " UNION ALL ".join(out)


def view(spec: TableSpec, snapshot: Snapshot, forms: Sequence[Form], dialect: Dialect = HIVE) -> ViewDef:
    """Return the view. `forms`: all shown days."""
    columns = [Column(each.name, types.text(each.type), views.column_comment(each.field)) for each in _columns(snapshot, forms)]
    columns += views.deleted_column(spec)
    columns += [Column(DAY, "string", f"the day that the rows are the end of, {spec.daily.time_zone if spec.daily else 'UTC'}")]
    comment = f"rows of {spec.name} at the end of each day, kept by compactor" if spec.daily else f"no days of {spec.name} are kept any more"
    properties = {views.UUID: snapshot.uuid, views.VERSION: str(snapshot.version), "comment": comment}
    text, name = view_text(spec, snapshot, forms, dialect), views.in_dialect(called(spec), dialect)
    return ViewDef(spec.database, name, text, tuple(columns), properties, dialect.called)


def published(spec: TableSpec, snapshot: Snapshot, forms: Sequence[Form]) -> list[ViewDef]:
    return [view(spec, snapshot, forms, dialect) for dialect in views.dialects(spec)]
