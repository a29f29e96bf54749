"""How S3 is reached: one set of settings for boto3 (`storage/s3/storage.py`) and for Spark's S3A (`core/settings/s3a.py`), and what a location means there.

Credentials are no setting: both take them from the standard chain (environment, profile, web identity, container, instance).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from compactor.core.model.errors import ConfigError, Refused

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30
SSE = ("", "sse-s3", "sse-kms", "dsse-kms")
KEY_BYTES_MAX = 1024
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_OWNER = re.compile(r"\d{12}")


@dataclass(frozen=True)
class S3Settings:
    """Where the store is and how it wants to be spoken to. Raises ConfigError naming the setting.

    `endpoint` is an http(s) URL (None: Amazon's own), `sse` the encryption asked for with every object (empty: what the bucket says),
    `bucket_owner` the account that every bucket must belong to. Seconds: to connect, for a response to begin, and for one operation with
    all its retries; `client_attempts` are botocore's own tries below each of ours.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    sse: str = ""
    kms_key: str = ""
    bucket_owner: str = ""
    requester_pays: bool = False
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    operation_seconds: float = 120.0
    wait_seconds_min: float = 0.2
    wait_seconds_max: float = 10.0
    client_attempts: int = 3
    list_page: int = 1000
    copy_bytes_max: int = 5 * GIGABYTE
    copy_part_bytes: int = 512 * MEGABYTE

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ConfigError(f"s3.endpoint: expected a URL such as https://s3.example.org, found {parts.scheme or 'no scheme'!r}: correct it")
            if parts.username is not None:
                raise ConfigError("s3.endpoint: it holds a user name: credentials belong into the standard chain (environment, profile, role)")
        if self.sse not in SSE:
            raise ConfigError(f"s3.sse: expected one of {', '.join(filter(None, SSE))}, found {self.sse!r}")
        if self.kms_key and not self.sse.endswith("kms"):
            raise ConfigError(f"s3.kms_key: is for sse-kms and dsse-kms, found s3.sse: {self.sse or 'none'}")
        if self.bucket_owner and not _OWNER.fullmatch(self.bucket_owner):
            raise ConfigError(f"s3.bucket_owner: expected the 12 digits of an account, found {self.bucket_owner!r}: put it in quotes")
        for name in ("connect_seconds", "read_seconds", "operation_seconds", "client_attempts", "list_page", "copy_bytes_max", "copy_part_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"s3.{name}: expected more than 0, found {getattr(self, name)}")

    def within(self, environ: Mapping[str, str]) -> S3Settings:
        """With endpoint and region from the variables that every AWS tool reads, where they are not set here."""
        ignored = environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
        endpoint = None if ignored else environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        return dataclasses.replace(self, endpoint=self.endpoint or endpoint or None, region=self.region or region or None)

    @property
    def host(self) -> str:
        """The endpoint as messages name it."""
        return urlsplit(self.endpoint).netloc if self.endpoint else "Amazon S3"


@dataclass(frozen=True)
class Place:
    """A bucket and a key."""

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def place(location: str, directory: bool = False) -> Place:
    """The bucket and key of `s3://bucket/key`, taken literally; a directory may end in a slash or be the bucket itself.

    Raises Refused for what another store could not keep, or would keep under another name.
    """
    scheme, separator, rest = location.partition("://")
    if not separator or scheme != "s3":
        raise Refused(f"{location!r}: expected s3://bucket/key" + (", write s3:// for it" if scheme in ("s3a", "s3n") else ""))
    bucket, _, key = (rest.rstrip("/") if directory else rest).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise Refused(f"{location!r}: expected s3://bucket/key, found the bucket name {bucket!r}")
    if bucket.endswith("--x-s3"):
        raise Refused(f"{location!r}: a directory bucket lists in no order and moves nothing safely: use a general purpose bucket")
    problem = None if directory and not key else key_problem(key)
    if problem:
        raise Refused(f"{location!r}: {problem}")
    return Place(bucket, key)


def key_problem(key: str) -> str | None:
    """Why a key cannot be a location of ours, or None."""
    if "\0" in key or any(name in ("", ".", "..") for name in key.split("/")):
        return "expected a name without empty, '.' and '..' parts"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "expected a name that is valid Unicode"
    return f"expected a key of at most {KEY_BYTES_MAX} bytes, found {size}" if size > KEY_BYTES_MAX else None
