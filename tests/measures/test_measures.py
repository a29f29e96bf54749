"""The figures that alarms and dashboards show: what they say of a table's life, and that each monitoring system takes them."""

from __future__ import annotations

import dataclasses
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from compactor.app import App
from compactor.aws import metrics
from compactor.aws.client import ClientConfig
from compactor.core.measures import dashboards, emf, prometheus
from compactor.core.measures.measures import (
    BACKLOG,
    COST,
    DELTA_SHARE,
    FAILED_RUNS,
    FRESHNESS,
    LANDING_LAG,
    MEASURES,
    QUARANTINED,
    TIME,
    Measured,
    TableMeasures,
    for_cloudwatch,
    of_table,
)
from compactor.core.measures.price import JobUsage, Prices
from compactor.core.measures.record import Phase, RunRecord
from compactor.core.model.errors import Refused, StateRefused, Unavailable
from compactor.core.results.reports import TableReport, TableStatus
from compactor.core.settings.metrics import MetricsSettings
from compactor.flows.read.measure import measure
from compactor.flows.record import CpuMeter
from compactor.flows.run import replay_table
from compactor.flows.run_tables import run_tables
from compactor.runtime import Runtime
from compactor.telemetry import files
from compactor.telemetry import http as sinks_http
from compactor.telemetry.process import cpu_seconds
from scripts import generated
from tests.measures.lineage_client import RUN_EVENT, problems
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.parts.s3 import Server

ROOT = Path(__file__).parents[2]
NOW = 1_709_607_600.0
"""2024-03-05T03:00:00Z"""

RECORD = RunRecord(
    "0a1b2c3d", "t", "run", "committed", "2024-03-05T02:59:00.000Z", "2024-03-05T03:00:00.000Z", 60.0, "hourly", "0.1.0", 12.5,
    (Phase("read", 20.0, 5.0), Phase("publish", 40.0)), 1, 2, ("commit 2",), 3, {"read": 10, "applied": 7, "late": 2, "duplicate": 1}, 100,
    bytes_read=1000, bytes_written=300, bytes_rewriting=9000, bytes_stored=9000, delta_rows=7, delta_bytes=900, job=JobUsage("j", 0.5, 2.0, 0.04, "USD"),
)  # fmt: skip


def status(source_time: str | None = None, oldest_waiting: str | None = None, quarantined: int = 0, **more: Any) -> TableStatus:
    """A table of which this is known."""
    empty = TableStatus("t", 1, None, None, None, 0, 0, 0, 0, 0, 0, 1, "base-only", 0, 0, None, 0, 0)
    return dataclasses.replace(empty, source_time=source_time, oldest_waiting=oldest_waiting, quarantined=quarantined, **more)


STATUS = status("2024-03-05T02:00:00Z", "2024-03-05T01:00", 2, newest_folder="2024-03-05T00:00", bytes=9000, delta_bytes=900)


def measured(*names: str) -> Measured:
    """Values of these tables, all alike."""
    return Measured(NOW, tuple(TableMeasures(name, tuple(of_table(name, STATUS, "committed", RECORD, NOW)), RECORD) for name in names))


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
    values = {value.measure: value.value for value in of_table("t", current, "failed", None, NOW)}
    assert (values.get(FRESHNESS), values[BACKLOG], values[QUARANTINED], values[FAILED_RUNS]) == (freshness, backlog, quarantined, 1.0)
    assert DELTA_SHARE not in values


def test_every_measure_has_a_value_after_a_full_run() -> None:
    """Of the table, of the run, of its job."""
    values = {value.measure: value.value for value in of_table("t", STATUS, "committed", RECORD, NOW)}
    assert [*values] == [each for each in values if each in MEASURES]
    assert set(values) == set(MEASURES)
    assert (values[DELTA_SHARE], values[COST], values[LANDING_LAG]) == (10.0, 0.04, 3 * 3600.0)


