"""Order columns: the names that `order_by` may use, and the field of a record that each stands for.

`docs/sources.md` lists those of the connectors ("The order of events"). Beside them there are these, the columns of the row, and dotted paths into
the envelope such as `source.ts_us`:

| name | from |
|---|---|
| `dms.phase` | 0 in a file of the full load, 1 in a file of changes |
| `dms.change_seq`, `dms.stream_position` | `AR_H_CHANGE_SEQ`; `transact_id`, its numbers brought to one width |
| `dms.file` | the file's name without folders |
| `full_load.hour` | the hour of the file's folder, UTC, as text |

In a default order and in a Snapshot these names always mean the connector's field, whatever columns the row has; `after.lsn` is the row's column
`lsn`. In the `order_by` of plain rows, `lsn` is the row's column if the rows have one. `of_snapshot` decides that once, when the table is made.

Columns of the row are compared as the values that are stored, exactly. No SQL here can fail.

| stored as | compared as |
|---|---|
| whole numbers; decimals of at most 18 digits without fraction | bigint |
| other decimals | decimal(38, s), in Positions outside of Spark as a whole number (`rows/position.py`) |
| float, double | double; NaN has no order |
| timestamp, date | bigint: microseconds, days since 1970 |
| a time of day that arrives as a number | bigint: that number |
| text | text; ISO timestamps in UTC with nine digits of fraction, LSNs with leading zeros (`0/9` sorts before `0/10`) |
| numbers that only text can hold, boolean, bytes, nested types | refused |

The default order ends with `offset` where it is kept: the source's own order comes first because offsets go on growing when
events are sent again after a crash, so a cut inside the re-delivery would bring old values back, and history would see each change twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.core.model import times, types
from compactor.core.model.errors import OrderRefused
from compactor.core.model.position import BY_OFFSET, CONNECTOR, DEFAULTS, NULLABLE, OFFSETS
from compactor.core.model.spec import TableSpec
from compactor.core.schema.semantic_types import DECIMAL, VARIABLE_DECIMAL
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources.full_loads import HOUR
from compactor.spark.columns import OFFSET
from compactor.spark.decode import conversions
from compactor.spark.sql import END, cast, let, literal, null, quoted

SOURCE = (
    *("connector", "snapshot", "schema", "table", "db", "collection", "txId", "lsn", "sequence", "file", "pos", "row", "change_lsn", "commit_lsn"),
    *("event_serial_no", "commit_scn", "scn", "rs_id", "lcr_position", "ssn", "ts_ms", "ts_us", "commit_ts", "ord"),
)
"""The fields of Debezium's source block that are read, as text. `order_by` may name others."""
TABLE_NAMES = ("keyspace", "keyspace_name", "table_name")
"""Fields in which Vitess and Scylla name a table."""
LSN = "^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}" + END
"""PostgreSQL's text of an LSN."""
_ZONE = "([Zz]| ?[+-][0-9]{2}(:?[0-9]{2})?)?" + END
_MINUTE = "^([0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt][0-9]{2}:[0-9]{2})"
_MOMENT = f"{_MINUTE}:[0-9]{{2}}([.,][0-9]{{1,9}})?{_ZONE}"
_RANK = "transaction.transaction_rank"
_TIMES = ("Time", "MicroTime", "NanoTime")

FIRST_COMMIT = "_source.sequence LIKE '[null%'"
"""SQL: whether PostgreSQL's connector had seen no commit before an event: the rows of an initial snapshot, and the first transaction after it."""
_IN_SECOND = "_op <> 'r' AND try_cast(_source.ts_ms AS BIGINT) % 1000 = 0"

_COMMIT = f"CASE WHEN NOT {FIRST_COMMIT} THEN try_cast(trim(BOTH '[]\" ' FROM substring_index(_source.sequence, ',', 1)) AS BIGINT) END"
"""The first member of a list such as `["24","25"]`. A parser of JSON would cost each record more than its values do, and so would a text that is no
number: Spark makes an exception of it."""

_OF_CHANGE = "coalesce(startswith(_source.connector, 'wal2json'), false)"
"""SQL: whether `_source.lsn` is that of a change of wal2json, whose format 2 alone has it."""


