"""The EMR runner: what it writes, submits, tells and cancels; against jobs of a list, and the two kinds of EMR against moto and botocore's own
check of every request."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from compactor.aws.client import ClientConfig
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.record import JobUsage
from compactor.ports import Submitted
from compactor.runners.emr import ClusterSteps, EmrRunner, Jobs, JobState, Order, Sending, ServerlessJobs
from tests.parts.memory_storage import MemoryStorage
from tests.parts.s3 import Server

SENDING = Sending("s3://code/jobs/1", "s3://logs/jobs", (("spark.executor.memory", "8g"),), 3600.0)
WORDS = ["run", "student", "--output", "json", "--label", "scheduled__2026-11-20"]


@dataclass
class List:
    """Jobs that are done when they are told to."""

    orders: list[Order] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    started: float | None = None
    place: str = "a list"

    def submit(self, order: Order) -> str:
        known = [each.token for each in self.orders]
        if order.token not in known:
            self.orders.append(order)
        job = f"job-{[each.token for each in self.orders].index(order.token)}"
        self.states.setdefault(job, "RUNNING")
        return job

    def state(self, job: str) -> JobState:
        return JobState(self.states[job] == "RUNNING", self.states[job], self.started)

    def links(self, job: str) -> dict[str, str]:
        return {"Spark UI": f"https://ui/{job}"}

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)
        self.states[job] = "CANCELLED"


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def runner(jobs: Jobs, storage: MemoryStorage, attempt: str = "dag/run/task/-1/1", job_config: bytes = b"{}") -> EmrRunner:
    return EmrRunner(jobs, SENDING, storage, lambda: job_config, attempt)


def report(storage: MemoryStorage, submitted: Submitted, code: int = 0, output: str = "[]", errors: str = "", lines: str = "") -> None:
    """What a job writes at its end."""
    storage.write(f"{submitted.report}/report.json", json.dumps({"code": code, "output": output, "errors": errors}).encode())
    storage.write(f"{submitted.report}/log.txt", lines.encode())


def test_a_command_line_becomes_a_job_with_the_same_words(storage: MemoryStorage) -> None:
    """After the place of its JobConfig and of its report."""
    jobs = List()
    submitted = runner(jobs, storage, job_config=b'{"format": 1}').submit(WORDS)
    (order,) = jobs.orders
    assert re.fullmatch("[0-9a-f]{48}", order.token)
    plan, place = f"s3://code/jobs/1/plans/{order.token}.json", f"s3://logs/jobs/reports/{order.token}"
    assert order.arguments == ("--job-config", plan, "--report", place, *WORDS)
    assert order.sending.parameters == ["--py-files", "s3://code/jobs/1/compactor.zip", "--conf", "spark.executor.memory=8g"]
    assert (order.sending.program, order.name, order.sending.minutes) == ("s3://code/jobs/1/main.py", "compactor run student", 60)
    assert storage.read(plan) == b'{"format": 1}'
    assert submitted.report == place
    # it may wait for resources, and run for its time limit after that
    assert 7 * 3600 <= submitted.until - time.time() <= 8 * 3600
    links = runner(jobs, storage).links(submitted)
    assert links == {"Log": f"https://s3.console.aws.amazon.com/s3/buckets/logs?prefix=jobs/reports/{order.token}/", "Spark UI": "https://ui/job-0"}


def test_a_groups_job_is_named_and_tagged(storage: MemoryStorage) -> None:
    """Its name says the group and its tables, as far as EMR allows; the tags are for the bill."""
    jobs = List()
    sending = dataclasses.replace(SENDING, subject="hourly (2 tables): student, ledger" + ", x" * 99, tags=(("compactor-group", "hourly"),))
    EmrRunner(jobs, sending, storage, lambda: b"{}", "a").submit(["run", "student", "ledger"])
    (order,) = jobs.orders
    assert order.name.startswith("compactor run hourly (2 tables): student, ledger, x")
    assert (len(order.name), order.sending.tags) == (180, (("compactor-group", "hourly"),))


@pytest.mark.parametrize(
    ("words", "attempt", "same"),
    [
        (WORDS, "dag/run/task/-1/1", True),
        (WORDS, "dag/run/task/-1/2", False),
        (["run", "ledger", *WORDS[2:]], "dag/run/task/-1/1", False),
        (WORDS, "", False),
    ],
    ids=["started twice", "tried again", "another table", "by hand"],
)
def test_the_same_try_is_one_job(storage: MemoryStorage, words: list[str], attempt: str, same: bool) -> None:
    """However often a scheduler starts it; another try, table or hand makes another."""
    jobs = List()
    first = runner(jobs, storage).submit(WORDS)
    assert (runner(jobs, storage, attempt).submit(words).job == first.job) is same
    assert len(jobs.orders) == (1 if same else 2)


def test_how_it_ended_is_what_its_report_says(storage: MemoryStorage) -> None:
    """Its state only tells that it has: code, output and last words are the command line's; the log is told."""
    jobs = List()
    sender = runner(jobs, storage)
    submitted = sender.submit(WORDS)
    assert not sender.ended(submitted)
    report(storage, submitted, 75, '[{"table": "student"}]', "compactor: busy", "one\ntwo\nthree\n")
    jobs.states[submitted.job] = "FAILED"
    assert sender.ended(submitted)
    told: list[str] = []
    ended = runner(jobs, storage).result(submitted, told.append)
    assert (ended.code, ended.output, ended.errors) == (75, '[{"table": "student"}]', "compactor: busy")
    assert told == ["one", "two", "three"]