def test_totals_add_or_take_the_worst() -> None:
    """One value a measure for CloudWatch, and single tables only where each metric's price is worth it."""
    behind = TableMeasures("u", tuple(of_table("u", status("2024-03-05T01:00:00Z", None, 1), "failed", None, NOW)))
    values = [(value.measure.name, value.table, value.value) for value in for_cloudwatch([*measured("t").tables, behind])]
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
    assert run_tables(lake.env(), [lake.spec])[0].record is None
    lake.deliver("increment_2024030503/a.json", ["{oops"])
    (failed,) = run_tables(lake.env(), [lake.spec])
    stored = [RunRecord.from_bytes(lake.storage.read(info.path)) for info in lake.storage.list(lake.layout.runs())]
    assert sorted(stored, key=str) == sorted([record for record in (report.record, failed.record) if record], key=str)
    record = report.record
    assert record is not None
    assert (record.outcome, record.version, record.made, record.label, record.events["applied"]) == ("committed", 1, ("commit 1",), "hourly", 2)
    assert (record.bytes_written, record.bytes_rewriting, record.newest_folder) == (record.bytes_stored, record.bytes_stored, "2024-03-05T02:00")
    assert [phase.name for phase in record.phases] == ["discover", "read", "resolve", "check", "publish", "archive"]
    assert failed.record is not None
    assert failed.record.error_class == "InputRefused"
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
    assert replay_table(lake.table()).record is not None
    with pytest.raises(Refused):
        replay_table(lake.table(), ["no such file"])
    records = [RunRecord.from_bytes(lake.storage.read(info.path)) for info in lake.storage.list(lake.layout.runs())]
    assert sorted((record.operation, record.outcome) for record in records) == [("replay", "committed"), ("replay", "failed")]


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


def test_the_cpu_time_of_a_process_is_shared_by_the_tables_that_run() -> None:
    """Equally; what runs alone has all of it."""
    clock = [10.0]
    meter = CpuMeter(lambda: clock[0])
    assert meter.used("a") == 0.0
    clock[0] = 14.0
    assert (meter.used("a"), meter.used("b")) == (4.0, 0.0)
    clock[0] = 20.0
    assert (meter.used("b", ended=True), meter.used("a")) == (3.0, 7.0)
    clock[0] = 21.0
    assert meter.used("a", ended=True) == 8.0
    assert CpuMeter(lambda: None).used("a") is None
    assert (cpu_seconds() or 1.0) > 0


def test_a_run_is_measured_and_never_fails_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """What waits, what failed; a monitoring system may be away, and the others get their values all the same."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1})])
    sent: list[Measured] = []

    def away(values: Measured) -> None:
        raise Unavailable("CloudWatch does not answer")

    measure(lake.env(), [lake.spec], [TableReport("t", "failed", error="no")], [away, sent.append], None)
    values = {value.measure.name: value.value for value in sent[0].tables[0].values}
    assert (values["FailedRuns"], values["QuarantinedFiles"]) == (1, 0)
    assert values["BacklogSeconds"] > 0
    assert "CloudWatch does not answer" in caplog.text


def test_a_table_without_work_is_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Airflow no job runs for it on EMR: without data the alarm of freshness would ring."""
    (tmp_path / "compactor.yaml").write_text("metrics: {deployment: acme}\ntables: {student: {key: [id]}, ledger: {key: [id]}}")
    landed = tmp_path / "warehouse" / "ledger" / "incremental" / "increment_2024030502" / "a.json"
    landed.parent.mkdir(parents=True)
    landed.write_text('{"id": 1}\n')
    sent: list[tuple[str, str, set[str]]] = []
    monkeypatch.setattr(
        metrics, "send", lambda values, namespace, deployment, client: sent.append((namespace, deployment, {each.measure.name for each in values}))
    )
    with App.open(tmp_path / "compactor.yaml") as app:
        assert [report.table for report in app.idle()] == ["student"]
        assert app.idle(["ledger"]) == []
        assert not app.runtime.started
    assert sent == [("Compactor", "acme", {"FailedRuns", "QuarantinedFiles", "BacklogSeconds"})]


# ---- sinks -----------------------------------------------------------------------------------------------------------


def test_cloudwatch_takes_them(server: Server) -> None:
    """Each with its dimensions."""
    metrics.send(for_cloudwatch(measured("t").tables), "Compactor", "acme", ClientConfig("us-east-1", server.url))
    client = boto3.client("cloudwatch", region_name="us-east-1", endpoint_url=server.url)
    named = {
        (each["MetricName"], tuple((one["Name"], one["Value"]) for one in each["Dimensions"]))
        for each in client.list_metrics(Namespace="Compactor")["Metrics"]
    }
    whole = (("Deployment", "acme"),)
    assert named == {(each.name, whole) for each in MEASURES if each.unit != TIME} | {("FreshnessSeconds", (*whole, ("Table", "t")))}


def test_prometheus_own_client_reads_the_text() -> None:
    """Every measure once for each table, with text and type; any label value is quoted."""
    tables = measured("student", 'a"b\\c\nd').tables
    families = {family.name: family for family in text_string_to_metric_families(prometheus.text(tables, {"deployment": "acme"}))}
    assert set(families) == {each.prometheus for each in MEASURES}
    for each in MEASURES:
        family = families[each.prometheus]
        assert (family.type, family.documentation) == ("gauge", each.text)
        assert [sample.labels for sample in family.samples] == [{"deployment": "acme", "table": table.table} for table in tables]
    assert [sample.value for sample in families["compactor_source_timestamp_seconds"].samples] == [NOW - 3600] * 2


