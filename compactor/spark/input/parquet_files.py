"""Parquet files by their footers: the columns that Spark reads, what they mean where Spark does not say, and which types it does not read at all.

- Nanoseconds are read as numbers, and cut to microseconds. In a column of the key, a time that is finer is null.
- The type null (pandas, Arrow, DuckDB and polars write it where all values are null) is an int32 to Spark. Such a column has no type yet, and neither
  has an array, a map or a struct of nulls: these are their JSON text, as in JSON without schema. Other structs are without the members that are null.
- A uuid and a time of day, for which Spark has no reader, are read as bytes and as a number, and mean text.
- Another type that Spark has no reader for is refused by the column's name.
- Kafka Connect, Flink, NiFi and others write Parquet by way of Avro, and leave the writer's Avro schema in the footer. It says what numbers and texts
  mean, such as days or microseconds. They write decimals as `binary` of any length. Spark reads those with 19 to 38 digits: with fewer they are read
  as such, with more as bytes if the Avro schema says what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql import types as T

from compactor.core.model.errors import InputRefused
from compactor.spark.decode.conversions import floor_micros, time_of_day
from compactor.spark.jvm import hadoop
from compactor.spark.jvm.private import jvm, parquet_converter
from compactor.spark.sql import member, quoted, struct

_FOREIGN = r"(?:UUID|INTERVAL|TIME\([A-Z]+,[a-z]+\)|DECIMAL\((?:39|[4-9][0-9]|[0-9]{3,}),[0-9]+\))"
"""What a column means, in parquet-java's text, that Spark has no reader for. (parquet-java itself does not know FLOAT16 and newer types.)"""
_SPECIAL = re.compile(rf"\({_FOREIGN}\)|\(TIMESTAMP\(NANOS| binary .+ \(DECIMAL\(")
"""What a schema's text has if Spark does not read some column as it is meant. A column's name may look like it."""
_ITEMS = ("element", "item", "array", "array_element", "key", "value")
"""Names of what a list or a map holds, by which no unit is found."""
_MAYBE_NULL = re.compile(r"^ +optional int32 ", re.MULTILINE)
_JAVA = "parquet-mr"
_TAIL = 8
"""Bytes at the end of a file: the footer's length in 4, and `PAR1`."""
_AVRO = "parquet.avro.schema"
"""The name of the writer's Avro schema among a footer's texts (parquet-avro's AvroWriteSupport)."""
_LONG_DIGITS, _DIGITS_MAX = 18, 38
"""The digits of a decimal that Spark holds in a long, and of any."""
_ROWS = ("before", "after", "key", "value")
"""Members of envelopes and containers. Their own members may be the columns of the row."""
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD")


@dataclass(frozen=True)
class Columns:
    """What a footer says of a file's columns, as Spark's JSON of two struct types."""

    read: str
    """As Spark reads them."""
    meant: str
    """As they are meant: nanoseconds are timestamps, and what has no type yet is `void`."""
    avro: str | None = None
    """The writer's Avro schema, if the footer has one."""
    nanos: frozenset[str] = frozenset()
    """The names of times of day that are nanoseconds. Other longs that mean text are microseconds."""

    @property
    def schema(self) -> T.StructType:
        """Return the columns that have a type, as they are meant."""
        fields = T.StructType.fromJson(json.loads(self.meant)).fields
        return T.StructType([field for field in fields if not isinstance(field.dataType, T.NullType)])


def columns(spark: SparkSession, path: str, described: bool = True, typed_only: bool = False) -> Columns:
    """Return the columns of a file. The JVM's own reader is 20 times faster than `read.parquet(...).schema`.

    `described`: whether an Avro schema in the footer counts. `typed_only`: without the parts of columns that have no type yet.

    Raises InputRefused for a type that Spark does not read, and Spark's error for a file that it cannot open.
    """
    java, file = jvm(spark), hadoop.parquet_file(spark, path)
    try:
        with hadoop.parquet(spark, file) as reader:
            footer = reader.getFooter().getFileMetaData()
    except Py4JJavaError as error:
        if "LogicalType" in str(error.java_exception):
            # parquet-java does not know the type, and does not name the column
            unknown = [
                str(each.getName()) for each in _elements(java, file) if each.isSetLogicalType() and each.getLogicalType().getSetField() is None
            ]
            raise _refused(", ".join(unknown) or "?", "a type that Spark does not know (FLOAT16, VARIANT, ..)") from None
        raise
    schema, avro = footer.getSchema(), footer.getKeyValueMetaData().get(_AVRO) if described else None
    text, nanos = str(schema.toString()), frozenset[str]()
    # the columns of Parquet, which have no children, are the parts of Spark's types that have no parts, in the same order
    meant: Sequence[str | None] = ()
    if _SPECIAL.search(text):
        leaves = [_leaf(column.getPrimitiveType()) for column in schema.getColumns()]
        nanos, micros = (frozenset(name for name, kind in leaves if f" TIME({unit}" in kind) for unit in ("NANOS", "MICROS"))
        digits, meant = zip(*(_differing(*leaf, avro is not None, nanos.isdisjoint({*_ITEMS, *micros})) for leaf in leaves))
        schema = schema if {*digits} == {None} else _annotated(java, footer, digits)
    if _MAYBE_NULL.search(text) and not str(footer.getCreatedBy()).startswith(_JAVA):
        nulls = [each.isSetLogicalType() and each.getLogicalType().isSetUNKNOWN() for each in _elements(java, file) if not each.getNum_children()]
        meant = ["void" if null else kind for null, kind in zip(nulls, meant or [None] * len(nulls))]
    read = str(parquet_converter(spark).convert(schema).json())
    return Columns(read, json.dumps(_as_meant(json.loads(read), iter(meant), typed_only)) if any(meant) else read, avro, nanos)


