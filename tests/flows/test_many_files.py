"""Very many files in one folder: several commits of one run ingest them, and no Snapshot describes all of them at once."""

from __future__ import annotations

import pytest

from compactor.flows.read.status import plan
from compactor.flows.write import commit
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


def test_a_run_ingests_more_files_than_one_commit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report counts them all, each file is ingested once, and the rows are those of all files, whatever commit their events come in."""
    monkeypatch.setattr(commit, "FILES_MAX", 10)
    lake = Lake(table(history=True, feed="net"))
    for at in range(25):
        # later files have older events
        lake.deliver(f"increment_2024030500/{at:03}.json", [line("c", [at % 7], [100 - at], {"a": at})])
    report = lake.run()
    newest = lake.newest()
    assert newest is not None
    assert (report.files, report.counts["read"], report.archived) == (25, 25, 25)
    assert [operation.partition(" ")[0] for operation in report.operations if not operation.startswith("compact")] == ["commit"] * 3
    assert [len(each.inputs) for each in lake.committed() if each.operation == "commit"] == [10, 10, 5]
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    assert lake.landing() == set()
    assert lake.failed_checks() == []
    assert lake.run().outcome == "idle"


def test_the_size_of_snapshots_and_the_time_of_a_plan_grow_no_faster_than_the_files() -> None:
    """A Snapshot has about 1 kB for each file that it ingested, and the one after it nothing."""
    sizes = {}
    for count in (200, 800):
        lake = Lake(table(archive="keep"))
        for at in range(count):
            lake.deliver(f"increment_2024030500/{at:07}.json", [line("c", [at % 7], [at], {"a": at})])
        assert plan(lake.table()).steps[0].startswith(f"read {count} new files")
        lake.run()
        lake.deliver("increment_2024030501/x.json", [line("c", [1], [count], {"a": 1})])
        lake.run()
        sizes[count] = [len(each.to_bytes()) for each in lake.committed() if each.operation == "commit"]
    assert sizes[800][0] < 4 * sizes[200][0] < 4 * 200 * 1200
    assert sizes[800][1] < sizes[200][1] + 2000
