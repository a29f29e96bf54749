"""Dashboards drawn from the list of measures: the body of a CloudWatch dashboard, which Terraform creates, and a dashboard that Grafana imports."""

from __future__ import annotations

from typing import Any

from compactor.core.results.measures import BYTES, COUNT, MAXIMUM, MEASURES, PERCENT, SECONDS, TIME, Measure

_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 6
_GRAFANA_UNITS = {COUNT: "short", SECONDS: "s", BYTES: "bytes", PERCENT: "percent", TIME: "dateTimeFromNow"}

NAMESPACE, DEPLOYMENT, REGION = "${namespace}", "${deployment}", "${region}"
"""Placeholders that Terraform's `templatefile` fills in."""


def cloudwatch() -> dict[str, Any]:
    """Return the body of a CloudWatch dashboard: a graph for each measure, with every table where the list says so."""
    shown = [measure for measure in MEASURES if measure.unit != TIME]
    return {"widgets": [_widget(measure, number) for number, measure in enumerate(shown)]}


def _widget(measure: Measure, number: int) -> dict[str, Any]:
    metrics: list[Any] = [[NAMESPACE, measure.name, "Deployment", DEPLOYMENT, {"label": "all tables"}]]
    if measure.by_table:
        search = f"SEARCH('{{{NAMESPACE},Deployment,Table}} MetricName=\"{measure.name}\" Deployment=\"{DEPLOYMENT}\"', '{measure.statistic}')"
        metrics.append([{"expression": search, "id": "tables", "label": ""}])
    properties = {"title": f"{measure.name}: {measure.text}", "view": "timeSeries", "region": REGION, "stat": measure.statistic, "period": 3600}
    place = {"x": number % _COLUMNS * _WIDTH, "y": number // _COLUMNS * _HEIGHT, "width": _WIDTH, "height": _HEIGHT}
    return {"type": "metric", **place, "properties": {**properties, "metrics": metrics}}


def grafana() -> dict[str, Any]:
    """Return a dashboard for Grafana with a Prometheus source that the import asks for."""
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    panels = [_panel(measure, number, source) for number, measure in enumerate(MEASURES)]
    names = [("deployment", "label_values(compactor_failed_runs, deployment)"), ("table", "label_values(compactor_failed_runs, table)")]
    variables = [
        {"name": name, "type": "query", "datasource": source, "query": query, "includeAll": True, "multi": True, "refresh": 2}
        for name, query in names
    ]
    choice = {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus", "pluginName": "Prometheus"}
    return {
        "__inputs": [choice],
        "title": "compactor",
        "uid": "compactor",
        "schemaVersion": 39,
        "time": {"from": "now-2d", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }


def _panel(measure: Measure, number: int, source: dict[str, str]) -> dict[str, Any]:
    chosen = '{deployment=~"$deployment",table=~"$table"}'
    scale = "1000 * " if measure.unit == TIME else ""
    by = f"{'max' if measure.statistic == MAXIMUM else 'sum'} by (table)"
    return {
        "id": number + 1,
        "type": "timeseries" if measure.unit != TIME else "table",
        "title": measure.name,
        "description": measure.text,
        "datasource": source,
        "gridPos": {"x": number % _COLUMNS * _WIDTH, "y": number // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": _GRAFANA_UNITS.get(measure.unit, "short")}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": source,
                "expr": f"{scale}{by} ({measure.prometheus}{chosen})",
                "legendFormat": "{{table}}",
                "instant": measure.unit == TIME,
                "format": "time_series" if measure.unit != TIME else "table",
            }
        ],
    }
