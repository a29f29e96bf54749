"""Base and Delta files: write sorted states, read them, and check what was written.

Files hold the table's stored columns and `columns.STATE`, without those that are null in every row: writing a null costs as much as a number. Rows
that are shown and tombstones are in folders of their own, `row_state=live` and `row_state=deleted`. Every row of a directory has another key, because
a resolution leaves one row of each.

What was written is checked without a Spark job: the tasks count the rows that they write, and the footers those that are there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import types
from compactor.core.model.files import DELETED, LIVE, ROW_STATE, DataFile
from compactor.core.model.layout import join
from compactor.core.model.position import Position, Span
from compactor.core.model.schema import Schema
from compactor.core.schema.clustering import FileOrder
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import GONE, MOVED, OWN, SEGMENT, STATE, state_types
from compactor.spark.consistency import ConsistentReads
from compactor.spark.decode import conversions
from compactor.spark.measured import Pass
from compactor.spark.rows import position
from compactor.spark.sql import literal, quoted
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


def write(
    storage: Storage,
    rows: DataFrame,
    schema: Schema,
    order: position.Order,
    directory: str,
    table: str,
    partial: Sequence[str],
    layout: FileOrder,
    span: Span,
    aggregates: Mapping[str, str] = MappingProxyType({}),
    in_order: bool = False,
    filled: Collection[str] = (),
    tombstones: bool = True,
    by_segment: bool = False,
) -> tuple[dict[str, Written], Pass]:
    """Write states into a new directory, each file as `layout` says, and check what was written. One Spark job.

    `partial` are the columns that may have a register of their own. `aggregates` (name → SQL) are computed for `Written.numbers`. `filled`: the
    columns whose default the files hold. `tombstones`: whether some row may be one. `by_segment`: with a folder for each value of SEGMENT.

    Returns what was written by the Segment's folder ("" without `by_segment`), without those that have no rows, and the pass that wrote. Raises
    CheckFailed if other rows are in the files than were written.
    """
    counted = {"registers": _registers(partial)} if partial else {}
    counted.update(aggregates)
    segment = [SEGMENT] if by_segment else []
    states = rows.selectExpr(*_stored(schema, order, filled), *segment)
    states = measured.observe(states, "written", counted) if counted else states
    rows = _in_files(states, partial, tombstones, () if in_order else (*segment, *_sort(layout)))
    done = measured.write_parquet(rows, directory, *segment, ROW_STATE, options=_options(layout))
    files = _files(storage, directory, by_segment)
    places = {join(directory, part, file.name): file.size for part, group in files.items() for file in group}
    there = footers.count_rows(rows.sparkSession, places)
    footers.check_complete(sum(there.values()), done.rows or 0, "data", directory, table)
    numbers = (done.numbers("written") or measured.compute(states, counted)) if counted and done.rows else {}
    made = {}
    for part, group in sorted(files.items()):
        by_file = [(file.name.startswith(f"{ROW_STATE}={DELETED}/"), there[join(directory, part, file.name)]) for file in group]
        count, gone = sum(count for _, count in by_file), sum(count for hidden, count in by_file if hidden)
        made[part] = Written(count, gone, *span, tuple(sorted(numbers.get("registers", ()))), tuple(group), numbers)
    return {part: each for part, each in made.items() if each.rows}, done


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
    """One Segment, or a Delta, as its footers describe it."""

    rows: int
    """Rows, tombstones included."""

    tombstones: int
    """Rows that are deleted."""

    position_min: Position | None
    """A Position that no row is below."""

    position_max: Position | None
    """A Position that no row is above."""

    unavailable_columns: tuple[str, ...]
    """Columns that have a register of their own in some row (`_own`) of the directory."""

    files: tuple[DataFile, ...]

    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The aggregates of the directory that were asked for."""


def _registers(partial: Sequence[str]) -> str:
    """SQL for an aggregation: the columns that have a register of their own in some row."""
    registers = [f"CASE WHEN coalesce(max(map_contains_key(_own, {literal(name)})), false) THEN {literal(name)} END" for name in partial]
    return f"array_compact(array({', '.join(registers)}))" if registers else "CAST(array() AS ARRAY<STRING>)"


def _files(storage: Storage, directory: str, by_segment: bool) -> dict[str, list[DataFile]]:
    """Return the files below a directory, by the folder of a Segment, or all of them under ""."""
    files: dict[str, list[DataFile]] = {}
    for path, info in footers.listed(storage, directory):
        folder, _, inside = path.partition("/") if by_segment else ("", "", path)
        files.setdefault(folder, []).append(DataFile(inside, info.size, storage.checksum(info)))
    return files