@pytest.mark.parametrize(("content", "said"), [(None, "ended without a report: FAILED; EMR's logs"), (b"{", "expected a job's report")])
def test_without_a_report_nobody_knows_how_it_ended(storage: MemoryStorage, content: bytes | None, said: str) -> None:
    """So it is tried again: a machine may have gone, or memory was short."""
    jobs = List()
    submitted = runner(jobs, storage).submit(WORDS)
    jobs.states[submitted.job] = "FAILED"
    if content is not None:
        storage.write(f"{submitted.report}/report.json", content)
    with pytest.raises(Unavailable, match=said):
        runner(jobs, storage).result(submitted, lambda line: None)


def test_cancel_ends_the_job_that_was_submitted(storage: MemoryStorage) -> None:
    """When a worker is ended before its task is deferred; without a job there is nothing to do."""
    jobs = List()
    sender = runner(jobs, storage)
    sender.cancel()
    assert jobs.cancelled == []
    sender.submit(WORDS)
    sender.cancel()
    assert jobs.cancelled == ["job-0"]


@pytest.mark.parametrize(
    ("started", "until", "reason"),
    [
        (-5000.0, 9999.0, "job-0 on a list was still RUNNING at its time limit and was cancelled. Raise `timeout`."),
        (None, -1.0, "job-0 on a list was still RUNNING at its time limit and was cancelled. Find out what it waited for."),
        (-2700.0, 9999.0, None),
        (None, 9999.0, None),
    ],
    ids=["ran too long", "never began", "runs", "waits"],
)
def test_a_job_whose_time_is_over_is_cancelled(storage: MemoryStorage, started: float | None, until: float, reason: str | None) -> None:
    """Its time begins when it runs. One hour is the limit, and EMR has ten minutes to end it."""
    jobs = List(started=None if started is None else time.time() + started)
    sender = runner(jobs, storage)
    submitted = sender.submit(WORDS)
    late = dataclasses.replace(submitted, until=time.time() + until)
    if reason is None:
        assert not sender.ended(late)
        return
    with pytest.raises(Unavailable, match=re.escape(reason)):
        sender.ended(late)
    assert jobs.cancelled == ["job-0"]
    assert sender.ended(late)


# ---- the two kinds of EMR -------------------------------------------------------------------------------------------

