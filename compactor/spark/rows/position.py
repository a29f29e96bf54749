"""Position as a Spark struct: `epoch, o1 .. on, file, block, row`.

Spark compares structs member by member, nulls first, as `core.model.position` does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from compactor.core.model import position as core
from compactor.core.model import types
from compactor.core.model.errors import OrderRefused
from compactor.core.model.inputs import NAME_ENDING
from compactor.core.model.position import NO_STARTS, Partitions, Position, Starts
from compactor.core.model.spec import TableSpec
from compactor.spark.columns import BEFORE, EVENT, INVALID, OP, ROW, SOURCE, TIME
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import FIRST_COMMIT, exactly, expression, in_range
from compactor.spark.rows import order_texts
from compactor.spark.sql import as_column, coalesce, literal, null

Order = core.Order
ddl, own_ddl = core.ddl, core.own_ddl

EVENTS_MAX = 1 << 30
"""The greatest number of events in one record. Together with the 33 bits of a row's number it fills a bigint."""
_FILLER = "^(__debezium_unavailable_value|false|[-0.:TZ ]*|1970-01-01.*|A*=*|[{][}])$"
"""The text of a value that PostgreSQL's connector writes into a column that may not be null, where the source sends only the key of a deleted row."""


def record_place(spec: TableSpec) -> tuple[str, str]:
    """SQL for BLOCK and ROW of the record of a Change."""
    row = f"_position.row div {EVENTS_MAX}L" if spec.source.several_events else "_position.row"
    return "_position.block AS _block", f"{row} AS _row"


def event_number(spec: TableSpec) -> str:
    """SQL: the number of the event of a Change inside of its record."""
    return f"_position.row % {EVENTS_MAX}L" if spec.source.several_events else "0L"


def lacks(order: Order) -> str:
    """SQL for the entry in `_own` of a column for which a state has no value."""
    return f"named_struct('at', CAST(NULL AS {ddl(order)}), 'known', false)"


def built(epoch: str, values: Sequence[str], order: Order, row: str = "_row") -> str:
    """SQL for the Position of a decoded row. `epoch`, `values` (of the order columns) and `row` (the order inside a block) are SQL."""
    middle = "".join(f"'o{at + 1}', {value}, " for at, value in enumerate(values))
    # where the file is part of the order, its second content has the events of the first
    file = f"regexp_replace(_file, {literal(NAME_ENDING)}, '')" if by_file(order) else "_file"
    return f"named_struct('epoch', {epoch}, {middle}'file', {file}, 'block', _block, 'row', {row})"


def with_position(
    frame: Frame, spec: TableSpec, order: Order, epoch: str, valid: bool = False, starts: Starts = NO_STARTS, shard: str = "''"
) -> Frame:
    """Return the frame with POSITION. `epoch` and `shard` are SQL; `valid`: no record is INVALID, as an earlier pass found.

    `starts`: PostgreSQL's connector sends no commit LSN with the first transaction that it sees, and after a restart within it a lower one. So its
    changes are ordered by their own LSN. Those of a transaction that was open when the first snapshot was taken are newer than the snapshot's
    rows; of later snapshots nobody knows whether it was.

    A row whose order column is null, where it must not be, or misordered text (`order_texts`), becomes INVALID. Invalid rows have no OP.
    A TIME that is none becomes null.
    """
    parts = [order_part(frame, spec, name, types.parse(kind)) for name, kind in order]
    typed = [exactly(part, own, types.parse(kind)) for (part, own), (_, kind) in zip(parts, order)]
    if starts.transactions and "sequence:" in dict(frame.rows.dtypes)[SOURCE]:
        own = "try_cast(_source.lsn AS BIGINT)"
        numbers = ", ".join(f"struct({at}, {literal(name)}, {number}L)" for at, name, number in starts.transactions)
        first = f"{FIRST_COMMIT} OR coalesce(struct({epoch}, {shard}, try_cast(_source.txId AS BIGINT)) IN ({numbers}), false)"
        lsns = " ".join(f"WHEN {epoch} = {at} AND {shard} = {literal(name)} THEN {lsn}L" for at, name, lsn in starts.snapshots)
        taken = f"CASE {lsns} END" if lsns else "NULL"
        typed[0] = f"CASE WHEN _op <> 'r' AND ({first}) THEN greatest({taken}, {own}) ELSE {typed[0]} END"
    required = [(part, frame.order_names.may_be_null(name, at == 0)) for at, (part, (name, _)) in enumerate(zip(typed, order))]
    unordered = " OR ".join(f"(({part}) IS NULL AND NOT ({excused}))" for part, excused in required) or "false"
    texts = [at for at, (name, kind) in enumerate(order) if kind == "string" and order_texts.column_of(name) is not None]
    misordered = coalesce([order_texts.problem(order[at][0], *required[at]) for at in texts] or ["NULL"])
    names = ", ".join(name for name, _ in order)
    advice = (
        "set `order_by:` to columns that every change has (a snapshot's rows may lack them, if `op` or `__op` is r), or declare another type in "
        "`types:` and rebuild"
    )
    if not frame.columns:
        advice = "the records have a key and no value, as tombstones have. Set `order_by: [offset]` (a table that exists: and `compactor rebuild`)"
    reason = literal(f"a column of the order ({names}) is null or not of the order's type; {advice}")
    fillers = _fillers(frame, spec, typed, order)
    tested = f"CASE WHEN _invalid IS NOT NULL THEN _invalid WHEN _op IS NOT NULL AND ({unordered}) THEN {reason} {fillers}ELSE {misordered} END"
    why = "CAST(NULL AS STRING)" if valid else tested
    keep = [f"{in_range(TIME)} AS {TIME}" if name == TIME else name for name in frame.rows.columns if name not in (INVALID, OP)]
    # a record that holds several events: the record's place orders the file, the event's number orders the record
    place = f"_row * {EVENTS_MAX}L + coalesce(_event, 0)" if EVENT in frame.rows.columns else ROW
    rows = frame.rows.selectExpr(*keep, f"{built(epoch, typed, order, place)} AS _position", f"{why} AS _invalid", OP)
    return dataclasses.replace(frame, rows=rows.withColumn(OP, as_column("CASE WHEN _invalid IS NULL THEN _op END")))


