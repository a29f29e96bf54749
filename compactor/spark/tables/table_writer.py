"""Base and Delta files: write sorted states, read them, and check what was written.

Files hold the table's stored columns and `columns.STATE`, without those that are null in every row: writing a null costs as much as a number. Rows
that are shown and tombstones are in folders of their own, `row_state=live` and `row_state=deleted`. Every row of a directory has another key, because
a resolution leaves one row of each.

One directory is checked without a Spark job: the pass that writes counts the rows that it gets (`measured`), and the footers count those that are
there. Many Segments are read back, without their keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed
from compactor.core.model.files import DELETED, LIVE, ROW_STATE, DataFile
from compactor.core.model.layout import join
from compactor.core.model.position import Position, earliest, latest
from compactor.core.model.schema import Schema
from compactor.core.schema.clustering import FileOrder
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import AT, GONE, MOVED, OWN, SEGMENT, STATE, state_types
from compactor.spark.consistency import ConsistentReads
from compactor.spark.decode import conversions
from compactor.spark.measured import Pass
from compactor.spark.rows import position
from compactor.spark.rows.reduce import NEWEST
from compactor.spark.sql import BY_HASH, literal, named, quoted
from compactor.spark.tables import defaults, footers


def stored_types(schema: Schema, order: position.Order) -> list[tuple[str, str]]:
    """Return name and Hive type of every column of a base or Delta file."""
    return [*((field.name, field.type) for field in schema.fields), *state_types(order)]


def read(spark: SparkSession, schema: Schema, order: position.Order, directories: Mapping[str, int], stored: Schema | None = None) -> DataFrame:
    """Read the states in base or Delta directories (location → bytes of its files).

    `stored` is the schema they were written with, if column types have changed since. Raises InconsistentRead if Spark sees other files there than
    were written.
    """
    old = {field.name: field.type for field in stored.fields} if stored else {}
    file_types = [(name, old.get(name, kind)) for name, kind in stored_types(schema, order)]
    rows = parquet(spark, file_types, directories)
    if stored and any(read != schema.defaults.get(name) for name, read in stored.defaults.items()):
        rows = rows.selectExpr(
            *(defaults.in_file(stored, field.name, order) if field.name in old else quoted(field.name) for field in schema.fields), *STATE
        )
    values = (f"{defaults.shown(schema, name, order, value, stored)} AS {quoted(name)}" for name, value in payload(schema, old).items())
    return rows.selectExpr(*values, *STATE)


def parquet(spark: SparkSession, columns: Iterable[tuple[str, str]], directories: Mapping[str, int]) -> DataFrame:
    """Read these columns (name, Hive type) of Parquet directories (location → bytes of its files).

    Raises InconsistentRead if Spark sees other files there than were written.
    """
    ddl = ", ".join(f"{quoted(name)} {types.text(types.parse(kind), quote=True)}" for name, kind in columns)
    if not directories:
        return spark.createDataFrame([], ddl)
    return ConsistentReads(directories).open(spark.read.schema(ddl).format("parquet"), [*directories])


def payload(schema: Schema, old: Mapping[str, str]) -> dict[str, str]:
    """Return SQL for each stored column (by name), out of files whose columns had the types `old` (name → Hive type)."""
    columns = {}
    for field in schema.fields:
        value = quoted(field.name)
        if old.get(field.name, field.type) != field.type:
            # convert as new rows are converted: members by name, an array that became text as JSON
            value = conversions.change_type(value, types.parse(old[field.name]), types.parse(field.type))
        columns[field.name] = value
    return columns


def write_one(
    storage: Storage,
    rows: DataFrame,
    schema: Schema,
    order: position.Order,
    directory: str,
    table: str,
    partial: Sequence[str],
    layout: FileOrder,
    aggregates: Mapping[str, str] = MappingProxyType({}),
    in_order: bool = False,
    filled: Collection[str] = (),
    tombstones: bool = True,
) -> tuple[Written | None, Pass]:
    """Write states into one new directory, each file as `layout` says, and check what was written. One Spark job.

    `partial` are the columns that may have a register of their own. `aggregates` (name → SQL) are computed for `Written.numbers`. `filled`: the
    columns whose default the files hold. `tombstones`: whether some row may be one. Returns None for what was written if there are no rows, and the
    pass that wrote. Raises CheckFailed if a key is null, or if other rows are in the files than were written.
    """
    spark = rows.sparkSession
    counted = {
        "rows": "count(1)",
        "tombstones": "count_if(_gone IS NOT NULL)",
        "first": f"min({NEWEST})",
        "last": f"max({NEWEST})",
        "nokey": f"count_if({_null_key(schema)})",
        "unavailable_columns": _registers(partial),
        **aggregates,
    }
    states = measured.observe(rows.selectExpr(*_stored(schema, order, filled)), "written", counted)
    rows = _in_files(states, partial, tombstones, () if in_order else _sort(layout))
    done = measured.write_parquet(rows, directory, ROW_STATE, options=_options(layout))
    numbers = done.numbers("written")
    files = tuple(_files(storage, directory, by_segment=False).get("", ()))
    if numbers is None or len(files) > footers.FILES_MAX:
        folders = inspect(spark, storage, schema, order, directory, table, numbers["rows"] if numbers else rows.count(), partial, by_segment=False)
        return (folders[0] if folders else None), done
    if numbers["nokey"]:
        raise _key_failed(directory, table)
    rows_there = footers.count_rows(spark, {join(directory, file.name): file.size for file in files})
    footers.check_complete(rows_there, numbers["rows"], "data", directory, table)
    first, last = (position.from_json(numbers[end], order) for end in ("first", "last"))
    columns = tuple(sorted(numbers["unavailable_columns"]))
    written = Written("", numbers["rows"], numbers["tombstones"], first, last, columns, files, {name: numbers[name] for name in aggregates})
    return (written if written.rows else None), done


def _in_files(states: DataFrame, partial: Sequence[str], tombstones: bool, order: Sequence[str]) -> DataFrame:
    """Return the rows as files have them: without columns of STATE that are null in every row, sorted by `order` (empty: as they are)."""
    rows = states.drop(*([] if partial else [OWN]), *([] if tombstones else [GONE]), *([] if partial or tombstones else [MOVED]))
    return rows.sortWithinPartitions(*order) if order else rows


def _sort(layout: FileOrder) -> list[str]:
    return [quoted(name) for name in layout.columns]


def _options(layout: FileOrder) -> dict[str, str]:
    """Return the options of Spark's Parquet writer."""
    return {"parquet.block.size": str(layout.row_group_bytes)} if layout.row_group_bytes else {}


