"""Landed files → raw DataFrames: `_file` (path below the landing root), `_block`, `_row`, and `_text` (JSON) or `_value` (a struct).
CSV has a module of its own, `csv_files`, and its frames a column more: `_broken`, why a line cannot be used, else null.

`_block` is the offset of the file's block and `_row` the order inside it: together they order the rows of one file even
when Spark splits it (H29). Nothing here knows of envelopes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from compactor.core import types, writer
from compactor.core.errors import InputRefused, InputUnfinished, Refused
from compactor.core.writer import WriterField
from compactor.spark.sql import literal

_IN_PARTITION = "monotonically_increasing_id() & 8589934591L"
"""The lower 33 bits count the rows of a Spark partition."""


@dataclass(frozen=True)
class RawFrame:
    """Rows of files that share a schema. `schema` is None for JSON text; `avro` holds the writer's schema text of Avro files; `fields` describe
    the columns where their types were declared or guessed (CSV)."""

    rows: DataFrame
    schema: types.Type | None = None
    avro: str | None = None
    fields: tuple[WriterField, ...] | None = None

    @property
    def broken(self) -> str:
        """SQL: why a raw row cannot be used, or null."""
        return "_broken" if "_broken" in self.rows.columns else "CAST(NULL AS STRING)"


def relative_path(root: str) -> str:
    """SQL: the path of the file below `root`, decoded from the URI that Spark reports."""
    bare = root.split("://", 1)[-1].rstrip("/") + "/"
    # url_decode would turn a plus sign into a blank, and sinks put plus signs into names
    decoded = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
    return f"substr({decoded}, instr({decoded}, {literal(bare)}) + {len(bare)})"


def from_spark(kind: T.DataType) -> types.Type:
    """Spark's type as ours."""
    if isinstance(kind, T.DecimalType):
        return ("decimal", kind.precision, kind.scale)
    if isinstance(kind, T.ArrayType):
        return ("array", from_spark(kind.elementType))
    if isinstance(kind, T.MapType):
        return ("map", from_spark(kind.keyType), from_spark(kind.valueType))
    if isinstance(kind, T.StructType):
        return ("struct", tuple((field.name, from_spark(field.dataType)) for field in kind.fields))
    name = kind.simpleString()
    return types.parse("timestamp" if name == "timestamp_ntz" else "string" if name.startswith(("varchar", "char", "void")) else name)


def read(spark: SparkSession, kind: str, root: str, paths: Sequence[str]) -> list[RawFrame]:
    """Raw frames of files of one format. Raises InputRefused naming a file that cannot be opened."""
    if kind == "json":
        rows = spark.read.text(list(paths))
        return [RawFrame(rows.selectExpr(*origin(root), "value AS _text"))]
    if kind == "parquet":
        return [_parquet(spark, root, schema, group) for schema, group in _by_footer(spark, paths).items()]
    if kind == "avro":
        return [_avro(spark, root, text, group) for text, group in _by_header(spark, paths).items()]
    raise Refused(f"format {kind!r} is not known: use parquet, avro, json or csv")


def origin(root: str) -> tuple[str, ...]:
    """SQL for `_file`, `_block` and `_row` of text and Avro files."""
    return (f"{relative_path(root)} AS _file", "_metadata.file_block_start AS _block", f"{_IN_PARTITION} AS _row")


def _by_footer(spark: SparkSession, paths: Sequence[str]) -> dict[str, list[str]]:
    """Parquet files by the schema in their footer, read by the JVM's own reader: 20 times faster than `read.parquet(...).schema`."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    session_conf = spark._jsparkSession.sessionState().conf()
    converter = jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter(session_conf)
    groups: dict[str, list[str]] = {}
    for path in paths:
        try:
            reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(
                jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(path), conf)
            )
            try:
                schema = converter.convert(reader.getFooter().getFileMetaData().getSchema()).json()
            finally:
                reader.close()
        except Exception as error:
            why = reason(error)
            told = f"{path}: not a readable Parquet file ({why}). It stays in landing: have the sink write it again, or remove it."
            # said of files without the magic bytes at their end: the footer is written last
            raise (InputUnfinished(path, told) if "is not a Parquet file" in why else InputRefused(told)) from None
        groups.setdefault(schema, []).append(path)
    return groups


def _parquet(spark: SparkSession, root: str, schema: str, paths: list[str]) -> RawFrame:
    struct = T.StructType.fromJson(json.loads(schema))
    rows = spark.read.schema(struct).parquet(*paths)
    origin = (f"{relative_path(root)} AS _file", "0L AS _block", "_metadata.row_index AS _row")
    return RawFrame(rows.selectExpr(*origin, "struct(*) AS _value"), from_spark(struct))


def _by_header(spark: SparkSession, paths: Sequence[str]) -> dict[str, list[str]]:
    """Avro container files by the writer's schema in their header; the header is parsed here because fastavro is not on the cluster (H30)."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        try:
            groups.setdefault(writer.container_schema(head(spark, path)), []).append(path)
        except ValueError as error:
            told = f"{path}: {error}. It stays in landing: have the sink write it again, or remove it."
            raise (InputUnfinished(path, told) if "cut short" in str(error) else InputRefused(told)) from None
    return groups


def head(spark: SparkSession, path: str, size: int = 4 << 20, unpack: bool = False) -> bytes:
    """The first bytes of a file; with `unpack`, of what it holds when its suffix says that it is compressed."""
    jvm: Any = spark._jvm
    location = jvm.org.apache.hadoop.fs.Path(path)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    stream = location.getFileSystem(conf).open(location)
    try:
        codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(location) if unpack else None
        content = codec.createInputStream(stream) if codec is not None else stream
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(jvm.org.apache.commons.io.input.BoundedInputStream(content, size)))
    finally:
        stream.close()


def _avro(spark: SparkSession, root: str, text: str, paths: list[str]) -> RawFrame:
    rows = spark.read.format("avro").option("avroSchema", writer.readable_by_spark(text)).load(paths)
    return RawFrame(rows.selectExpr(*origin(root), "struct(*) AS _value"), from_spark(rows.schema), text)


def reason(error: BaseException) -> str:
    """The first telling line of a Java or Python error, without its stack trace."""
    java = getattr(error, "java_exception", None)
    cause = java
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(cause.toString() if cause is not None else error)
    return text.splitlines()[0][:400] if text else type(error).__name__
