"""Base and Delta files: reading them as states, writing them sorted, and reading back what was written to check it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed
from compactor.core.model.layout import join
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import DataFile, Segment
from compactor.ports import Storage
from compactor.spark.consistency import ConsistentReads
from compactor.spark.decode import conversions
from compactor.spark.rows import position
from compactor.spark.rows.conform import key_columns, key_text
from compactor.spark.rows.resolve import ALL, STATE
from compactor.spark.sql import cast, literal, named, quoted, struct


def stored_types(schema: Schema, order: position.Order) -> list[tuple[str, str]]:
    """Name and Hive type of every column of a base or Delta file."""
    pos = position.ddl(order)
    kinds = {
        "_op": "string",
        "_version": "bigint",
        "_position": pos,
        "_older": position.older_ddl(order),
        "_from": "string",
        "_moved_to": "string",
    }
    return [*((field.name, field.type) for field in schema.fields), *((name, kinds[name]) for name in STATE)]


def read(spark: SparkSession, schema: Schema, order: position.Order, directories: Mapping[str, int], stored: Schema | None = None) -> DataFrame:
    """States out of base or Delta directories (each with its bytes). `stored`: the schema they were written with, when column types changed since.

    Raises InconsistentRead when Spark finds other files there than were written.
    """
    old = {field.name: field.type for field in stored.fields} if stored else {}
    file_types = [(name, old.get(name, kind)) for name, kind in stored_types(schema, order)]
    return parquet(spark, file_types, directories).selectExpr(*payload(schema, old), *STATE)


def parquet(spark: SparkSession, columns: Iterable[tuple[str, str]], directories: Mapping[str, int]) -> DataFrame:
    """Read these columns (name, Hive type) of Parquet directories, each with the bytes of its files.

    Raises InconsistentRead when Spark finds other files there.
    """
    ddl = ", ".join(f"{quoted(name)} {types.text(types.parse(kind), quote=True)}" for name, kind in columns)
    if not directories:
        return spark.createDataFrame([], ddl)
    return ConsistentReads(directories).open(lambda: spark.read.schema(ddl).parquet(*directories), [*directories])


def payload(schema: Schema, old: Mapping[str, str]) -> list[str]:
    """SQL for the stored columns out of files whose columns had the types `old`."""
    columns = []
    for field in schema.fields:
        value = quoted(field.name)
        if old.get(field.name, field.type) != field.type:
            # as new rows are: members by name, an array that became text as JSON
            value = conversions.follow(value, types.parse(old[field.name]), types.parse(field.type))
        if field.default is not None and field.since > 1:
            # a row written before the column came reads its first default (H15)
            value = f"CASE WHEN _version < {field.since} THEN {cast(literal(field.default), types.parse(field.type))} ELSE {value} END"
        columns.append(f"{value} AS {quoted(field.name)}")
    return columns


def bound(low_or_high: Sequence[Any], schema: Schema) -> str:
    """SQL for a Segment's bound as a struct that compares with `key_struct`."""
    kinds = [schema.field(name).type for name in schema.key]
    values = key_columns(literal(json.dumps(list(low_or_high))), kinds)
    # structs compare only when their members have the same names
    return struct(list(zip(schema.key, values)))


def key_struct(schema: Schema) -> str:
    """SQL for a row's key as a struct."""
    return struct([(name, quoted(name)) for name in schema.key])


def segment_index(segments: Sequence[Segment], schema: Schema) -> str:
    """SQL: which of the (ordered) segments owns a key."""
    cases = " ".join(
        f"WHEN {key_struct(schema)} < {bound(segment.high, schema)} THEN {at}" for at, segment in enumerate(segments) if segment.high is not None
    )
    return f"CASE {cases} ELSE {len(segments) - 1} END" if cases else "0"


def write(rows: DataFrame, schema: Schema, directory: str, by_segment: bool = False) -> None:
    """Write states, each file sorted by key."""
    columns = [quoted(name) for name in (*schema.names, *STATE, *(("segment",) if by_segment else ()))]
    ordered = rows.selectExpr(*columns).sortWithinPartitions(*(["segment"] if by_segment else []), *[quoted(name) for name in schema.key])
    writer = ordered.write.mode("errorifexists")
    (writer.partitionBy("segment") if by_segment else writer).parquet(directory)


