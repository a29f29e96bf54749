"""Row counts of Parquet files that were just written, from their footers. The driver reads them without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import SparkSession

from compactor.core.model.errors import InconsistentRead
from compactor.spark import failures
from compactor.spark.consistency import retried
from compactor.spark.input import hadoop

FILES_MAX = 64
"""The number of footers that the driver reads one after the other. Each takes three requests to a remote store; for more a Spark job is faster."""


def count_rows(spark: SparkSession, files: Mapping[str, int]) -> int:
    """Return the number of rows of these files (location → bytes as listed). Raises InconsistentRead if Spark's client sees other files."""
    return sum(retried(partial(_rows, spark, location, size)) for location, size in files.items())


def _rows(spark: SparkSession, location: str, size: int) -> int:
    try:
        file = hadoop.parquet_file(spark, location)
        if file.getLength() != size:
            raise InconsistentRead(f"{location}: expected {size:,} bytes, Spark's client sees {file.getLength():,}. Nothing was committed. Run again")
        with hadoop.parquet(spark, file) as reader:
            return int(reader.getRecordCount())
    except Exception as error:
        raise failures.environment_error(error, stored=True) or error from None
