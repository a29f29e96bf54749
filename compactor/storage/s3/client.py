"""One request to S3: the boto3 client, the parameters every request carries, and its answer in this project's words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from compactor.aws.client import ClientConfig, Connection, connect
from compactor.aws.retry import ABSENT, PASSING, UNSUPPORTED, ExpectedError, Retryable, RetryPolicy, api_name, kind_of
from compactor.core.settings.s3 import Place, S3Settings
from compactor.storage.s3.refusals import refusal

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
"""What an answer holds that did not end too early: a connection may be cut among the headers, and nobody else looks."""
_SSE = {"sse-s3": "AES256", "sse-kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}


@dataclass(frozen=True)
class ObjectHead:
    """What HEAD told of an object; `etag` without quotes, `modified` epoch seconds, `head` the answer itself."""

    size: int
    etag: str
    modified: float
    head: dict[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """The user's metadata, names in lower case."""
        return {name.lower(): value for name, value in self.head.get("Metadata", {}).items()}


class S3Client:
    """Requests under one S3Settings. Made for many threads; the connection is made on first use."""

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings.within(os.environ)
        self._patience = RetryPolicy(settings.operation_seconds, settings.wait_seconds_min, settings.wait_seconds_max)
        self._connection = Connection(self._connect)
        self._buckets: set[str] = set()
        self._lacking: set[tuple[str, str]] = set()

    def persist(self, location: object, action: str, attempt: Callable[[], T]) -> T:
        """`attempt` until it succeeds, fails for good or the operation's time is over (`retry.Patience`)."""
        return self._patience.persist(str(location), action, attempt)

    def ask(self, operation: str, where: Place, expect: Iterable[str] = (), **parameters: Any) -> dict[str, Any]:
        """One request, sent once by us. Raises Answer for the kinds expected, Refused for what is final; what passes comes as it is.

        `parameters` with the value None are left out.
        """
        sent = {"Bucket": where.bucket, **self._common(operation), **{name: value for name, value in parameters.items() if value is not None}}
        try:
            answer = self._connection.send(operation, sent)
        except (ClientError, BotoCoreError) as error:
            kind = kind_of(error)
            if kind == PASSING:
                raise
            if kind in expect:
                raise ExpectedError(kind) from error
            if operation == "head_object" and isinstance(error, ClientError):
                self._explain(where)
            raise refusal(error, str(where), _ACTIONS[operation], self.settings.host) from error
        missing = [name for name in _WHOLE.get(operation, ()) if name not in answer]
        if missing:
            raise Retryable(f"the answer ended before {missing[0]}")
        self._buckets.add(where.bucket)
        return answer

    def ask_if_able(self, operation: str, where: Place, expect: Iterable[str], conditions: dict[str, str], **parameters: Any) -> dict[str, Any]:
        """`ask` with the `conditions` that this boto3 and this store know; without those that they do not."""
        known = self._connection.client.meta.service_model.operation_model(api_name(operation)).input_shape.members
        usable = {name: value for name, value in conditions.items() if name in known and (where.bucket, operation) not in self._lacking}
        try:
            return self.ask(operation, where, (*expect, UNSUPPORTED), **usable, **parameters)
        except ExpectedError as answer:
            if answer.kind != UNSUPPORTED or not usable:
                raise
        self._lacking.add((where.bucket, operation))
        return self.ask(operation, where, expect, **parameters)

    def look(self, where: Place) -> ObjectHead | None:
        """What HEAD shows, or None. Raises Refused when the bucket itself is missing."""
        try:
            # FULL_OBJECT checksums come along where the store keeps some.
            head = self.ask("head_object", where, (ABSENT,), Key=where.key, ChecksumMode="ENABLED")
        except ExpectedError:
            if where.bucket not in self._buckets:
                self._explain(where)
            return None
        return ObjectHead(int(head["ContentLength"]), head["ETag"].strip('"'), float(int(head["LastModified"].timestamp())), head)

    def encryption(self) -> dict[str, Any]:
        """What a request that makes an object says about its encryption."""
        sse, key = self.settings.sse, self.settings.kms_key
        return {**({"ServerSideEncryption": _SSE[sse]} if sse else {}), **({"SSEKMSKeyId": key} if key else {})}

    def _common(self, operation: str) -> dict[str, Any]:
        settings = self.settings
        owner = {"ExpectedBucketOwner": settings.bucket_owner} if settings.bucket_owner else {}
        if owner and operation in ("copy_object", "upload_part_copy"):
            owner["ExpectedSourceBucketOwner"] = settings.bucket_owner
        return {**owner, **({"RequestPayer": "requester"} if settings.requester_pays else {})}

    def _explain(self, where: Place) -> None:
        """An answer to HEAD has no body and so no reason; that of a listing has. Raises it when there is one."""
        self.ask("list_objects_v2", where, Prefix=where.key, MaxKeys=1)

    def _connect(self) -> Any:
        settings = self.settings
        reach = ClientConfig(
            settings.region, settings.endpoint, settings.connect_seconds, settings.read_seconds, client_attempts=settings.client_attempts
        )
        try:
            client = connect("s3", reach, settings.region, s3={"addressing_style": "path" if settings.path_style else "auto"})
        except (BotoCoreError, ValueError) as error:
            raise refusal(error, "s3://", "begin", settings.host) from error
        if "IfNoneMatch" not in client.meta.service_model.operation_model("PutObject").input_shape.members:
            _teach_conditional_put(client)
        return client


def _teach_conditional_put(client: Any) -> None:
    """For a boto3 that is older than S3's conditional puts (1.35; EMR 7 brings such): all they need is one more header, sent and signed."""

    def keep(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context[__name__] = params.pop("IfNoneMatch", None)

    def send(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        if context.get(__name__) is not None:
            params["headers"]["If-None-Match"] = context[__name__]

    client.meta.events.register("provide-client-params.s3.PutObject", keep)
    client.meta.events.register("before-call.s3.PutObject", send)


def failed_keys(answer: dict[str, Any], keys: Iterable[str]) -> list[tuple[str, Exception]]:
    """Those of `keys` that a batch delete left, each with its reason. What was not there is deleted."""
    errors = {item.get("Key"): ClientError({"Error": item}, "DeleteObjects") for item in answer.get("Errors", [])}
    gone = {item.get("Key") for item in answer.get("Deleted", [])} | {key for key, error in errors.items() if kind_of(error) == ABSENT}
    return [(key, errors.get(key, Retryable("the answer does not name it"))) for key in keys if key not in gone]
