"""Decoded frames → Changes: one DataFrame with the table's stored columns, whoever wrote the rows.

Columns of Changes, after the stored ones:

| column | type | meaning |
|---|---|---|
| `_op` | string | c, u, d, r, t |
| `_position` | struct | `spark/rows/position.py` |
| `_missing` | array<string> | stored names whose value the event does not tell (unavailable) |
| `_from` | string | the key this row had before, as `key_text`; null when it did not move |
| `_to` | string | of a delete: the key its row went to, when a stored row tells; filled by `Stored.relinked` |
| `_link` | string | transaction and LSN, which the two halves of a key change share |
| `_unfit` | string | the first stored column whose value is not of its type, else null |
| `_source` | int | `resolve.EVENT`, or MADE for the removal half of a keyless update |
| `_file` | string | the input it came from |
| `_time` | bigint | with `history: true`: the source's commit time, microseconds since 1970 |

>>> conform([frame], evolved, spec, order)      # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from compactor.core.model import types
from compactor.core.model.position import Position
from compactor.core.model.schema import Field, Schema
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.schema.evolution import Evolved
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark.decode import conversions
from compactor.spark.decode.frame import Frame, ddl
from compactor.spark.decode.named import can_be_absent
from compactor.spark.decode.order import NULL_WHILE, NULLABLE, expression
from compactor.spark.rows import position
from compactor.spark.sql import cast, coalesce, literal, member, null, quoted

EVENTS_MAX = 1 << 30
"""Events that one record can hold; with the 33 bits of a row's number they fill a bigint."""


def key_text(columns: Sequence[str], kinds: Sequence[str]) -> str:
    """SQL: a key as one text that survives JSON, whatever its types."""
    parts = [f"hex({value})" if kind == "binary" else f"CAST({value} AS STRING)" for value, kind in zip(columns, kinds)]
    return f"to_json(array({', '.join(parts)}))"


def key_columns(text: str, kinds: Sequence[str]) -> list[str]:
    """The inverse of `key_text`: SQL for each key column."""
    parts = [f"get(from_json({text}, 'ARRAY<STRING>'), {at})" for at in range(len(kinds))]
    return [f"unhex({part})" if kind == "binary" else cast(part, types.parse(kind)) for part, kind in zip(parts, kinds)]


def with_position(frame: Frame, spec: TableSpec, order: position.Order, epoch: str) -> Frame:
    """The frame with `_position` (`epoch` is SQL), and in `_bad` also what cannot be ordered: an order column that must be there is null.
    Rows with `_bad` lose `_op`."""
    assert frame.images is not None
    parts = [expression(name, frame.images, spec.name, frame.order_names)[0] for name, _ in order]
    typed = [cast(part, types.parse(kind)) for part, (_, kind) in zip(parts, order)]
    must = [(part, NULL_WHILE.get(name, "false")) for part, (name, _) in zip(typed, order) if name not in NULLABLE]
    unordered = " OR ".join(f"(({part}) IS NULL AND NOT ({excused}))" for part, excused in must) or "false"
    names = ", ".join(name for name, _ in order)
    told = literal(f"a column of the order ({names}) is null or no number; say `order_by:` with columns that every change has")
    why = f"CASE WHEN _bad IS NOT NULL THEN _bad WHEN _op IS NOT NULL AND ({unordered}) THEN {told} END"
    keep = [name for name in frame.rows.columns if name not in ("_bad", "_op")]
    # a record that holds several events: its place orders the file, theirs orders them
    place = f"_row * {EVENTS_MAX}L + coalesce(_event, 0)" if "_event" in frame.rows.columns else "_row"
    rows = frame.rows.selectExpr(*keep, f"{position.built(epoch, typed, place)} AS _position", f"{why} AS _bad", "_op")
    return dataclasses.replace(frame, rows=rows.withColumn("_op", F.expr("CASE WHEN _bad IS NULL THEN _op END")))


def missing_columns(frame: Frame) -> list[tuple[str, str]]:
    """(source name, SQL: whether a row's value of it is unavailable), for the columns that can be."""
    assert frame.images is not None
    if frame.absent is not None:
        return [(name, _untold(name)) for name in frame.absent]
    tests = [(name, conversions.is_placeholder(f"_after.{quoted(name)}", kind)) for name, kind in frame.images[1]]
    return [(name, f"coalesce({test}, false)") for name, test in tests if test]


def _untold(name: str) -> str:
    return f"(_op = 'u' AND NOT array_contains(_told, {literal(name)}))"


def conform(frames: Sequence[Frame], evolved: Evolved, spec: TableSpec, order: position.Order, partial: bool) -> DataFrame:
    """Changes of all frames, in the stored schema. Without `partial` no value is looked at for being unavailable."""
    parts = [_changes(frame, evolved, spec, order, partial) for frame in frames]
    out = parts[0]
    for part in parts[1:]:
        out = out.unionByName(part)
    return out


