"""The record that a comparison with the source leaves, and who shows it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from compactor.cli import console
from compactor.core.model import times
from compactor.core.reconcile.report import Cell, ReconcileReport, RowDifference, tally
from compactor.core.results.record import RunRecord
from compactor.core.results.timeline import last_run, problems
from compactor.flows.read.status import status
from compactor.flows.read.timeline import timelines
from compactor.flows.record import last_comparison, remember_comparison
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from compactor.report.page import page
from scripts import generated
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

SECRET = "4711-secret"


def report(outcome: str, *differences: RowDifference) -> ReconcileReport:
    """Of a table with one row more than the lake has."""
    kinds, cells = tally(differences)
    return ReconcileReport(
        "postgresql://db:5432/school t", "0/B", "0/A", 3, len(differences), kinds, cells, 0, (("tags", "text[] has no canonical form"),),
        "t", outcome, 1, 2, ("id", "a"), 1, 2, differences[:1], 1.5,
    )  # fmt: skip


DIFFERENT = report(
    "different",
    RowDifference({"id": SECRET}, "missing", (1, 0), (), "lake at 0/B"),
    *(RowDifference({"id": SECRET}, "changed", (1, 1), (Cell("a", SECRET, None),), "lake at 0/B") for _ in range(2)),
)
"""It describes one difference of three (--limit); the record counts all."""


def compared(*reports: ReconcileReport) -> Lake:
    """A lake with one version, and then these comparisons."""
    lake = Lake(table())
    lake.deliver("increment_2024030502/a.json", [line("c", [1], [1], {"a": 1}), line("c", [2], [2], {"a": 2})])
    run_tables(lake.env(), [lake.spec])
    for each in reports:
        lake.now += 60
        remember_comparison(Table(lake.env(), lake.spec), each)
    return lake


def test_a_comparison_is_recorded_beside_the_runs_without_values_of_rows() -> None:
    """It fits the schema of run records, and the last run stays the last run."""
    lake = compared(DIFFERENT)
    state = status(Table(lake.env(), lake.spec))
    record = state.last_comparison
    assert record is not None
    assert (record.verb, record.outcome, record.version, record.rows) == ("reconcile", "different", 1, 2)
    assert record.comparison is not None
    assert record.comparison.summary == "3 rows differ (2 changed, 1 missing; a in 2)"
    assert (record.comparison.skipped, record.comparison.source_rows) == ((("tags", "text[] has no canonical form"),), 3)
    stored = lake.storage.read(lake.layout.run(record.started, record.id))
    jsonschema.validate(json.loads(stored), generated.run_record_schema())
    assert RunRecord.from_bytes(stored) == record
    assert SECRET not in stored.decode()
    assert state.last_run is not None
    assert state.last_run.verb == "run"


@pytest.mark.parametrize(
    ("reports", "shown"),
    [((DIFFERENT,), True), ((DIFFERENT, report("equal")), False), ((report("unproven", *DIFFERENT.differences),), False)],
    ids=["different", "equal since", "unproven"],
)
def test_the_report_names_a_table_that_is_not_equal_to_its_source(reports: tuple[ReconcileReport, ...], shown: bool) -> None:
    """Until another comparison says otherwise. A comparison is no run: it hides no failure, and no silence of the scheduler."""
    lake = compared(*reports)
    now = times.to_seconds(lake.env().now())
    (timeline,) = timelines(lake.env(), [lake.spec], now, 50)
    listed = problems([timeline], now)
    assert [problem.text for problem in listed if "not equal" in problem.text] == [
        f"The table is not equal to its source: 3 rows differ (2 changed, 1 missing; a in 2), compared at {now_text(lake)}."
    ] * shown
    assert timeline.last_outcome == "committed"
    assert last_run(timeline) == pytest.approx(now - 60 * len(reports), abs=2)
    assert "compared with postgresql://db:5432/school t" in page([timeline], now, "school")


def now_text(lake: Lake) -> str:
    """The minute."""
    return lake.env().now()[:16].replace("T", " ")


@pytest.mark.parametrize(("outcome", "wide", "shown"), [("different", False, True), ("equal", False, False), ("equal", True, True)])
def test_status_shows_a_comparison_that_was_not_equal(outcome: str, wide: bool, shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Others only where there is room."""
    lake = compared(dataclasses.replace(DIFFERENT, outcome=outcome) if outcome == "different" else report(outcome))
    console.statuses([status(Table(lake.env(), lake.spec))], wide)
    assert ("compared with postgresql://db:5432/school t at " in capsys.readouterr().out) is shown


def test_a_record_that_cannot_be_written_does_not_fail_the_comparison(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever compares may have the right to read only."""
    lake = compared()

    class ReadOnly:
        def __getattr__(self, name: str) -> Any:
            return getattr(lake.storage, name)

        def write(self, path: str, data: bytes) -> None:
            from compactor.core.model.errors import Unavailable

            raise Unavailable("access denied")

    table_ = Table(dataclasses.replace(lake.env(), storage=ReadOnly()), lake.spec)
    remember_comparison(table_, DIFFERENT)
    assert "t: the run record was not written: access denied" in caplog.text
    assert last_comparison(Table(lake.env(), lake.spec)) is None
