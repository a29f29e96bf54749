"""Spark properties with which the S3A connector reaches the same store in the same way as `storage/s3/storage.py`.

EMR needs none of them: its own connector and committer serve s3:// there, and take region and credentials from the cluster.
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
    """Return the Spark properties. They need the jars hadoop-aws (of Spark's Hadoop version) and spark-hadoop-cloud.

    `sdk`: the AWS SDK of hadoop-aws: 1 for Hadoop 3.3 (Spark 3.5), 2 for Hadoop 3.4 (Spark 4).
    """
    hadoop = {
        "fs.s3.impl": f"{_S3A}.S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": f"{_S3A}.S3A",
        "fs.s3a.aws.credentials.provider": _CHAINS[sdk],
        "fs.s3a.path.style.access": _text(settings.path_style),
        "fs.s3a.connection.establish.timeout": _milliseconds(settings.connect_seconds),
        "fs.s3a.connection.timeout": _milliseconds(settings.read_seconds),
        **_retries(settings),
        # Files are written below a magic path and appear when the job commits. S3 has no rename.
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


def _retries(settings: S3Settings) -> dict[str, str]:
    """Return how long S3A retries, with waits that double: about as long as one of our operations. By default S3A retries for hours."""
    tries = max(1, int(math.log2(settings.operation_seconds / _FIRST_WAIT_SECONDS)))
    waits = {f"fs.s3a.retry.{kind}interval": _milliseconds(_FIRST_WAIT_SECONDS) + "ms" for kind in ("", "throttle.")}
    limits = {f"fs.s3a.retry.{kind}limit": str(tries) for kind in ("", "throttle.")}
    return {"fs.s3a.attempts.maximum": str(settings.client_attempts), **waits, **limits}


def _text(value: bool) -> str:
    return "true" if value else "false"


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
