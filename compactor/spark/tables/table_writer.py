"""Base and Delta files: write sorted states, read them, and check what was written.

Files hold the table's stored columns and `columns.STATE`, without those that are null in every row: writing a null costs as much as a number. Rows
that are shown and tombstones are in folders of their own, `row_state=live` and `row_state=deleted`. Every row of a directory has another key, because
a resolution leaves one row of each.

What was written is checked without a Spark job: the tasks count the rows that they write, and the footers those that are there (of the change feed
and the history, too).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed, InconsistentRead
from compactor.core.model.files import DELETED, LIVE, ROW_STATE, DataFile, FileInfo
from compactor.core.model.layout import join, relative
from compactor.core.model.position import state_columns
from compactor.core.model.schema import Schema
from compactor.core.schema.clustering import FileOrder
from compactor.ports import Storage
from compactor.spark import failures, measured
from compactor.spark.columns import GONE, MOVED, OWN, SEGMENT, STATE
from compactor.spark.consistency import ConsistentReads, bare, retried
from compactor.spark.decode import conversions
from compactor.spark.jvm import hadoop
from compactor.spark.measured import Pass
from compactor.spark.rows import position
from compactor.spark.sql import literal, named, quoted
from compactor.spark.tables import defaults

FILES_MAX = 64
"""The number of footers that the driver reads one after the other. Each takes three requests to a remote store; for more a Spark job is faster."""


def stored_types(schema: Schema, order: position.Order) -> list[tuple[str, str]]:
    """Return name and Hive type of every column of a base or Delta file."""
    return [*((field.name, field.type) for field in schema.fields), *state_columns(order)]


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


@dataclass(frozen=True)
class Form:
    """What the files of states are like."""

    schema: Schema
    order: position.Order
    layout: FileOrder
    partial: Sequence[str]
    """The columns that may have a register of their own."""
    filled: Collection[str]
    """The columns whose default the files hold."""
    tombstones: bool = True
    """Whether some row may be one."""
    in_order: bool = False
    """Whether the rows have the order of the files already."""

    def columns(self) -> list[str]:
        state = f"CASE WHEN _gone IS NULL THEN '{LIVE}' ELSE '{DELETED}' END AS {ROW_STATE}"
        values = (quoted(name) if name in self.filled else defaults.in_file(self.schema, name, self.order) for name in self.schema.names)
        return [*values, *STATE, state]

    def in_files(self, states: DataFrame, *folders: str) -> DataFrame:
        """Return the rows as files have them: without columns of STATE that are null in every row, sorted in each of `folders`."""
        lacking = [*([] if self.partial else [OWN]), *([] if self.tombstones else [GONE]), *([] if self.partial or self.tombstones else [MOVED])]
        rows = states.drop(*lacking)
        return rows if self.in_order else rows.sortWithinPartitions(*folders, *map(quoted, self.layout.columns))

    def options(self) -> dict[str, str]:
        return {"parquet.block.size": str(self.layout.row_group_bytes)} if self.layout.row_group_bytes else {}


def write(
    storage: Storage,
    rows: DataFrame,
    form: Form,
    directory: str,
    table: str,
    aggregates: Mapping[str, str] = MappingProxyType({}),
    by_segment: bool = False,
) -> tuple[dict[str, Written], Pass]:
    """Write states into a new directory, and check what was written. One Spark job.

    `aggregates` (name → SQL) are computed for `Written.numbers`. `by_segment`: with a folder for each value of SEGMENT.

    Returns what was written by the Segment's folder ("" without `by_segment`), without those that have no rows, and the pass that wrote. Raises
    CheckFailed if other rows are in the files than were written.
    """
    counted = {"registers": _registers(form.partial)} if form.partial else {}
    counted.update(aggregates)
    folders = [SEGMENT] if by_segment else []
    states = rows.selectExpr(*form.columns(), *folders)
    states = measured.observe(states, "written", counted) if counted else states
    done = measured.write_parquet(form.in_files(states, *folders), directory, *folders, ROW_STATE, options=form.options())
    files = files_by_folder(storage, directory, by_segment)
    places = {join(directory, part, file.name): file.size for part, group in files.items() for file in group}
    there = count_rows(rows.sparkSession, places)
    check_complete(sum(there.values()), done.rows or 0, "data", directory, table)
    numbers = (done.numbers("written") or measured.compute(states, counted)) if counted and done.rows else {}
    made = {}
    for part, group in sorted(files.items()):
        by_file = [(file.name.startswith(f"{ROW_STATE}={DELETED}/"), there[join(directory, part, file.name)]) for file in group]
        count, gone = sum(count for _, count in by_file), sum(count for hidden, count in by_file if hidden)
        made[part] = Written(count, gone, tuple(sorted(numbers.get("registers", ()))), tuple(group), numbers)
    return {part: each for part, each in made.items() if each.rows}, done


@dataclass(frozen=True)
class Written:
    """One Segment, or a Delta, as its footers describe it."""

    rows: int
    """Rows, tombstones included."""
    tombstones: int
    """Rows that are deleted."""
    unavailable_columns: tuple[str, ...]
    """Columns that have a register of their own in some row (`_own`) of the directory."""
    files: tuple[DataFile, ...]
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The aggregates of the directory that were asked for."""


