"""Error messages for S3 responses that no retry can change. Retryable errors: `aws/retry.py`."""

from __future__ import annotations

import re

from botocore import exceptions as boto

from compactor.aws.retry import access_problem, code_of, words
from compactor.core.model.errors import Refused

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
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}) if isinstance(error, boto.ClientError) else {}
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
    message = str(error.response.get("Error", {}).get("Message", "")) if isinstance(error, boto.ClientError) else ""
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
