"""The figures that alarms and dashboards show: what they say of a table's life, and that each monitoring system takes them."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import boto3
import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from compactor import telemetry
from compactor.app import App
from compactor.aws import metrics
from compactor.aws.client import ClientConfig
from compactor.core.model.errors import Refused, StateRefused, Unavailable
from compactor.core.results.measures import (
    BACKLOG,
    DELTA_SHARE,
    FAILED_RUNS,
    FRESHNESS,
    LANDING_LAG,
    MEASURES,
    QUARANTINED,
    TIME,
    VCPU_HOURS,
    TableMeasures,
    for_cloudwatch,
    of_table,
)
from compactor.core.results.record import JobUsage, Phase, RunRecord, TableReport
from compactor.core.results.reports import TableStatus
from compactor.flows.read.status import measure
from compactor.flows.run_tables import run_tables
from compactor.flows.verbs import replay_table
from scripts import dashboards, generated
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.s3 import Server

ROOT = Path(__file__).parents[2]
NOW = 1_709_607_600.0
"""2024-03-05T03:00:00Z"""

RECORD = RunRecord(
    "t", "committed", 2, ("commit 2",), 3, {"read": 10, "applied": 7, "late": 2, "duplicate": 1}, 100, before=1, bytes_read=1000, bytes_written=300,
    bytes_rewriting=9000, bytes_stored=9000, delta_rows=7, delta_bytes=900, seconds=60.0, id="0a1b2c3d", started="2024-03-05T02:59:00.000Z",
    ended="2024-03-05T03:00:00.000Z", label="hourly", program="0.1.0", phases=(Phase("read", 20.0), Phase("publish", 40.0)),
    job=JobUsage("j", 0.5, 2.0),
)  # fmt: skip


def status(source_time: str | None = None, oldest_waiting: str | None = None, quarantined: int = 0, **more: Any) -> TableStatus:
    """A table of which this is known."""
    empty = TableStatus("t", 1, None, None, None, 0, 0, 0, 0, 0, 0, 1, "base-only", 0, 0, None, 0, 0)
    return dataclasses.replace(empty, source_time=source_time, oldest_waiting=oldest_waiting, quarantined=quarantined, **more)


STATUS = status("2024-03-05T02:00:00Z", "2024-03-05T01:00", 2, newest_folder="2024-03-05T00:00", bytes=9000, delta_bytes=900)


def measured(*names: str) -> list[TableMeasures]:
    """Values of these tables, all alike."""
    return [of_table(STATUS, dataclasses.replace(RECORD, table=name), NOW) for name in names]


@pytest.mark.parametrize(
    ("current", "freshness", "backlog", "quarantined"),
    [
        (status("2024-03-05T02:59:00Z"), 60.0, 0.0, 0),
        (status("2024-03-05T02:00:00+00:00", "2024-03-05T01:00", 2), 3600.0, 7200.0, 2),
        (status("2024-03-05T03:00:05.250Z", "2024-03-05T03:00"), 0.0, 0.0, 0),
        (status(), None, 0.0, 0),
    ],
    ids=["up to date", "behind", "a source's clock that is ahead", "nothing yet"],
)
def test_a_table_in_numbers(current: TableStatus, freshness: float | None, backlog: float, quarantined: int) -> None:
    """Whatever is unknown has no value, which CloudWatch takes for missing."""
    values = of_table(current, TableReport("t", "failed"), NOW).values
    assert (values.get(FRESHNESS), values[BACKLOG], values[QUARANTINED], values[FAILED_RUNS]) == (freshness, backlog, quarantined, 1.0)
    assert DELTA_SHARE not in values


def test_every_measure_has_a_value_after_a_full_run() -> None:
    """Of the table, of the run, of its job."""
    values = of_table(STATUS, RECORD, NOW).values
    assert tuple(values) == MEASURES
    assert (values[DELTA_SHARE], values[VCPU_HOURS], values[LANDING_LAG]) == (10.0, 0.5, 3 * 3600.0)


def test_totals_add_or_take_the_worst() -> None:
    """One value a measure for CloudWatch, and single tables only where each metric's price is worth it."""
    behind = of_table(status("2024-03-05T01:00:00Z", None, 1), TableReport("u", "failed"), NOW)
    values = [(measure.name, table, value) for measure, table, value in for_cloudwatch([*measured("t"), behind])]
    assert {("FailedRuns", None, 1.0), ("FreshnessSeconds", None, 7200.0), ("QuarantinedFiles", None, 2.0)} <= {*values}
    assert [each for each in values if each[1]] == [("FreshnessSeconds", "t", 3600.0), ("FreshnessSeconds", "u", 7200.0)]
    assert not [each for each in values if "Timestamp" in each[0]]


