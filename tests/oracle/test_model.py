"""The oracle itself: against the source it models, and against a second, quite different way to resolve."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from compactor.core.model.position import Position, sort_key
from tests.oracle.model import Change, Key, Row, line, parsed, replayed, shown
from tests.oracle.sizes import sized
from tests.oracle.source import KINDS, Source

STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=25)
NO_MOVES = st.lists(
    st.tuples(st.sampled_from(("insert", "update", "partial", "delete", "snapshot", "truncate")), st.integers(0, 30), st.integers(0, 30)),
    min_size=1,
    max_size=25,
)  # fmt: skip


def sent(steps: list[tuple[str, int, int]]) -> Source:
    """A source after these statements."""
    source = Source()
    for step in steps:
        source.step(*step)
    return source


@sized(100)
@given(steps=STEPS)
def test_playing_back_all_events_gives_the_sources_own_rows(steps: list[tuple[str, int, int]]) -> None:
    """Values that events do not tell come from older ones, through key changes too."""
    source = sent(steps)
    assert replayed(parsed("\n".join(source.lines).encode(), "f")) == source.table()


@sized(100)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_neither_order_nor_repetition_of_delivery_matters(steps: list[tuple[str, int, int]], seed: int) -> None:
    """Events shuffled over files, some of them delivered twice, give the same rows."""
    source, rng = sent(steps), random.Random(seed)
    files: dict[str, list[str]] = {"f1": [], "f2": [], "f3": []}
    for each in rng.sample(source.lines, len(source.lines)) + rng.sample(source.lines, len(source.lines) // 2):
        files[rng.choice([*files])].append(each)
    changes = [change for path, lines in files.items() for change in parsed("\n".join(lines).encode(), path)]
    assert replayed(rng.sample(changes, len(changes))) == source.table()


class Registers:
    """The rule of `compactor.spark.rows.reduce` in its own words: every column is a last-writer-wins register, a delete writes unknown to all.

    A key's state is {register: (Position, value)}; states merge by taking the greater Position of each register: in any order, any grouping.
    """

    COLUMNS = ("_op", "a", "b", "c")

    def __init__(self) -> None:
        self.states: dict[Key, dict[str, tuple[Position, object]]] = {}
        self.barrier: Position | None = None

    def take(self, change: Change) -> None:
        """Merge one event."""
        if change.op == "t":
            self.barrier = max(filter(None, (self.barrier, change.position)), key=sort_key)
            return
        live = change.op != "d"
        state = self.states.setdefault(change.key, {})
        for name in self.COLUMNS:
            value = live if name == "_op" else change.values.get(name) if live else None
            if name not in change.missing and (name not in state or sort_key(state[name][0]) < sort_key(change.position)):
                state[name] = (change.position, value)

    def rows(self) -> dict[Key, Row]:
        """Rows whose operation register says so, barriers applied."""
        bound = sort_key(self.barrier) if self.barrier else ()
        out = {}
        for key, state in self.states.items():
            kept = {name: value for name, (at, value) in state.items() if sort_key(at) > bound}
            if kept.pop("_op", False):
                out[key] = {name: value for name, value in kept.items() if value is not None}
        return out


@sized(100)
@given(steps=NO_MOVES, seed=st.integers(0, 1000))
def test_registers_that_keep_the_newest_value_resolve_to_the_same_rows(steps: list[tuple[str, int, int]], seed: int) -> None:
    """The rule that the Spark engine follows and playing back in order are one, without key changes; arrival order is random here."""
    changes = parsed("\n".join(sent(steps).lines).encode(), "f")
    registers = Registers()
    for change in random.Random(seed).sample(changes, len(changes)):
        registers.take(change)
    assert registers.rows() == replayed(changes)


def test_of_tied_events_the_later_file_wins_then_the_later_row() -> None:
    """Ties on the order columns go by file, then row, whichever came first."""
    first = parsed(line("c", [1], [5], {"a": 1}).encode(), "f1")
    second = parsed("\n".join([line("c", [1], [5], {"a": 2}), line("c", [1], [5], {"a": 3})]).encode(), "f2")
    assert replayed([*second, *first]) == replayed([*first, *second]) == {(1,): {"a": 3}}


def test_an_unknown_value_is_shown_as_null() -> None:
    """A column that no event told is no value."""
    assert shown({"a": 1, "b": "(unknown)"}) == {"a": 1}
    assert replayed(parsed(line("u", [1], [5], {"a": 1}, ["b"]).encode(), "f")) == {(1,): {"a": 1}}
