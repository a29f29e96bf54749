"""Avro container files without some of their records (Avro 1.12, "Object Container Files" and "Binary Encoding").

Records are only measured, not decoded: header, schema and all other records stay byte for byte. fastavro is not on the cluster.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Any

from compactor.core.schema.avro import AvroSchema, container_metadata, container_schema, parse, read_long

_FIXED_SIZE = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def without(data: bytes, numbers: Collection[int]) -> tuple[bytes, int]:
    """Return a container file without the records of these numbers, which begin at 1, and the number of records that it had.

    Raises ValueError for a codec other than `null` and `deflate`, and for a damaged file.
    """
    schema = parse(container_schema(data))
    codec, at = _header(data)
    if codec not in ("null", "deflate"):
        raise ValueError(f"blocks are compressed with {codec}; expected null or deflate")
    sync = data[at : at + 16]
    at += 16
    out, chosen, count = [data[:at]], set(numbers), 0
    while at < len(data):
        begins = at
        rows, at = read_long(data, at)
        size, at = read_long(data, at)
        block, at = data[at : at + size], at + size
        if data[at : at + 16] != sync or rows < 0 or len(block) != size:
            raise ValueError("an Avro block is damaged or cut short")
        at += 16
        mine = range(count + 1, count + rows + 1)
        count += rows
        if chosen.isdisjoint(mine):
            out.append(data[begins:at])
            continue
        kept = _kept(schema, zlib.decompress(block, -15) if codec == "deflate" else block, [number not in chosen for number in mine])
        if kept:
            content = b"".join(kept)
            if codec == "deflate":
                packer = zlib.compressobj(wbits=-15)
                content = packer.compress(content) + packer.flush()
            out.append(_encoded(len(kept)) + _encoded(len(content)) + content + sync)
    return b"".join(out), count


def _kept(schema: AvroSchema, block: bytes, keep: list[bool]) -> list[bytes]:
    at, kept = 0, []
    for stays in keep:
        ends = _after(schema, schema.root, block, at)
        kept += [block[at:ends]] if stays else []
        at = ends
    if at != len(block):
        raise ValueError("an Avro block has another length than its records")
    return kept


def _after(schema: AvroSchema, kind: Any, data: bytes, at: int) -> int:
    """Return where the value of a type ends that begins at `at`."""
    definition = schema.of(kind)
    name = definition["type"]
    if name in _FIXED_SIZE:
        return at + _FIXED_SIZE[name]
    if name in ("int", "long", "enum"):
        return read_long(data, at)[1]
    if name in ("bytes", "string"):
        size, at = read_long(data, at)
        return at + size
    if name == "fixed":
        return at + int(definition["size"])
    if name == "record":
        for member in definition["fields"]:
            at = _after(schema, member["type"], data, at)
        return at
    if name == "union":
        branch, at = read_long(data, at)
        return _after(schema, definition["branches"][branch], data, at)
    if name in ("array", "map"):
        return _after_blocks(schema, definition, data, at)
    return _after(schema, name, data, at)


def _after_blocks(schema: AvroSchema, definition: dict[str, Any], data: bytes, at: int) -> int:
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return at
        if count < 0:
            # the size in bytes follows
            size, at = read_long(data, at)
            at += size
            continue
        for _ in range(count):
            if definition["type"] == "map":
                at = _after(schema, "string", data, at)
            at = _after(schema, definition["values" if definition["type"] == "map" else "items"], data, at)


def _header(data: bytes) -> tuple[str, int]:
    """Return the codec, and where the sync marker begins."""
    entries = list(container_metadata(data))
    codec = next((value.decode() for name, value, _ in entries if name == b"avro.codec"), "null")
    return codec, read_long(data, entries[-1][2])[1]


def _encoded(value: int) -> bytes:
    """Return a number that is not negative in zig-zag form."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])
