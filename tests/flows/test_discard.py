"""`archive_retention`: which raw files leave the archive, what the ledger and `verify` say of them, and that a crash loses count of none."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import pytest

from compactor.core.model.errors import InputRefused
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from tests.faults import MODES, Crash, every_fault
from tests.flows.test_every_crash import stages
from tests.oracle.lake import Lake
from tests.oracle.model import line
from tests.oracle.sizes import tiered

DAYS = 86400.0


def old() -> Lake:
    """The fixed program's table, ninety days later, with a fresh hour on top; of one archived file a record waits in quarantine."""
    lake = stages()[-1].copy()
    lake.spec = dataclasses.replace(lake.spec, archive_retention=60 * DAYS, keep_versions=99, feed_retention=999 * DAYS)
    lake.now += 90 * DAYS
    lake.deliver("increment_2026040100/fresh.json", [line("u", [7], [9000], {"a": 9000})])
    lake.run()
    return lake


def archived(lake: Lake) -> set[str]:
    """Names in the archive."""
    return {info.path.rpartition("/")[2].rpartition("~")[2] for info in lake.storage.list("/lake/t/archive")}


def test_what_is_old_and_wholly_in_the_table_goes() -> None:
    """Not the file of which a record waits, not the fresh one, nothing in quarantine."""
    lake = old()
    rows, waiting = lake.look().rows, [*lake.storage.list("/lake/t/quarantine")]  # type: ignore[union-attr]
    told = lake.vacuum(dry=True)
    before = archived(lake)
    assert {item.path.rpartition("/")[2].rpartition("~")[2] for item in told.swept} == before - {"late-again.json", "fresh.json"}
    done = lake.vacuum()
    assert done.swept == told.swept
    assert {item.reason for item in done.swept} == {"discarded"}
    assert archived(lake) == {"late-again.json", "fresh.json"}
    assert [*lake.storage.list("/lake/t/quarantine")] == waiting
    assert lake.look().rows == rows  # type: ignore[union-attr]
    assert lake.vacuum().swept == ()
    checks = {check.name: check for check in verify(Table(lake.env(), lake.spec), deep=True)}
    assert [check for check in checks.values() if not check.ok] == []
    assert "past `archive_retention`" in checks["view equals full recompute"].detail


def test_without_the_setting_the_archive_is_kept_for_ever() -> None:
    """As it is by default."""
    lake = old()
    lake.spec = dataclasses.replace(lake.spec, archive_retention=None)
    before = archived(lake)
    assert lake.vacuum().swept == ()
    assert archived(lake) == before


def test_what_a_restore_has_undone_stays() -> None:
    """Its rows are nowhere else; and what was discarded before is said to be missing when it is asked for."""
    lake = old()
    lake.restore(1)
    lake.vacuum()
    assert archived(lake) == {"a.json", "late.json", "late-again.json", "fresh.json"}
    assert lake.reabsorb().outcome == "committed"
    lake = old()
    lake.vacuum()
    lake.restore(1)
    with pytest.raises(InputRefused, match="`archive_retention`"):
        lake.reabsorb()


@pytest.mark.parametrize("mode", tiered(MODES, fast=["from_then_on"]))
def test_a_vacuum_cut_at_any_call_discards_what_the_ledger_says_and_nothing_else(mode: str) -> None:
    """Whatever is gone is noted; whatever is noted is gone after the next vacuum."""
    for faults in every_fault(mode):
        lake = old()
        before = {info.path for info in lake.storage.list("/lake/t/archive")}
        with suppress(Crash):
            lake.vacuum(faults)
        newest = lake.newest()
        assert newest is not None
        gone = before - {info.path for info in lake.storage.list("/lake/t/archive")}
        assert not gone or "discarded" in lake.outcomes(newest).values()
        lake.vacuum()
        lake.run()
        assert archived(lake) == {"late-again.json", "fresh.json"}
        assert lake.failed_checks() == []
        assert lake.run().outcome == "idle"
