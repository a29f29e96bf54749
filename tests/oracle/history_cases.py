"""Worked examples of histories: what comes in which run, and the versions that must be there after the last. One key each, but where two are named.

An event is `(op, seq, time, values)`, its order `seq`, its source time `time` in seconds; a version `(values, from, until, deleted)`.
`?` stands for a value that the event does not tell. Keys: `k`, or what `key` and `left` say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One change."""

    op: str
    seq: int
    time: int
    values: Values = field(default_factory=dict)
    key: str = "k"
    left: str | None = None


@dataclass(frozen=True)
class Case:
    """`runs` of events; `expected`: key → versions (values, from, until, deleted), and which key the first had before."""

    runs: tuple[tuple[Event, ...], ...]
    expected: dict[str, list[tuple[Values, int, int | None, bool]]]
    previous: dict[str, str] = field(default_factory=dict)


def u(seq: int, time: int | None = None, key: str = "k", left: str | None = None, **values: Any) -> Event:
    """An insert or update."""
    return Event("u", seq, seq if time is None else time, {"a": None, "b": None, **values}, key, left)


def d(seq: int, time: int | None = None, key: str = "k") -> Event:
    """A delete."""
    return Event("d", seq, seq if time is None else time, {}, key)


def row(a: Any = None, b: Any = None) -> Values:
    """What a version holds."""
    return {name: value for name, value in (("a", a), ("b", b)) if value is not None}


