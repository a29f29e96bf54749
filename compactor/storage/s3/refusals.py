"""Error messages for S3 responses that no retry can change. Retryable errors: `aws/retry.py`."""

from __future__ import annotations

from botocore import exceptions as boto

from compactor.aws.retry import access_problem, code_of, words
from compactor.core.model.errors import Refused

_FINAL = (
    ({"NoSuchBucket"}, "the bucket does not exist: create it, or correct the location (and the endpoint: {host})"),
    (
        {"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "AccountProblem", "MethodNotAllowed"},
        "not allowed to {action}: grant this identity what docs/s3.md lists, the key of an encrypted bucket included. Also check that the bucket"
        " belongs to the account of s3.bucket_owner, and s3.requester_pays",
    ),
    (
        {"PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "IncorrectEndpoint"},
        "the bucket is in another region{region}: set AWS_REGION (or s3.region) to the bucket's region, or use the right endpoint (now: {host})",
    ),
    ({"RequestTimeTooSkewed"}, "this machine's clock and the store's differ too much: set this machine's clock"),
    ({"InvalidObjectState"}, "the object was moved to an archive class: restore it first"),
    ({"NotImplemented", "501"}, "{host} cannot {action}: this store does not support what docs/s3.md requires"),
)


def refusal(error: Exception, location: str, action: str, host: str) -> Refused:
    """Return the exception for a final error, with what to do about it."""
    problem = access_problem(error, host)
    if problem:
        return Refused(f"{location}: {problem}")
    code = code_of(error)
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}) if isinstance(error, boto.ClientError) else {}
    region = headers.get("x-amz-bucket-region", "")
    for codes, text in _FINAL:
        if code in codes:
            filled = text.format(action=action, host=host, region=f" ({region})" if region else "")
            return Refused(f"{location}: {filled} ({words(error)})")
    return Refused(f"{location}: {host} refused to {action} ({words(error)})")