def _registers(partial: Sequence[str]) -> str:
    """SQL for an aggregation: the columns that have a register of their own in some row."""
    registers = [f"CASE WHEN coalesce(max(map_contains_key(_own, {literal(name)})), false) THEN {literal(name)} END" for name in partial]
    return f"array_compact(array({', '.join(registers)}))"


def files_by_folder(storage: Storage, directory: str, folders: bool = True) -> dict[str, list[DataFile]]:
    """Return the files below a directory, by their first folder in it, or all of them under ""."""
    files: dict[str, list[DataFile]] = {}
    for path, info in listed(storage, directory):
        folder, _, inside = path.partition("/") if folders else ("", "", path)
        files.setdefault(folder, []).append(DataFile(inside, info.size, storage.checksum(info)))
    return files


def count_rows(spark: SparkSession, files: Mapping[str, int]) -> dict[str, int]:
    """Return the number of rows of each of these files (location → bytes as listed).

    Raises InconsistentRead if Spark's client sees other files.
    """
    if len(files) <= FILES_MAX:
        return {location: retried(partial(_rows, spark, location, size)) for location, size in files.items()}
    folders: dict[str, int] = {}
    for location, size in files.items():
        folder = location.rpartition("/")[0]
        folders[folder] = folders.get(folder, 0) + size
    # of no column: Spark reads footers alone
    rows = ConsistentReads(folders).open(spark.read.schema(StructType()).format("parquet"), [*folders])
    counts = rows.groupBy(named("_metadata.file_path", "path")).count().collect()
    by_path = {bare(unquote(row.path)): row["count"] for row in counts}
    return {location: by_path.get(bare(location), 0) for location in files}


def _rows(spark: SparkSession, location: str, size: int) -> int:
    try:
        file = hadoop.parquet_file(spark, location)
        if file.getLength() != size:
            raise InconsistentRead(f"{location}: expected {size:,} bytes, Spark's client sees {file.getLength():,}. Nothing was committed. Run again")
        with hadoop.parquet(spark, file) as reader:
            return int(reader.getRecordCount())
    except Exception as error:
        raise failures.environment_error(error, stored=True) or error from None


def listed(storage: Storage, directory: str) -> list[tuple[str, FileInfo]]:
    """Return (path below the directory, file) of what was written, without Spark's own files (`_SUCCESS`, `.crc`)."""
    files = ((relative(info.path, directory), info) for info in storage.list(directory))
    return [(path, info) for path, info in files if not path.rpartition("/")[2].startswith(("_", "."))]


def check_complete(rows: int, expected: int, what: str, directory: str, table: str) -> None:
    """Raise CheckFailed if there are not as many rows as were written. `what` was written, for the message."""
    if rows != expected:
        raise CheckFailed(
            f"table {table}: staged {what} in {directory}: {rows:,} rows are there, expected the {expected:,} that were written. "
            "Check that the store lists files as soon as they are written. Nothing was committed."
        )
