"""The conditions of the lake's bucket policy against the requests of runs, a vacuum and an erase, with their headers."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from compactor.core.settings.s3 import S3Settings
from compactor.flows.keep.erase import Request, erase
from compactor.flows.keep.vacuum import vacuum
from compactor.storage.s3.storage import S3Storage
from tests.oracle.model import line
from tests.parts.s3 import Server
from tests.terraform import rights
from tests.terraform.module import MODULE, locals_of
from tests.terraform.test_calls import WAREHOUSE, Job, recorded, unheard

PLACES = {"local.lake_arn": "arn:aws:s3:::lake", "var.lake.warehouse": "cdc"}


def denials() -> list[dict[str, Any]]:
    """The Deny statements of the lake's bucket, apart from that of requests without TLS."""
    values = locals_of(MODULE)
    named = re.findall(r"local\.(\w+)", values["bucket_statements"]["lake"])
    text = re.sub(r"\$\{([\w.]+)\}", lambda found: PLACES[found[1]], json.dumps([values[name] for name in named]))
    return list(json.loads(text))


def denied(operation: str, location: str, headers: dict[str, str]) -> bool:
    """Whether the policy forbids a request."""
    return any(rights.denies(statement, operation, location.replace("s3://", "arn:aws:s3:::"), headers) for statement in denials())


@pytest.fixture(scope="module")
def sent(server: Server) -> list[tuple[str, str, dict[str, str]]]:
    """The requests of two runs, of a vacuum that gives versions up, and of an erase that does."""
    lake = Job(None, server.url)
    root = f"{WAREHOUSE}/given_up"
    lake.spec = dataclasses.replace(lake.spec, name="given_up", view="given_up", root=root, landing=f"{root}/incremental", keep=0.0, keep_versions=1)
    with recorded() as calls:
        lake._through = S3Storage(WAREHOUSE, S3Settings(path_style=True, region="us-east-1", endpoint=server.url))
        for hour in (0, 1):
            with unheard(calls):
                lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [key], [key + hour], {"a": key}) for key in range(9)])
            lake.play()
        lake.play(lambda table: vacuum(table, False))
        lake.play(lambda table: erase(table, Request((("3",),), now=True)))
    return calls.sent


@pytest.mark.slow
def test_no_request_of_a_run_a_vacuum_or_an_erase_is_denied(sent: list[tuple[str, str, dict[str, str]]]) -> None:
    writes = [each for each in sent if rights.S3_RIGHTS[each[0]] & {"s3:PutObject"}]
    assert len(writes) > 30
    assert [each for each in writes if denied(*each)] == []
    snapshots = [headers for _, location, headers in writes if re.search(r"/snapshots/\d+\.json$", location)]
    assert {("If-Match" in headers, "If-None-Match" in headers) for headers in snapshots} == {(True, False), (False, True)}
    assert sum("If-Match" in headers for headers in snapshots) > 2, "versions were given up"


@pytest.mark.parametrize(
    ("operation", "path", "headers", "expected"),
    [
        ("PutObject", "t/_compactor/snapshots/00000000000000000001.json", {}, True),
        ("CopyObject", "t/_compactor/snapshots/00000000000000000001.json", {}, True),
        ("CompleteMultipartUpload", "t/_compactor/snapshots/00000000000000000001.json", {}, True),
        ("UploadPart", "t/_compactor/snapshots/00000000000000000001.json", {}, False),
        ("PutObject", "t/_compactor/snapshots/00000000000000000001.json", {"If-None-Match": "*"}, False),
        ("PutObject", "t/_compactor/snapshots/00000000000000000001.json", {"If-Match": "etag"}, False),
        ("PutObject", "t/_compactor/snapshots/latest", {}, False),
        ("PutObject", "t/_compactor/shown.json", {}, False),
        ("DeleteObject", "t/_compactor/snapshots/00000000000000000001.json", {}, False),
    ],
)
def test_what_the_policy_denies(operation: str, path: str, headers: dict[str, str], expected: bool) -> None:
    """Snapshots that are written blindly, and nothing else."""
    assert denied(operation, f"{WAREHOUSE}/{path}", headers) == expected