ORDER = Order(
    "0" * 48,
    "compactor run student",
    ("run", "it's"),
    Sending("s3://code/jobs/1", "s3://logs/jobs", (("spark.app.name", "a b"),), 1.0, "", (("cost-center", "data"),)),
)
REACH = ClientConfig("us-east-1", client_attempts=1, operation_seconds=1.0)
ROLE = "arn:aws:iam::123456789012:role/job"
BEGAN = datetime.fromtimestamp(7, timezone.utc)


@pytest.fixture
def aws(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)


def test_a_job_run_of_an_application(aws: None) -> None:
    """Words with blanks and quotes arrive whole; logs go where reports go; five minutes are the least that EMR takes."""
    client = boto3.client("emr-serverless", region_name="us-east-1")
    application = client.create_application(name="c", releaseLabel="emr-7.13.0", type="SPARK")["applicationId"]
    jobs = ServerlessJobs(application, ROLE, REACH)
    job = jobs.submit(ORDER)
    told = client.get_job_run(applicationId=application, jobRunId=job)["jobRun"]
    assert told["jobDriver"]["sparkSubmit"] == {
        "entryPoint": "s3://code/jobs/1/main.py",
        "entryPointArguments": ["run", "it's"],
        "sparkSubmitParameters": "--py-files s3://code/jobs/1/compactor.zip --conf 'spark.app.name=a b'",
    }
    assert (told["name"], told["executionRole"], told["executionTimeoutMinutes"]) == (ORDER.name, ROLE, 5)
    assert told["configurationOverrides"]["monitoringConfiguration"]["s3MonitoringConfiguration"] == {"logUri": "s3://logs/jobs/"}
    assert told["tags"] == {"cost-center": "data"}
    assert jobs.state(job).text.startswith(told["state"])
    jobs.cancel(job)


def job_run(state: str) -> dict[str, Any]:
    """A job run as EMR Serverless answers."""
    return {
        "applicationId": "00app", "jobRunId": "j", "arn": "a" * 60, "createdBy": "arn:aws:iam::123456789012:user/me", "createdAt": 0, "updatedAt": 0,
        "executionRole": ROLE, "state": state, "stateDetails": "why", "releaseLabel": "emr-7.13.0", "jobDriver": {"sparkSubmit": {"entryPoint": "x"}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"billedResourceUtilization": {"vCPUHour": 0.5, "memoryGBHour": 2.0}, "totalResourceUtilization": {"vCPUHour": 0.4}}, (0.5, 2.0)),
        ({"totalResourceUtilization": {"vCPUHour": 0.4, "memoryGBHour": 1.6, "storageGBHour": 4.0}}, (0.4, 1.6)),
        ({}, None),
    ],
    ids=["billed", "used", "nothing yet"],
)
def test_what_a_job_used(aws: None, answer: dict[str, Any], expected: tuple[float, float] | None) -> None:
    """As billed, else as used. A step of a cluster has no bill of its own."""
    jobs = ServerlessJobs("00app", ROLE, REACH)
    stubbed(jobs).add_response("get_job_run", {"jobRun": {**job_run("SUCCESS"), **answer}}, {"applicationId": "00app", "jobRunId": "j"})
    assert jobs.usage("j") == (JobUsage("j", *expected) if expected else None)
    assert ClusterSteps("j-1", REACH).usage("s-1") is None


def test_a_step_of_a_cluster_is_added_once(aws: None) -> None:
    """EMR takes no token for it; its name holds one."""
    client = boto3.client("emr", region_name="us-east-1")
    cluster = client.run_job_flow(
        Name="c", ReleaseLabel="emr-7.13.0", Instances={"MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": True}
    )
    jobs = ClusterSteps(cluster["JobFlowId"], REACH)
    step = jobs.submit(ORDER)
    assert jobs.submit(ORDER) == step
    told = client.describe_step(ClusterId=cluster["JobFlowId"], StepId=step)["Step"]
    assert (told["Name"], told["ActionOnFailure"]) == (f"compactor run student {'0' * 48}", "CONTINUE")
    words = ["spark-submit", "--conf", "spark.submit.deployMode=client", *ORDER.sending.parameters, ORDER.sending.program, *ORDER.arguments]
    assert (told["Config"]["Jar"], told["Config"]["Args"]) == ("command-runner.jar", words)
    assert jobs.state(step).text == told["Status"]["State"]


