"""Flat rows: one record is one row (ExtractNewRecordState, JDBC sinks, hand-made files), with metadata columns beside the payload. Full loads have
rows only: the hour of a row's folder is its place in the order and its time (`settle_full_load`).

`docs/sources.md` has the rules. Beyond them:
- The column of the operation is decided for each writer (`core/sources/flat_rows.py`).
- `__deleted` = "true" (a string) makes a delete, whatever the operation, and so does the condition of `delete_when` (`spark/rows/deletions.py`).
  Only the key of a delete is used.
- A null record with a key (tombstone) counts as ignored where rows say themselves that they are deleted: with `__deleted` (ExtractNewRecordState in
  the mode `rewrite`), and with an operation if the order needs more of a record than its offset. A batch whose tombstones may be its only deletes
  is refused (`check_deletes`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyspark.sql import functions as F

from compactor.core.model import types
from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.inputs import Input, path_of
from compactor.core.model.position import OFFSETS
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterSchema, from_avro, signature
from compactor.core.sources import flat_rows, records
from compactor.core.sources.flat_rows import DELETED, MESSAGE, OPERATION, connector, is_metadata, operation_column, operations, source_columns
from compactor.core.sources.full_loads import HOUR
from compactor.spark.columns import BEFORE, DELETES, FILE, INVALID, LEFT_OUT, OLD_KEY, OP, PLACE, SCHEMA, TEXT, TIME
from compactor.spark.columns import SOURCE as SOURCE_COLUMN
from compactor.spark.decode import named
from compactor.spark.decode.debezium import bodies, wrapped
from compactor.spark.decode.frame import Frame, declared_order, json_writer, of_other_table, plain_writer
from compactor.spark.decode.order import FULL_LOADS, PLAIN_ROWS, default_order
from compactor.spark.input.files import RawFrame
from compactor.spark.input.json_text import no_object
from compactor.spark.rows import survey
from compactor.spark.sql import cited, from_json, literal, mapped, once


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame as a Frame whose operation and order are still inside AFTER; `settle` takes them out."""
    unknown = ("CAST(NULL AS STRUCT<_none: STRING>) AS _source", "CAST(NULL AS BIGINT) AS _time")
    empty = "_value IS NULL" if raw.schema is not None else "(_body IS NULL OR trim(_body) IN ('', 'null'))"
    tombstone = f"WHEN {empty} AND {raw.unreadable} IS NULL AND trim(_key) <> '' THEN 'd'" if spec.key else ""
    if raw.schema is not None:
        described = from_avro(raw.avro) if raw.avro else plain_writer(signature(types.text(raw.described)), raw.described)
        if raw.fields is not None:
            present = {field.name for field in raw.fields}
            undecided = tuple(name for name in raw.columns if name not in present)
            # in other files of the run these columns may be text, which they are taken for in the rows
            writer = signature(f"{described.id} {undecided}") if undecided else described.id
            described = dataclasses.replace(described, id=writer, fields=raw.fields, undecided=undecided)
        rows = raw.rows.selectExpr(
            *PLACE,
            f"{raw.unreadable} AS _invalid",
            f"CASE WHEN _value IS NOT NULL THEN 'u' {tombstone} END AS _op",
            f"{literal(described.id)} AS _writer",
            "CAST(NULL AS STRING) AS _schema",
            "_value AS _after",
            "_value AS _before",
            "_key AS _record_key",
            OLD_KEY,
            *unknown,
        )
        return Frame(rows, raw.schema, (described,), one_image=True)
    origin, other = [], "false"
    if spec.source_table:
        names = flat_rows.origin(_ORIGIN)
        origin = [f"{from_json('_body', literal(', '.join(f'`{name}` STRING' for name in _ORIGIN)))} AS _origin"]
        is_named = f"coalesce({', '.join(f'_origin.{name}' for name in names[0])}) IS NOT NULL"
        other = f"{is_named} AND {_other('_origin.{}'.format, names, spec.source_table)}"
    parsed = once(bodies(raw.rows, spec).selectExpr("*", "json_object_keys(_body) AS _keys", *origin))
    rows = parsed.selectExpr(
        *PLACE,
        TEXT,
        f"coalesce({raw.unreadable}, CASE WHEN NOT {empty} AND _keys IS NULL THEN {no_object('_body')} END) AS _invalid",
        # the values of another table's rows would give types to columns of the same names
        f"CASE WHEN NOT {empty} AND _keys IS NOT NULL AND NOT ({other}) THEN 'u' {tombstone} END AS _op",
        f"{json_writer('_keys')} AS _writer",
        SCHEMA,
        "_body AS _after",
        "_body AS _before",
        f"{wrapped('_key')[1]} AS _record_key",
        f"{wrapped('_old_key')[1]} AS _old_key",
        *unknown,
    )
    return Frame(once(rows), None, one_image=True)


