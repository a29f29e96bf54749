"""When runs fold: in the hours of the day that `compaction.window` names, and whenever somebody asks for it."""

from __future__ import annotations

import pytest

from compactor.config.values import window
from compactor.core.model.spec import ALWAYS, NEVER
from tests.oracle.lake import Lake, table
from tests.oracle.model import line

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
