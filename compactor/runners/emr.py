"""Runner on EMR. It writes the job configuration to S3, submits a job, looks whether it has ended, and reads the job's report.
The two kinds of EMR, Serverless and a cluster, implement `Jobs`.

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
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compactor.core.model.errors import Unavailable
from compactor.core.model.layout import join
from compactor.core.results.record import JobUsage
from compactor.core.results.reports import Ended
from compactor.core.settings.job_config import QUEUE_SECONDS
from compactor.ports import Storage, Submitted

log = logging.getLogger(__name__)

GRACE_SECONDS = 600.0
"""How long EMR may take to end a job whose time is over."""

_NAME_CHARS_MAX = 180

FINAL_ERRORS = (
    ({"AccessDeniedException", "AccessDenied", "403"}, "not allowed to {action}: grant what docs/aws.md lists for a caller"),
    (
        {"ResourceNotFoundException", "InvalidRequestException", "ValidationException"},
        "{host} does not know it, or cannot accept it in its state: correct `emr:` in compactor.yaml",
    ),
)
"""What to do about final errors of EMR: error codes and text."""


@dataclass(frozen=True)
class Order:
    """A job to submit."""

    token: str
    """Unique id of the job: 48 hex digits."""

    name: str
    """Name that EMR shows."""

    program: str
    """Location of the program, `main.py`."""

    parameters: tuple[str, ...]
    """Parameters of spark-submit, before the program."""

    arguments: tuple[str, ...]

    logs: str
    """Location for EMR's own logs."""

    seconds: float
    """Time limit of the job."""

    tags: tuple[tuple[str, str], ...] = ()
    """Tags (name, value) for cost allocation."""

    @property
    def minutes(self) -> int:
        """Return the time limit in whole minutes, at least 5."""
        return max(5, math.ceil(self.seconds / 60))


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


@dataclass(frozen=True)
class Sending:
    """Settings of the jobs of some tables."""

    job: str
    """S3 folder that `compactor package` wrote."""

    logs: str
    """S3 folder for reports and logs."""

    conf: tuple[tuple[str, str], ...] = ()
    """Spark settings (name, value)."""

    seconds: float = 7200.0
    """Time limit of a job."""

    subject: str = ""
    """What the job's name says after the command: the group or the table."""

    tags: tuple[tuple[str, str], ...] = ()
    """Tags (name, value) for cost allocation."""

    @property
    def plans(self) -> str:
        """Return the S3 folder for job configurations."""
        return join(self.job, "plans")


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
        parameters = ["--py-files", join(settings.job, "compactor.zip")]
        for name, value in settings.conf:
            parameters += ["--conf", f"{name}={value}"]
        name = " ".join(["compactor", arguments[0], settings.subject or arguments[1]])[:_NAME_CHARS_MAX]
        sent = ("--job-config", plan, "--report", report, *arguments)
        program = join(settings.job, "main.py")
        job = self._jobs.submit(Order(token, name, program, tuple(parameters), sent, settings.logs, settings.seconds, settings.tags))
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
