"""Landed files → raw DataFrames: `_file` (path below the landing root), `_block`, `_row`, and `_text` (JSON) or `_value` (a struct).

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

from compactor.core import avro, types
from compactor.core.errors import Refused
from compactor.core.layout import join, relative
from compactor.spark.sql import literal

_IN_PARTITION = "monotonically_increasing_id() & 8589934591L"
"""The lower 33 bits count the rows of a Spark partition."""


@dataclass(frozen=True)
class RawFrame:
    """Rows of files that share a schema. `schema` is None for text; `avro` holds the writer's schema text of Avro files; `paths` are locations."""

    rows: DataFrame
    schema: types.Type | None = None
    avro: str | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Origins:
    """Where files lie, and how they are called: by their path below the first of `roots` that holds them, or by a name of their own."""

    roots: tuple[str, ...]
    named: tuple[tuple[str, str], ...] = ()

    def path(self, location: str) -> str:
        """What the file at a location is called."""
        root = next(root for root in self.roots if location.startswith(join(root) + "/"))
        return dict(self.named).get(location, relative(location, root))

    def sql(self) -> str:
        """SQL: the same, for the file a row is read from, whose URI Spark reports encoded."""
        # url_decode would turn a plus sign into a blank, and sinks put plus signs into names
        decoded = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
        cases = [f"WHEN endswith({decoded}, {literal(_bare(location))}) THEN {literal(name)}" for location, name in self.named]
        below = [(f"instr({decoded}, {literal(_bare(root) + '/')})", len(_bare(root)) + 1) for root in self.roots]
        cases += [f"WHEN {at} > 0 THEN substr({decoded}, {at} + {length})" for at, length in below]
        return f"CASE {' '.join(cases)} END"


def _bare(location: str) -> str:
    return location.split("://", 1)[-1].rstrip("/")


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


Broken = dict[str, str]
"""Location of a file that cannot be opened → why."""


def read(spark: SparkSession, kind: str, origins: Origins, paths: Sequence[str]) -> tuple[list[RawFrame], Broken]:
    """Raw frames of files of one format, and which of the files cannot be opened."""
    broken: Broken = {}
    if kind == "json":
        rows = spark.read.text(list(paths))
        return [RawFrame(rows.selectExpr(*_origin(origins), "value AS _text"), paths=tuple(paths))], broken
    if kind == "parquet":
        return [_parquet(spark, origins, schema, group) for schema, group in _by_footer(spark, paths, broken).items()], broken
    if kind == "avro":
        return [_avro(spark, origins, text, group) for text, group in _by_header(spark, paths, broken).items()], broken
    raise Refused(f"format {kind!r} is not supported yet: use parquet, avro or json")


def _origin(origins: Origins) -> tuple[str, ...]:
    return (f"{origins.sql()} AS _file", "_metadata.file_block_start AS _block", f"{_IN_PARTITION} AS _row")


def _by_footer(spark: SparkSession, paths: Sequence[str], broken: Broken) -> dict[str, list[str]]:
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
            broken[path] = f"not a readable Parquet file ({reason(error)})"
            continue
        groups.setdefault(schema, []).append(path)
    return groups


def _parquet(spark: SparkSession, origins: Origins, schema: str, paths: list[str]) -> RawFrame:
    struct = T.StructType.fromJson(json.loads(schema))
    rows = spark.read.schema(struct).parquet(*paths)
    origin = (f"{origins.sql()} AS _file", "0L AS _block", "_metadata.row_index AS _row")
    return RawFrame(rows.selectExpr(*origin, "struct(*) AS _value"), from_spark(struct), paths=tuple(paths))


def _by_header(spark: SparkSession, paths: Sequence[str], broken: Broken) -> dict[str, list[str]]:
    """Avro container files by the writer's schema in their header; the header is parsed here because fastavro is not on the cluster (H30)."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        try:
            groups.setdefault(avro.container_schema(_head(spark, path)), []).append(path)
        except ValueError as error:
            broken[path] = str(error)
    return groups


def _head(spark: SparkSession, path: str, size: int = 4 << 20) -> bytes:
    jvm: Any = spark._jvm
    location = jvm.org.apache.hadoop.fs.Path(path)
    stream = location.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).open(location)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(jvm.org.apache.commons.io.input.BoundedInputStream(stream, size)))
    finally:
        stream.close()


def _avro(spark: SparkSession, origins: Origins, text: str, paths: list[str]) -> RawFrame:
    rows = spark.read.format("avro").option("avroSchema", avro.readable_by_spark(text)).load(paths)
    return RawFrame(rows.selectExpr(*_origin(origins), "struct(*) AS _value"), from_spark(rows.schema), text, tuple(paths))


def reason(error: BaseException) -> str:
    """The first telling line of a Java or Python error, without its stack trace."""
    java = getattr(error, "java_exception", None)
    cause = java
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(cause.toString() if cause is not None else error)
    return text.splitlines()[0][:400] if text else type(error).__name__