def _leaf(kind: Any) -> tuple[str, str]:
    """Return the name of a column without children, and what its values are and mean: `INT64 TIME(NANOS,true)`."""
    means = kind.getLogicalTypeAnnotation()
    return str(kind.getName()), f"{kind.getPrimitiveTypeName().toString()} {'' if means is None else means.toString()}"


def _differing(name: str, kind: str, has_avro: bool, as_text: bool) -> tuple[int | None, str | None]:
    """Return as a decimal of how many digits Spark is to read a column, 0 for bare values, and what it means, as Spark's JSON. None: as it is.

    `kind`: of `_leaf`. `has_avro`: whether an Avro schema says what numbers and bytes mean. `as_text`: whether uuids and times of day are text.
    """
    stored, means = kind.split(" ", 1)
    if means.startswith("TIMESTAMP(NANOS"):
        return None, "timestamp"
    if as_text and means.startswith(("UUID", "TIME(")):
        return 0, None if has_avro and means != "UUID" else "string"
    if stored == "BINARY" and means.startswith("DECIMAL("):
        digits = int(means[len("DECIMAL(") : means.index(",")])
        if digits <= _LONG_DIGITS:
            return _LONG_DIGITS + 1, means.lower()
        if digits > _DIGITS_MAX and has_avro:
            return 0, None
    if re.fullmatch(_FOREIGN, means):
        raise _refused(name, f"the type {means}")
    return None, None


def _annotated(java: Any, footer: Any, digits: Sequence[int | None]) -> Any:
    """Return the schema of a footer in which columns without children are decimals of so many digits, or mean nothing where that is 0."""
    parquet = java.org.apache.parquet
    converter = parquet.format.converter.ParquetMetadataConverter()
    made = converter.toParquetMetadata(1, parquet.hadoop.metadata.ParquetMetadata(footer, java.java.util.ArrayList()))
    for element, number in zip((each for each in made.getSchema() if not each.getNum_children()), digits):
        if number is not None:
            element.unsetLogicalType()
        if number == 0:
            element.unsetConverted_type()
        elif number:
            element.setPrecision(number)
    return converter.fromParquetMetadata(made).getFileMetaData().getSchema()


def _refused(column: str, kind: str) -> InputRefused:
    return InputRefused(
        f"column {column} has {kind}, which Spark does not read: have the writer cast it, a long decimal to text, "
        "a half to float, or leave the column out"
    )


def _elements(jvm: Any, file: Any) -> Sequence[Any]:
    """Return the elements of a footer's schema in Thrift's form, which also has what parquet-java leaves out."""
    stream = file.newStream()
    try:
        stream.seek(file.getLength() - _TAIL)
        length = jvm.org.apache.parquet.bytes.BytesUtils.readIntLittleEndian(stream)
        stream.seek(file.getLength() - _TAIL - length)
        return list(jvm.org.apache.parquet.format.Util.readFileMetaData(stream, True).getSchema())
    finally:
        stream.close()


def _as_meant(kind: Any, kinds: Iterator[str | None], typed_only: bool, name: str = "after") -> Any:
    """Return Spark's JSON of a type as it is meant. `kinds`: what each part without parts is, None where it is what it is read as.

    What has no type yet is `void`. `name`: of the column or member. All columns together are a row, as `after` is one.
    """
    if isinstance(kind, str):
        meant = next(kinds)
        return kind if meant is None or (meant == "void" and kind != "integer") else meant
    if kind["type"] == "array":
        item = _as_meant(kind["elementType"], kinds, typed_only, "")
        return "void" if item == "void" else {**kind, "elementType": item}
    if kind["type"] == "map":
        key, value = (_as_meant(kind[part], kinds, typed_only, "") for part in ("keyType", "valueType"))
        if value == "void":
            return "void" if key == "string" else {**kind, "keyType": key}
        return {**kind, "keyType": key, "valueType": value}
    members = []
    for field in kind["fields"]:
        inner = _as_meant(field["type"], kinds, typed_only, field["name"])
        if inner != "void" or (not typed_only and (field["type"] != "integer" or name in _ROWS)):
            members.append({**field, "type": inner})
    return {**kind, "fields": members} if members or (name in _ROWS and not typed_only) else "void"