def _padded(lsn: str) -> str:
    """SQL: an LSN of SQL Server as it is (hexadecimal of a fixed width), one of Informix, which is a decimal number, with leading zeros."""
    return f"CASE WHEN contains({lsn}, ':') THEN {lsn} ELSE lpad({lsn}, greatest(20, length({lsn})), '0') END"


_COMPUTED = {
    # a snapshot's rows have no commit: the LSN at which it was taken lies above older slots' (and see `position.with_position`). The LSN of
    # wal2json's format 2 is that of a change: it says nothing about the commit of format 1
    "commit_lsn": f"coalesce({_COMMIT}, CASE WHEN NOT {_OF_CHANGE} THEN try_cast(_source.lsn AS BIGINT) END)",
    # a snapshot's rows were read before the changes of the transactions that were open then
    "lsn": "CASE WHEN _op <> 'r' THEN try_cast(_source.lsn AS BIGINT) END",
    "total_order": "try_cast(_source.total_order AS BIGINT)",
    "file_number": "try_cast(regexp_extract(_source.file, '([0-9]+)$', 1) AS BIGINT)",
    "pos": "try_cast(_source.pos AS BIGINT)",
    "row": "try_cast(_source.row AS BIGINT)",
    "commit_lsn_text": _padded("_source.commit_lsn"),
    "change_lsn_text": _padded("_source.change_lsn"),
    "event_serial_no": "try_cast(_source.event_serial_no AS BIGINT)",
    "commit_time": "try_cast(_source.ts_us AS BIGINT)",
    "change_lsn": "try_cast(_source.lsn AS BIGINT)",
    # a snapshot's rows have no commit: changes of the transactions that were open then come after them, and have lower SCNs of their own
    "commit_scn": "try_cast(coalesce(_source.commit_scn, _source.scn) AS BIGINT)",
    "scn": "try_cast(_source.scn AS BIGINT)",
    # hexadecimal digits of a fixed width; `ssn` counts within it. XStream has a position instead
    "rs_id": "coalesce(trim(_source.rs_id), _source.lcr_position)",
    "ssn": "try_cast(_source.ssn AS BIGINT)",
    # rows of a snapshot have the time of Connect's clock, which does not compare with that of changes
    "mongodb.time": "CASE WHEN _op <> 'r' THEN try_cast(_source.ts_ms AS BIGINT) END",
    # a time with milliseconds is that of a clock, and `ord` counts in the seconds of the cluster
    "mongodb.ord": f"CASE WHEN {_IN_SECOND} THEN try_cast(_source.ord AS BIGINT) END",
    **dict.fromkeys(OFFSETS, OFFSET),
    "dms.phase": "_source.phase",
    "dms.change_seq": "_source.change_seq",
    "dms.stream_position": "_source.stream_position",
    "dms.file": "_source.file",
    HOUR: "_source.hour",
}
TEXTUAL = ("commit_lsn_text", "change_lsn_text", "rs_id", "dms.change_seq", "dms.stream_position", "dms.file", HOUR)
"""The names whose values are text; all others are numbers."""
NULL_WHILE = {
    **dict.fromkeys(("dms.change_seq", "dms.stream_position"), "_source.phase = 0"),
    **dict.fromkeys(("file_number", "commit_lsn", "mongodb.time"), "_op = 'r'"),
    "mongodb.ord": f"NOT ({_IN_SECOND})",
}
"""Order columns that may be null only while this SQL holds: rows of a full load, and incremental snapshots (MySQL's `file` is empty, a PostgreSQL
without `sequence` has no LSN), come from no log."""


def source_fields(spec: TableSpec) -> tuple[str, ...]:
    """Return the fields of the source block to read: those above, those that `order_by` names, and, in a shared stream, the tables' names."""
    own = {name.lower() for name in SOURCE}
    named = (*(name.removeprefix("source.") for name in spec.order_by if name.startswith("source.")), *(TABLE_NAMES if spec.source_table else ()))
    return (*SOURCE, *dict.fromkeys(name for name in named if name.lower() not in own))


