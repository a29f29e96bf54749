"""Raw files of a table with `archive_kms_key`: every object below its archive has that key, however it came there; and nothing else has it."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.core.model.errors import Refused
from compactor.storage.s3.move import SOURCE_ETAG
from compactor.storage.s3.storage import S3Storage
from tests.oracle.sizes import tiered
from tests.parts.proxy import Fault, Proxy
from tests.parts.s3 import Server
from tests.storage.test_s3 import calm, key, plain, storage
from tests.storage.worlds import World

__all__ = ["calm"]
KEY, OTHER = (f"arn:aws:kms:us-east-1:123456789012:key/{name}" for name in ("archive", "lake"))
NO_KEY: tuple[Any, ...] = (None, None, None)
PARTS = {"copy_bytes_max": 1000, "copy_part_bytes": 1000}


def world(url: str, **settings: Any) -> World:
    """The root of a table with a key for its raw files."""
    here = World(storage(url, **settings), "s3://lake/keys")
    there = here.storage
    assert isinstance(there, S3Storage)
    there._client._archive_keys = {here.root: KEY}
    return here


def encryption(server: Server, here: World, name: str) -> tuple[Any, ...]:
    """What S3 says about an object: how it is encrypted, the key, whether with a bucket key."""
    head = plain(server).head_object(Bucket="lake", Key=key(here, name))
    return tuple(head.get(name) for name in ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled"))


@pytest.mark.parametrize("size", [10, 3000])
@pytest.mark.parametrize("keep", [False, True])
def test_a_raw_file_gets_the_key_with_the_copy(server: Server, size: int, keep: bool) -> None:
    """In one piece and in parts, moved and copied, from landing to the archive, to quarantine, and from there to the archive."""
    here = world(server.url, **PARTS)
    for name in ("archive/h/x", "quarantine/h/x"):
        source = here.put("incremental/h/x", b"1" * size)
        assert here.storage.move(source, here.path(name), keep)
        # moto forgets the bucket key of an upload in parts
        assert encryption(server, here, name)[:2] == ("aws:kms", KEY)
        assert size > 1000 or encryption(server, here, name)[2] is True
        assert here.info(name).etag != source.etag, "the server gives it an etag of its own, as S3 does"
        assert here.storage.move(source, here.path(name), keep), "what was moved is known by the etag of its original"
    assert here.storage.move(here.info("quarantine/h/x"), here.path("archive/h/y"))
    assert encryption(server, here, "archive/h/y")[:2] == ("aws:kms", KEY)


def test_a_target_with_other_content_is_not_taken_for_the_copy(server: Server) -> None:
    """Their etags say nothing: they are compared by reading them."""
    here = world(server.url)
    source = here.put("incremental/x", b"1" * 10)
    here.put("archive/x", b"1" * 9 + b"2")
    with pytest.raises(FileExistsError):
        here.storage.move(source, here.path("archive/x"))
    here.put("archive/x", b"1" * 10)
    assert here.storage.move(source, here.path("archive/x"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("archive/h/x", ("aws:kms", KEY, True)),
        ("archive/h/x.reason.json", ("aws:kms", KEY, True)),
        ("quarantine/h/x", ("aws:kms", KEY, True)),
        # for people who may not read the records
        ("quarantine/h/x.reason.json", NO_KEY),
        # a raw file without some records, before it takes its place in the archive
        ("_compactor/rewriting/v00000001-00000000/0/x.parquet", ("aws:kms", KEY, True)),
        ("base/v00000001-00000000/x", NO_KEY),
        ("_compactor/snapshots/archive/x", NO_KEY),
        ("archived/x", NO_KEY),
        ("../other/archive/x", NO_KEY),
    ],
)
def test_what_is_written_there_has_the_key(server: Server, name: str, expected: Any) -> None:
    """As erase writes raw files anew; other places and other tables have the key of the lake."""
    here = world(server.url)
    if name.startswith("../"):
        here, name = World(here.storage, here.root), name[3:]
    here.put(name, b"1")
    assert encryption(server, here, name) == expected
    here.storage.delete([here.path(name)])
    assert here.storage.put_if_absent(here.path(name), b"1")
    assert encryption(server, here, name) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("aws:kms", KEY, "true")),
        ({"sse": "sse-s3"}, ("aws:kms", KEY, "true")),
        ({"sse": "sse-kms", "kms_key": OTHER}, ("aws:kms", KEY, "true")),
        ({"sse": "dsse-kms", "kms_key": OTHER}, ("aws:kms:dsse", KEY, None)),
    ],
)
@pytest.mark.parametrize("size", [10, 3000])
def test_the_key_takes_the_place_of_the_lakes_key(proxy: Proxy, settings: Any, expected: Any, size: int) -> None:
    """And double encryption stays double."""
    here = world(proxy.url, **PARTS, **settings)
    source = here.put("incremental/x", b"1" * size)
    proxy.plan()
    assert here.storage.move(source, here.path("archive/x"))
    made = [headers for (_, path), headers in zip(proxy.requests, proxy.headers, strict=True) if _creates(path, headers)]
    prefix = "x-amz-server-side-encryption"
    assert [tuple(headers.get(name) for name in (prefix, f"{prefix}-aws-kms-key-id", f"{prefix}-bucket-key-enabled")) for headers in made] == [
        expected
    ]


def _creates(path: str, headers: Any) -> bool:
    return path.endswith("?uploads") or ("x-amz-copy-source" in headers and "partNumber" not in path)


@pytest.mark.parametrize("size", [10, 3000])
def test_what_was_archived_before_is_encrypted_again(server: Server, size: int) -> None:
    """Once; content, type, metadata and storage class stay, and a move that is repeated late still knows its copy."""
    here = world(server.url, **PARTS)
    before = World(storage(server.url, **PARTS), "s3://lake/keys")
    before.root = here.root
    kept = {"ContentType": "application/json", "StorageClass": "GLACIER_IR"}
    source = before.put("incremental/x", b"1" * size)
    assert before.storage.move(source, before.path("archive/x"))
    made = {"Bucket": "lake", "Key": key(here, "archive/x"), "Metadata": {"topic": "t", SOURCE_ETAG: source.etag}}
    plain(server).put_object(**made, Body=b"1" * size, **kept)
    assert encryption(server, here, "archive/x") == NO_KEY
    assert here.storage.encrypt(here.path("archive/x"))
    assert encryption(server, here, "archive/x")[:2] == ("aws:kms", KEY)
    head = plain(server).head_object(Bucket="lake", Key=key(here, "archive/x"))
    assert {name: head[name] for name in kept} == kept
    assert head["Metadata"] == made["Metadata"]
    assert here.storage.read(here.path("archive/x")) == b"1" * size
    etag = here.info("archive/x").etag
    assert not here.storage.encrypt(here.path("archive/x"))
    assert here.info("archive/x").etag == etag, "nothing was written"
    assert here.storage.move(source, here.path("archive/x"))


def test_a_file_that_nobody_moved_keeps_the_etag_it_had(server: Server) -> None:
    """As its original's: it is the name under which the ledger knows the content."""
    here, before = world(server.url), World(storage(server.url), "s3://lake/keys")
    before.root = here.root
    etag = before.put("archive/x", b"1").etag
    assert here.storage.encrypt(here.path("archive/x"))
    assert plain(server).head_object(Bucket="lake", Key=key(here, "archive/x"))["Metadata"] == {SOURCE_ETAG: etag}
    assert not here.storage.encrypt(here.path("archive/none"))
    other = World(storage(server.url, sse="sse-kms", kms_key="alias/lake"), "s3://lake/keys")
    other.put("x", b"1")
    assert not other.storage.encrypt(other.path("x")), "S3 tells an alias by the key's ARN; nobody compares it"


