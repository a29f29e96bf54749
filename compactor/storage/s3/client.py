"""Requests to S3: creates the boto3 client, adds the parameters of every request, and classifies the response. And the texts of errors that no
retry can change; for the others see `aws/retry.py`."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from compactor.aws.client import Connection, connect, region
from compactor.aws.retry import ABSENT, UNSUPPORTED, ExpectedError, Retryable, RetryPolicy, access_problem, api_name, code_of, kind_of, words
from compactor.core.model.errors import Refused
from compactor.core.model.layout import Layout
from compactor.core.settings.s3 import Place, S3Settings

_DENIED = {"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "AccountProblem", "MethodNotAllowed"}
_FINAL = (
    ({"NoSuchBucket"}, "the bucket does not exist: create it, or correct the location (and the endpoint: {host})"),
    (
        _DENIED,
        "not allowed to {action}: grant this identity what docs/aws.md lists, the key of an encrypted bucket included. Also check that the bucket"
        " belongs to the account of s3.bucket_owner",
    ),
    (
        {"PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "IncorrectEndpoint"},
        "the bucket is in another region{region}: set AWS_REGION (or `region`) to the bucket's region, or use the right endpoint (now: {host})",
    ),
    ({"RequestTimeTooSkewed"}, "this machine's clock and the store's differ too much: set this machine's clock"),
    ({"InvalidObjectState"}, "the object was moved to an archive class: restore it first"),
    ({"NotImplemented", "501"}, "{host} cannot {action}: this store does not support what docs/aws.md requires"),
)

_KMS_RIGHTS = {"read": "kms:Decrypt", "look": "kms:Decrypt", "write": "kms:GenerateDataKey", "copy": "kms:Decrypt and kms:GenerateDataKey"}
"""First word of an action → what it needs on the key of an encrypted object."""


def refusal(error: Exception, location: str, action: str, host: str, key: str = "") -> Refused:
    """Return the exception for a final error, with what to do about it. `key`: the KMS key of a new object there, "" for the bucket's default."""
    problem = access_problem(error, host) or _key_problem(error, action, key)
    if problem:
        return Refused(f"{location}: {problem}")
    code = code_of(error)
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}) if isinstance(error, ClientError) else {}
    region = headers.get("x-amz-bucket-region", "")
    for codes, text in _FINAL:
        if code in codes:
            filled = text.format(action=action, host=host, region=f" ({region})" if region else "")
            rights = _KMS_RIGHTS.get(action.partition(" ")[0])
            if codes is _DENIED and key and rights:
                filled += f". The object's KMS key {key} needs {rights}, granted in the identity's policy and in the key's"
            return Refused(f"{location}: {filled} ({words(error)})")
    return Refused(f"{location}: {host} refused to {action} ({words(error)})")


def _key_problem(error: Exception, action: str, key: str) -> str | None:
    """Describe an error of a KMS key. Return None for any other error."""
    code, text = code_of(error), words(error)
    # not in `text`, which may end before the key: the name of a session can be long
    message = str(error.response.get("Error", {}).get("Message", "")) if isinstance(error, ClientError) else ""
    named, right = re.search(r"arn:[\w-]+:kms:[\w:/-]+", message), re.search(r"kms:[A-Z]\w+", message)
    key = named[0] if named else key or "of the bucket"
    if code.startswith("KMS."):
        return f"the KMS key {key} cannot be used to {action}: enable it, or correct the setting ({text})"
    if code not in _DENIED or right is None:
        return None
    return (
        f"not allowed to {action} with the KMS key {key}: this identity lacks {right[0]} on the key. Grant it in the identity's policy and in the"
        f" key's, or run this as an identity that may use the key ({text})"
    )


T = TypeVar("T")

