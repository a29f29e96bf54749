"""Move within S3, which has none: copy on the store's side, compare, delete the original.

One attempt looks at both sides and does what is left to do; whatever changed meanwhile, or was ours already, shows at the next look. A copy
carries the etag of its original as metadata, because the copy of an object of many parts, or encrypted, has another etag.
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
"""Of the checksums that the store keeps, those that are believed without reading the objects."""


def move(client: S3Client, source: FileInfo, start: Place, end: Place, keep: bool = False) -> bool:
    """One attempt at `ports.Storage.move`. Raises Passing when source or target changed hands under us."""
    # In this order: a mover beside us fills the target before it removes the source.
    here, there = client.look(start), client.look(end)
    if here is None:
        if there is None:
            _confirm_missing(client, start, end)
            raise FileNotFoundError(errno.ENOENT, f"neither here nor at {end}", source.path)
        if not _holds(there, source):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}, which is gone", str(end))
        return True
    if start == end:
        return here.etag == source.etag
    if here.etag != source.etag:
        return there is not None and _holds(there, source)
    copied = there is None
    if there is None:
        there = _copy(client, here, start, end)
    if not _equal(client, here, start, there, end):
        if not copied:
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}", str(end))
        _remove(client, end, there.etag)
        raise Retryable("the copy read back differently; it was removed, the source stays")
    if not keep:
        _remove(client, start, source.etag)
    return True


def _holds(there: ObjectHead, source: FileInfo) -> bool:
    """Whether a move of `source` made this."""
    return there.size == source.size and source.etag in (there.etag, there.metadata.get(SOURCE_ETAG))


def _confirm_missing(client: S3Client, *both: Place) -> None:
    """Some stores remember for a while that a name was free: what HEAD did not find, GET may."""
    for where in both:
        with suppress(ExpectedError):
            client.ask("get_object", where, (ABSENT,), Key=where.key)["Body"].close()
            raise Retryable("an object was not there and then was")


def _copy(client: S3Client, here: ObjectHead, start: Place, end: Place) -> ObjectHead:
    made = {
        **{name: here.head[name] for name in _KEPT if name in here.head},
        "Metadata": {**here.metadata, SOURCE_ETAG: here.etag},
        **client.encryption(),
    }
    origin = {"CopySource": {"Bucket": start.bucket, "Key": start.key}, "CopySourceIfMatch": here.etag}
    try:
        if here.size > client.settings.copy_bytes_max:
            _copy_parts(client, here.size, origin, made, end)
        else:
            # Tags stay behind: copying them takes two more permissions.
            plan = {"MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE"}
            client.ask_if_able("copy_object", end, (ABSENT, TAKEN), {"IfNoneMatch": "*"}, Key=end.key, **origin, **plan, **made)
    except ExpectedError as answer:
        raise Retryable("the source changed, or the target appeared, just before the copy") from answer
    there = client.look(end)
    if there is None:
        raise Retryable("the copy is not there yet")
    return there


def _copy_parts(client: S3Client, size: int, origin: dict[str, Any], made: dict[str, Any], end: Place) -> None:
    step = max(client.settings.copy_part_bytes, -(-size // PARTS_MAX))
    upload = client.ask("create_multipart_upload", end, Key=end.key, **made)["UploadId"]
    name = {"Key": end.key, "UploadId": upload}
    try:
        parts = []
        for number, begin in enumerate(range(0, size, step), 1):
            span = f"bytes={begin}-{min(begin + step, size) - 1}"
            copied = client.ask("upload_part_copy", end, (ABSENT, TAKEN), **name, PartNumber=number, CopySourceRange=span, **origin)
            if "ETag" not in copied["CopyPartResult"]:
                raise Retryable("the answer ended too early")
            parts.append({"ETag": copied["CopyPartResult"]["ETag"], "PartNumber": number})
        wanted = {"Parts": parts}
        client.ask_if_able("complete_multipart_upload", end, (ABSENT, TAKEN), {"IfNoneMatch": "*"}, **name, MultipartUpload=wanted)
    except BaseException:
        # What cannot be given up now goes by the bucket's rule for incomplete uploads; the error is the one that brought us here.
        with suppress(Exception):
            client.ask("abort_multipart_upload", end, **name)
        raise


def _equal(client: S3Client, here: ObjectHead, start: Place, there: ObjectHead, end: Place) -> bool:
    """Whether two objects have one content: by size and etag, else by a strong checksum of both, else by reading them."""
    if here.size != there.size or here.etag == there.etag:
        return here.size == there.size
    for name in _STRONG:
        if name in here.head and name in there.head and _of_whole(here) and _of_whole(there):
            return bool(here.head[name] == there.head[name])
    return _digest(client, start, here.etag) == _digest(client, end, there.etag)


def _of_whole(found: ObjectHead) -> bool:
    """Whether its checksum is that of the content, not that of the parts' checksums."""
    return bool(found.head.get("ChecksumType", "COMPOSITE" if "-" in found.etag else "FULL_OBJECT") == "FULL_OBJECT")


def _digest(client: S3Client, where: Place, etag: str) -> bytes:
    try:
        body = client.ask("get_object", where, (ABSENT, TAKEN), Key=where.key, IfMatch=etag)["Body"]
    except ExpectedError as answer:
        raise Retryable("an object changed while it was compared") from answer
    digest = hashlib.sha256()
    for block in body.iter_chunks(BLOCK_BYTES):
        digest.update(block)
    return digest.digest()


def _remove(client: S3Client, where: Place, etag: str) -> None:
    """Delete an object if it still is the one of `etag`: looked at just before, and by the store itself where it knows how."""
    found = client.look(where)
    if found is None or found.etag != etag:
        return
    with suppress(ExpectedError):
        client.ask_if_able("delete_object", where, (ABSENT, TAKEN), {"IfMatch": etag}, Key=where.key)