def test_an_embedded_metric_names_only_members_that_are_numbers() -> None:
    """As the specification of the format asks for: every metric of a directive is a member, every dimension a text."""
    document = json.loads(emf.line(measured("t").tables[0], "Compactor", "acme", NOW))
    assert document["_aws"]["Timestamp"] == NOW * 1000
    whole, single = document["_aws"]["CloudWatchMetrics"]
    assert (whole["Dimensions"], single["Dimensions"]) == ([["Deployment"]], [["Deployment", "Table"]])
    assert [metric["Name"] for metric in single["Metrics"]] == [each.name for each in MEASURES if each.by_table]
    for metric in (*whole["Metrics"], *single["Metrics"]):
        assert isinstance(document[metric["Name"]], float)
    assert (document["Deployment"], document["Table"], document["Outcome"]) == ("acme", "t", "committed")


def test_files_are_written_whole_and_by_table(tmp_path: Path) -> None:
    """Lines are added; a Prometheus file is replaced. What cannot be written is a clear error."""
    settings = MetricsSettings("acme", emf=str(tmp_path / "a/emf.log"), json=str(tmp_path / "a/runs.jsonl"), prometheus=str(tmp_path / "prom"))
    for _ in range(2):
        files.write_emf(measured("t", "u"), settings)
        files.write_records(measured("t"), settings)
        files.write_prometheus(measured("t", "u"), settings)
    assert [json.loads(each)["Table"] for each in (tmp_path / "a/emf.log").read_text().splitlines()] == ["t", "u"] * 2
    assert [RunRecord.from_json(json.loads(each)) for each in (tmp_path / "a/runs.jsonl").read_text().splitlines()] == [RECORD] * 2
    assert sorted(path.name for path in (tmp_path / "prom").iterdir()) == ["compactor_acme_t.prom", "compactor_acme_u.prom"]
    with pytest.raises(Unavailable, match="cannot be written"):
        files.write_emf(measured("t"), dataclasses.replace(settings, emf=str(tmp_path / "prom")))


class _Receiver(http.server.BaseHTTPRequestHandler):
    got: list[tuple[str, str | None, bytes]] = []  # noqa: RUF012 - one test uses it
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers.get("Authorization"), body))
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    """An HTTP server on this machine."""
    _Receiver.got.clear()
    _Receiver.status = 200
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_values_and_events_are_posted(receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group for each table at the pushgateway, with names in base64 because a path has no room for every letter; a token for OpenLineage."""
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    settings = MetricsSettings("acme/eu", pushgateway=receiver, openlineage=f"{receiver}/api/v1/lineage")
    sinks_http.push(measured("t"), settings)
    sinks_http.send_events(Measured(NOW, (), ({"eventType": "START"},)), settings)
    (pushed, none, text), (path, token, event) = _Receiver.got
    assert (pushed, none) == ("/metrics/job@base64/Y29tcGFjdG9y/deployment@base64/YWNtZS9ldQ==/table@base64/dA==", None)
    assert len([*text_string_to_metric_families(text.decode())]) == len(MEASURES)
    assert (path, token, json.loads(event)) == ("/api/v1/lineage", "Bearer secret", {"eventType": "START"})


@pytest.mark.parametrize(("status", "error"), [(400, Refused), (302, Refused), (429, Unavailable), (503, Unavailable)])
def test_an_error_response_is_final_or_not(receiver: str, status: int, error: type[Exception]) -> None:
    """Nothing is sent on to where a redirect points."""
    _Receiver.status = status
    with pytest.raises(error, match=f"127.0.0.1 answered with status {status}"):
        sinks_http.push(measured("t"), MetricsSettings(pushgateway=receiver))


def test_an_address_is_not_shown() -> None:
    """It may have a token in it."""
    with pytest.raises(Refused, match="not shown"):
        sinks_http.post("file:///etc/passwd", b"", {})
    with pytest.raises(Unavailable, match=r"^127.0.0.1 does not answer"):
        sinks_http.post("http://user:token@127.0.0.1:9/x", b"", {})


def test_the_events_of_a_run_are_what_openlineage_publishes() -> None:
    """START and COMPLETE, or FAIL: by the classes that its client has from the published schemas; columns come from the landed fields."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1})])
    committed = run_tables(lake.env(), [lake.spec])
    lake.deliver("increment_2024030503/a.json", ["{oops"])
    failed = run_tables(lake.env(), [lake.spec])
    sent: list[Measured] = []
    for reports in (committed, failed):
        measure(lake.env(), [lake.spec], reports, [sent.append], "acme")
    events = [event for each in sent for event in each.events]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "FAIL"]
    assert [problem for event in events for problem in problems(event, RUN_EVENT)] == []
    assert len({event["run"]["runId"] for event in events}) == 2
    output = events[1]["outputs"][0]
    assert output["facets"]["version"]["datasetVersion"] == "1"
    assert output["facets"]["columnLineage"]["fields"]["a"]["inputFields"][0]["field"] == "a"
    assert (output["namespace"], output["name"]) == ("file", "/lake/t")
    for damaged in ({**events[1], "job": {"name": "x"}}, {**events[1], "run": {"runId": "no uuid"}}, {**events[1], "inputs": [{"namespace": "n"}]}):
        assert problems(damaged, RUN_EVENT)


