"""Landed files become raw DataFrames: FILE, BLOCK, ROW, and TEXT (JSON) or VALUE (a struct), as `spark/columns.py` describes them.

BLOCK is the offset of the file's block, and ROW the order inside it. Together they order the rows of one file even if Spark splits it. Nothing
here depends on the envelope. CSV has a module of its own, `csv_files`; its frames also have UNREADABLE.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from compactor.core.formats.avro import SYNC, CutShort, container_schema
from compactor.core.model import types
from compactor.core.model.errors import InputRefused, Refused, SchemaRefused
from compactor.core.model.layout import join, relative
from compactor.core.parallel import in_parallel
from compactor.core.schema import avro, nested_types
from compactor.core.schema.writer import WriterField, avro_type, from_avro
from compactor.spark import failures
from compactor.spark.columns import UNREADABLE, VALUE
from compactor.spark.consistency import ConsistentReads, together
from compactor.spark.input import parquet_files
from compactor.spark.jvm import hadoop
from compactor.spark.jvm.private import metadata_column
from compactor.spark.sql import as_column, cast, literal, member, not_utf8

IN_PARTITION = "monotonically_increasing_id() & 8589934591L"
"""SQL for ROW. The lower 33 bits count the rows of a Spark partition."""
METADATA = "_metadata"
"""Spark's hidden column about the file of a row."""
_REQUIRED = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')


_NO_TYPE = (nested_types.BLANK, nested_types.UNDECIDED)
"""The marks of a column whose values show no type at all."""


@dataclass(frozen=True)
class RawFrame:
    """Rows of files that share a schema."""

    rows: DataFrame
    """FILE, BLOCK, ROW, then TEXT or VALUE, and UNREADABLE."""
    schema: types.Type | None = None
    """The struct type of VALUE. None for JSON text."""
    avro: str | None = None
    """The writer's Avro schema: of Avro, and of Parquet that was written by way of it."""
    fields: tuple[WriterField, ...] | None = None
    """The columns of CSV that have a type, declared or inferred, where the rows may have others; None for other formats."""
    paths: tuple[str, ...] = ()
    """The locations of the files."""
    marked: types.Type | None = None
    """The schema with marks for what has no type yet (`core/schema/nested_types.py`), which is text in the rows; None without any."""
    by_id: bool = False
    """Whether `avro` is the schema that each record names by id."""

    @property
    def described(self) -> types.Type:
        """Return the schema, with marks where it has any."""
        return self.marked or self.schema or ("struct", ())

    @property
    def columns(self) -> dict[str, types.Type]:
        """Return member of VALUE → its type; {} for text."""
        return dict(self.schema[1]) if self.schema else {}

    @property
    def unreadable(self) -> str:
        """SQL: why a raw record cannot be decoded, or null."""
        return UNREADABLE if UNREADABLE in self.rows.columns else "CAST(NULL AS STRING)"

    def blocks(self, *names: str) -> dict[str, types.Type]:
        """Return the members of VALUE with their types, without those of these names that are null in all records, and so of no type."""
        typed = {field.name for field in self.fields} if self.fields is not None else None
        nulls = {name for name, kind in self.described[1] if (typed is not None and name not in typed) or kind in _NO_TYPE}
        if self.avro:
            schema = avro.parse(self.avro)
            nulls |= {member["name"] for member in schema.present(schema.root)["fields"] if schema.only_null(member["type"])}
        return {name: kind for name, kind in self.columns.items() if name not in names or name not in nulls}


