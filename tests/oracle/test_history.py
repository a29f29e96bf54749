"""The oracle of histories: the worked examples, and what must hold whatever happens."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.history import as_of, versions
from tests.oracle.history_cases import CASES, TRUNCATES, Event
from tests.oracle.model import Change, ordered, parsed, replayed
from tests.oracle.sizes import sized
from tests.oracle.source import KINDS, Source


def change(event: Event, at: int) -> Change:
    """An event as the model has it."""
    told = {name: value for name, value in event.values.items() if value != "?"}
    missing = frozenset(event.values) - frozenset(told)
    left = (event.left,) if event.left else None
    return Change(event.op, (event.key,) if event.key else (), told, (0, event.seq, "f", 0, at), missing, left)


@pytest.mark.parametrize("name", [*CASES, *TRUNCATES])
def test_worked_examples(name: str) -> None:
    """However the events are dealt out, the versions are those written down."""
    case = {**CASES, **TRUNCATES}[name]
    events = [event for run in case.runs for event in run]
    times = {event.seq: event.time for event in events}
    found = versions([change(event, at) for at, event in enumerate(events)], lambda one: times[one.position[1]])
    by_key: dict[str, list[object]] = {}
    for one in sorted(found, key=lambda one: one.began):
        by_key.setdefault(one.key[0], []).append((dict(one.values), one.start, one.end, one.deleted))
    assert case.expected == by_key
    assert case.previous == {one.key[0]: one.previous[0] for one in found if one.previous}


@sized(60)
@given(seed=st.integers(0, 2**32), clock=st.sampled_from(["ahead", "mixed"]))
def test_what_holds_of_every_history(seed: int, clock: str) -> None:
    """No overlap, one current version for each live key and no other; at each event's time the table is what a replay up to it gives."""
    rng, source = random.Random(seed), Source()
    for _ in range(rng.randint(5, 60)):
        source.step(rng.choice(KINDS), rng.randrange(30), rng.randrange(30))
    changes = parsed("\n".join(source.lines).encode(), "f")
    seconds = {one.position[1]: one.position[1] // 30 if clock == "ahead" else rng.randrange(50) for one in changes}

    def time(one: Change) -> int:
        return seconds[one.position[1]]

    found = versions(changes, time)
    live = replayed(changes)
    assert live == {one.key: dict(one.values) for one in found if one.end is None}
    for key in {one.key for one in found}:
        mine = sorted((one for one in found if one.key == key), key=lambda one: one.began)
        assert all(one.end is not None and one.start <= one.end <= after.start for one, after in itertools.pairwise(mine))
    if clock == "ahead":
        for moment in sorted(set(seconds.values())):
            assert as_of(found, moment) == replayed(one for one in ordered(changes) if time(one) <= moment)
