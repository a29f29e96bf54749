"""Jobs as steps of an existing EMR cluster. EMR accepts no token for a step, so `submit` searches for a step with the same name first."""

from __future__ import annotations

from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import UNKNOWN, ExpectedError
from compactor.core.results.record import JobUsage
from compactor.runners.emr import FINAL_ERRORS, JobState, Order

ACTIVE = ("PENDING", "RUNNING", "CANCEL_PENDING")
_HERE = ("--conf", "spark.submit.deployMode=client")
"""Run the driver in the step itself, so that cancelling the step ends it. It comes first, so that `emr: {spark: ..}` can override it."""


class ClusterSteps:
    """Steps of the cluster with the id `cluster` (`j-...`)."""

    place = "the EMR cluster"

    def __init__(self, cluster: str, config: ClientConfig | None = None) -> None:
        self._cluster = cluster
        self._client = AwsClient("emr", config or ClientConfig(), FINAL_ERRORS)

    def submit(self, order: Order) -> str:
        """Add a step and return its id. Two concurrent calls may both add it; the commit protocol makes that harmless."""
        name = f"{order.name} {order.token}"
        jar: dict[str, Any] = {"Jar": "command-runner.jar", "Args": ["spark-submit", *_HERE, *order.parameters, order.program, *order.arguments]}
        step = {"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}

        def attempt() -> str:
            # the newest fifty: a step of the same attempt is among them
            steps = self._client.request("list_steps", order.name, ClusterId=self._cluster).get("Steps", [])
            added = [each["Id"] for each in steps if each["Name"] == name]
            if added:
                return str(added[0])
            return str(self._client.request("add_job_flow_steps", order.name, JobFlowId=self._cluster, Steps=[step])["StepIds"][0])

        return self._client.retry(order.name, "add it to the EMR cluster", attempt)

    def state(self, job: str) -> JobState:
        """Return the state of a step."""

        def attempt() -> JobState:
            try:
                status = self._client.request("describe_step", job, (UNKNOWN,), ClusterId=self._cluster, StepId=job)["Step"]["Status"]
            except ExpectedError:
                return JobState(False, "UNKNOWN (EMR has no such job)")
            why = status.get("FailureDetails", {}).get("Message") or status.get("StateChangeReason", {}).get("Message")
            started = status.get("Timeline", {}).get("StartDateTime")
            return JobState(status["State"] in ACTIVE, status["State"] + (f" ({why})" if why else ""), started.timestamp() if started else None)

        return self._client.retry(job, "look at it on the EMR cluster", attempt)

    def links(self, job: str) -> dict[str, str]:
        """Return the cluster's page in the console, which lists its steps and Spark's UI."""
        region = self._client.region
        return {"EMR console": f"https://{region}.console.aws.amazon.com/emr/home?region={region}#/clusterDetails/{self._cluster}"}

    def usage(self, job: str) -> JobUsage | None:
        """Return None: a cluster is paid for whole, not by step."""
        return None

    def cancel(self, job: str) -> None:
        """Cancel a step that waits, or end one that runs."""
        if self.state(job).active:
            which = {"ClusterId": self._cluster, "StepIds": [job], "StepCancellationOption": "TERMINATE_PROCESS"}
            self._client.retry(job, "cancel it on the EMR cluster", lambda: self._client.request("cancel_steps", job, **which))
