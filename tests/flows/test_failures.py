"""The last run of a table in `status`: when it failed, why and how often. It is no part of the table."""

from __future__ import annotations

import dataclasses
import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, Refused, RegistryRefused, Stopped, Unavailable
from compactor.core.results import summary
from compactor.core.results.record import RunRecord, TableReport
from compactor.flows import logs
from compactor.flows.keep.vacuum import vacuum_if_due
from compactor.flows.read.status import status, statuses
from compactor.flows.run import failed_early
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from compactor.flows.verbs import adopt_table, rebuild_table, replay_table, restore_table
from compactor.flows.write import restore
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

HOUR = "increment_2026010100"


class FailingEngine:
    """An engine that cannot read."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, *_: Any) -> Any:
        raise self._error


def lake_with_a_file() -> Lake:
    lake = Lake(table(compact_every=1e9))
    lake.deliver(f"{HOUR}/a.json", [line("c", [1], [1], {"a": 1})])
    return lake


def run(lake: Lake, error: Exception | None = None) -> TableReport:
    lake.now += 60
    env = lake.env()
    engine: Any = FailingEngine(error) if error else None
    (report,) = run_tables(dataclasses.replace(env, engine=lambda: engine) if error else env, [lake.spec])
    return report


def last(lake: Lake) -> RunRecord | None:
    return status(Table(lake.env(), lake.spec)).last_run


def failures(lake: Lake) -> tuple[int, str | None]:
    record = last(lake)
    return (record.failures, record.error) if record else (0, None)


def test_status_has_the_last_run_and_how_often_it_failed() -> None:
    """Until a run does not fail; then the next failure counts from one again."""
    lake = lake_with_a_file()
    assert last(lake) is None
    run(lake, InputRefused("table t: a.json: no"))
    first = lake.env().now()
    report = run(lake, Unavailable("the store did not answer"))
    record = last(lake)
    assert record == report
    assert record is not None
    assert (record.outcome, record.error_class, record.error) == ("later", "Unavailable", "the store did not answer")
    assert (record.failures, record.failing_since, record.ended) == (2, first, lake.env().now())
    assert json.loads(json.dumps(status(Table(lake.env(), lake.spec)).to_json()))["last_run"]["failures"] == 2
    assert (run(lake).outcome, run(lake).outcome) == ("committed", "idle")
    assert failures(lake) == (0, None)
    lake.deliver(f"{HOUR}/b.json", [line("c", [2], [2], {"a": 1})])
    run(lake, ValueError("x"))
    assert failures(lake) == (1, "unexpected ValueError: x")


@pytest.mark.parametrize("error", ["refused", "later"])
def test_a_failure_is_over_when_a_later_run_finds_no_work(error: str) -> None:
    """Idle runs write no record of the table. They are looked for only where a run has failed, by one listing for all tables."""
    lake = Lake(table())
    if error == "refused":
        lake.deliver("wrong_folder/a.json", [line("c", [1], [1], {"a": 1})])
        assert run(lake).error_class == "InputRefused"
        lake.storage.delete([f"{lake.spec.landing}/wrong_folder/a.json"])
    else:
        lake.deliver(f"{HOUR}/a.json", [line("c", [1], [1], {"a": 1})])
        assert run(lake, Unavailable("no answer")).outcome == "later"
        lake.storage.delete([f"{lake.spec.landing}/{HOUR}/a.json"])
    assert [summary.state(item) for item in statuses([lake.table(), lake.table()])] == ["failed"] * 2
    assert run(lake).outcome == "idle"
    listed: list[str] = []
    storage, listing = lake.storage, lake.storage.list
    storage.list = lambda path: listed.append(path) or listing(path)  # type: ignore[method-assign, func-returns-value]
    found = statuses([lake.table(), lake.table()])
    assert [(summary.state(item), item.last_run and item.last_run.failures) for item in found] == [("idle", 0)] * 2
    assert listed.count("/lake/_runs") == 1
    lake.deliver(f"{HOUR}/a.json", [line("c", [1], [1], {"a": 1})])
    assert run(lake, InputRefused("no")).outcome == "failed"
    assert [summary.state(item) for item in statuses([lake.table()])] == ["failed"]


def test_what_an_operator_does_beside_failing_runs_hides_them_only_if_it_succeeds() -> None:
    """A mistyped command says nothing about the table, nor does Ctrl-C. Every one of them leaves its record."""
    lake = lake_with_a_file()
    run(lake)
    lake.deliver(f"{HOUR}/b.json", [line("c", [2], [2], {"a": 1})])
    run(lake)
    lake.deliver(f"{HOUR}/c.json", [line("c", [3], [3], {"a": 1})])
    run(lake, InputRefused("no"))
    with pytest.raises(Refused):
        replay_table(lake.table(), ["no such file"])
    with pytest.raises(Refused):
        adopt_table(lake.table(), "/lake/old", "increment_2026010100", dry=True)
    stopped = failed_early(lake.table(), Stopped("stopped"))
    assert isinstance(stopped, RunRecord)
    assert (stopped.outcome, failures(lake)) == ("stopped", (1, "no"))
    assert rebuild_table(lake.table(), dry=True).outcome == "equal"
    assert restore_table(lake.table(), restore.at_version(lake.table(), 2)).outcome == "idle"
    assert failures(lake) == (1, "no")
    restore_table(dataclasses.replace(lake.table(), label="by hand"), restore.at_version(lake.table(), 1))
    assert failures(lake) == (0, None)
    rebuild_table(lake.table(), accept=True)
    records = [RunRecord.from_bytes(lake.storage.read(info.path)) for info in lake.storage.list(lake.layout.runs())]
    ours = [(each.verb, each.outcome, each.version, each.operations, each.label) for each in records if each.verb != "run"]
    assert sorted(ours, key=str) == [
        ("adopt", "failed", None, (), ""),
        ("rebuild", "committed", 4, ("rebuild 4",), ""),
        ("replay", "failed", None, (), ""),
        ("restore", "committed", 3, ("restore 3",), "by hand"),
    ]
    assert {(each.files, each.bytes_read, each.before) for each in records if each.verb in ("restore", "rebuild")} == {(0, 0, 2), (0, 0, 3)}


def below_the_table(lake: Lake) -> dict[str, object]:
    """The files of the table itself. What a run leaves beside it is in tests/flows/test_idle.py."""
    return {path: stored for path, stored in lake.storage._objects.items() if path.startswith(lake.spec.root)}


def test_an_idle_run_neither_reads_nor_writes_the_record() -> None:
    """It stays as cheap as it was. A run that commits writes it, and reads it not."""
    lake = lake_with_a_file()
    run(lake, InputRefused("no"))
    asked: list[str] = []
    storage = lake.storage
    read = storage.read
    storage.read = lambda path: asked.append(path) or read(path)  # type: ignore[method-assign, func-returns-value]
    assert run(lake).outcome == "committed"
    before = below_the_table(lake)
    assert run(lake).outcome == "idle"
    assert below_the_table(lake) == before
    assert lake.layout.last_run() in before
    assert lake.layout.last_run() not in asked


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 2}', b'{"format": 1, "other": 1}', b"\xff"])
def test_a_record_that_cannot_be_read_counts_for_nothing(content: bytes) -> None:
    """Nothing decides by it; the next failure writes it anew."""
    lake = lake_with_a_file()
    lake.storage.write(lake.layout.last_run(), content)
    assert last(lake) is None
    run(lake, InputRefused("no"))
    assert failures(lake) == (1, "no")


def test_no_run_fails_because_its_failure_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The store that does not answer is often the failure itself."""
    lake = lake_with_a_file()
    # the marks of its owner are there
    run(lake, Unavailable("no"))

    def refuse(path: str, data: bytes) -> None:
        raise Unavailable("s3: no answer")

    monkeypatch.setattr(lake.storage, "write", refuse)
    assert run(lake, Unavailable("no")).error == "no"
    assert "t: the run record was not written: s3: no answer" in caplog.text