def copy_with_avro(spark: SparkSession, path: str, to: str, schema: str) -> None:
    """Copy a file, with a writer's Avro schema in the footer."""
    file = hadoop.parquet_file(spark, path)
    with hadoop.parquet(spark, file) as reader:
        meant = reader.getFooter().getFileMetaData().getSchema()
        texts = reader.getFooter().getFileMetaData().getKeyValueMetaData()
    with_schema = jvm(spark).java.util.HashMap(texts)
    with_schema.put(_AVRO, schema)
    writer = hadoop.parquet_writer(spark, to, meant)
    writer.start()
    writer.appendFile(file)
    writer.end(with_schema)


def reader(spark: SparkSession, of: Columns) -> DataFrameReader:
    """Return a reader of files with these columns, as Spark reads them."""
    # a damaged page would be other values; writers that give no checksum are read as before
    reader = spark.read.option("parquet.page.verify-checksum.enabled", "true")
    return reader.schema(T.StructType.fromJson(json.loads(of.read))).format("parquet")


def values(of: Columns, key: Sequence[str] = ()) -> list[str]:
    """SQL for each column of `reader`, as it is meant; JSON text for what has no type. `key`: the columns of the table's key."""
    was, is_ = (T.StructType.fromJson(json.loads(text)) for text in (of.read, of.meant))
    low = [name.lower() for name in key]
    return [f"{_meant(quoted(one.name), was[one.name].dataType, one.dataType, of.nanos, one.name, low)} AS {quoted(one.name)}" for one in is_.fields]


def _meant(value: str, read_as: T.DataType, meant: T.DataType, nanos: Collection[str], name: str = "", key: Sequence[str] = ()) -> str:
    """SQL: a value as it is meant. `name`: of its column or member; `key`: lower-case names of the columns of the key, if it may be one of them."""
    if read_as == meant:
        return value
    if isinstance(meant, T.NullType):
        return "CAST(NULL AS STRING)" if isinstance(read_as, T.IntegerType) else f"to_json({value})"
    if isinstance(read_as, T.ArrayType) and isinstance(meant, T.ArrayType):
        return f"transform({value}, _e -> {_meant('_e', read_as.elementType, meant.elementType, nanos)})"
    if isinstance(read_as, T.MapType) and isinstance(meant, T.MapType):
        keys = (
            value
            if read_as.keyType == meant.keyType
            else f"transform_keys({value}, (_e, _v) -> {_meant('_e', read_as.keyType, meant.keyType, nanos)})"
        )
        return f"transform_values({keys}, (_k, _e) -> {_meant('_e', read_as.valueType, meant.valueType, nanos)})"
    if isinstance(read_as, T.StructType) and isinstance(meant, T.StructType):
        low = key if name in _ROWS else ()
        kinds = [(one.name, read_as[one.name].dataType, one.dataType) for one in meant.fields]
        members = [(inner, _meant(member(value, inner), was, is_, nanos, inner, low)) for inner, was, is_ in kinds]
        return f"CASE WHEN {value} IS NOT NULL THEN {struct(members)} END"
    if isinstance(meant, T.DecimalType):
        return f"CAST({value} AS {meant.simpleString()})"
    if isinstance(meant, T.StringType) and isinstance(read_as, T.BinaryType):
        return f"regexp_replace(lower(hex({value})), '^(.{{8}})(.{{4}})(.{{4}})(.{{4}})', '$1-$2-$3-$4-')"
    if isinstance(meant, T.StringType):
        return time_of_day(f"{value} * 1000L" if isinstance(read_as, T.IntegerType) else floor_micros(value) if name in nanos else value)
    micros = f"timestamp_micros({floor_micros(value)})"
    # as of any other source, see conversions.key_to_stored
    return f"CASE WHEN {value} % 1000L = 0L THEN {micros} END" if name.lower() in key else micros


def unreadable(spark: SparkSession, path: str) -> str | None:
    """Return which encrypted column, codec or encoding Spark cannot read in a file whose footer it can read. None: it is something else."""
    with hadoop.parquet(spark, hadoop.parquet_file(spark, path)) as reader:
        for block in reader.getFooter().getBlocks():
            for column in block.getColumns():
                name = str(column.getPath().toDotString())
                if column.isEncrypted():
                    return f"column {name} is encrypted, and Spark has no key to it: have the writer leave the column out or write it unencrypted"
                if (codec := str(column.getCodec())) not in _CODECS:
                    return f"is compressed with {codec}, which Spark cannot unpack: have the writer use zstd, snappy or gzip"
                if "BYTE_STREAM_SPLIT" in str(column.getEncodings().toString()):
                    return f"column {name} has the encoding BYTE_STREAM_SPLIT, which Spark does not read: have the writer use another"
    return None
