"""Write a raw file again without some of its records, as `compactor erase` does with archived files.

JSON lines, CSV and Avro are cut as bytes: all else in the file stays byte for byte as the source wrote it. In JSON lines an empty line takes the
place of a record, so that the others keep their numbers, and with them their Positions. Of a Parquet file the other records keep their order, their
values and the types that Spark reads; everything else in the file is Spark's own.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import SparkSession

from compactor.core.formats import avro, csv_dialect
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import ErasedRecords
from compactor.core.sources import increment
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import VALUE
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import files, parquet_files
from compactor.spark.sql import quoted
from compactor.spark.tables import table_writer

_LINE_END = re.compile(rb"(\r\n|\n|\r)")
_EMPTY = (b"\n", b"\r\n", b"\r", b"")
_PACKED = (".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".xz")
_PLACEHOLDER = '{"kind":"message"}'
_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")

_NUMBER = "_compactor_number"
"""Column with the number of a record, from 1. It is not written."""


def without(spark: SparkSession, storage: Storage, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
    """Write the file into the new directory `staging` without these records, and return the one file there.

    Raises InputRefused if it has another number of records or cannot be rewritten record by record.
    """
    kind = spec.format if spec.format != "auto" and not increment.repaired_table(location) else increment.file_format(location)
    if records.changes and kind != "json":
        raise InputRefused(f"{location}: cannot be rewritten: its records hold changes of other keys too, and are no JSON lines")
    if kind == "parquet":
        return parquet_without(spark, storage, location, records, staging)
    csv = csv_dialect.settings(spec)
    data = bytes_without(location, kind, storage.read(location), records, bool(csv.header), csv.delimiter, csv.quote)
    storage.write(f"{staging}/{location.rpartition('/')[2]}", data)
    (info,) = storage.list(staging)
    return info


def parquet_without(spark: SparkSession, storage: Storage, location: str, records: ErasedRecords, staging: str) -> FileInfo:
    """Write the file into the new directory `staging` without these records, and return the one file there.

    Raises InputRefused if it has another number of records, CheckFailed if what was written is not what was left.
    """
    columns = parquet_files.columns(spark, location, typed_only=True)
    schema = files.parquet_schema(spark, location)
    info = storage.stat(location)
    records_there = table_writer.count_rows(spark, {location: info.size})[location] if info else 0
    if records_there != records.total:
        raise InputRefused(f"{location}: cannot be rewritten: the engine read {records.total} records from it, and its footer has {records_there}")
    value = f"struct({', '.join(parquet_files.values(columns))}) AS {VALUE}"
    raw = ConsistentReads({location: info.size} if info else {}).open(parquet_files.reader(spark, columns), [location])
    rows = files.with_origin(raw, (f"{files.METADATA}.row_index + 1 AS {_NUMBER}",), value)
    chosen: Any = spark.createDataFrame([(number,) for number in records.numbers], f"{_NUMBER} BIGINT")
    kept = rows.join(chosen.hint("broadcast"), [_NUMBER], "left_anti").repartition(1).sortWithinPartitions(_NUMBER)
    measured.write_parquet(kept.selectExpr(*(f"{VALUE}.{quoted(field.name)}" for field in schema.fields)), staging)
    made = _only_file(storage, staging)
    if columns.avro:
        parquet_files.copy_with_avro(spark, made.path, f"{staging}/described.parquet", columns.avro)
        storage.delete([made.path])
        made = _only_file(storage, staging)
    rest = table_writer.count_rows(spark, {made.path: made.size})[made.path]
    left = records_there - len(records.numbers)
    if rest != left or files.parquet_schema(spark, made.path) != schema:
        raise CheckFailed(f"{made.path}: expected {left} records with the columns of {location}, found {rest}. Nothing was committed.")
    return made


def _only_file(storage: Storage, folder: str) -> FileInfo:
    made = [info for info in storage.list(folder) if not info.path.rpartition("/")[2].startswith(("_", "."))]
    if len(made) != 1:
        raise CheckFailed(f"{folder}: expected one file, found {len(made)}. Nothing was committed.")
    return made[0]


def bytes_without(
    path: str, kind: str | None, data: bytes, erased: ErasedRecords, header: bool = False, delimiter: str = ",", quote: str = '"'
) -> bytes:
    """Return the content of a file without these records. Needs fastavro for Avro, and no Spark.

    `header`, `delimiter` and `quote` are for CSV files. The same arguments give the same bytes. Raises InputRefused if the file has another number of
    records than the engine found, or a form that cannot be rewritten.
    """
    packed = path.lower().endswith(".gz")
    try:
        if path.lower().endswith(_PACKED):
            raise ValueError("only plain and gzip files can be, record by record")
        plain = gzip.decompress(data) if packed else data
        if kind == "json":
            made, records = _lines(plain, erased)
        elif kind == "csv":
            made, records = _csv(plain, erased.numbers, header, delimiter.encode(), quote.encode())
        elif kind == "avro":
            made, records = _avro(plain, erased.numbers)
        else:
            raise ValueError(f"{kind or 'unknown'} files cannot be, record by record")
    except (OSError, EOFError, zlib.error, ValueError, LookupError) as error:
        raise InputRefused(f"{path}: cannot be rewritten: {error}") from error
    if records != erased.total:
        raise InputRefused(
            f"{path}: cannot be rewritten: the engine read {erased.total} records from it, and {records} were counted by its {kind} format"
        )
    return gzip.compress(made, mtime=0) if packed else made


def _lines(data: bytes, erased: ErasedRecords) -> tuple[bytes, int]:
    parts = _LINE_END.split(data)
    lines = len(parts) // 2 + (1 if parts[-1] else 0)
    if lines < erased.total:
        raise ValueError(f"{erased.total} records stand on {lines} lines. Delete the whole file: compactor erase --delete-files")
    shared: dict[int, set[int]] = {}
    for number, change in erased.changes:
        shared.setdefault(number, set()).add(change)
    for number in erased.numbers:
        at = 2 * (number - 1)
        parts[at] = without_changes(parts[at].decode(), shared[number]).encode() if number in shared else b""
    return b"".join(parts), lines


def _csv(data: bytes, numbers: Collection[int], header: bool, delimiter: bytes, quote: bytes) -> tuple[bytes, int]:
    # a quote begins a quoted value only where the value begins; a doubled one does not end it
    char, cell = re.escape(quote), rb"[^%b\n]*" % re.escape(delimiter)
    value = rb"(?:%b[^%b]*(?:%b%b[^%b]*)*(?:%b|\Z))?%b" % (*[char] * 6, cell) if quote else cell
    kept, count = [], -1 if header else 0
    for match in re.finditer(rb"%b(?:%b%b)*(?:\n|\Z)" % (value, re.escape(delimiter), value), data):
        # empty lines are no records
        record = match[0]
        count += record not in _EMPTY
        if record in _EMPTY or count not in numbers:
            kept.append(record)
    return b"".join(kept), max(count, 0)


def _avro(data: bytes, numbers: Collection[int]) -> tuple[bytes, int]:
    """Return a container file without some records. They are read to measure them: all others, and blocks without any of them, stay as they are."""
    import fastavro

    try:
        reader: Any = fastavro.block_reader(io.BytesIO(data))
    except fastavro.schema.SchemaParseException as error:
        raise ValueError(f"its schema cannot be read ({error})") from None
    if reader.codec not in ("null", "deflate"):
        raise ValueError(f"blocks are compressed with {reader.codec}; expected null or deflate")
    # the values of logical types may have no counterpart in Python
    schema = fastavro.parse_schema(_plain(json.loads(reader.metadata["avro.schema"])))
    out: list[bytes] = []
    count = 0
    for block in reader:
        begin, end = block.offset, block.offset + block.size
        out += [] if out else [data[:begin]]
        mine = range(count + 1, count + block.num_records + 1)
        count += block.num_records
        stream, kept = block.bytes_, []
        if not {*mine} & {*numbers}:
            out.append(data[begin:end])
            continue
        content = stream.getvalue()
        for number in mine:
            start = stream.tell()
            fastavro.schemaless_reader(stream, schema, None)
            kept += [] if number in numbers else [content[start : stream.tell()]]
        if kept:
            packer = zlib.compressobj(wbits=-15)
            packed = b"".join(kept) if reader.codec == "null" else packer.compress(b"".join(kept)) + packer.flush()
            out.append(avro.block(len(kept), packed, data[end - avro.SYNC : end]))
    return b"".join(out) or data, count


def _plain(schema: Any) -> Any:
    """Return a schema without its logical types."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def without_changes(text: str, numbers: Collection[int]) -> str:
    """Return a record of wal2json's format 1, alone or as the value of a Kafka record, without the changes of these numbers, which begin at 0.

    A logical message without content takes the place of each: wal2json writes such messages too, and no table takes them. So the numbers of the
    others stay, and with them their Positions. All other text stays as it was. Raises ValueError if the record has no such changes.

    >>> without_changes('{"xid": 7, "change": [{"kind": "insert", "table": "t"}, {"kind": "delete"}]}', [0])
    '{"xid": 7, "change": [{"kind":"message"}, {"kind": "delete"}]}'
    """
    members = {name: (start, end) for name, start, end in _parts(text, 0, "{}")}
    if "change" in members:
        changes = [*_parts(text, members["change"][0], "[]")]
        if max(numbers) >= len(changes):
            raise ValueError(f"expected a change with the number {max(numbers)}, found {len(changes)} changes")
        for number in sorted({*numbers}, reverse=True):
            _, start, end = changes[number]
            text = text[:start] + _PLACEHOLDER + text[end:]
        return text
    inner = next((members[name] for name in ("value", "payload") if name in members and text[slice(*members[name])] != "null"), None)
    if inner is None:
        raise ValueError(f"expected a list of changes (`change`), found {', '.join(members)}")
    start, end = inner
    value = text[start:end]
    cut = json.dumps(without_changes(_DECODER.decode(value), numbers), ensure_ascii=False) if value[0] == '"' else without_changes(value, numbers)
    return text[:start] + cut + text[end:]


def _parts(text: str, at: int, brackets: str) -> Iterator[tuple[str, int, int]]:
    """Yield name ("" in an array), begin and end of the value of each member of the JSON object or array that begins at `at`.

    Raises ValueError for anything else, for a name that comes twice, and for text after an object that begins the text.
    """

    def after(at: int, chars: str = "") -> int:
        at = _space(text, at)
        if chars and (at >= len(text) or text[at] not in chars):
            raise ValueError(f"expected one of {chars} at {at}, found {text[at : at + 1]!r}")
        return _space(text, at + 1) if chars else at

    whole, names = at == 0, set[str]()
    at = after(at, brackets[0])
    while not text.startswith(brackets[1], at):
        name = ""
        if brackets == "{}":
            name, at = _DECODER.raw_decode(text, at)
            if not isinstance(name, str) or name in names:
                raise ValueError(f"expected a new member at {at}, found {name!r}")
            names.add(name)
            at = after(at, ":")
        _, end = _DECODER.raw_decode(text, at)
        yield name, at, end
        at = after(end)
        at = at if text.startswith(brackets[1], at) else after(at, ",")
    if whole and after(at + 1) != len(text):
        raise ValueError(f"expected one JSON object, found more text at {at + 1}")


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
