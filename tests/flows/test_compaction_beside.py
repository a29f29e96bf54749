"""A compaction beside another one: how far its Segments contain the changes."""

from __future__ import annotations

from compactor.core.model.files import Segment
from compactor.flows.write.compact import _placed


def segment(name: str, low: str | None, high: str | None, through: int) -> Segment:
    """A Segment over a range of one key column."""
    return Segment(name, f"base/{name}", 9, 0, (), low and (low,), high and (high,), None, None, through)  # type: ignore[arg-type]


def test_a_range_that_goes_to_its_neighbour_keeps_how_far_it_was_compacted() -> None:
    """Else rows of the Delta there, newer than the compaction that emptied the range, would be taken for rows of the base."""
    stored = [segment("left", None, "3", 7), segment("emptied", "3", "6", 2), segment("right", "6", None, 5)]
    placed = _placed(stored, {"emptied"}, [], through=4)
    assert [("left", None, ("6",), 4), ("right", ("6",), None, 5)] == [(each.id, each.low, each.high, each.compacted_through) for each in placed]
    made = [segment("made", "3", "6", 4)]
    assert [7, 4, 5] == [each.compacted_through for each in _placed(stored, {"emptied"}, made, through=4)]
