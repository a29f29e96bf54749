"""S3Settings: how boto3 (`storage/s3/storage.py`) and Spark's S3A reach S3, and the bucket and key of a location.

Credentials are no setting. Both use the standard chain (environment, profile, web identity, container, instance).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from compactor.core.model.errors import ConfigError, Refused
from compactor.core.settings.aws import ClientConfig
from compactor.core.settings.forms import Flag, Section, Text

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30
SSE = ("", "sse-s3", "sse-kms", "dsse-kms")
KEY_BYTES_MAX = 1024
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_OWNER = re.compile(r"\d{12}")


@dataclass(frozen=True)
class S3(Section):
    """Access to S3. Credentials come from AWS's standard chain, never from this file."""

    endpoint: Text | None = None
    """URL of an S3-compatible store; default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's."""
    path_style: Flag = False
    """Put the bucket into the path instead of the host name."""
    sse: Literal["", "sse-s3", "sse-kms", "dsse-kms"] = ""
    """Server-side encryption of objects; default the bucket's."""
    kms_key: Text = ""
    """ARN of the key for sse-kms and dsse-kms; default the account's."""
    bucket_owner: Text = ""
    """Account (12 digits, in quotes) that must own every bucket; Spark does not check."""


@dataclass(frozen=True)
class S3Settings(S3, ClientConfig):
    """How to reach an S3 store. Raises ConfigError naming the setting."""

    list_page: int = 1000
    """Objects in a page of a listing."""
    copy_bytes_max: int = 5 * GIGABYTE
    """Bytes up to which an object is copied in one request."""
    copy_part_bytes: int = 512 * MEGABYTE
    """Bytes of a part of a multipart copy."""

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ConfigError(f"s3.endpoint: expected a URL such as https://s3.example.org, found {parts.scheme or 'no scheme'!r}")
            if parts.username is not None:
                raise ConfigError(
                    "s3.endpoint: expected a URL without a user name. Credentials come from the standard chain (environment, profile, role)"
                )
        if self.sse not in SSE:
            raise ConfigError(f"s3.sse: expected one of {', '.join(filter(None, SSE))}, found {self.sse!r}")
        if self.kms_key and not self.sse.endswith("kms"):
            raise ConfigError(f"s3.kms_key: expected s3.sse to be sse-kms or dsse-kms, found {self.sse or 'none'}")
        if self.bucket_owner and not _OWNER.fullmatch(self.bucket_owner):
            raise ConfigError(f"s3.bucket_owner: expected the 12 digits of an account, found {self.bucket_owner!r}: put it in quotes")

    def within(self, environ: Mapping[str, str]) -> S3Settings:
        """Return the settings with endpoint and region from AWS's environment variables, if they are not set here."""
        ignored = environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
        endpoint = None if ignored else environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        return dataclasses.replace(self, endpoint=self.endpoint or endpoint or None, region=self.region or region or None)

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint).netloc if self.endpoint else "Amazon S3"


@dataclass(frozen=True)
class Place:
    bucket: str
    """Name of the bucket."""
    key: str
    """Key in the bucket."""

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def place(location: str, directory: bool = False) -> Place:
    """Return the bucket and key of `s3://bucket/key`, without any decoding. A directory may end in a slash, or be the bucket itself.

    Raises Refused for names that other stores refuse or change.
    """
    scheme, separator, rest = location.partition("://")
    if not separator or scheme != "s3":
        raise Refused(f"{location!r}: expected s3://bucket/key" + (". Write s3:// instead" if scheme in ("s3a", "s3n") else ""))
    bucket, _, key = (rest.rstrip("/") if directory else rest).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise Refused(f"{location!r}: expected s3://bucket/key, found the bucket name {bucket!r}")
    if bucket.endswith("--x-s3"):
        raise Refused(
            f"{location!r}: expected a general purpose bucket, found a directory bucket, which lists in no order and cannot move objects safely"
        )
    problem = None if directory and not key else key_problem(key)
    if problem:
        raise Refused(f"{location!r}: {problem}")
    return Place(bucket, key)


def key_problem(key: str) -> str | None:
    """Return why a key cannot be used, or None."""
    if "\0" in key or any(name in ("", ".", "..") for name in key.split("/")):
        return "expected a name without empty, '.' and '..' parts"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "expected a name that is valid Unicode"
    return f"expected a key of at most {KEY_BYTES_MAX} bytes, found {size}" if size > KEY_BYTES_MAX else None


_S3A = "org.apache.hadoop.fs.s3a"
_CLOUD = "org.apache.spark.internal.io.cloud"
_FIRST_WAIT_SECONDS = 0.5
_ALGORITHMS = {"sse-s3": "AES256", "sse-kms": "SSE-KMS", "dsse-kms": "DSSE-KMS"}
_CHAINS = {1: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain", 2: "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}


def s3a_properties(settings: S3Settings, sdk: int = 1) -> dict[str, str]:
    """Return the Spark properties with which the S3A connector reaches the same store in the same way as `storage/s3/storage.py`.

    They need the jars hadoop-aws (of Spark's Hadoop version) and spark-hadoop-cloud. EMR needs none of them: its own connector and committer serve
    s3:// there, and take region and credentials from the cluster.

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
