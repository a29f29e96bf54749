"""Checksums of data files, as Snapshots hold them. Pure.

sha256:<hex>              of the content
md5:<hex>                 of the content: what S3 calls the etag of an object that came in one piece
md5:<hex>-<n>:<bytes>     of the MD5s of its n parts of so many bytes: the etag of one that came in parts
etag:<text>               no hash that can be made again (encrypted by KMS): what the store said, to be compared with what it says now
"""

from __future__ import annotations

import hashlib
import re

_PARTS = re.compile(r"md5:([0-9a-f]{32})-(\d+):(\d+)")
_MD5 = re.compile(r"[0-9a-f]{32}")


def of(data: bytes) -> str:
    """The checksum of a content that is at hand.

    >>> of(b"")[:14]
    'sha256:e3b0c44'
    """
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def of_etag(etag: str, size: int, hashed: bool, part: int = 0) -> str:
    """The checksum of an object in S3, of its etag and `size` bytes. `hashed`: whether the store makes etags of the content; `part`: bytes of a part.

    >>> of_etag("d41d8cd98f00b204e9800998ecf8427e", 0, True), of_etag("d41d8cd98f00b204e9800998ecf8427e-2", 9, True, 5)
    ('md5:d41d8cd98f00b204e9800998ecf8427e', 'md5:d41d8cd98f00b204e9800998ecf8427e-2:5')
    """
    content, dash, count = etag.partition("-")
    if hashed and _MD5.fullmatch(content):
        if not dash:
            return f"md5:{content}"
        # parts of several sizes cannot be told again
        if part and count.isdecimal() and int(count) == max(1, -(-size // part)):
            return f"md5:{etag}:{part}"
    return f"etag:{etag}"


def agrees(expected: str, data: bytes, etag: str = "") -> bool:
    """Whether a content is the one that was told so; `etag` is what its store says now. A kind of checksum nobody knows agrees with nothing."""
    if expected.startswith("etag:"):
        return expected == f"etag:{etag}"
    if expected.startswith("sha256:"):
        return expected == of(data)
    parts = _PARTS.fullmatch(expected)
    if parts is None:
        return expected == f"md5:{_md5(data).hex()}"
    step = int(parts[3])
    found = [_md5(data[start : start + step]) for start in range(0, max(len(data), 1), step)]
    return (_md5(b"".join(found)).hex(), len(found)) == (parts[1], int(parts[2]))


def by_content(expected: str) -> bool:
    """Whether the content alone tells."""
    return not expected.startswith("etag:")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
