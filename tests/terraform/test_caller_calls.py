"""Least privilege of who starts jobs, by recording: what is asked of S3 and EMR while Airflow's tasks do what they do outside of a cluster, against
what `iam.tf` gives a caller. No call without a right, no right without a call or another user of it, no object touched outside the policy's folders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone

import boto3
import pytest

from compactor.app.app import App
from compactor.aws.retry import RetryPolicy
from compactor.core.model.errors import CompactorError
from compactor.core.settings.s3 import S3Settings
from compactor.flows import ledger
from compactor.flows.publish.notices import alert
from compactor.flows.read.arrived import arrived
from compactor.runners.emr import JobState
from compactor.storage.s3.storage import S3Storage
from tests.flows.test_every_crash import DELIVERIES
from tests.parts.s3 import CREDENTIALS, Server, s3_server
from tests.terraform import rights
from tests.terraform.test_calls import LANDING, WAREHOUSE, Calls, Job, operations, recorded, unheard

pytestmark = pytest.mark.terraform

OTHERS = {
    "iam:PassRole": "StartJobRun, for the job's role",
    "emr-serverless:StartApplication": "StartJobRun, where the application is stopped",
    "emr-serverless:TagResource": "StartJobRun, with tags",
    "kms:Decrypt": "S3, for the caller",
    "kms:GenerateDataKey": "S3, for the caller",
    "cloudwatch:PutMetricData": "`metrics:`, after a run",
}
"""Rights of a caller that no call of boto3 in this package needs, and whose they are."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: the tables of `test_calls` have the same names."""
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3") / "log") as running:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        for bucket in ("lake", "sink", "code", "logs"):
            running.bucket(bucket)
        yield running


