"""Checksums: of a content or an etag, and compared with a content."""

from __future__ import annotations

import hashlib

import pytest

from compactor.core.formats import checksum

DATA = b"0123456789"


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def etag_of_parts(data: bytes, step: int) -> str:
    """As S3 makes it of an upload in parts."""
    parts = [bytes.fromhex(md5(data[at : at + step])) for at in range(0, len(data), step)]
    return f"{md5(b''.join(parts))}-{len(parts)}"


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (checksum.of(DATA), "of the content"),
        (checksum.of_etag(md5(DATA), 10, True), "an object of one piece"),
        *((checksum.of_etag(etag_of_parts(DATA, step), 10, True, step), f"parts of {step}") for step in (1, 3, 5, 9, 10, 100)),
    ],
)
def test_a_checksum_agrees_with_its_content_only(expected: str, why: str) -> None:
    """Whatever the store says of it."""
    assert checksum.by_content(expected), why
    assert checksum.agrees(expected, DATA)
    assert not checksum.agrees(expected, b"012345678!")
    assert not checksum.agrees(expected, b"")


@pytest.mark.parametrize(
    ("etag", "size", "hashed", "part"),
    [
        (md5(DATA), 10, False, 0),
        (etag_of_parts(DATA, 5), 10, False, 5),
        (etag_of_parts(DATA, 5), 10, True, 0),
        (etag_of_parts(DATA, 5), 10, True, 4),
        ("opaque", 10, True, 0),
    ],
)
def test_an_etag_that_cannot_be_made_again_is_compared_with_the_store_s(etag: str, size: int, hashed: bool, part: int) -> None:
    """Encrypted by KMS, in parts of several sizes, or of a store with etags of its own."""
    expected = checksum.of_etag(etag, size, hashed, part)
    assert not checksum.by_content(expected)
    assert checksum.agrees(expected, DATA, etag)
    assert not checksum.agrees(expected, DATA, "another")


def test_a_kind_that_nobody_knows_agrees_with_nothing() -> None:
    """A later version's, say."""
    assert not checksum.agrees("crc99:00", DATA, "00")
