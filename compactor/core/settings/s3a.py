"""What Spark's S3A connector must be told so that it reaches the same store in the same way as `storage/s3/storage.py`.

On EMR none of it is wanted: its own connector answers to s3:// there, with its own committer; it takes region and credentials from the cluster.
Names of properties: Hadoop 3.3 and 3.4, hadoop-aws; the two committer classes: Spark's spark-hadoop-cloud.
"""

from __future__ import annotations

import math

from compactor.core.settings.s3 import S3Settings

_S3A = "org.apache.hadoop.fs.s3a"
_CLOUD = "org.apache.spark.internal.io.cloud"
_FIRST_WAIT_SECONDS = 0.5
_ALGORITHMS = {"sse-s3": "AES256", "sse-kms": "SSE-KMS", "dsse-kms": "DSSE-KMS"}
_CHAINS = {1: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain", 2: "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}


def s3a_properties(settings: S3Settings, sdk: int = 1) -> dict[str, str]:
    """Spark properties. `sdk` is the AWS SDK that hadoop-aws was built with: 1 for Hadoop 3.3 (Spark 3.5), 2 for Hadoop 3.4 (Spark 4).

    Needs the jars hadoop-aws (of Spark's own Hadoop version) and spark-hadoop-cloud.
    """
    hadoop = {
        "fs.s3.impl": f"{_S3A}.S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": f"{_S3A}.S3A",
        "fs.s3a.aws.credentials.provider": _CHAINS[sdk],
        "fs.s3a.path.style.access": _text(settings.path_style),
        "fs.s3a.requester.pays.enabled": _text(settings.requester_pays),
        "fs.s3a.connection.establish.timeout": _milliseconds(settings.connect_seconds),
        "fs.s3a.connection.timeout": _milliseconds(settings.read_seconds),
        **_patience(settings),
        # Files are written below a magic path and appear when the job commits, without a rename, which S3 has not.
        "fs.s3a.committer.name": "magic",
        "fs.s3a.committer.magic.enabled": "true",
        "mapreduce.outputcommitter.factory.scheme.s3": f"{_S3A}.commit.S3ACommitterFactory",
        "mapreduce.outputcommitter.factory.scheme.s3a": f"{_S3A}.commit.S3ACommitterFactory",
    }
    if settings.endpoint:
        hadoop["fs.s3a.endpoint"] = settings.endpoint
        hadoop["fs.s3a.connection.ssl.enabled"] = _text(settings.endpoint.startswith("https:"))
    if settings.region:
        hadoop["fs.s3a.endpoint.region"] = settings.region
    if settings.sse:
        hadoop["fs.s3a.encryption.algorithm"] = _ALGORITHMS[settings.sse]
    if settings.kms_key:
        hadoop["fs.s3a.encryption.key"] = settings.kms_key
    return {
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
        "spark.sql.sources.commitProtocolClass": f"{_CLOUD}.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": f"{_CLOUD}.BindingParquetOutputCommitter",
    }


def _patience(settings: S3Settings) -> dict[str, str]:
    """How long S3A goes on trying, with waits that double. Opening again and reading have each their own: together about as long as an operation of
    ours. By its own defaults it is hours."""
    tries = max(1, int(math.log2(settings.operation_seconds / _FIRST_WAIT_SECONDS)))
    waits = {f"fs.s3a.retry.{kind}interval": _milliseconds(_FIRST_WAIT_SECONDS) + "ms" for kind in ("", "throttle.")}
    limits = {f"fs.s3a.retry.{kind}limit": str(tries) for kind in ("", "throttle.")}
    return {"fs.s3a.attempts.maximum": str(settings.client_attempts), **waits, **limits}


def _text(value: bool) -> str:
    return "true" if value else "false"


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
