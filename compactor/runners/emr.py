"""Runner on EMR. It writes the job configuration to S3, submits a job, looks whether it has ended, and reads the job's report.
The two kinds of EMR implement `Jobs`: job runs of EMR Serverless, where a client token makes submitting twice harmless; and steps of a cluster, for
which EMR accepts no token, so that `submit` first searches for a step with the same name.

    <plans>/<token>.json                  the job configuration
    <logs>/reports/<token>/report.json    exit code, standard output, the last lines of the log
    <logs>/reports/<token>/log.txt        the log, written while the job runs

The token is a hash of the command line and the attempt's name, so an attempt that is submitted twice finds its first job. The job's state
only shows whether it still runs. Its outcome is in the report; without a report the outcome is unknown.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shlex
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compactor.aws.client import AwsClient
from compactor.aws.retry import UNKNOWN, ExpectedError
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.results.record import JobUsage
from compactor.core.results.reports import Ended
from compactor.core.settings.aws import ClientConfig
from compactor.core.settings.job_config import QUEUE_SECONDS
from compactor.ports import Storage, Submitted

log = logging.getLogger(__name__)

GRACE_SECONDS = 600.0
"""How long EMR may take to end a job whose time is over."""

_NAME_CHARS_MAX = 180

_FINAL_ERRORS = (
    ({"AccessDeniedException", "AccessDenied", "403"}, "not allowed to {action}: grant what docs/aws.md lists for a caller"),
    (
        {"ResourceNotFoundException", "InvalidRequestException", "ValidationException"},
        "{host} does not know it, or cannot accept it in its state: correct `emr:` in compactor.yaml",
    ),
)
"""What to do about final errors of EMR: error codes and text."""


@dataclass(frozen=True)
class Sending:
    """Settings of the jobs of some tables."""

    job: str
    """S3 folder that `compactor package` wrote."""
    logs: str
    """S3 folder for reports and for EMR's own logs."""
    conf: tuple[tuple[str, str], ...] = ()
    """Spark settings (name, value)."""
    seconds: float = 7200.0
    subject: str = ""
    """What the job's name says after the command: the group or the table."""
    tags: tuple[tuple[str, str], ...] = ()
    """Tags (name, value) for cost allocation."""

    @property
    def plans(self) -> str:
        """Return the S3 folder for job configurations."""
        return join(self.job, "plans")

    @property
    def program(self) -> str:
        return join(self.job, "main.py")

    @property
    def parameters(self) -> list[str]:
        """Return the parameters of spark-submit, before the program."""
        settings = [word for name, value in self.conf for word in ("--conf", f"{name}={value}")]
        return ["--py-files", join(self.job, "compactor.zip"), *settings]

    @property
    def minutes(self) -> int:
        """Return the time limit in whole minutes, at least 5."""
        return max(5, math.ceil(self.seconds / 60))


@dataclass(frozen=True)
class Order:
    """A job to submit."""

    token: str
    """Unique id of the job: 48 hex digits."""
    name: str
    arguments: tuple[str, ...]
    sending: Sending


@dataclass(frozen=True)
class JobState:
    """The state of a submitted job."""

    active: bool
    """Whether the job still waits or runs."""
    text: str
    """The state as EMR names it, with EMR's reason."""
    started: float | None = None
    """When it began to run, in epoch seconds; None while it waits."""


class Jobs(Protocol):
    """A kind of EMR. All calls raise Refused for final errors and Unavailable if EMR does not respond."""

    place: str
    """Name of this kind for messages."""

    def submit(self, order: Order) -> str:
        """Submit the job, or find the job that was submitted with this token. Return its id."""

    def state(self, job: str) -> JobState:
        """Return the state of a job. One that EMR does not know is not active."""

    def cancel(self, job: str) -> None:
        """Cancel the job. A job that has ended is left unchanged."""

    def links(self, job: str) -> dict[str, str]:
        """Return pages about the job for people: name → address. A page that cannot be found out is left out."""

    def usage(self, job: str) -> JobUsage | None:
        """Return what a job that has ended used, as billed; None if EMR does not report it."""


