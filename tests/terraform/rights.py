"""The rights that the module gives, and which of them a list of recorded calls needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.terraform.module import MODULE, locals_of

S3_RIGHTS = {
    "AbortMultipartUpload": {"s3:AbortMultipartUpload"},
    "CompleteMultipartUpload": {"s3:PutObject"},
    "CopyObject": {"s3:GetObject", "s3:PutObject"},
    "CreateMultipartUpload": {"s3:PutObject"},
    "DeleteObject": {"s3:DeleteObject"},
    "DeleteObjects": {"s3:DeleteObject"},
    "GetObject": {"s3:GetObject"},
    "HeadBucket": {"s3:ListBucket"},
    "HeadObject": {"s3:GetObject"},
    "ListMultipartUploads": {"s3:ListBucketMultipartUploads"},
    "ListObjects": {"s3:ListBucket"},
    "ListObjectsV2": {"s3:ListBucket"},
    "PutObject": {"s3:PutObject"},
    "UploadPart": {"s3:PutObject"},
    "UploadPartCopy": {"s3:GetObject", "s3:PutObject"},
}
"""S3 operation → IAM actions, for objects without version ids, tags and ACLs. Other services name their actions like their operations."""

KMS_RIGHTS = {
    "PutObject": {"kms:GenerateDataKey"},
    "CopyObject": {"kms:GenerateDataKey", "kms:Decrypt"},
    "CreateMultipartUpload": {"kms:GenerateDataKey", "kms:Decrypt"},
}
"""S3 operation that names a KMS key → IAM actions on that key. A copy reads its source, and parts are decrypted when an upload is completed."""

WHOLE_OBJECTS = {"PutObject": "true", "CopyObject": "true", "CompleteMultipartUpload": "true"}
"""S3 operation → the condition key `s3:ObjectCreationOperation`; it is false for parts and beginnings of uploads."""

CONDITIONS: dict[str, Callable[[str | None, str], bool]] = {
    "Null": lambda value, wanted: (value is None) == (wanted == "true"),
    "Bool": lambda value, wanted: value == wanted,
}
"""IAM's operators, for one value each: what a request says under a key, what the policy says."""

SERVICES = {"emr": "elasticmapreduce"}
"""botocore's name of a service → IAM's, where they differ."""


def given(role: str) -> dict[str, list[str]]:
    """purpose → actions, of `job` or `caller`, as iam.tf lists them."""
    lists: dict[str, list[str]] = locals_of(MODULE)[f"{role}_actions"]
    return {purpose: list(actions) for purpose, actions in lists.items() if not purpose.startswith("__")}


def actions(role: str) -> set[str]:
    """All actions of a role."""
    return {action for each in given(role).values() for action in each}


def needed(calls: Iterable[tuple[str, str]], keyed: Iterable[str] = ()) -> set[str]:
    """The actions that calls need; a call is botocore's service and operation: ("s3", "PutObject"). `keyed`: S3 operations that name a KMS key.

    Raises KeyError for an S3 operation that the table above does not know: say there what it needs.
    """
    return {
        action
        for service, operation in calls
        for action in (S3_RIGHTS[operation] if service == "s3" else {f"{SERVICES.get(service, service)}:{operation}"})
    } | {action for operation in keyed for action in KMS_RIGHTS[operation]}


def denies(statement: Mapping[str, Any], operation: str, resource: str, headers: Mapping[str, str]) -> bool:
    """Whether a Deny of a bucket policy, with an ARN in which nothing is left to compute, forbids a request.

    Raises KeyError for an operator or a condition key that nobody has written down here.
    """
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    said = {
        "s3:if-match": headers.get("If-Match"),
        "s3:if-none-match": headers.get("If-None-Match"),
        "s3:ObjectCreationOperation": WHOLE_OBJECTS.get(operation, "false"),
    }
    # all keys of all operators must hold
    fits = all(CONDITIONS[operator](said[key], wanted) for operator, keys in statement["Condition"].items() for key, wanted in keys.items())
    return fits and statement["Action"] in S3_RIGHTS[operation] and fnmatchcase(resource, statement["Resource"])
