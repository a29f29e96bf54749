"""Whose fault an error of Spark's is: texts as Java wrote them, and whole stacks as they reach the driver."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import IllegalArgumentException

from compactor.core.model.errors import CompactorError, EngineEnded, InconsistentRead, InputRefused, Refused, Stopped, Unavailable
from compactor.spark import failures, gateway

STAGE = (
    "An error occurred while calling o74.parquet.\n: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 "
    "times, most recent failure: Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor driver): org.apache.spark.SparkException: Encountered error "
    "while reading file s3://lake/x.json.\n\tat org.apache.spark.X(X.scala:1)\nCaused by: {}\n\t... 1 more\n\nDriver stacktrace:\n\tat y"
)

TEXTS = [
    (
        "java.nio.file.AccessDeniedException: s3://lake/w/x: getFileStatus on s3://lake/w/x: AmazonS3Exception: Forbidden (Service: Amazon S3; "
        "Status Code: 403; Error Code: 403 Forbidden; Request ID: null):403 Forbidden",
        Refused,
        "Spark was not allowed to (java.nio.file.AccessDeniedException: s3://lake/w/x",
    ),
    (
        "java.nio.file.AccessDeniedException: s3://lake/w/t/archive/increment_2026112014/b.json: open s3://lake/w/t/archive/increment_2026112014/b.json "
        "at 0 on s3://lake/w/t/archive/increment_2026112014/b.json: com.amazonaws.services.s3.model.AmazonS3Exception: User: "
        "arn:aws:sts::123456789012:assumed-role/analysts/some-session is not authorized to perform: kms:Decrypt on resource: "
        "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab because no identity-based policy allows it (Service: Amazon S3; Status Code: 403)",
        Refused,
        "Spark was not allowed to (java.nio.file.AccessDeniedException: s3://lake/w/t/archive/increment_2026112014/b.json",
    ),
    (
        "java.nio.file.AccessDeniedException: s3a://lake/w/t/y.json: open s3a://lake/w/t/y.json at 0 on s3a://lake/w/t/y.json: "
        "com.amazonaws.services.s3.model.AmazonS3Exception: The operation is not valid for the object's storage class "
        "(Service: Amazon S3; Status Code: 403; Error Code: InvalidObjectState; Request ID: null)",
        Refused,
        "an object is in an archive class, which nobody reads (java.nio.file.AccessDeniedException: s3a://lake/w/t/y.json: open",
    ),
    ("java.lang.IllegalArgumentException: bucket is null/empty", Refused, "takes the bucket's name for no host name"),
    ("software.amazon.awssdk.services.s3.model.S3Exception: no (Service: S3, Status Code: 403, Request ID: A)", Refused, "Spark was not allowed to"),
    ("org.apache.hadoop.security.AccessControlException: Permission denied: user=a, access=READ", Refused, "Spark was not allowed to"),
    ("java.io.FileNotFoundException: /x/a.json (Permission denied)", Refused, "Spark was not allowed to"),
    ("org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided by X", Refused, "no usable credentials"),
    (
        "AmazonS3Exception: The provided token has expired. (Service: Amazon S3; Status Code: 400; Error Code: ExpiredToken)",
        Unavailable,
        "Spark's credentials for the store have expired",
    ),
    (
        "org.apache.hadoop.fs.s3a.AWSClientIOException: read on s3a://b/k: Unable to execute HTTP request",
        Unavailable,
        "the store did not answer Spark",
    ),
    ("com.amazonaws.SdkClientException: Unable to execute HTTP request: Connection reset", Unavailable, "the store did not answer Spark"),
    ("software.amazon.awssdk.core.exception.ApiCallTimeoutException: Client execution did not complete", Unavailable, "the store did not answer"),
    (
        "x.shaded.AmazonS3Exception: Please reduce your request rate. (Service: Amazon S3; Status Code: 503; Error Code: SlowDown)",
        Unavailable,
        "SlowDown",
    ),
    ("org.apache.hadoop.fs.s3a.AWSStatus500Exception: We encountered an internal error", Unavailable, "the store did not answer Spark"),
    ("org.apache.http.ConnectionClosedException: Premature end of Content-Length delimited message body", Unavailable, "did not answer Spark"),
    (
        "java.net.SocketTimeoutException: Read timed out",
        Unavailable,
        "the store did not answer Spark (java.net.SocketTimeoutException: Read timed out)",
    ),
    ("org.apache.hadoop.fs.s3a.NoVersionAttributeException: `s3a://b/k': Change detection policy requires ETag", Unavailable, "did not answer Spark"),
    ("java.net.ConnectException: Connection refused", Unavailable, "Run again when it does"),
    ("java.io.IOException: No space left on device", Refused, "no space left on a disk that Spark writes to"),
    ("java.lang.OutOfMemoryError: Java heap space", Refused, "COMPACTOR_DRIVER_MEMORY"),
    (
        "ExecutorLostFailure (executor 3 exited) Reason: Container killed by YARN for exceeding memory limits",
        Unavailable,
        "give the executors more memory",
    ),
    # what needs rows of an executor that is gone, as a reader and as the driver
    (
        "Job aborted due to stage failure: ShuffleMapStage 3 has failed the maximum allowable number of times: 4. Most recent failure reason: "
        "org.apache.spark.shuffle.FetchFailedException: java.net.ConnectException: Connection refused: /10.0.0.7:7079",
        Unavailable,
        "Spark lost an executor (org.apache.spark.shuffle.FetchFailedException",
    ),
    ("Job aborted: Task 0 in stage 1.0 failed 4 times: TaskResultLost (result lost from block manager)", Unavailable, "Spark lost an executor"),
    # the master has given the application up, since no executor starts
    ("java.lang.IllegalStateException: LiveListenerBus is stopped.", EngineEnded, "Spark's JVM has ended (java.lang.IllegalStateException"),
    # as Spark 3.5 and 4.1 write it, the second as `SQLSTATE` messages do
    ("org.apache.spark.SparkException: Job 7 cancelled as part of cancellation of all jobs", Stopped, "nothing was committed. Run again"),
    ("org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 7 cancelled because killed via the Web UI", Stopped, "somebody cancelled a job"),
    ("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.", EngineEnded, "Spark's JVM has ended (java.lang.Ill"),
    (
        "org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down",
        EngineEnded,
        "most likely the machine has too little memory",
    ),
    (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times, most recent failure: Lost task 0.0 in "
        "stage 4.0 (TID 3) (host executor driver): org.apache.hadoop.fs.s3a.NoVersionAttributeException: `s3a://b/k': Change detection policy",
        Unavailable,
        "did not answer Spark (org.apache.hadoop.fs.s3a.NoVersionAttributeException: `s3a://b/k'",
    ),
]

DATA = [
    "java.io.EOFException: Unexpected end of input stream",
    "java.util.zip.ZipException: invalid block type",
    "org.apache.parquet.io.ParquetDecodingException: Can not read value at 0 in block -1",
    "org.apache.avro.AvroRuntimeException: java.io.IOException: Invalid sync!",
    "java.lang.RuntimeException: file:/x.parquet is not a Parquet file. Expected magic number at tail",
    "java.io.FileNotFoundException: No such file or directory: s3://lake/w/x.json",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException: open `s3a://b/k': Change reported by S3 during open",
    "com.fasterxml.jackson.core.JsonParseException: Unexpected character ('S') \"Status Code: 503\"",
]


@pytest.fixture(autouse=True)
def jvm_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not ended: do not wait for its end."""
    monkeypatch.setattr(gateway, "_NOTICED_SECONDS", 0.0)


