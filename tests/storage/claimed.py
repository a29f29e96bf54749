"""An S3 store that ignores If-None-Match, with claims in DynamoDB beside it."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3

from compactor.aws.client import Reach
from compactor.core.s3 import S3Settings
from compactor.ports import Storage
from compactor.storage.claims import KEY, ClaimsSettings, DynamoClaims
from compactor.storage.s3 import S3Storage

TABLE = "compactor-commits"


@cache
def dynamodb(url: str) -> Any:
    """boto3's client, and the table as docs/s3.md says it is to be made."""
    client = boto3.session.Session().client("dynamodb", endpoint_url=url, region_name="us-east-1")
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": KEY, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": KEY, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def made(server: str, through: str, **settings: Any) -> S3Storage:
    """A storage of its own whose requests, to both services, go `through` an endpoint; the table is on the `server`."""
    dynamodb(server)
    common: dict[str, Any] = {"region": "us-east-1", "endpoint": through, "client_attempts": 1, "wait_seconds_min": 0.01, "wait_seconds_max": 0.05}
    reach = Reach(**{**common, **{name: value for name, value in settings.items() if name.endswith("_seconds")}})
    return S3Storage("s3://lake", S3Settings(path_style=True, list_page=3, **{**common, **settings}), DynamoClaims(ClaimsSettings(TABLE, reach)))


@cache
def claimed(url: str) -> S3Storage:
    """One for all tests of the contract."""
    return made(url, url)


def is_claimed(storage: Storage) -> bool:
    """Whether names are given away for ever."""
    return isinstance(storage, S3Storage) and storage._claims is not None
