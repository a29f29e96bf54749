"""Raw files without some of their records: what `compactor erase` writes in place of an archived file.

Everything else in the file stays byte for byte as the source wrote it. In JSON lines an empty line takes the place of a record, so that the
others keep their numbers, and with them their Positions. Of a record with changes of several keys only some may go (`change_list`).
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection

from compactor.core.erasure import avro_records, change_list
from compactor.core.model.errors import InputRefused
from compactor.core.results.batch import ErasedRecords

FORMATS = ("json", "csv", "avro", "parquet")
"""File formats that can be rewritten record by record: the engine writes Parquet (`Engine.write_without`), `without` the others."""

_LINE_END = re.compile(rb"(\r\n|\n|\r)")
_EMPTY = (b"\n", b"\r\n", b"\r", b"")
_PACKED = (".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".xz")


def problem(path: str, kind: str | None) -> str | None:
    """Return why a file of this format cannot be rewritten record by record, or None if it can."""
    if kind not in FORMATS:
        return f"{kind or 'unknown'} files cannot be rewritten record by record"
    if path.lower().endswith(_PACKED):
        return "only plain and gzip files can be rewritten"
    return None


def without(path: str, kind: str, data: bytes, erased: ErasedRecords, header: bool = False, delimiter: str = ",", quote: str = '"') -> bytes:
    """Return the content of a file without these records.

    `header`, `delimiter` and `quote` are for CSV files. The same arguments give the same bytes. Raises InputRefused if the file has another number of
    records than the engine found, or a form that cannot be rewritten.
    """
    numbers = erased.numbers
    if erased.changes and kind != "json":
        raise InputRefused(f"{path}: cannot be rewritten: its records hold changes of other keys too, and are no JSON lines")
    packed = path.lower().endswith(".gz")
    try:
        plain = gzip.decompress(data) if packed else data
        if kind == "json":
            made, records = _lines(plain, erased)
        elif kind == "csv":
            made, records = _csv(plain, numbers, header, delimiter.encode(), quote.encode())
        else:
            made, records = avro_records.without(plain, numbers)
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise InputRefused(f"{path}: cannot be rewritten: {error}") from error
    if records != erased.total:
        raise InputRefused(
            f"{path}: cannot be rewritten: the engine read {erased.total} records from it, and {records} were counted by its {kind} format"
        )
    return gzip.compress(made, mtime=0) if packed else made


def _lines(data: bytes, erased: ErasedRecords) -> tuple[bytes, int]:
    parts = _LINE_END.split(data)
    lines = len(parts) // 2 + (1 if parts[-1] else 0)
    shared: dict[int, set[int]] = {}
    for number, change in erased.changes:
        shared.setdefault(number, set()).add(change)
    for number in erased.numbers:
        at = 2 * (number - 1)
        parts[at] = change_list.without(parts[at].decode(), shared[number]).encode() if number in shared else b""
    return b"".join(parts), lines


def _csv(data: bytes, numbers: Collection[int], header: bool, delimiter: bytes, quote: bytes) -> tuple[bytes, int]:
    records = _csv_records(data, delimiter, quote)
    chosen = set(numbers)
    kept, count = [], -1 if header else 0
    for record in records:
        # empty lines are no records
        count += record not in _EMPTY
        if record in _EMPTY or count not in chosen:
            kept.append(record)
    return b"".join(kept), max(count, 0)


def _csv_records(data: bytes, delimiter: bytes, quote: bytes) -> list[bytes]:
    """Split CSV into records with their line ends. A quote begins a quoted value only where the value begins."""
    records, start, at, begins, inside = [], 0, 0, True, False
    while at < len(data):
        char = data[at : at + 1]
        if inside:
            if char == quote and data[at + 1 : at + 2] == quote:
                at += 1
            elif char == quote:
                inside = False
        elif char == quote and begins:
            inside, begins = True, False
        elif char == b"\n":
            records.append(data[start : at + 1])
            start, begins = at + 1, True
        else:
            begins = char == delimiter
        at += 1
    return [*records, data[start:]] if start < len(data) else records
