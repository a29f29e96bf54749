"""Move within S3, which has no move operation: copy on the server side, compare, delete the original.

One attempt looks at source and target and does the remaining steps. The next attempt sees what changed meanwhile. A copy has the etag of its
original as metadata, because the copy of a multipart or encrypted object has another etag. An object that is encrypted again is copied onto itself.
"""

from __future__ import annotations

import errno
import hashlib
from contextlib import suppress
from typing import Any

from compactor.aws.retry import ABSENT, TAKEN, ExpectedError, Retryable
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import Place
from compactor.storage.s3.client import ObjectHead, S3Client

SOURCE_ETAG = "compactor-source-etag"
PARTS_MAX = 10_000
BLOCK_BYTES = 1 << 20
_KEPT = ("ContentType", "ContentEncoding", "ContentLanguage", "ContentDisposition", "CacheControl")
_STRONG = ("ChecksumSHA256", "ChecksumSHA1", "ChecksumCRC64NVME")
"""Checksums of the store that make reading the objects unnecessary."""


def move(client: S3Client, source: FileInfo, start: Place, end: Place, keep: bool = False) -> bool:
    """Attempt `ports.Storage.move` once. Raises Retryable if source or target changed at the same time."""
    # In this order: a concurrent move fills the target before it removes the source.
    here, there = client.head(start, checksums=True), client.head(end, checksums=True)
    if here is None:
        if there is None:
            _confirm_missing(client, start, end)
            raise FileNotFoundError(errno.ENOENT, f"neither here nor at {end}", source.path)
        if not _made_by_move(there, source):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}, which is gone", str(end))
        return True
    if start == end:
        return here.etag == source.etag
    if here.etag != source.etag:
        return there is not None and _made_by_move(there, source)
    copied = there is None
    if there is None:
        there = _copy(client, here, start, end)
    if not _equal(client, here, start, there, end):
        if not copied:
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}", str(end))
        _remove(client, end, there.etag)
        raise Retryable("the copy had other content when read back; it was removed, the source stays")
    if not keep:
        _remove(client, start, source.etag)
    return True


def encrypt(client: S3Client, where: Place) -> bool:
    """Attempt `ports.Storage.encrypt` once. Raises Retryable if the object changed at the same time."""
    here = client.head(where)
    if here is None or client.encrypted(here, where):
        return False
    _copy(client, here, where, where)
    return True


def _made_by_move(there: ObjectHead, source: FileInfo) -> bool:
    """Whether a move of `source` made this object."""
    return there.size == source.size and source.etag in (there.etag, there.metadata.get(SOURCE_ETAG))


def _confirm_missing(client: S3Client, *both: Place) -> None:
    """Raise Retryable if an object exists after all. Some stores cache that a name was free: GET may find what HEAD did not."""
    for where in both:
        with suppress(ExpectedError):
            client.request("get_object", where, (ABSENT,), Key=where.key)["Body"].close()
            raise Retryable("an object was not there and then was")


def _copy(client: S3Client, here: ObjectHead, start: Place, end: Place) -> ObjectHead:
    """Copy the source and return the HEAD of the copy. Raises Retryable if either side changed.

    Onto itself: it stays in its storage class, and the copy of what was moved here before.
    """
    itself = start == end
    made = {
        **{name: here.response[name] for name in (*_KEPT, *(("StorageClass",) if itself else ())) if name in here.response},
        "Metadata": {SOURCE_ETAG: here.etag, **here.metadata} if itself else {**here.metadata, SOURCE_ETAG: here.etag},
        **client.encryption(end),
    }
    condition = {"IfMatch": here.etag} if itself else {"IfNoneMatch": "*"}
    origin = {"CopySource": {"Bucket": start.bucket, "Key": start.key}, "CopySourceIfMatch": here.etag}
    try:
        if here.size > client.settings.copy_bytes_max:
            _copy_parts(client, here.size, origin, made, end, condition)
        else:
            # Tags stay behind: copying them takes two more permissions.
            plan = {"MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE"}
            client.request_with("copy_object", end, (ABSENT, TAKEN), condition, Key=end.key, **origin, **plan, **made)
    except ExpectedError as answer:
        raise Retryable("the source changed, or the target appeared, just before the copy") from answer
    there = client.head(end, checksums=True)
    if there is None:
        raise Retryable("the copy is not there yet")
    return there


def _copy_parts(client: S3Client, size: int, origin: dict[str, Any], made: dict[str, Any], end: Place, condition: dict[str, str]) -> None:
    """Copy an object in parts; abort the upload if it fails. `condition`: of its completion."""
    step = max(client.settings.copy_part_bytes, -(-size // PARTS_MAX))
    upload = client.request("create_multipart_upload", end, Key=end.key, **made)["UploadId"]
    name = {"Key": end.key, "UploadId": upload}
    try:
        parts = []
        for number, begin in enumerate(range(0, size, step), 1):
            span = f"bytes={begin}-{min(begin + step, size) - 1}"
            copied = client.request("upload_part_copy", end, (ABSENT, TAKEN), **name, PartNumber=number, CopySourceRange=span, **origin)
            if "ETag" not in copied["CopyPartResult"]:
                raise Retryable("the response ended too early")
            parts.append({"ETag": copied["CopyPartResult"]["ETag"], "PartNumber": number})
        client.request_with("complete_multipart_upload", end, (ABSENT, TAKEN), condition, **name, MultipartUpload={"Parts": parts})
    except BaseException:
        # If aborting fails, the bucket's rule for incomplete uploads removes the parts. The original error matters more.
        with suppress(Exception):
            client.request("abort_multipart_upload", end, **name)
        raise


def _equal(client: S3Client, here: ObjectHead, start: Place, there: ObjectHead, end: Place) -> bool:
    """Whether two objects have the same content: by size and etag, otherwise by a strong checksum of both, otherwise by reading them."""
    if here.size != there.size or here.etag == there.etag:
        return here.size == there.size
    for name in _STRONG:
        if name in here.response and name in there.response and _of_whole(here) and _of_whole(there):
            return bool(here.response[name] == there.response[name])
    return _digest(client, start, here.etag) == _digest(client, end, there.etag)


def _of_whole(head: ObjectHead) -> bool:
    """Whether the checksum covers the content itself and not the checksums of its parts."""
    return bool(head.response.get("ChecksumType", "COMPOSITE" if "-" in head.etag else "FULL_OBJECT") == "FULL_OBJECT")


def _digest(client: S3Client, where: Place, etag: str) -> bytes:
    try:
        body = client.request("get_object", where, (ABSENT, TAKEN), Key=where.key, IfMatch=etag)["Body"]
    except ExpectedError as answer:
        raise Retryable("an object changed while it was compared") from answer
    digest = hashlib.sha256()
    for block in body.iter_chunks(BLOCK_BYTES):
        digest.update(block)
    return digest.digest()


def _remove(client: S3Client, where: Place, etag: str) -> None:
    """Delete an object if it still has this etag. Checked just before, and by the store itself where it supports the condition."""
    head = client.head(where)
    if head is None or head.etag != etag:
        return
    with suppress(ExpectedError):
        client.request_with("delete_object", where, (ABSENT, TAKEN), {"IfMatch": etag}, Key=where.key)
