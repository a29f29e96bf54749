"""Deciding, as tables: what to take, how to write it, what to fold, whether a fold still holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.errors import InputRefused
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import DataFile, Delta, Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import plan
from compactor.core.planning.plan import LandedFile

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


def found(path: str, etag: str = "e", size: int = 5, modified: float = 0.0) -> LandedFile:
    """A file in landing."""
    return LandedFile(path, size, etag, modified)


@pytest.mark.parametrize(
    ("files", "changes", "expected"),
    [
        ([], {}, {}),
        ([found("h_2026010100/a")], {}, {"new": ["h_2026010100/a"]}),
        ([found("h_2026010101/b"), found("h_2026010100/a")], {}, {"new": ["h_2026010100/a", "h_2026010101/b"]}),
        ([found("h_2026010100/a", "known")], {}, {"absorbed": 1}),
        ([found("h_2026010100/a", "changed")], {}, {"new": ["h_2026010100/a"]}),
        ([found("h_2026010100/_SUCCESS"), found("h_2026010100/a", size=0)], {}, {"ignored": 2}),
        ([found("h_2026010100/a", modified=95.0)], {"settle": 10.0}, {"waiting": 1}),
        ([found("h_2026010100/a", modified=90.0)], {"settle": 10.0}, {"new": ["h_2026010100/a"]}),
        ([found("h_2026010100/a"), found("h_2026010105/b")], {"first_folder": "h_2026010102"}, {"skipped": 1, "new": ["h_2026010105/b"]}),
        ([found("h_2026010102/a")], {"first_folder": "h_2026010102"}, {"new": ["h_2026010102/a"]}),
        ([found("notes.txt"), found("h_2026010100/a")], {}, {"new": ["h_2026010100/a"], "ignored": 1}),
        ([found("notes.txt"), found("h_2026010100/a", "known")], {}, {"absorbed": 1, "ignored": 1}),
        (
            [found("05-03-2026/b"), found("31-12-2025/a")],
            {"pattern": "%d-%m-%Y", "first_folder": "01-01-2026"},
            {"skipped": 1, "new": ["05-03-2026/b"]},
        ),
        ([found("LOAD1.csv"), found("h_2026010100/a")], {"envelope": "dms"}, {"new": ["LOAD1.csv", "h_2026010100/a"]}),
        ([found("LOAD1.csv"), found("h_2026010100/a")], {}, {"new": ["h_2026010100/a"], "ignored": 1}),
        ([found("h_2026010100/a.parquet", size=0, modified=99.0)], {}, {"waiting": 1}),
        ([found("h_2026010100/a.avro", size=0, modified=99.0)], {}, {"waiting": 1}),
        ([found("h_2026010100/a", size=0, modified=99.0)], {"format": "parquet"}, {"waiting": 1}),
        ([found("h_2026010100/a.csv", size=0), found("h_2026010100/a.json.gz", size=0)], {}, {"ignored": 2}),
        ([found("h_2026010100/", size=0), found("h_2026010100_$folder$", size=0)], {"format": "parquet"}, {"ignored": 2}),
        ([found("any/name"), found("x")], {"pattern": ""}, {"new": ["any/name", "x"]}),
        ([found("_SUCCESS")], {}, {"ignored": 1}),
    ],
)
def test_discover(files: list[LandedFile], changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """New inputs are what lies in landing and not in the ledger, in path order."""
    landing = plan.discover(dataclasses.replace(SPEC, **changes), files, frozenset({("h_2026010100/a", "known")}), 100.0)
    assert [item.path for item in landing.new] == expected.get("new", [])
    for name in ("waiting", "skipped", "ignored", "absorbed"):
        assert getattr(landing, name) == expected.get(name, 0), name
    assert landing.size == 5 * len(landing.new)


def test_a_parquet_file_that_stays_empty_is_taken_and_will_be_found_unusable() -> None:
    """Nobody is going to finish it: it goes to quarantine, which names it, instead of waiting for ever."""
    landing = plan.discover(SPEC, [found("h_2026010100/a.parquet", size=0)], frozenset(), plan.UNFINISHED_GRACE)
    assert [item.path for item in landing.new] == ["h_2026010100/a.parquet"]


def test_discover_refuses_a_landing_where_nothing_fits() -> None:
    """A wrong pattern would otherwise look like an idle table for ever; the error names pattern and a file."""
    with pytest.raises(InputRefused, match=r"2 files .*h_%Y%m%d%H.*increment_1/a"):
        plan.discover(SPEC, [found("increment_1/a"), found("x")], frozenset(), 0.0)


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
    """A whole base for the first load, type changes, truncates, `rewrite`, and when much of the table changes at once."""
    spec = dataclasses.replace(SPEC, write_mode=write_mode)
    assert plan.whole_base(spec, parent, changes, retyped, truncated) is expected


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
def test_fold_targets(shares: dict[str, int], changes: int, expected: list[str]) -> None:
    """Segments whose share reaches sqrt(2C/N), the fullest first; a table that changes wholesale is folded too."""
    targets = plan.compaction_targets(snapshot(TWO, 30), shares, changes)
    assert [target.id for target in targets] == expected


def test_without_a_delta_nothing_is_folded() -> None:
    """Whatever the shares say."""
    assert plan.compaction_targets(snapshot(TWO), {"s0": 10}, 1) == ()


def test_a_delta_that_readers_no_longer_broadcast_is_folded_where_it_is_fullest() -> None:
    """A quarter of the segments, even if none reaches the threshold."""
    many = tuple(segment(at, 1000, at or None, at + 1 if at < 7 else None) for at in range(8))
    big = snapshot(many, 100, 200 << 20)
    assert plan.delta_estimate(big) > plan.DELTA_LIMIT
    targets = plan.compaction_targets(big, {"s3": 5, "s6": 9, "s1": 1}, 4000)
    assert [target.id for target in targets] == ["s6", "s3"]


@given(changes=st.integers(0, 10**9), rows=st.integers(0, 10**12))
def test_the_fold_threshold_is_a_share(changes: int, rows: int) -> None:
    """Between nothing and all."""
    assert 0 < plan.compaction_threshold(changes, rows) <= 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"version": 9}, True),
        ({"delta": None}, True),
        ({"segments": (TWO[0], segment(7, 10, 5, None))}, True),
        ({"segments": (segment(7, 10, None, 5), TWO[1])}, False),
        ({"segments": ()}, False),
        ({"truncated_to": (0, 1, "f", 0, 0)}, False),
        ({"epoch": 1}, False),
        ({"uuid": "other"}, False),
        ({"schema": Schema((Field("id", "id", "bigint"),), ("id",), 2)}, False),
    ],
)
def test_can_rebase(changed: dict[str, Any], expected: bool) -> None:
    """A fold holds on a newer Snapshot that still has its segments and moved no barrier (H16)."""
    seen = snapshot(TWO, 5)
    assert plan.can_rebase(seen, dataclasses.replace(seen, **changed), (TWO[0],)) is expected


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
    """Half-open ranges from -∞ to +∞ without holes and overlaps (H17)."""
    if problem is None:
        assert plan.tiling_problem(segments) is None
    else:
        assert problem in (plan.tiling_problem(segments) or "")