def settle(frame: Frame, spec: TableSpec, inputs: Sequence[Input] = ()) -> Frame:
    """Return the frame with OP, INVALID, SOURCE and TIME taken out of the parsed row."""
    columns = frame.columns
    names = {writer.id: {*writer.names} for writer in frame.writers}
    messages = {writer for writer, own in names.items() if flat_rows.is_message(own) and not {name.lower() for name in spec.key} & own}
    by_writer = {writer: None if writer in messages else operation_column(spec, own) for writer, own in names.items()}
    rows, codes = frame.rows.selectExpr("*", f"{_code(frame, by_writer, columns)} AS _code"), operations(spec)
    dropped = [text for text, meaning in codes.items() if meaning == "ignore"]
    silent = f"_code IN ({', '.join(literal(text) for text in dropped)})" if dropped else "false"
    if flat_rows.MESSAGE not in codes:
        silent = f"({silent} OR {_message(frame, by_writer, messages)})"
    deleted = f"lower(CAST({frame.value(DELETED)} AS STRING)) = 'true'" if DELETED in columns else "false"
    if spec.delete_when and DELETES in frame.rows.columns:
        deleted = f"({deleted} OR {DELETES})"
    fields = source_columns(columns)
    texts = {name: f"CAST({frame.value(column)} AS STRING)" for name, column in fields.items()}
    time = next((_micros(frame.value(fields[name]), columns[fields[name]], unit) for name, unit in _UNITS if name in fields), "CAST(NULL AS BIGINT)")
    other = _of_other_table(frame, columns, spec)
    op_of_code = mapped("_code", {text: meaning for text, meaning in codes.items() if meaning != "ignore"})
    # a row without operation is an upsert; without a key it can only be an insert
    bare = "u" if spec.key else "c"
    by_offset = all(name in OFFSETS for name in spec.order_by) if spec.order_by else _connector([frame]) is None
    beside = None if by_offset else max(filter(None, by_writer.values()), default=None)
    redundant = DELETED in columns or beside is not None
    row_op = f"WHEN _op = 'd' THEN {'NULL' if redundant else literal('d')} WHEN {deleted} THEN 'd' WHEN _code IS NULL THEN '{bare}' ELSE {op_of_code}"
    op_sql = f"CASE WHEN _op IS NULL OR {silent} OR {other} THEN NULL {row_op} END"
    unknown_code = f"_invalid IS NULL AND _op IS NOT NULL AND _code IS NOT NULL AND NOT ({silent}) AND {op_of_code} IS NULL"
    what = literal("; name it in `op_map`, or in `op` the column with the operation ('' for none)")
    problem = f"CASE WHEN {unknown_code} THEN concat('has an unknown operation ', {cited('_code')}, {what}) END"
    keep = [name for name in frame.rows.columns if name not in (OP, INVALID, SOURCE_COLUMN, TIME, BEFORE, DELETES)]
    left_out = [] if beside is None or DELETED in columns else [f"CASE WHEN _op = 'd' THEN {literal(beside)} END AS {LEFT_OUT}"]
    rows = rows.selectExpr(
        *keep,
        *left_out,
        BEFORE if spec.key else "CASE WHEN false THEN _after END AS _before",
        f"coalesce(_invalid, {problem}) AS _invalid",
        f"{op_sql} AS _op",
        named.source(texts),
        f"{time} AS _time",
    )
    metadata = {writer: frozenset(name for name in columns if is_metadata(spec, name, op)) for writer, op in by_writer.items()}
    return dataclasses.replace(frame, rows=rows, metadata=metadata, order_names=PLAIN_ROWS, fillers=DELETED in columns)


