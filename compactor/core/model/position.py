"""Position: the total order of the Changes of one table.

A Position is `[epoch, order_1 .. order_n, file, block, row]`: the epoch (0; adopted rows -1), the order columns, most significant first,
then the tie-breakers: path below the landing root, offset of the block in the file, row inside the block. Nulls sort first, as in
Spark's struct comparison, so that both engines agree. In JSON it is that list; in Parquet a struct with fields `epoch, o1..on, file, block, row`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Position = tuple[Any, ...]

TIE_BREAKERS = ("file", "block", "row")


def sort_key(position: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    """What Python sorts Positions by: nulls first, then the value.

    >>> sort_key((0, None, "a")) < sort_key((0, 1, "a"))
    True
    """
    return tuple((value is not None, value if value is not None else 0) for value in position)


def latest(positions: Sequence[Position | None]) -> Position | None:
    """The greatest of those that are known."""
    known = [position for position in positions if position is not None]
    return max(known, key=sort_key) if known else None


def earliest(positions: Sequence[Position | None]) -> Position | None:
    """The least of those that are known."""
    known = [position for position in positions if position is not None]
    return min(known, key=sort_key) if known else None


def event_part(position: Sequence[Any]) -> tuple[Any, ...]:
    """The part that names the event at its source (epoch and order columns), without the tie-breakers of its delivery."""
    return tuple(position[: -len(TIE_BREAKERS)])


OFFSETS = ("offset", "kafka.offset", "_offset")
"""Names of the order column that is the Kafka offset."""

Partitions = tuple[tuple[int, int], ...]
"""(partition, greatest offset) of a topic."""


def offsets_problem(known: Partitions, found: Partitions, truncate: bool, newer: bool) -> str | None:
    """Why a table ordered by Kafka offsets first cannot take these (H6), or None. `newer`: the source's time has gone on since `known`.

    Offsets of different partitions say nothing about each other: that is right as long as a key stays in its partition and nothing concerns all.
    """
    stored, new = dict(known), dict(found)
    if truncate and len({*stored, *new}) > 1:
        return f"a TRUNCATE concerns all rows, but the topic has {len({*stored, *new})} partitions, whose offsets cannot be compared"
    added = sorted(set(new) - set(stored))
    if stored and added:
        return f"partition {added[0]} is new: keys may have moved to it, and its offsets cannot be compared with those they had"
    back = [name for name, offset in new.items() if name in stored and offset < stored[name]]
    if newer and back:
        return f"offsets of partition {back[0]} end at {new[back[0]]} after {stored[back[0]]}, but the changes are newer: the topic was made again"
    return None


def at_or_below(position: Position | None, bound: Position | None) -> bool:
    """Whether `position` ≤ `bound`; unknown bounds hold nothing back."""
    return position is not None and bound is not None and sort_key(position) <= sort_key(bound)
