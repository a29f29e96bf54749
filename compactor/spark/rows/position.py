"""Position as a Spark struct: `epoch, o1 .. on, file, block, row`.

Spark compares structs member by member, nulls first, as `core.model.position` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from compactor.core.model import position as core
from compactor.core.model.inputs import NAME_ENDING
from compactor.core.model.position import Partitions, Position
from compactor.spark.sql import literal

Order = core.Order
ddl, own_ddl = core.ddl, core.own_ddl


def lacks(order: Order) -> str:
    """SQL for the entry in `_own` of a column for which a state has no value."""
    return f"named_struct('at', CAST(NULL AS {ddl(order)}), 'known', false)"


def built(epoch: str, values: Sequence[str], order: Order, row: str = "_row") -> str:
    """SQL for the Position of a decoded row. `epoch`, `values` (of the order columns) and `row` (the order inside a block) are SQL."""
    middle = "".join(f"'o{at + 1}', {value}, " for at, value in enumerate(values))
    # where the file is part of the order, its second content has the events of the first
    file = f"regexp_replace(_file, {literal(NAME_ENDING)}, '')" if by_file(order) else "_file"
    return f"named_struct('epoch', {epoch}, {middle}'file', {file}, 'block', _block, 'row', {row})"


def fixed(position: Position, order: Order) -> str:
    """SQL for a given Position."""
    named = zip(core.members(order), position)
    inside = ", ".join(f"'{name}', CAST({literal(core.constant(value, kind))} AS {kind})" for (name, kind), value in named)
    return f"named_struct({inside})"


def behind(purged_to: Position | None, purged_offsets: Partitions, order: Order, keyless: bool = False) -> str | None:
    """SQL on Changes: whether a purged tombstone may be newer than the event. None if nothing was purged. See `State.purged_to`.

    Without key an event is its own key, in whatever file it is sent again.
    """
    if purged_to is None:
        return None
    bounds = " ".join(f"WHEN {partition} THEN _position.o1 <= {offset}" for partition, offset in purged_offsets)
    in_partition = f" OR (_position.epoch = {purged_to[0]} AND CASE _partition {bounds} ELSE false END)" if bounds else ""
    # a snapshot's row without a place in the log shows the present
    placed = f"(_op <> 'r' OR _position.{core.members(order)[1][0]} IS NOT NULL)"
    bound = fixed(purged_to, order)
    at_or_below = f"{event('_position', order)} <= {event(bound, order)}" if keyless else f"_position <= {bound}"
    return f"({placed} AND ({at_or_below}{in_partition}))"


def from_row(row: Any) -> Position | None:
    """Return a collected struct as a Position. Decimals become whole numbers (12.50 is 1250), which JSON and Python compare exactly."""
    if row is None:
        return None
    return tuple(_unscaled(value) if isinstance(value, Decimal) else value for value in row)


def from_json(members: Any, order: Order) -> Position | None:
    """Return a struct that was parsed from JSON (`measured`) as a Position."""
    if members is None:
        return None
    return tuple(_from_json(members[name], kind) for name, kind in core.members(order))


def _from_json(value: Any, kind: str) -> Any:
    if value is not None and kind.startswith("decimal"):
        return _unscaled(Decimal(value))
    # infinity is a string in JSON
    return float(value) if value is not None and kind == "double" else value


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def by_file(order: Order) -> bool:
    """Whether the file is part of the order and not only a tie-breaker (AWS DMS). Equal rows of two files are then two events."""
    return any(name == "dms.file" for name, _ in order)


def event(position: str, order: Order) -> str:
    """SQL for the members of a Position that identify the event at its source."""
    if by_file(order):
        return position
    return "struct(" + ", ".join(f"{position}.{name}" for name, _ in core.members(order)[: len(order) + 1]) + ")"