def _stored(schema: Schema, order: position.Order, filled: Collection[str]) -> list[str]:
    """SQL for each column of a file, and ROW_STATE."""
    state = f"CASE WHEN _gone IS NULL THEN '{LIVE}' ELSE '{DELETED}' END AS {ROW_STATE}"
    return [*(quoted(name) if name in filled else defaults.in_file(schema, name, order) for name in schema.names), *STATE, state]


@dataclass(frozen=True)
class Written:
    """One Segment, or a Delta, as it was read back from its files."""

    name: str
    """The folder below the directory; empty for a Delta."""

    rows: int
    """Rows, tombstones included."""

    tombstones: int
    """Rows that are deleted."""

    position_min: Position | None
    """The smallest Position of a row."""

    position_max: Position | None
    """The greatest Position of a row."""

    unavailable_columns: tuple[str, ...]
    """Columns that have a register of their own in some row (`_own`)."""

    files: tuple[DataFile, ...]

    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The aggregates that were asked for; empty if the pass that wrote did not compute them."""


def write_several(
    storage: Storage,
    rows: DataFrame,
    schema: Schema,
    order: position.Order,
    directory: str,
    table: str,
    partial: Sequence[str],
    layout: FileOrder,
    in_order: bool = False,
    filled: Collection[str] = (),
    tombstones: bool = True,
) -> tuple[list[Written], Pass]:
    """Write states into a new directory with a folder for each value of their column SEGMENT, and check what was written.

    Each file is as `layout` says. Two Spark jobs. Returns an entry for each folder, and the pass that wrote. Raises CheckFailed as `write_one` does.
    """
    counted = {"rows": "count(1)", "nokey": f"count_if({_null_key(schema)})"}
    states = measured.observe(rows.selectExpr(*_stored(schema, order, filled), SEGMENT), "written", counted)
    rows = _in_files(states, partial, tombstones, () if in_order else (SEGMENT, *_sort(layout)))
    done = measured.write_parquet(rows, directory, SEGMENT, ROW_STATE, options=_options(layout))
    numbers = done.numbers("written") or measured.compute(states, counted)
    if numbers["nokey"]:
        raise _key_failed(directory, table)
    return inspect(states.sparkSession, storage, schema, order, directory, table, numbers["rows"], partial, by_segment=True), done


def inspect(
    spark: SparkSession,
    storage: Storage,
    schema: Schema,
    order: position.Order,
    directory: str,
    table: str,
    expected: int,
    partial: Sequence[str],
    by_segment: bool,
) -> list[Written]:
    """Read back what was written: with `by_segment` one entry for each folder of a Segment, else one for all. One Spark job.

    Raises CheckFailed if the number of rows is not `expected`.
    """
    files = _files(storage, directory, by_segment)
    if not files:
        footers.check_complete(0, expected, "data", directory, table)
        return []
    columns = [(name, kind) for name, kind in stored_types(schema, order) if name in (AT, GONE, OWN)]
    sizes: dict[str, int] = {}
    for part, group in files.items():
        for file in group:
            folder = join(directory, part, file.name.rpartition("/")[0])
            sizes[folder] = sizes.get(folder, 0) + file.size
    by_folder: dict[str, list[Row]] = {}
    for row in _by_file(parquet(spark, columns, sizes), partial).collect():
        part = next(part for part in files if f"/{part}/" in row.path) if by_segment else ""
        by_folder.setdefault(part, []).append(row)
    footers.check_complete(sum(row.rows for rows in by_folder.values() for row in rows), expected, "data", directory, table)
    return [
        Written(
            part,
            sum(row.rows for row in rows),
            sum(row.tombstones for row in rows),
            earliest([position.from_row(row.first) for row in rows]),
            latest([position.from_row(row.last) for row in rows]),
            tuple(sorted({name for row in rows for name in row.unavailable_columns})),
            tuple(files[part]),
        )
        for part, rows in sorted(by_folder.items())
    ]


def _by_file(rows: DataFrame, partial: Sequence[str]) -> DataFrame:
    """Return one row for each file: `path`, `rows`, `tombstones`, `first` and `last` (Positions), `unavailable_columns`. In: AT, GONE, OWN."""
    return rows.groupBy(named("_metadata.file_path", "path")).agg(
        named("count(1)", "rows"),
        named("count_if(_gone IS NOT NULL)", "tombstones"),
        named(f"min({NEWEST})", "first"),
        named(f"max({NEWEST})", "last"),
        named(_registers(partial), "unavailable_columns"),
        named(BY_HASH, "_by_hash"),
    )


def _registers(partial: Sequence[str]) -> str:
    """SQL for an aggregation: the columns that have a register of their own in some row."""
    registers = [f"CASE WHEN coalesce(max(map_contains_key(_own, {literal(name)})), false) THEN {literal(name)} END" for name in partial]
    return f"array_compact(array({', '.join(registers)}))" if registers else "CAST(array() AS ARRAY<STRING>)"


def _null_key(schema: Schema) -> str:
    return " OR ".join(f"{quoted(name)} IS NULL" for name in schema.key)


def _files(storage: Storage, directory: str, by_segment: bool) -> dict[str, list[DataFile]]:
    """Return the files below a directory, by the folder of a Segment, or all of them under ""."""
    files: dict[str, list[DataFile]] = {}
    for path, info in footers.listed(storage, directory):
        folder, _, inside = path.partition("/") if by_segment else ("", "", path)
        files.setdefault(folder, []).append(DataFile(inside, info.size, storage.checksum(info)))
    return files


def _key_failed(directory: str, table: str) -> CheckFailed:
    return CheckFailed(f"table {table}: staged data in {directory}: a key is null; expected a key in every row. Nothing was committed.")
