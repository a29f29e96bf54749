"""Runner on EMR: a command line becomes a job configuration and a report's place in S3, a job that is submitted with them, looked at until
it ends, and a report that says how the command line ended. Serverless or a cluster: that is `Jobs`.

    <plans>/<token>.json                  the job configuration
    <logs>/reports/<token>/report.json    exit code, what was printed, the last lines of the log
    <logs>/reports/<token>/log.txt        the log as it grows

The token is made of the command line and the attempt's name: an attempt that is started twice finds the job of the first. A job's own state says
only whether it goes on; how it ended is in the report, and without one nobody knows.
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

from compactor.aws.retry import access_problem, api_name, code_of, words
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.results.reports import Ended
from compactor.ports import Storage, Submitted

log = logging.getLogger(__name__)

POLL_SECONDS = 15.0
QUEUE_SECONDS = 1800.0
"""How long a job may wait for its turn, beside the time that it may take."""

_NAME_CHARS_MAX = 180


@dataclass(frozen=True)
class Order:
    """A job to be submitted. `token` is its own and nobody else's (48 hex digits); `parameters` are spark-submit's, before the `program`,
    `arguments` come after it; `logs` is where EMR's own logs go; `seconds` what it may take."""

    token: str
    name: str
    program: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    logs: str
    seconds: float

    @property
    def minutes(self) -> int:
        """`seconds` as EMR counts them."""
        return max(5, math.ceil(self.seconds / 60))


class Jobs(Protocol):
    """A kind of EMR. All calls raise Refused for what trying again does not change, Unavailable when nobody answers."""

    place: str

    def submit(self, order: Order) -> str:
        """Submit the job, or find the one that was submitted with this token; its id."""

    def state(self, job: str) -> tuple[bool, str]:
        """Whether it goes on, and its state in EMR's words."""

    def cancel(self, job: str) -> None:
        """Cancel it; one that has ended is left as it is."""


@dataclass(frozen=True)
class Sending:
    """What all command lines of a table have in common: S3 folders (`job`: what `compactor package` wrote), Spark's settings, and seconds."""

    job: str
    plans: str
    logs: str
    conf: tuple[tuple[str, str], ...] = ()
    seconds: float = 7200.0


class EmrRunner:
    """One command line. `job_config` returns the job configuration when it is sent; `attempt` names the try, "": one of its own."""

    def __init__(
        self, jobs: Jobs, sending: Sending, storage: Storage, job_config: Callable[[], bytes], attempt: str = "", poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._jobs, self._sending, self._storage, self._job_config = jobs, sending, storage, job_config
        self._attempt, self._poll_seconds = attempt or uuid.uuid4().hex, poll_seconds
        self._submitted: Submitted | None = None

    def submit(self, arguments: Sequence[str]) -> Submitted:
        """Send the command line; the same attempt again finds the same job."""
        said = self._sending
        token = hashlib.sha256("\0".join([*arguments, self._attempt]).encode()).hexdigest()[:48]
        plan, report = join(said.plans, f"{token}.json"), join(said.logs, "reports", token)
        self._storage.write(plan, self._job_config())
        parameters = ["--py-files", join(said.job, "compactor.zip")]
        for name, value in said.conf:
            parameters += ["--conf", f"{name}={value}"]
        name = " ".join(["compactor", *arguments[:2]])[:_NAME_CHARS_MAX]
        sent = ("--job-config", plan, "--report", report, *arguments)
        job = self._jobs.submit(Order(token, name, join(said.job, "main.py"), tuple(parameters), sent, said.logs, said.seconds))
        log.info("%s: job %s on %s, report below %s", name, job, self._jobs.place, report)
        self._submitted = Submitted(job, report, time.time() + said.seconds + QUEUE_SECONDS)
        return self._submitted

    def ended(self, submitted: Submitted) -> bool:
        """Whether it has ended. Raises Unavailable when its time is over; then it is cancelled."""
        goes_on, state = self._jobs.state(submitted.job)
        if goes_on and time.time() > submitted.until:
            self._jobs.cancel(submitted.job)
            raise Unavailable(
                f"job {submitted.job} on {self._jobs.place} was still {state} when its time was over, and is cancelled; raise `timeout`, or look "
                "what it waited for"
            )
        return not goes_on

    def result(self, submitted: Submitted, told: Callable[[str], None], since: int = 0) -> Ended:
        """How it ended, after its log from line `since` on. Raises Unavailable without a report: nobody knows."""
        self._tell(submitted, told, since)
        try:
            report: dict[str, Any] = json.loads(self._storage.read(join(submitted.report, "report.json")))
            return Ended(int(report["code"]), str(report["output"]), str(report["errors"]))
        except FileNotFoundError:
            state = self._jobs.state(submitted.job)[1]
            whose = f"its own logs are below {self._sending.logs}"
            raise Unavailable(f"job {submitted.job} on {self._jobs.place} ended without a report: {state}; {whose}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{submitted.report}: expected a job's report, found something else ({error})") from None

    def stop(self, submitted: Submitted) -> None:
        """Cancel it; harmless when it has ended."""
        self._jobs.cancel(submitted.job)

    def run(self, arguments: Sequence[str], told: Callable[[str], None]) -> Ended:
        """Run to the end."""
        submitted, shown = self.submit(arguments), 0
        try:
            while not self.ended(submitted):
                shown = self._tell(submitted, told, shown)
                time.sleep(self._poll_seconds)
        except BaseException:
            self.cancel()
            raise
        self._submitted = None
        return self.result(submitted, told, shown)

    def cancel(self) -> None:
        """Cancel what was sent from here and has not ended."""
        submitted, self._submitted = self._submitted, None
        if submitted is not None:
            self.stop(submitted)

    def _tell(self, submitted: Submitted, told: Callable[[str], None], since: int) -> int:
        try:
            lines = self._storage.read(join(submitted.report, "log.txt")).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return since
        for line in lines[since:]:
            told(line)
        return max(since, len(lines))


def refusal(error: Exception, what: str, operation: str, host: str) -> Refused:
    """An answer of EMR's that trying again does not change."""
    action = api_name(operation)
    problem = access_problem(error, host)
    if problem:
        return Refused(f"{what}: {problem}")
    told = f"{host} refused {action}"
    if code_of(error) in ("AccessDeniedException", "AccessDenied", "403"):
        told = f"not allowed to {action}: grant what docs/terraform.md lists for a caller"
    elif code_of(error) in ("ResourceNotFoundException", "InvalidRequestException", "ValidationException"):
        told = f"{host} does not know it, or does not take it in its state: correct `emr:` in compactor.yaml"
    return Refused(f"{what}: {told} ({words(error)})")