_UNITS = (("ts_us", 1), ("ts_ms", 1000))
"""Metadata columns with the source's time, the finer one first, and the microseconds of their unit."""


def _micros(value: str, kind: types.Type, unit: int) -> str:
    """SQL for a source time in microseconds since 1970. Connect's transforms make timestamps of them."""
    return f"unix_micros({value})" if kind == ("timestamp",) else f"try_multiply(try_cast({value} AS BIGINT), {unit}L)"


_ORIGIN = tuple(f"{prefix}{field}" for field in ("table", "collection", "schema", "db") for prefix in ("__", "__source_"))
"""All columns in which rows may name their table."""


def _of_other_table(frame: Frame, columns: dict[str, types.Type], spec: TableSpec) -> str:
    """SQL: whether a row is not of `source_table`. Rows that do not name their table are all taken if none does."""
    origin = flat_rows.origin(columns)
    return _other(lambda name: f"CAST({frame.value(name)} AS STRING)", origin, spec.source_table) if spec.source_table and origin[0] else "false"


def _other(text: Callable[[str], str], origin: tuple[list[str], list[list[str]]], source_table: str) -> str:
    table, *above = (f"coalesce({', '.join(map(text, names))})" for names in (origin[0], *origin[1]))
    return of_other_table(table, above, source_table)


def _message(frame: Frame, by_writer: dict[str, str | None], messages: Collection[str]) -> str:
    """SQL: whether a row is a logical message. In a column of another name than the connector's the same code may mean anything."""
    own = {OPERATION: [writer for writer, column in by_writer.items() if column == OPERATION], "op": [*messages]}
    tests = (
        f"(_writer IN ({', '.join(map(literal, writers))}) AND coalesce(lower(trim(CAST({frame.value(column)} AS STRING))) = '{MESSAGE}', false))"
        for column, writers in own.items()
        if writers
    )
    return " OR ".join(tests) or "false"


def _code(frame: Frame, by_writer: dict[str, str | None], columns: dict[str, types.Type]) -> str:
    """SQL for the operation's code of a row. `by_writer`: writer id → column with the operation."""
    writers: dict[str | None, list[str]] = {}
    for writer, column in by_writer.items():
        writers.setdefault(column if column in columns else None, []).append(literal(writer))
    texts = {column: f"lower(trim(CAST({frame.value(column)} AS STRING)))" for column in writers if column}
    if len(writers) == 1:
        return next(iter(texts.values()), "CAST(NULL AS STRING)")
    cases = "".join(f" WHEN _writer IN ({', '.join(writers[column])}) THEN {text}" for column, text in texts.items())
    return f"CASE{cases} END" if cases else "CAST(NULL AS STRING)"