@dataclass(frozen=True)
class Origins:
    """The names of files: a file is called by its path below a root, or by a name of its own."""

    roots: tuple[str, ...]
    """Folders that hold the files. The first that holds a file counts."""
    named: tuple[tuple[str, str], ...] = ()
    """(location, name) of files with a name of their own."""
    encoded: bool = True
    """Whether a location may have characters that Spark reports percent-encoded. To decode them takes more time than to decode a short row."""

    def path(self, location: str) -> str:
        root = next(root for root in self.roots if location.startswith(join(root) + "/"))
        return dict(self.named).get(location, relative(location, root))

    def sql(self) -> str:
        """SQL: the name of the file that a row was read from. Spark reports its URI percent-encoded."""
        # url_decode would turn a plus sign into a blank, and sinks put plus signs into names
        decoded = "url_decode(replace(_metadata.file_path, '+', '%2B'))" if self.encoded else "_metadata.file_path"
        cases = [f"WHEN endswith({decoded}, {literal(uri)}) THEN {literal(name)}" for location, name in self.named for uri in _uris(location)]
        for uri in (f"{uri}/" for root in self.roots for uri in _uris(root)):
            folder, begin = literal(uri), f"instr({decoded}, {literal(uri)}) + {len(uri)}"
            # to count characters in the path of every row takes longer than to decode the row
            name = f"substr({decoded}, {begin})" if self.encoded else f"CAST(substr(CAST({decoded} AS BINARY), {begin}) AS STRING)"
            cases.append(f"WHEN contains({decoded}, {folder}) THEN {name}")
        return f"CASE {' '.join(cases)} END"


_PLAIN = re.compile(r"[A-Za-z0-9_.=/:+-]*")


def is_plain(location: str) -> bool:
    """Return whether no character of a location is percent-encoded in a URI."""
    return _PLAIN.fullmatch(location) is not None


def _uris(location: str) -> tuple[str, ...]:
    """Return the URIs of a location without the scheme's name, which a driver may write in another way: `s3a://`, and `file:/` or `file:///`.

    With the colon they are the whole path: that of another folder may end alike.

    >>> _uris("s3://lake/orders"), _uris("/data/student/")
    (('://lake/orders',), (':/data/student', ':///data/student'))
    """
    bare = location.split("://", 1)[-1].rstrip("/")
    return (f":{bare}", f"://{bare}") if bare.startswith("/") else (f"://{bare}",)


def from_spark(kind: T.DataType) -> types.Type:
    """Return Spark's type as ours."""
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


def in_utc(value: str, kind: T.DataType) -> str:
    """SQL: a value of Spark's type `kind` as one of `from_spark(kind)`. Moments without zone are UTC, which is the session's zone."""
    return cast(value, from_spark(kind)) if "timestamp_ntz" in kind.simpleString() else value


@dataclass(frozen=True)
class Problem:
    """Why a file cannot be read."""

    text: str
    """The reason, for people."""
    unfinished: bool = False
    """Whether the end of the file is missing, as while a sink writes it in place."""


Unreadable = dict[str, Problem]
"""Location of a file that cannot be read → why."""


def read(
    spark: SparkSession, kind: str, origins: Origins, paths: Sequence[str], reads: ConsistentReads, key: Sequence[str]
) -> tuple[list[RawFrame], Unreadable]:
    """Return the raw frames of files of one format, and the files that cannot be opened. `key`: the columns of the table's key."""
    unreadable: Unreadable = {}
    if kind == "json":
        parts = [(reads.open(spark.read.format("text"), part), part) for part in together(paths)]
        return [RawFrame(rows.selectExpr(*origin(origins), "value AS _text"), paths=tuple(part)) for rows, part in parts], unreadable
    if kind == "parquet":
        footers = _grouped(paths, partial(_footer, spark), unreadable).items()
        return [_parquet(spark, origins, columns, part, reads, key) for columns, group in footers for part in together(group)], unreadable
    if kind == "avro":
        headers = _grouped(paths, partial(_header, spark), unreadable).items()
        return [_avro(spark, origins, text, part, reads) for text, group in headers for part in together(group)], unreadable
    raise Refused(f"file format {kind!r} is unknown; expected parquet, avro, json or csv. Set `format:`.")


def origin(origins: Origins) -> tuple[str, ...]:
    """Return SQL for FILE, BLOCK and ROW of text and Avro files."""
    return (f"{origins.sql()} AS _file", "_metadata.file_block_start AS _block", f"{IN_PARTITION} AS _row")


_VARIABLE = (
    "a column's name has `${`: Hadoop puts a setting or an environment variable for `${name}`, and Spark would read null. Have the source rename it"
)


K = TypeVar("K")


