"""Fail at the n-th call, for every n: a fixed program of three runs, cut everywhere, in every way, must end as if nobody had disturbed it."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.errors import TryLater
from tests.faults import ERRORS, MODES, Crash, Faults, every_fault
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import FULL
from tests.oracle.watch import Intrusion, Watch

ROWS = 12
WAYS = [(mode, error) for error in ERRORS for mode in MODES if FULL or (mode, error) != ("from_then_on", "unavailable")]
_WAY_IDS = [f"{mode}-{error}" for mode, error in WAYS]


def first(lake: Lake) -> None:
    """A first load of two files: several segments."""
    lake.deliver("increment_2026010100/a.json", [line("c", [key], [key], {"a": key, "b": f"x{key}"}) for key in range(ROWS - 3)])
    lake.deliver("increment_2026010100/b.json", [line("r", [key], [key], {"a": key, "b": f"x{key}"}) for key in range(ROWS - 3, ROWS)])


def second(lake: Lake) -> None:
    """Changes with unavailable values, a delete, a key change, a new column: a Delta, and a fold of what it is worth."""
    lake.deliver(
        "increment_2026010101/a.json",
        [
            line("u", [1], [101], {"a": 100}, ["b"]),
            line("d", [2], [102]),
            line("u", [50], [103], {"a": 103, "c": "new"}, ["b"], (3,)),
            line("c", [51], [104], {"a": 104, "b": "y"}),
        ],
    )


def third(lake: Lake) -> None:
    """A late delivery for rows that changed, were deleted, moved and folded; a file that comes twice; the first file's name again."""
    late = [line("u", [key], [90 + key], {"a": -key, "b": f"late{key}"}) for key in (1, 2, 3, 4)]
    lake.deliver("increment_2026010100/late.json", late)
    lake.deliver("increment_2026010102/late-again.json", [*late, line("u", [60], [120], {"a": 1})])
    lake.deliver("increment_2026010100/a.json", [line("u", [5], [130], {"a": 130, "b": "z"})])


DELIVERIES: tuple[Callable[[Lake], None], ...] = (first, second, third)


@functools.cache
def stages() -> tuple[Lake, ...]:
    """The lake before each run, its delivery landed, and after the last."""
    lake = Lake(table(target_file_bytes=900))
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
        "landing": lake.landing(),
        "landed folders": lake.catalog.partitions("school", "t_incremental"),
    }


def finished(lake: Lake, watch: Watch, done: int) -> None:
    """Run again undisturbed, then the rest of the program; compare."""
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
    """A watch that knows what happened before the run."""
    watch = Watch(lake)
    watch.look()
    assert watch.shown == (0, *(stage.newest().version for stage in stages()[1:]))[done]  # type: ignore[union-attr]
    return watch


def test_the_program_folds_and_takes_late_events() -> None:
    """What is cut below holds all that the protocol has: segments, a Delta, a fold, late and repeated events."""
    lake = stages()[-1]
    operations = [snapshot.operation for snapshot in lake.committed()]
    assert operations.count("fold") >= 1
    assert operations.count("commit") == 3
    snapshots = [*lake.committed()]
    assert len(snapshots[0].segments) >= 3
    assert any(snapshot.delta for snapshot in snapshots)
    assert sum(snapshot.counts.get("late", 0) for snapshot in snapshots) >= 3
    assert len(lake.archive()) == len(lake.delivered) == 6
    assert lake.failed_checks() == []


@pytest.mark.parametrize(("mode", "error"), WAYS, ids=_WAY_IDS)
@pytest.mark.parametrize("run", range(len(DELIVERIES)))
def test_a_run_cut_at_any_call_and_run_again_ends_as_an_undisturbed_one(run: int, mode: str, error: str) -> None:
    """And at the moment of death the reader sees one committed Snapshot, and nothing landed is lost or doubled."""
    for faults in every_fault(mode, error=error):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        with suppress(Crash, TryLater):
            lake.run(faults)
        watch.look()
        finished(lake, watch, run)
    assert len(faults.calls) > 30


def calls(run: int) -> int:
    """How many calls a run makes."""
    faults = Faults()
    stages()[run].copy().run(faults)
    return len(faults.calls)


def pairs(run: int) -> Iterator[tuple[int, int, str, str]]:
    """Deaths of a run and of the run that recovers from it: all, or a sample."""
    every = range(1, calls(run) + 1)
    ways = [(one, two) for one in MODES for two in MODES]
    found = [(n, m, one, two) for n in every for m in range(1, calls(run) + 20) for one, two in ways]
    yield from random.Random(run).sample(found, 5000 if FULL else 120)


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


@pytest.mark.parametrize("run", range(len(DELIVERIES)))
def test_a_second_writer_at_any_call_loses_or_wins_and_harms_nothing(run: int) -> None:
    """Another process runs the same table from beginning to end while this one is at call n; both end well."""
    for at in itertools.count(1):
        lake = stages()[run].copy()
        watch = watched(lake, run)
        intrusion = Intrusion(at, lake.run)
        with suppress(TryLater):
            lake.run(intrusion)
        if len(intrusion.calls) < at:
            break
        watch.look()
        finished(lake, watch, run)
    assert at > 30


@pytest.mark.parametrize("run", range(len(DELIVERIES) - 1))
def test_a_second_writer_with_more_data_at_any_call_harms_nothing(run: int) -> None:
    """The next delivery lands and is committed by another process while this one is at call n."""
    for at in itertools.count(1):
        lake = stages()[run].copy()
        watch = watched(lake, run)

        def other(lake: Lake = lake) -> None:
            DELIVERIES[run + 1](lake)
            lake.run()

        intrusion = Intrusion(at, other)
        with suppress(TryLater):
            lake.run(intrusion)
        if len(intrusion.calls) < at:
            break
        watch.look()
        finished(lake, watch, run + 1)
    assert at > 30
