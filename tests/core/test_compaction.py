"""Compaction: when a commit writes a whole base, and which Segments are compacted."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model import times
from compactor.core.model.files import DataFile, Delta, Segment
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.settings.forms import NEVER

SPEC = TableSpec("t", "/lake/t", "/lake/t/in", "h_%Y%m%d%H", "d", "t", "d", ("id",))


def segment(number: int, rows: int = 10, low: Any = None, high: Any = None) -> Segment:
    """A segment of the range [low, high)."""
    at = ((low,) if low is not None else None, (high,) if high is not None else None)
    return Segment(f"s{number}", f"base/s{number}", rows, 0, (DataFile("p", 100),), *at, None, None, 0)


def snapshot(segments: tuple[Segment, ...], delta_rows: int = 0, delta_bytes: int = 100) -> Snapshot:
    """A table of these segments and a Delta."""
    delta = Delta("d", "delta/d", delta_rows, 0, (DataFile("p", delta_bytes),), None, None) if delta_rows else None
    schema = Schema((Field("id", "id", "bigint"), Field("a", "a", "string")), ("id",))
    return Snapshot("t", "u", 3, 2, "w", "", "", "commit", schema, (("seq", "bigint"),), "b", segments, delta)


TWO = (segment(0, 10, None, 5), segment(1, 10, 5, None))


@pytest.mark.parametrize(
    ("parent", "changes", "retyped", "truncated", "write_mode", "expected"),
    [
        (None, 1, False, False, "auto", True),
        (None, 1, False, False, "merge-on-read", True),
        (snapshot(()), 1, False, False, "merge-on-read", True),
        (snapshot(TWO), 1, False, False, "auto", False),
        (snapshot(TWO), 9, False, False, "auto", False),
        (snapshot(TWO), 10, False, False, "auto", True),
        (snapshot(TWO), 1000, False, False, "merge-on-read", False),
        (snapshot(TWO), 1, True, False, "merge-on-read", True),
        (snapshot(TWO), 0, False, True, "merge-on-read", True),
        (snapshot(TWO), 0, False, False, "copy-on-write", True),
        (snapshot(TWO), 0, False, False, "auto", False),
    ],
)
def test_whole_base(parent: Snapshot | None, changes: int, retyped: bool, truncated: bool, write_mode: str, expected: bool) -> None:
    """A whole base for the first load, type changes, truncates, `copy-on-write`, and when much of the table changes at once."""
    spec = dataclasses.replace(SPEC, write_mode=write_mode)
    assert bool(compaction.whole_base(spec, parent, changes, retyped, truncated)) is expected


@pytest.mark.parametrize(
    ("shares", "changes", "expected"),
    [
        ({}, 1, []),
        ({"s0": 1}, 10, []),
        ({"s0": 3}, 1, []),
        ({"s0": 4}, 1, ["s0"]),
        ({"s0": 5, "s1": 9}, 1, ["s1", "s0"]),
        ({"s0": 9, "s1": 9}, 10, []),
        ({"s0": 10, "s1": 9}, 10, ["s0"]),
        ({"s0": 20, "s1": 10}, 1000, ["s0", "s1"]),
    ],
)
def test_targets(shares: dict[str, int], changes: int, expected: list[str]) -> None:
    """Segments whose share reaches sqrt(2C/N), the fullest first; a table that changes wholesale is compacted too."""
    chosen = compaction.targets(snapshot(TWO, 30), shares, changes)
    assert [target.id for target in chosen] == expected


def test_without_a_delta_nothing_is_compacted() -> None:
    """Whatever the shares say."""
    assert compaction.targets(snapshot(TWO), {"s0": 10}, 1) == ()


def test_a_delta_that_readers_no_longer_broadcast_is_compacted_where_it_is_fullest() -> None:
    """A quarter of the segments, even if none reaches the threshold."""
    many = tuple(segment(at, 1000, at or None, at + 1 if at < 7 else None) for at in range(8))
    big = snapshot(many, 100, 200 << 20)
    assert compaction.delta_estimate(big) > compaction.DELTA_LIMIT
    chosen = compaction.targets(big, {"s3": 5, "s6": 9, "s1": 1}, 4000)
    assert [target.id for target in chosen] == ["s6", "s3"]


@given(changes=st.integers(0, 10**9), rows=st.integers(0, 10**12))
def test_the_threshold_is_a_share(changes: int, rows: int) -> None:
    """Between nothing and all."""
    assert 0 < compaction.threshold(changes, rows) <= 1


@pytest.mark.parametrize(
    ("segments", "problem"),
    [
        ((), None),
        ((segment(0),), None),
        (TWO, None),
        ((segment(0, 1, None, 5), segment(1, 1, 5, 9), segment(2, 1, 9, None)), None),
        ((segment(0, 1, 1, None),), "-∞"),
        ((segment(0, 1, None, 9),), "+∞"),
        ((TWO[1], TWO[0]), "-∞"),
        ((segment(0, 1, None, 5), segment(1, 1, 6, None)), "s0 ends"),
        ((segment(0, 1, None, 6), segment(1, 1, 5, None)), "s0 ends"),
        ((segment(0), segment(1)), "s0 ends"),
        ((segment(0, 1, None, 5), TWO[0], TWO[1]), "s0 ends"),
    ],
)
def test_tiling(segments: tuple[Segment, ...], problem: str | None) -> None:
    """Half-open ranges from -∞ to +∞ without holes and overlaps."""
    if problem is None:
        assert compaction.tiling_problem(segments) is None
    else:
        assert problem in (compaction.tiling_problem(segments) or "")


def test_widths() -> None:
    """Spark's default sizes, 8 bytes a row beside them; the estimate of Parquet bytes is half of that."""
    schema = Schema((Field("id", "id", "bigint"), Field("b", "b", "binary"), Field("m", "m", "map<string,int>")), ("id",))
    assert (compaction.row_width(schema), compaction.row_width(schema, schema.key)) == (8 + 8 + 100 + 8, 16)
    assert compaction.estimated_bytes(schema, 10) == 10 * 124 // 2


