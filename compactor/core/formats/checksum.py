"""Checksums of data files, as Snapshots store them. Four kinds:

sha256:<hex>              SHA-256 of the content
md5:<hex>                 MD5 of the content: S3's etag of an object that was uploaded at once
md5:<hex>-<n>:<bytes>     MD5 of the MD5s of n parts of that many bytes: S3's etag of a multipart upload
etag:<text>               S3's etag if it is no hash of the content (encryption with KMS). Only the store can compare it
"""

from __future__ import annotations

import hashlib
import re

_PARTS = re.compile(r"md5:([0-9a-f]{32})-(\d+):(\d+)")
_MD5 = re.compile(r"[0-9a-f]{32}")


def of(data: bytes) -> str:
    """Return the checksum of a content.

    >>> of(b"")[:14]
    'sha256:e3b0c44'
    """
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def of_etag(etag: str, size: int, hashed: bool, part: int = 0) -> str:
    """Return the checksum of an object in S3 from its etag.

    `size`: bytes of the object. `hashed`: whether the store's etags are hashes of the content. `part`: bytes of a part of a multipart upload.

    >>> of_etag("d41d8cd98f00b204e9800998ecf8427e", 0, True), of_etag("d41d8cd98f00b204e9800998ecf8427e-2", 9, True, 5)
    ('md5:d41d8cd98f00b204e9800998ecf8427e', 'md5:d41d8cd98f00b204e9800998ecf8427e-2:5')
    """
    content, dash, count = etag.partition("-")
    if hashed and _MD5.fullmatch(content):
        if not dash:
            return f"md5:{content}"
        # the checksum of parts with different sizes cannot be computed again
        if part and count.isdecimal() and int(count) == max(1, -(-size // part)):
            return f"md5:{etag}:{part}"
    return f"etag:{etag}"


def agrees(expected: str, data: bytes, etag: str = "") -> bool:
    """Return whether a content has the `expected` checksum. `etag`: the object's etag now. An unknown kind of checksum matches no content."""
    if expected.startswith("etag:"):
        return expected == f"etag:{etag}"
    if expected.startswith("sha256:"):
        return expected == of(data)
    parts = _PARTS.fullmatch(expected)
    if parts is None:
        return expected == f"md5:{_md5(data).hex()}"
    step = int(parts[3])
    digests = [_md5(data[start : start + step]) for start in range(0, max(len(data), 1), step)]
    return (_md5(b"".join(digests)).hex(), len(digests)) == (parts[1], int(parts[2]))


def by_content(expected: str) -> bool:
    """Return whether the content is enough to verify the checksum, without the store's etag."""
    return not expected.startswith("etag:")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