def transaction_fields(spec: TableSpec) -> tuple[str, ...]:
    """Return the members of the transaction block to read."""
    named = (name.removeprefix("transaction.") for name in spec.order_by if name.startswith("transaction."))
    return tuple(dict.fromkeys(("total_order", *named)))


@dataclass(frozen=True)
class OrderNames:
    """What the names of an order mean in the records of one envelope."""

    first: Mapping[str, str]
    """Names that come before the columns of the row, with their SQL on a decoded row: `lsn` is the envelope's, `after.lsn` the row's."""
    columns_first: bool = False
    """Whether a name in `order_by` that both the row and the connector have means the row's column (plain rows)."""
    event_fields: bool = False
    """Whether a name that is not a column of the row is a field of the record. The decoder puts such fields into `_source.event_<name>`."""

    def may_be_null(self, name: str, first: bool) -> str:
        """SQL: whether a change may have a null in an order column. `first`: it is the first one, so that otherwise file names would decide."""
        if name.startswith("transaction."):
            # a snapshot's row has none
            return f"_op = 'r' AND _source.{quoted(name.removeprefix('transaction.'))} IS NULL" if name in self.first else "_op = 'r'"
        if name in NULL_WHILE or name not in NULLABLE:
            return NULL_WHILE.get(name, "false")
        read = "false" if name in OFFSETS else "_op = 'r'"
        field = "_source." + name.removeprefix("source.")
        # what the source sent, and is no number, is no null
        reads = re.search(rf"{re.escape(field)}\b", self.first.get(name, field)) is not None
        sent = f"{field} IS NOT NULL" if reads and not name.startswith("__") else "false"
        return read if first else f"{read} OR NOT ({sent})"


WRAPPED = OrderNames(_COMPUTED)
"""Records with an envelope, and those that name their columns."""
PLAIN_ROWS = OrderNames(_COMPUTED, columns_first=True)
"""Records that are rows."""


def with_own_fields(spec: TableSpec) -> OrderNames:
    """Return the names of records with an envelope, and the fields of it that only `order_by` names: numbers, LSNs or times."""
    more = {f"source.{name}": name for name in source_fields(spec)[len(SOURCE) :]}
    more |= {f"transaction.{name}": name for name in transaction_fields(spec)[1:]}
    values = {name: (_rank if name == _RANK else _comparable)(f"_source.{quoted(field)}") for name, field in more.items()}
    return OrderNames({**_COMPUTED, **values}) if more else WRAPPED


FULL_LOADS = OrderNames({HOUR: _COMPUTED[HOUR]})
"""Full loads: the hour of the folder."""
CHANGE_EVENTS = OrderNames(
    {**dict.fromkeys(("timestamp", "commit_time"), _COMPUTED["commit_time"]), **dict.fromkeys(OFFSETS, OFFSET)}, event_fields=True
)
"""Records of the change-event envelope."""


def lsn_number(text: str) -> str:
    """SQL: PostgreSQL's `0/44CF6F8` as a number (two hexadecimal halves of 32 bits). As text `0/9` would sort after `0/10`. Null for other text."""
    halves = [f"CAST(conv(split_part({text}, '/', {part}), 16, 10) AS BIGINT)" for part in (1, 2)]
    return f"CASE WHEN {text} RLIKE '{LSN}' THEN try_add(try_multiply({halves[0]}, 4294967296L), {halves[1]}) END"


def micros(text: str) -> str:
    """SQL: a time as microseconds since 1970. ISO text, or a number; its size decides between seconds, milli-, micro- and nanoseconds."""
    number = f"try_cast({text} AS DECIMAL(38, 9))"
    scaled = (
        f"CASE WHEN abs(_n) < {10**11}L THEN _n * 1000000 WHEN abs(_n) < {10**14}L THEN _n * 1000 WHEN abs(_n) < {10**17}L THEN _n ELSE _n / 1000 END"
    )
    return f"coalesce({let(number, '_n', f'try_cast({scaled} AS BIGINT)')}, {_iso_micros(text)})"


def _iso_micros(text: str) -> str:
    return f"CASE WHEN {text} RLIKE '^[0-9]{{4}}-' THEN unix_micros(try_cast({text} AS TIMESTAMP)) END"