class Java(Py4JJavaError):
    """An error of Java with a text of ours; the real one asks the JVM for it."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self._words = text

    def __str__(self) -> str:
        return self._words


@pytest.mark.parametrize("stack", ["{}", STAGE], ids=["on the driver", "in a task"])
@pytest.mark.parametrize(("text", "kind", "said"), TEXTS, ids=[text.split(":")[0][-40:] for text, _, _ in TEXTS])
def test_what_the_machine_the_network_and_the_store_did_is_no_fault_of_the_data(text: str, kind: type[CompactorError], said: str, stack: str) -> None:
    """Told in one line, with what to do."""
    found = failures.environment_error(Java(stack.format(text)))
    assert type(found) is kind
    assert said in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize("stack", ["{}", STAGE, "org.apache.spark.SparkException: Job aborted: Lost task 0.0 in stage 4.0 (driver): {}"])
def test_a_key_that_may_not_be_used_is_named_with_the_right_and_the_file(stack: str) -> None:
    """Whoever reads the message can grant it."""
    (text,) = [text for text, _, _ in TEXTS if "kms:" in text]
    said = str(failures.environment_error(Java(stack.format(text))))
    assert said.startswith("Spark was not allowed to (java.nio.file.AccessDeniedException: s3://lake/w/t/archive/increment_2026112014/b.json: open")
    assert "this identity lacks kms:Decrypt on the KMS key arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab. Grant it" in said


@pytest.mark.parametrize("stack", ["{}", STAGE], ids=["on the driver", "in a task"])
@pytest.mark.parametrize("text", DATA)
def test_what_a_file_may_be_blamed_for_is_left_to_who_reads_it(text: str, stack: str) -> None:
    """It is looked for in the files, one by one."""
    assert failures.environment_error(Java(stack.format(text))) is None


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), Py4JError("gone"), ConnectionRefusedError(111, "refused")])
def test_a_jvm_that_has_ended_is_unavailable(error: Exception) -> None:
    """Every file would seem unreadable."""
    found = failures.environment_error(error)
    assert isinstance(found, EngineEnded)
    assert "Spark's JVM has ended" in str(found)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "java.lang.RuntimeException: s3://b/t/base/x.parquet is not a Parquet file (length is too low: 0)",
            "s3://b/t/base/x.parquet is not a Parquet",
        ),
        ("java.io.EOFException\n\tat x", "(java.io.EOFException)"),
        ("java.io.EOFException\nSuppressed: X: s3a://b/t/d/x.c000.parquet: y", "(java.io.EOFException in s3a://b/t/d/x.c000.parquet)"),
        ("java.io.EOFException: Reached the end of stream with 550 bytes left to read", "Reached the end of stream"),
        ("org.apache.parquet.io.ParquetDecodingException: Can not read value at 0 in block -1 in file s3://b/x.parquet", "Can not read value at 0"),
        ("java.io.IOException: can not read class org.apache.parquet.format.PageHeader: Required field", "PageHeader"),
        ("org.apache.spark.SparkException: [CANNOT_READ_FILE_FOOTER] Could not read footer for file: s3://b/x.parquet.", "Could not read footer"),
    ],
)
def test_files_of_ours_that_are_truncated_raise_inconsistent_read(text: str, line: str) -> None:
    """By whatever reads no landed files: an answer may have been cut off, and another may not be."""
    assert failures.environment_error(Java(STAGE.format(text))) is None
    found = failures.environment_error(Java(STAGE.format(text)), stored=True)
    assert isinstance(found, InconsistentRead)
    assert line in str(found)
    assert "compactor verify --deep" in str(found)
    assert "\n" not in str(found)


def test_errors_of_ours_and_of_python_are_not_touched() -> None:
    """They say what they mean."""
    assert failures.environment_error(InputRefused("SocketTimeoutException")) is None
    assert failures.environment_error(ValueError("SocketTimeoutException")) is None
    assert failures.environment_error(IllegalArgumentException("no such column")) is None
    assert isinstance(failures.environment_error(IllegalArgumentException("Cannot call methods on a stopped SparkContext")), Unavailable)


def test_every_public_method_of_a_class_tells_so() -> None:
    """Also those that are added later; private ones and errors of the data as they are."""

    @failures.translated
    class Engine:
        def read(self, text: str) -> None:
            raise Java(text)

        def _inside(self, text: str) -> None:
            raise Java(text)

    with pytest.raises(Unavailable) as caught:
        Engine().read("java.net.SocketTimeoutException: Read timed out")
    assert isinstance(caught.value.__cause__, Java)
    with pytest.raises(Java):
        Engine().read("java.lang.ArithmeticException: overflow")
    with pytest.raises(Java):
        Engine()._inside("java.net.SocketTimeoutException: Read timed out")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "org.apache.spark.SparkArithmeticException: [NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] 0 cannot be represented as Decimal(5, 2). "
            'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error, and return NULL instead. SQLSTATE: 22003',
            "0 cannot be represented as Decimal(5, 2).",
        ),
        ("java.lang.ArithmeticException: long overflow", "a number or a time is beyond the range of its type"),
        ("java.io.EOFException", "eof"),
        ("java.io.IOException: Invalid sync!", "Invalid sync!"),
    ],
)
def test_the_reason_of_a_file_is_without_java_and_settings_of_spark(text: str, reason: str) -> None:
    """Its readers look for a mistake in their file."""
    assert failures.plain_reason(RuntimeError(text)) == reason
