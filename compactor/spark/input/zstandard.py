"""Unpack text files that are packed with zstd into a scratch directory, for a Spark whose Hadoop has no native library (the one on PyPI).

Hadoop reads `.gz`, `.bz2` and `.snappy` with Java alone, and `.zst` only with its native library, which EMR has. Parquet and Avro files are not
concerned: they are packed inside, and Spark unpacks those itself.
"""

from __future__ import annotations

import dataclasses
import os

from pyspark.sql import SparkSession

from compactor.core.model.errors import InputRefused
from compactor.spark import failures
from compactor.spark.columns import FILE
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input.files import RawFrame, plain_reason
from compactor.spark.jvm import hadoop
from compactor.spark.jvm.private import jvm

_PLAIN = "/plain"
"""The name of an unpacked copy, in a folder called like the file. With `.zst` at its end Hadoop would unpack it again."""


def must_unpack(spark: SparkSession, path: str) -> bool:
    """Whether a text file must be unpacked before Spark can read it."""
    if not path.endswith(".zst"):
        return False
    try:
        jvm(spark).org.apache.hadoop.io.compress.ZStandardCodec.checkNativeCodeLoaded()
    except Exception:
        return True
    return False


def unpack(spark: SparkSession, path: str, copy: str, most: int) -> str:
    """Unpack a file of at most `most` bytes into the folder `copy`, and return the location of the copy.

    Raises InputRefused, naming the file, if it cannot be unpacked or is larger.
    """
    if not str(spark.sparkContext.master).startswith("local"):
        raise InputRefused(
            f"{path}: this cluster's Hadoop cannot unpack zstd (no native library). Have the sink write gzip, or install libhadoop with zstd."
        )
    target = copy + _PLAIN
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if ConsistentReads.again_if_empty(lambda: _copy_unpacked(spark, path, target, most)) > most:
        os.remove(target)
        raise InputRefused(f"{path}: unpacks to more than {most:,} bytes: set `limits: false` where the driver's disk has the space")
    return target


def _copy_unpacked(spark: SparkSession, path: str, target: str, most: int) -> int:
    """Unpack a file and return the size of its content in bytes. No more than `most` and one byte are written."""
    java = jvm(spark)
    try:
        with hadoop.opened(spark, path) as stream:
            content = java.org.apache.commons.io.input.BoundedInputStream(java.com.github.luben.zstd.ZstdInputStream(stream), most + 1)
            java.org.apache.commons.io.FileUtils.copyInputStreamToFile(content, java.java.io.File(target))
    except Exception as error:
        failures.raise_environment_error(error)
        raise InputRefused(f"{path}: cannot be unpacked ({plain_reason(error)}). Have the sink write it again, or remove it.") from None
    return os.path.getsize(target)


def with_original_names(raw: RawFrame) -> RawFrame:
    """Return a frame of copies with the names of the original files."""
    rows = raw.rows.selectExpr(*[f"substr(_file, 1, length(_file) - {len(_PLAIN)}) AS _file" if name == FILE else name for name in raw.rows.columns])
    return dataclasses.replace(raw, rows=rows)
