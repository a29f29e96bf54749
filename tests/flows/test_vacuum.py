"""Vacuum: what it takes, what it leaves, and that no instant of its work, nor anybody beside it, loses a file that somebody needs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.catalog import views
from compactor.core.model.errors import Conflict, Refused, StateRefused, TryLater
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.reports import VacuumReport
from compactor.flows.write import restore
from tests.faults import Crash, Faults, every_fault
from tests.flows.test_every_crash import WAYS, first, second, third
from tests.oracle.lake import HOUR, Lake, table
from tests.oracle.memo import anew
from tests.oracle.model import line
from tests.oracle.watch import Intrusion, Watch, at_every_call, watched

DAY = 24 * HOUR
BRIEF = {"keep": 2 * DAY, "keep_versions": 1, "grace": DAY, "target_file_bytes": 900}


def later(lake: Lake, number: int) -> None:
    """One more hour of changes."""
    lake.deliver(f"increment_2026011{number}00/n.json", [line("u", [number], [1000 + number], {"a": number, "b": "later"})])


@functools.cache
def old() -> Lake:
    """A table with a history of folds and Deltas that is past `keep`, a fresh version on top, and the work of a run that died."""
    lake = Lake(table(**BRIEF))
    for deliver in (first, second, third):
        deliver(lake)
        lake.run()
    later(lake, 4)
    with suppress(Crash):
        lake.run(Faults(1, "before", only=["put_if_absent"]))
    lake.now += 3 * DAY
    lake.run()
    lake.now += 3 * DAY
    later(lake, 5)
    lake.run()
    later(lake, 6)
    lake.run()
    return lake


def whole(lake: Lake) -> list[Snapshot]:
    """The Snapshots that are no stubs."""
    return [snapshot for snapshot in lake.committed() if not snapshot.expired]


def registered(lake: Lake) -> set[tuple[str, ...]]:
    """The values of all partitions of base and Delta."""
    return {partition.values for part in ("base", "delta") for partition in lake.catalog.partitions("school", f"t_{part}")}


def read_by(snapshots: list[Snapshot]) -> set[tuple[str, ...]]:
    """The partitions that the views of these Snapshots read."""
    spec = table(**BRIEF)
    return {partition.values for snapshot in snapshots for part in views.partitions(spec, snapshot) for partition in part}


def ending(lake: Lake) -> dict[str, Any]:
    """What must not depend on what happened on the way to it."""
    seen, newest = lake.look(), lake.newest()
    assert seen is not None
    assert newest is not None
    return {"rows": seen.rows, "shown": seen.version == newest.version, "archive": len(lake.archive()), "checks": lake.failed_checks()}


def only_what_is_kept(lake: Lake) -> None:
    """Storage holds exactly what the kept Snapshots name, the catalog that and nothing that is gone."""
    assert lake.units() == {path for snapshot in whole(lake) for path in snapshot.named}
    assert registered(lake) >= read_by(whole(lake))
    places = {partition.location for part in ("base", "delta") for partition in lake.catalog.partitions("school", f"t_{part}")}
    assert {lake.layout.unit(f"{place}/-")[0] for place in places} <= lake.units()  # type: ignore[index]


def to_the_end(lake: Lake) -> None:
    """Vacuum, wait, vacuum."""
    lake.vacuum()
    lake.now += BRIEF["grace"]
    lake.vacuum()


def test_what_kept_snapshots_name_stays_and_the_rest_goes_in_two_steps() -> None:
    """Orphans at once; what expired Snapshots named is unregistered at once and goes one grace period later."""
    lake = old().copy()
    watch = Watch(lake)
    watch.look()
    before, rows = lake.units(), lake.look().rows  # type: ignore[union-attr]
    told = lake.vacuum()
    watch.look()
    orphans = {item.path for item in told.swept if item.reason == "orphan"}
    waiting = {item.path for item in told.swept if item.goes}
    assert orphans
    assert waiting
    assert all(item.goes is None for item in told.swept if item.reason == "orphan")
    assert lake.units() & before == before - orphans
    assert registered(lake) == read_by(whole(lake))
    lake.now += BRIEF["grace"] - 2
    assert lake.vacuum().bytes_gone == 0
    lake.now += 2
    told = lake.vacuum()
    watch.look()
    assert {item.path for item in told.swept if item.goes is None} == waiting
    only_what_is_kept(lake)
    assert lake.look().rows == rows  # type: ignore[union-attr]
    assert lake.failed_checks() == []


def test_versions_are_kept_by_age_and_number_pins_and_what_is_shown() -> None:
    """Each for the reason that is told; a version's age begins when its successor was certainly shown."""
    lake = old().copy()
    newest = lake.newest()
    assert newest is not None
    number = newest.version
    lake.pin(3, "audit")
    told = lake.vacuum()
    assert told.kept[3] == "pinned as audit"
    assert told.kept[number + 1] == "the newest"
    assert told.kept[number] == "the catalog shows it"
    assert told.kept[number - 2] == "younger than `keep`"
    assert told.expired == tuple(version for version in range(1, number) if version not in told.kept)
    assert {1, 2} <= set(told.expired)
    by_number = dataclasses.replace(lake.spec, keep_versions=number)
    other = old().copy()
    other.spec = by_number
    assert other.vacuum().expired == ()


