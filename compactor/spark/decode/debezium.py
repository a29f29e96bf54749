"""Debezium's envelope: {before, after, source, op, transaction, ts_ms}, as JSON with or without schema, Avro, or Parquet structs.

Rules:
- `op` is c, u, d, r or t; `m` (logical messages) carries no row. A null or empty value (Kafka tombstone), heartbeats, transaction markers,
  schema-change events, and envelopes with neither before nor after count as ignored.
- The row is `after`. The row of a delete is `before`; only its key is used, because default identity fills the rest with zeros.
- The key comes from the row. The record's key is the fallback, because a renamed key column can be missing there.
- With `source_table: schema.table`, events of other tables are ignored.
"""

from __future__ import annotations

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import from_avro, signature
from compactor.spark.columns import OLD_KEY, PLACE, SCHEMA, TEXT, TIME
from compactor.spark.decode.conversions import plain
from compactor.spark.decode.frame import Frame, plain_writer
from compactor.spark.decode.order import SOURCE
from compactor.spark.decode.tables import of_other_table
from compactor.spark.input.files import RawFrame
from compactor.spark.sql import cited, from_json, literal, member, null

_SOURCE_DDL = ", ".join(f"{name}: STRING" for name in SOURCE)
_BODY = f"op STRING, before STRING, after STRING, source STRUCT<{_SOURCE_DDL}>, transaction STRUCT<id: STRING, total_order: STRING>, ts_ms STRING"

_SILENT = ("array('ts_ms')", "array('databaseName','ddl')", "array('event_count','id','status')")
"""Key sets (or parts of them) of heartbeats, schema changes and transaction markers."""


def decode(raw: RawFrame, spec: TableSpec) -> Frame:
    """Return one raw frame (with OFFSET, KEY, OLD_KEY) as a Frame."""
    return _json(raw, spec) if raw.schema is None else _typed(raw, spec)


def wrapped(text: str) -> tuple[str, str]:
    """Return SQL for (schema text, body text) of Connect JSON: `{"schema": .., "payload": ..}` with schemas.enable, else the body alone."""
    outer = from_json(text, "'schema STRING, payload STRING'")
    has_schema = f"{outer}.schema LIKE '%\"fields\"%'"
    return f"CASE WHEN {has_schema} THEN {outer}.schema END", f"CASE WHEN {has_schema} THEN {outer}.payload ELSE {text} END"


def _json(raw: RawFrame, spec: TableSpec) -> Frame:
    schema, body = wrapped(TEXT)
    bodies = raw.rows.selectExpr("*", f"{schema} AS _schema", f"{body} AS _body")
    parsed = bodies.selectExpr("*", f"{from_json('_body', literal(_BODY))} AS _m", "json_object_keys(_body) AS _keys")
    row = "coalesce(_m.after, _m.before)"
    writer = f"CASE WHEN _schema IS NOT NULL THEN hex(xxhash64(_schema)) ELSE concat('k', hex(xxhash64(array_sort(json_object_keys({row}))))) END"
    silent = " OR ".join(f"size(array_except({keys}, _keys)) = 0" for keys in _SILENT)
    no_envelope = f"_m.op IS NULL AND NOT ({silent})"
    invalid = (
        "CASE WHEN _body IS NULL OR trim(_body) IN ('', 'null') THEN NULL WHEN _keys IS NULL THEN 'is not a JSON object' "
        f"WHEN {no_envelope} THEN 'is not a Debezium envelope (no `op`)' "
        f"WHEN _m.op IS NOT NULL AND _m.op NOT IN ('c', 'u', 'd', 'r', 't', 'm') THEN concat('has an unknown op ', {cited('_m.op')}) END"
    )
    op = _operation("_m.op", "_m.after IS NULL", "_m.before IS NULL", "_m.source.schema", "_m.source.table", spec)
    source = ", ".join(f"_m.source.{name} AS {name}" for name in SOURCE)
    return Frame(
        parsed.selectExpr(
            *PLACE,
            TEXT,
            f"coalesce({raw.unreadable}, {invalid}) AS _invalid",
            f"{op} AS _op",
            f"{writer} AS _writer",
            SCHEMA,
            "_m.after AS _after",
            "_m.before AS _before",
            f"{wrapped('_key')[1]} AS _record_key",
            f"{wrapped('_old_key')[1]} AS _old_key",
            f"struct({source}, _m.transaction.total_order AS total_order) AS _source",
            f"CASE WHEN NOT ({_ignored_read(op, '_m.op')}) THEN "
            "coalesce(try_cast(_m.source.ts_us AS BIGINT), try_cast(_m.source.ts_ms AS BIGINT) * 1000L) END AS _time",
        ),
        None,
    )


