"""Jobs on an EMR cluster that is there already: steps. EMR takes no token for a step, so it is looked for by its name before it is added."""

from __future__ import annotations

from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.runners.emr import Order, refusal

GOES_ON = ("PENDING", "RUNNING", "CANCEL_PENDING")
_HERE = ("--conf", "spark.submit.deployMode=client")
"""The driver runs in the step itself: cancelling the step ends it. Said first, so that `emr: {spark: ..}` can say otherwise."""


class ClusterSteps:
    """`cluster` is its id, `j-...`."""

    place = "the EMR cluster"

    def __init__(self, cluster: str, reach: ClientConfig | None = None) -> None:
        self._cluster = cluster
        self._client = AwsClient("emr", reach or ClientConfig(), refusal)

    def submit(self, order: Order) -> str:
        """Its step's id. Two that add the same at the same moment both succeed, which the commit protocol bears."""
        name = f"{order.name} {order.token}"
        jar: dict[str, Any] = {"Jar": "command-runner.jar", "Args": ["spark-submit", *_HERE, *order.parameters, order.program, *order.arguments]}
        step = {"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}

        def attempt() -> str:
            # the newest fifty: a step that was added by the same attempt is among them
            found = self._client.ask("list_steps", order.name, ClusterId=self._cluster).get("Steps", [])
            known = [each["Id"] for each in found if each["Name"] == name]
            if known:
                return str(known[0])
            return str(self._client.ask("add_job_flow_steps", order.name, JobFlowId=self._cluster, Steps=[step])["StepIds"][0])

        return self._client.persist(order.name, "add it to the EMR cluster", attempt)

    def state(self, job: str) -> tuple[bool, str]:
        """Of a step."""

        def attempt() -> tuple[bool, str]:
            status = self._client.ask("describe_step", job, ClusterId=self._cluster, StepId=job)["Step"]["Status"]
            why = status.get("FailureDetails", {}).get("Message") or status.get("StateChangeReason", {}).get("Message")
            return status["State"] in GOES_ON, status["State"] + (f" ({why})" if why else "")

        return self._client.persist(job, "look at it on the EMR cluster", attempt)

    def cancel(self, job: str) -> None:
        """A step: one that waits goes, one that runs is ended."""
        if self.state(job)[0]:
            which = {"ClusterId": self._cluster, "StepIds": [job], "StepCancellationOption": "TERMINATE_PROCESS"}
            self._client.persist(job, "cancel it on the EMR cluster", lambda: self._client.ask("cancel_steps", job, **which))
