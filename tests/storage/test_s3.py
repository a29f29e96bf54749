"""What only S3 can get wrong: stores that lack something, refusals and their words, encryption, owners, odd objects. And the test server itself."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from compactor.aws.client import make_session
from compactor.core.formats import checksum
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import S3Settings
from compactor.storage.s3 import client as s3_client
from compactor.storage.s3.move import SOURCE_ETAG
from compactor.storage.s3.storage import BATCH, PROBE_PREFIX, S3Storage
from tests.parts.proxy import ALWAYS, Fault, Proxy
from tests.parts.s3 import ACCOUNT, Server
from tests.storage.worlds import World

FAST = {"path_style": True, "region": "us-east-1", "wait_seconds_min": 0.01, "wait_seconds_max": 0.05, "client_attempts": 1}
INFO = FileInfo("s3://lake/here/x", 1, "c4ca4238a0b923820dcc509a6f75849b", 1.0)
CALLS: dict[str, Callable[[S3Storage], Any]] = {
    "list": lambda storage: [*storage.list("s3://lake/here")],
    "read": lambda storage: storage.read("s3://lake/here/x"),
    "stat": lambda storage: storage.stat("s3://lake/here/x"),
    "checksum": lambda storage: storage.checksum(INFO),
    "write": lambda storage: storage.write("s3://lake/here/x", b"1"),
    "put": lambda storage: storage.put_if_absent("s3://lake/here/new", b"1"),
    "replace": lambda storage: storage.replace(INFO, b"1"),
    "move": lambda storage: storage.move(INFO, "s3://lake/here/y"),
    "delete": lambda storage: storage.delete(["s3://lake/here/x"]),
    "delete many": lambda storage: storage.delete(["s3://lake/here/x", "s3://lake/here/y"]),
    "now": lambda storage: storage.now(),
}


@pytest.fixture(autouse=True)
def calm(proxy: Proxy) -> Iterator[None]:
    """The proxy as it should be, before and after."""
    proxy.plan()
    yield
    proxy.plan()
    proxy.strip.clear()
    proxy.refuse.clear()


def storage(url: str, **settings: Any) -> S3Storage:
    """A storage that knows nothing yet."""
    return S3Storage("s3://lake/here", S3Settings(**{"endpoint": url, "operation_seconds": 10.0, **FAST, **settings}))


def world(url: str, **settings: Any) -> World:
    """A root of its own."""
    return World(storage(url, **settings), "s3://lake/special")


def plain(server: Server) -> Any:
    """boto3 itself, apart from what describes the service."""
    return make_session().client("s3", endpoint_url=server.url, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))


def key(world: World, *names: str) -> str:
    """A key of the bucket."""
    return world.path(*names).partition("//lake/")[2]


# The server: what the tests of faults and races stand on


def test_the_server_heeds_the_conditions_that_s3_heeds(server: Server) -> None:
    """If-None-Match of put, copy and complete; If-Match of put, delete, copy and complete; the etag of a copy's source; the owner. Each answers 412 or 403."""
    client, here = plain(server), {"Bucket": "lake", "Key": "conditions/x"}
    other = {"Bucket": "lake", "Key": "conditions/y"}
    for each in (here, other):
        client.put_object(**each, Body=b"1")
    upload = client.create_multipart_upload(**other)["UploadId"]
    part = client.upload_part(**other, UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("412", lambda: client.put_object(**here, Body=b"2", IfNoneMatch="*")),
        ("412", lambda: client.put_object(**here, Body=b"2", IfMatch="other")),
        ("404", lambda: client.put_object(Bucket="lake", Key="conditions/none", Body=b"2", IfMatch="other")),
        ("412", lambda: client.delete_object(**here, IfMatch="other")),
        ("412", lambda: client.copy_object(**other, CopySource=here, CopySourceIfMatch="other")),
        ("412", lambda: client.copy_object(**other, CopySource=here, IfNoneMatch="*")),
        ("412", lambda: client.copy_object(**other, CopySource=here, IfMatch="other")),
        ("412", lambda: client.upload_part_copy(**other, UploadId=upload, PartNumber=2, CopySource=here, CopySourceIfMatch="other")),
        (
            "412",
            lambda: client.complete_multipart_upload(
                **other, UploadId=upload, IfNoneMatch="*", MultipartUpload={"Parts": [{"ETag": part, "PartNumber": 1}]}
            ),
        ),
        (
            "412",
            lambda: client.complete_multipart_upload(
                **other, UploadId=upload, IfMatch="other", MultipartUpload={"Parts": [{"ETag": part, "PartNumber": 1}]}
            ),
        ),
        ("403", lambda: client.head_object(**here, ExpectedBucketOwner="9" * 12)),
        ("403", lambda: client.copy_object(**other, CopySource=here, ExpectedSourceBucketOwner="9" * 12)),
    ]
    for status, call in cases:
        with pytest.raises(ClientError) as found:
            call()
        assert str(found.value.response["ResponseMetadata"]["HTTPStatusCode"]) == status
    client.abort_multipart_upload(**other, UploadId=upload)
    client.head_object(**here, ExpectedBucketOwner=ACCOUNT)


