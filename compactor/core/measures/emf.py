"""CloudWatch's embedded metric format: one JSON line a table, from which CloudWatch Logs makes metrics.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compactor.core.measures.measures import TIME, TableMeasures, Value


def line(table: TableMeasures, namespace: str, deployment: str, now: float) -> str:
    """Return the line of one table. Besides the metrics it has the run's outcome and label, which Logs Insights can search."""
    values = [value for value in table.values if value.measure.unit != TIME]
    by_table = [value for value in values if value.measure.by_table]
    directives = [_directive(namespace, ["Deployment"], values)] + ([_directive(namespace, ["Deployment", "Table"], by_table)] if by_table else [])
    record = table.record
    about: dict[str, Any] = {"Deployment": deployment, "Table": table.table}
    if record is not None:
        about.update(Run=record.label, Record=record.id, Outcome=record.outcome, Version=record.version, Error=record.error)
    about.update((each.measure.name, each.value) for each in values)
    return json.dumps({"_aws": {"Timestamp": int(now * 1000), "CloudWatchMetrics": directives}, **about}, ensure_ascii=False)


def _directive(namespace: str, dimensions: list[str], values: Sequence[Value]) -> dict[str, Any]:
    metrics = [{"Name": value.measure.name, "Unit": value.measure.unit} for value in values]
    return {"Namespace": namespace, "Dimensions": [dimensions], "Metrics": metrics}