def _grouped(paths: Sequence[str], read_schema: Callable[[str], K | Problem], unreadable: Unreadable) -> dict[K, list[str]]:
    """Return the files by schema, without those that have a Problem, which are `unreadable`."""
    groups: dict[K, list[str]] = {}
    for path, schema in zip(paths, in_parallel(read_schema, paths)):
        if isinstance(schema, Problem):
            unreadable[path] = schema
        else:
            groups.setdefault(schema, []).append(path)
    return groups


def _footer(spark: SparkSession, path: str) -> parquet_files.Columns | Problem:
    try:
        schema = parquet_files.columns(spark, path)
        if schema.avro is not None and not _describes(schema.avro, schema):
            schema = parquet_files.columns(spark, path, described=False)
        if "${" in schema.read:
            return Problem(_VARIABLE)
        return _names_repeat(_struct(schema)) or schema
    except InputRefused as error:
        return Problem(str(error))
    except Exception as error:
        failures.raise_environment_error(error)
        why = failures.plain_reason(error)
        # Parquet reports this for files without the magic bytes at their end, and the footer is written last
        return Problem(f"not a readable Parquet file ({why})", "is not a Parquet file" in why)


@lru_cache(maxsize=64)
def _names_repeat(kind: types.Type) -> Problem | None:
    try:
        types.renamed(kind, _distinct)
    except InputRefused as error:
        return Problem(str(error))
    return None


def _distinct(names: list[str]) -> list[str]:
    """Return the names of columns, or of a struct's members. Raises InputRefused if two are one to Spark, which then reads none of the columns."""
    earlier: dict[str, str] = {}
    for name in names:
        if name.lower() in earlier:
            raise InputRefused(
                f"the names {earlier[name.lower()]} and {name} of two columns, or of two members of a struct, are equal in all but case, and Spark "
                "reads neither: have the writer rename one"
            )
        earlier[name.lower()] = name
    return names


def parquet_schema(spark: SparkSession, path: str) -> T.StructType:
    """Return the columns of a Parquet file, by its footer. All of them, and all their members, may be null."""
    return T.StructType.fromJson(json.loads(_REQUIRED.sub(r'"\1":true', parquet_files.columns(spark, path, typed_only=True).schema.json())))


def _parquet(
    spark: SparkSession, origins: Origins, columns: parquet_files.Columns, paths: list[str], reads: ConsistentReads, key: Sequence[str]
) -> RawFrame:
    rows = reads.open(parquet_files.reader(spark, columns), paths)
    struct, marked = _struct(columns), _marked(*(T.StructType.fromJson(json.loads(text)) for text in (columns.meant, columns.read)))
    value = f"struct({', '.join(parquet_files.values(columns, key))}) AS _value"
    origin = (f"{origins.sql()} AS _file", "0L AS _block", "_metadata.row_index AS _row")
    raw = RawFrame(with_origin(rows, origin, value), struct, columns.avro, paths=tuple(paths), marked=marked if marked != struct else None)
    return _with_utf8(raw)


def _marked(meant: T.DataType, read_as: T.DataType) -> types.Type:
    """Return the type of a value as it is meant, with BLANK for nulls and UNDECIDED for arrays, maps and structs without a type."""
    if isinstance(meant, T.NullType):
        return nested_types.BLANK if isinstance(read_as, T.IntegerType) else nested_types.UNDECIDED
    if isinstance(meant, T.ArrayType) and isinstance(read_as, T.ArrayType):
        return ("array", _marked(meant.elementType, read_as.elementType))
    if isinstance(meant, T.StructType) and isinstance(read_as, T.StructType):
        return ("struct", tuple((field.name, _marked(field.dataType, read_as[field.name].dataType)) for field in meant.fields))
    return from_spark(meant)


@lru_cache(maxsize=64)
def _struct(columns: parquet_files.Columns) -> types.Type:
    return from_spark(T.StructType.fromJson(json.loads(columns.meant)))


@lru_cache(maxsize=64)
def _describes(schema: str, columns: parquet_files.Columns) -> bool:
    """Return whether columns have the types of an Avro schema that can be used."""
    try:
        from_avro(schema)
        return avro_type(schema) == _struct(columns)
    except (SchemaRefused, ValueError, TypeError, AttributeError, KeyError):
        # its attributes may be anything
        return False


