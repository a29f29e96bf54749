"""The last failure of a table: when, what and how often, in `status`. It is no part of the table, and a run that succeeds pays nothing for it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, Unavailable
from compactor.core.results.reports import LastFailure, TableReport
from compactor.flows import failures, logs
from compactor.flows.keep.vacuum import vacuum_if_due
from compactor.flows.read.status import status
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
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


def last(lake: Lake) -> LastFailure | None:
    return status(Table(lake.env(), lake.spec)).last_failure


def test_status_has_the_last_failure_and_how_often_it_failed() -> None:
    """Until a version is newer; then the next failure counts from one again."""
    lake = lake_with_a_file()
    assert last(lake) is None
    assert run(lake, InputRefused("table t: a.json: no")).failures == 1
    first = lake.env().now()
    report = run(lake, Unavailable("the store did not answer"))
    assert (report.outcome, report.failures) == ("later", 2)
    assert last(lake) == LastFailure(lake.env().now(), "Unavailable", "unavailable", "the store did not answer", 2, first, over=False)
    assert json.loads(json.dumps(status(Table(lake.env(), lake.spec)).to_json()))["last_failure"]["count"] == 2
    assert (run(lake).outcome, run(lake).failures) == ("committed", 0)
    over = last(lake)
    assert over is not None
    assert (over.over, over.count) == (True, 2)
    lake.deliver(f"{HOUR}/b.json", [line("c", [2], [2], {"a": 1})])
    assert run(lake, ValueError("x")).failures == 1
    failed = last(lake)
    assert failed is not None
    assert (failed.over, failed.text, failed.error_class) == (False, "unexpected ValueError: x", "ValueError")


def below_the_table(lake: Lake) -> dict[str, object]:
    """The files of the table itself. What a run leaves beside it is in tests/flows/test_idle.py."""
    return {path: stored for path, stored in lake.storage._objects.items() if path.startswith(lake.spec.root)}


def test_a_run_that_succeeds_neither_reads_nor_writes_the_record() -> None:
    """An idle run stays as cheap as it was, also after a failure."""
    lake = lake_with_a_file()
    run(lake, InputRefused("no"))
    record = lake.layout.last_failure()
    run(lake)
    asked: list[str] = []
    storage = lake.storage
    read = storage.read
    storage.read = lambda path: asked.append(path) or read(path)  # type: ignore[method-assign, func-returns-value]
    before = below_the_table(lake)
    assert run(lake).outcome == "idle"
    assert below_the_table(lake) == before
    assert record in before
    assert record not in asked


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 2}', b'{"format": 1, "other": 1}', b"\xff"])
def test_a_record_that_cannot_be_read_counts_for_nothing(content: bytes) -> None:
    """Nothing decides by it; the next failure writes it anew."""
    lake = lake_with_a_file()
    lake.storage.write(lake.layout.last_failure(), content)
    assert last(lake) is None
    assert run(lake, InputRefused("no")).failures == 1
    assert last(lake) is not None


def test_no_run_fails_because_its_failure_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The store that does not answer is often the failure itself."""
    lake = lake_with_a_file()

    def refuse(path: str, data: bytes) -> None:
        raise Unavailable("s3: no answer")

    monkeypatch.setattr(lake.storage, "write", refuse)
    assert run(lake, Unavailable("no")).error == "no"
    assert "t: the failure was not recorded: s3: no answer" in caplog.text


def test_vacuum_knows_the_record_and_starts_nothing_where_nothing_may_go() -> None:
    """Neither engine nor catalog is asked; once something may go, both are."""
    lake = lake_with_a_file()
    run(lake, InputRefused("no"))
    run(lake)

    def no_more() -> Any:
        raise AssertionError("a vacuum without work asked the engine or the catalog")

    report = vacuum_if_due(Table(dataclasses.replace(lake.env(), engine=no_more, catalog=no_more), lake.spec), "x")
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
    assert [lake.restore(1).seconds > 0, lake.reabsorb().seconds > 0, lake.replay().seconds > 0] == [True] * 3


def test_a_failure_of_the_registry_is_remembered_too() -> None:
    """It comes before the run of the table."""
    lake = lake_with_a_file()
    report = failures.remember(lake.table(), TableReport("t", "failed", error="no such subject", error_class="RegistryRefused", exit_code=1))
    assert report.failures == 1
    assert failures.remember(lake.table(), TableReport("t", "stopped", error="x", exit_code=130)).failures == 0
