"""When runs fold: in the hours of the day that `compact_window` names, and whenever somebody asks for it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.settings.forms import ALWAYS, NEVER, window
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import sized

DAY = 86_400.0


@pytest.mark.parametrize(
    ("said", "hours"),
    [("22:00-02:00", [22, 23, 0, 1]), ("01:00-03:00", [1, 2]), ("always", [*range(24)]), ("never", [])],
    ids=["over midnight", "within a day", "always", "never"],
)
def test_runs_fold_in_the_window_only(said: str, hours: list[int]) -> None:
    """A day's runs, an hour apart, each of which changes every row: the Delta waits for the window."""
    lake = Lake(table(write_mode="merge-on-read", compact_every=0.0, compact_window=window(said)))
    lake.now = 20_000 * DAY
    lake.deliver("increment_2024030500/a.json", [line("c", [key], [key], {"a": key}) for key in range(20)])
    lake.run()
    compacted = []
    for hour in range(24):
        lake.now = 20_000 * DAY + hour * 3600.0 + 59.0
        lake.deliver(f"increment_20240305{hour:02}/b.json", [line("u", [key], [100 + hour], {"a": hour}) for key in range(20)])
        lake.run()
        if lake.newest().operation == "compact":  # type: ignore[union-attr]
            compacted.append(hour)
    assert compacted == sorted(hours)
    assert lake.failed_checks() == []


def test_who_asks_for_a_fold_gets_it_at_any_time() -> None:
    """Without anything new in landing; once, and then there is nothing left to fold."""
    spec = table(write_mode="merge-on-read", compact_every=1e9, compact_window=NEVER)
    assert (spec.compacting_now.compact_every, spec.compacting_now.compact_window) == (0.0, ALWAYS)
    lake = Lake(spec)
    for name, lines in (
        ("a", [line("c", [key], [key], {"a": key}) for key in range(20)]),
        ("b", [line("u", [key], [100], {"a": 7}) for key in range(20)]),
    ):
        lake.deliver(f"increment_2024030500/{name}.json", lines)
        lake.run()
    assert lake.newest().delta is not None  # type: ignore[union-attr]
    lake.spec = spec.compacting_now
    assert lake.run().operations[-1].startswith("compact")
    assert lake.newest().delta is None  # type: ignore[union-attr]
    assert lake.run().operations == ()
    assert lake.failed_checks() == []


@sized(100)
@given(seed=st.integers(0, 10_000), runs=st.integers(1, 6))
def test_what_is_worth_compacting_does_not_depend_on_pins_vacuums_and_idle_files(seed: int, runs: int) -> None:
    """One table is pinned, vacuumed, restored to its newest state, or gets a file again after a run, its twin is not: both compact the same Segments."""
    rng = random.Random(seed)
    spec = table(write_mode="merge-on-read", compact_every=1e9, compact_window=NEVER, target_file_bytes=600, keep=0.0, keep_versions=1, grace=0.0)
    kept, disturbed = Lake(spec), Lake(spec)
    rows = rng.randint(10, 40)
    deliveries = [[line("c", [key], [key], {"a": key}) for key in range(rows)]]
    for number in range(1, runs + 1):
        keys = rng.sample(range(rows), rng.randint(1, rows))
        deliveries.append([line("u", [key], [100 * number + key], {"a": number}) for key in keys])
    for number, lines in enumerate(deliveries):
        for lake in (kept, disturbed):
            lake.deliver(f"increment_2024030500/{number:02}.json", lines)
            lake.run()
        disturb(disturbed, rng.choice(("pin", "vacuum", "restore", "again", "nothing")), number, lines)
    for lake in (kept, disturbed):
        lake.spec = spec.compacting_now
        lake.run()
    assert shape(kept) == shape(disturbed)


def disturb(lake: Lake, how: str, number: int, lines: list[str]) -> None:
    """Make a Snapshot that changes no row."""
    newest = lake.newest()
    assert newest is not None
    if how == "pin":
        lake.pin(newest.version, f"p{number}")
    elif how == "vacuum":
        lake.now += 1000
        lake.vacuum()
    elif how == "restore":
        lake.restore(newest.version)
    elif how == "again":
        lake.deliver(f"increment_2024030500/{number:02}-again.json", lines)
        lake.run()


def shape(lake: Lake) -> list[tuple[object, int, bool]]:
    """Key ranges with their rows, and whether the last run rewrote them."""
    newest = lake.newest()
    assert newest is not None
    return [(segment.low, segment.rows, newest.base_id in segment.path) for segment in newest.segments]