def in_range(micros: str) -> str:
    """SQL: a source's time in microseconds, null where it is none: before 1970, or after the year 9999 (another unit, or a broken clock)."""
    return f"CASE WHEN {micros} >= 0L AND {micros} < {times.END}L THEN {micros} END"


def default_order(connector: str | None, has_offset: bool, table: str) -> tuple[str, ...]:
    """Return the order columns of a connector. Raises OrderRefused if the connector has none and there are no Kafka offsets."""
    columns = DEFAULTS.get(connector or "", ())
    order = (*(() if connector in BY_OFFSET else columns), "offset") if has_offset else columns
    if not order:
        raise OrderRefused(
            f"table {table}: the records {f'come from the connector {connector}' if connector else 'name no connector (RisingWave and others)'}, "
            "which has no default order, and they have no Kafka offset. Land whole Kafka records and set `container: kafka`, or set `order_by:` to "
            "columns, or to fields such as source.ts_us, that order the changes of one key (a timestamp alone is not enough, because changes of one "
            "transaction have the same)."
        )
    return order


def of_snapshot(declared: Sequence[str], columns: Collection[str], names: OrderNames) -> tuple[str, ...]:
    """Return the order columns of a new table: those of `order_by`, as a Snapshot names them. `columns` are all columns of the rows."""

    def stored(name: str) -> str:
        own = name in columns and name in CONNECTOR and (names.columns_first or name not in names.first)
        return f"after.{name}" if own else name

    return tuple(map(stored, declared))


def expression(
    name: str, columns: Mapping[str, types.Type], table: str, names: OrderNames, writers: Sequence[WriterSchema], members: Mapping[str, str]
) -> tuple[str, types.Type]:
    """Return SQL for an order column of a decoded row, and its type (the module lists them). Raises OrderRefused if it has no order.

    `columns` are those of AFTER with their types; `names` decides between columns of the row and fields of the envelope. `writers` describe the
    columns. `members` is `Frame.members`.
    """
    bare = name.removeprefix("after.")
    if name in names.first:
        return names.first[name], ("string",) if name in TEXTUAL else ("bigint",)
    if own := _own(bare, columns, writers):
        return _payload_column(name, own, writers, table, members)
    if names.event_fields:
        field = "event_" + name.removeprefix("event.")
        return _comparable(f"_source.{quoted(field)}"), ("bigint",)
    part = name.split(".", 1)[-1]
    if name.startswith("source.") and part in SOURCE:
        return (first_number("_source.sequence", _COMPUTED["commit_lsn"]), ("string",)) if part == "sequence" else _number_or_text(part)
    if name == "transaction.total_order":
        return _COMPUTED["total_order"], ("bigint",)
    if name.startswith("__") and name in NULLABLE and "change_lsn" not in name and any(name in writer.undecided for writer in writers):
        # a first snapshot has no value of it. Of `change_lsn` it does not show whether that is a number (Informix)
        unsent: types.Type = ("string",) if name.endswith("rs_id") else ("bigint",)
        return null(unsent), unsent
    advice = "Members of a column are none: have the source write it as a column" if bare.partition(".")[0] in columns else "Correct `order_by:`"
    raise OrderRefused(f"table {table}: order_by column {name!r} is not in the data; the columns are: {', '.join(columns) or 'none'}. {advice}.")


def _own(name: str, columns: Mapping[str, types.Type], writers: Sequence[WriterSchema]) -> dict[str, types.Type]:
    """Return the columns that a name stands for: those whose names are equal in all but case are one, as in the table, unless a writer has two."""
    alike = {column: kind for column, kind in columns.items() if column.lower() == name.lower()}
    if any(sum(field.name in alike for field in writer.fields) > 1 for writer in writers):
        return {name: alike[name]} if name in alike else {}
    return alike


def _comparable(text: str) -> str:
    """SQL: text that is a whole number, an LSN or an ISO time, as a number that sorts in the same order. Null for other text, also for a number
    beyond a bigint or with a fraction: as a time in some unit it would not compare with the others."""
    return f"coalesce(try_cast({text} AS BIGINT), {lsn_number(text)}, {_iso_micros(text)})"


