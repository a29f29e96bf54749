"""Storage in S3 and what speaks like it. An object appears whole or not at all; a name is taken once, by `If-None-Match: *`.

An answer may be lost after the store acted. So every operation can be repeated, by us and by its caller, and `put_if_absent` marks its
object with a random id: who finds the name taken looks whether it was by an attempt of its own. docs/s3.md tells what remains racy.

A store that ignores the condition is refused: two writers could both create the same Snapshot, and one commit would be lost.
"""

from __future__ import annotations

import email.utils
import errno
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from compactor.aws.retry import ABSENT, PASSING, TAKEN, UNSUPPORTED, ExpectedError, Retryable, kind_of, words
from compactor.core.model import checksum
from compactor.core.model.errors import Refused, TryLater
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import Place, S3Settings, key_problem, place
from compactor.storage.s3.client import S3Client, failed_keys
from compactor.storage.s3.move import move
from compactor.storage.s3.refusals import refusal

PROBE_PREFIX = ".compactor-probe-"
PUT_ID = "compactor-put"
BATCH = 1000
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class S3Storage:
    """Objects under `s3://`; `home` is a location in it, asked for the time. Safe between threads. Refuses a store without conditional puts."""

    def __init__(self, home: str, settings: S3Settings | None = None) -> None:
        self._home = place(home, directory=True)
        self._client = S3Client(settings or S3Settings())
        self._probing = threading.Lock()
        self._conditional: dict[str, bool] = {}

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Every object below `prefix`, page by page, in path order. Raises Refused for a name that no location can have."""
        return self._listed(place(prefix, directory=True))

    def read(self, path: str) -> bytes:
        """The content, whole. Raises FileNotFoundError."""
        where = place(path)

        def attempt() -> bytes:
            body: bytes = self._client.ask("get_object", where, (ABSENT,), Key=where.key)["Body"].read()
            return body

        try:
            return self._client.persist(where, "read", attempt)
        except ExpectedError:
            raise FileNotFoundError(errno.ENOENT, "no such object", path) from None

    def stat(self, path: str) -> FileInfo | None:
        """What is there, or None."""
        where = place(path)
        found = self._client.persist(where, "look", lambda: self._client.look(where))
        return None if found is None else FileInfo(path, found.size, found.etag, found.modified)

    def checksum(self, file: FileInfo) -> str:
        """The etag, where that is a hash of the content: one HEAD, two for an object of many parts. Raises FileNotFoundError."""
        where = place(file.path)

        def attempt() -> str | None:
            found = self._client.look(where)
            if found is None:
                return None
            # with KMS an etag is of nothing that anybody can see
            hashed = found.head.get("ServerSideEncryption", "AES256") == "AES256"
            part = 0
            if hashed and "-" in found.etag:
                first = self._client.ask("head_object", where, Key=where.key, PartNumber=1)
                part = int(first["ContentLength"])
            return checksum.of_etag(found.etag, found.size, hashed, part)

        told = self._client.persist(where, "look", attempt)
        if told is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", file.path)
        return told

    def write(self, path: str, data: bytes) -> None:
        """Create or replace."""
        where = place(path)
        self._client.persist(where, "write", lambda: self._put(where, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create; False when the name is taken by another call, equal content or not. Raises Refused for a store that cannot promise it."""
        where = place(path)
        self.conditional_puts(path)
        mark = uuid.uuid4().hex
        return self._client.persist(where, "create", lambda: self._created(where, data, mark))

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Copy on the store's side, compare, delete the source (unless it is to be kept) if it still is what was copied (`s3_move`)."""
        start, end = place(source.path), place(target)
        return self._client.persist(end, f"move {start} to it", lambda: move(self._client, source, start, end, keep))

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects, a thousand a request; in a versioned bucket the versions stay below delete markers."""
        by_bucket: dict[str, dict[str, None]] = {}
        for where in [place(path) for path in paths]:
            by_bucket.setdefault(where.bucket, {})[where.key] = None
        for bucket, names in by_bucket.items():
            # A request for many is XML, which cannot carry every name.
            single = [key for key in names if _NOT_XML.search(key)] if len(names) > 1 else [*names]
            many = [key for key in names if key not in set(single)]
            for start in range(0, len(many), BATCH):
                self._delete_batch(bucket, many[start : start + BATCH])
            for key in single:
                self._delete_one(Place(bucket, key))

    def now(self) -> float:
        """Epoch seconds by the `Date` of an answer: whole seconds, like Last-Modified."""
        answer = self._client.persist(self._home, "tell the time", lambda: self._page(self._home, MaxKeys=1))
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            return email.utils.parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError) as error:
            raise Refused(f"{self._home}: {self._client.settings.host} tells no time: expected a Date header, found {date!r}") from error

    def conditional_puts(self, location: str) -> None:
        """Check that the store heeds `If-None-Match`: try it once a bucket, beside `location`. Raises Refused for a store that does not.

        A run calls this before it computes anything.
        """
        where = place(location)
        with self._probing:
            if where.bucket not in self._conditional:
                self._conditional[where.bucket] = self._probed(where)
            supported = self._conditional[where.bucket]
        if not supported:
            raise Refused(
                f"{where}: {self._client.settings.host} ignores If-None-Match on PutObject, so two writers could overwrite each other's commit."
                " Use a store with conditional writes (docs/s3.md)."
            )

    def _probed(self, where: Place) -> bool:
        head, slash, _ = where.key.rpartition("/")
        probe = Place(where.bucket, f"{head}{slash}{PROBE_PREFIX}{uuid.uuid4().hex}")

        def attempt() -> bool:
            try:
                self._put(probe, b"", (TAKEN, UNSUPPORTED), IfNoneMatch="*")
            except ExpectedError as answer:
                return answer.kind == TAKEN
            return False

        try:
            # The second must find the name taken; so must the first, if it was an attempt with a lost answer.
            return any(self._client.persist(probe, "try a conditional put", attempt) for _ in range(2))
        finally:
            # What stays of it no listing shows.
            with suppress(TryLater):
                self._delete_one(probe)

    def _created(self, where: Place, data: bytes, mark: str) -> bool:
        try:
            self._put(where, data, (TAKEN,), IfNoneMatch="*", Metadata={PUT_ID: mark})
            return True
        except ExpectedError:
            found = self._client.look(where)
        if found is None:
            raise Retryable("the name was taken by an object that is not there")
        return found.metadata.get(PUT_ID) == mark

    def _put(self, where: Place, data: bytes, expect: Iterable[str] = (), **parameters: Any) -> None:
        self._client.ask("put_object", where, expect, Key=where.key, Body=data, **self._client.encryption(), **parameters)

    def _page(self, directory: Place, **parameters: Any) -> dict[str, Any]:
        prefix = f"{directory.key}/" if directory.key else ""
        return self._client.ask("list_objects_v2", directory, Prefix=prefix, **parameters)

    def _listed(self, directory: Place) -> Iterator[FileInfo]:
        token: str | None = None
        size = self._client.settings.list_page
        while True:

            def attempt(token: str | None = token) -> dict[str, Any]:
                return self._page(directory, MaxKeys=size, ContinuationToken=token)

            answer = self._client.persist(directory, "list", attempt)
            for item in answer.get("Contents", []):
                if _is_data(directory.bucket, item):
                    path = f"s3://{directory.bucket}/{item['Key']}"
                    yield FileInfo(path, int(item["Size"]), item["ETag"].strip('"'), _seconds(item["LastModified"]))
            token = answer.get("NextContinuationToken")
            if not answer.get("IsTruncated") or not token:
                return

    def _delete_one(self, where: Place) -> None:
        with suppress(ExpectedError):
            self._client.persist(where, "delete", lambda: self._client.ask("delete_object", where, (ABSENT,), Key=where.key))

    def _delete_batch(self, bucket: str, keys: Sequence[str]) -> None:
        left = dict.fromkeys(keys)

        def attempt() -> None:
            request = {"Objects": [{"Key": key} for key in left]}
            answer = self._client.ask("delete_objects", Place(bucket, next(iter(left))), (UNSUPPORTED,), Delete=request)
            failed = failed_keys(answer, left)
            for key, error in failed:
                if kind_of(error) != PASSING:
                    raise refusal(error, f"s3://{bucket}/{key}", "delete (s3:DeleteObject)", self._client.settings.host)
            for key in [key for key in left if key not in {key for key, _ in failed}]:
                del left[key]
            if failed:
                raise Retryable(f"{len(failed)} of the objects stayed, such as {failed[0][0]} ({words(failed[0][1])})")

        if not left:
            return
        try:
            self._client.persist(f"s3://{bucket}/{keys[0]}", f"delete it and {len(keys) - 1} more", attempt)
        except ExpectedError:
            for key in keys:
                self._delete_one(Place(bucket, key))


def _is_data(bucket: str, item: dict[str, Any]) -> bool:
    """Whether a listed object is one of ours or a sink's; markers of directories, our own probes are not."""
    key = str(item["Key"])
    if key.endswith("/") and not item["Size"]:
        return False
    problem = key_problem(key)
    if problem:
        raise Refused(f"s3://{bucket}/{key}: {problem}: Spark would not find this object under its name; rename or remove it")
    return not key.rpartition("/")[2].startswith(PROBE_PREFIX)


def _seconds(moment: datetime) -> float:
    return float(int(moment.timestamp()))
