"""Files as Spark's JVM reads them: Hadoop's file systems and codecs, and Parquet's footers, without a Spark job.

PySpark has no public way to these. A job for a footer or the first bytes of a file takes 20 times as long, and a client of our own would need the
cluster's credentials again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from compactor.spark.jvm.private import hadoop_configuration, jvm


def _path(spark: SparkSession, location: str) -> Any:
    """Return a location as Hadoop's Path."""
    return jvm(spark).org.apache.hadoop.fs.Path(location)


@contextmanager
def opened(spark: SparkSession, location: str) -> Iterator[Any]:
    """Open a file; yield its stream, which can seek."""
    place = _path(spark, location)
    stream = place.getFileSystem(hadoop_configuration(spark)).open(place)
    try:
        yield stream
    finally:
        stream.close()


def size(spark: SparkSession, location: str) -> int:
    """Return the size of a file in bytes."""
    place = _path(spark, location)
    return int(place.getFileSystem(hadoop_configuration(spark)).getFileStatus(place).getLen())


def codec(spark: SparkSession, location: str) -> Any | None:
    """Return the codec of the compression that a file's suffix names, or None."""
    return jvm(spark).org.apache.hadoop.io.compress.CompressionCodecFactory(hadoop_configuration(spark)).getCodec(_path(spark, location))


def content(spark: SparkSession, stream: Any, most: int) -> bytes:
    """Return up to `most` bytes of a stream, from where it is."""
    java = jvm(spark).org.apache.commons.io
    return bytes(java.IOUtils.toByteArray(java.input.BoundedInputStream(stream, most)))


def parquet_file(spark: SparkSession, location: str) -> Any:
    """Return a Parquet file, for its size and its bytes."""
    return jvm(spark).org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(_path(spark, location), hadoop_configuration(spark))


@contextmanager
def parquet(spark: SparkSession, file: Any) -> Iterator[Any]:
    """Open a `parquet_file`; yield its reader, which has read the footer."""
    reader = jvm(spark).org.apache.parquet.hadoop.ParquetFileReader.open(file)
    try:
        yield reader
    finally:
        reader.close()


def parquet_writer(spark: SparkSession, location: str, schema: Any) -> Any:
    """Return a writer of a new Parquet file, to which whole files can be appended."""
    java = jvm(spark).org.apache.parquet.hadoop
    out = java.util.HadoopOutputFile.fromPath(_path(spark, location), hadoop_configuration(spark))
    create = getattr(java, "ParquetFileWriter$Mode").CREATE
    return java.ParquetFileWriter(out, schema, create, java.ParquetWriter.DEFAULT_BLOCK_SIZE, java.ParquetWriter.MAX_PADDING_SIZE_DEFAULT)
