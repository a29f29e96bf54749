"""Check Parquet files that were just written: list them, and count their rows by their footers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from compactor.core.model.errors import CheckFailed, InconsistentRead
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import relative
from compactor.ports import Storage
from compactor.spark import failures
from compactor.spark.consistency import ConsistentReads, bare, retried
from compactor.spark.jvm import hadoop
from compactor.spark.sql import named

FILES_MAX = 64
"""The number of footers that the driver reads one after the other. Each takes three requests to a remote store; for more a Spark job is faster."""


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
