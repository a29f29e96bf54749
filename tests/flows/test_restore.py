"""Restore: an older state as a new Snapshot, undone and redone, with later increments on top; and pins."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pytest

from compactor.core.model.errors import Conflict, Refused, TryLater
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import discard_table
from compactor.flows.write import restore
from tests.faults import Crash, Faults, every_fault
from tests.flows.test_every_crash import WAYS, first, second, stages, third
from tests.oracle.lake import Lake, table
from tests.oracle.memo import anew, digest
from tests.oracle.model import line
from tests.oracle.sizes import tiered
from tests.oracle.watch import Watch, at_every_call, watched

AGAIN = 2
"""The version of `stages()` that is brought back: a commit whose Delta adds a column that the first has not."""


def rows_by_version(lake: Lake) -> dict[int, Any]:
    """What each version showed."""
    return {snapshot.version: lake.expected(snapshot) for snapshot in lake.committed()}


def outcomes(lake: Lake) -> dict[str, str]:
    """By path, what became of each input."""
    newest = lake.newest()
    assert newest is not None
    return {path: outcome for (path, _), outcome in lake.outcomes(newest).items()}


def test_the_state_of_any_version_comes_back_as_a_new_one() -> None:
    """Shown at once, equal to one resolve of what is not undone, with the columns it had."""
    for version in range(1, stages()[-1].newest().version):  # type: ignore[union-attr]
        lake = stages()[-1].copy()
        watch = Watch(lake)
        watch.look()
        before = rows_by_version(lake)
        report = lake.restore(version)
        newest = lake.newest()
        assert newest is not None
        assert (newest.operation, newest.restored, report.version) == ("restore", version, newest.version)
        seen = lake.look()
        assert seen is not None
        assert (seen.version, seen.rows) == (newest.version, before[version])
        watch.settled()


def test_restoring_what_is_newest_finishes_what_a_run_left() -> None:
    """Readers see that version afterwards."""
    lake = stages()[-1].copy()
    lake.deliver("increment_2026040100/fresh.json", [line("u", [7], [9000], {"a": 9000})])
    with suppress(Crash):
        lake.run(Faults(1, "from_then_on", only=["replace_view"]))
    newest = lake.newest()
    assert newest is not None
    assert lake.look().version < newest.version  # type: ignore[union-attr]
    assert lake.restore(newest.version).outcome == "idle"
    assert lake.look().version == newest.version  # type: ignore[union-attr]


def test_going_back_and_forth_ends_where_it_began() -> None:
    """A restore is undone by restoring what was before it; nothing is read again."""
    lake = stages()[-1].copy()
    watch = Watch(lake)
    watch.look()
    newest = lake.newest()
    assert newest is not None
    before, was = lake.look(), outcomes(lake)
    lake.restore(1)
    undone = [path for path, outcome in outcomes(lake).items() if outcome == "undone"]
    assert len(undone) == 4
    lake.restore(newest.version)
    seen = lake.look()
    assert seen is not None
    assert before is not None
    assert (seen.rows, seen.columns) == (before.rows, before.columns)
    assert {path: "absorbed" if outcome == "redone" else outcome for path, outcome in outcomes(lake).items()} == was
    watch.settled()


def test_a_file_written_again_under_a_run_and_then_undone_is_no_alarm() -> None:
    """Whenever the sink writes it again: what the archive cannot tell any more, `verify` says so, and the rows are right."""
    begun = line("c", [1], [1], {"a": 1})

    def landed() -> tuple[Lake, Watch]:
        lake = Lake(table())
        lake.deliver("increment_2026010100/a.json", [begun])
        return lake, Watch(lake)

    def again(lake: Lake) -> None:
        lake.deliver("increment_2026010100/a.json", [begun, line("u", [1], [2], {"a": 2})])

    for lake, _, sink in at_every_call(landed, again):
        with suppress(TryLater):
            lake.run(sink)
        lake.run()
        shown = rows_by_version(lake)
        for version in list(shown)[:-1]:
            lake.restore(version)
            seen = lake.look()
            assert seen is not None
            assert seen.rows == shown[version], len(sink.calls)
            assert [] == lake.failed_checks(), len(sink.calls)


def test_later_increments_go_on_top_and_what_was_undone_stays_out() -> None:
    """No run takes an undone file by itself, wherever it lies."""
    lake = stages()[-1].copy()
    lake.restore(1)
    lake.deliver("increment_2026010105/new.json", [line("u", [0], [5000], {"a": 5000, "d": "new"})])
    assert lake.run().files == 1
    rows = lake.look().rows  # type: ignore[union-attr]
    assert (0, 5000) in [row[:2] for row in rows]
    assert len(rows) == 12
    assert [row for row in rows if row[0] in (50, 51)] == []
    assert lake.failed_checks() == []


def test_records_in_quarantine_of_an_undone_file_wait_with_it() -> None:
    """Given up alone, or replayed, they would make the ledger say that the rows of their file are in the table."""
    lake = Lake(table(quarantine_share=1.0))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2}), "{", line("c", [3], [3], {"a": 3})])
    lake.run()
    both = lake.look().rows  # type: ignore[union-attr]
    report = lake.restore(1)
    assert [note for note in report.notes if "quarantine" in note] == []
    with pytest.raises(Refused, match="is not in quarantine"):
        discard_table(Table(lake.env(), lake.spec), ["increment_2026010101/b.json"], records=True)
    assert lake.replay().outcome == "idle"
    assert lake.look().rows == ((1, 1),)  # type: ignore[union-attr]
    lake.reabsorb()
    assert lake.look().rows == both  # type: ignore[union-attr]
    assert [item.records for item in quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())] == [1]
    assert lake.failed_checks() == []


def test_a_version_without_history_names_the_view_that_shows_what_was_undone() -> None:
    """No later publish replaces it before a commit begins a history."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    lake.spec = dataclasses.replace(lake.spec, history=True)
    lake.deliver("increment_2026010101/b.json", [line("c", [2], [2], {"a": 2})])
    lake.run()
    assert any("drop school.t_history, which shows what was undone" in note for note in lake.restore(1).notes)