def order_part(frame: Frame, spec: TableSpec, name: str, kind: types.Type) -> tuple[str, types.Type]:
    """Return SQL for an order column of a frame, and its type; null and `kind` if no record has a column."""
    try:
        return expression(name, frame.columns, spec.name, frame.order_names, frame.writers, frame.members)
    except OrderRefused:
        if frame.columns:
            raise
        # no record of these files has a column: all are invalid
        return null(kind), kind


def _fillers(frame: Frame, spec: TableSpec, values: Sequence[str], order: Order) -> str:
    """SQL for a CASE: why a delete that has fillers for values of the row has no place in an order by these. "" if none of them comes first."""
    # order column → column of the row, "" for a field of the connector. A column of the key is the same in all changes of a row
    key, columns = {name.lower() for name in spec.key}, {name: (core.payload_column(name) or "").lower() for name, _ in order}
    first = next((name for name in columns if columns[name] not in key), "")
    own = {name: value for name, value in zip(columns, values) if columns[name] not in {"", *key} and not name.startswith("__")}
    if not frame.fillers or not key or first not in own:
        return ""
    others = (name for name, kind in frame.columns.items() if types.is_scalar(kind) and name.lower() not in key and not name.startswith("__"))
    times = {field.name.lower() for writer in frame.writers for field in writer.fields if field.type[0] in ("timestamp", "date")}
    # a counter may begin with zero: a delete with any other value has the whole row, but that may be the default of a column
    values = [own[first]] if columns[first] in times else [*own.values(), *(frame.value(name, BEFORE) for name in others)]
    fillers = " AND ".join(f"coalesce(CAST({value} AS STRING) RLIKE {literal(_FILLER)}, true)" for value in values)
    reason = (
        f"is a delete in which {', '.join(own)} may be a filler: PostgreSQL sends no more than the key, unless REPLICA IDENTITY is FULL. Set "
        "`order_by:` to fields of the connector, such as source.lsn or __source_lsn, or leave it out"
    )
    # others send whole rows
    of = "" if frame.order_names.columns_first else "AND _source.connector = 'postgresql' "
    return f"WHEN _op = 'd' {of}AND {fillers} THEN {literal(reason)} "


def fixed(position: Position, order: Order) -> str:
    """SQL for a given Position."""
    named = zip(core.members(order), position)
    inside = ", ".join(f"'{name}', CAST({literal(core.constant(value, kind))} AS {kind})" for (name, kind), value in named)
    return f"named_struct({inside})"


def behind(purged_to: Position | None, purged_offsets: Partitions, order: Order, keyless: bool = False) -> str:
    """SQL on Changes: whether a purged tombstone may be newer than the event. See `State.purged_to`.

    Without key an event is its own key, in whatever file it is sent again.
    """
    if purged_to is None:
        return "false"
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
