"""Position: the place of an event in the source's order. Positions of one table are totally ordered.

A Position is `[epoch, order_1 .. order_n, file, block, row]`: the epoch (0; -1 for adopted rows), the order columns (the most significant first),
and the tie-breakers: path below the landing root, offset of the block in the file, row in the block. Nulls sort first, as in Spark's comparison of
structs. In JSON a Position is that list, in Parquet a struct with the fields `epoch, o1..on, file, block, row`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Position = tuple[Any, ...]

TIE_BREAKERS = ("file", "block", "row")


def sort_key(position: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    """Return the key for sorting Positions in Python: nulls first, then by value.

    >>> sort_key((0, None, "a")) < sort_key((0, 1, "a"))
    True
    """
    return tuple((value is not None, value if value is not None else 0) for value in position)


def latest(positions: Sequence[Position | None]) -> Position | None:
    """Return the greatest Position, or None without any. None in `positions` is ignored."""
    given = [position for position in positions if position is not None]
    return max(given, key=sort_key) if given else None


def earliest(positions: Sequence[Position | None]) -> Position | None:
    """Return the least Position, or None without any. None in `positions` is ignored."""
    given = [position for position in positions if position is not None]
    return min(given, key=sort_key) if given else None


def event_part(position: Sequence[Any]) -> tuple[Any, ...]:
    """Return epoch and order columns: the part that identifies the event at its source, without the tie-breakers of its delivery."""
    return tuple(position[: -len(TIE_BREAKERS)])


OFFSETS = ("offset", "kafka.offset", "_offset")
"""Names under which an order column is the Kafka offset."""

Partitions = tuple[tuple[int, int], ...]
"""(partition, greatest offset) for each partition of a topic."""


def offsets_problem(absorbed: Partitions, batch: Partitions, truncate: bool, newer: bool) -> str | None:
    """Return why a table whose first order column is the Kafka offset cannot take a batch (H6), or None if it can.

    `absorbed`, `batch`: offsets of the table and of the batch. `truncate`: whether the batch has a truncate. `newer`: whether the batch's source time
    is later than the table's. Offsets of different partitions cannot be compared. That is harmless while a key stays in its partition and no event
    concerns all rows.
    """
    stored, new = dict(absorbed), dict(batch)
    if truncate and len({*stored, *new}) > 1:
        return f"a TRUNCATE concerns all rows, but the topic has {len({*stored, *new})} partitions, whose offsets cannot be compared"
    added = sorted(set(new) - set(stored))
    if stored and added:
        return f"partition {added[0]} is new. Keys may have moved to it, and offsets of different partitions cannot be compared"
    back = [name for name, offset in new.items() if name in stored and offset < stored[name]]
    if newer and back:
        return f"offsets of partition {back[0]} end at {new[back[0]]} after {stored[back[0]]}, but the changes are newer: the topic was created again"
    return None


def at_or_below(position: Position | None, bound: Position | None) -> bool:
    """Return whether `position` ≤ `bound`. False if either is None."""
    return position is not None and bound is not None and sort_key(position) <= sort_key(bound)
