"""Storage in S3 and compatible stores. An object appears whole or not at all. `If-None-Match: *` ensures that a name is taken only once.

A response may be lost after the store acted, so every operation can be repeated. `put_if_absent` marks its object with a random id. If the
name is taken, the id shows whether an earlier attempt of the same call took it. docs/aws.md lists the remaining races.

A store that ignores the condition is refused: two writers could both create the same Snapshot, and one commit would be lost.
"""

from __future__ import annotations

import email.utils
import errno
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any

from compactor.aws.retry import ABSENT, PASSING, TAKEN, UNSUPPORTED, ExpectedError, Retryable, kind_of, words
from compactor.core.formats import checksum
from compactor.core.model.errors import Refused, TryLater
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import Place, S3Settings, key_problem, place
from compactor.storage.s3.client import S3Client, failed_keys, refusal
from compactor.storage.s3.move import encrypt, move

PROBE_PREFIX = ".compactor-probe-"
PUT_ID = "compactor-put"
BATCH = 1000
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class S3Storage:
    """Objects under `s3://`. Thread-safe. Refuses a store without conditional puts.

    `home`: a location whose store provides the time; `archive_keys`: root of a table → KMS key of its raw files in archive and quarantine.
    """

    def __init__(self, home: str, settings: S3Settings | None = None, archive_keys: Mapping[str, str] = MappingProxyType({})) -> None:
        self._home = place(home, directory=True)
        self._client = S3Client(settings or S3Settings(), archive_keys)
        self._probing = threading.Lock()
        self._conditional: dict[str, bool] = {}

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Return every object below `prefix`, page by page, in path order."""
        return self._listed(place(prefix, directory=True))

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the names of the prefixes directly below `prefix`, a thousand in a request."""
        directory = place(prefix, directory=True)
        start = len(f"{directory.key}/") if directory.key else 0
        pages = self._pages(directory, Delimiter="/")
        return sorted(item["Prefix"][start:-1] for page in pages for item in page.get("CommonPrefixes", []))

    def read(self, path: str) -> bytes:
        return self._read(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._read(path, f"bytes={start}-{start + length - 1}") if length > 0 else b""

    def _read(self, path: str, part: str | None = None) -> bytes:
        where = place(path)

        def attempt() -> bytes:
            body: bytes = self._client.request("get_object", where, (ABSENT,), Key=where.key, Range=part)["Body"].read()
            return body

        try:
            return self._client.retry(where, "read", attempt)
        except ExpectedError:
            raise FileNotFoundError(errno.ENOENT, "no such object", path) from None

    def stat(self, path: str) -> FileInfo | None:
        where = place(path)
        head = self._client.retry(where, "look", lambda: self._client.head(where))
        return None if head is None else FileInfo(path, head.size, head.etag, head.modified)

    def checksum(self, file: FileInfo) -> str:
        """Return a checksum made of the etag, where that is a hash of the content. Raises FileNotFoundError.

        Costs one HEAD, two for a multipart object.
        """
        where = place(file.path)

        def attempt() -> str | None:
            head = self._client.head(where)
            if head is None:
                return None
            # with KMS the etag is no hash of the content
            hashed = head.response.get("ServerSideEncryption", "AES256") == "AES256"
            part = 0
            if hashed and "-" in head.etag:
                first = self._client.request("head_object", where, Key=where.key, PartNumber=1)
                part = int(first["ContentLength"])
            return checksum.of_etag(head.etag, head.size, hashed, part)

        result = self._client.retry(where, "look", attempt)
        if result is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", file.path)
        return result

    def write(self, path: str, data: bytes) -> None:
        where = place(path)
        self._client.retry(where, "write", lambda: self._put(where, data))

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """Replace the object if its etag is the same: checked just before, and by the store itself where it supports the condition."""
        where, mark = place(file.path), uuid.uuid4().hex
        return self._client.retry(where, "replace", lambda: self._replaced(where, file, data, mark))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object. Return False if another call took the name, whatever the content. Raises Refused without conditional puts."""
        where = place(path)
        self.conditional_puts(path)
        mark = uuid.uuid4().hex
        return self._client.retry(where, "create", lambda: self._created(where, data, mark))

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Copy on the server side, compare, and delete the source if it is unchanged and `keep` is off (`move.py`)."""
        start, end = place(source.path), place(target)
        return self._client.retry(end, f"move {start} to it", lambda: move(self._client, source, start, end, keep))

    def encrypt(self, path: str) -> bool:
        """Copy a raw file onto itself if it has another key than its table's. Return whether it was copied."""
        where = place(path)
        return self._client.retry(where, "encrypt", lambda: encrypt(self._client, where))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, a thousand a request. In a versioned bucket the versions stay below delete markers."""
        by_bucket: dict[str, dict[str, None]] = {}
        for where in [place(path) for path in paths]:
            by_bucket.setdefault(where.bucket, {})[where.key] = None
        for bucket, names in by_bucket.items():
            # A batch request is XML, which cannot represent every key.
            single = [key for key in names if _NOT_XML.search(key)] if len(names) > 1 else [*names]
            many = [key for key in names if key not in set(single)]
            for start in range(0, len(many), BATCH):
                self._delete_batch(bucket, many[start : start + BATCH])
            for key in single:
                self._delete_one(Place(bucket, key))

    def now(self) -> float:
        """Return epoch seconds from a response's `Date` header: whole seconds, like Last-Modified."""
        answer = self._client.retry(self._home, "read the time", lambda: self._page(self._home, MaxKeys=1))
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            return email.utils.parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError) as error:
            raise Refused(f"{self._home}: {self._client.settings.host} returned no time: expected a Date header, found {date!r}") from error

    def conditional_puts(self, location: str) -> None:
        """Check once a bucket, beside `location`, that the store honours `If-None-Match`. Raises Refused if it does not.

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
                " Use a store with conditional writes (docs/aws.md)."
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
            # The second attempt must find the name taken. So may the first, if an earlier response was lost.
            return any(self._client.retry(probe, "try a conditional put", attempt) for _ in range(2))
        finally:
            # If deleting fails, the probe stays, but no listing shows it.
            with suppress(TryLater):
                self._delete_one(probe)

    def _created(self, where: Place, data: bytes, mark: str) -> bool:
        try:
            self._put(where, data, (TAKEN,), IfNoneMatch="*", Metadata={PUT_ID: mark})
            return True
        except ExpectedError:
            head = self._client.head(where)
        if head is None:
            raise Retryable("the name was taken by an object that is not there")
        return head.metadata.get(PUT_ID) == mark

    def _replaced(self, where: Place, file: FileInfo, data: bytes, mark: str) -> bool:
        head = self._client.head(where)
        if head is None or head.etag != file.etag:
            # an earlier attempt of this call may have replaced it
            return head is not None and head.metadata.get(PUT_ID) == mark
        sent = {"Key": where.key, "Body": data, "Metadata": {PUT_ID: mark}, **self._client.encryption(where)}
        try:
            self._client.request_with("put_object", where, (ABSENT, TAKEN), {"IfMatch": file.etag}, **sent)
        except ExpectedError as answer:
            raise Retryable("the object changed just before it was replaced") from answer
        return True

    def _put(self, where: Place, data: bytes, expect: Iterable[str] = (), **parameters: Any) -> None:
        self._client.request("put_object", where, expect, Key=where.key, Body=data, **self._client.encryption(where), **parameters)

    def _page(self, directory: Place, **parameters: Any) -> dict[str, Any]:
        prefix = f"{directory.key}/" if directory.key else ""
        return self._client.request("list_objects_v2", directory, Prefix=prefix, **parameters)

    def _listed(self, directory: Place) -> Iterator[FileInfo]:
        for page in self._pages(directory):
            for item in page.get("Contents", []):
                if _is_data(item):
                    path = f"s3://{directory.bucket}/{item['Key']}"
                    problem = f"has a name that Spark cannot open: {problem}" if (problem := key_problem(item["Key"])) else ""
                    yield FileInfo(path, int(item["Size"]), item["ETag"].strip('"'), _seconds(item["LastModified"]), problem)

    def _pages(self, directory: Place, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield the answers of a listing, page by page."""
        token: str | None = None
        size = self._client.settings.list_page
        while True:

            def attempt(token: str | None = token) -> dict[str, Any]:
                return self._page(directory, MaxKeys=size, ContinuationToken=token, **parameters)

            answer = self._client.retry(directory, "list", attempt)
            yield answer
            token = answer.get("NextContinuationToken")
            if not answer.get("IsTruncated") or not token:
                return

    def _delete_one(self, where: Place) -> None:
        with suppress(ExpectedError):
            self._client.retry(where, "delete", lambda: self._client.request("delete_object", where, (ABSENT,), Key=where.key))

    def _delete_batch(self, bucket: str, keys: Sequence[str]) -> None:
        left = dict.fromkeys(keys)

        def attempt() -> None:
            request = {"Objects": [{"Key": key} for key in left]}
            answer = self._client.request("delete_objects", Place(bucket, next(iter(left))), (UNSUPPORTED,), Delete=request)
            failed = failed_keys(answer, left)
            for key, error in failed:
                if kind_of(error) != PASSING:
                    raise refusal(error, f"s3://{bucket}/{key}", "delete (s3:DeleteObject)", self._client.settings.host)
            for key in [key for key in left if key not in {key for key, _ in failed}]:
                del left[key]
            if failed:
                raise Retryable(f"{len(failed)} of the objects were not deleted, such as {failed[0][0]} ({words(failed[0][1])})")

        if not left:
            return
        try:
            self._client.retry(f"s3://{bucket}/{keys[0]}", f"delete it and {len(keys) - 1} more", attempt)
        except ExpectedError:
            for key in keys:
                self._delete_one(Place(bucket, key))


def _is_data(item: dict[str, Any]) -> bool:
    """Whether a listed object is data. Directory markers (`x/`, EMRFS's `x_$folder$`) and our own probes are not."""
    key = str(item["Key"])
    return not (key.endswith(("/", "_$folder$")) and not item["Size"]) and not key.rpartition("/")[2].startswith(PROBE_PREFIX)


def _seconds(moment: datetime) -> float:
    return float(int(moment.timestamp()))
