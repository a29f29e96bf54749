"""Whose fault an error of Spark's is. No file may be blamed, and put into quarantine, for what the machine, the network or the store did.

Told by the names of Java's classes and by what AWS's SDKs write behind their messages, `(Service: Amazon S3; Status Code: 503; ...)`, for what
fails in a task reaches the driver as text. Classes: hadoop-aws 3.3 and 3.4 with AWS SDK 1 and 2, EMR's connector (the SDK's, shaded), Hadoop's
file systems.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from compactor.core.model.errors import CompactorError, InconsistentRead, Refused, Unavailable

C = TypeVar("C", bound=type)

_SERVICE = r"\(Service: [^;,)]*[;,] Status Code: "
_AWAY = (
    *("AWSClientIOException", "AWSNoResponseException", "AWSServiceThrottledException", "AWSStatus500Exception", "SdkClientException"),
    *("ApiCallTimeoutException", "ApiCallAttemptTimeoutException", "AbortedException", "NoHttpResponseException", "ConnectionClosedException"),
    *("ConnectTimeoutException", "ConnectionPoolTimeoutException", "HttpHostConnectException", "SocketTimeoutException", "SocketException"),
    *("ConnectException", "NoRouteToHostException", "UnknownHostException", "SSLException", "SSLHandshakeException", "InterruptedIOException"),
    # an answer that was cut off among its headers
    "NoVersionAttributeException",
)
_RULES: tuple[tuple[re.Pattern[str], type[CompactorError], str], ...] = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        Refused,
        "no space left on a disk that Spark writes to ({}): free some, or set spark.local.dir; nothing was committed",
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError"),
        Refused,
        "Spark has too little memory ({}): raise COMPACTOR_DRIVER_MEMORY, on a cluster the executors'; nothing was committed",
    ),
    (
        re.compile(r"ExpiredToken|InvalidToken|NoAuthWithAWSException|CredentialInitializationException|Unable to load (?:AWS )?credentials"),
        Refused,
        "Spark has no usable credentials for the store ({}): the standard chain (environment, profile, role) must find some",
    ),
    (
        re.compile(rf"AccessDeniedException|AccessControlException|\(Permission denied\)|{_SERVICE}40[13]"),
        Refused,
        "Spark was not allowed to ({}): grant it; docs/s3.md lists the permissions",
    ),
    (
        re.compile(rf"{_SERVICE}(?:5\d\d|429)|\b(?:{'|'.join(_AWAY)})\b"),
        Unavailable,
        "the store did not answer Spark ({}). Run again when it does",
    ),
    (
        re.compile(r"ExecutorLostFailure|SparkContext (?:was|has been) (?:shut down|stopped)|stopped SparkContext"),
        Unavailable,
        "Spark lost what it worked with ({}). Run again; if it happens again, give it more memory",
    ),
)


_STORED: tuple[tuple[re.Pattern[str], type[CompactorError], str], ...] = (
    (
        re.compile(
            r"is not a Parquet file|[Cc]ould not read footer|ParquetDecodingException|can not read class org\.apache\.parquet|java\.io\.EOFException"
        ),
        InconsistentRead,
        "a stored file came to Spark cut short or damaged ({}). Run again; if it stays so, `compactor verify --deep` tells which one it is",
    ),
)


_CLASS = re.compile(r"[\w.$]+(?:Exception|Error|Failure)\b")
_FILE = re.compile(r"\b(?:s3a?|hdfs|file):/\S+?\.parquet\b")


def known(error: BaseException, stored: bool = False) -> CompactorError | None:
    """What an error tells that no data can be blamed for, in our words; None for every other. `stored`: only files of ours were read."""
    if isinstance(error, CompactorError):
        return None
    try:
        text = _text(error)
    except (Py4JError, ConnectionError) as gone:
        return Unavailable(f"Spark's JVM has ended ({_line(str(gone))}): was it killed, for the machine's memory? Run again")
    for pattern, kind, words in (*_RULES, *(_STORED if stored else ())):
        match = pattern.search(text)
        if match is not None:
            # the innermost error that the match is of: Spark tells a task's in one line with its own
            begins = [found.start() for found in _CLASS.finditer(text, text.rfind("\n", 0, match.start()) + 1, match.end())]
            line, place = _line(text[begins[-1] if begins else match.start() :]), _FILE.search(text)
            return kind(words.format(f"{line} in {place[0]}" if stored and place and place[0] not in line else line))
    return None


def spare_the_data(error: BaseException) -> None:
    """Raise an error again that no data can be blamed for; who reads files one by one asks before each blame."""
    if known(error) is not None:
        raise error


def told(cls: C) -> C:
    """A class whose public methods raise what `known` says of an error, where it says something."""
    for name, method in vars(cls).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _answering(method))
    return cls


def _answering(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def answer(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception as error:
            # what is wrong with landed files was found when they were read
            said = known(error, stored=True)
            if said is None:
                raise
            raise said from error

    return answer


def _text(error: BaseException) -> str:
    """All that Java said, causes included. Raises Py4JError or ConnectionError when there is no Java any more."""
    if isinstance(error, Py4JJavaError):
        return str(error)
    if isinstance(error, PySparkException):
        return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
    if isinstance(error, (Py4JError, ConnectionError)):
        raise error
    return ""


def _line(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line.strip().removeprefix(": ").removeprefix("Caused by: ")[:400]
