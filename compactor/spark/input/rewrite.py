"""Write a raw file again without some of its records.

JSON lines, CSV and Avro are cut as bytes (`raw_records`). Of a Parquet file the other records keep their order, their values and the types that
Spark reads; everything else in the file is Spark's own.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import ErasedRecords
from compactor.core.sources import increment
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import VALUE
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import csv_files, files, parquet_files, raw_records
from compactor.spark.sql import quoted
from compactor.spark.tables import footers

_NUMBER = "_compactor_number"
"""Column with the number of a record, from 1. It is not written."""


def without(spark: SparkSession, storage: Storage, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
    """Write the file into the new directory `staging` without these records, and return the one file there.

    Raises InputRefused if it has another number of records or cannot be rewritten record by record.
    """
    kind = spec.format if spec.format != "auto" and not increment.repaired_table(location) else increment.file_format(location)
    if records.changes and kind != "json":
        raise InputRefused(f"{location}: cannot be rewritten: its records hold changes of other keys too, and are no JSON lines")
    if kind == "parquet":
        return parquet_without(spark, storage, location, records, staging)
    csv = csv_files.settings(spec)
    data = raw_records.without(location, kind, storage.read(location), records, bool(csv.header), csv.delimiter, csv.quote)
    storage.write(f"{staging}/{location.rpartition('/')[2]}", data)
    (info,) = storage.list(staging)
    return info


def parquet_without(spark: SparkSession, storage: Storage, location: str, records: ErasedRecords, staging: str) -> FileInfo:
    """Write the file into the new directory `staging` without these records, and return the one file there.

    Raises InputRefused if it has another number of records, CheckFailed if what was written is not what was left.
    """
    columns = parquet_files.columns(spark, location)
    schema = files.parquet_schema(spark, location)
    info = storage.stat(location)
    records_there = footers.count_rows(spark, {location: info.size})[location] if info else 0
    if records_there != records.total:
        raise InputRefused(f"{location}: cannot be rewritten: the engine read {records.total} records from it, and its footer has {records_there}")
    value = f"struct({', '.join(parquet_files.values(columns))}) AS {VALUE}"
    raw = ConsistentReads({location: info.size} if info else {}).open(parquet_files.reader(spark, columns), [location])
    rows = files.with_origin(raw, (f"{files.METADATA}.row_index + 1 AS {_NUMBER}",), value)
    chosen: Any = spark.createDataFrame([(number,) for number in records.numbers], f"{_NUMBER} BIGINT")
    kept = rows.join(chosen.hint("broadcast"), [_NUMBER], "left_anti").repartition(1).sortWithinPartitions(_NUMBER)
    measured.write_parquet(kept.selectExpr(*(f"{VALUE}.{quoted(field.name)}" for field in schema.fields)), staging)
    made = _only_file(storage, staging)
    if columns.avro:
        parquet_files.copy_with_avro(spark, made.path, f"{staging}/described.parquet", columns.avro)
        storage.delete([made.path])
        made = _only_file(storage, staging)
    rest = footers.count_rows(spark, {made.path: made.size})[made.path]
    left = records_there - len(records.numbers)
    if rest != left or files.parquet_schema(spark, made.path) != schema:
        raise CheckFailed(f"{made.path}: expected {left} records with the columns of {location}, found {rest}. Nothing was committed.")
    return made


def _only_file(storage: Storage, folder: str) -> FileInfo:
    made = [info for info in storage.list(folder) if not info.path.rpartition("/")[2].startswith(("_", "."))]
    if len(made) != 1:
        raise CheckFailed(f"{folder}: expected one file, found {len(made)}. Nothing was committed.")
    return made[0]