CASES = {
    "an insert is open": Case(((u(1, a=1),),), {"k": [(row(1), 1, None, False)]}),
    "an update closes what was: the end is the next one's beginning": Case(
        ((u(1, a=1),), (u(5, a=2),)), {"k": [(row(1), 1, 5, False), (row(2), 5, None, False)]}
    ),
    "many in one batch": Case(
        ((u(1, a=1), u(2, a=2), u(3, a=3)),), {"k": [(row(1), 1, 2, False), (row(2), 2, 3, False), (row(3), 3, None, False)]}
    ),
    "a late event splits the interval it falls in": Case(
        ((u(1, a=1), u(9, a=9)), (u(5, a=5),)), {"k": [(row(1), 1, 5, False), (row(5), 5, 9, False), (row(9), 9, None, False)]}
    ),
    "a late event before all": Case(((u(5, a=5),), (u(1, a=1),)), {"k": [(row(1), 1, 5, False), (row(5), 5, None, False)]}),
    "a late event after which equal content goes on": Case(
        ((u(1, a=1), u(9, a=1)), (u(5, a=5),)), {"k": [(row(1), 1, 5, False), (row(5), 5, 9, False), (row(1), 9, None, False)]}
    ),
    "a late event that tells what was so already": Case(
        ((u(1, a=1), u(9, a=9)), (u(5, a=1),)), {"k": [(row(1), 1, 9, False), (row(9), 9, None, False)]}
    ),
    "equal content makes no version, in one batch and in two": Case(
        ((u(1, a=1), u(2, a=1)), (u(3, a=1), u(4, a=2))), {"k": [(row(1), 1, 4, False), (row(2), 4, None, False)]}
    ),
    "the same event again, in its batch and later": Case(
        ((u(1, a=1), u(1, a=1), u(2, a=2)), (u(1, a=1), u(2, a=2))), {"k": [(row(1), 1, 2, False), (row(2), 2, None, False)]}
    ),
    "null is a value, and another one than in the next column": Case(
        ((u(1, a="x"), u(2, b="x"), u(3)),), {"k": [(row("x"), 1, 2, False), (row(b="x"), 2, 3, False), (row(), 3, None, False)]}
    ),
    "a delete ends the version": Case(((u(1, a=1),), (d(4),)), {"k": [(row(1), 1, 4, True)]}),
    "a delete twice": Case(((u(1, a=1), d(4)), (d(6),)), {"k": [(row(1), 1, 4, True)]}),
    "a delete of what was never there": Case(((d(4),),), {}),
    "a re-insert leaves a gap and the flag of what was deleted": Case(
        ((u(1, a=1), d(4)), (u(7, a=1),)), {"k": [(row(1), 1, 4, True), (row(1), 7, None, False)]}
    ),
    "a late delete": Case(((u(1, a=1), u(9, a=9)), (d(5),)), {"k": [(row(1), 1, 5, True), (row(9), 9, None, False)]}),
    "a late delete parts equal content": Case(((u(1, a=1), u(9, a=1)), (d(5),)), {"k": [(row(1), 1, 5, True), (row(1), 9, None, False)]}),
    "a late event before a delete": Case(((u(1, a=1), d(9)), (u(5, a=5),)), {"k": [(row(1), 1, 5, False), (row(5), 5, 9, True)]}),
    "delete and insert of one transaction": Case(
        ((u(1, a=1),), (d(5, 5), u(6, 5, a=2))), {"k": [(row(1), 1, 5, True), (row(2), 5, None, False)]}
    ),
    "one commit time, the order decides; the one between is of no time": Case(
        ((u(3, 7, a=3), u(1, 7, a=1), u(2, 7, a=2)),), {"k": [(row(1), 7, 7, False), (row(2), 7, 7, False), (row(3), 7, None, False)]}
    ),
    "a clock that goes back: never a negative interval": Case(
        ((u(1, 10, a=1), u(2, 4, a=2), u(3, 12, a=3)),), {"k": [(row(1), 10, 10, False), (row(2), 10, 12, False), (row(3), 12, None, False)]}
    ),
    "a late event whose clock was ahead pushes what follows": Case(
        ((u(1, 1, a=1), u(3, 3, a=3), u(4, 9, a=4)), (u(2, 5, a=2),)),
        {"k": [(row(1), 1, 5, False), (row(2), 5, 5, False), (row(3), 5, 9, False), (row(4), 9, None, False)]},
    ),
    "a value that is not told is the one before": Case(
        ((u(1, a=1, b="x"), u(5, a=5, b="?")),), {"k": [(row(1, "x"), 1, 5, False), (row(5, "x"), 5, None, False)]}
    ),
    "a late event fills what later ones do not tell, up to the next that does": Case(
        ((u(1, a=1, b="x"), u(5, a=5, b="?"), u(7, a=7, b="?"), u(9, a=9, b="z")), (u(3, a=3, b="y"),)),
        {
            "k": [
                (row(1, "x"), 1, 3, False), (row(3, "y"), 3, 5, False), (row(5, "y"), 5, 7, False), (row(7, "y"), 7, 9, False),
                (row(9, "z"), 9, None, False),
            ]
        },
    ),
    "a delete forgets: what is not told afterwards is not known": Case(
        ((u(1, a=1, b="x"), u(5, a=5, b="?")), (d(3),)), {"k": [(row(1, "x"), 1, 3, True), (row(5), 5, None, False)]}
    ),
    "a key change ends one history and begins another, with its values": Case(
        ((u(1, a=1, b="x", key="k1"),), (u(5, a=1, b="?", key="k2", left="k1"),)),
        {"k1": [(row(1, "x"), 1, 5, True)], "k2": [(row(1, "x"), 5, None, False)]},
        {"k2": "k1"},
    ),
    "a chain of key changes, and a late event at its beginning": Case(
        (
            (u(1, a=1, b="x", key="k1"), u(5, a=5, b="?", key="k2", left="k1")),
            (u(7, a=7, b="?", key="k3", left="k2"),),
            (u(3, a=3, b="y", key="k1"),),
        ),
        {
            "k1": [(row(1, "x"), 1, 3, False), (row(3, "y"), 3, 5, True)],
            "k2": [(row(5, "y"), 5, 7, True)],
            "k3": [(row(7, "y"), 7, None, False)],
        },
        {"k2": "k1", "k3": "k2"},
    ),
    "a key that is changed and taken again": Case(
        ((u(1, a=1, key="k1"), u(5, a=1, key="k2", left="k1")), (u(9, a=9, key="k1"),)),
        {"k1": [(row(1), 1, 5, True), (row(9), 9, None, False)], "k2": [(row(1), 5, None, False)]},
        {"k2": "k1"},
    ),
}  # fmt: skip

TRUNCATES = {
    "a truncate ends what is open, and what comes late from before it": Case(
        ((u(1, a=1, key="k1"), u(2, a=2, key="k2"), Event("t", 5, 5, key="")), (u(3, a=3, key="k3"), u(4, a=4, key="k1"), u(7, a=7, key="k2"))),
        {
            "k1": [(row(1), 1, 4, False), (row(4), 4, 5, True)],
            "k2": [(row(2), 2, 5, True), (row(7), 7, None, False)],
            "k3": [(row(3), 3, 5, True)],
        },
    ),
    "a late truncate": Case(
        ((u(1, a=1, key="k1"), u(2, a=2, key="k2"), u(8, a=8, key="k1")), (Event("t", 5, 6, key=""),)),
        {"k1": [(row(1), 1, 6, True), (row(8), 8, None, False)], "k2": [(row(2), 2, 6, True)]},
    ),
}
"""These concern all rows: a table each."""