def test_which_sinks_there_are(tmp_path: Path) -> None:
    """What is configured. A cluster writes no files that would go with it, and prints what goes to the log."""
    text = "emf: log, json: runs.jsonl, prometheus: prom, pushgateway: 'http://127.0.0.1:1', openlineage: events.jsonl"
    (tmp_path / "compactor.yaml").write_text(f"metrics: {{deployment: acme, {text}}}\ntables: {{student: {{key: [id]}}}}")
    with App.open(tmp_path / "compactor.yaml") as app:
        target = app.settings.metrics_target
        assert target is not None
        assert (target.json, target.emf, target.lineage_job) == (str(tmp_path / "runs.jsonl"), "log", "acme")
        assert len(app.runtime.sinks()) == 6
        assert len(app.runtime.sinks(local=False)) == 2
        config = type(app.runtime.config).read(app.job_config(["student"]).written())
        assert config.metrics == dataclasses.replace(target, pushgateway=None, openlineage=None)
    (tmp_path / "compactor.yaml").write_text("metrics: {prices: {vcpu_hour: 0.05}}\ntables: {student: {key: [id]}}")
    with App.open(tmp_path / "compactor.yaml") as app:
        assert app.settings.metrics_target is None
        assert isinstance(app.runtime, Runtime)
        assert app.runtime.sinks() == []


def test_a_cost_needs_prices() -> None:
    """Without any, nothing is estimated."""
    usage = JobUsage("j", 2.0, 8.0)
    assert usage.share(0.5, Prices(0.05, 0.005, "EUR")) == JobUsage("j", 1.0, 4.0, 0.07, "EUR")
    assert usage.share(1.0, Prices()) == usage


# ---- a job on EMR ----------------------------------------------------------------------------------------------------


def test_the_sender_of_a_job_adds_its_bill_to_the_records(tmp_path: Path, receiver: str) -> None:
    """By the seconds of each table's run; files are written here, and the pushgateway gets all values from here."""
    text = f"deployment: acme, cloudwatch: false, json: runs.jsonl, pushgateway: '{receiver}', prices: {{vcpu_hour: 0.05, memory_gb_hour: 0.005}}"
    (tmp_path / "compactor.yaml").write_text(f"metrics: {{{text}}}\ntables: {{a: {{key: [id]}}, b: {{key: [id]}}, c: {{key: [id]}}}}")
    records = [dataclasses.replace(RECORD, table=name, seconds=seconds, job=None) for name, seconds in (("a", 30.0), ("b", 90.0))]
    reports = [TableReport(record.table, record.outcome, record=record) for record in records] + [TableReport("c", "idle")]
    with App.open(tmp_path / "compactor.yaml") as app:
        app.finished(json.dumps([report.to_json() for report in reports]), JobUsage("job-1", 2.0, 8.0))
        stored = [RunRecord.from_bytes(app.runtime.storage.read(app.table(name).layout.run(RECORD.started, RECORD.id))) for name in "ab"]
        assert [record.job for record in stored] == [JobUsage("job-1", 0.5, 2.0, 0.035, "USD"), JobUsage("job-1", 1.5, 6.0, 0.105, "USD")]
        app.finished("no JSON", None)
    assert [RunRecord.from_json(json.loads(each)) for each in (tmp_path / "runs.jsonl").read_text().splitlines()] == stored
    pushed = [{family.name for family in text_string_to_metric_families(body.decode())} for _, _, body in _Receiver.got]
    assert [{"compactor_vcpu_hours", "compactor_memory_gb_hours", "compactor_estimated_cost"} <= names for names in pushed] == [True, True, False]