_ACTIONS = {
    "list_objects_v2": "list (s3:ListBucket)",
    "get_object": "read (s3:GetObject)",
    "head_object": "look at the object (s3:GetObject, s3:ListBucket)",
    "put_object": "write (s3:PutObject)",
    "copy_object": "copy (s3:GetObject, s3:PutObject)",
    "create_multipart_upload": "copy (s3:PutObject)",
    "upload_part_copy": "copy (s3:GetObject, s3:PutObject)",
    "complete_multipart_upload": "copy (s3:PutObject)",
    "abort_multipart_upload": "give up a copy (s3:AbortMultipartUpload)",
    "delete_object": "delete (s3:DeleteObject)",
    "delete_objects": "delete (s3:DeleteObject)",
}
_WHOLE = {
    "get_object": ("ContentLength", "ETag"),
    "head_object": ("ContentLength", "ETag", "LastModified"),
    "list_objects_v2": ("IsTruncated",),
    "create_multipart_upload": ("UploadId",),
    "upload_part_copy": ("CopyPartResult",),
}
"""Fields of a complete response. A connection may end within the headers, and botocore does not check."""
_PUT_CONDITIONS = {"IfNoneMatch": "If-None-Match", "IfMatch": "If-Match"}
"""Conditions of a put: boto3's parameter → header."""
_SSE = {"sse-s3": "AES256", "sse-kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}


@dataclass(frozen=True)
class ObjectHead:
    """Response of HEAD for an object."""

    size: int
    """Bytes."""
    etag: str
    """ETag without quotes."""
    modified: float
    """Last-Modified in epoch seconds."""
    response: dict[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.response.get("Metadata", {}).items()}


class S3Client:
    """Requests with one S3Settings. Thread-safe; connects on first use. `archive_keys`: root of a table → KMS key of its raw files."""

    def __init__(self, settings: S3Settings, archive_keys: Mapping[str, str] = MappingProxyType({})) -> None:
        self.settings = dataclasses.replace(settings.within(os.environ), region=region(settings.region))
        self._archive_keys = archive_keys
        self._retry_policy = RetryPolicy(settings.operation_seconds, settings.wait_seconds_min, settings.wait_seconds_max)
        self._connection = Connection(self._connect)
        self._buckets: set[str] = set()
        self._lacking: set[tuple[str, str]] = set()

    def retry(self, location: object, action: str, attempt: Callable[[], T]) -> T:
        """Call `attempt` until it succeeds, fails finally, or reaches the deadline (`RetryPolicy.retry`)."""
        return self._retry_policy.retry(str(location), action, attempt)

    def request(self, operation: str, where: Place, expect: Iterable[str] = (), **parameters: Any) -> dict[str, Any]:
        explained = []

        def refused(error: Exception) -> Refused:
            if operation == "head_object" and isinstance(error, ClientError):
                self._explain(where)
                explained.append(code_of(error))
            return refusal(error, str(where), _ACTIONS[operation], self.settings.host, self.key(where))

        owner = self.settings.bucket_owner or None
        both = {"ExpectedSourceBucketOwner": owner} if operation in ("copy_object", "upload_part_copy") else {}
        sent = {"Bucket": where.bucket, "ExpectedBucketOwner": owner, **both, **parameters}
        try:
            answer = self._connection.request(operation, sent, expect, refused)
        except Refused:
            if explained != ["400"]:
                raise
            # the credentials had expired, and the listing, whose answer says so, has loaded new ones
            answer = self._connection.request(operation, sent, expect, refused)
        missing = [name for name in _WHOLE.get(operation, ()) if name not in answer]
        if missing:
            raise Retryable(f"the response ended before {missing[0]}")
        self._buckets.add(where.bucket)
        return answer

    def request_with(self, operation: str, where: Place, expect: Iterable[str], conditions: dict[str, str], **parameters: Any) -> dict[str, Any]:
        """Call `request` with those `conditions` that this boto3 and this store support."""
        members = self._connection.client.meta.service_model.operation_model(api_name(operation)).input_shape.members
        supported = {*members, *(_PUT_CONDITIONS if operation == "put_object" else ())}
        usable = {name: value for name, value in conditions.items() if name in supported and (where.bucket, operation) not in self._lacking}
        try:
            return self.request(operation, where, (*expect, UNSUPPORTED), **usable, **parameters)
        except ExpectedError as answer:
            if answer.kind != UNSUPPORTED or not usable:
                raise
        self._lacking.add((where.bucket, operation))
        return self.request(operation, where, expect, **parameters)

    def head(self, where: Place, checksums: bool = False) -> ObjectHead | None:
        """Return the object's HEAD, or None if there is no object. Raises Refused if the bucket is missing.

        `checksums`: with the checksums that the store has. Of an encrypted object only those who may use its key get them.
        """
        try:
            head = self.request("head_object", where, (ABSENT,), Key=where.key, ChecksumMode="ENABLED" if checksums else None)
        except ExpectedError:
            if where.bucket not in self._buckets:
                self._explain(where)
            return None
        return ObjectHead(int(head["ContentLength"]), head["ETag"].strip('"'), float(int(head["LastModified"].timestamp())), head)

    def key(self, where: Place) -> str:
        """Return the KMS key of a new object in this place: of a raw file its table's `archive_kms_key`; "" for the bucket's default."""
        return self._archive_key(where) or self.settings.kms_key

    def encryption(self, where: Place) -> dict[str, Any]:
        """Return the encryption parameters of a request that creates an object in this place."""
        sse, key = self.settings.sse, self.key(where)
        if not self._archive_key(where):
            return {**({"ServerSideEncryption": _SSE[sse]} if sse else {}), **({"SSEKMSKeyId": key} if key else {})}
        if sse == "dsse-kms":
            # S3 has no bucket keys for it
            return {"ServerSideEncryption": _SSE[sse], "SSEKMSKeyId": key}
        return {"ServerSideEncryption": _SSE["sse-kms"], "SSEKMSKeyId": key, "BucketKeyEnabled": True}

    def encrypted(self, head: ObjectHead, where: Place) -> bool:
        """Return whether a raw file has the key of its place. Any other object counts as encrypted: nobody asks for a certain key there."""
        expected = self.encryption(where) if self._archive_key(where) else {}
        return all(head.response.get(name) == expected[name] for name in ("ServerSideEncryption", "SSEKMSKeyId") if name in expected)

    def _archive_key(self, where: Place) -> str:
        location = str(where)
        # the prefix first: a configuration may have hundreds of tables
        return next((key for root, key in self._archive_keys.items() if location.startswith(root) and Layout(root, "").raw_file(location)), "")

    def _explain(self, where: Place) -> None:
        """Raise the reason for a failed HEAD. Its response has no body, so repeat the request as a listing."""
        self.request("list_objects_v2", where, Prefix=where.key, MaxKeys=1)

    def _connect(self) -> Any:
        settings = self.settings
        try:
            client = connect("s3", settings, settings.region, s3={"addressing_style": "path" if settings.path_style else "auto"})
        except (BotoCoreError, ValueError) as error:
            raise refusal(error, "s3://", "begin", settings.host) from error
        members = client.meta.service_model.operation_model("PutObject").input_shape.members
        for name, header in _PUT_CONDITIONS.items():
            if name not in members:
                _teach_conditional_put(client, name, header)
        return client


def _teach_conditional_put(client: Any, name: str, header: str) -> None:
    """Add a condition to a boto3 without conditional puts (before 1.35, as on EMR 7). The header is signed like any other."""

    def keep(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context[header] = params.pop(name, None)

    def send(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        if context.get(header) is not None:
            params["headers"][header] = context[header]

    client.meta.events.register("provide-client-params.s3.PutObject", keep)
    client.meta.events.register("before-call.s3.PutObject", send)


def failed_keys(answer: dict[str, Any], keys: Iterable[str]) -> list[tuple[str, Exception]]:
    """Return (key, error) for each of `keys` that a batch delete did not delete. A missing object counts as deleted."""
    errors = {item.get("Key"): ClientError({"Error": item}, "DeleteObjects") for item in answer.get("Errors", [])}
    gone = {item.get("Key") for item in answer.get("Deleted", [])} | {key for key, error in errors.items() if kind_of(error) == ABSENT}
    return [(key, errors.get(key, Retryable("the response does not name it"))) for key in keys if key not in gone]
