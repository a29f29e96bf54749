"""The table `<t>_incremental` over landed files. Text files show their lines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Optional

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef
from compactor.core.model import names, types
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import MICROS, WriterField
from compactor.core.sources import increment

FOLDER = "landed_folder"
"""The partition column: `f_` and the folder's path with `_` for `/`."""

_LINE = (("line", "string"),)


Registered = Callable[[str], Optional[TableDef]]


def table(spec: TableSpec, snapshot: Snapshot, registered: Registered = lambda name: None) -> TableDef:
    """Return the table, which has one partition for each registered folder.

    No engine reads files of another type than the table's. So the table is the first of `<t>_incremental`, `<t>_incremental_g2` .. that is free, or
    whose columns have the types of the files that the newest run read.
    """
    generation = 1
    while True:
        made = _table(spec, snapshot, generation)
        there = registered(made.name)
        continued = _continued(there, made) if there is not None else made.columns
        if continued is not None:
            return dataclasses.replace(made, columns=continued)
        generation += 1


def other_tables(spec: TableSpec, current: TableDef, registered: Registered) -> list[TableDef]:
    """Return the other registered tables over the landing folders."""
    names = (views.table_name(spec, "incremental", generation) for generation in itertools.count(1))
    tables = itertools.takewhile(lambda table: table is not None, (current if name == current.name else registered(name) for name in names))
    return [table for table in tables if table is not None and table is not current]


def _continued(there: TableDef, made: TableDef) -> tuple[Column, ...] | None:
    """Return the columns of a registered table and the new ones after them; None if the files have other types, or lie in another folder."""
    if (there.format, there.location) != (made.format, made.location):
        return None
    if made.format == "json":
        return there.columns
    kinds = {column.name: types.parse(column.type) for column in there.columns}
    if any(kinds.get(column.name, types.parse(column.type)) != types.parse(column.type) for column in made.columns):
        return None
    return (*there.columns, *(column for column in made.columns if column.name not in kinds))


def _table(spec: TableSpec, snapshot: Snapshot, generation: int) -> TableDef:
    kind = spec.format if spec.format != "auto" else snapshot.raw_format or "json"
    # CSV files show their lines too
    kind = "json" if kind == "csv" else kind
    return TableDef(
        spec.tables_in,
        views.table_name(spec, "incremental", generation),
        tuple(Column(name, type_) for name, type_ in (columns(snapshot) or _LINE)),
        (Column(FOLDER, "string"),),
        spec.landing,
        {views.UUID: snapshot.uuid},
        format=kind,
        comment=f"compactor: landed files of {spec.database}.{spec.view}, as of the last run or `compactor publish`; columns are those of the files "
        "of the last run, without columns whose names Hive cannot read",
    )


def column_type(kind: types.Type, field: WriterField | None, schema: str) -> types.Type:
    """Return the type of a column of Avro files as engines can read it: they take each timestamp for milliseconds. `schema`: that of the files."""
    if kind == ("timestamp",):
        return ("bigint",) if field is not None and field.semantic == MICROS else kind
    return _with_numbers(kind) if "timestamp-micros" in schema else kind


def _with_numbers(kind: types.Type) -> types.Type:
    if kind[0] == "struct":
        return ("struct", tuple((name, _with_numbers(member)) for name, member in kind[1]))
    if kind[0] in ("array", "map"):
        return (*kind[:-1], _with_numbers(kind[-1]))
    return ("bigint",) if kind == ("timestamp",) else kind


def common_type(one: types.Type, other: types.Type) -> types.Type:
    """Return the type of a column that landed files have in these two. In Avro files a timestamp and a number are both numbers."""
    if {one, other} == {("timestamp",), ("bigint",)}:
        return ("bigint",)
    return types.widest(one, other) or ("string",)


def columns(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """Return (name, type) of the files' columns that every engine can read.

    Engines find a column of a Parquet file by its name, so that a column such as `a.b c` cannot have another name in the table, and Hive 2 fails on
    a table that has it under its own.
    """
    others = ((name, text, types.parse(text)) for name, text in snapshot.raw if name != FOLDER)
    return tuple((name, text) for name, text, kind in others if names.stored_name(name) == name and types.stored_names(kind) == kind)


def partition(spec: TableSpec, folder: str) -> PartitionDef:
    """Return the partition of a folder. Its value starts with a letter, because some engines take other values for numbers."""
    location = spec.layout.landed(folder) if folder else spec.landing
    return PartitionDef((f"f_{folder.replace('/', '_')}",), location)


def partitions(spec: TableSpec, paths: Iterable[str]) -> list[PartitionDef]:
    """Return one partition for each folder with files."""
    places = (increment.landed(spec.pattern, path) for path in paths if not increment.ignored(path, spec.ignore))
    return [partition(spec, folder) for folder in sorted({place.folder for place in places if place})]
