"""The columns a Parquet file says it has, out of its footer: for looking at files without Spark. Pure.

Format: Apache Parquet's `parquet.thrift` (FileMetaData field 2 is the list of SchemaElements, depth first), in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

MAGIC = b"PAR1"
_DEPTH_MAX = 64


@dataclass(frozen=True)
class ParquetColumn:
    """A column, or a struct's member; `children` of a struct."""

    name: str
    children: tuple[ParquetColumn, ...] = ()

    def child(self, name: str) -> ParquetColumn | None:
        """The member of that name, or None."""
        return next((column for column in self.children if column.name == name), None)


def columns(data: bytes) -> tuple[ParquetColumn, ...]:
    """The top columns of a whole Parquet file. Raises ValueError for what is no Parquet file, or a cut one."""
    if len(data) < 12 or data[:4] != MAGIC or data[-4:] != MAGIC:
        raise ValueError("not a whole Parquet file: it does not begin and end with PAR1")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > len(data) - 12:
        raise ValueError(f"the Parquet footer of {length} bytes is longer than the file")
    try:
        elements = _Compact(data[-8 - length : -8]).structure(0)[2]
        root, rest = _column(elements, 0, 0)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"the Parquet footer cannot be read ({type(error).__name__})") from None
    if rest != len(elements):
        raise ValueError("the Parquet footer's schema has no single root")
    return root.children


def _column(elements: list[dict[int, Any]], at: int, depth: int) -> tuple[ParquetColumn, int]:
    if depth > _DEPTH_MAX:
        raise ValueError(f"the Parquet schema is nested deeper than {_DEPTH_MAX} levels")
    said = elements[at]
    at += 1
    children = []
    for _ in range(said.get(5, 0)):
        child, at = _column(elements, at, depth + 1)
        children.append(child)
    return ParquetColumn(said[4].decode(), tuple(children)), at


class _Compact:
    """A reader of Thrift's compact protocol: structs become dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def structure(self, depth: int) -> dict[int, Any]:
        """One struct, from here to its stop byte."""
        if depth > _DEPTH_MAX:
            raise ValueError("the Parquet footer is nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while True:
            head = self._byte()
            if head == 0:
                return found
            number = number + (head >> 4) if head >> 4 else self._signed()
            found[number] = head & 15 == 1 if head & 15 in (1, 2) else self._value(head & 15, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return self._byte() == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, depth + 1) for _ in range(size)]
        if kind == 11:
            size = self._unsigned()
            kinds = self._byte() if size else 0
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(size)]
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError(f"the Parquet footer holds a value of an unknown kind {kind}")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
