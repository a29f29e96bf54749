"""Read the column names of a Parquet file from its footer, without Spark.

Format: Apache Parquet's `parquet.thrift` (FileMetaData field 2 is the list of SchemaElements, depth first), in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from typing import Any

MAGIC = b"PAR1"
LEAF = ""
"""The example value of a column that is no struct."""
_DEPTH_MAX = 64


def columns(data: bytes) -> dict[str, Any]:
    """Return the columns of a Parquet file as an example record: a struct is a dict of its members, any other value LEAF.

    Raises ValueError when `data` is not a whole Parquet file.
    """
    if len(data) < 12 or data[:4] != MAGIC or data[-4:] != MAGIC:
        raise ValueError("not a complete Parquet file: expected PAR1 at its beginning and end")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > len(data) - 12:
        raise ValueError(f"the Parquet footer of {length} bytes is longer than the file")
    try:
        elements = iter(_Compact(data[-8 - length : -8]).struct(0)[2])
        _, root = _column(elements, 0)
    except (IndexError, KeyError, TypeError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError(f"the Parquet footer cannot be read ({type(error).__name__})") from None
    if next(elements, None) is not None or not isinstance(root, dict):
        raise ValueError("the Parquet footer's schema has no single root")
    return root


def _column(elements: Any, depth: int) -> tuple[str, Any]:
    if depth > _DEPTH_MAX:
        raise ValueError(f"the Parquet schema is nested deeper than {_DEPTH_MAX} levels")
    # fields of a SchemaElement: 4 name, 5 number of children
    element = next(elements)
    children = [_column(elements, depth + 1) for _ in range(element.get(5, 0))]
    return element[4].decode(), dict(children) if children or depth == 0 else LEAF


class _Compact:
    """Reads Thrift's compact protocol. A struct becomes a dict by field number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """Read one struct up to its stop byte."""
        if depth > _DEPTH_MAX:
            raise ValueError("the Parquet footer is nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._bytes(1)[0]:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            # a boolean field's value is its type
            fields[number] = head & 15 == 1 if head & 15 in (1, 2) else self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._bytes(1)[0]
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind in (7, 8):
            return self._bytes(8 if kind == 7 else self._varint())
        if kind in (9, 10):
            head = self._bytes(1)[0]
            return [self._value(head & 15, depth + 1) for _ in range(head >> 4 if head >> 4 < 15 else self._varint())]
        if kind == 11:
            size = self._varint()
            kinds = self._bytes(1)[0] if size else 0
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(size)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"the Parquet footer holds a value of an unknown kind {kind}")

    def _bytes(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._bytes(1)[0]) & 0x80:
            value, shift = value | (byte & 0x7F) << shift, shift + 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