def test_a_second_vacuum_finds_nothing_and_commits_nothing() -> None:
    """An idle table does not grow by being vacuumed."""
    lake = old().copy()
    to_the_end(lake)
    lake.now += 30 * DAY
    to_the_end(lake)
    versions = len([*lake.committed()])
    for _ in range(3):
        lake.now += 30 * DAY
        assert lake.vacuum().swept == ()
    assert len([*lake.committed()]) == versions


def test_a_dry_run_tells_and_changes_nothing() -> None:
    """The same that the run then does."""
    lake = old().copy()
    before = [*lake.storage.list("/")]
    told = lake.vacuum(dry=True)
    assert [*lake.storage.list("/")] == before
    lake.now -= 1.0
    done = lake.vacuum()
    assert (told.swept, told.expired, told.kept) == (done.swept, done.expired, done.kept)
    assert (told.dry, done.dry) == (True, False)


def test_a_number_is_never_free_again_and_remembers_what_happened() -> None:
    """The stub of an expired version tells when, what and how much, and names nothing."""
    lake = old().copy()
    before = {snapshot.version: snapshot for snapshot in lake.committed()}
    to_the_end(lake)
    stubs = [snapshot for snapshot in lake.committed() if snapshot.expired]
    assert len(stubs) > 3
    for stub in stubs:
        was = before[stub.version]
        assert (stub.time, stub.writer, stub.operation, stub.counts) == (was.time, was.writer, was.operation, was.counts)
        assert stub.named == frozenset()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("notes.txt", b"mine"),
        ("base/mine/part-0.parquet", b""),
        ("history/v00000001-01234567/part-0.parquet", b""),
        ("_compactor/foreign.json", b"{}"),
        ("_compactor/snapshots/3.json", b"{}"),
    ],
)
def test_an_object_that_is_not_ours_stops_it(path: str, content: bytes) -> None:
    """Unknown means hands off: nothing is deleted, and the object is named."""
    lake = old().copy()
    lake.storage.write(f"/lake/t/{path}", content)
    before = [*lake.storage.list("/")]
    with pytest.raises(StateRefused, match=path):
        lake.vacuum()
    assert [*lake.storage.list("/")] == before


def damaged(lake: Lake) -> None:
    lake.storage.write(lake.layout.snapshot(2), b"{")


def newer(lake: Lake) -> None:
    lake.storage.write(lake.layout.snapshot(2), lake.storage.read(lake.layout.snapshot(2)).replace(b'"format": 3', b'"format": 4'))


def missing(lake: Lake) -> None:
    lake.storage.delete([lake.layout.snapshot(2)])


def missing_data(lake: Lake) -> None:
    newest = lake.newest()
    assert newest is not None
    unit = newest.segments[0].path
    lake.storage.delete([info.path for info in lake.storage.list(f"/lake/t/{unit}")])