def _changes(frame: Frame, evolved: Evolved, spec: TableSpec, order: position.Order, partial: bool) -> DataFrame:
    schema = evolved.schema
    kinds = [schema.field(name).type for name in schema.key]
    keys = [_key(frame, evolved, name) for name in schema.key]
    shown = []
    missing = []
    unfit = []
    source = "_source_kind" if spec.keyless else "0"
    for field in schema.fields:
        if field.name in schema.key:
            shown.append(f"{keys[schema.key.index(field.name)]} AS {quoted(field.name)}")
            continue
        value, absent, strange = _column(frame, evolved, field, order)
        if spec.partial:
            absent = _without(frame, evolved, field, absent)
        if strange:
            told = f"NOT coalesce({absent}, false) AND ({strange})" if absent else strange
            unfit.append(f"WHEN {told} THEN {literal(field.name)}")
        if partial and absent:
            missing.append(f"CASE WHEN {absent} THEN {literal(field.name)} END")
            value = f"CASE WHEN {absent} THEN NULL ELSE {value} END"
        shown.append(f"CASE WHEN _op IN ('c', 'u', 'r', 'x') THEN {value} END AS {quoted(field.name)}")
    absent_list = f"filter(array({', '.join(missing)}), _x -> _x IS NOT NULL)" if missing else "CAST(NULL AS ARRAY<STRING>)"
    time = ["_time"] if spec.history else []
    moved = _moved(frame, evolved, keys, kinds) if keys else "CAST(NULL AS STRING)"
    rows = frame.rows.where("_op IS NOT NULL")
    return rows.selectExpr(
        *shown,
        "_op",
        "_position",
        f"CASE WHEN _op IN ('c', 'u', 'r') THEN {absent_list} END AS _missing",
        f"{moved} AS _from",
        "CAST(NULL AS STRING) AS _to",
        f"{_link(frame)} AS _link",
        f"CASE WHEN _op NOT IN ('c', 'u', 'r') THEN NULL {' '.join(unfit)} END AS _unfit" if unfit else "CAST(NULL AS STRING) AS _unfit",
        f"{source} AS _source",
        "_file",
        *time,
    )


def _link(frame: Frame) -> str:
    kinds = dict(frame.rows.dtypes)["_source"]
    return "concat(_source.txId, ':', _source.lsn)" if "txId:" in kinds and "lsn:" in kinds else "CAST(NULL AS STRING)"


def _variants(frame: Frame, evolved: Evolved, field: Field) -> dict[WriterField, list[str]]:
    """How the frame's writers wrote a stored column: writer's field → ids of the writers that did."""
    found: dict[WriterField, list[str]] = {}
    for writer in frame.writers:
        for column in writer.fields:
            if evolved.columns.get(writer.id, {}).get(column.name) == field.name:
                found.setdefault(column, []).append(writer.id)
    return found


def _without(frame: Frame, evolved: Evolved, field: Field, absent: str | None) -> str | None:
    """`absent`, or that the row's writer does not have the column (`partial: true`)."""
    having = {writer for writers in _variants(frame, evolved, field).values() for writer in writers}
    lacking = [literal(writer.id) for writer in frame.writers if writer.id not in having]
    return " OR ".join([*([absent] if absent else []), *([f"_writer IN ({', '.join(lacking)})"] if lacking else [])]) or None


def _column(frame: Frame, evolved: Evolved, field: Field, order: position.Order) -> tuple[str, str | None, str | None]:
    """SQL for a stored column's value, for whether it is unavailable, and for whether it is not of its type (None when it never can be)."""
    images = dict((frame.images or ("struct", ()))[1])
    wanted = types.parse(field.type)
    variants = _variants(frame, evolved, field)
    branches = []
    absent = []
    unfit = []
    if frame.omits and field.visible and can_be_absent(wanted, frame.omits):
        absent.append(_untold(field.source))
    for column, writers in variants.items():
        raw = f"_after.{quoted(column.name)}"
        value = conversions.follow(conversions.stored(raw, images[column.name], column), column.type, wanted)
        test = None if frame.omits else conversions.is_placeholder(raw, images[column.name])
        only = "" if len(writers) == len(frame.writers) else f"_writer IN ({', '.join(literal(writer) for writer in writers)})"
        branches.append((only, value))
        strange = conversions.unfit(raw, images[column.name], value, column.type)
        if strange:
            unfit.append(f"({only} AND {strange})" if only else strange)
        if test:
            absent.append(f"({only} AND {test})" if only else f"({test})")
    written = sum(len(writers) for writers in variants.values())
    default = _default(field, wanted, order) if written < len(frame.writers) else None
    if len(branches) == 1 and not branches[0][0]:
        return branches[0][1], " OR ".join(absent) or None, " OR ".join(unfit) or None
    cases = "".join(f" WHEN {only} THEN {value}" for only, value in branches)
    value = f"CASE{cases} ELSE {default or null(wanted)} END" if cases else default or null(wanted)
    return value, " OR ".join(absent) or None, " OR ".join(unfit) or None