# ---- the list, the alarms and the dashboards -------------------------------------------------------------------------


def test_the_alarms_are_on_measures_of_the_list() -> None:
    """Names, statistics, and the namespace's dimension, as Terraform has them."""
    text = re.sub(" +", " ", (ROOT / "terraform/monitoring.tf").read_text(encoding="utf-8"))
    watched = dict(re.findall(r'metric = "(\w+)"\s+statistic = "(\w+)"', text))
    assert len(watched) == 4
    assert watched.items() <= {each.name: each.statistic for each in MEASURES}.items()
    assert "deployment = { Deployment = var.name }" in text


@pytest.mark.parametrize("name", generated.FILES)
def test_what_is_made_from_the_list_is_up_to_date(name: str) -> None:
    """`make docs` writes it again."""
    assert (ROOT / name).read_text(encoding="utf-8") == generated.content(name)


def test_both_dashboards_show_every_measure() -> None:
    """And nothing else. CloudWatch has no moments."""
    titles = [widget["properties"]["title"].split(":")[0] for widget in dashboards.cloudwatch()["widgets"]]
    assert titles == [each.name for each in MEASURES if each.unit != TIME]
    panels = dashboards.grafana()["panels"]
    assert [re.findall(r"compactor_\w+", panel["targets"][0]["expr"]) for panel in panels] == [[each.prometheus] for each in MEASURES]
    assert {panel["id"] for panel in panels} == set(range(1, len(MEASURES) + 1))


def test_the_page_explains_every_measure() -> None:
    """docs/operations.md, in both spellings."""
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [each.name for each in MEASURES if f"| `{each.name}` | `{each.prometheus}` | {each.unit if each.unit != 'None' else ''}" not in page] == []


# ---- runs are measured and recorded ----------------------------------------------------------------------------------


def test_a_run_is_recorded_beside_the_snapshots_and_the_record_fits_its_schema() -> None:
    """Runs that did something, and failed ones; idle runs write nothing."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1}), line("c", [2], [2], {"a": 2})])
    (report,) = run_tables(lake.env(), [lake.spec], label="hourly")
    assert not isinstance(run_tables(lake.env(), [lake.spec])[0], RunRecord)
    lake.deliver("increment_2024030503/a.json", ["{oops"])
    (failed,) = run_tables(lake.env(), [lake.spec])
    stored = [RunRecord.from_bytes(lake.storage.read(info.path)) for info in lake.storage.list(lake.layout.runs())]
    assert sorted(stored, key=str) == sorted([report, failed], key=str)
    record = next(each for each in stored if each == report)
    assert (record.outcome, record.version, record.operations, record.label, record.counts["applied"]) == ("committed", 1, ("commit 1",), "hourly", 2)
    assert (record.bytes_written, record.bytes_rewriting, record.newest_folder) == (record.bytes_stored, record.bytes_stored, "2024-03-05T02:00")
    assert [phase.name for phase in record.phases] == ["discover", "read", "resolve", "check", "publish", "archive"]
    assert failed.error_class == "InputRefused"
    for each in (RECORD, *stored):
        jsonschema.validate(json.loads(each.to_bytes()), generated.run_record_schema())
        assert RunRecord.from_bytes(each.to_bytes()) == each
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**RECORD.to_json(), "seconds": "60"}, generated.run_record_schema())


def test_a_record_of_another_format_is_refused() -> None:
    """And damaged text, with what to do."""
    for text in ("{", json.dumps({**RECORD.to_json(), "format": 2}), json.dumps({"format": 1})):
        with pytest.raises(StateRefused, match=r"run record x"):
            RunRecord.from_bytes(text.encode(), "x")


def test_a_replay_is_recorded_also_when_it_fails() -> None:
    """It is a run of its own."""
    lake = Lake(table())
    lake.deliver(
        "increment_2024030502/a.json", [line("c", [1], [1], {"a": 1}), "{oops", line("c", [2], [2], {"a": 1}), line("c", [3], [3], {"a": 1})]
    )
    lake.run()
    assert isinstance(replay_table(lake.table()), RunRecord)
    with pytest.raises(Refused):
        replay_table(lake.table(), ["no such file"])
    records = [RunRecord.from_bytes(lake.storage.read(info.path)) for info in lake.storage.list(lake.layout.runs())]
    assert sorted((record.verb, record.outcome) for record in records) == [("replay", "committed"), ("replay", "failed")]


def test_vacuum_deletes_old_records() -> None:
    """After 90 days; a dry run lists them."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1})])
    run_tables(lake.env(), [lake.spec])
    assert not lake.vacuum().swept
    lake.now += 91 * 86400
    assert [(item.reason, item.files) for item in lake.vacuum(dry=True).swept] == [("record", 1)]
    lake.vacuum()
    assert not [*lake.storage.list(lake.layout.runs())]


