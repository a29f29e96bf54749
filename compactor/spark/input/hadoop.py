"""Files as Spark's JVM reads them: Hadoop's file systems and codecs, and Parquet's footers, without a Spark job.

PySpark has no public way to these. A job for a footer or the first bytes of a file takes 20 times as long, and a client of our own would need the
cluster's credentials again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


def _configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration with the settings of the session."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def _path(spark: SparkSession, location: str) -> Any:
    """Return a location as Hadoop's Path."""
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(location)


@contextmanager
def opened(spark: SparkSession, location: str) -> Iterator[Any]:
    """Open a file; yield its stream, which can seek."""
    place = _path(spark, location)
    stream = place.getFileSystem(_configuration(spark)).open(place)
    try:
        yield stream
    finally:
        stream.close()


def size(spark: SparkSession, location: str) -> int:
    """Return the size of a file in bytes."""
    place = _path(spark, location)
    return int(place.getFileSystem(_configuration(spark)).getFileStatus(place).getLen())


def codec(spark: SparkSession, location: str) -> Any | None:
    """Return the codec of the compression that a file's suffix names, or None."""
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(_configuration(spark)).getCodec(_path(spark, location))


def content(spark: SparkSession, stream: Any, most: int) -> bytes:
    """Return up to `most` bytes of a stream, from where it is."""
    jvm: Any = spark._jvm
    return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(jvm.org.apache.commons.io.input.BoundedInputStream(stream, most)))


def parquet_file(spark: SparkSession, location: str) -> Any:
    """Return a Parquet file, for its size and its bytes."""
    jvm: Any = spark._jvm
    return jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(_path(spark, location), _configuration(spark))


@contextmanager
def parquet(spark: SparkSession, file: Any) -> Iterator[Any]:
    """Open a `parquet_file`; yield its reader, which has read the footer."""
    jvm: Any = spark._jvm
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    try:
        yield reader
    finally:
        reader.close()