def test_what_was_undone_is_taken_again_on_request() -> None:
    """The table is then as if it had never been undone, whatever came between."""
    lake = stages()[-1].copy()
    lake.restore(1)
    lake.deliver("increment_2026010105/new.json", [line("u", [0], [5000], {"a": 5000})])
    lake.run()
    report = lake.reabsorb()
    assert report.outcome == "committed"
    assert "undone" not in outcomes(lake).values()
    other = stages()[-1].copy()
    other.deliver("increment_2026010105/new.json", [line("u", [0], [5000], {"a": 5000})])
    other.run()
    assert lake.look().rows == other.look().rows  # type: ignore[union-attr]
    assert lake.failed_checks() == []
    assert lake.reabsorb().outcome == "idle"


def test_a_version_is_found_by_its_time() -> None:
    """The newest at or before it; a time without zone is UTC."""
    lake = stages()[-1].copy()
    times = {snapshot.version: snapshot.time for snapshot in lake.committed()}
    assert restore.as_of(Table(lake.env(), lake.spec), times[2]).version == 2
    assert restore.as_of(Table(lake.env(), lake.spec), times[2].replace("Z", "")).version == 2
    assert restore.as_of(Table(lake.env(), lake.spec), "2100-01-01").version == max(times)
    with pytest.raises(Refused, match="nothing was committed by 1999-01-01"):
        restore.as_of(Table(lake.env(), lake.spec), "1999-01-01")
    with pytest.raises(Refused, match="expected a time such as"):
        restore.as_of(Table(lake.env(), lake.spec), "yesterday")


def test_a_version_that_is_not_there_is_refused_with_those_that_are() -> None:
    """Expired or never made."""
    lake = Lake(table(keep=0.0, keep_versions=2, grace=0.0))
    for deliver in (first, second, third):
        deliver(lake)
        lake.run()
    lake.vacuum()
    kept = lake.restorable()
    assert 1 not in kept
    for version in (1, 99):
        with pytest.raises(Refused, match=rf"no version {version} any more, or yet; the versions are {max(kept)} \("):
            lake.restore(version)
    newest = lake.newest()
    assert newest is not None
    assert lake.restore(newest.version).outcome == "idle"