def _operation(op: str, no_after: str, no_before: str, schema: str, table: str, spec: TableSpec) -> str:
    """SQL for OP: c, u, d, r, t, or null for a record without a row of this table."""
    other = of_other_table(schema, table, spec.source_table)
    return (
        f"CASE WHEN {other} THEN NULL WHEN {op} = 't' THEN 't' WHEN {op} IN ('c', 'u', 'r') AND NOT ({no_after}) THEN {op} "
        f"WHEN {op} = 'd' AND NOT ({no_before} AND _key IS NULL) THEN 'd' END"
    )


def _ignored_read(op: str, code: str) -> str:
    """SQL: a snapshot's read of another table. Its time says nothing about the changes that have come: the stream may be hours behind it."""
    return f"({op}) IS NULL AND coalesce({code}, '') = 'r'"


def _typed(raw: RawFrame, spec: TableSpec) -> Frame:
    assert raw.schema is not None
    has = dict(raw.schema[1])
    if not {"op", "after"} <= set(has):
        raise InputRefused(
            f"table {spec.name}: not a Debezium envelope: expected columns op, before, after, source; found {', '.join(has)}. "
            "If the records are plain rows, set `envelope: flat`."
        )
    images = has["after"]
    source = dict(has.get("source", ("struct", ()))[1])
    transaction = dict(has.get("transaction", ("struct", ()))[1])

    def text(path: str, kinds: dict[str, types.Type], name: str) -> str:
        return f"CAST({member(path, name)} AS STRING)" if name in kinds else "CAST(NULL AS STRING)"

    fields = ", ".join(f"{text('_value.source', source, name)} AS {name}" for name in SOURCE)
    before = "_value.before" if has.get("before") == images else _same("_value.before", has.get("before"), images)
    op = _operation(
        "_value.op",
        "_value.after IS NULL",
        "_value.before IS NULL",
        text("_value.source", source, "schema"),
        text("_value.source", source, "table"),
        spec,
    )
    unknown = "_value.op IS NOT NULL AND _value.op NOT IN ('c', 'u', 'd', 'r', 't', 'm')"
    invalid = f"CASE WHEN {unknown} THEN concat('has an unknown op ', {cited('_value.op')}) END"
    rows = (
        raw.rows.selectExpr(
            *PLACE,
            f"coalesce({raw.unreadable}, {invalid}) AS _invalid",
            f"{op} AS _op",
            f"{literal(_writer_id(raw))} AS _writer",
            "CAST(NULL AS STRING) AS _schema",
            "_value.after AS _after",
            f"{before} AS _before",
            "_key AS _record_key",
            OLD_KEY,
            f"struct({fields}, {text('_value.transaction', transaction, 'total_order')} AS total_order) AS _source",
            f"CASE WHEN NOT ({_ignored_read(op, '_value.op')}) THEN "
            f"coalesce({text('_value.source', source, 'ts_us')}, concat({text('_value.source', source, 'ts_ms')}, '000')) END AS _time",
        )
        .selectExpr("*", "try_cast(_time AS BIGINT) AS _us")
        .drop(TIME)
        .withColumnRenamed("_us", TIME)
    )
    described = from_avro(raw.avro) if raw.avro else plain_writer(_writer_id(raw), images)
    return Frame(rows, images, (described,))


def _writer_id(raw: RawFrame) -> str:
    return signature(raw.avro or types.text(raw.schema or ("struct", ())))


def _same(value: str, kind: types.Type | None, images: types.Type) -> str:
    return null(images) if kind is None or kind[0] != "struct" else plain(value, kind, images)