@pytest.mark.parametrize("size", tiered([10, 3000], fast=[3000]))
@pytest.mark.parametrize("when", range(1, 9))
def test_a_file_that_is_written_again_meanwhile_is_not_brought_back(proxy: Proxy, server: Server, size: int, when: int) -> None:
    """Just before any request: what erase writes without some records stays."""
    here, before = world(proxy.url, **PARTS), World(storage(server.url, **PARTS), "s3://lake/keys")
    before.root = here.root
    before.put("archive/x", b"1" * size)
    proxy.plan()
    proxy.before = lambda number: before.put("archive/x", b"erased") if number == when else None
    try:
        here.storage.encrypt(here.path("archive/x"))
    finally:
        proxy.before = None
    reached = len(proxy.requests) >= when
    assert before.storage.read(here.path("archive/x")) == (b"erased" if reached else b"1" * size)
    proxy.plan()
    here.storage.encrypt(here.path("archive/x"))
    assert encryption(server, here, "archive/x")[:2] == ("aws:kms", KEY)


DENIED = f"User: arn:aws:sts::123456789012:assumed-role/analyst/{'x' * 64} is not authorized to perform: {{}} on resource: {{}} because no policy allows it"
CASES = {
    "read": (lambda here: here.storage.read(here.path("archive/x")), "kms:Decrypt"),
    "write": (lambda here: here.storage.write(here.path("archive/x"), b"2"), "kms:GenerateDataKey"),
    "copy": (lambda here: here.storage.encrypt(here.path("archive/x")), "kms:Decrypt and kms:GenerateDataKey"),
}