def test_somebody_else_committing_meanwhile_makes_it_a_conflict() -> None:
    """Exit code 75 and not a new plan: what was asked for may no longer be meant."""
    conflicts = 0

    def other(lake: Lake) -> None:
        lake.deliver("increment_2026010106/x.json", [line("u", [3], [9000], {"a": 9000})])
        lake.run()

    for lake, watch, intrusion in at_every_call(lambda: watched(stages()[-1].copy()), other):
        try:
            lake.restore(AGAIN, intrusion)
        except Conflict:
            conflicts += 1
        except TryLater:
            pass
        watch.look()
        if intrusion.happened and anew(lake, watch, "committed beside a restore"):
            lake.run()
            watch.settled()
            shown = [row[:2] for row in lake.look().rows]  # type: ignore[union-attr]
            assert (3, 9000) in shown or outcomes(lake)["increment_2026010106/x.json"] == "undone"
    assert conflicts > 3
    assert Conflict.exit_code == 75


def test_a_vacuum_meanwhile_makes_it_a_conflict() -> None:
    """Also where it takes the files of the version while the feed compares them."""
    conflicts = 0

    def made() -> tuple[Lake, Watch]:
        lake = Lake(table(keep=0.0, keep_versions=1, grace=0.0, feed="net"))
        for deliver in (first, second, third):
            deliver(lake)
            lake.run()
        # so that the version has files of its own
        lake.rebuild()
        return watched(lake)

    for lake, watch, intrusion in at_every_call(made, lambda lake: lake.vacuum()):
        try:
            lake.restore(AGAIN, intrusion)
        except Conflict:
            conflicts += 1
        except (TryLater, Refused):
            pass
        watch.look()
    assert conflicts > 3


RESTORED: dict[str, bool] = {}
"""Whether a restore has happened, by the state that the cut left: each is gone on from once."""


@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_a_restore_cut_at_any_call_has_happened_or_not(mode: str, error: str) -> None:
    """The next run finishes it, or finds nothing of it; a second restore then ends as an undisturbed one."""
    undisturbed = stages()[-1].copy()
    undisturbed.restore(AGAIN)
    expected = undisturbed.look().rows  # type: ignore[union-attr]
    number = undisturbed.newest().version  # type: ignore[union-attr]
    outcome = set()
    for faults in every_fault(mode, error=error):
        lake = stages()[-1].copy()
        watch = Watch(lake)
        watch.look()
        before = lake.look().rows  # type: ignore[union-attr]
        with suppress(Crash, TryLater):
            lake.restore(AGAIN, faults)
        watch.look()
        state = digest(lake, watch)
        if state in RESTORED:
            outcome.add(RESTORED[state])
            continue
        lake.run()
        watch.settled()
        made = lake.table().snapshot(number)
        happened = made is not None and made.operation == "restore"
        outcome.add(happened)
        RESTORED[state] = happened
        assert lake.look().rows == (expected if happened else before)  # type: ignore[union-attr]
        lake.restore(AGAIN)
        watch.settled()
        assert lake.look().rows == expected  # type: ignore[union-attr]
    assert outcome == {True, False}


@pytest.mark.parametrize("mode", tiered(["before", "after_effect", "from_then_on"], fast=["after_effect"]))
def test_a_reabsorb_cut_at_any_call_and_made_again_ends_as_an_undisturbed_one(mode: str) -> None:
    """What is undone is taken once."""
    expected = stages()[-1].look().rows  # type: ignore[union-attr]
    base = stages()[-1].copy()
    base.restore(1)
    for faults in every_fault(mode):
        lake = base.copy()
        watch = Watch(lake)
        watch.look()
        with suppress(Crash, TryLater):
            lake.reabsorb(faults)
        watch.look()
        if not anew(lake, watch, "reabsorb"):
            continue
        lake.reabsorb()
        watch.settled()
        assert lake.look().rows == expected  # type: ignore[union-attr]


