"""Position: nulls first, then values, member by member, ties by file, block, row."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.position import Partitions, Position, at_or_below, earliest, event_part, latest, offsets_problem, sort_key

ORDERED: list[Position] = [
    (-1, None, None, "", 0, 0),
    (0, None, None, "a", 0, 0),
    (0, None, 5, "a", 0, 0),
    (0, 1, None, "b", 0, 0),
    (0, 1, -7, "a", 0, 0),
    (0, 1, 0, "a", 0, 0),
    (0, 1, 0, "a", 0, 1),
    (0, 1, 0, "a", 9, 0),
    (0, 1, 0, "a/b", 0, 0),
    (0, 1, 0, "b", 0, 0),
    (0, 2, None, "a", 0, 0),
    (0, 10, 0, "a", 0, 0),
    (1, None, None, "a", 0, 0),
]

POSITIONS = st.tuples(
    st.integers(-1, 2), st.none() | st.integers(-3, 3), st.none() | st.integers(), st.text("ab/", max_size=3), st.integers(0, 3), st.integers(0, 3)
)


def test_positions_sort_as_written() -> None:
    """Epoch, order columns with nulls first, file, block, row; numbers as numbers."""
    assert sorted(random.Random(0).sample(ORDERED, len(ORDERED)), key=sort_key) == ORDERED


@given(one=POSITIONS, other=POSITIONS)
def test_two_positions_compare_one_way_only(one: Position, other: Position) -> None:
    """`at_or_below` is a total order, and `latest` and `earliest` follow it."""
    assert at_or_below(one, other) or at_or_below(other, one)
    assert (at_or_below(one, other) and at_or_below(other, one)) == (one == other)
    assert latest([one, None, other]) == (other if at_or_below(one, other) else one)
    assert earliest([None, one, other]) == (one if at_or_below(one, other) else other)


def test_unknown_positions_hold_nothing_back() -> None:
    """Nothing lies below an unknown bound, and of nothing nothing is the latest."""
    assert not at_or_below(None, ORDERED[0])
    assert not at_or_below(ORDERED[0], None)
    assert latest([]) is latest([None]) is earliest([None]) is None


def test_the_event_part_leaves_out_where_it_was_delivered() -> None:
    """Two deliveries of one event have one event part."""
    assert event_part((0, 1, 2, "a", 0, 5)) == event_part((0, 1, 2, "b", 9, 7)) == (0, 1, 2)


@pytest.mark.parametrize(
    ("absorbed", "batch", "truncate", "newer", "expected"),
    [
        ((), ((0, 5), (1, 7)), False, True, None),
        (((0, 5), (1, 7)), ((1, 9),), False, True, None),
        (((0, 5), (1, 7)), ((1, 3),), False, False, None),
        (((0, 5),), ((0, 9),), True, True, None),
        (((0, 5),), ((0, 9), (1, 2)), False, True, "partition 1 is new"),
        (((0, 5), (1, 7)), ((0, 9),), True, True, "2 partitions"),
        ((), ((0, 5), (1, 7)), True, True, "2 partitions"),
        (((0, 5), (1, 7)), ((1, 3),), False, True, "created again"),
    ],
)
def test_offsets_are_compared_within_a_partition_only(
    absorbed: Partitions, batch: Partitions, truncate: bool, newer: bool, expected: str | None
) -> None:
    """A redelivery brings old offsets and old changes; a topic created again brings small offsets and new changes."""
    problem = offsets_problem(absorbed, batch, truncate, newer)
    assert problem is None if expected is None else expected in str(problem)
