"""Separate environment errors from errors in the data.

No file may go to quarantine because the machine, the network or the store failed. What fails in a task reaches the driver as text, so errors are
recognised by the names of Java classes and by the suffix that AWS's SDKs append to their messages, `(Service: Amazon S3; Status Code: 503; ...)`.
Covered: hadoop-aws 3.3 and 3.4 with AWS SDK 1 and 2, EMR's connector (the SDK's, shaded), Hadoop's file systems.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from compactor.core.model.errors import CompactorError, EngineEnded, InconsistentRead, Refused, Stopped, Unavailable
from compactor.core.model.spec import TableSpec
from compactor.spark.gateway import OUT_OF_MEMORY, jvm_end

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
_Rule = tuple[re.Pattern[str], type[CompactorError], str]
_RULES: tuple[_Rule, ...] = (
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
    (re.compile(r"ExpiredToken"), Unavailable, "Spark's credentials for the store have expired ({}). Run again with new ones"),
    (
        re.compile(r"InvalidToken|NoAuthWithAWSException|CredentialInitializationException|Unable to load (?:AWS )?credentials"),
        Refused,
        "Spark has no usable credentials for the store ({}): the standard chain (environment, profile, role) must find some",
    ),
    (
        re.compile(r"(kms:[A-Z]\w+) on resource: (arn:[\w:/-]+)"),
        Refused,
        "Spark was not allowed to ({}): this identity lacks {} on the KMS key {}. Grant it in the identity's policy and in the key's",
    ),
    (
        # S3A reports each 403 as a denied access
        re.compile(r"(InvalidObjectState)"),
        Refused,
        "an object is in an archive class, which nobody reads ({}; {}): restore it first; nothing was committed",
    ),
    (
        re.compile(r"bucket is null/empty"),
        Refused,
        "Spark's S3 client takes the bucket's name for no host name ({}): use a bucket without `_`, with a letter after the last dot",
    ),
    (
        re.compile(rf"AccessDeniedException|AccessControlException|\(Permission denied\)|{_SERVICE}40[13]"),
        Refused,
        "Spark was not allowed to ({}): grant it (docs/aws.md lists the permissions for S3)",
    ),
    (
        # before the store: an executor that is gone refuses connections, too
        re.compile(r"ExecutorLostFailure|FetchFailedException|TaskResultLost"),
        Unavailable,
        "Spark lost an executor ({}). Run again; if it happens again, give the executors more memory",
    ),
    (re.compile(rf"{_SERVICE}(?:5\d\d|429)|\b(?:{'|'.join(_AWAY)})\b"), Unavailable, "the store did not answer Spark ({}). Run again when it does"),
    (re.compile(r"SparkContext (?:was|has been) (?:shut down|stopped)|stopped SparkContext|LiveListenerBus is stopped"), EngineEnded, "{}"),
    (re.compile(r"\bJob \d+ (?:was )?cancelled\b"), Stopped, "somebody cancelled a job of Spark ({}); nothing was committed. Run again"),
)
_DAMAGED: _Rule = (
    re.compile(
        r"is not a Parquet file|[Cc]ould not read footer|ParquetDecodingException|can not read class org\.apache\.parquet|java\.io\.EOFException"
    ),
    InconsistentRead,
    "Spark read a stored file that is cut short or damaged ({}). Run again; if it happens again, `compactor verify --deep` names the file",
)

_CLASS = re.compile(r"[\w.$]+(?:Exception|Error|Failure)\b")
_FILE = re.compile(r"\b(?:s3a?|hdfs|file):/\S+?\.parquet\b")

_JAVA_CLASSES = re.compile(r"^(?:\[[A-Z_.]+\] |(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:: |$))+")
"""The class of Spark's error, or of Java's, before its message."""
_ADVICE = re.compile(r" If necessary set .*", re.DOTALL)
"""Settings of Spark that Spark recommends. They would make such a value null, and nobody would notice."""


def environment_error(error: BaseException, stored: bool = False) -> CompactorError | None:
    """Return the error to raise if the environment caused `error`, or None if the data may have caused it.

    `stored`: Spark read only files that compactor has written, so that a damaged Parquet file is an InconsistentRead.
    """
    if isinstance(error, CompactorError):
        return None
    try:
        text = _text(error)
    except (Py4JError, ConnectionError) as gone:
        return _ended(str(gone))
    for pattern, kind, words in (*_RULES, _DAMAGED) if stored else _RULES:
        match = pattern.search(text)
        if match is not None:
            # the innermost error around the match: Spark puts a task's error and its own into one line. The one around that of a key has the file.
            begins = [name.start() for name in _CLASS.finditer(text, text.rfind("\n", 0, match.start()) + 1, match.end())]
            line, place = _line(text[begins[-2 if match.groups() else -1 :][0] if begins else match.start() :]), _FILE.search(text)
            # after an OutOfMemoryError in a task, a JVM that is driver and executor ends in a moment
            if kind is EngineEnded or ("OutOfMemoryError" in match[0] and jvm_end()):
                return _ended(line)
            return kind(words.format(f"{line} in {place[0]}" if stored and place and place[0] not in line else line, *match.groups()))
    return None


def _ended(text: str) -> EngineEnded:
    end = jvm_end()
    if end == OUT_OF_MEMORY:
        advice = "raise COMPACTOR_DRIVER_MEMORY. A record, or what a small compressed file unpacks to, may be larger than memory"
    else:
        advice = "most likely the machine has too little memory: use a larger one, or lower --parallel or COMPACTOR_DRIVER_MEMORY"
    return EngineEnded(f"Spark's JVM has ended ({end or _line(text)}). Run again; if it happens again, {advice}")


def raise_environment_error(error: BaseException) -> None:
    """Raise the error again if the environment caused it. Call this before a file is blamed for an error."""
    if environment_error(error) is not None:
        raise error


def translated(cls: C) -> C:
    """Decorate a class: its public methods raise `environment_error` of an error instead of the error itself, where there is one."""
    for name, method in vars(cls).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, translating(method))
    return cls


def translating(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function: it raises `environment_error` of an error instead of the error itself, where there is one."""

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception as error:
            # damaged landed files were found when the batch was read
            translation = environment_error(error, stored=True)
            if translation is not None:
                raise translation from error
            specs = [getattr(each, "spec", each) for each in (*arguments, *options.values())]
            silent = any(isinstance(spec, TableSpec) and not spec.quotes_records for spec in specs)
            if silent and isinstance(error, (PySparkException, Py4JError)):
                raise RuntimeError(kind(error)) from None
            raise

    return call