def _rank(text: str) -> str:
    """SQL: Vitess's rank of a transaction: a whole number, or the base64 of a Connect Decimal.

    It is not negative. So its base64 begins with a letter, and never looks like a number.
    """
    unpacked = conversions.to_stored(text, ("string",), WriterField("", ("string",), ("decimal", 38, 0), DECIMAL))
    return f"CASE WHEN {text} RLIKE '^[A-Za-f]' THEN {cast(unpacked, ('bigint',))} ELSE try_cast({text} AS BIGINT) END"


def _number_or_text(part: str) -> tuple[str, types.Type]:
    if part in ("txId", "lsn", "pos", "row", "commit_scn", "scn", "ssn", "ts_ms", "ts_us", "event_serial_no", "commit_ts", "ord"):
        return f"try_cast(_source.{part} AS BIGINT)", ("bigint",)
    return _COMPUTED.get(f"{part}_text", f"_source.{part}"), ("string",)


def _payload_column(
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
    # bits have their lowest byte first
    stored = ("bits",) if field.semantic.endswith(".Bits") else field.type
    return _ordered(conversions.to_stored(value, kind, field), stored, name, table)


def _ordered(value: str, kind: types.Type, name: str, table: str) -> tuple[str, types.Type]:
    if kind[0] == "string":
        return _text(value, name)
    if kind[0] in types.INTEGERS:
        return f"CAST({value} AS BIGINT)", ("bigint",)
    if kind[0] == "timestamp":
        return f"unix_micros({value})", ("bigint",)
    if kind[0] == "date":
        return f"CAST(datediff({value}, DATE'1970-01-01') AS BIGINT)", ("bigint",)
    if kind[0] == "decimal":
        target = ("bigint",) if kind[1] <= 18 and kind[2] == 0 else ("decimal", 38, kind[2])
        return cast(value, target), target
    if kind[0] == "binary":
        # as text bytes sort as they do; the letter keeps digits alone from being a number
        return f"concat('x', hex({value}))", ("string",)
    if kind[0] in ("float", "double"):
        return f"CASE WHEN NOT isnan({value}) THEN CAST({value} AS DOUBLE) END", ("double",)
    raise OrderRefused(f"table {table}: order_by column {name!r} has type {types.text(kind)}, which has no order. Set `order_by:` to another column.")


def first_number(value: str, number: str) -> str:
    """SQL: the text of PostgreSQL's `sequence`, which is the JSON of a list, as `number`. Other text, or null, as it is, unless there is a number."""
    return f"coalesce(CASE WHEN NOT startswith({value}, '[') THEN {value} END, CAST({number} AS STRING))"


def _text(value: str, name: str) -> tuple[str, types.Type]:
    if name.endswith("sequence"):
        return first_number(value, f"get(filter(from_json({value}, 'ARRAY<STRING>'), _x -> _x IS NOT NULL), 0)"), ("string",)
    halves = ", '/', ".join(f"lpad(upper(split_part(_t, '/', {part})), 8, '0')" for part in (1, 2))
    lsn = f"WHEN _t RLIKE '{LSN}' THEN concat({halves})"
    # more digits than a decimal has
    long = f"WHEN _t RLIKE {literal(f'^[0-9]{{39,60}}{END}')} THEN lpad(_t, 60, '0')"
    # Java leaves out seconds that are zero
    filled = f"regexp_replace({value}, {literal(f'{_MINUTE}(?={_ZONE})')}, '$1:00')"
    zone = f"upper(ltrim(regexp_extract(substr(_t, 20), {literal(_ZONE)}, 0)))"
    seconds = f"try_cast(concat(substr(_t, 1, 10), 'T', substr(_t, 12, 8), {zone}) AS TIMESTAMP)"
    fraction = "rpad(regexp_extract(substr(_t, 20), '^[.,]([0-9]+)', 1), 9, '0')"
    moment = f"concat(date_format({seconds}, \"yyyy-MM-dd'T'HH:mm:ss\"), '.', {fraction})"
    # ten o'clock is written as 10:00:00Z, and as 10:00:00.5Z half a second later, which sorts before it as text
    return let(filled, "_t", f"CASE WHEN _t RLIKE {literal(_MOMENT)} THEN coalesce({moment}, _t) {lsn} {long} ELSE _t END"), ("string",)
