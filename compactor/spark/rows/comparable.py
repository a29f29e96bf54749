"""Payload columns that order changes: they are compared as the values that are stored, exactly. No SQL here can fail.

| stored as | compared as |
|---|---|
| whole numbers; decimals of at most 18 digits without fraction | bigint |
| other decimals | decimal(38, s), in Positions outside of Spark as a whole number (`rows/position.py`) |
| float, double | double; NaN has no order |
| timestamp, date | bigint: microseconds, days since 1970 |
| a time of day that arrives as a number | bigint: that number |
| text | text; ISO timestamps in UTC with nine digits of fraction, LSNs with leading zeros (`0/9` sorts before `0/10`) |
| numbers that only text can hold, boolean, bytes, nested types | refused |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compactor.core.model import types
from compactor.core.model.errors import OrderRefused
from compactor.core.schema.writer import DECIMAL, VARIABLE_DECIMAL, WriterField, WriterSchema
from compactor.spark.decode import conversions
from compactor.spark.sql import cast, literal, null, quoted

LSN = "^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$"
"""PostgreSQL's text of an LSN."""

_ZONE = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)?$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?" + _ZONE
_TIMES = ("Time", "MicroTime", "NanoTime")


def column(
    name: str, own: Mapping[str, types.Type], writers: Sequence[WriterSchema], table: str, members: Mapping[str, str]
) -> tuple[str, types.Type]:
    """Return SQL for a payload column of a decoded row, and the type that it is compared as. Raises OrderRefused if it has no order.

    `own`: the column's names in the row images, with its type under each. `members` is `Frame.members`, `name` its name in `order_by`.
    """

    def value(column: str) -> str:
        member = quoted(members.get(column, column))
        return f"coalesce(_after.{member}, _before.{member})"

    variants: dict[WriterField, list[str]] = {}
    for writer in writers:
        if field := next(filter(None, map(writer.field, own)), None):
            variants.setdefault(field, []).append(writer.id)
    if not variants:
        first = next(iter(own))
        return _ordered(value(first), own[first], name, table)
    parts = [(ids, *_stored(value(field.name), own[field.name], field, name, table)) for field, ids in variants.items()]
    together = joined(kind for _, _, kind in parts)
    if len(parts) == 1:
        return parts[0][1], together
    cases = (f"WHEN _writer IN ({', '.join(map(literal, ids))}) THEN {cast(sql, together)}" for ids, sql, _ in parts)
    return f"CASE {' '.join(cases)} END", together


def joined(kinds: Iterable[types.Type]) -> types.Type:
    """Return the type as which values of all these types can be compared; text for numbers and text."""
    distinct = {*kinds}
    if len(distinct) == 1:
        return distinct.pop()
    if ("string",) in distinct:
        return ("string",)
    if ("double",) in distinct:
        return ("double",)
    return ("decimal", 38, max(kind[2] for kind in distinct if kind[0] == "decimal"))


def exactly(value: str, kind: types.Type, target: types.Type) -> str:
    """SQL: a comparable value of type `kind` as the type `target` of a table's order. Null if it is not exactly the same value there.

    Numbers are no text: 9 and 10 would change places.
    """
    if kind == target:
        return value
    if kind == ("string",):
        # a cast to a decimal rounds
        whole = f"{value} RLIKE '^[ ]*[+-]?[0-9]+[ ]*$'"
        return f"CASE WHEN {whole} THEN {cast(value, target)} END" if target[0] == "decimal" and target[2] == 0 else cast(value, target)
    if target == ("string",):
        return null(target)
    return f"CASE WHEN {cast(cast(value, target), kind)} = {value} THEN {cast(value, target)} END"


def _stored(value: str, kind: types.Type, field: WriterField, name: str, table: str) -> tuple[str, types.Type]:
    if field.semantic.rsplit(".", 1)[-1] in _TIMES and kind[0] in ("int", "bigint"):
        return f"CAST({value} AS BIGINT)", ("bigint",)
    if field.type == ("string",) and field.semantic in (DECIMAL, VARIABLE_DECIMAL):
        raise OrderRefused(
            f"table {table}: order_by column {name!r} holds numbers of any size, which are stored as text and have no order. Set `order_by:` to "
            "another column."
        )
    return _ordered(conversions.to_stored(value, kind, field), field.type, name, table)


def _ordered(value: str, kind: types.Type, name: str, table: str) -> tuple[str, types.Type]:
    if kind[0] == "string":
        return _text(value, name)
    if kind[0] in ("tinyint", "smallint", "int", "bigint"):
        return f"CAST({value} AS BIGINT)", ("bigint",)
    if kind[0] == "timestamp":
        return f"unix_micros({value})", ("bigint",)
    if kind[0] == "date":
        return f"CAST(datediff({value}, DATE'1970-01-01') AS BIGINT)", ("bigint",)
    if kind[0] == "decimal":
        target = ("bigint",) if kind[1] <= 18 and kind[2] == 0 else ("decimal", 38, kind[2])
        return cast(value, target), target
    if kind[0] in ("float", "double"):
        return f"CASE WHEN NOT isnan({value}) THEN CAST({value} AS DOUBLE) END", ("double",)
    raise OrderRefused(f"table {table}: order_by column {name!r} has type {types.text(kind)}, which has no order. Set `order_by:` to another column.")


def first_number(value: str, number: str) -> str:
    """SQL: the text of PostgreSQL's `sequence`, which is the JSON of a list, as `number`. Other text, or null, as it is, unless there is a number."""
    return f"coalesce(CASE WHEN NOT startswith({value}, '[') THEN {value} END, CAST({number} AS STRING))"


def _text(value: str, name: str) -> tuple[str, types.Type]:
    if name.endswith("sequence"):
        return first_number(value, f"get(filter(from_json({value}, 'ARRAY<STRING>'), _x -> _x IS NOT NULL), 0)"), ("string",)
    if name.lower().endswith("lsn"):
        halves = ", '/', ".join(f"lpad(upper(split_part({value}, '/', {part})), 8, '0')" for part in (1, 2))
        return f"CASE WHEN {value} RLIKE '{LSN}' THEN concat({halves}) ELSE {value} END", ("string",)
    zone = f"regexp_extract(substr({value}, 20), {literal(_ZONE)}, 0)"
    seconds = f"try_cast(concat(substr({value}, 1, 10), 'T', substr({value}, 12, 8), {zone}) AS TIMESTAMP)"
    fraction = f"rpad(regexp_extract(substr({value}, 20), '^[.]([0-9]+)', 1), 9, '0')"
    moment = f"concat(date_format({seconds}, \"yyyy-MM-dd'T'HH:mm:ss\"), '.', {fraction})"
    # ten o'clock is written as 10:00:00Z, and as 10:00:00.5Z half a second later, which sorts before it as text
    return f"CASE WHEN {value} RLIKE {literal(_MOMENT)} THEN coalesce({moment}, {value}) ELSE {value} END", ("string",)