def with_origin(rows: DataFrame, origin: Sequence[str], value: str) -> DataFrame:
    """Return FILE, BLOCK, ROW and VALUE. `origin` (SQL) is about Spark's `_metadata`, `value` about a column of the files that has that name."""
    if METADATA in rows.columns:
        rows = rows.select(metadata_column(rows, METADATA).alias(METADATA), as_column(value))
        value = VALUE
    return rows.selectExpr(*origin, value)


def _header(spark: SparkSession, path: str) -> str | Problem:
    """Return the writer's schema in the header of an Avro file. The header is parsed here, because fastavro is not on the cluster.

    A file that ends inside a block is unfinished. An empty block before the last one is noticed in the bytes that are read here only, the first 4 MB:
    to look for it behind them would read each large file twice.
    """
    try:
        begin = head(spark, path)
        text = container_schema(begin, _tail(spark, path, SYNC) if len(begin) == _HEAD else begin[-SYNC:])
    except (ValueError, InputRefused) as error:
        return Problem(str(error), isinstance(error, CutShort))
    return _unusable(text) or text


@lru_cache(maxsize=64)
def _unusable(schema: str) -> Problem | None:
    try:
        from_avro(schema)
        with contextlib.suppress(SchemaRefused):
            # what cannot be used may lie beside the row, or be null everywhere
            types.renamed(avro_type(schema), _distinct)
    except SchemaRefused as error:
        return Problem(f"its Avro schema cannot be used: {error}")
    except (ValueError, InputRefused) as error:
        return Problem(str(error))
    return None


_HEAD = 4 << 20
"""Bytes of a file that are read for its header."""


def head(spark: SparkSession, path: str, size: int = _HEAD, unpack: bool = False) -> bytes:
    """Return the first bytes of a file. With `unpack`, a file whose suffix names a compression is unpacked."""
    return ConsistentReads.again_if_empty(lambda: _head(spark, path, size, unpack))


def _head(spark: SparkSession, path: str, size: int, unpack: bool) -> bytes:
    codec = hadoop.codec(spark, path) if unpack else None
    with hadoop.opened(spark, path) as stream:
        return hadoop.content(spark, codec.createInputStream(stream) if codec is not None else stream, size)


def _tail(spark: SparkSession, path: str, size: int) -> bytes:
    with hadoop.opened(spark, path) as stream:
        stream.seek(hadoop.size(spark, path) - size)
        return hadoop.content(spark, stream, size)


def _avro(spark: SparkSession, origins: Origins, text: str, paths: list[str], reads: ConsistentReads) -> RawFrame:
    reader = spark.read.format("avro")
    if (readable := avro.readable_by_spark(text)) is not None:
        reader = reader.option("avroSchema", readable)
    rows = reads.open(reader, paths)
    value = f"{in_utc('struct(*)', rows.schema)} AS _value"
    return _with_utf8(RawFrame(with_origin(rows, origin(origins), value), from_spark(rows.schema), text, paths=tuple(paths)))


def _with_utf8(raw: RawFrame) -> RawFrame:
    """Return the frame with UNREADABLE for records with text that is not UTF-8."""
    texts = _texts(VALUE, raw.schema or ("struct", ()))
    if not texts:
        return raw
    # a comma between two texts ends what could be a character of both
    joined = raw.rows.selectExpr("*", f"concat_ws(',', {', '.join(texts)}) AS _texts")
    why = f"concat('has text that ', {not_utf8('_texts')})"
    return dataclasses.replace(raw, rows=joined.selectExpr(*raw.rows.columns, f"{why} AS {UNREADABLE}"))


def _texts(value: str, kind: types.Type) -> list[str]:
    """SQL for each text inside a value, or array of texts."""
    if kind[0] == "string" or kind == ("array", ("string",)):
        return [value]
    if kind[0] == "struct":
        return [text for name, inner in kind[1] for text in _texts(member(value, name), inner)]
    if kind[0] == "map":
        return [*_texts(f"map_keys({value})", ("array", kind[1])), *_texts(f"map_values({value})", ("array", kind[2]))]
    inside = ", ".join(_texts("_x", kind[1])) if kind[0] == "array" else ""
    return [f"transform({value}, _x -> concat_ws(',', {inside}))"] if inside else []