@dataclass(frozen=True)
class Written:
    """What a directory holds, read back from its files. Keys are lists of text (`conform.key_text`)."""

    name: str
    rows: int
    tombstones: int
    key_min: tuple[str, ...]
    position_min: Position | None
    position_max: Position | None
    partial: tuple[str, ...]
    files: tuple[DataFile, ...]


def inspect(spark: SparkSession, storage: Storage, schema: Schema, order: position.Order, directory: str, table: str, expected: int) -> list[Written]:
    """Read back what `write` wrote, in key order: one entry per segment (one in all for a Delta).

    Raises CheckFailed on a key that is null or there twice, and on other than the `expected` number of rows.
    """
    files: dict[str, list[DataFile]] = {}
    for info in storage.list(directory):
        inside = info.path[len(directory.rstrip("/")) + 1 :]
        if not inside.rsplit("/", 1)[-1].startswith(("_", ".")):
            files.setdefault(inside.rpartition("/")[0], []).append(DataFile(inside.rpartition("/")[2], info.size, storage.checksum(info)))
    if not files:
        _complete(0, expected, directory, table)
        return []
    keys = [quoted(name) for name in schema.key]
    kinds = [schema.field(name).type for name in schema.key]
    wanted = [(name, kind) for name, kind in stored_types(schema, order) if name in (*schema.key, *STATE)]
    sizes = {join(directory, part) if part else directory: sum(file.size for file in held) for part, held in files.items()}
    rows = parquet(spark, wanted, sizes)
    origin = "regexp_extract(_metadata.file_path, '(segment=[0-9-]+)/[^/]+$', 1)"
    null_key = " OR ".join(f"{key} IS NULL" for key in keys)
    by_key = (
        rows.selectExpr("*", f"{origin} AS __dir")
        .groupBy(*keys)
        .agg(
            named("count(1)", "__n"),
            named("max(__dir)", "__d"),
            named("max(_op = 'd')", "__t"),
            named("min(_position)", "__a"),
            named("max(_position)", "__b"),
            named("max(map_keys(_older))", "__p"),
        )
    )
    least = [f"min({key_struct(schema)}).{quoted(name)}" for name in schema.key]
    found = (
        by_key.groupBy("__d")
        .agg(
            named("sum(__n)", "rows"),
            named("sum(CAST(__t AS INT))", "tombstones"),
            named(key_text(least, kinds), "least"),
            named("min(__a)", "first"),
            named("max(__b)", "last"),
            named("array_distinct(flatten(collect_set(__p)))", "partial"),
            named("max(__n)", "most"),
            named(f"max({null_key})", "nokey"),
            named(f"min({key_struct(schema)})", "low"),
        )
        .orderBy("low")
        .collect()
    )
    for row in found:
        if row.most > 1 or row.nokey:
            what = "a key occurs twice" if row.most > 1 else "a key is null"
            raise CheckFailed(f"table {table}: staged data in {directory}: {what}; expected exactly one row per key. Nothing was committed.")
    _complete(sum(row.rows for row in found), expected, directory, table)
    return [
        Written(
            row["__d"],
            row.rows,
            row.tombstones,
            tuple(json.loads(row.least)),
            position.from_row(row.first),
            position.from_row(row.last),
            tuple(sorted(name for name in row.partial if name != ALL)),
            tuple(files[row["__d"]]),
        )
        for row in found
    ]


def _complete(found: int, expected: int, directory: str, table: str) -> None:
    if found != expected:
        raise CheckFailed(
            f"table {table}: staged data in {directory}: {found:,} rows are there, expected the {expected:,} that were written. Does the store list "
            "what was just written? Nothing was committed."
        )


def held(rows: DataFrame) -> DataFrame:
    """Rows computed once and kept until their holder is gone.

    On one machine by a local checkpoint, which forgets how they were computed: Spark looks through a cached plan again at every
    step, and for small data looking costs more than computing. On a cluster by the cache, which survives a lost executor.
    """
    local = str(rows.sparkSession.sparkContext.master).startswith("local")
    return rows.localCheckpoint() if local else rows.persist()