def test_a_run_is_measured_and_never_fails_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """What waits, what failed; a monitoring system may be away, and the others get their values all the same."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1})])
    sent: list[Any] = []

    def away(values: Any) -> None:
        raise Unavailable("CloudWatch does not answer")

    measure(lake.env(), [lake.spec], [TableReport("t", "failed", error="no")], [away, sent.append])
    ((one,),) = sent
    assert (one.values[FAILED_RUNS], one.values[QUARANTINED]) == (1, 0)
    assert one.values[BACKLOG] > 0
    assert "CloudWatch does not answer" in caplog.text


def test_a_table_without_work_is_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Airflow no job runs for it on EMR: without data the alarm of freshness would ring."""
    (tmp_path / "compactor.yaml").write_text("metrics: {deployment: acme}\ntables: {student: {key: [id]}, ledger: {key: [id]}}")
    landed = tmp_path / "warehouse" / "ledger" / "incremental" / "increment_2024030502" / "a.json"
    landed.parent.mkdir(parents=True)
    landed.write_text('{"id": 1}\n')
    sent: list[tuple[str, str, set[str]]] = []
    monkeypatch.setattr(
        metrics, "send", lambda tables, namespace, deployment, config: sent.append((namespace, deployment, {each.name for each in tables[0].values}))
    )
    with App.open(tmp_path / "compactor.yaml") as app:
        assert [report.table for report in app.idle()] == ["student"]
        assert (app.idle(["ledger"]), app.idle([])) == ([], [])
        assert not app.runtime.started
    assert sent == [("Compactor", "acme", {"FailedRuns", "QuarantinedFiles", "BacklogSeconds", "RunTimestampSeconds"})]


# ---- sinks -----------------------------------------------------------------------------------------------------------


def test_cloudwatch_takes_them(server: Server) -> None:
    """Each with its dimensions."""
    metrics.send(measured("t"), "Compactor", "acme", ClientConfig("us-east-1", server.url))
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=server.url)
    named = {
        (each["MetricName"], tuple((one["Name"], one["Value"]) for one in each["Dimensions"]))
        for each in client.list_metrics(Namespace="Compactor")["Metrics"]
    }
    whole = (("Deployment", "acme"),)
    assert named == {(each.name, whole) for each in MEASURES if each.unit != TIME} | {("FreshnessSeconds", (*whole, ("Table", "t")))}


