"""Position: the place of an event in the source's order. Positions of one table are totally ordered.

A Position is `[epoch, order_1 .. order_n, file, block, row]`: the epoch (0; -1 for adopted rows), the order columns (the most significant first;
decimals without their point), and the tie-breakers: path below the landing root, offset of the block in the file, row in the block. Nulls sort first,
as in Spark's comparison of structs. In JSON a Position is that list, in Parquet a struct with the fields `epoch, o1..on, file, block, row`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from compactor.core.model.errors import OrderRefused

Position = tuple[Any, ...]

Span = tuple[Optional[Position], Optional[Position]]
"""Positions that none of some rows is below and above. None: there are no rows."""

Order = Sequence[tuple[str, str]]
"""(name, Hive type) of each order column."""

TIE_BREAKERS = ("file", "block", "row")


def members(order: Order) -> list[tuple[str, str]]:
    """Return (name, Hive type) of the members of a Position's struct."""
    middle = [(f"o{at + 1}", kind) for at, (_, kind) in enumerate(order)]
    return [("epoch", "int"), *middle, ("file", "string"), ("block", "bigint"), ("row", "bigint")]


def decimal_text(value: int, scale: int) -> str:
    """Return the decimal that a whole number of its last digit stands for. Python's own decimals round to 28 digits when they are computed with.

    >>> decimal_text(-1250, 3), decimal_text(7, 0)
    ('-1.250', '7')
    """
    digits = str(abs(value)).rjust(scale + 1, "0")
    point = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{point}" if value < 0 else point


def constant(value: Any, kind: str) -> Any:
    """Return a member of a Position, given its Hive type, as a constant of SQL has it: a decimal is kept as a whole number of its last digit."""
    if not kind.startswith("decimal") or value is None:
        return value
    return decimal_text(value, int(kind.rstrip(")").rpartition(",")[2]))


def ddl(order: Order) -> str:
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in members(order)) + ">"


def own_ddl(order: Order) -> str:
    """Return the Hive type of `_own`: column → the event that its value comes from.

    `at` is the Position of that event. `known` is false for a value that no event contained, or that a delete or truncate at `at` has ended, and null
    for one that a key change at `at` carried.
    """
    return f"map<string,struct<at:{ddl(order)},known:boolean>>"


def state_columns(order: Order) -> tuple[tuple[str, str], ...]:
    """Return (name, Hive type) of the columns that base and Delta files have beside the table's own (`spark/rows/reduce.py`)."""
    clocks = (("_at", ddl(order)), ("_gone", ddl(order)), ("_own", own_ddl(order)))
    return (("_version", "bigint"), *clocks, ("_moved", "string"))