@pytest.mark.parametrize("harm", [damaged, newer, missing, missing_data])
def test_a_state_that_cannot_be_read_stops_it(harm: Callable[[Lake], None]) -> None:
    """A damaged, newer or missing Snapshot, or a file of the newest one that is gone: who knows what it named."""
    lake = old().copy()
    harm(lake)
    before = [*lake.storage.list("/")]
    with pytest.raises(StateRefused):
        lake.vacuum()
    assert [*lake.storage.list("/")] == before


def test_a_young_orphan_is_somebodys_work() -> None:
    """All of an attempt is as young as its newest file."""
    lake = old().copy()
    to_the_end(lake)
    units = lake.units()
    for part in ("base/v00000099-00000000/segment=0-00000/part-0.json", "delta/v00000099-00000000/_temporary/0/part-0.json"):
        lake.storage.write(f"/lake/t/{part}", b"[]")
        lake.now += 0.9 * BRIEF["grace"]
        lake.vacuum()
    assert len(lake.units() - units) == 2
    lake.now += BRIEF["grace"]
    lake.vacuum()
    assert lake.units() - units == set()


def test_a_table_without_snapshots_is_left_alone() -> None:
    """Its orphans may be the first load at work."""
    lake = Lake(table(**BRIEF))
    lake.storage.write("/lake/t/base/v00000001-00000000/segment=0-00000/part-0.json", b"[]")
    lake.now += 100 * DAY
    assert lake.vacuum() == VacuumReport("t", None, False, notes=("nothing committed yet",))
    assert len(lake.units()) == 1


@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_a_vacuum_cut_at_any_call_and_made_again_ends_as_an_undisturbed_one(mode: str, error: str) -> None:
    """And at the moment of death nothing is missing that a kept Snapshot names, nor before its grace period is over."""
    undisturbed = old().copy()
    to_the_end(undisturbed)
    expected = ending(undisturbed)
    assert expected["checks"] == []
    for faults in every_fault(mode, error=error):
        lake = old().copy()
        watch = Watch(lake)
        watch.look()
        with suppress(Crash, TryLater):
            lake.vacuum(faults)
        watch.look()
        if not anew(lake, watch, "vacuum"):
            continue
        lake.vacuum()
        watch.look()
        # an interrupted one may have unregistered only now, and a grace period begins anew
        to_the_end(lake)
        watch.look()
        only_what_is_kept(lake)
        lake.run()
        assert ending(lake) == expected
    assert len(faults.calls) > 40


@pytest.mark.slow
@pytest.mark.parametrize("sleeper", ["run", "vacuum"])
def test_a_process_that_sleeps_at_any_call_through_runs_and_vacuums_harms_nothing(sleeper: str) -> None:
    """It wakes after its parent has expired and its own work was deleted as an orphan: it conflicts, plans again, loses nothing."""
    happened: list[str] = []

    def begun() -> tuple[Lake, Watch]:
        lake, watch = watched(old().copy())
        later(lake, 0)
        return lake, watch

    def others(lake: Lake) -> None:
        lake.now += 2 * DAY
        later(lake, 7)
        lake.run()
        lake.now += 4 * DAY
        later(lake, 8)
        lake.run()
        lake.now += 4 * DAY
        to_the_end(lake)
        later(lake, 9)

    for lake, watch, intrusion in at_every_call(begun, others):
        try:
            (lake.run if sleeper == "run" else lake.vacuum)(intrusion)
            happened.append("ended")
        except TryLater as error:
            happened.append(type(error).__name__)
        watch.look()
        if not intrusion.happened or not anew(lake, watch, "slept", sleeper):
            continue
        lake.run()
        watch.settled()
        rows = {row[0]: row[1] for row in lake.look().rows}  # type: ignore[union-attr]
        assert [rows[number] for number in (0, 7, 8, 9)] == [0, 7, 8, 9]
        lake.now += 4 * DAY
        to_the_end(lake)
        watch.look()
        lake.now += 4 * DAY
        to_the_end(lake)
        only_what_is_kept(lake)
    assert len(intrusion.calls) >= 40
    assert "ended" in happened


