"""Retry policy for AWS calls: which errors are retried, for how long, and how they are reported. docs/aws.md describes it.

Retryable: no response (connection refused, reset, timed out, cut off, damaged), any 5xx except 501, 429, and the codes of `_PASSING`.
All operations are idempotent, so they are repeated until their deadline; then they raise Unavailable.
Final: every other error. Each service has its own texts (`storage/s3/client.py`, `catalog/glue/catalog.py`, `runners/emr.py`).
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

ABSENT, TAKEN, UNSUPPORTED, EXPIRED, UNKNOWN, PASSING, FINAL = "absent", "taken", "unsupported", "expired", "unknown", "passing", "final"

_KINDS = {
    ABSENT: {"NoSuchKey", "NoSuchVersion", "404", "NotFound", "EntityNotFoundException"},
    TAKEN: {"PreconditionFailed", "412", "AlreadyExistsException", "ConditionalCheckFailedException"},
    UNSUPPORTED: {"NotImplemented", "501"},
    EXPIRED: {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"},
    # EMR Serverless, EMR: no such job
    UNKNOWN: {"ResourceNotFoundException", "InvalidRequestException"},
}
_PASSING = {
    *("InternalError", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded"),
    *("TooManyRequests", "TooManyRequestsException", "BandwidthLimitExceeded", "RequestTimeout", "RequestTimeoutException"),
    *("PriorRequestNotComplete", "OperationAborted", "ConditionalRequestConflict", "409", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"),
    # Another process aborted this multipart copy, or a part was sent twice and has another etag under its KMS key. Each attempt starts a new one.
    *("NoSuchUpload", "InvalidPart"),
    # Glue; InternalServiceException is the code of a single item of a batch. A table changed meanwhile: each attempt reads it again.
    *("OperationTimeoutException", "InternalServiceException", "ResourceNotReadyException", "FederationSourceRetryableException"),
    "ConcurrentModificationException",
    # EMR Serverless: the application is in another state at the moment
    "ConflictException",
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
    """The state contradicts itself, because another process changed it or a read was stale. Try again."""


class ExpectedError(Exception):
    """An error response that the caller listed as expected. `kind` is one of the constants above."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def api_name(operation: str) -> str:
    """Return the service's name for an operation of boto3.

    >>> api_name("put_item")
    'PutItem'
    """
    return "".join(part.capitalize() for part in operation.split("_"))


def code_of(error: Exception) -> str:
    """Return the service's error code, the HTTP status where the response has no body, or ''."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def kind_of(error: Exception) -> str:
    """Return the kind of an error: one of the constants above."""
    if isinstance(error, (Retryable, *_LOST)):
        return PASSING
    if not isinstance(error, boto.ClientError):
        return FINAL
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    named = next((kind for kind, codes in _KINDS.items() if code in codes), None)
    if named:
        return named
    return PASSING if code in _PASSING or status == 429 or (status >= 500 and status != 501) else FINAL


def words(error: Exception) -> str:
    """Return the error's code and message, shortened and without access key ids."""
    if isinstance(error, boto.ClientError):
        message = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())
        text = f"{code_of(error)}: {message}" if message else code_of(error)
    else:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, Retryable) else str(error)
    return _KEY_IDS.sub("(key id)", text)[:_WORDS_MAX]


def item_error(code: str, message: str, operation: str) -> Exception:
    """Return the error of one item in a batch response as the exception of a single request."""
    error: Exception = boto.ClientError({"Error": {"Code": code, "Message": message}}, operation)
    return error


def access_problem(error: Exception, host: str) -> str | None:
    """Describe an error of region or credentials. Return None for any other error."""
    if isinstance(error, boto.NoRegionError):
        return "no region is set: set AWS_REGION"
    if isinstance(error, CREDENTIALS):
        return f"no usable credentials ({words(error)}): provide them through the standard chain (environment, profile, role)"
    if code_of(error) in EXPIRED_CODES:
        return f"the credentials have expired: renew them where the standard chain finds them and run again ({words(error)})"
    if code_of(error) in INVALID_CODES:
        chain = "check which ones the standard chain finds (environment, profile, role)"
        return f"the credentials are not valid at {host}: {chain} ({words(error)})"
    return None


@dataclass(frozen=True)
class RetryPolicy:
    """Repeat an operation until a deadline, with random waits that double from attempt to attempt.

    No attempt starts after the deadline. An attempt that started before it may last as long as the client's own timeouts allow.
    """

    seconds: float
    """Deadline for the operation, from the start of its first attempt."""
    wait_min: float
    """Longest wait before the second attempt, in seconds."""
    wait_max: float
    """Upper bound for the wait between two attempts, in seconds."""
    monotonic: Callable[[], float] = time.monotonic
    """Clock; tests replace it."""
    sleep: Callable[[float], None] = time.sleep
    """Wait; tests replace it."""

    def retry(self, location: str, action: str, attempt: Callable[[], T]) -> T:
        """Return the first result of `attempt`. Retryable errors are retried, others raised. Raises Unavailable at the deadline."""
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
                text = f"{location}: could not {action} in {self.seconds:g} s ({tries} attempts); the last error was {words(last)}"
                raise Unavailable(f"{text}. Run again when the service answers.") from last
            log.info("%s: could not %s: attempt %d failed (%s), retrying in %.1f s", location, action, tries, words(last), pause)
            self.sleep(pause)
            wait = min(wait * 2, self.wait_max)