def test_a_column_that_came_later_goes_and_comes_back_as_new() -> None:
    """Tables only gain columns: the old state gets tables of a new generation, until both have the same columns again."""
    lake = stages()[-1].copy()
    columns = lake.look().columns  # type: ignore[union-attr]
    assert "c" in columns
    lake.restore(1)
    assert "c" not in lake.look().columns  # type: ignore[union-attr]
    assert lake.newest().schema.generation == 2  # type: ignore[union-attr]
    lake.restore(1)
    assert lake.newest().schema.generation == 2  # type: ignore[union-attr]
    lake.deliver("increment_2026010107/x.json", [line("u", [0], [9000], {"a": 1, "d": "d", "c": "c"})])
    lake.run()
    assert set(lake.look().columns) == {*columns, "d"}  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_pins_are_named_listed_and_removed() -> None:
    """Pinning twice is pinning once; a name means one version."""
    lake = stages()[-1].copy()
    watch = Watch(lake)
    watch.look()
    made = lake.pin(2)
    assert (made.name, made.version) == ("v2", 2)
    assert lake.pin(2) == made
    lake.pin(1, "before-the-move")
    newest = lake.newest()
    assert newest is not None
    assert [(pin.name, pin.version) for pin in newest.pins] == [("v2", 2), ("before-the-move", 1)]
    with pytest.raises(Refused, match="before-the-move pins version 1"):
        lake.pin(3, "before-the-move")
    with pytest.raises(Refused, match="no version 99"):
        lake.pin(99)
    with pytest.raises(Refused, match="expected a name of letters"):
        lake.pin(2, "a/b")
    lake.run()
    watch.settled()
    lake.unpin("v2")
    assert [pin.name for pin in lake.newest().pins] == ["before-the-move"]  # type: ignore[union-attr]
    with pytest.raises(Refused, match=r"found 'v2'; the pins are: before-the-move \(version 1\)"):
        lake.unpin("v2")


@pytest.mark.parametrize("mode", tiered(["before", "after_effect", "from_then_on"], fast=["after_effect"]))
def test_a_pin_cut_at_any_call_and_made_again_is_one(mode: str) -> None:
    """Nothing else changes."""
    rows = stages()[-1].look().rows  # type: ignore[union-attr]
    for faults in every_fault(mode):
        lake = stages()[-1].copy()
        with suppress(Crash, TryLater):
            lake.pin(2, "p", faults)
        lake.pin(2, "p")
        lake.run()
        newest, seen = lake.newest(), lake.look()
        assert newest is not None
        assert seen is not None
        assert [pin.name for pin in newest.pins] == ["p"]
        assert (seen.rows, seen.version) == (rows, newest.version)
    assert isinstance(faults, Faults)


def test_as_of_an_hour_is_the_version_that_was_newest_at_its_end() -> None:
    """A version counts from its own millisecond on. What vacuum has given up is refused by name, and no older version stands in for it."""
    lake = Lake(table(keep=0.0, keep_versions=1, grace=0.0))
    start, committed = lake.now - lake.now % 3600, {}
    for hour in range(1, 5):
        # a run takes a second
        lake.now = start + 3600 * hour - 1.0
        lake.deliver(f"increment_202403050{hour}/a.json", [line("c", [hour], [hour], {"a": hour})])
        committed[hour] = lake.run().version
        if hour == 2:
            lake.pin(committed[hour] or 0, "kept")

    def at(seconds: float) -> int:
        return restore.as_of(lake.table(), datetime.fromtimestamp(start + seconds, timezone.utc).isoformat()).version

    newest = 0
    for hour, version in committed.items():
        if newest:
            assert committed[hour - 1] <= at(3600 * hour - 0.001) < version
        assert (at(3600 * hour), at(3600 * hour + 0.001)) == (version, version)
        newest = version
    with pytest.raises(Refused, match="nothing was committed by"):
        at(3600 - 0.001)
    lake.now += 7200
    lake.vacuum()
    assert (at(7200), at(4 * 3600)) == (committed[2], committed[4])
    with pytest.raises(Refused, match=rf"no version {committed[3]} any more.*the versions are .*{committed[2]} "):
        at(3 * 3600)