@pytest.fixture(scope="module")
def calls(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Recorded once: a table with everything in it, looked at; then a job on both kinds of EMR, from beginning to end."""
    with pytest.MonkeyPatch.context() as patch, recorded() as found:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        # other tests may have named theirs for S3 alone, which comes before
        patch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        with unheard(found):
            application = boto3.client("emr-serverless", region_name="us-east-1").create_application(
                name="c", releaseLabel="emr-7.13.0", type="SPARK"
            )["applicationId"]
            instances = {"MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": True}
            cluster = boto3.client("emr", region_name="us-east-1").run_job_flow(Name="c", ReleaseLabel="emr-7.13.0", Instances=instances)["JobFlowId"]
            topic = boto3.client("sns", region_name="us-east-1").create_topic(Name="compactor")["TopicArn"]
        emr = {"job": "s3://code/jobs/1", "logs": "s3://logs/jobs", "application": application, "cluster": cluster}
        emr["role"] = "arn:aws:iam::123456789012:role/job"
        said = {
            "warehouse": WAREHOUSE,
            "catalog": {"type": "glue", "database": "school"},
            "s3": {"path_style": True},
            "emr": emr,
            "defaults": {"notify": {"sns": topic}},
            "discovered": f"{WAREHOUSE}/_compactor/tables.d",
            "discover": [{"from": f"{LANDING}/pg.{{schema}}.{{table}}", "name": "{table}", "envelope": "wal2json"}],
            "tables": {
                "t": {"key": ["id"], "runner": "emr-serverless", "increments": f"{LANDING}/t/increment_%Y%m%d%H"},
                "u": {"key": ["id"], "runner": "emr-steps"},
            },
        }
        file = tmp_path_factory.mktemp("config") / "compactor.yaml"
        file.write_text(json.dumps(said), encoding="utf-8")
        app = App.open(file)
        with unheard(found):
            played(server)
            appeared = (
                b'{"action":"I","schema":"s","table":"v","columns":[{"name":"id","type":"bigint","value":1}],"pk":[{"name":"id","type":"bigint"}]}\n'
            )
            S3Storage("s3://sink", app.settings.s3_keys).write(f"{LANDING}/pg.s.v/increment_2024030501/a.json", appeared)
        for look in LOOKS.values():
            look(app)
        assert "v" in app.settings.tables, "it was added"
        alert(app.table("t"), "run_failed", "no", {})
        for table in ("t", "u"):
            sent(app, table, found)
    return found


def played(server: Server) -> None:
    """What jobs have done before."""
    lake = Job(S3Storage(WAREHOUSE, S3Settings(endpoint=server.url, path_style=True, region="us-east-1")), server.url)
    for deliver in DELIVERIES:
        deliver(lake)
        lake.play()
    DELIVERIES[0](lake)


ADDED = rf"{WAREHOUSE}/_compactor/tables\.d/.+"
"""Tables of `discover:`."""

LOOKS: dict[str, Callable[[App], object]] = {
    "status": lambda app: app.status(["t"]),
    "plan --no-samples": lambda app: app.plan(["t"], samples=False),
    "log": lambda app: app.log("t"),
    "log --inputs": lambda app: ledger.everything(app.table("t"), app.table("t").newest()),
    "quarantine": lambda app: app.quarantined(["t"]),
    "verify --files-only": lambda app: app.verify(["t"], files_only=True),
    "adding tables": lambda app: app.add_tables(),
    "waiting for an hour": lambda app: arrived(app.table("t"), datetime(2024, 3, 5, 1, tzinfo=timezone.utc)),
}
"""What tasks do without Spark."""


def sent(app: App, table: str, found: Calls) -> None:
    """A job from its submission to its report; and one that is ended."""
    runner = app.remote_runner([table], "a try")
    assert runner is not None
    submitted = runner.submit(["run", table, "--output", "json"])
    runner.ended(submitted)
    runner.links(submitted)
    with suppress(CompactorError):
        runner.result(submitted, lambda line: None)
    with unheard(found):
        S3Storage("s3://logs", app.settings.s3_keys).write(f"{submitted.report}/report.json", b'{"code": 0, "output": "[]", "errors": ""}')
    assert runner.result(submitted, lambda line: None).code == 0
    # moto's job runs have ended before anybody could cancel them, and its steps cannot be
    running(runner)
    with suppress(CompactorError):
        runner.stop(submitted)


def running(runner: object) -> None:
    """Let a runner believe that its job goes on, and lose its patience soon."""
    runner._jobs._client._retry_policy = RetryPolicy(0.5, 0.05, 0.1)  # type: ignore[attr-defined]
    runner._jobs.state = lambda job: JobState(True, "RUNNING")  # type: ignore[attr-defined]


def test_the_recording_holds_every_call_to_emr_that_the_code_can_make(calls: Calls) -> None:
    """So that what follows speaks of all of them."""
    code = operations("emr-serverless", "runners/emr.py") | operations("emr", "runners/emr.py")
    assert {call for call in calls.names if call[0] not in ("s3", "sns")} == code
    assert len(code) == 8


def test_no_call_lacks_its_right(calls: Calls) -> None:
    assert rights.needed(calls.names) - rights.actions("caller") == set()


def test_no_right_lacks_its_call(calls: Calls) -> None:
    """Or another user, who is named."""
    assert rights.actions("caller") - rights.needed(calls.names) == set(OTHERS)


@pytest.mark.parametrize(
    ("operation", "where"),
    [
        (
            ("GetObject", "HeadObject"),
            rf"{WAREHOUSE}/[^/]+/(_compactor/.+|quarantine/.+\.reason\.json)|s3://logs/jobs/reports/.+|{ADDED}|{LANDING}/pg\.s\.v/.+",
        ),
        (("PutObject",), rf"s3://code/jobs/1/plans/[0-9a-f]+\.json|{ADDED}"),
        (("DeleteObject",), rf"{WAREHOUSE}/_compactor/tables\.d/\.compactor-probe-\w+"),
    ],
    ids=["reads state, reports and samples", "writes plans and tables", "deletes a probe"],
)
def test_objects_outside_the_policy_are_never_touched(calls: Calls, operation: tuple[str, ...], where: str) -> None:
    """Whoever starts jobs needs no row of any table; with `discover` samples of what landed."""
    touched = calls.touched(*operation)
    assert touched
    assert [path for path in sorted(touched) if not re.fullmatch(where, path)] == []
    assert calls.touched("DeleteObjects", "CopyObject", "CreateMultipartUpload") == set()