HOUR, MB = 3600.0, 1 << 20
NIGHT = (60, 300)


@pytest.mark.parametrize(
    ("settings", "delta_bytes", "hour", "wanted", "reason"),
    [
        ({}, 100, 5, False, None),
        ({}, 100, 6, True, None),
        ({}, 200 * MB, 0, True, None),
        ({"write_mode": "copy-on-write"}, 200 * MB, 9, False, None),
        ({"compact_window": NIGHT}, 100, 12, True, "waits for 01:00-05:00 UTC (`compact_window`); the Delta has 100 bytes"),
        ({"compact_window": NIGHT}, 200 * MB, 12, True, "waits for 01:00-05:00 UTC"),
        ({"compact_window": NIGHT}, 100, 26, True, None),
        ({"compact_window": NIGHT}, 100, 5, False, None),
        ({"compact_window": NEVER}, 100, 12, True, "waits for `compactor run --compact` (`compact_window` is never)"),
        ({"compact_window": NEVER}, 100, 5, False, None),
    ],
)
def test_when_a_compaction_is_wanted_and_why_it_waits(
    settings: dict[str, Any], delta_bytes: int, hour: int, wanted: bool, reason: str | None
) -> None:
    """The base was written at midnight. Every 6 hours, sooner if the Delta is large; in the window."""
    spec = dataclasses.replace(SPEC, **settings)
    parent = dataclasses.replace(snapshot(TWO, 30, delta_bytes), compacted_at="2026-01-01T00:00:00Z")
    now = times.to_seconds("2026-01-01T00:00:00Z") + hour * HOUR
    assert compaction.needed(spec, parent, now) is wanted
    sentence = compaction.waits(spec, parent, now)
    assert (sentence is None) is (reason is None)
    assert (reason or "") in (sentence or "")
    assert compaction.waits(spec, dataclasses.replace(parent, delta=None), now) is None


@pytest.mark.parametrize(
    ("budget", "spent", "whole", "expected"),
    [
        (None, 10**9, False, 3),
        (300, 0, False, 3),
        (299, 0, False, 2),
        (1, 0, False, 1),
        (1, 1, False, 0),
        (300, 100, False, 2),
        (300, 201, False, 0),
        (300, 0, True, 3),
        (1, 0, True, 3),
        (300, 1, True, 0),
        (301, 1, True, 3),
        (None, 10**9, True, 3),
    ],
)
def test_a_run_affords_what_its_budget_allows(budget: int | None, spent: int, whole: bool, expected: int) -> None:
    """Three Segments of 100 bytes, from the first on; the first compaction of a run is made at any size."""
    three = tuple(segment(at) for at in range(3))
    assert compaction.affordable(three, budget, spent, whole) == three[:expected]


def test_the_largest_delta_is_the_largest_debt() -> None:
    """A table without one has none."""
    assert [compaction.debt(each) for each in (snapshot(TWO, 1, 7), snapshot(TWO), None)] == [7, 0, 0]


def test_all_segments_with_changes_are_compacted_for_a_base_of_one_version() -> None:
    """However few of its rows changed."""
    assert [each.id for each in compaction.targets(snapshot(TWO, 1), {"s1": 1, "s0": 0}, 10**6, every=True)] == ["s1"]
    assert compaction.targets(snapshot(TWO), {"s1": 1}, 1, every=True) == ()


def test_segments_that_lack_a_default_are_compacted_too_where_files_are_read_alone() -> None:
    """Only if they have a row from before the column; what was compacted with it lacks nothing."""
    added = Field("b", "b", "bigint", first=(0, 10, "f", 0, 0), default=7)
    old, filled, new = ({"position_min": (0, at, "f", 0, 0), "position_max": (0, at, "f", 0, 0)} for at in (5, 5, 15))
    three = [dataclasses.replace(segment(number), **more) for number, more in enumerate((old, {**filled, "defaults": ("b",)}, new))]
    there = snapshot(tuple(three), 1)
    there = dataclasses.replace(there, schema=dataclasses.replace(there.schema, fields=(*there.schema.fields, added)))
    assert [each.id for each in compaction.targets(there, {}, 10**6, fill=True)] == ["s0"]
    assert compaction.targets(there, {}, 10**6) == ()


@pytest.mark.parametrize(
    ("order", "offsets", "settings", "kept"),
    [
        # a connector's order judges all events by one bound
        ((("source.lsn", "bigint"),), (), {}, False),
        # Kafka's offsets do so in each partition, if the files name partitions
        ((("kafka.offset", "bigint"),), ((0, 7),), {}, False),
        ((("kafka.offset", "bigint"),), (), {}, True),
        # a column of the row may be a counter that each row has for itself
        ((("seq", "bigint"),), (), {}, True),
        # positions of two shards do not compare
        ((("source.lsn", "bigint"),), (), {"shard": "region"}, True),
        # nothing is judged
        ((("seq", "bigint"),), (), {"beyond_retention": "apply"}, False),
        ((("seq", "bigint"),), (), {"delete": "hard"}, False),
    ],
)
def test_tombstones_stay_where_no_bound_can_stand_for_them(order: Any, offsets: Any, settings: dict[str, Any], kept: bool) -> None:
    """After their retention, without the values of the rows that they hide."""
    assert compaction.keeps_tombstones(dataclasses.replace(SPEC, **settings), order, offsets) == kept