def _default(field: Field, wanted: types.Type, order: position.Order) -> str | None:
    """What a row written before the column existed reads: the column's first default (H15)."""
    if field.default is None or field.first is None:
        return None
    return f"CASE WHEN _position < {position.fixed(field.first, order)} THEN {cast(literal(field.default), wanted)} END"


def _key(frame: Frame, evolved: Evolved, name: str) -> str:
    field = evolved.schema.field(name)
    if name == ROW_ID:
        return "_identity"
    after = _image_key(frame, evolved, field, "_after")
    before = _image_key(frame, evolved, field, "_before")
    record = _record_key(frame, evolved, field, "_keyrec")
    return f"CASE WHEN _op = 't' THEN NULL WHEN _op = 'd' THEN {coalesce([value for value in (before, record) if value])} ELSE {after} END"


def _image_key(frame: Frame, evolved: Evolved, field: Field, image: str) -> str:
    images = dict((frame.images or ("struct", ()))[1])
    wanted = types.parse(field.type)
    out = []
    for column, writers in _variants(frame, evolved, field).items():
        value = conversions.follow(conversions.stored(f"{image}.{quoted(column.name)}", images[column.name], column), column.type, wanted)
        only = f"_writer IN ({', '.join(literal(writer) for writer in writers)})"
        out.append(value if len(writers) == len(frame.writers) else f"CASE WHEN {only} THEN {value} END")
    return coalesce(out) if out else null(wanted)


def _record_key(frame: Frame, evolved: Evolved, field: Field, column: str) -> str | None:
    """SQL for a key column out of the record's key (JSON text)."""
    images = dict((frame.images or ("struct", ()))[1])
    for written in _variants(frame, evolved, field):
        kind = conversions.json_type(written.raw)
        parsed = f"from_json({column}, '{ddl(('struct', ((written.name, kind),)))}')"
        if written.name in images:
            return conversions.follow(conversions.stored(member(parsed, written.name), kind, written), written.type, types.parse(field.type))
    return None


def _moved(frame: Frame, evolved: Evolved, keys: list[str], kinds: list[str]) -> str:
    schema: Schema = evolved.schema
    if schema.key == (ROW_ID,):
        return "CAST(NULL AS STRING)"
    fields = [schema.field(name) for name in schema.key]
    header = [_record_key(frame, evolved, field, "_oldkey") or null(types.parse(field.type)) for field in fields]
    before = [_image_key(frame, evolved, field, "_before") for field in fields]
    from_header = " AND ".join(f"({value}) IS NOT NULL" for value in header)
    from_before = " AND ".join(f"({value}) IS NOT NULL" for value in before)
    differs = f"{key_text(before, kinds)} <> {key_text(keys, kinds)}"
    return (
        f"CASE WHEN _op NOT IN ('c', 'u') THEN NULL WHEN _oldkey IS NOT NULL AND {from_header} THEN {key_text(header, kinds)} "
        f"WHEN _op = 'u' AND {from_before} AND {differs} THEN {key_text(before, kinds)} END"
    )


def writer_positions(rows: Sequence[tuple[str, Position | None, Position | None]], writers: Sequence[WriterSchema]) -> list[WriterSchema]:
    """The writers with the Positions of their Changes filled in, those that wrote no Change of this table left out."""
    bounds = {writer: (first, last) for writer, first, last in rows}
    return [dataclasses.replace(writer, first=bounds[writer.id][0], last=bounds[writer.id][1]) for writer in writers if writer.id in bounds]


def linked(changes: DataFrame, schema: Schema) -> DataFrame:
    """Creates with unavailable values and no header: the delete of the same transaction and LSN is the other half of the key change."""
    kinds = [schema.field(name).type for name in schema.key]
    key = key_text([quoted(name) for name in schema.key], kinds)
    deletes = changes.where("_op = 'd' AND _link IS NOT NULL").selectExpr("_link", f"{key} AS _left")
    halves = deletes.groupBy("_link").agg(F.expr("min(_left)").alias("_left"), F.expr("count(DISTINCT _left)").alias("_halves"))
    joined = changes.join(halves.where("_halves = 1"), ["_link"], "left")
    found = f"CASE WHEN _op = 'c' AND size(_missing) > 0 AND _left <> {key} THEN _left END"
    keep = [quoted(name) for name in changes.columns if name != "_from"]
    return joined.selectExpr(*keep, f"coalesce(_from, {found}) AS _from")