class EmrRunner:
    """Send one command line to EMR.

    `job_config` returns the job configuration at the time of sending. `attempt` names the attempt; "": a new one.
    """

    def __init__(self, jobs: Jobs, sending: Sending, storage: Storage, job_config: Callable[[], bytes], attempt: str = "") -> None:
        self._jobs, self._sending, self._storage, self._job_config = jobs, sending, storage, job_config
        self._attempt = attempt or uuid.uuid4().hex
        self._submitted: Submitted | None = None

    def submit(self, arguments: Sequence[str]) -> Submitted:
        settings = self._sending
        token = hashlib.sha256("\0".join([*arguments, self._attempt]).encode()).hexdigest()[:48]
        plan, report = join(settings.plans, f"{token}.json"), join(settings.logs, "reports", token)
        self._storage.write(plan, self._job_config())
        name = " ".join(["compactor", arguments[0], settings.subject or arguments[1]])[:_NAME_CHARS_MAX]
        sent = ("--job-config", plan, "--report", report, *arguments)
        job = self._jobs.submit(Order(token, name, sent, settings))
        log.info("%s: submitted job %s on %s, report below %s", name, job, self._jobs.place, report)
        self._submitted = Submitted(job, report, time.time() + QUEUE_SECONDS + settings.seconds + GRACE_SECONDS, settings.seconds)
        return self._submitted

    def ended(self, submitted: Submitted) -> bool:
        """Whether the job has ended. A job beyond its time limit is cancelled, and Unavailable raised. Time in a queue does not count."""
        state, now = self._jobs.state(submitted.job), time.time()
        over = state.started is not None and now > state.started + submitted.seconds + GRACE_SECONDS
        if state.active and (over or now > submitted.until):
            self._jobs.cancel(submitted.job)
            advice = "Raise `timeout`." if over else "Find out what it waited for."
            raise Unavailable(f"job {submitted.job} on {self._jobs.place} was still {state.text} at its time limit and was cancelled. {advice}")
        return not state.active

    def links(self, submitted: Submitted) -> dict[str, str]:
        bucket, _, prefix = submitted.report.removeprefix("s3://").partition("/")
        return {"Log": f"https://s3.console.aws.amazon.com/s3/buckets/{bucket}?prefix={prefix}/", **self._jobs.links(submitted.job)}

    def result(self, submitted: Submitted, on_line: Callable[[str], None]) -> Ended:
        """Return the outcome, after passing the lines of the log to `on_line`. Raises Unavailable if there is no report."""
        for line in self._log(submitted):
            on_line(line)
        try:
            report: dict[str, Any] = json.loads(self._storage.read(join(submitted.report, "report.json")))
            return Ended(int(report["code"]), str(report["output"]), str(report["errors"]))
        except FileNotFoundError:
            state = self._jobs.state(submitted.job).text
            where = f"EMR's logs are below {self._sending.logs}"
            raise Unavailable(f"job {submitted.job} on {self._jobs.place} ended without a report: {state}; {where}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{submitted.report}: expected a job's report, found something else ({error})") from None

    def usage(self, submitted: Submitted) -> JobUsage | None:
        return self._jobs.usage(submitted.job)

    def stop(self, submitted: Submitted) -> None:
        self._jobs.cancel(submitted.job)

    def cancel(self) -> None:
        """Cancel the job that this runner submitted, unless it has ended."""
        if self._submitted is not None:
            self.stop(self._submitted)

    def _log(self, submitted: Submitted) -> list[str]:
        try:
            return self._storage.read(join(submitted.report, "log.txt")).decode("utf-8", "replace").split("\n")[:-1]
        except FileNotFoundError:
            return []


_ENDED = ("SUCCESS", "FAILED", "CANCELLED", "UNKNOWN")