def plain_reason(error: BaseException) -> str:
    """Return the reason without the names of classes, for people who look for a mistake in their file and not in Spark."""
    text = reason(error)
    name = re.sub(r"(Exception|Error)$", "", text.rstrip(": ").rpartition(".")[2])
    plain = _ADVICE.sub("", _JAVA_CLASSES.sub("", text)) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return "a number or a time is beyond the range of its type" if plain == "long overflow" else plain


def reason(error: BaseException) -> str:
    """Return the first line of a Java or Python error's innermost cause, without the stack trace."""
    cause = _innermost(getattr(error, "java_exception", None))
    text = str(cause.toString() if cause is not None else error)
    return text.splitlines()[0][:400] if text else type(error).__name__


def kind(error: BaseException) -> str:
    """Return the class of an error's innermost cause and Spark's name of it: all that reports say where they may not quote records."""
    cause = _innermost(getattr(error, "java_exception", None) or getattr(error, "_origin", None))
    name = cause.getClass().getName() if cause is not None else type(error).__name__
    condition = re.search(r"\[[A-Z][A-Z_.]+\]", str(error))
    return f"{name}{f' {condition[0]}' if condition else ''}; its message is not shown, because it may quote values of the table"


def _innermost(cause: Any) -> Any:
    """Return the innermost cause of a Java error; None for none."""
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return cause


def _text(error: BaseException) -> str:
    """Return the message of a Java error with its causes. Raises Py4JError or ConnectionError if the JVM has ended."""
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
