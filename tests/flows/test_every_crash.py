"""Fail at the n-th call, for every n: a fixed program of three runs, cut everywhere, in every way, must end as if nobody had disturbed it."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.model.errors import TryLater
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from tests.faults import ERRORS, MODES, Crash, Faults, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.memo import anew
from tests.oracle.model import line
from tests.oracle.sizes import FULL, tiered
from tests.oracle.watch import Intrusion, Watch, at_every_call

ROWS = 12
WAYS = tiered(
    [(mode, error) for error in ERRORS for mode in MODES if FULL or (mode, error) != ("from_then_on", "unavailable")],
    fast=[("from_then_on", "crash")],
    several=True,
)


def first(lake: Lake) -> None:
    """A first load of two files: several segments."""
    lake.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key, "b": f"x{key}"}) for key in range(ROWS - 3)])
    lake.deliver("increment_2026010100/b.json", [line("r", [key], [key], {"a": key, "b": f"x{key}"}) for key in range(ROWS - 3, ROWS)])


def second(lake: Lake) -> None:
    """Changes, deletes, a new column: a Delta, and a fold of what it is worth."""
    lake.deliver(
        "increment_2026010101/a.json",
        [
            line("u", [1], [101], {"a": 100, "b": "x1"}),
            line("d", [2], [102]),
            line("d", [3], [103]),
            line("u", [50], [103], {"a": 103, "b": "x3", "c": "new"}),
            line("c", [51], [104], {"a": 104, "b": "y"}),
        ],
    )


def third(lake: Lake) -> None:
    """A late delivery for rows that changed, were deleted, moved and folded; a file that comes twice, now with a record that cannot be used; the
    first file's name again; a file that cannot be opened."""
    late = [line("u", [key], [90 + key], {"a": -key, "b": f"late{key}"}) for key in (1, 2, 3, 4)]
    lake.deliver("increment_2026010100/late.json", late)
    lake.deliver("increment_2026010102/late-again.json", [*late, "{oops", line("u", [60], [120], {"a": 1})])
    lake.deliver("increment_2026010102/damaged.json", late, damaged=True)
    lake.deliver("increment_2026010100/a.json", [line("u", [5], [130], {"a": 130, "b": "z"})])


DELIVERIES: tuple[Callable[[Lake], None], ...] = (first, second, third)


@functools.cache
def stages() -> tuple[Lake, ...]:
    """The lake before each run, its delivery landed, and after the last."""
    lake = Lake(table(target_file_bytes=900, feed="net"))
    out = []
    for deliver in DELIVERIES:
        deliver(lake)
        out.append(lake.copy())
        lake.run()
    return (*out, lake)


def ending(lake: Lake) -> dict[str, Any]:
    """What must not depend on what happened on the way."""
    newest, seen = lake.newest(), lake.look()
    assert newest is not None
    assert seen is not None
    return {
        "rows": seen.rows,
        "columns": seen.columns,
        "ledger": sorted(path for path, _ in lake.ledger(newest)),
        "archive": sorted(info.path.rpartition("~")[2] for info in lake.storage.list("/lake/t/archive")),
        "quarantine": sorted(info.path.rpartition("~")[2] for info in lake.storage.list("/lake/t/quarantine")),
        "landing": lake.landing(),
        "landed folders": lake.catalog.partitions("school", "t_incremental"),
    }


def finished(lake: Lake, watch: Watch, done: int) -> None:
    """Run again undisturbed, then the rest of the program; compare. A state that was gone on from before is not tried again."""
    if not anew(lake, watch, "finished", done):
        return
    lake.run()
    watch.settled()
    for deliver in DELIVERIES[done + 1 :]:
        deliver(lake)
        lake.run()
        watch.settled()
    expected = ending(stages()[-1])
    found = ending(lake)
    # looking at landing is best effort: a run that died just before leaves it to the next one that does something
    expected.pop("landed folders")
    found.pop("landed folders")
    assert found == expected


def watched(lake: Lake, done: int) -> Watch:
    """A watch that knows what happened before the run. `lake` is a copy of that stage."""
    return _watched(done).of(lake)


def begun(done: int) -> tuple[Lake, Watch]:
    """A copy of a stage, and its watch."""
    lake = stages()[done].copy()
    return lake, watched(lake, done)


@functools.cache
def _watched(done: int) -> Watch:
    watch = Watch(stages()[done])
    watch.look()
    assert watch.shown == (0, *(stage.newest().version for stage in stages()[1:]))[done]  # type: ignore[union-attr]
    return watch


