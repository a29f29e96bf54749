"""Jobs on EMR Serverless: job runs of an application. A job run's client token makes submitting twice harmless."""

from __future__ import annotations

import shlex
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import UNKNOWN, ExpectedError
from compactor.core.model.errors import Refused
from compactor.core.results.record import JobUsage
from compactor.runners.emr import FINAL_ERRORS, JobState, Order

ENDED = ("SUCCESS", "FAILED", "CANCELLED", "UNKNOWN")


class ServerlessJobs:
    """Job runs of the application with the id `application`, executed with the IAM role `role` (ARN)."""

    place = "EMR Serverless"

    def __init__(self, application: str, role: str, config: ClientConfig | None = None) -> None:
        self._application, self._role = application, role
        self._client = AwsClient("emr-serverless", config or ClientConfig(), FINAL_ERRORS)

    def submit(self, order: Order) -> str:
        """Start a job run and return its id."""
        spark = {"entryPoint": order.program, "entryPointArguments": [*order.arguments], "sparkSubmitParameters": shlex.join(order.parameters)}
        logs = {"monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": f"{order.logs.rstrip('/')}/"}}}

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
                executionTimeoutMinutes=order.minutes,
                tags=dict(order.tags) or None,
            )
            return str(answer["jobRunId"])

        return self._client.retry(order.name, "submit it to EMR Serverless", attempt)

    def state(self, job: str) -> JobState:
        """Return the state of a job run."""
        run = self._run(job)
        details, started = run.get("stateDetails"), run.get("startedAt")
        return JobState(run["state"] not in ENDED, run["state"] + (f" ({details})" if details else ""), started.timestamp() if started else None)

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
        """Cancel a job run. One that has ended is left unchanged."""
        where = {"applicationId": self._application, "jobRunId": job}
        try:
            self._client.retry(job, "cancel it on EMR Serverless", lambda: self._client.request("cancel_job_run", job, **where))
        except Refused:
            # EMR does not cancel a job that has ended, maybe a moment ago
            if self._run(job)["state"] not in (*ENDED, "CANCELLING"):
                raise

    def _run(self, job: str) -> dict[str, Any]:
        where = {"applicationId": self._application, "jobRunId": job}
        try:
            answer = self._client.retry(job, "look at it on EMR Serverless", lambda: self._client.request("get_job_run", job, (UNKNOWN,), **where))
        except ExpectedError:
            return {"state": "UNKNOWN", "stateDetails": "EMR has no such job"}
        run: dict[str, Any] = answer["jobRun"]
        return run
