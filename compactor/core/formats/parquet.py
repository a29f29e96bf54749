"""The footer of a Parquet file that Spark wrote: rows, row groups, and the least and greatest value and the nulls of each column.

The footer is a Thrift struct in the compact protocol (https://github.com/apache/parquet-format); field numbers are those of `parquet.thrift`.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.core.formats.avro import read_signed, read_unsigned

TAIL = 64 << 10
"""Bytes to read from the end of a file at first. Longer footers take a second request."""

MAGIC = b"PAR1"
"""The first and the last bytes of a file."""
_INT96, _LIST = 3, 3
_FORMS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}
"""`struct` format of a statistic by the physical type: INT32, INT64, FLOAT, DOUBLE."""
_BOOLEAN = 0
_BOUND_BYTES = 64
"""The longest bound of a text; a longer one is cut."""


@dataclass(frozen=True)
class ColumnStats:
    """What a footer says of a column."""

    values: int
    """Number of values, nulls included."""
    nulls: int | None
    low: bytes | None = None
    """The least value in Iceberg's single-value form, or less; None if it is not known."""
    high: bytes | None = None


@dataclass(frozen=True)
class Footer:
    """What a footer says of a file."""

    rows: int
    splits: tuple[int, ...]
    """Where the row groups begin."""
    columns: Mapping[tuple[str, ...], ColumnStats] = field(default_factory=dict)
    """Path of a column outside of lists and maps → its statistics; none of a legacy file."""
    legacy: str = ""
    """The first column in a form that engines misread (a list in Spark's legacy layout, INT96); "" without any."""


def length(tail: bytes) -> int:
    """Return how many bytes from the end of the file the footer takes. Raises ValueError if the file is no Parquet file."""
    if tail[-4:] != MAGIC:
        raise ValueError("not a Parquet file")
    return int.from_bytes(tail[-8:-4], "little") + 8


def parse(tail: bytes, kinds: Mapping[tuple[str, ...], str]) -> Footer:
    """Return the footer of a file by its last bytes, which hold all of it. `kinds`: path → Hive type of the columns to return."""
    raw = _struct(io.BytesIO(tail[len(tail) - length(tail) : -8]))
    elements = [*_paths(raw[2])]
    groups, legacy = raw.get(4, []), _legacy(elements)
    columns = {}
    for at, (path, element) in enumerate(each for each in elements if 5 not in each[1]):
        # INT96 with bounds, which Spark writes where all values are equal, is no number
        if path in kinds and not legacy:
            chunks = [group[1][at][3] for group in groups]
            columns[path] = _stats(chunks, element.get(1, 0), kinds[path])
    starts = (min(chunk[3].get(11) or chunk[3][9] for chunk in group[1]) for group in groups)
    return Footer(raw[3], tuple(starts), columns, legacy)


def _paths(elements: list[dict[int, Any]]) -> Iterator[tuple[tuple[str, ...], dict[int, Any]]]:
    """Yield each element below the root with its path, in the order of the file."""
    stack: list[list[Any]] = [[(), elements[0].get(5, 0)]]
    for element in elements[1:]:
        while not stack[-1][1]:
            stack.pop()
        stack[-1][1] -= 1
        path = (*stack[-1][0], element[4].decode())
        stack.append([path, element.get(5, 0)])
        yield path, element


def _legacy(elements: list[tuple[tuple[str, ...], dict[int, Any]]]) -> str:
    lists = {path for path, element in elements if element.get(6) == _LIST}
    for path, element in elements:
        if element.get(1) == _INT96 and 5 not in element:
            return path[0]
        if (path[:-1] in lists and path[-1] != "list") or (path[:-2] in lists and path[-2] == "list" and path[-1] != "element"):
            return path[0]
    return ""


def _stats(chunks: list[dict[int, Any]], physical: int, kind: str) -> ColumnStats:
    values, stats = sum(chunk[5] for chunk in chunks), [chunk.get(12, {}) for chunk in chunks]
    nulls = sum(each[3] for each in stats) if all(3 in each for each in stats) else None
    bounded = [each for each in stats if 5 in each and 6 in each]
    lows, highs = ([_value(each[number], physical, kind) for each in bounded] for number in (6, 5))
    # a row group of nulls has no bounds and needs none
    complete = all(each in bounded or each.get(3) == chunk[5] for each, chunk in zip(stats, chunks))
    if not complete or not lows or any(value != value for value in (*lows, *highs)):
        # Parquet has no bounds for some values, and NaN is in nobody's order
        return ColumnStats(values, nulls)
    return ColumnStats(values, nulls, _single(min(lows), kind), _above(max(highs), kind))


def _value(data: bytes, physical: int, kind: str) -> Any:
    """Return a statistic as a value that compares as the column's values do."""
    if physical in _FORMS:
        return struct.unpack(_FORMS[physical], data)[0]
    if physical == _BOOLEAN:
        return data != b"\x00"
    return int.from_bytes(data, "big", signed=True) if kind.startswith("decimal") else data


def _single(value: Any, kind: str) -> bytes | None:
    """Return a value in Iceberg's single-value form; a text may be cut."""
    if kind.startswith("decimal"):
        return int(value).to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
    if kind == "string":
        return bytes(value[:_BOUND_BYTES]).decode(errors="ignore").encode()
    if kind == "binary":
        return bytes(value[:_BOUND_BYTES])
    form = {"boolean": "<?", "float": "<f", "double": "<d", "bigint": "<q", "timestamp": "<q"}.get(kind, "<i")
    return struct.pack(form, value)


def _above(value: Any, kind: str) -> bytes | None:
    """Return an upper bound: the value, or for a long text a short one that is greater; None without one."""
    if kind not in ("string", "binary") or len(value) <= _BOUND_BYTES:
        return _single(value, kind)
    if kind == "binary":
        head = bytes(value[:_BOUND_BYTES]).rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None
    text = bytes(value[:_BOUND_BYTES]).decode(errors="ignore")
    for at in range(len(text) - 1, -1, -1):
        following = ord(text[at]) + 1
        # no text has the code points of surrogates
        if following <= 0x10FFFF:
            return (text[:at] + chr(0xE000 if following == 0xD800 else following)).encode()
    return None


def _struct(stream: io.BytesIO) -> dict[int, Any]:
    """Take a struct of Thrift's compact protocol, as a dict of field number → value."""
    fields: dict[int, Any] = {}
    number = 0
    while byte := stream.read(1)[0]:
        kind, step = byte & 0x0F, byte >> 4
        number = number + step if step else read_signed(stream)
        fields[number] = kind == 1 if kind in (1, 2) else _of(kind, stream)
    return fields


def _of(kind: int, stream: io.BytesIO) -> Any:
    if kind in (4, 5, 6):
        return read_signed(stream)
    if kind == 12:
        return _struct(stream)
    if kind in (9, 10):
        byte = stream.read(1)[0]
        count = byte >> 4 if byte >> 4 != 15 else read_unsigned(stream)
        return [_of(byte & 0x0F, stream) for _ in range(count)]
    return stream.read(read_unsigned(stream) if kind == 8 else 8 if kind == 7 else 1)
