"""Settings and locations of S3, and the properties for Spark's S3A."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.core.model.errors import ConfigError, Refused
from compactor.core.model.layout import Layout, join, relative
from compactor.core.settings.s3 import Place, S3Settings, place, s3a_properties


@pytest.mark.parametrize(
    ("location", "directory", "expected"),
    [
        ("s3://lake/a/b c%20d", False, Place("lake", "a/b c%20d")),
        ("s3://lake/a=1/ü", False, Place("lake", "a=1/ü")),
        ("s3://lake/a/", True, Place("lake", "a")),
        ("s3://lake", True, Place("lake", "")),
        ("s3://lake/", True, Place("lake", "")),
    ],
)
def test_a_location_is_a_bucket_and_a_key_taken_literally(location: str, directory: bool, expected: Place) -> None:
    """Nothing is decoded; only a directory may end in a slash."""
    assert place(location, directory) == expected


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/lake/a", "expected s3://bucket/key"),
        ("s3a://lake/a", "Write s3:// instead"),
        ("s3://lake", "empty"),
        ("s3://lake/", "empty"),
        ("s3://lake/a/", "empty"),
        ("s3://lake//a", "empty"),
        ("s3://lake/a/../b", "'..'"),
        ("s3:///a", "bucket name ''"),
        ("s3://la ke/a", "bucket name 'la ke'"),
        ("s3://lake--use1-az4--x-s3/a", "directory bucket"),
        ("s3://lake/" + "x" * 1025, "at most 1024 bytes, found 1025"),
        ("s3://lake/" + "ü" * 513, "at most 1024 bytes, found 1026"),
        ("s3://lake/\ud800", "valid Unicode"),
    ],
)
def test_a_location_that_cannot_be_kept_is_refused(location: str, message: str) -> None:
    """In words that say why."""
    with pytest.raises(Refused, match=message.replace("'..'", r"'\.\.'")):
        place(location)


def test_the_layout_builds_and_parses_s3_locations() -> None:
    """Paths below a root in a bucket, and back; the two slashes stay."""
    layout = Layout("s3://lake/cdc/student/", "s3://landing/student/incremental")
    assert layout.snapshot(3) == "s3://lake/cdc/student/_compactor/snapshots/00000000000000000003.json"
    assert layout.version_of(layout.snapshot(3)) == 3
    assert layout.kind(join(layout.delta("v00000003-0123abcd"), "row_state=live/part.parquet")) == "delta"
    assert layout.landed("h/x.json") == "s3://landing/student/incremental/h/x.json"
    assert relative("s3://lake/cdc/student/archive/x", layout.root) == "archive/x"
    assert join("s3://lake", "cdc") == "s3://lake/cdc"
    assert layout.kind("s3://other/cdc/student/archive/x") is None


@pytest.mark.parametrize(
    ("environ", "settings", "endpoint", "region"),
    [
        ({}, {}, None, None),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_REGION": "eu-west-1"}, {}, "http://a", "eu-west-1"),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}, {}, "http://b", None),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, {}, None, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, {}, None, "eu-west-1"),
        ({"AWS_ENDPOINT_URL_S3": "http://b", "AWS_REGION": "x"}, {"endpoint": "http://c", "region": "y"}, "http://c", "y"),
        ({"AWS_ENDPOINT_URL_S3": "http://b", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, {}, None, None),
    ],
)
def test_endpoint_and_region_come_from_the_usual_variables(environ: Any, settings: Any, endpoint: str | None, region: str | None) -> None:
    """What is set wins; the variable of S3 wins over the general one."""
    result = S3Settings(**settings).within(environ)
    assert (result.endpoint, result.region) == (endpoint, region)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"endpoint": "minio:9000"}, "s3.endpoint: expected a URL"),
        ({"endpoint": "http://user:secret@minio"}, "s3.endpoint: expected a URL without a user name"),
        ({"sse": "kms"}, "s3.sse: expected one of sse-s3, sse-kms, dsse-kms, found 'kms'"),
        ({"kms_key": "alias/x"}, "s3.kms_key"),
        ({"bucket_owner": "12345"}, "s3.bucket_owner: expected the 12 digits"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: Any, message: str) -> None:
    """Naming the key, and no secret."""
    with pytest.raises(ConfigError, match=message) as result:
        S3Settings(**settings)
    assert "secret" not in str(result.value)


def test_s3a_is_told_the_same_as_boto3() -> None:
    """Endpoint, region, encryption, time-outs in milliseconds; and no rename when a job commits."""
    kms = S3Settings(endpoint="http://minio:9000", region="eu-west-1", path_style=True, sse="sse-kms", kms_key="alias/x", read_seconds=1.5)
    reported = s3a_properties(kms)
    hadoop = {name[len("spark.hadoop.") :]: value for name, value in reported.items() if name.startswith("spark.hadoop.")}
    assert {
        "fs.s3a.endpoint": "http://minio:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": "alias/x",
        "fs.s3a.connection.timeout": "1500",
        # half a second, doubled seven times: a minute
        "fs.s3a.attempts.maximum": "3",
        "fs.s3a.retry.limit": "7",
        "fs.s3a.retry.interval": "500ms",
        "fs.s3a.retry.throttle.limit": "7",
        "fs.s3a.retry.throttle.interval": "500ms",
        "fs.s3a.committer.name": "magic",
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }.items() <= hadoop.items()
    assert reported["spark.sql.sources.commitProtocolClass"].endswith("PathOutputCommitProtocol")


def test_s3a_takes_what_is_not_set_from_where_every_tool_takes_it() -> None:
    """Amazon's own endpoint, its region and the bucket's encryption; credentials from the chain of the SDK that Hadoop was built with."""
    reported = s3a_properties(S3Settings())
    assert not [name for name in reported if "endpoint" in name or "encryption" in name or "key" in name]
    assert reported["spark.hadoop.fs.s3a.aws.credentials.provider"].startswith("com.amazonaws.auth.")
    assert s3a_properties(S3Settings(), sdk=2)["spark.hadoop.fs.s3a.aws.credentials.provider"].startswith("software.amazon.awssdk.")