def test_the_program_folds_and_takes_late_events() -> None:
    """What is cut below holds all that the protocol has: segments, a Delta, a fold, late and repeated events."""
    lake = stages()[-1]
    operations = [snapshot.operation for snapshot in lake.committed()]
    assert operations.count("compact") >= 1
    assert operations.count("commit") == 3
    snapshots = [*lake.committed()]
    assert len(snapshots[0].segments) >= 3
    assert any(snapshot.delta for snapshot in snapshots)
    assert sum(snapshot.counts.get("late", 0) for snapshot in snapshots) >= 3
    assert len(lake.archive()) == len(lake.delivered) - 1 == 6
    assert [held.records for held in quarantine.waiting(Table(lake.env(), lake.spec), lake.newest())] == [None, 1]
    assert lake.failed_checks() == []


@pytest.mark.parametrize(("mode", "error"), WAYS)
@pytest.mark.parametrize("run", tiered(range(len(DELIVERIES)), fast=[0]))
def test_a_run_cut_at_any_call_and_run_again_ends_as_an_undisturbed_one(run: int, mode: str, error: str) -> None:
    """And at the moment of death the reader sees one committed Snapshot, and nothing landed is lost or doubled."""
    for faults in every_fault(mode, error=error):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        with suppress(Crash, TryLater):
            lake.run(faults)
        if anew(lake, watch, "cut", run):
            watch.look()
            finished(lake, watch, run)
    assert len(faults.calls) > 30


@pytest.mark.parametrize(("mode", "error"), WAYS)
def test_a_replay_cut_at_any_call_and_made_again_ends_as_an_undisturbed_one(mode: str, error: str) -> None:
    """A run after the cut finishes what it left; a second replay finds nothing to do or does it all."""
    for faults in every_fault(mode, error=error):
        lake = stages()[-1].copy()
        watch = watched(lake, len(DELIVERIES))
        for held in quarantine.waiting(Table(lake.env(), lake.spec), lake.newest()):
            repaired = [line("u", [61], [121 + len(held.path)], {"a": 1})]
            lake.storage.write((held.location if held.records is None else held.repaired) or "", "\n".join(repaired).encode())
        with suppress(Crash, TryLater):
            lake.replay(faults)
        if not anew(lake, watch, "replay"):
            continue
        lake.run()
        lake.replay()
        assert quarantine.waiting(Table(lake.env(), lake.spec), lake.newest()) == []
        assert list(lake.storage.list("/lake/t/quarantine")) == []
        assert lake.failed_checks() == []
        assert 61 in {row[0] for row in lake.look().rows}  # type: ignore[union-attr]
        assert watch.shown <= lake.look().version  # type: ignore[union-attr]
    assert len(faults.calls) > 30


def recorded(run: int) -> list[tuple[str, str]]:
    """The calls that a run makes."""
    faults = Faults()
    stages()[run].copy().run(faults)
    return faults.calls


def calls(run: int) -> int:
    """How many."""
    return len(recorded(run))


def pairs(run: int) -> Iterator[tuple[int, int, str, str]]:
    """Deaths of a run and of the run that recovers from it: all, or a sample."""
    every = range(1, calls(run) + 1)
    ways = [(one, two) for one in MODES for two in MODES]
    found = [(n, m, one, two) for n in every for m in range(1, calls(run) + 20) for one, two in ways]
    yield from random.Random(run).sample(found, 5000 if FULL else 40)


@pytest.mark.slow
@pytest.mark.parametrize("run", range(len(DELIVERIES)))
def test_a_recovery_may_be_cut_too(run: int) -> None:
    """A death while recovering from a death: the third attempt ends as an undisturbed run."""
    for n, m, one, two in pairs(run):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        for faults in (Faults(n, one), Faults(m, two)):
            with suppress(Crash):
                lake.run(faults)
            watch.look()
        finished(lake, watch, run)


def raced(lake: Lake, watch: Watch, intrusion: Intrusion) -> None:
    """A run with somebody in between; one that ends well leaves the newest Snapshot shown, whoever made it."""
    ended = False
    with suppress(TryLater):
        lake.run(intrusion)
        ended = True
    watch.look()
    newest = lake.newest()
    assert not ended or newest is None or watch.shown == newest.version


@pytest.mark.parametrize("run", tiered(range(len(DELIVERIES)), fast=[1]))
def test_a_second_writer_at_any_call_loses_or_wins_and_harms_nothing(run: int) -> None:
    """Another process runs the same table from beginning to end while this one is at call n; both end well."""
    for lake, watch, intrusion in at_every_call(lambda: begun(run), Lake.run):
        raced(lake, watch, intrusion)
        finished(lake, watch, run)
    assert len(intrusion.calls) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("run", range(len(DELIVERIES) - 1))