def test_prometheus_own_client_reads_the_files(tmp_path: Path) -> None:
    """One a table: every measure once, with text and type; any label value is quoted."""
    names = ("student", 'a"b\\c\nd')
    for _ in range(2):
        telemetry.write_prometheus(measured(*names), str(tmp_path / "prom"), "acme/eu")
    written = sorted((tmp_path / "prom").iterdir())
    assert [path.name for path in written] == ["compactor_acme_eu_a_b_c_d.prom", "compactor_acme_eu_student.prom"]
    for path, name in zip(written, reversed(names)):
        families = {family.name: family for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))}
        assert [*families] == [each.prometheus for each in MEASURES]
        for each in MEASURES:
            family = families[each.prometheus]
            assert (family.type, family.documentation) == ("gauge", each.text)
            assert [sample.labels for sample in family.samples] == [{"deployment": "acme/eu", "table": name}]
        assert families["compactor_source_timestamp_seconds"].samples[0].value == NOW - 3600
    with pytest.raises(Unavailable, match="cannot be written"):
        telemetry.write_prometheus(measured("t"), str(written[0]), "acme")


def test_records_are_added_to_a_file(tmp_path: Path) -> None:
    """An idle run has none."""
    place = tmp_path / "a/runs.jsonl"
    telemetry.write_records([of_table(STATUS, TableReport("t", "idle"), NOW)], str(place))
    assert not place.exists()
    for _ in range(2):
        telemetry.write_records(measured("t"), str(place))
    assert [RunRecord.from_json(json.loads(each)) for each in place.read_text().splitlines()] == [RECORD] * 2
    with pytest.raises(Unavailable, match="cannot be written"):
        telemetry.write_records(measured("t"), str(tmp_path))


# ---- a job on EMR ----------------------------------------------------------------------------------------------------


def test_the_sender_of_a_job_adds_its_bill_to_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the seconds of each table's run; every sink gets its values from here, and no table is left out."""
    sent: list[TableMeasures] = []
    monkeypatch.setattr(metrics, "send", lambda tables, namespace, deployment, config: sent.extend(tables))
    (tmp_path / "compactor.yaml").write_text(
        "metrics: {deployment: acme, json: runs.jsonl, prometheus: prom}\ntables: {a: {key: [id]}, b: {key: [id]}, c: {key: [id]}}"
    )

    def unknown() -> JobUsage:
        raise Refused("not allowed to GetJobRun")

    records = [dataclasses.replace(RECORD, table=name, seconds=seconds, job=None) for name, seconds in (("a", 30.0), ("b", 90.0))]
    reports: list[TableReport] = [*records, TableReport("c", "idle")]
    with App.open(tmp_path / "compactor.yaml") as app:
        assert "acme" not in app.job_config(["a"]).written().decode()
        # the time of a table that has left the configuration is its own
        left = dataclasses.replace(RECORD, table="gone", seconds=120.0, job=None)
        app.finished(json.dumps([report.to_json() for report in (*reports, left)]), lambda: JobUsage("job-1", 4.0, 16.0))
        stored = [RunRecord.from_bytes(app.runtime.storage.read(app.table(name).layout.run(RECORD.started, RECORD.id))) for name in "ab"]
        assert [record.job for record in stored] == [JobUsage("job-1", 0.5, 2.0), JobUsage("job-1", 1.5, 6.0)]
        app.finished("no JSON", lambda: None)
        # neither a table that has left the configuration nor an unknown usage loses the measures of the others
        app.finished(json.dumps([TableReport(name, "idle").to_json() for name in ("gone", "c")]), unknown)
    assert [RunRecord.from_json(json.loads(each)) for each in (tmp_path / "runs.jsonl").read_text().splitlines()] == stored
    assert sorted(path.name for path in (tmp_path / "prom").iterdir()) == [f"compactor_acme_{name}.prom" for name in "abc"]
    assert [(each.table, each.values.get(VCPU_HOURS)) for each in sent] == [("a", 0.5), ("b", 1.5), ("c", None), ("c", None)]


def test_nothing_is_measured_without_a_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of the deployment alone is the wish for CloudWatch; `cloudwatch: false` takes it back."""
    monkeypatch.setattr("compactor.flows.read.status.status", lambda table: pytest.fail("the state of the table was read for nobody"))
    (tmp_path / "compactor.yaml").write_text("metrics: {deployment: acme, cloudwatch: false}\ntables: {student: {key: [id]}}")
    with App.open(tmp_path / "compactor.yaml") as app:
        assert [report.outcome for report in app.idle()] == ["idle"]