def sort_key(position: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    """Return the key for sorting Positions in Python: nulls first, then by value.

    >>> sort_key((0, None, "a")) < sort_key((0, 1, "a"))
    True
    """
    return tuple((value is not None, value if value is not None else 0) for value in position)


def latest(positions: Sequence[Position | None]) -> Position | None:
    """Return the greatest Position, or None without any. None in `positions` is ignored."""
    return max((position for position in positions if position is not None), key=sort_key, default=None)


def earliest(positions: Sequence[Position | None]) -> Position | None:
    """Return the least Position, or None without any. None in `positions` is ignored."""
    return min((position for position in positions if position is not None), key=sort_key, default=None)


def spanned(parts: Sequence[Span]) -> Span:
    """Return what spans the rows of all these parts."""
    return earliest([first for first, _ in parts]), latest([last for _, last in parts])


def event_part(position: Sequence[Any]) -> tuple[Any, ...]:
    """Return epoch and order columns: the part that identifies the event at its source, without the tie-breakers of its delivery."""
    return tuple(position[: -len(TIE_BREAKERS)])


OFFSETS = ("offset", "kafka.offset", "_offset")
"""Names under which an order column is the Kafka offset."""

_NULLABLE = ("lsn", "pos", "row", "event_serial_no", "rs_id", "ssn")

NULLABLE = frozenset(
    {
        *("offset", "total_order", "change_lsn_text", *_NULLABLE),
        *(f"{before}{name}" for before in ("__", "__source_", "source.") for name in ("change_lsn", *_NULLABLE)),
    }
)
"""Order columns that changes of a connector may lack below the first, and rows of a snapshot anywhere. Nulls sort first."""

DEFAULTS = {
    "postgresql": ("commit_lsn", "lsn", "total_order"),
    "mysql": ("file_number", "pos", "row"),
    "mariadb": ("file_number", "pos", "row"),
    "sqlserver": ("commit_lsn_text", "change_lsn_text", "event_serial_no"),
    "informix": ("commit_lsn_text", "change_lsn_text", "event_serial_no"),
    "oracle": ("commit_scn", "scn", "rs_id", "ssn"),
    "mongodb": ("mongodb.time", "mongodb.ord", "total_order"),
    "TiCDC": ("source.commit_ts",),
    "wal2json 1": ("commit_lsn", "total_order"),
    "wal2json 2": ("commit_time", "change_lsn"),
    "wal2json 2 without timestamp": ("change_lsn",),
    "change-event": ("commit_time",),
}
"""Connector → its order columns, most significant first."""

BY_OFFSET = ("mongodb",)
"""Connectors whose fields order changes less well than Kafka's offsets do: these order whole Kafka records."""

CONNECTOR = frozenset(
    {
        *OFFSETS,
        *("commit_lsn", "lsn", "total_order", "file_number", "pos", "row", "commit_lsn_text", "change_lsn_text", "event_serial_no", "commit_time"),
        *("change_lsn", "commit_scn", "scn", "rs_id", "ssn", "dms.phase", "dms.change_seq", "dms.stream_position", "dms.file", "full_load.hour"),
        *("mongodb.time", "mongodb.ord"),
    }
)
"""Names of order columns in a Snapshot that are fields of the connector, whatever columns the rows have. `after.lsn` is the row's column `lsn`."""

_PATHS = ("source.", "transaction.")
"""Beginnings of paths into the envelope, such as `source.ts_us`."""

ORDERING = (
    *("sequence", "lsn", "commit_lsn", "change_lsn", "event_serial_no", "commit_scn", "scn", "rs_id", "ssn"),
    *("file", "pos", "row", "ts_ms", "ts_us", "ts_ns"),
)
"""Fields of Debezium's source block that order changes."""

_METADATA = re.compile(rf"__(source_)?({'|'.join(ORDERING)})")
"""Columns into which ExtractNewRecordState writes fields of the connector."""

TABLE, PARTITION, KEY = "table", "partition", "key"
"""Which events an order compares: all of a table, those of one Kafka partition, or those of one key."""


def payload_column(name: str) -> str | None:
    """Return the row's column that an order column of a Snapshot stands for; None for a field of the connector."""
    return None if name in CONNECTOR or name.startswith(_PATHS) else name.removeprefix("after.")


def same_order(declared: Sequence[str], stored: Sequence[str]) -> bool:
    """Return whether `order_by`, if it is set, is the order that a Snapshot names."""
    same = len(declared) == len(stored) and all(name in (other, other.removeprefix("after.")) for name, other in zip(declared, stored))
    return same or not declared


def check_order(table: str, declared: Sequence[str], stored: Sequence[str]) -> None:
    """Raise OrderRefused unless `order_by`, if it is set, is the order that a Snapshot names."""
    if not same_order(declared, stored):
        raise OrderRefused(
            f"table {table}: order_by is {', '.join(declared)}, but the table was built with {', '.join(stored)}. Positions of different orders "
            f"cannot be compared. Restore the setting, or rebuild the table from its archive with this order: compactor rebuild {table}"
        )


def scope(order: Order) -> str:
    """Return which events the order compares: TABLE, PARTITION or KEY.

    The positions of a connector order all its events, and Kafka's offsets those of a partition. A column of the row need only order the changes of
    one key: it may be a counter that each row has for itself.
    """
    names = [name for name, _ in order if name != "dms.phase"]
    if not names or (payload_column(names[0]) is not None and not _METADATA.fullmatch(names[0])):
        return KEY
    return PARTITION if names[0] in OFFSETS else TABLE


@dataclass(frozen=True)
class Starts:
    """PostgreSQL's first initial snapshot, and the transactions that its connector sent first: changes of these name no commit, and are placed by
    their own LSN, or by the snapshot's if that is greater (`spark/rows/position.py`).
    """

    snapshots: tuple[tuple[int, str, int], ...] = ()
    """(epoch, shard, LSN) of the first one of each shard."""
    transactions: tuple[tuple[int, str, int], ...] = ()
    """(epoch, shard, transaction) of the first transactions; 0 where changes name none."""


NO_STARTS = Starts()


Partitions = tuple[tuple[int, int], ...]
"""(partition, offset) for partitions of a topic: the greatest offset, unless a name says otherwise."""


def offsets_problem(absorbed: Partitions, batch: Partitions, truncate: bool, newer: Partitions) -> str | None:
    """Return why a table whose first order column is the Kafka offset cannot take a batch, or None if it can.

    `absorbed`, `batch`: greatest offsets of the table and of the batch. `truncate`: whether the batch has a truncate. `newer`: the least offset of
    changes whose source time is later than the table's. Offsets of different partitions cannot be compared. That is harmless while a key stays in its
    partition and no event concerns all rows.
    """
    stored, new = dict(absorbed), dict(batch)
    if truncate and len({*stored, *new}) > 1:
        return f"a TRUNCATE concerns all rows, but the topic has {len({*stored, *new})} partitions, whose offsets cannot be compared"
    added = sorted(set(new) - set(stored))
    if stored and added:
        return f"partition {added[0]} is new. Keys may have moved to it, and offsets of different partitions cannot be compared"
    # an offset that was there before, with a change that was not: however far the new count has come since
    back = [(name, offset) for name, offset in newer if name in stored and offset <= stored[name]]
    if back:
        name, offset = back[0]
        return f"partition {name} was read up to offset {stored[name]}, and its offset {offset} has a newer change: the topic was created again"
    return None


def at_or_below(position: Position | None, bound: Position | None) -> bool:
    """Return whether `position` ≤ `bound`. False if either is None."""
    return position is not None and bound is not None and sort_key(position) <= sort_key(bound)


def after(position: Position | None, other: Position | None) -> bool:
    """Return whether `position` > `other`. False if either is None."""
    return position is not None and other is not None and not at_or_below(position, other)