def test_a_boto3_older_than_conditional_puts_can_put_conditionally(server: Server) -> None:
    """As EMR 7 brings it. What the client is taught is a header that a newer one would write itself. (Seen with boto3 1.28, too.)"""
    client, here = plain(server), {"Bucket": "lake", "Key": "conditions/old"}
    conditions = s3_client._PUT_CONDITIONS
    for name, header in conditions.items():
        s3_client._teach_conditional_put(client, name, header)
    sent: list[tuple[str | None, ...]] = []
    client.meta.events.register("before-send.s3.PutObject", lambda request, **_: sent.append(tuple(map(request.headers.get, conditions.values()))))
    etag = client.put_object(**here, Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": "other"}):
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(**here, Body=b"2", **condition)
    client.put_object(**here, Body=b"2", IfMatch=etag)
    client.put_object(**here, Body=b"3")
    assert [(b"*", None), (b"*", None), (None, b"other"), (None, etag.encode()), (None, None)] == sent
    assert b"3" == client.get_object(**here)["Body"].read()


def test_the_server_gives_a_copy_of_many_parts_another_etag(server: Server) -> None:
    """As S3 does: so an etag alone does not tell that a copy is whole."""
    client, here = plain(server), {"Bucket": "lake", "Key": "parts/x"}
    upload = client.create_multipart_upload(**here)["UploadId"]
    part = client.upload_part(**here, UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
    made = client.complete_multipart_upload(**here, UploadId=upload, MultipartUpload={"Parts": [{"ETag": part, "PartNumber": 1}]})["ETag"]
    client.copy_object(Bucket="lake", Key="parts/y", CopySource=here)
    assert made.endswith('-1"')
    assert client.head_object(Bucket="lake", Key="parts/y")["ETag"] != made


def test_checksums_of_objects_in_parts_and_of_encrypted_ones(server: Server) -> None:
    """Parts as Spark uploads them can be told again; under KMS nothing but the store's own word is left."""
    client, where = plain(server), world(server.url)
    bucket, _, key = where.path("x").removeprefix("s3://").partition("/")
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    parts = []
    for number, data in enumerate((b"aaaa", b"bbbb", b"c"), 1):
        etag = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data)["ETag"]
        parts.append({"ETag": etag, "PartNumber": number})
    client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
    told = where.storage.checksum(where.info("x"))
    assert told.endswith("-3:4")
    assert checksum.agrees(told, b"aaaabbbbc")
    assert not checksum.agrees(told, b"aaaabbbbd")
    client.put_object(Bucket=bucket, Key=key, Body=b"1", ServerSideEncryption="aws:kms")
    told = where.storage.checksum(where.info("x"))
    assert not checksum.by_content(told)
    assert checksum.agrees(told, b"1", where.info("x").etag)


# Stores that lack something


@pytest.mark.parametrize("how", ["strip", "refuse"])
def test_a_store_without_conditional_puts_is_refused(server: Server, proxy: Proxy, how: str) -> None:
    """Whether it ignores the condition or answers that it has none; nothing is written, and the words say what to do."""
    getattr(proxy, how).add("if-none-match")
    there = storage(proxy.url)
    for _ in range(2):
        with pytest.raises(Refused, match=r"s3://lake/none/x: 127\.0\.0\.1:\d+ ignores If-None-Match.*Use a store with conditional writes"):
            there.put_if_absent("s3://lake/none/x", b"1")
    assert [*storage(server.url).list("s3://lake/none")] == []
    probes = {path for _, path in proxy.requests if PROBE_PREFIX in path}
    assert len(probes) == 1, "tried out once"


@pytest.mark.parametrize("how", ["strip", "refuse"])
@pytest.mark.parametrize("size", [10, 3000])
def test_a_store_without_conditional_copies_and_deletes_moves_all_the_same(proxy: Proxy, how: str, size: int) -> None:
    """Less safely (docs/aws.md), after looking once more."""
    here = world(proxy.url, copy_bytes_max=1000, copy_part_bytes=1000)
    source = here.put("x", b"1" * size)
    getattr(proxy, how).update({"if-match", "if-none-match"})
    assert here.storage.move(source, here.path("y"))
    assert here.content() == {"y": b"1" * size}


@pytest.mark.parametrize("how", ["strip", "refuse"])
def test_a_store_without_conditional_replacing_replaces_all_the_same(proxy: Proxy, how: str) -> None:
    """After looking once more."""
    here = world(proxy.url)
    first = here.put("x", b"1")
    getattr(proxy, how).add("if-match")
    assert here.storage.replace(first, b"2")
    assert not here.storage.replace(first, b"3")
    assert here.content() == {"x": b"2"}


def test_a_store_without_batch_delete_is_asked_one_by_one(proxy: Proxy) -> None:
    """501 for many at once."""
    here = world(proxy.url)
    for name in "abc":
        here.put(name, b"")
    proxy.plan(Fault("501 NotImplemented", 1, ALWAYS, method="POST"))
    here.storage.delete([here.path(name) for name in "abc"])
    assert here.content() == {}


def test_a_batch_delete_goes_on_with_the_keys_that_failed(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that passes is asked for again; one that is forbidden is named."""
    here, told = world(proxy.url), []
    for name in "abc":
        here.put(name, b"")
    real = s3_client.S3Client.request

    def ask(self: Any, operation: str, where: Any, expect: Any = (), **parameters: Any) -> Any:
        if operation != "delete_objects":
            return real(self, operation, where, expect, **parameters)
        asked = [item["Key"] for item in parameters["Delete"]["Objects"]]
        told.append(len(asked))
        real(self, operation, where, expect, Delete={"Objects": [{"Key": asked[0]}]})
        return {"Deleted": [{"Key": asked[0]}], "Errors": [{"Key": name, "Code": code} for name in asked[1:]]}

    monkeypatch.setattr(s3_client.S3Client, "request", ask)
    code = "InternalError"
    here.storage.delete([here.path(name) for name in "abc"])
    assert (told, here.content()) == ([3, 2, 1], {})
    code = "AccessDenied"
    with pytest.raises(Refused, match=r"s3://lake/special/.*/b: not allowed to delete"):
        here.storage.delete([here.path(name) for name in "abc"])


def test_many_objects_are_deleted_in_batches(server: Server, proxy: Proxy) -> None:
    """A thousand a request, which is what S3 takes."""
    here = world(proxy.url)
    here.put("x", b"")
    proxy.plan()
    here.storage.delete([here.path("x"), *(here.path(str(n)) for n in range(2 * BATCH))])
    assert len(proxy.requests) == 3
    assert here.content() == {}


# Refusals


REFUSALS = [
    ("403 AccessDenied", r"not allowed to .*\(s3:.*docs/aws\.md.*AccessDenied"),
    ("403 InvalidAccessKeyId", "credentials are not valid"),
    ("403 SignatureDoesNotMatch", "credentials are not valid"),
    ("400 ExpiredToken", "credentials have expired: renew them"),
    ("400 AuthorizationHeaderMalformed", "in another region.*set AWS_REGION"),
    ("403 RequestTimeTooSkewed", "set this machine's clock"),
    ("403 InvalidObjectState", "archive class: restore it first"),
    ("405 MethodNotAllowed", "not allowed"),
    ("418 Teapot", "refused to .*Teapot"),
]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [(call, *REFUSALS[0]) for call in CALLS] + [(call, *refusal) for refusal in REFUSALS[1:] for call in ("read", "stat", "delete many")],
)
def test_a_final_answer_is_explained_and_not_tried_again(server: Server, proxy: Proxy, call: str, kind: str, said: str) -> None:
    """Location, what was asked for, what to do; also where the answer itself has no body (HEAD)."""
    storage(server.url).write("s3://lake/here/x", b"1")
    there = storage(proxy.url)
    proxy.plan(Fault(kind, 1, ALWAYS))
    # new credentials may be there when the command starts again
    with pytest.raises(Unavailable if "Expired" in kind else Refused, match=f"(?s)s3://lake.*{said}"):
        CALLS[call](there)
    assert len(proxy.requests) <= 4


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_bucket_is_named(server: Server, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Never taken for a missing object."""
    there = S3Storage("s3://nowhere/here", S3Settings(endpoint=server.url, **FAST))
    monkeypatch.setattr("tests.storage.test_s3.INFO", FileInfo("s3://nowhere/here/x", 1, "1", 1.0))
    renamed = {**CALLS, "move": lambda storage: storage.move(FileInfo("s3://nowhere/here/x", 1, "1", 1.0), "s3://nowhere/here/y")}
    with pytest.raises(Refused, match=r"s3://nowhere.*the bucket does not exist: create it.*NoSuchBucket"):
        renamed[call](_Elsewhere(there))  # type: ignore[arg-type]


class _Elsewhere:
    """The same calls in the bucket `nowhere`."""

    def __init__(self, inner: S3Storage) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            return getattr(self._inner, name)(*(_elsewhere(value) for value in args))

        return call


def _elsewhere(value: Any) -> Any:
    if isinstance(value, list):
        return [_elsewhere(item) for item in value]
    return value.replace("s3://lake", "s3://nowhere") if isinstance(value, str) else value


@pytest.mark.parametrize("call", CALLS)
def test_a_bucket_of_another_account_is_refused(server: Server, call: str) -> None:
    """Whatever the operation: nothing is read from or written to it."""
    with pytest.raises(Refused, match=r"not allowed .*s3\.bucket_owner"):
        CALLS[call](storage(server.url, bucket_owner="9" * 12))


def test_without_credentials_the_words_say_where_they_are_looked_for(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No request is sent."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(Refused, match=r"no usable credentials .*the standard chain"):
        storage(server.url).read("s3://lake/here/x")


@pytest.mark.parametrize(("call", "refused"), [("write", 1), ("stat", 3)])
def test_credentials_that_were_renewed_are_found(server: Server, proxy: Proxy, call: str, refused: int) -> None:
    """A long run outlives its token: the chain is asked once more before anybody is told.

    The answer to a HEAD has no reason. botocore asks for the bucket's region then, and we list, which has one.
    """
    storage(server.url).write("s3://lake/here/x", b"1")
    there = storage(proxy.url)
    proxy.plan(Fault("400 ExpiredToken", 1, refused))
    assert CALLS[call](there) == CALLS[call](storage(server.url))
    assert len(proxy.requests) <= refused + 2


def test_nobody_there_is_unavailable() -> None:
    """Nothing listens: the endpoint is named."""
    there = storage("http://127.0.0.1:9", operation_seconds=0.1)
    with pytest.raises(Unavailable, match=r"s3://lake/here/x: could not read in 0\.1 s \(\d+ attempts\).*EndpointConnectionError.*Run again"):
        there.read("s3://lake/here/x")


def test_no_secret_is_in_errors_or_logs(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key, its id, nor the session's token."""
    secrets = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "AWS_SESSION_TOKEN": "FwoGZXIvYXdz"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG, logger="compactor")
    said = []
    for kind in ("500", "403 InvalidAccessKeyId", "403 AKIAIOSFODNN7EXAMPLE", "reset_before"):
        there = storage(proxy.url, operation_seconds=1.0)
        proxy.plan(Fault(kind, 1, ALWAYS))
        with pytest.raises((Refused, Unavailable)) as found:
            there.read("s3://lake/here/x")
        said.append(str(found.value))
    assert caplog.text
    assert not [value for value in secrets.values() if value in caplog.text + " ".join(said)]


# Asked for with every request


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sse": "sse-s3"}, ("AES256", None)),
        ({"sse": "sse-kms", "kms_key": "alias/x"}, ("aws:kms", "alias/x")),
        ({"sse": "dsse-kms"}, ("aws:kms:dsse", None)),
    ],
)
@pytest.mark.parametrize("size", [10, 3000])
def test_every_object_is_encrypted_as_asked(proxy: Proxy, settings: Any, expected: Any, size: int) -> None:
    """Written, put and copied in one piece or in parts: whatever creates an object says how."""
    here = world(proxy.url, copy_bytes_max=1000, copy_part_bytes=1000, **settings)
    assert here.storage.put_if_absent(here.path("p"), b"")
    assert here.storage.move(here.put("x", b"1" * size), here.path("y"))
    making = [
        headers
        for (method, path), headers in zip(proxy.requests, proxy.headers, strict=True)
        if (method == "PUT" and "partNumber" not in path) or (method == "POST" and path.endswith("?uploads"))
    ]
    assert len(making) >= 4
    names = ("x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id")
    assert {tuple(headers.get(name) for name in names) for headers in making} == {expected}


def test_the_owner_is_sent_with_every_request(proxy: Proxy) -> None:
    """Of the source of a copy too."""
    here = world(proxy.url, bucket_owner=ACCOUNT, copy_bytes_max=1000, copy_part_bytes=1000)
    for size in (10, 3000):
        assert here.storage.move(here.put(f"x{size}", b"1" * size), here.path(f"y{size}"))
    assert here.storage.put_if_absent(here.path("p"), b"")
    here.storage.delete([here.path("p"), here.path("y10"), here.path("y3000")])
    assert here.content() == {}
    assert {headers.get("x-amz-expected-bucket-owner") for headers in proxy.headers} == {ACCOUNT}
    copies = [headers for headers in proxy.headers if "x-amz-copy-source" in headers]
    assert len(copies) >= 4
    assert {headers.get("x-amz-source-expected-bucket-owner") for headers in copies} == {ACCOUNT}


# Odd objects


def test_markers_of_directories_are_no_objects(server: Server) -> None:
    """Consoles and other tools put empty objects where they show a folder."""
    here = world(server.url)
    here.put("d/x", b"1")
    here.put("y_$folder$", b"1")
    # EMRFS names them so
    for name in ("d/", "d/e/", "base_$folder$", "d/e_$folder$"):
        plain(server).put_object(Bucket="lake", Key=key(here, name), Body=b"")
    assert here.content() == {"d/x": b"1", "y_$folder$": b"1"}


@pytest.mark.parametrize("name", ["d//x", "d/../x", "d/./x"])
def test_a_name_that_spark_would_not_find_is_listed_with_the_problem(server: Server, name: str) -> None:
    """Rather than never read, by nobody told. The others are read."""
    here = world(server.url)
    here.put("fine", b"1")
    plain(server).put_object(Bucket="lake", Key=key(here, name), Body=b"1")
    problems = {info.path.removeprefix(f"{here.root}/"): info.problem for info in here.storage.list(here.root)}
    assert problems.pop("fine") == ""
    assert problems == {name: "has a name that Spark cannot open: expected a name without empty, '.' and '..' parts"}


def test_a_move_keeps_what_belongs_to_the_content(server: Server) -> None:
    """Its type, its encoding and its user's metadata, in one piece and in parts; and tells where it came from."""
    for size in (10, 3000):
        here = world(server.url, copy_bytes_max=1000, copy_part_bytes=1000)
        kept = {"ContentType": "application/json", "ContentEncoding": "gzip"}
        plain(server).put_object(Bucket="lake", Key=key(here, "x"), Body=b"1" * size, Metadata={"topic": "t"}, **kept)
        source = here.info("x")
        assert here.storage.move(source, here.path("y"))
        head = plain(server).head_object(Bucket="lake", Key=key(here, "y"))
        assert {name: head[name] for name in kept} == kept
        assert head["Metadata"] == {"topic": "t", SOURCE_ETAG: source.etag}
        assert here.storage.move(source, here.path("y")), "though its etag is another"


def test_a_copy_of_many_parts_is_compared_by_reading(server: Server, proxy: Proxy) -> None:
    """A target of the same size that holds other content is not taken for the copy."""
    here = world(proxy.url, copy_bytes_max=1000, copy_part_bytes=1000)
    source = here.put("x", b"1" * 3000)
    here.put("y", b"1" * 2999 + b"2")
    with pytest.raises(FileExistsError):
        here.storage.move(source, here.path("y"))
    assert sorted(here.content()) == ["x", "y"]


def test_a_copy_that_reads_back_differently_is_removed_and_made_again(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source stays until a copy is right; without one the move is Unavailable."""
    here = world(proxy.url, operation_seconds=0.3)
    source = here.put("x", b"1" * 10)
    wrong = {"times": 1}

    def equal(*_: object) -> bool:
        wrong["times"] -= 1
        return wrong["times"] < 0

    monkeypatch.setattr("compactor.storage.s3.move._equal", equal)
    assert here.storage.move(source, here.path("y"))
    assert here.content() == {"y": b"1" * 10}
    source, wrong["times"] = here.put("x", b"2" * 10), 1_000_000
    with pytest.raises(Unavailable, match="other content when read back; it was removed, the source stays"):
        here.storage.move(source, here.path("z"))
    assert here.content() == {"x": b"2" * 10, "y": b"1" * 10}


def test_a_copy_in_parts_that_fails_leaves_no_upload(server: Server, proxy: Proxy) -> None:
    """Unfinished uploads cost money and are seen by nobody."""
    here = world(proxy.url, copy_bytes_max=1000, copy_part_bytes=1000, operation_seconds=0.05)
    source = here.put("x", b"1" * 3000)
    proxy.plan(Fault("500", 2, ALWAYS, path="partNumber="))
    with pytest.raises(Unavailable):
        here.storage.move(source, here.path("y"))
    uploads = plain(server).list_multipart_uploads(Bucket="lake", Prefix=key(here))
    assert uploads.get("Uploads", []) == []
    assert here.content() == {"x": b"1" * 3000}


def test_the_actions_that_requests_need_are_documented() -> None:
    """docs/aws.md lists them, no more and no fewer."""
    text = (Path(__file__).parents[2] / "docs" / "aws.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(s3:\w+)`", text, re.MULTILINE))
    assert listed == set(re.findall(r"s3:\w+", " ".join(s3_client._ACTIONS.values())))
