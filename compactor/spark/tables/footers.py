"""Row counts of Parquet files that were just written, from their footers. The driver reads them without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from compactor.core.model.errors import InconsistentRead
from compactor.spark import failures
from compactor.spark.consistency import retried

FILES_MAX = 64
"""The number of footers that the driver reads one after the other. Each takes three requests to a remote store; for more a Spark job is faster."""


def count_rows(spark: SparkSession, files: Mapping[str, int]) -> int:
    """Return the number of rows of these files (location → bytes as listed). Raises InconsistentRead if Spark's client sees other files."""
    return sum(retried(partial(_rows, spark, location, size)) for location, size in files.items())


def _rows(spark: SparkSession, location: str, size: int) -> int:
    jvm: Any = spark._jvm
    parquet = jvm.org.apache.parquet.hadoop
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        file = parquet.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(location), conf)
        if file.getLength() != size:
            raise InconsistentRead(f"{location}: expected {size:,} bytes, Spark's client sees {file.getLength():,}. Nothing was committed. Run again")
        reader = parquet.ParquetFileReader.open(file)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()
    except Exception as error:
        raise failures.environment_error(error, stored=True) or error from None