class ServerlessJobs:
    """Job runs of the application with the id `application`, executed with the IAM role `role` (ARN)."""

    place = "EMR Serverless"

    def __init__(self, application: str, role: str, config: ClientConfig) -> None:
        self._application, self._role = application, role
        self._client = AwsClient("emr-serverless", config, _FINAL_ERRORS)

    def submit(self, order: Order) -> str:
        sending = order.sending
        spark = {"entryPoint": sending.program, "entryPointArguments": [*order.arguments], "sparkSubmitParameters": shlex.join(sending.parameters)}
        logs = {"monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": f"{sending.logs.rstrip('/')}/"}}}

        def attempt() -> str:
            answer = self._client.request(
                "start_job_run",
                order.name,
                applicationId=self._application,
                executionRoleArn=self._role,
                clientToken=order.token,
                name=order.name,
                jobDriver={"sparkSubmit": spark},
                configurationOverrides=logs,
                executionTimeoutMinutes=sending.minutes,
                tags=dict(sending.tags) or None,
            )
            return str(answer["jobRunId"])

        return self._client.retry(order.name, "submit it to EMR Serverless", attempt)

    def state(self, job: str) -> JobState:
        run = self._run(job)
        details, started = run.get("stateDetails"), run.get("startedAt")
        return JobState(run["state"] not in _ENDED, run["state"] + (f" ({details})" if details else ""), started.timestamp() if started else None)

    def links(self, job: str) -> dict[str, str]:
        """Return the page of Spark's UI, which EMR opens for an hour once the job runs."""
        try:
            answer = self._client.request("get_dashboard_for_job_run", job, applicationId=self._application, jobRunId=job)
        except Exception:
            # a link is not worth failing for
            return {}
        return {"Spark UI": str(answer["url"])} if answer.get("url") else {}

    def usage(self, job: str) -> JobUsage | None:
        """Return what a job run used. The billed figures come a moment after its end; until then the used ones are returned."""
        run = self._run(job)
        used = run.get("billedResourceUtilization") or run.get("totalResourceUtilization")
        return JobUsage(job, float(used.get("vCPUHour", 0)), float(used.get("memoryGBHour", 0))) if used else None

    def cancel(self, job: str) -> None:
        where = {"applicationId": self._application, "jobRunId": job}
        try:
            self._client.retry(job, "cancel it on EMR Serverless", lambda: self._client.request("cancel_job_run", job, **where))
        except Refused:
            # EMR does not cancel a job that has ended, maybe a moment ago
            if self._run(job)["state"] not in (*_ENDED, "CANCELLING"):
                raise

    def _run(self, job: str) -> dict[str, Any]:
        where = {"applicationId": self._application, "jobRunId": job}

        def attempt() -> dict[str, Any]:
            run = self._client.request("get_job_run", job, (UNKNOWN,), **where)["jobRun"]
            return {**run, "state": run["state"]}

        try:
            return self._client.retry(job, "look at it on EMR Serverless", attempt)
        except ExpectedError:
            return {"state": "UNKNOWN", "stateDetails": "EMR has no such job"}


_ACTIVE = ("PENDING", "RUNNING", "CANCEL_PENDING")
"""States of a step that waits or runs."""
_HERE = ("--conf", "spark.submit.deployMode=client")
"""Run the driver in the step itself, so that cancelling the step ends it. It comes first, so that `spark:` can override it."""


class ClusterSteps:
    """Steps of the cluster with the id `cluster` (`j-...`)."""

    place = "the EMR cluster"

    def __init__(self, cluster: str, config: ClientConfig) -> None:
        self._cluster = cluster
        self._client = AwsClient("emr", config, _FINAL_ERRORS)

    def submit(self, order: Order) -> str:
        """Add a step and return its id. Two concurrent calls may both add it; the commit protocol makes that harmless."""
        name = f"{order.name} {order.token}"
        words = ["spark-submit", *_HERE, *order.sending.parameters, order.sending.program, *order.arguments]
        step = {"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": {"Jar": "command-runner.jar", "Args": words}}

        def attempt() -> str:
            # the newest fifty: a step of the same attempt is among them
            steps = self._client.request("list_steps", order.name, ClusterId=self._cluster).get("Steps", [])
            added = [each["Id"] for each in steps if each["Name"] == name]
            if added:
                return str(added[0])
            return str(self._client.request("add_job_flow_steps", order.name, JobFlowId=self._cluster, Steps=[step])["StepIds"][0])

        return self._client.retry(order.name, "add it to the EMR cluster", attempt)

    def state(self, job: str) -> JobState:
        def attempt() -> JobState:
            try:
                status = self._client.request("describe_step", job, (UNKNOWN,), ClusterId=self._cluster, StepId=job)["Step"]["Status"]
            except ExpectedError:
                return JobState(False, "UNKNOWN (EMR has no such job)")
            why = status.get("FailureDetails", {}).get("Message") or status.get("StateChangeReason", {}).get("Message")
            started = status.get("Timeline", {}).get("StartDateTime")
            return JobState(status["State"] in _ACTIVE, status["State"] + (f" ({why})" if why else ""), started.timestamp() if started else None)

        return self._client.retry(job, "look at it on the EMR cluster", attempt)

    def links(self, job: str) -> dict[str, str]:
        """Return the cluster's page in the console, which lists its steps and Spark's UI."""
        region = self._client.region
        return {"EMR console": f"https://{region}.console.aws.amazon.com/emr/home?region={region}#/clusterDetails/{self._cluster}"}

    def usage(self, job: str) -> JobUsage | None:
        """Return None: a cluster is paid for whole, not by step."""
        return None

    def cancel(self, job: str) -> None:
        if self.state(job).active:
            which = {"ClusterId": self._cluster, "StepIds": [job], "StepCancellationOption": "TERMINATE_PROCESS"}
            self._client.retry(job, "cancel it on the EMR cluster", lambda: self._client.request("cancel_steps", job, **which))
