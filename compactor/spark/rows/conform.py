"""Conform: decoded frames become Changes, one DataFrame with the table's stored columns, whichever connector wrote the rows.

In: frames with struct images (`decode/frame.py`). Out: the stored columns, then `columns.CHANGE`, and TIME with `history: true`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.position import Position
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.schema import shards
from compactor.core.schema.evolution import Evolved
from compactor.core.schema.semantic_types import DECIMAL, NUMBER_OR_BYTES
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import increment
from compactor.spark.columns import AFTER, BEFORE, FILE, OLD_KEY, OP, ORIGIN, PARTITION, POSITION, RECORD_KEY, SOURCE, TIME
from compactor.spark.decode import conversions, pg_text
from compactor.spark.decode.frame import PARTIAL, Frame, ddl, is_cell
from compactor.spark.decode.named import can_be_absent
from compactor.spark.input.kafka import STORED_KEY, of_wire_text
from compactor.spark.keys import key_text, key_types
from compactor.spark.rows import position
from compactor.spark.sql import cast, coalesce, from_json, let, literal, member, null, quoted
from compactor.spark.tables import defaults

_PLAIN = r"^(?s)(?!\s*(Struct)?\s*[{\[])[^\x00-\x1f]+$"
"""A text that may be the value of a key itself: no JSON, no text of a Struct, no bytes."""
_LONG = 1_000
"""Characters of SQL that are not repeated. For less another step of the plan costs more."""


def missing_columns(frame: Frame) -> list[tuple[str, str]]:
    """Return (source column, SQL: whether a row's value is unavailable) for the columns whose value can be unavailable."""
    if frame.absent is not None:
        return [(name, _not_named(name)) for name in frame.absent]
    tests = [(name, _is_unavailable(frame, name, kind)) for name, kind in frame.columns.items()]
    return [(name, f"coalesce({test}, false)") for name, test in tests if test]


def _is_unavailable(frame: Frame, name: str, kind: types.Type) -> str | None:
    """SQL: whether the raw value of a column means that the source did not send it. None if its type cannot say so."""
    raw, before = frame.value(name), frame.value(name, BEFORE)
    placeholder = conversions.is_placeholder(raw, kind)
    if not any(writer.id.startswith(PARTIAL) for writer in frame.writers):
        return placeholder
    unset = f"{raw} IS NULL" if is_cell(kind) else f"_op = 'u' AND _before IS NOT NULL AND {raw} IS NULL AND {before} IS NULL"
    return _either((placeholder, f"(startswith(_writer, '{PARTIAL}') AND {unset})"))


def _not_named(name: str) -> str:
    """SQL: whether an update does not name a column, in records that name their columns."""
    return f"(_op = 'u' AND NOT array_contains(_named, {literal(name)}))"


def conform(
    frames: Sequence[Frame], evolved: Evolved, spec: TableSpec, order: position.Order, partial: bool, across: bool = False, every: bool = False
) -> DataFrame:
    """Return the Changes of all frames in the evolved schema.

    Unless `partial`, all values are taken as available. `across`: see `batch_order.across`. `every`: each record is a change, as the survey found.
    """
    # a filter computes the operation anew, several times
    frames = frames if every else [dataclasses.replace(frame, rows=frame.rows.where("_op IS NOT NULL")) for frame in frames]
    parts = [_changes(frame, evolved, spec, order, partial, across) for frame in frames]
    out = parts[0]
    for part in parts[1:]:
        out = out.unionByName(part)
    return out


def _changes(frame: Frame, evolved: Evolved, spec: TableSpec, order: position.Order, partial: bool, across: bool) -> DataFrame:
    schema = evolved.schema
    of_shard = shards.stored(spec, schema)
    parts, keys = _key_columns(frame, evolved, spec)
    columns = []
    missing = []
    mistyped = []
    origin = ORIGIN if spec.keyless else "0"
    for field in schema.fields:
        if field.name == of_shard:
            columns.append(f"{shard(spec)} AS {quoted(field.name)}")
            continue
        if field.name in schema.key:
            columns.append(f"{keys[schema.key.index(field.name)].value} AS {quoted(field.name)}")
            continue
        column = _column(frame, evolved, field, order)
        value, absent = column.value, column.unavailable
        if spec.patch_rows:
            absent = _without(frame, evolved, field, order, absent)
        if column.mistyped:
            condition = f"NOT coalesce({absent}, false) AND ({column.mistyped})" if absent else column.mistyped
            mistyped.append(f"WHEN {condition} THEN {literal(field.name)}")
        if partial and absent:
            missing.append(f"CASE WHEN {absent} THEN {literal(field.name)} END")
            value = f"CASE WHEN {absent} THEN NULL ELSE {value} END"
        columns.append(f"CASE WHEN _op IN ('c', 'u', 'r', 'x') THEN {value} END AS {quoted(field.name)}")
    absent_list = f"filter(array({', '.join(missing)}), _x -> _x IS NOT NULL)" if missing else "CAST(NULL AS ARRAY<STRING>)"
    time = [TIME] if spec.history else []
    moved = _moved(frame, schema, keys, across) if keys else "CAST(NULL AS STRING)"
    rows = frame.rows.selectExpr("*", *parts) if parts else frame.rows
    return rows.selectExpr(
        *columns,
        OP,
        POSITION,
        f"CASE WHEN _op IN ('c', 'u', 'r') THEN {absent_list} END AS _missing",
        f"{moved} AS _from",
        "CAST(NULL AS STRING) AS _to",
        f"{'CAST(NULL AS STRING)' if across else _link(frame, spec)} AS _link",
        f"CASE WHEN _op NOT IN ('c', 'u', 'r') THEN NULL {' '.join(mistyped)} END AS _mistyped" if mistyped else "CAST(NULL AS STRING) AS _mistyped",
        f"{origin} AS _origin",
        FILE,
        PARTITION,
        *time,
    )


def shard(spec: TableSpec) -> str:
    """SQL for the shard of a record, out of the path of its file; "" for a table without shards."""
    return f"regexp_extract(_file, {literal(increment.java_regex(spec.pattern))}, 1)" if spec.shard else ""


def _link(frame: Frame, spec: TableSpec) -> str:
    """SQL for LINK: null where the source sends no LSN. Flattened rows may lack the transaction."""
    kinds = dict(frame.rows.dtypes)[SOURCE]
    # two shards may have the same transactions
    of_shard = f"{shard(spec)}, ':', " if spec.shard else ""
    return f"concat({of_shard}coalesce(_source.txId, ''), ':', _source.lsn)" if "txId:" in kinds and "lsn:" in kinds else "CAST(NULL AS STRING)"


def _variants(frame: Frame, evolved: Evolved, field: Field) -> dict[WriterField, list[str]]:
    """Return how the writers of a frame wrote a stored column: the writer's field → ids of the writers with this field.

    A declared column that no record has is left out.
    """
    variants: dict[WriterField, list[str]] = {}
    images = frame.columns
    for writer in frame.writers:
        for column in writer.fields:
            if column.name in images and evolved.columns.get(writer.id, {}).get(column.name) == field.name:
                variants.setdefault(column, []).append(writer.id)
    return variants


def _lacking(frame: Frame, evolved: Evolved, field: Field) -> str | None:
    """SQL: whether the row's writer does not have the column. None if every writer has it."""
    lacking = [literal(writer.id) for writer in frame.writers if field.name not in evolved.columns.get(writer.id, {}).values()]
    return f"coalesce(_writer IN ({', '.join(lacking)}), false)" if lacking else None


def _reads_default(frame: Frame, evolved: Evolved, field: Field, order: position.Order) -> str | None:
    """SQL: whether the row is from before the column, so that it has the column's default. None: never."""
    lacking = _lacking(frame, evolved, field)
    if lacking is None or field.name not in evolved.schema.defaults:
        return None
    return f"({lacking} AND {defaults.below(evolved.schema, field.name, order, POSITION)})"


def _without(frame: Frame, evolved: Evolved, field: Field, order: position.Order, absent: str | None) -> str | None:
    """SQL: `absent`, or that the row's writer does not have the column, nor the row its default (`patch_rows: true`)."""
    lacking, older = _lacking(frame, evolved, field), _reads_default(frame, evolved, field, order)
    lacking = f"({lacking} AND NOT {older})" if lacking and older else lacking
    return _either((absent, lacking))


class _Column(NamedTuple):
    value: str
    unavailable: str | None
    """Whether the source did not send the value; None if it always did."""
    mistyped: str | None
    """Whether the value is not of the column's type; None if it always is."""


def _column(frame: Frame, evolved: Evolved, field: Field, order: position.Order) -> _Column:
    """Return a stored column as the writers of a frame wrote it."""
    images = frame.columns
    kind = types.parse(field.type)
    values, absent, mistyped = list[tuple[str, str]](), list[str | None](), list[str | None]()
    if frame.omits and field.visible and can_be_absent(kind, frame.omits):
        absent.append(_not_named(field.source))
    for column, writers in _variants(frame, evolved, field).items():
        raw, read = frame.value(column.name), images[column.name]
        stored = conversions.to_stored(raw, read, column)
        # the text that the source wrote, not that of the number
        as_written = column.inferred and (kind == read == ("string",) or (not types.is_scalar(kind) and read != conversions.json_type(column.raw)))
        value = conversions.change_type(raw, read, kind) if as_written else conversions.change_type(stored, column.type, kind)
        only = "" if len(writers) == len(frame.writers) else f"_writer IN ({', '.join(literal(writer) for writer in writers)})"
        values.append((only, value))
        absent.append(_both(only, None if frame.omits else _is_unavailable(frame, column.name, read)))
        mistyped.append(_both(only, conversions.is_mistyped(raw, read, value, column.type)))
        mistyped.append(_both(only, conversions.is_inexact(stored, column.type, kind)))
    older, unavailable = _reads_default(frame, evolved, field, order), _either(absent)
    if older and unavailable:
        unavailable = f"(({unavailable}) AND NOT {older})"
    default = f"CASE WHEN {older} THEN {defaults.default(evolved.schema, field.name)} END" if older else null(kind)
    cases = "".join(f" WHEN {only} THEN {value}" for only, value in values if only)
    everywhere = next((value for only, value in values if not only), None)
    value = everywhere or (f"CASE{cases} ELSE {default} END" if cases else default)
    return _Column(value, unavailable, _either(mistyped))


def _both(condition: str, test: str | None) -> str | None:
    """SQL: a test under a condition; "" is always, None is never."""
    return test and (f"({condition} AND {test})" if condition else f"({test})")


def _either(tests: Sequence[str | None]) -> str | None:
    return " OR ".join(filter(None, tests)) or None


class _KeyColumn(NamedTuple):
    value: str
    before: str
    """That of the before image."""
    header: str
    """That of the old key in Debezium's header."""


def _key_columns(frame: Frame, evolved: Evolved, spec: TableSpec) -> tuple[list[str], list[_KeyColumn]]:
    """Return columns to add to a frame's rows, and the key columns, in SQL with these.

    A Change names its key many times, and what reads it out of a record may be long (Oracle's numbers): then it stands in a column of its own.
    """
    schema, parts, keys = evolved.schema, list[str](), list[_KeyColumn]()
    of_shard = shards.stored(spec, schema)

    def named_once(text: str, name: str) -> str:
        if len(text) <= _LONG:
            return text
        parts.append(f"{text} AS {name}")
        return name

    for at, field in enumerate(map(schema.field, schema.key)):
        kind = types.parse(field.type)
        if field.name == ROW_ID:
            keys.append(_KeyColumn("_identity", null(kind), null(kind)))
            continue
        if field.name == of_shard:
            keys.append(_KeyColumn(shard(spec), shard(spec), shard(spec)))
            continue
        after, before = (named_once(_image_key(frame, evolved, field, image), f"_k{at}{image}") for image in (AFTER, BEFORE))
        header = named_once(record_key(frame, evolved, field, OLD_KEY) or null(kind), f"_k{at}{OLD_KEY}")
        ways = [record_key(frame, evolved, field, RECORD_KEY), plain_key(RECORD_KEY, kind) if len(schema.key) == 1 else None, null(kind)]
        record = named_once(f"CASE WHEN _op = 'd' THEN {coalesce([way for way in ways if way])} END", f"_k{at}{RECORD_KEY}")
        # a delete's image may lack the key
        value = f"CASE WHEN _op = 't' THEN NULL WHEN _op = 'd' THEN coalesce({before}, {record}) ELSE {after} END"
        keys.append(_KeyColumn(value, before, header))
    return parts, keys


def _image_key(frame: Frame, evolved: Evolved, field: Field, image: str) -> str:
    images = frame.columns
    kind = types.parse(field.type)
    out = []
    for column, writers in _variants(frame, evolved, field).items():
        value = conversions.change_type(conversions.key_to_stored(frame.value(column.name, image), images[column.name], column), column.type, kind)
        only = f"_writer IN ({', '.join(literal(writer) for writer in writers)})"
        out.append(value if len(writers) == len(frame.writers) else f"CASE WHEN {only} THEN {value} END")
    return coalesce(out) if out else null(kind)


def record_key(frame: Frame, evolved: Evolved, field: Field, column: str) -> str | None:
    """SQL for a key column out of a record key (JSON text). None if no writer of the frame has the column, and only a writer shows how it is read."""
    ways = []
    for written in _variants(frame, evolved, field):
        kind = conversions.json_type(written.raw)
        packed = kind == ("string",) and written.semantic in (DECIMAL, NUMBER_OR_BYTES)
        parsed = from_json(pg_text.exact_numbers(column, pg_text.MARK) if packed else column, f"'{ddl(('struct', ((written.name, kind),)))}'")
        value = (_packed_key if packed else conversions.key_to_stored)(member(parsed, written.name), kind, written)
        ways.append(conversions.change_type(value, written.type, types.parse(field.type)))
    own = own_key(column, field)
    if not ways and field.type in ("string", "int", "bigint"):
        # of a batch of tombstones
        return own
    stored = f"startswith({column}, {literal(f'{chr(123)}{chr(34)}{STORED_KEY}')})"
    return f"CASE WHEN {stored} THEN {own}{f' ELSE {coalesce(ways)}' if ways else ''} END"


def _packed_key(value: str, kind: types.Type, field: WriterField) -> str:
    """SQL: a decimal out of a record key: a number, as Debezium's header has it, or text such as base64. Numbers begin with MARK."""
    number = conversions.key_to_stored("substr(_n, 2)", kind, dataclasses.replace(field, raw=kind, semantic=""))
    text = conversions.key_to_stored("_n", kind, field)
    return let(value, "_n", f"CASE WHEN startswith(_n, '{pg_text.MARK}') THEN {number} ELSE {text} END")


def own_key(column: str, field: Field) -> str:
    """SQL: a key column out of a record key (JSON text), read as the type that the table stores."""
    return member(from_json(column, f"'{ddl(('struct', ((field.source, types.parse(field.type)),)))}'"), field.source)


def plain_key(column: str, kind: types.Type) -> str:
    """SQL: a record key that is the value of the only key column, without JSON; null for JSON, the text of a Struct, and bytes."""
    text = f"CASE WHEN {column} RLIKE '^\".*\"$' THEN substr({column}, 2, length({column}) - 2) ELSE {column} END"
    return f"CASE WHEN {column} RLIKE {literal(_PLAIN)} AND {of_wire_text(column)} IS NULL THEN {cast(text, kind)} END"


def _moved(frame: Frame, schema: Schema, columns: Sequence[_KeyColumn], across: bool) -> str:
    """SQL for FROM: the key in Debezium's header, else the key of the before image. Null where it is the row's key.

    `across`: a header does not count, because the record of the old key's delete, which comes with it, has the place that compares with that key.
    """
    if schema.key == (ROW_ID,):
        return "CAST(NULL AS STRING)"
    keys, before, header = zip(*columns)
    kinds = key_types(schema)
    from_header = " AND ".join(f"({value}) IS NOT NULL" for value in header)
    from_before = " AND ".join(f"({value}) IS NOT NULL" for value in before)
    by_image = "" if frame.one_image else f"WHEN _op = 'u' AND {from_before} AND ({_differ(before, keys)}) THEN {key_text(before, kinds)} "
    # the record's key may have more columns than the table's
    moved = "false" if across else f"_old_key IS NOT NULL AND {from_header} AND ({_differ(header, keys)})"
    by_header = f"WHEN {moved} THEN {key_text(header, kinds)} "
    return f"CASE WHEN _op NOT IN ('c', 'u') THEN NULL {by_header}{by_image}END"


def _differ(old: Sequence[str], new: Sequence[str]) -> str:
    return " OR ".join(f"NOT (({one}) <=> ({other}))" for one, other in zip(old, new))


def payload_writers(frames: Sequence[Frame], spec: TableSpec) -> list[WriterSchema]:
    """Return the writers of all frames without metadata columns, with the column of the shard.

    Raises InputRefused for records without schema, in files of several forms, whose values show different types of the same columns.
    """
    writers: dict[str, WriterSchema] = {}
    for frame in frames:
        for writer in frame.writers:
            fields = {field.name: field for field in writer.fields if field.name not in frame.metadata.get(writer.id, ())}
            # another frame may have other columns of the same writer: one whose values are all null there has no type
            others = {field.name: field for field in writers[writer.id].fields} if writer.id in writers else {}
            for name in fields.keys() & others.keys():
                if fields[name].type != others[name].type:
                    raise InputRefused(
                        f"table {spec.name}: files of several forms have records without schema, whose values show different types of {name}. "
                        "Declare the column in `types:`, or ingest the files of each form in a run of their own"
                    )
            writers[writer.id] = dataclasses.replace(writer, fields=tuple({**fields, **others}.values()))
    return [dataclasses.replace(writer, fields=shards.columns(spec, writer.fields)) for writer in writers.values()]


def writer_positions(
    rows: Sequence[tuple[str, Position | None, Position | None, bool]], writers: Sequence[WriterSchema], keyless: bool
) -> list[WriterSchema]:
    """Return the writers that wrote a Change of this table, with the first and last Position of their Changes. `rows`: `SurveyResult.writers`."""
    wrote = {writer: (first, last, upserts) for writer, first, last, upserts in rows}
    of_table = [(writer, *wrote[writer.id]) for writer in writers if writer.id in wrote]
    # a delete may have the key only; without key it has the row
    return [dataclasses.replace(each, first=first, last=last, whole=each.whole and (upserts or keyless)) for each, first, last, upserts in of_table]
