"""What of S3's answers is tried again, for how long, and what the user sees when it does not help. docs/s3.md says the same in words.

Passing: no answer at all (connection refused, reset, timed out, cut off, damaged), any 5xx but 501, 429, and the codes of `_PASSING`.
Everything an operation does is written so that doing it twice is right; so all of it is tried again until its deadline, then Unavailable.
Final: everything else; it is explained in the words of `_FINAL` and raised as Refused.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from compactor.core.errors import Refused, Unavailable

T = TypeVar("T")
log = logging.getLogger(__name__)

ABSENT, TAKEN, UNSUPPORTED, EXPIRED, PASSING, FINAL = "absent", "taken", "unsupported", "expired", "passing", "final"

_KINDS = {
    ABSENT: {"NoSuchKey", "NoSuchVersion", "404", "NotFound"},
    TAKEN: {"PreconditionFailed", "412"},
    UNSUPPORTED: {"NotImplemented", "501"},
    EXPIRED: {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"},
}
_PASSING = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
    *(
        "TooManyRequests",
        "TooManyRequestsException",
        "BandwidthLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "PriorRequestNotComplete",
    ),
    *("PriorRequestNotComplete", "OperationAborted", "ConditionalRequestConflict", "409", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"),
    # A multipart copy begins anew with each attempt; somebody aborted this one.
    "NoSuchUpload",
}
_LOST = (
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.IncompleteReadError,
    boto.ChecksumError,
    boto.FlexibleChecksumError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
    ResponseParserError,
)
_FINAL = (
    ({"NoSuchBucket"}, "the bucket does not exist: create it, or correct the location (and the endpoint: {host})"),
    (
        {"AccessDenied", "403", "Forbidden", "AllAccessDisabled", "AccountProblem", "MethodNotAllowed"},
        "not allowed to {action}: grant this identity what docs/s3.md lists, the key of an encrypted bucket included. Also check that the bucket"
        " belongs to the account of s3.bucket_owner, and s3.requester_pays",
    ),
    (
        {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"},
        "the credentials have expired: renew them where the standard chain finds them and run again",
    ),
    (
        {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure"},
        "the credentials are not valid at {host}: check which ones the standard chain finds (environment, profile, role)",
    ),
    (
        {"PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "IncorrectEndpoint"},
        "the bucket is in another region{region}: set AWS_REGION (or s3.region) to the bucket's region, or use the right endpoint (now: {host})",
    ),
    ({"RequestTimeTooSkewed"}, "this machine's clock and the store's differ too much: set this machine's clock"),
    ({"InvalidObjectState"}, "the object was moved to an archive class: restore it first"),
    ({"NotImplemented", "501"}, "{host} cannot {action}: this store lacks what is needed, see docs/s3.md"),
)
_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.ConfigParseError,
)
_KEY_IDS = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")
_WORDS_MAX = 300


class Passing(Exception):
    """What was found contradicts itself (somebody else is at work, or a look was stale): worth another attempt."""


class Answer(Exception):
    """An answer that its caller said it expects; `kind` is one of the kinds above."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def code_of(error: Exception) -> str:
    """S3's own code, or the number of the status where an answer has no body, or ''."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def kind_of(error: Exception) -> str:
    """What an error means for the operation that met it."""
    if isinstance(error, (Passing, *_LOST)):
        return PASSING
    if not isinstance(error, boto.ClientError):
        return FINAL
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    known = next((kind for kind, codes in _KINDS.items() if code in codes), None)
    if known:
        return known
    return PASSING if code in _PASSING or status == 429 or (status >= 500 and status != 501) else FINAL


def words(error: Exception) -> str:
    """What the store or the network said, short and without the ids of keys."""
    if isinstance(error, boto.ClientError):
        said = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
        text = f"{code_of(error)}: {said}" if said else code_of(error)
    else:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, Passing) else str(error)
    return _KEY_IDS.sub("(key id)", text)[:_WORDS_MAX]


def refusal(error: Exception, location: str, action: str, host: str) -> Refused:
    """An answer that trying again does not change, in words that say what to do."""
    if isinstance(error, _CREDENTIALS):
        return Refused(f"{location}: no usable credentials ({words(error)}): the standard chain (environment, profile, role) must find some")
    code = code_of(error)
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}) if isinstance(error, boto.ClientError) else {}
    region = headers.get("x-amz-bucket-region", "")
    for codes, text in _FINAL:
        if code in codes:
            filled = text.format(action=action, host=host, region=f" ({region})" if region else "")
            return Refused(f"{location}: {filled} ({words(error)})")
    return Refused(f"{location}: {host} refused to {action} ({words(error)})")


@dataclass(frozen=True)
class Patience:
    """How long one operation is tried: until `seconds` have passed, with random waits that double from `wait_min` to `wait_max` seconds.

    No attempt begins after the deadline; one that began before it may last as long as the client's own timeouts and attempts allow.
    """

    seconds: float
    wait_min: float
    wait_max: float
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def persist(self, location: str, action: str, attempt: Callable[[], T]) -> T:
        """The first result of `attempt`; what passes is tried again, everything else is the caller's. Raises Unavailable at the deadline."""
        began, wait, tries = self.monotonic(), self.wait_min, 0
        while True:
            tries += 1
            try:
                return attempt()
            except Exception as error:
                if kind_of(error) != PASSING:
                    raise
                last = error
            pause = random.uniform(wait / 2, wait)  # noqa: S311 - spreading retries, no secret
            if self.monotonic() - began + pause >= self.seconds:
                text = f"{location}: could not {action} in {self.seconds:g} s ({tries} attempts), at last {words(last)}"
                raise Unavailable(f"{text}. Run again when the store answers") from last
            log.info("%s: %s: attempt %d failed (%s), again in %.1f s", location, action, tries, words(last), pause)
            self.sleep(pause)
            wait = min(wait * 2, self.wait_max)
