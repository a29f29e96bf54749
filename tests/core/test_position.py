"""Position: nulls first, then values, member by member, ties by file, block, row."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.position import Partitions, Position, at_or_below, constant, earliest, event_part, latest, offsets_problem, sort_key

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


@given(whole=st.integers(-(10**38) + 1, 10**38 - 1), scale=st.integers(0, 38))
def test_a_decimal_becomes_a_constant_with_all_its_digits(whole: int, scale: int) -> None:
    """Up to 38, of which Python's own arithmetic would keep 28."""
    sign, digits, exponent = Decimal(constant(whole, f"decimal(38,{scale})")).as_tuple()
    assert (whole, -scale) == ((-1) ** sign * int("".join(map(str, digits))), exponent)


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
        ((), ((0, 5), (1, 7)), False, ((0, 0), (1, 0)), None),
        (((0, 5), (1, 7)), ((1, 9),), False, ((1, 8),), None),
        (((0, 5), (1, 7)), ((1, 3),), False, (), None),
        (((0, 5),), ((0, 9),), True, ((0, 6),), None),
        (((0, 5),), ((0, 9), (1, 2)), False, ((0, 6), (1, 0)), "partition 1 is new"),
        (((0, 5), (1, 7)), ((0, 9),), True, ((0, 6),), "2 partitions"),
        ((), ((0, 5), (1, 7)), True, (), "2 partitions"),
        (((0, 5), (1, 7)), ((1, 3),), False, ((1, 0),), "created again"),
        (((0, 5), (1, 7)), ((0, 6), (1, 99)), False, ((0, 6), (1, 7)), "partition 1 was read up to offset 7, and its offset 7 has a newer change"),
    ],
)
def test_offsets_are_compared_within_a_partition_only(
    absorbed: Partitions, batch: Partitions, truncate: bool, newer: Partitions, expected: str | None
) -> None:
    """A redelivery brings old offsets and old changes; a topic created again brings small offsets and new changes."""
    problem = offsets_problem(absorbed, batch, truncate, newer)
    assert problem is None if expected is None else expected in str(problem)


@given(
    cuts=st.lists(st.integers(0, 20), min_size=1, max_size=5),
    anew=st.integers(1, 40),
    first=st.integers(0, 20),
    partitions=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_a_topic_created_again_is_noticed_and_a_redelivery_is_not(cuts: list[int], anew: int, first: int, partitions: int, seed: int) -> None:
    """Events of one topic in any order and repetition; then a new topic, read from its `first` offset on, however many events it has by then."""
    rng = random.Random(seed)
    # (partition, offset, source time)
    topic = [(number % partitions, number // partitions, number) for number in range(60)]
    stored: dict[int, int] = {}
    time = -1
    for cut in cuts:
        batch = rng.sample(topic[: 20 + 2 * cut], 20)
        if {place for place, _, _ in batch} - set(stored) and stored:
            continue
        newer = {place: min(offset for other, offset, at in batch if other == place and at > time) for place, _, at in batch if at > time}
        assert offsets_problem(tuple(stored.items()), (), False, tuple(newer.items())) is None
        for place, offset, at in batch:
            stored[place], time = max(stored.get(place, -1), offset), max(time, at)
    again = dict.fromkeys(stored, first)
    problem = offsets_problem(tuple(stored.items()), tuple((place, first + anew) for place in stored), False, tuple(again.items()))
    assert (problem is not None) == any(first <= offset for offset in stored.values())
