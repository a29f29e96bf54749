"""What of AWS's answers is tried again, for how long, and what the user sees when it does not help: S3 and Glue alike.
docs/s3.md and docs/glue.md say the same in words.

Passing: no answer at all (connection refused, reset, timed out, cut off, damaged), any 5xx but 501, 429, and the codes of `_PASSING`.
Everything an operation does is written so that doing it twice is right; so all of it is tried again until its deadline, then Unavailable.
Final: everything else; each service explains it in its own words (`storage/s3/refusals.py`, `catalog/glue/client.py`).
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

from compactor.core.model.errors import Unavailable

T = TypeVar("T")
log = logging.getLogger(__name__)

ABSENT, TAKEN, CHANGED, UNSUPPORTED, EXPIRED, PASSING, FINAL = "absent", "taken", "changed", "unsupported", "expired", "passing", "final"

_KINDS = {
    ABSENT: {"NoSuchKey", "NoSuchVersion", "404", "NotFound", "EntityNotFoundException"},
    TAKEN: {"PreconditionFailed", "412", "AlreadyExistsException", "ConditionalCheckFailedException"},
    CHANGED: {"ConcurrentModificationException"},
    UNSUPPORTED: {"NotImplemented", "501"},
    EXPIRED: {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"},
}
_PASSING = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
    *("TooManyRequests", "TooManyRequestsException", "BandwidthLimitExceeded", "RequestTimeout", "RequestTimeoutException"),
    *("PriorRequestNotComplete", "OperationAborted", "ConditionalRequestConflict", "409", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"),
    # A multipart copy begins anew with each attempt; somebody aborted this one.
    "NoSuchUpload",
    # Glue; the second is how an item of a batch says it
    *("OperationTimeoutException", "InternalServiceException", "ResourceNotReadyException", "FederationSourceRetryableException"),
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
CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.ConfigParseError,
)
EXPIRED_CODES = _KINDS[EXPIRED]
INVALID_CODES = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure"}
_KEY_IDS = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")
_WORDS_MAX = 300


class Retryable(Exception):
    """What was found contradicts itself (somebody else is at work, or a look was stale): worth another attempt."""


class ExpectedError(Exception):
    """An answer that its caller said it expects; `kind` is one of the kinds above."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def api_name(operation: str) -> str:
    """boto3's name of an operation as its service calls it.

    >>> api_name("put_item")
    'PutItem'
    """
    return "".join(part.capitalize() for part in operation.split("_"))


def code_of(error: Exception) -> str:
    """The service's own code, or the number of the status where an answer has no body, or ''."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def kind_of(error: Exception) -> str:
    """What an error means for the operation that met it."""
    if isinstance(error, (Retryable, *_LOST)):
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
    """What the service or the network said, short and without the ids of keys."""
    if isinstance(error, boto.ClientError):
        said = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
        text = f"{code_of(error)}: {said}" if said else code_of(error)
    else:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, Retryable) else str(error)
    return _KEY_IDS.sub("(key id)", text)[:_WORDS_MAX]


def item_error(code: str, message: str, operation: str) -> Exception:
    """What a batch says of one of its items, as the error that it would have been alone."""
    error: Exception = boto.ClientError({"Error": {"Code": code, "Message": message}}, operation)
    return error


def access_problem(error: Exception, host: str) -> str | None:
    """What is wrong with region or credentials, as a sentence; None when it is something else."""
    if isinstance(error, boto.NoRegionError):
        return "nothing says in which region it is: set AWS_REGION"
    if isinstance(error, CREDENTIALS):
        return f"no usable credentials ({words(error)}): the standard chain (environment, profile, role) must find some"
    if code_of(error) in EXPIRED_CODES:
        return f"the credentials have expired: renew them where the standard chain finds them and run again ({words(error)})"
    if code_of(error) in INVALID_CODES:
        chain = "check which ones the standard chain finds (environment, profile, role)"
        return f"the credentials are not valid at {host}: {chain} ({words(error)})"
    return None


@dataclass(frozen=True)
class RetryPolicy:
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
                raise Unavailable(f"{text}. Run again when the service answers") from last
            log.info("%s: %s: attempt %d failed (%s), again in %.1f s", location, action, tries, words(last), pause)
            self.sleep(pause)
            wait = min(wait * 2, self.wait_max)