def test_the_work_of_a_fold_that_slept_is_not_used_once_it_was_condemned() -> None:
    """Its segments could still be put onto the newest Snapshot; but they were an orphan, and are gone."""
    lake = old().copy()
    quiet = dataclasses.replace(lake.spec, compact_every=1e12)
    lake.spec = quiet
    for number in (6, 7, 8, 9):
        later(lake, number)
        lake.run()
    lake.spec = dataclasses.replace(quiet, compact_every=0.0)
    probe = Faults()
    lake.copy().run(probe)
    puts = [number for number, (operation, _) in enumerate(probe.calls, 1) if operation == "put_if_absent"]

    def others() -> None:
        lake.spec = quiet
        lake.now += 3 * DAY
        assert any(item.reason == "orphan" and "base/" in item.path for item in lake.vacuum().swept)
        lake.spec = dataclasses.replace(quiet, compact_every=0.0)

    report = lake.run(Intrusion(puts[-1], others))
    assert not [operation for operation in report.operations if operation.startswith("compact")]
    newest = lake.newest()
    assert newest is not None
    assert newest.operation == "vacuum"
    assert lake.failed_checks() == []


@pytest.mark.slow
def test_two_vacuums_at_once_are_one() -> None:
    """At any call of the first the second runs whole."""
    for lake, watch, intrusion in at_every_call(lambda: watched(old().copy()), Lake.vacuum):
        lake.vacuum(intrusion)
        watch.look()
        if anew(lake, watch, "two vacuums"):
            to_the_end(lake)
            only_what_is_kept(lake)


def test_a_pin_and_a_vacuum_never_both_win() -> None:
    """Either the version is pinned and kept, or it has expired and the pin is refused."""
    outcomes = set()
    for lake, _, intrusion in at_every_call(lambda: watched(old().copy()), Lake.vacuum):
        try:
            lake.pin(2, "p", intrusion)
            outcomes.add("pinned")
            kept = next(snapshot for snapshot in lake.committed() if snapshot.version == 2)
            assert not kept.expired
            to_the_end(lake)
            assert kept.named <= lake.units()
        except Refused:
            outcomes.add("refused")
            assert next(snapshot for snapshot in lake.committed() if snapshot.version == 2).expired
    assert outcomes == {"pinned", "refused"}


def test_a_vacuum_that_always_loses_the_race_says_so() -> None:
    """Exit code 75, after five plans."""
    lake = old().copy()
    numbers = itertools.count(10)

    class Busy(Faults):
        def call(self, operation: str, path: str, effect: Any, half: Any = None) -> Any:
            if operation == "put_if_absent":
                lake.deliver(f"increment_20260120{next(numbers)}/x.json", [line("u", [1], [5000 + lake.now], {"a": 1})])
                lake.run()
            return effect()

    with pytest.raises(Conflict):
        lake.vacuum(Busy())


def test_no_stub_is_taken_for_the_newest_version() -> None:
    """Between two looks for the newest version others commit and vacuum: what was the newest a moment ago is a stub then."""

    def others(lake: Lake) -> None:
        for number in (7, 8):
            later(lake, number)
            lake.run()
        to_the_end(lake)

    for lake, _, intrusion in at_every_call(lambda: watched(old().copy()), others):
        lake.spec = dataclasses.replace(lake.spec, keep=0.0)
        newest = lake.table(intrusion).newest()
        assert newest is not None
        assert not newest.expired


def test_a_restore_that_slept_since_it_read_its_version_brings_no_deleted_files_back() -> None:
    """Vacuum has written over the version meanwhile, and a later one does not list it among what is pending any more."""
    lake = old().copy()
    target = restore.at_version(lake.table(), lake.restorable()[0])
    for number in (7, 8):
        later(lake, number)
        lake.run()
        lake.now += 3 * DAY
        to_the_end(lake)
    shown = lake.look()
    with pytest.raises(Refused, match=f"version {target.version} was vacuumed"):
        restore.restore(lake.table(), target)
    assert lake.look() == shown