def stubbed(jobs: Any, *answers: tuple[str, dict[str, Any], dict[str, Any]]) -> Stubber:
    """EMR as these answers; botocore checks each request's shape."""
    jobs._client._connection.made = boto3.client(jobs._client._service, region_name="us-east-1")
    stub = Stubber(jobs._client._connection.client)
    for operation, answer, expected in answers:
        stub.add_response(operation, answer, expected)
    stub.activate()
    return stub


STATES = [
    *((ServerlessJobs, state, True) for state in ("SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "QUEUED", "CANCELLING")),
    *((ServerlessJobs, state, False) for state in ("SUCCESS", "FAILED", "CANCELLED")),
    *((ClusterSteps, state, True) for state in ("PENDING", "RUNNING", "CANCEL_PENDING")),
    *((ClusterSteps, state, False) for state in ("COMPLETED", "CANCELLED", "FAILED", "INTERRUPTED")),
]


@pytest.mark.parametrize(("kind", "state", "goes_on"), STATES)
def test_every_state_and_only_what_goes_on_is_cancelled(aws: None, kind: Any, state: str, goes_on: bool) -> None:
    """With EMR's reason."""
    if kind is ServerlessJobs:
        jobs: Any = ServerlessJobs("00app", ROLE, REACH)
        answer: dict[str, Any] = {"jobRun": job_run(state)}
        look = ("get_job_run", answer, {"applicationId": "00app", "jobRunId": "j"})
        cancel = ("cancel_job_run", {"applicationId": "00app", "jobRunId": "j"}, {"applicationId": "00app", "jobRunId": "j"})
        if goes_on:
            answer["jobRun"]["startedAt"] = BEGAN
    else:
        jobs = ClusterSteps("j-1", REACH)
        assert jobs.links("j") == {"EMR console": "https://us-east-1.console.aws.amazon.com/emr/home?region=us-east-1#/clusterDetails/j-1"}
        status: dict[str, Any] = {"State": state, "StateChangeReason": {"Message": "why"}}
        answer = {"Step": {"Status": {**status, **({"Timeline": {"StartDateTime": BEGAN}} if goes_on else {})}}}
        look = ("describe_step", answer, {"ClusterId": "j-1", "StepId": "j"})
        cancel = ("cancel_steps", {}, {"ClusterId": "j-1", "StepIds": ["j"], "StepCancellationOption": "TERMINATE_PROCESS"})
    on_cluster = kind is ClusterSteps
    stub = stubbed(jobs, look, *([look] if on_cluster else []), *([cancel] if goes_on else []))
    assert jobs.state("j") == JobState(goes_on, f"{state} (why)", 7.0 if goes_on else None)
    if goes_on or on_cluster:
        jobs.cancel("j")
    stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("kind", "operation", "code"),
    [(ServerlessJobs, "get_job_run", "ResourceNotFoundException"), (ClusterSteps, "describe_step", "InvalidRequestException")],
)
def test_a_job_that_emr_does_not_know_has_ended(aws: None, storage: MemoryStorage, kind: Any, operation: str, code: str) -> None:
    """Its application or cluster is gone: no wait changes that. Its report may be there all the same."""
    jobs = ServerlessJobs("00app", ROLE, REACH) if kind is ServerlessJobs else ClusterSteps("j-1", REACH)
    stub = stubbed(jobs)
    for _ in range(2):
        stub.add_client_error(operation, code, "no such job", 400)
    sender, submitted = EmrRunner(jobs, SENDING, storage, bytes), Submitted("j", "s3://logs/jobs/reports/j", time.time() + 60)
    assert sender.ended(submitted)
    with pytest.raises(Unavailable, match=r"ended without a report: UNKNOWN \(EMR has no such job\)"):
        sender.result(submitted, lambda line: None)
    report(storage, submitted)
    assert sender.result(submitted, lambda line: None).code == 0


@pytest.mark.parametrize(
    ("code", "status", "kind", "said"),
    [
        ("AccessDeniedException", 403, Refused, "not allowed to StartJobRun: grant what docs/aws.md lists for a caller"),
        ("ResourceNotFoundException", 404, Refused, "does not know it, or cannot accept it in its state: correct `emr:`"),
        ("ServiceQuotaExceededException", 402, Refused, "refused StartJobRun"),
        ("ConflictException", 409, Unavailable, "could not submit it to EMR Serverless in 1 s"),
        ("InternalServerException", 500, Unavailable, "could not submit it to EMR Serverless in 1 s"),
        ("ThrottlingException", 429, Unavailable, "could not submit it to EMR Serverless in 1 s"),
    ],
)
def test_what_emr_refuses_is_told_and_what_passes_is_tried_again(aws: None, code: str, status: int, kind: Any, said: str) -> None:
    """As everywhere else with AWS."""
    jobs = ServerlessJobs("00app", ROLE, REACH)
    stub = stubbed(jobs)
    for _ in range(30):
        stub.add_client_error("start_job_run", code, "no", status)
    with pytest.raises(kind, match=re.escape(said)):
        jobs.submit(ORDER)


@pytest.mark.parametrize("kind", [ServerlessJobs, ClusterSteps])
def test_an_answer_without_what_was_asked_for_is_tried_again(aws: None, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """A page of a proxy in between, with the code 200."""
    jobs = kind(*(("00app", ROLE) if kind is ServerlessJobs else ("j-1",)), REACH)
    job = {"state": "RUNNING"}
    answers = (
        [{}, {"jobRunId": "s"}, {}, {"jobRun": job}]
        if kind is ServerlessJobs
        else [{}, {}, {}, {"StepIds": ["s"]}, {}, {"Step": {"Status": {"State": "RUNNING"}}}]
    )
    monkeypatch.setattr(jobs._client, "request", lambda *words, **parameters: answers.pop(0))
    assert (jobs.submit(ORDER), jobs.state("s").active, answers) == ("s", True, [])


@pytest.mark.parametrize(
    ("state", "refused"), [("SUCCESS", False), ("FAILED", False), ("CANCELLED", False), ("CANCELLING", False), ("RUNNING", True)]
)
def test_a_job_that_ends_before_it_is_cancelled_is_no_error(aws: None, state: str, refused: bool) -> None:
    """EMR refuses to cancel it; so the job is looked at again."""
    jobs = ServerlessJobs("00app", ROLE, REACH)
    stub = stubbed(jobs)
    given = {"applicationId": "00app", "jobRunId": "j"}
    stub.add_client_error("cancel_job_run", "ValidationException", "it has ended", 400)
    stub.add_response("get_job_run", {"jobRun": job_run(state)}, given)
    with pytest.raises(Refused, match="it has ended") if refused else nullcontext():
        jobs.cancel("j")


def test_the_page_of_sparks_ui_is_a_link_where_emr_has_one(aws: None) -> None:
    """EMR opens it for an hour; a job that waits has none, and that is no error."""
    jobs = ServerlessJobs("00app", ROLE, REACH)
    stub = stubbed(jobs, ("get_dashboard_for_job_run", {"url": "https://ui"}, {"applicationId": "00app", "jobRunId": "j"}))
    assert jobs.links("j") == {"Spark UI": "https://ui"}
    stub.add_client_error("get_dashboard_for_job_run", "ValidationException", "not running", 400)
    assert jobs.links("j") == {}


def test_the_page_of_a_cluster_is_in_the_region_of_its_client(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the configuration names none, that of the environment or of the Airflow connection."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert ClusterSteps("j-1", ClientConfig()).links("j") == {
        "EMR console": "https://eu-west-1.console.aws.amazon.com/emr/home?region=eu-west-1#/clusterDetails/j-1"
    }
