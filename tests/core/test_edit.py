"""Edit: the requirements under which an Edit may be applied to a newer version."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from compactor.core.model import edit
from compactor.core.model.edit import ContinuesState, HasSegments, NewestIs, NotReplaced
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import DataFile, Delta, Segment, Snapshot


def segment(number: int, low: int | None, high: int | None) -> Segment:
    """A segment of the range [low, high)."""
    bounds = ((low,) if low is not None else None, (high,) if high is not None else None)
    return Segment(f"s{number}", f"base/s{number}", 10, 0, (DataFile("p", 100),), *bounds, None, None, 0)


TWO = (segment(0, None, 5), segment(1, 5, None))
SCHEMA = Schema((Field("id", "id", "bigint"), Field("a", "a", "string")), ("id",))
DELTA = Delta("d", "delta/d", 5, 0, (DataFile("p", 100),), None, None)
SEEN = Snapshot("t", "u", 3, 2, "w", "", "", "commit", SCHEMA, (("seq", "bigint"),), "b", TWO, DELTA, replaced=1)
COMPACTION = (ContinuesState(SEEN), HasSegments((TWO[0].id,)))
"""What a compaction of the first segment requires."""


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"version": 9}, ""),
        ({"delta": None}, ""),
        ({"segments": (TWO[0], segment(7, 5, None))}, ""),
        ({"segments": (segment(7, None, 5), TWO[1])}, "segment s0"),
        ({"segments": ()}, "segment s0"),
        ({"truncated_to": (0, 1, "f", 0, 0)}, "truncated_to"),
        ({"epoch": 1}, "epoch"),
        ({"replaced": 4}, "restore or rebuild"),
        ({"replaced": 3}, ""),
        ({"uuid": "other"}, "table u"),
        ({"schema": Schema((Field("id", "id", "bigint"),), ("id",), 2)}, "generation"),
    ],
)
def test_a_compaction_holds_on_a_newer_version(changed: dict[str, Any], problem: str) -> None:
    """It holds while its segments are there, no barrier moved, and no restore or rebuild replaced the rows (H16)."""
    newest = dataclasses.replace(SEEN, **changed)
    result = edit.unmet(COMPACTION, newest)
    assert problem in (result or "") and (result is None) == (problem == "")


def test_requirements_of_a_table_without_a_version() -> None:
    """Version 0 is the newest, nothing was replaced, and there are no segments."""
    assert NewestIs(0).problem(None) is None and NotReplaced(0).problem(None) is None
    assert NewestIs(0).problem(SEEN) == "expected version 0 to be the newest, found 3"
    assert NotReplaced(0).problem(SEEN) == "expected no restore or rebuild since version 0, found version 1"
    assert edit.unmet(COMPACTION, None) == "expected the table u, found none"
    assert HasSegments(("s0",)).problem(None) == "expected segment s0 in the base, found it replaced"
