"""Send a run's measures to CloudWatch with `PutMetricData`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.aws.client import AwsClient
from compactor.core.results.measures import Measure, TableMeasures, for_cloudwatch
from compactor.core.settings.aws import ClientConfig

_BATCH = 1000
"""The largest number of measures in one request."""


def send(tables: Sequence[TableMeasures], namespace: str, deployment: str, config: ClientConfig) -> None:
    """Send the values of tables under `namespace`, with the dimensions Deployment and Table. Raises Refused and Unavailable."""
    client = AwsClient("cloudwatch", config, otherwise="{host} refused {action}: grant cloudwatch:PutMetricData for the namespace")
    data = [_datum(*each, deployment) for each in for_cloudwatch(tables)]
    for start in range(0, len(data), _BATCH):

        def attempt(batch: list[dict[str, Any]] = data[start : start + _BATCH]) -> None:
            client.request("put_metric_data", f"metrics of {deployment}", Namespace=namespace, MetricData=batch)

        client.retry(f"metrics of {deployment}", "put them into CloudWatch", attempt)


def _datum(measure: Measure, table: str | None, value: float, deployment: str) -> dict[str, Any]:
    dimensions = [{"Name": "Deployment", "Value": deployment}, *([{"Name": "Table", "Value": table}] if table else [])]
    return {"MetricName": measure.name, "Dimensions": dimensions, "Value": value, "Unit": measure.unit}
