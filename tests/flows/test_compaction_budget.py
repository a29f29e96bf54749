"""The budget of a run: which tables are compacted, in which order, and what is said of those that wait."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.record import TableReport
from compactor.core.settings.forms import NEVER
from compactor.flows.read.status import plan, status
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

KEYS = 60


class Tables:
    """Three tables of equal bases whose Deltas have a few, many and some rows."""

    def __init__(self, **settings: Any) -> None:
        self.lake = Lake(table(target_file_bytes=1200, compact_window=NEVER, publish_window=1e9))
        self.specs = [
            dataclasses.replace(self.lake.spec, name=name, root=f"/lake/{name}", landing=f"/lake/{name}/in", view=name)
            for name in ("few", "many", "some")
        ]
        self._land(1, dict.fromkeys(("few", "many", "some"), KEYS))
        self._land(2, {"few": 12, "many": 50, "some": 25})
        self.specs = [dataclasses.replace(spec, **{"compact_window": (0, 1440), "compact_every": 0.0, **settings}) for spec in self.specs]

    def _land(self, number: int, rows: dict[str, int]) -> None:
        for spec in self.specs:
            lines = "\n".join(line("u", [key], [1000 * number + key], {"a": key}) for key in range(rows[spec.name]))
            self.lake.storage.write(f"{spec.landing}/increment_202601010{number}/a.json", lines.encode())
        self.run()

    def run(self, parallel: int = 1) -> dict[str, TableReport]:
        """One run of all tables."""
        self.lake.now += 10.0
        return {report.table: report for report in run_tables(self.lake.env(), self.specs, parallel=parallel)}

    def table(self, name: str) -> Table:
        """One of them."""
        return Table(self.lake.env(), next(spec for spec in self.specs if spec.name == name))

    def newest(self, name: str) -> Snapshot:
        """The newest version of one of them."""
        snapshot = self.table(name).newest()
        assert snapshot is not None
        return snapshot

    def rewritten(self, name: str) -> int:
        """Bytes of the first base that are not in the base any more."""
        kept = {segment.path for segment in self.newest(name).segments}
        first = self.table(name).committed(1)
        return sum(segment.size for segment in first.segments if segment.path not in kept)


def waiting(reports: dict[str, TableReport]) -> list[str]:
    """The tables whose report says that a compaction waits for the next run."""
    return [name for name, report in reports.items() if any("waits for the next run" in note for note in report.notes)]


def unlimited() -> dict[str, int]:
    """Bytes of each table that a run without a budget rewrites."""
    tables = Tables()
    reports = tables.run()
    assert [report.operations for report in reports.values()] == [("compact 3",)] * 3
    assert waiting(reports) == []
    return {name: tables.rewritten(name) for name in reports}


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_largest_delta_comes_first_and_the_rest_waits(parallel: int) -> None:
    """A budget that the first table exhausts: the next runs go on where this one ended, until nothing is left."""
    tables = Tables(compact_budget=1)
    assert status(tables.table("few")).compaction == "compaction is due in the next run, within 1 bytes for all its tables (`compact_budget`)"
    assert plan(tables.table("few")).steps == (status(tables.table("few")).compaction,)
    reports = tables.run(parallel)
    assert [report.operations for report in reports.values()] == [(), ("compact 3",), ()]
    assert waiting(reports) == ["few", "many", "some"]
    assert reports["few"].outcome == "idle"
    (note,) = reports["some"].notes
    spent, all_ = tables.rewritten("many"), unlimited()
    assert f"({all_['some']:,} bytes) waits for the next run: this one rewrites {spent:,} of 1 bytes (`compact_budget`)" in note
    assert 0 < spent < all_["many"]
    for _ in range(30):
        if not waiting(tables.run(parallel)):
            break
    assert {name: tables.rewritten(name) for name in all_} == all_
    assert {report.operations for report in tables.run().values()} == {()}
    assert status(tables.table("few")).compaction is None


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5, 2.5, 3.0])
def test_a_run_rewrites_no_more_than_its_budget(share: float) -> None:
    """Budgets of one base and a part of another."""
    tables = Tables()
    size = sum(segment.size for segment in tables.newest("many").segments)
    budget = int(size * share)
    tables.specs = [dataclasses.replace(spec, compact_budget=budget) for spec in tables.specs]
    reports = tables.run(parallel=2)
    rewritten = {name: tables.rewritten(name) for name in ("many", "some", "few")}
    assert 0 < sum(rewritten.values()) <= budget
    assert rewritten["many"] > 0
    all_ = unlimited()
    assert {name for name in rewritten if rewritten[name] < all_[name]} == {*waiting(reports)}


def test_a_table_whose_base_is_one_version_is_compacted_whole_or_not_at_all() -> None:
    """`read_optimized`: part of it would be a mixture. The first of a run is made at any size."""
    tables = Tables(compact_budget=1, read_optimized=True)
    before = tables.rewritten("many")
    reports = tables.run()
    assert (before, tables.newest("many").delta, waiting(reports)) == (0, None, ["few", "some"])
    assert tables.rewritten("few") == tables.rewritten("some") == 0


def test_a_compaction_that_somebody_asks_for_has_no_budget() -> None:
    """`compactor run --compact` takes everything that is worth it."""
    tables = Tables(compact_budget=1)
    tables.specs = [spec.compacting_now for spec in tables.specs]
    reports = tables.run()
    assert waiting(reports) == []
    assert {name: tables.rewritten(name) for name in reports} == unlimited()


def hours(spec: TableSpec, **settings: Any) -> TableSpec:
    """A table that is compacted at night."""
    return dataclasses.replace(spec, compact_window=(60, 300), **settings)


def test_outside_the_window_no_delta_is_compacted() -> None:
    """Report, plan and status say until when it waits."""
    tables = Tables()
    tables.lake.now = 21_000 * 86_400.0 + 12 * 3600.0
    tables.specs = [hours(spec) for spec in tables.specs]
    told = {spec.name: status(tables.table(spec.name)).compaction or "" for spec in tables.specs}
    for name in told:
        assert told[name].startswith("compaction waits for 01:00-05:00 UTC (`compact_window`); the Delta has ")
        assert plan(tables.table(name)).steps == (told[name],)
    for spec in tables.specs:
        tables.lake.storage.write(f"{spec.landing}/increment_2026010103/a.json", line("u", [0], [9000], {"a": 1}).encode())
    reports = tables.run()
    assert [report.operations for report in reports.values()] == [("commit 3",)] * 3
    assert [any("waits for 01:00-05:00 UTC" in note for note in report.notes) for report in reports.values()] == [True] * 3
    tables.lake.now += 14 * 3600.0
    assert [report.operations for report in tables.run().values()] == [("compact 4",)] * 3