def test_vacuum_knows_the_record_and_starts_nothing_where_nothing_may_go() -> None:
    """Neither engine nor catalog is asked; once something may go, both are."""
    lake = lake_with_a_file()
    run(lake, InputRefused("no"))
    run(lake)

    def no_more() -> Any:
        raise AssertionError("a vacuum without work asked the engine or the catalog")

    report = vacuum_if_due(Table(dataclasses.replace(lake.env(), engine=no_more, catalog=no_more), lake.spec))
    assert (report.dry, report.version, report.swept, report.expired) == (False, 1, (), ())
    lake.spec = dataclasses.replace(lake.spec, keep=0.0, keep_versions=1, grace=0.0, write_mode="copy-on-write")
    for hour in range(1, 4):
        lake.deliver(f"increment_202601010{hour}/a.json", [line("u", [1], [hour + 1], {"a": hour})])
        run(lake)
    lake.now += 10
    with pytest.raises(AssertionError, match="asked the engine or the catalog"):
        vacuum_if_due(Table(dataclasses.replace(lake.env(), catalog=no_more), lake.spec))
    assert vacuum_if_due(lake.table()).expired


def test_replay_and_restore_report_how_long_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run does."""
    lake = lake_with_a_file()
    run(lake)
    lake.deliver(f"{HOUR}/b.json", [line("c", [2], [2], {"a": 1})])
    run(lake)
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    restored = restore_table(lake.table(), restore.at_version(lake.table(), 1))
    assert [restored.seconds > 0, lake.reabsorb().seconds > 0, lake.replay().seconds > 0] == [True] * 3


def test_a_failure_of_the_registry_is_recorded_too() -> None:
    """It comes before the run of the table."""
    lake = lake_with_a_file()
    report = failed_early(dataclasses.replace(lake.table(), label="hourly"), RegistryRefused("no such subject"))
    assert (report.outcome, report) == ("failed", last(lake))
    assert failures(lake) == (1, "no such subject")
