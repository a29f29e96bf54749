"""`archive: copy`: everything absorbed lies in the archive and in landing, wherever a run is cut."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.faults import MODES, Crash, every_fault
from tests.flows.test_every_crash import first, second, stages, third
from tests.oracle.lake import Lake, table


def finished(lake: Lake) -> None:
    """Everything was taken once, copied, and left to the sink."""
    newest = lake.newest()
    assert newest is not None
    assert lake.landing() == {name for name in lake.delivered if name not in replaced(lake)}
    outcomes = lake.outcomes(newest)
    for name, data in lake.delivered.items():
        place = lake.layout.quarantined(*name) if outcomes[name] == "quarantined" else lake.layout.archived(*name)
        assert lake.storage.read(place) == data
    assert len(lake.ledger(newest)) == len(lake.delivered)
    assert lake.failed_checks() == []


def replaced(lake: Lake) -> set[tuple[str, str]]:
    """Deliveries that the sink has written over since."""
    names = list(lake.delivered)
    return {name for at, name in enumerate(names) if name[0] in {path for path, _ in names[at + 1 :]}}


def rested(lake: Lake) -> None:
    """Run until nothing is left to do. A compaction makes the base larger, and may so make another one worth it; nothing else is done."""
    for _ in range(4):
        report = lake.run()
        if report.outcome == "idle":
            return
        assert all(operation.startswith("compact") for operation in report.operations)
    raise AssertionError("five runs, and still something to do")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_run_cut_at_any_call_and_run_again_has_copied_everything(mode: str) -> None:
    """And a further run finds nothing left to do."""
    for faults in every_fault(mode):
        lake = Lake(table(target_file_bytes=900, archive="copy"))
        first(lake)
        lake.run()
        second(lake)
        with suppress(Crash):
            lake.run(faults)
        lake.run()
        finished(lake)
        rested(lake)
        third(lake)
        lake.run()
        finished(lake)
        rested(lake)
        assert lake.look().rows == stages()[-1].look().rows  # type: ignore[union-attr]
    assert len(faults.calls) > 30
