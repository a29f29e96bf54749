"""Segments that own no row of the Delta are read without a comparison, and no row changes by it."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.catalog import views
from compactor.core.settings.forms import ALWAYS, NEVER
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.sizes import sized

KEYS = 60


def begun(**settings: object) -> Lake:
    """A table of several Segments."""
    lake = Lake(table(**{"compact_window": NEVER, **settings}))
    land(lake, 1, *range(KEYS))
    assert len(lake.newest().segments) > 8  # type: ignore[union-attr]
    return lake


def land(lake: Lake, seq: int, *keys: int, op: str = "u") -> None:
    """A run with changes of these keys."""
    lake.deliver(f"increment_2026010100/{seq}.json", [line(op, [key], [seq], None if op == "d" else {"a": seq}) for key in keys])
    lake.run()


def branches(lake: Lake) -> int:
    """Number of queries in the view's text. Its rows are right."""
    seen = lake.look()
    assert seen is not None
    assert seen.rows == lake.expected()
    return seen.text.count("UNION ALL") + 1


def test_recent_keys_leave_older_segments_bare() -> None:
    """New keys, updates and deletes at the end; as soon as keys all over the table change, every Segment is compared."""
    lake = begun()
    assert branches(lake) == 1
    land(lake, 2, KEYS - 1, KEYS, KEYS + 9)
    land(lake, 3, KEYS - 2, op="d")
    newest = lake.newest()
    assert newest is not None
    assert newest.delta is not None
    assert branches(lake) == 3
    assert newest.delta.untouched == tuple(segment.id for segment in newest.segments[: len(newest.delta.untouched)])
    land(lake, 4, 0)
    assert branches(lake) == 3
    assert views.compared(lake.newest())[0] == newest.segments[0].id  # type: ignore[arg-type,index]
    land(lake, 5, *range(0, KEYS, 4))
    assert branches(lake) == 2
    assert lake.failed_checks() == []


def test_a_segment_that_a_compaction_has_made_is_compared_until_the_next_commit() -> None:
    """The Delta beside it is older than the Segment and may hold its keys."""
    lake = begun()
    land(lake, 2, KEYS - 1)
    land(lake, 3, 0, *range(KEYS - 6, KEYS))
    spec, lake.spec = lake.spec, lake.spec.compacting_now
    lake.run()
    lake.spec = spec
    newest = lake.newest()
    assert newest is not None
    assert newest.operation == "compact"
    assert newest.delta is not None
    made = [segment.id for segment in newest.segments if newest.base_id in segment.path]
    assert made
    assert {*made, newest.segments[0].id} <= {*(views.compared(newest) or ())}
    assert branches(lake) == 3
    land(lake, 4, 1)
    assert not {*made} & {*(views.compared(lake.newest()) or made)}  # type: ignore[arg-type]
    assert branches(lake) == 3
    lake.restore(2)
    assert branches(lake) == 3


@pytest.mark.slow
@sized(30)
@given(seed=st.integers(0, 2**32), soft=st.booleans())
def test_rows_are_right_wherever_keys_change(seed: int, soft: bool) -> None:
    """Recent and old keys, late events, compactions and restores."""
    rng = random.Random(seed)
    lake = begun(delete="soft" if soft else "hide", compact_window=ALWAYS, compact_every=rng.choice([0.0, 3.0, 1e9]))
    seen = 0
    for step in range(2, 20):
        first = rng.choice([0, KEYS - 8, KEYS - 3])
        keys = [rng.randrange(first, KEYS + step) for _ in range(rng.choice([1, 2, 5]))]
        lines = [line(rng.choice("uuud"), [key], [max(1, step - rng.choice([0, 0, 3]))], {"a": step}) for key in {*keys}]
        lake.deliver(f"increment_2026010100/{step}.json", lines)
        lake.run()
        if rng.random() < 0.1:
            lake.restore(rng.choice(lake.restorable()))
        shown, newest = lake.look(), lake.newest()
        assert shown is not None
        assert newest is not None
        assert shown.rows == lake.expected(), step
        plain = dataclasses.replace(newest, delta=newest.delta and dataclasses.replace(newest.delta, untouched=()))
        seen += views.view_text(lake.spec, plain) != shown.text
        assert lake.failed_checks() == [], step
