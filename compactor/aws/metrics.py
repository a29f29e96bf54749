"""Send a run's measures to CloudWatch with `PutMetricData`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import access_problem, words
from compactor.core.model.errors import Refused
from compactor.core.results.measures import Measure

_BATCH = 1000
"""The largest number of measures in one request."""


def send(measures: Sequence[Measure], namespace: str, deployment: str, config: ClientConfig | None = None) -> None:
    """Send measures under `namespace`, with the dimensions Deployment and Table. Raises Refused and Unavailable."""
    client = AwsClient("cloudwatch", config or ClientConfig(operation_seconds=20.0), _refusal)
    for start in range(0, len(measures), _BATCH):
        data = [_datum(measure, deployment) for measure in measures[start : start + _BATCH]]

        def attempt(data: list[dict[str, Any]] = data) -> None:
            client.request("put_metric_data", f"metrics of {deployment}", Namespace=namespace, MetricData=data)

        client.retry(f"metrics of {deployment}", "put them into CloudWatch", attempt)


def _datum(measure: Measure, deployment: str) -> dict[str, Any]:
    dimensions = [{"Name": "Deployment", "Value": deployment}, *([{"Name": "Table", "Value": measure.table}] if measure.table else [])]
    return {"MetricName": measure.name, "Dimensions": dimensions, "Value": float(measure.value), "Unit": measure.unit}


def _refusal(error: Exception, what: str, operation: str, host: str) -> Refused:
    problem = access_problem(error, host) or f"{host} refused PutMetricData: grant cloudwatch:PutMetricData for the namespace"
    return Refused(f"{what}: {problem} ({words(error)})")
