"""Position as a Spark struct: `epoch, o1 .. on, file, block, row`; Spark compares structs member by member, nulls first, as `core.position` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.core.model.position import Position
from compactor.spark.sql import literal

Order = Sequence[tuple[str, str]]
"""(name, type) of each order column."""


def members(order: Order) -> list[tuple[str, str]]:
    """Member names and types of the struct."""
    middle = [(f"o{at + 1}", kind) for at, (_, kind) in enumerate(order)]
    return [("epoch", "int"), *middle, ("file", "string"), ("block", "bigint"), ("row", "bigint")]


def ddl(order: Order) -> str:
    """The struct's type text."""
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in members(order)) + ">"


def older_ddl(order: Order) -> str:
    """The type of `_older`: column → where its value comes from.

    `at` is the Position of the value's event, `via` the same unless it came along with a key change (then the older Position it had
    under the old key), `known` is false for a value that no event told.
    """
    return f"map<string,struct<at:{ddl(order)},via:{ddl(order)},known:boolean>>"


def built(epoch: str, values: Sequence[str], row: str = "_row") -> str:
    """SQL for the Position of a decoded row; `row` orders the events of one block of a file."""
    middle = "".join(f"'o{at + 1}', {value}, " for at, value in enumerate(values))
    return f"named_struct('epoch', {epoch}, {middle}'file', _file, 'block', _block, 'row', {row})"


def fixed(position: Position, order: Order) -> str:
    """SQL for a known Position."""
    named = zip(members(order), position)
    inside = ", ".join(f"'{name}', CAST({literal(value)} AS {kind})" for (name, kind), value in named)
    return f"named_struct({inside})"


def from_row(row: Any) -> Position | None:
    """A collected struct as a Position."""
    return tuple(row) if row is not None else None


def by_file(order: Order) -> bool:
    """Whether file and row are part of the order itself and not only tie-breakers (AWS DMS): two rows are then two events, however alike."""
    return any(name == "dms.file" for name, _ in order)


def event(position: str, order: Order) -> str:
    """SQL for the part of a Position that names the event at its source."""
    if by_file(order):
        return position
    return "struct(" + ", ".join(f"{position}.{name}" for name, _ in members(order)[: len(order) + 1]) + ")"