def test_a_second_writer_with_more_data_at_any_call_harms_nothing(run: int) -> None:
    """The next delivery lands and is committed by another process while this one is at call n.

    The view goes back only if the other published between our comparing and our replacement, and then only until we look again.
    """
    for at in itertools.count(1):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        versions: list[int] = []

        def published(lake: Lake = lake, versions: list[int] = versions) -> None:
            versions.append(lake.look().version)  # type: ignore[union-attr]

        def other(lake: Lake = lake, published: Callable[[], None] = published) -> None:
            DELIVERIES[run + 1](lake)
            lake.run(Intrusion(0, lambda: None, published))

        intrusion = Intrusion(at, other, published)
        raced(lake, watch, intrusion)
        if not intrusion.happened:
            break
        assert versions == sorted(versions) or intrusion.calls[at - 1][0] == "replace_view"
        finished(lake, watch, run + 1)
    assert at > 30


@pytest.mark.parametrize("run", tiered(range(len(DELIVERIES) - 1), fast=[1]))
def test_a_second_writer_that_dies_leaves_its_work_to_the_first(run: int) -> None:
    """The other commits more and dies somewhere; this one, which began before, plans again on what it finds."""
    number = calls(run)
    found = [(at, death) for at in range(1, number + 1) for death in range(1, 2 * number)]
    for at, death in random.Random(run).sample(found, 2000 if FULL else 40):
        lake = stages()[run].copy()
        watch = watched(lake, run)

        def other(lake: Lake = lake, death: int = death) -> None:
            DELIVERIES[run + 1](lake)
            with suppress(Crash):
                lake.run(Faults(death, "from_then_on"))

        with suppress(TryLater):
            lake.run(Intrusion(at, other))
        watch.look()
        finished(lake, watch, run + 1)


def test_what_another_committed_and_did_not_show_is_shown_by_the_run_that_lost_to_it() -> None:
    """It has nothing left to absorb, and does not end with an old Snapshot on show."""
    lake = stages()[1].copy()

    def other() -> None:
        with suppress(Crash):
            lake.run(Faults(1, "from_then_on", only=["replace_view"]))

    at = next(number for number, call in enumerate(recorded(1), 1) if call[0] == "put_if_absent")
    report = lake.run(Intrusion(at, other))
    newest = lake.newest()
    assert newest is not None
    assert report.outcome == "resumed"
    assert lake.look().version == report.version == newest.version  # type: ignore[union-attr]
    assert lake.landing() == set()


def test_what_another_committed_and_did_not_archive_is_archived_by_whoever_commits_next() -> None:
    """Inputs not yet seen archived are carried from Snapshot to Snapshot."""
    lake = stages()[1].copy()
    watch = watched(lake, 1)

    def other() -> None:
        with suppress(Crash):
            lake.run(Faults(1, "from_then_on", only=["move", "replace_view"]))
        lake.deliver("increment_2026010102/more.json", [line("u", [8], [500], {"a": 500})])

    at = next(number for number, call in enumerate(recorded(1), 1) if call[0] == "put_if_absent")
    assert lake.run(Intrusion(at, other)).operations[0] == "commit 3"
    watch.settled()


@pytest.mark.parametrize("run", tiered(range(len(DELIVERIES)), fast=[1]))
def test_a_truncate_that_overtakes_a_run_at_any_call_takes_its_rows(run: int) -> None:
    """A fold or commit made on what the truncate has ended is not used."""

    def other(lake: Lake) -> None:
        lake.deliver("increment_2026010103/t.json", ['{"op": "t", "position": [1000]}', line("c", [1], [1001], {"a": 1})])
        lake.run()

    for lake, watch, intrusion in at_every_call(lambda: begun(run), other):
        raced(lake, watch, intrusion)
        if intrusion.happened and anew(lake, watch, "truncate"):
            lake.run()
            watch.settled()
            assert [row[:2] for row in lake.look().rows] == [(1, 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize("run", tiered(range(len(DELIVERIES)), fast=[1]))
def test_a_file_that_changes_at_any_call_is_absorbed_as_it_was_or_as_it_is(run: int) -> None:
    """The sink rewrites a file while a run is at call n: the ledger says which content was taken, and nothing of it is lost."""
    for at in itertools.count(1):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        more = line("u", [7], [2000], {"a": 2000})

        def rewrite(lake: Lake = lake, watch: Watch = watch, more: str = more) -> None:
            name = min(lake.landing(), default=("increment_2026010103/new.json", ""))
            watch.overwritten.add(name)
            lake.deliver(name[0], [*lake.delivered.get(name, b"").decode(errors="ignore").splitlines(), more])

        intrusion = Intrusion(at, rewrite)
        raced(lake, watch, intrusion)
        if not intrusion.happened:
            break
        if not anew(lake, watch, "rewrite"):
            continue
        lake.run()
        watch.settled()
        assert (7, 2000) in [row[:2] for row in lake.look().rows]  # type: ignore[union-attr]