def order(spec: TableSpec, frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns of a new table: `order_by`, else those that the metadata columns allow. Raises OrderRefused if there are none.

    Raises InputRefused for records of another program's envelope, or without the column of `op:`.
    """
    _check_columns(spec, [writer for frame in frames for writer in frame.writers])
    if spec.order_by:
        return declared_order(spec.order_by, frames)
    _, offsets = survey.main_connector(frames)
    name_of_connector = _connector(frames)
    if name_of_connector is None and not offsets:
        raise OrderRefused(f"table {spec.name}: `order_by` is not set, and the rows carry no order; set it to the columns that order a row's changes")
    # a flattened row has no transaction block
    return tuple(name for name in default_order(name_of_connector, offsets, spec.name) if name != "total_order")


def _connector(frames: Sequence[Frame]) -> str | None:
    """Return the connector whose metadata columns the rows have: in a first snapshot some have nulls only, and so no type in JSON without schema."""
    writers = [writer for frame in frames for writer in frame.writers]
    fields, unsent = {field.name for writer in writers for field in writer.fields}, {name for writer in writers for name in writer.undecided}
    return connector(source_columns(fields), source_columns(unsent))


def check_deletes(spec: TableSpec, counts: survey.SurveyResult, parent: Snapshot | None) -> None:
    """Raise InputRefused where tombstones count as ignored and no record is a delete: ExtractNewRecordState drops the delete's own row by default.

    Of rows that no connector marks, the deletes may be in the batch before: then the table has stored some.
    """
    if counts.left_out and not counts.deletes and (counts.left_out[0] == OPERATION or parent is None or not parent.tombstones):
        raise InputRefused(f"table {spec.name}: {spec.landing}/{path_of(counts.left_out[1])}: {flat_rows.LOST_DELETES}.")


def _example(kind: types.Type) -> Any:
    return dict.fromkeys(name for name, _ in kind[1]) if kind[0] == "struct" else records.LEAF


def _check_columns(spec: TableSpec, writers: Sequence[WriterSchema]) -> None:
    examples = ({**dict.fromkeys(writer.undecided), **{field.name: _example(field.raw) for field in writer.fields}} for writer in writers)
    if program := next(filter(None, map(records.foreign, examples)), None):
        raise InputRefused(f"table {spec.name}: the records look like {program}'s, which are not read. Land one row a record, or Debezium's records.")
    columns = {name: None for writer in writers for name in writer.names}
    if problem := flat_rows.NO_TABLE if spec.source_table and columns and not flat_rows.origin(columns)[0] else flat_rows.unsent(spec, columns):
        raise InputRefused(f"table {spec.name}: {problem}.")
    if spec.op and writers and operation_column(spec, columns) is None:
        raise InputRefused(
            f"table {spec.name}: no record has the column {spec.op} that `op:` names, so that deletes would be rows; the columns are: "
            f"{', '.join(columns)}. Correct `op:`. For an export without operations leave it out until that is ingested."
        )


def settle_full_load(frame: Frame, spec: TableSpec, inputs: Sequence[Input]) -> Frame:
    """Return a frame of plain rows with the hour of each row's folder as order and time."""
    hours = frame.rows.sparkSession.createDataFrame([(item.name, item.hour) for item in inputs], "_file STRING, _hour STRING")
    keep = [name for name in frame.rows.columns if name not in (OP, SOURCE_COLUMN, TIME, BEFORE)]
    rows = frame.rows.join(F.broadcast(hours), [FILE], "left").selectExpr(
        *keep,
        "CASE WHEN false THEN _after END AS _before",
        "CASE WHEN _op IS NOT NULL THEN 'r' END AS _op",
        "struct(_hour AS hour) AS _source",
        f"{hour_micros('_hour')} AS _time",
    )
    # a full load carries all values, so no text of a plain row is a placeholder
    return dataclasses.replace(frame, rows=rows, absent=(), order_names=FULL_LOADS)


def full_load_order(spec: TableSpec, frames: Sequence[Frame] = ()) -> tuple[str, ...]:
    """Return the order column of full loads, whatever the files hold."""
    return (HOUR,)


def hour_micros(hour: str) -> str:
    """SQL: the hour of a folder as microseconds since 1970."""
    return f"unix_micros(to_timestamp({hour}, \"yyyy-MM-dd'T'HH:mm\"))"
