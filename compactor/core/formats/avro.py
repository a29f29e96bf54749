"""Avro container files: encode and decode records by their schema (https://avro.apache.org/docs/1.11.1/specification/).

Covers the types that Iceberg's manifests use: int, long, boolean, string, bytes, records, arrays, and unions with null; and the header of every file.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MAGIC = b"Obj\x01"
"""The first bytes of a file."""
_HEADER = {"type": "map", "values": "bytes"}

SYNC = 16
"""Bytes of the sync marker, which ends the header and each block."""

Encoder = Callable[[Any, bytearray], None]
Decoder = Callable[[io.BytesIO], Any]


class CutShort(ValueError):
    """An Avro container file without its end."""


def container_schema(head: bytes, tail: bytes) -> str:
    """Return the writer's schema of a container file. `head`: its beginning; `tail`: its last SYNC bytes.

    Raises ValueError; CutShort for a file that ends inside its header or a block. Spark reads the latter as if the block before it was the last one.
    To Spark a block without records is the last one, too: a file that has another behind it within `head` is refused.

    >>> container_schema(b"Obj" + bytes([1, 2, 22]) + b"avro.schema" + bytes([8]) + b'"in"' + bytes(17), bytes(16))
    '"in"'
    """
    stream = io.BytesIO(head)
    header = _header(stream)
    if tail != _exactly(stream, SYNC):
        raise CutShort("the Avro file ends inside a block")
    if "avro.schema" not in header:
        raise ValueError("the Avro header has no avro.schema")
    if _goes_on_behind_an_empty_block(stream, tail):
        raise ValueError(
            "the Avro file has a block of 0 records before its last one, and Spark reads no record behind it: have the writer leave empty blocks "
            "out, or read the file and write it again with fastavro"
        )
    return header["avro.schema"].decode()


def _goes_on_behind_an_empty_block(blocks: io.BytesIO, marker: bytes) -> bool:
    """Return whether records follow a block without records. `blocks` may end anywhere, and be damaged, which Spark reports."""
    try:
        empty = False
        while (count := read_signed(blocks)) == 0 or not empty:
            empty = empty or count == 0
            blocks.seek(max(read_signed(blocks), 0), io.SEEK_CUR)
            if blocks.read(SYNC) != marker:
                return False
    except CutShort:
        return False
    return True


def _header(stream: io.BytesIO) -> dict[str, bytes]:
    """Take the metadata of a container file from its beginning."""
    magic = stream.read(len(MAGIC))
    if magic != MAGIC:
        if MAGIC.startswith(magic):
            raise CutShort("the Avro header is incomplete")
        raise ValueError(f"not an Avro container file: expected {MAGIC!r} at the beginning, found {magic!r}")
    metadata: dict[str, bytes] = _decoder(_HEADER)(stream)
    return metadata


def write(schema: Any, records: Sequence[Any], metadata: Mapping[str, str]) -> bytes:
    """Return a container file with one deflated block. The same records give the same bytes."""
    encode, body = _encoder(schema), bytearray()
    for record in records:
        encode(record, body)
    header = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **metadata}
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(bytes(body)) + packer.flush()
    out = bytearray(MAGIC)
    _encoder(_HEADER)({name: text.encode() for name, text in header.items()}, out)
    marker = hashlib.sha256(bytes(out) + packed).digest()[:SYNC]
    out += marker
    if records:
        out += block(len(records), packed, marker)
    return bytes(out)


def block(records: int, packed: bytes, marker: bytes) -> bytes:
    """Return a block of so many records. `marker`: the sync marker of the file."""
    out = bytearray()
    _long(records, out)
    _bytes(packed, out)
    return bytes(out) + marker


def read(data: bytes) -> tuple[dict[str, str], list[Any]]:
    """Return the metadata and the records of a container file that `write` made. Raises ValueError for other files."""
    stream = io.BytesIO(data)
    header = {name: value.decode() for name, value in _header(stream).items()}
    if header.get("avro.codec") != "deflate":
        raise ValueError(f"codec {header.get('avro.codec')}, expected deflate")
    decode, records = _decoder(json.loads(header["avro.schema"])), list[Any]()
    marker = stream.read(SYNC)
    while stream.tell() < len(data):
        count, size = read_signed(stream), read_signed(stream)
        block = io.BytesIO(zlib.decompress(stream.read(size), wbits=-15))
        records += [decode(block) for _ in range(count)]
        if stream.read(SYNC) != marker:
            raise ValueError("a block of an Avro container file is damaged")
    return header, records


def _encoder(schema: Any) -> Encoder:
    """Return a function that appends a value."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        value = _encoder(kind[1])

        def union(each: Any, out: bytearray) -> None:
            out.append(0 if each is None else 2)
            if each is not None:
                value(each, out)

        return union
    if kind == "record":
        members = [(field["name"], _encoder(field["type"])) for field in schema["fields"]]

        def record(each: Any, out: bytearray) -> None:
            for name, encode in members:
                encode(each[name], out)

        return record
    if kind in ("array", "map"):
        item, text = _encoder(schema["items" if kind == "array" else "values"]), _encoder("string")

        def several(each: Any, out: bytearray) -> None:
            if each:
                _long(len(each), out)
            for part in each:
                if kind == "map":
                    text(part, out)
                item(each[part] if kind == "map" else part, out)
            out.append(0)

        return several
    return _SCALARS[kind][0]


def _decoder(schema: Any) -> Decoder:
    """Return a function that takes a value from a stream."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        value = _decoder(kind[1])
        return lambda stream: value(stream) if stream.read(1) == b"\x02" else None
    if kind == "record":
        members = [(field["name"], _decoder(field["type"])) for field in schema["fields"]]
        return lambda stream: {name: decode(stream) for name, decode in members}
    if kind in ("array", "map"):
        item, text = _decoder(schema["items" if kind == "array" else "values"]), _decoder("string")

        def several(stream: io.BytesIO) -> Any:
            parts: list[Any] = []
            while count := read_signed(stream):
                if count < 0:
                    # the size in bytes follows
                    read_signed(stream)
                parts += [(text(stream), item(stream)) if kind == "map" else item(stream) for _ in range(abs(count))]
            return dict(parts) if kind == "map" else parts

        return several
    return _SCALARS[kind][1]


def _long(value: int, out: bytearray) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def read_unsigned(stream: io.BytesIO) -> int:
    """Take a number in groups of 7 bits, the lowest first. Parquet's footers have such numbers, too."""
    value = shift = 0
    while True:
        (byte,) = _exactly(stream, 1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7


def read_signed(stream: io.BytesIO) -> int:
    """Take a number as `read_unsigned` does, whose lowest bit is its sign (zigzag)."""
    value = read_unsigned(stream)
    return (value >> 1) ^ -(value & 1)


def _read_bytes(stream: io.BytesIO) -> bytes:
    return _exactly(stream, read_signed(stream))


def _exactly(stream: io.BytesIO, size: int) -> bytes:
    data = stream.read(max(size, 0))
    if len(data) != size:
        raise CutShort("the header or footer is incomplete")
    return data


def _bytes(value: bytes, out: bytearray) -> None:
    _long(len(value), out)
    out += value


_SCALARS: dict[str, tuple[Encoder, Decoder]] = {
    "int": (_long, read_signed),
    "long": (_long, read_signed),
    "bytes": (_bytes, _read_bytes),
    "string": (lambda value, out: _bytes(value.encode(), out), lambda stream: _read_bytes(stream).decode()),
    "boolean": (lambda value, out: out.append(int(value)), lambda stream: stream.read(1) == b"\x01"),
}