@pytest.mark.parametrize("name", CASES)
def test_who_may_not_use_the_key_is_told_which_right_is_missing(server: Server, proxy: Proxy, name: str) -> None:
    """The object, the key, the right: as S3 names it, and where it says no more than that access is denied."""
    call, rights = CASES[name]
    here = world(proxy.url)
    plain(server).put_object(Bucket="lake", Key=key(here, "archive/x"), Body=b"1")
    at = 2 if name == "copy" else 1
    proxy.plan(Fault("403 AccessDenied", at))
    with pytest.raises(Refused) as found:
        call(here)
    assert str(found.value).startswith(f"{here.path('archive/x')}: not allowed to {name} ")
    assert f"The object's KMS key {KEY} needs {rights}, granted in the identity's policy and in the key's" in str(found.value)
    assert "s3.bucket_owner" in str(found.value), "the key need not be the reason"


def test_other_errors_of_keys_and_rights(server: Server, proxy: Proxy) -> None:
    """A key that is disabled; and a place without a key, of which nobody speaks."""
    here = world(proxy.url)
    proxy.plan(Fault("400 KMS.DisabledException"))
    with pytest.raises(Refused, match=rf"archive/x: the KMS key {KEY} cannot be used to write .*: enable it"):
        here.storage.write(here.path("archive/x"), b"1")
    proxy.plan(Fault("403 AccessDenied"))
    with pytest.raises(Refused, match=r"base/x: not allowed to write \(s3:PutObject\): grant this identity what docs/aws\.md lists") as found:
        here.storage.write(here.path("base/x"), b"1")
    assert "KMS key" not in str(found.value)


@pytest.mark.parametrize(
    ("operation", "action", "right"),
    [("GetObject", "read (s3:GetObject)", "kms:Decrypt"), ("PutObject", "write (s3:PutObject)", "kms:GenerateDataKey")],
)
def test_the_words_of_kms_are_passed_on(operation: str, action: str, right: str) -> None:
    """They name the right and the key, which may be the one of a copy's source."""
    from botocore.exceptions import ClientError

    from compactor.storage.s3.client import refusal

    message = DENIED.format(right, OTHER)
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, operation)
    text = str(refusal(error, "s3://lake/t/archive/x", action, "Amazon S3", KEY))
    assert text.startswith(
        f"s3://lake/t/archive/x: not allowed to {action} with the KMS key {OTHER}: this identity lacks {right} on the key. Grant it"
    )
    assert message[:100] in text


def test_looking_at_a_file_needs_no_key(proxy: Proxy) -> None:
    """S3 gives checksums of encrypted objects only to those who may decrypt them; so they are asked for only where copies are compared."""
    here = world(proxy.url)
    source = here.put("incremental/x", b"1")
    proxy.plan()
    here.info("incremental/x")
    assert [headers for headers in proxy.headers if "x-amz-checksum-mode" in headers] == []
    here.storage.move(source, here.path("archive/x"))
    assert [headers for headers in proxy.headers if "x-amz-checksum-mode" in headers] != []
