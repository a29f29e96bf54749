"""Jobs on EMR Serverless: job runs of an application. A job run's client token makes submitting twice harmless."""

from __future__ import annotations

import shlex

from compactor.aws.client import AwsClient, ClientConfig
from compactor.runners.emr import Order, refusal

ENDED = ("SUCCESS", "FAILED", "CANCELLED")


class ServerlessJobs:
    """`application` (its id) runs them, `role` (its ARN) is what they run as."""

    place = "EMR Serverless"

    def __init__(self, application: str, role: str, reach: ClientConfig | None = None) -> None:
        self._application, self._role = application, role
        self._client = AwsClient("emr-serverless", reach or ClientConfig(), refusal)

    def submit(self, order: Order) -> str:
        """Its job run's id."""
        spark = {"entryPoint": order.program, "entryPointArguments": [*order.arguments], "sparkSubmitParameters": shlex.join(order.parameters)}
        logs = {"monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": f"{order.logs.rstrip('/')}/"}}}

        def attempt() -> str:
            answer = self._client.ask(
                "start_job_run",
                order.name,
                applicationId=self._application,
                executionRoleArn=self._role,
                clientToken=order.token,
                name=order.name,
                jobDriver={"sparkSubmit": spark},
                configurationOverrides=logs,
                executionTimeoutMinutes=order.minutes,
            )
            return str(answer["jobRunId"])

        return self._client.persist(order.name, "submit it to EMR Serverless", attempt)

    def state(self, job: str) -> tuple[bool, str]:
        """Of a job run."""

        def attempt() -> tuple[bool, str]:
            found = self._client.ask("get_job_run", job, applicationId=self._application, jobRunId=job)["jobRun"]
            details = found.get("stateDetails")
            return found["state"] not in ENDED, found["state"] + (f" ({details})" if details else "")

        return self._client.persist(job, "look at it on EMR Serverless", attempt)

    def cancel(self, job: str) -> None:
        """A job run."""
        if self.state(job)[0]:
            where = {"applicationId": self._application, "jobRunId": job}
            self._client.persist(job, "cancel it on EMR Serverless", lambda: self._client.ask("cancel_job_run", job, **where))
