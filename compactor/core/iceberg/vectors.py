"""Deletion vectors: which rows of data files are hidden, as roaring bitmaps in a Puffin file.

https://iceberg.apache.org/puffin-spec/ has the file and the blob `deletion-vector-v1`, https://github.com/RoaringBitmap/RoaringFormatSpec the bitmap.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

_PUFFIN, _VECTOR = b"PFA1", b"\xd1\xd3\x39\x64"
_WITHOUT_RUNS = 12346
"""The cookie of a bitmap without containers of runs."""
_SPARSE_MAX = 4096
"""Values up to which a container lists them; a larger one has a bit for each of 65,536."""
_POSITION = 2147483645
"""The reserved field id of a row's position in its file."""


def bitmap(positions: Sequence[int]) -> bytes:
    """Return positions, sorted and none twice, as a portable 64-bit roaring bitmap."""
    parts = [(high, [*group]) for high, group in groupby(positions, lambda position: position >> 32)]
    bodies = [struct.pack("<I", high) + _small([position & 0xFFFFFFFF for position in part]) for high, part in parts]
    return struct.pack("<q", len(parts)) + b"".join(bodies)


def _small(values: Sequence[int]) -> bytes:
    containers = [(high, [value & 0xFFFF for value in group]) for high, group in groupby(values, lambda value: value >> 16)]
    bodies = [_container(lows) for _, lows in containers]
    out = bytearray(struct.pack("<II", _WITHOUT_RUNS, len(containers)))
    for high, lows in containers:
        out += struct.pack("<HH", high, len(lows) - 1)
    at = len(out) + 4 * len(containers)
    for body in bodies:
        out += struct.pack("<I", at)
        at += len(body)
    return bytes(out) + b"".join(bodies)


def _container(lows: Sequence[int]) -> bytes:
    if len(lows) <= _SPARSE_MAX:
        return struct.pack(f"<{len(lows)}H", *lows)
    bits = bytearray(8192)
    for low in lows:
        bits[low >> 3] |= 1 << (low & 7)
    return bytes(bits)


def blob(positions: Sequence[int]) -> bytes:
    """Return a vector as a blob: its length, the magic number, the bitmap, and a checksum of these two."""
    content = _VECTOR + bitmap(positions)
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def puffin(hidden: Mapping[str, Sequence[int]]) -> tuple[bytes, list[tuple[str, int, int, int]]]:
    """Return a Puffin file, and the (location of the data file, offset, bytes, hidden rows) of each vector in it.

    `hidden`: location of a data file, as readers get it → positions of rows, sorted.
    """
    out, placed, described = bytearray(_PUFFIN), [], []
    for location, positions in sorted(hidden.items()):
        content = blob(positions)
        placed.append((location, len(out), len(content), len(positions)))
        described.append(_described(location, len(out), len(content), len(positions)))
        out += content
    footer = json.dumps({"blobs": described, "properties": {"created-by": "compactor"}}, ensure_ascii=False).encode()
    return bytes(out) + _PUFFIN + footer + struct.pack("<iI", len(footer), 0) + _PUFFIN, placed


def _described(location: str, offset: int, length: int, rows: int) -> dict[str, Any]:
    return {
        "type": "deletion-vector-v1",
        "fields": [_POSITION],
        # both are those of the manifest's entry
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": location, "cardinality": str(rows)},
    }


def records(placed: Sequence[tuple[str, int, int, int]], location: str, size: int) -> Iterator[dict[str, Any]]:
    """Yield the record of each vector for a manifest. `placed`: what `puffin` returned; `location`, `size`: the Puffin file's."""
    for data, offset, length, rows in placed:
        yield {
            "content": 1,
            "file_path": location,
            "file_format": "PUFFIN",
            "partition": {},
            "record_count": rows,
            "file_size_in_bytes": size,
            **dict.fromkeys(("value_counts", "null_value_counts", "lower_bounds", "upper_bounds", "split_offsets", "first_row_id")),
            "referenced_data_file": data,
            "content_offset": offset,
            "content_size_in_bytes": length,
        }
