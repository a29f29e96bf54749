"""Send a run's measures to CloudWatch with `PutMetricData`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import access_problem, words
from compactor.core.measures.measures import Value
from compactor.core.model.errors import Refused

_BATCH = 1000
"""The largest number of measures in one request."""


def send(values: Sequence[Value], namespace: str, deployment: str, config: ClientConfig | None = None) -> None:
    """Send values under `namespace`, with the dimensions Deployment and Table. Raises Refused and Unavailable."""
    client = AwsClient("cloudwatch", config or ClientConfig(operation_seconds=20.0), _refusal)
    for start in range(0, len(values), _BATCH):
        data = [_datum(value, deployment) for value in values[start : start + _BATCH]]

        def attempt(data: list[dict[str, Any]] = data) -> None:
            client.request("put_metric_data", f"metrics of {deployment}", Namespace=namespace, MetricData=data)

        client.retry(f"metrics of {deployment}", "put them into CloudWatch", attempt)


def _datum(value: Value, deployment: str) -> dict[str, Any]:
    dimensions = [{"Name": "Deployment", "Value": deployment}, *([{"Name": "Table", "Value": value.table}] if value.table else [])]
    return {"MetricName": value.measure.name, "Dimensions": dimensions, "Value": float(value.value), "Unit": value.measure.unit}


def _refusal(error: Exception, what: str, operation: str, host: str) -> Refused:
    problem = access_problem(error, host) or f"{host} refused PutMetricData: grant cloudwatch:PutMetricData for the namespace"
    return Refused(f"{what}: {problem} ({words(error)})")
