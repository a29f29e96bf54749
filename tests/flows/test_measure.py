"""The numbers that alarms watch: what they say of a table's life, and that CloudWatch takes them."""

from __future__ import annotations

import re
from pathlib import Path

import boto3
import pytest

from compactor.app import App
from compactor.aws import metrics
from compactor.aws.client import ClientConfig
from compactor.core.model.errors import Unavailable
from compactor.core.results.measures import Measure, TableProgress, measures
from compactor.core.results.reports import TableReport
from compactor.flows.read.measure import measure
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.s3 import Server

NOW = 1_709_607_600.0
"""2024-03-05T03:00:00Z"""


@pytest.mark.parametrize(
    ("standing", "freshness", "backlog", "quarantined"),
    [
        (TableProgress("t", "2024-03-05T02:59:00Z", None, 0), 60.0, 0.0, 0),
        (TableProgress("t", "2024-03-05T02:00:00+00:00", "2024-03-05T01:00", 2), 3600.0, 7200.0, 2),
        (TableProgress("t", "2024-03-05T03:00:05.250Z", "2024-03-05T03:00", 0), 0.0, 0.0, 0),
        (TableProgress("t", None, None, 0), None, 0.0, 0),
    ],
    ids=["up to date", "behind", "a source's clock that is ahead", "nothing yet"],
)
def test_a_table_in_numbers(standing: TableProgress, freshness: float | None, backlog: float, quarantined: int) -> None:
    """Freshness of all and of the table; none of what nobody knows, which CloudWatch takes for missing."""
    found = [*measures(1, [standing], NOW)]
    fresh = [] if freshness is None else [Measure("FreshnessSeconds", freshness, "Seconds"), Measure("FreshnessSeconds", freshness, "Seconds", "t")]
    rest = [Measure("BacklogSeconds", backlog, "Seconds"), Measure("QuarantinedFiles", quarantined, "Count")]
    assert found == [Measure("FailedRuns", 1, "Count"), *fresh, *rest]


def test_the_alarms_are_on_these_numbers() -> None:
    """Names, and the namespace's dimension, as Terraform has them."""
    text = (Path(__file__).parents[2] / "terraform/monitoring.tf").read_text(encoding="utf-8")
    watched = set(re.findall(r'metric += "(\w+)"', text))
    assert watched == {each.name for each in measures(0, [TableProgress("t", "2024-03-05T02:00:00Z", None, 0)], NOW)}
    assert "deployment = { Deployment = var.name }" in re.sub(" +", " ", text)


def test_a_run_is_measured_and_never_fails_of_it() -> None:
    """What waits, what failed; CloudWatch may be away."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1})])
    sent: list[Measure] = []
    reports = [TableReport("t", "failed", error="no"), TableReport("u", "later"), TableReport("v", "idle")]
    measure(lake.env(), [lake.spec], reports, sent.extend)
    told = {each.name: each.value for each in sent}
    assert told["FailedRuns"] == 1
    assert told["QuarantinedFiles"] == 0
    assert told["BacklogSeconds"] > 0

    def away(found: object) -> None:
        raise Unavailable("CloudWatch does not answer")

    measure(lake.env(), [lake.spec], reports, away)


def test_a_table_without_work_is_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Airflow no job runs for it on EMR: without data the alarm of freshness would ring."""
    (tmp_path / "compactor.yaml").write_text("metrics: {deployment: acme}\ntables: {student: {key: [id]}, ledger: {key: [id]}}")
    landed = tmp_path / "warehouse" / "ledger" / "incremental" / "increment_2024030502" / "a.json"
    landed.parent.mkdir(parents=True)
    landed.write_text('{"id": 1}\n')
    sent: list[tuple[str, str, set[str]]] = []
    monkeypatch.setattr(
        metrics, "send", lambda found, namespace, deployment, client: sent.append((namespace, deployment, {each.name for each in found}))
    )
    with App.open(tmp_path / "compactor.yaml") as app:
        assert [report.table for report in app.idle()] == ["student"]
        assert app.idle(["ledger"]) == []
        assert not app.runtime.started
    assert sent == [("Compactor", "acme", {"FailedRuns", "QuarantinedFiles", "BacklogSeconds"})]


def test_cloudwatch_takes_them(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its dimensions."""
    found = [*measures(2, [TableProgress("t", "2024-03-05T02:00:00Z", None, 3)], NOW)]
    metrics.send(found, "Compactor", "acme", ClientConfig("us-east-1", server.url))
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=server.url)
    named = {
        (each["MetricName"], tuple((one["Name"], one["Value"]) for one in each["Dimensions"]))
        for each in client.list_metrics(Namespace="Compactor")["Metrics"]
    }
    whole = (("Deployment", "acme"),)
    assert named == {(name, whole) for name in ("FailedRuns", "FreshnessSeconds", "BacklogSeconds", "QuarantinedFiles")} | {
        ("FreshnessSeconds", (*whole, ("Table", "t")))
    }
