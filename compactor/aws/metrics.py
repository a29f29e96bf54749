"""Measures into CloudWatch: one `PutMetricData` after each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.aws.client import AwsClient, ClientConfig
from compactor.aws.retry import access_problem, words
from compactor.core.model.errors import Refused
from compactor.core.results.measures import Measure

_BATCH = 1000
"""The most that a request takes."""


def send(measures: Sequence[Measure], namespace: str, deployment: str, reach: ClientConfig | None = None) -> None:
    """Raises Refused, Unavailable."""
    client = AwsClient("cloudwatch", reach or ClientConfig(operation_seconds=20.0), _refusal)
    for start in range(0, len(measures), _BATCH):
        data = [_datum(measure, deployment) for measure in measures[start : start + _BATCH]]

        def attempt(data: list[dict[str, Any]] = data) -> None:
            client.ask("put_metric_data", f"metrics of {deployment}", Namespace=namespace, MetricData=data)

        client.persist(f"metrics of {deployment}", "put them into CloudWatch", attempt)


def _datum(measure: Measure, deployment: str) -> dict[str, Any]:
    dimensions = [{"Name": "Deployment", "Value": deployment}, *([{"Name": "Table", "Value": measure.table}] if measure.table else [])]
    return {"MetricName": measure.name, "Dimensions": dimensions, "Value": float(measure.value), "Unit": measure.unit}


def _refusal(error: Exception, what: str, operation: str, host: str) -> Refused:
    problem = access_problem(error, host) or f"{host} refused PutMetricData: grant cloudwatch:PutMetricData for the namespace"
    return Refused(f"{what}: {problem} ({words(error)})")
