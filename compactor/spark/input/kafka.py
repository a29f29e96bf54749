"""`container: kafka`: files of whole Kafka records (key, value, headers, partition, offset, timestamp), whose value has the envelope.

Two forms are read. JSON lines: kcat and Connect's file sinks, with `value` (kcat: `payload`) as text or as an object. Parquet: Spark's Kafka source,
with `key` and `value` binary or text and `headers` an array of structs. Only the header `__debezium.oldkey` is used, which links a key change.
`input/wire.py` reads values and keys in Confluent's wire format.

In: a raw frame. Out: raw frames with TEXT or VALUE of the record's value, and OFFSET, PARTITION, KEY, OLD_KEY.
"""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.schema import avro
from compactor.spark.columns import BLOCK, FILE, KEY, OFFSET, OLD_KEY, PARTITION, ROW, TEXT, UNREADABLE, VALUE, WIRE
from compactor.spark.input import json_text, wire
from compactor.spark.input.files import RawFrame
from compactor.spark.sql import as_column, from_json, literal, member, once, quoted

OLD_KEY_HEADER = "__debezium.oldkey"
"""The header of a create that holds the key which the row had before."""
_MEMBERS = (
    *("topic", "partition", "offset", "key", "headers", "timestamp", "timestampType", "timestamp_type", "ts", "tstype", "broker", "leader_epoch"),
)
"""What a record without value may have in JSON, as kcat, Kafka's console consumer and Connect's file sinks name it."""
_RECORD = (
    "key STRING, value STRING, payload STRING, headers STRING, partition STRING, `offset` STRING, topic STRING, metadata STRING, _corrupt STRING"
)


def unpack(raw: RawFrame, container: str, schemas: wire.Schemas, hold: wire.Hold) -> list[RawFrame]:
    """Return the frame with the container's columns (null for `container: value`). Records that name schemas by id become one frame per schema."""
    if container == "value":
        kinds = {OFFSET: "BIGINT", PARTITION: "INT", KEY: "STRING", OLD_KEY: "STRING"}
        nulls = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in kinds.items())
        return [dataclasses.replace(raw, rows=_readable(raw).selectExpr("*", *nulls))]
    made = _json(raw) if raw.schema is None else _typed(raw)
    if WIRE not in made.rows.columns:
        return [made]
    return wire.split_by_schema(made, schemas, hold)


def _readable(raw: RawFrame) -> DataFrame:
    """Return the rows without the text of records that are UNREADABLE. Nothing is decoded of it, and no type inferred from it."""
    if raw.schema is not None:
        return raw.rows
    return raw.rows.selectExpr(*(f"CASE WHEN {UNREADABLE} IS NULL THEN {TEXT} END AS {TEXT}" if name == TEXT else name for name in raw.rows.columns))


def _checked(rows: DataFrame) -> DataFrame:
    """Return rows of TEXT, UNREADABLE, WIRE and KEY with UNREADABLE for a value that is no single JSON document, or no text, and no such keys."""
    why = f"coalesce({UNREADABLE}, CASE WHEN {WIRE} IS NULL THEN {json_text.problem(TEXT)} END)"
    rows = once(rows).withColumn(UNREADABLE, as_column(why)).withColumn(KEY, as_column(f"CASE WHEN {json_text.is_text(KEY)} THEN {KEY} END"))
    return once(rows.withColumn(TEXT, as_column(f"CASE WHEN {UNREADABLE} IS NULL THEN {TEXT} END")))


def _json(raw: RawFrame) -> RawFrame:
    record = once(_readable(raw).selectExpr("*", f"{from_json('_text', literal(_RECORD), columnNameOfCorruptRecord='_corrupt')} AS _record"))
    value = "coalesce(_record.value, _record.payload)"
    # a line that is not a JSON object goes on unchanged; the envelope reports it with file and row
    corrupt = "(_record._corrupt IS NOT NULL OR (_record IS NULL AND trim(_text) <> ''))"
    rows = record.selectExpr(
        FILE,
        BLOCK,
        ROW,
        f"CASE WHEN {corrupt} THEN _text ELSE {value} END AS _text",
        # Lenses' sinks write both into `metadata`
        "try_cast(coalesce(_record.`offset`, get_json_object(_record.metadata, '$.offset')) AS BIGINT) AS _offset",
        "try_cast(coalesce(_record.partition, get_json_object(_record.metadata, '$.partition')) AS INT) AS _partition",
        "_record.key AS _key",
        f"{_json_header(OLD_KEY_HEADER)} AS _old_key",
        f"{wire.of_text(value)} AS _wire",
        f"{wire.of_text('_record.key')} AS _key_wire",
        "_record.headers AS _headers",
        f"CASE WHEN NOT {corrupt} AND {value} IS NULL THEN {_no_record()} END AS _no_record",
        UNREADABLE,
    )
    apicurio = wire.apicurio_problem(TEXT, WIRE, lambda name: f"contains(_headers, {literal(name)})")
    rows = rows.withColumn(UNREADABLE, as_column(f"coalesce({UNREADABLE}, _no_record, {apicurio})")).drop("_headers", "_no_record")
    return RawFrame(_checked(rows), paths=raw.paths)


def _no_record() -> str:
    """SQL: why an object without value is no Kafka record, or null. A tombstone may lack the member."""
    names = "json_object_keys(_text)"
    has_value = f"(array_contains({names}, 'value') OR array_contains({names}, 'payload'))"
    others = f"array_except({names}, array({', '.join(map(literal, _MEMBERS))}))"
    shown = f"array_join(slice({names}, 1, 12), ', ')"
    reason = f"concat('is no Kafka record: expected a member value, found ', {shown}, '; if the lines are values alone, set `container: value`')"
    return f"CASE WHEN NOT {has_value} AND size({others}) > 0 THEN {reason} END"


def _json_header(name: str) -> str:
    """SQL for a header of a JSON record; sinks write headers as pairs, structs, a map or a flat list."""
    pairs = f"get(filter(from_json(_record.headers, 'ARRAY<ARRAY<STRING>>'), _h -> _h[0] = {literal(name)}), 0)[1]"
    structs = f"get(filter(from_json(_record.headers, 'ARRAY<STRUCT<key:STRING,value:STRING>>'), _h -> _h.key = {literal(name)}), 0).value"
    flat = "from_json(_record.headers, 'ARRAY<STRING>')"
    after = f"try_element_at({flat}, CAST(array_position({flat}, {literal(name)}) AS INT) + 1)"
    mapped = f"try_element_at(from_json(_record.headers, 'MAP<STRING,STRING>'), {literal(name)})"
    return (
        f"CASE WHEN _record.headers LIKE '[[%' THEN {pairs} WHEN _record.headers LIKE '[{{%' THEN {structs} "
        f"WHEN _record.headers LIKE '{{%' THEN {mapped} WHEN array_contains({flat}, {literal(name)}) THEN {after} END"
    )


def _typed(raw: RawFrame) -> RawFrame:
    assert raw.schema is not None
    has = dict(raw.schema[1])
    if "value" not in has:
        raise InputRefused(
            f"container: kafka expects a column `value`; found {', '.join(has)}. Set `container: value` if the files hold the values alone."
        )
    origin = (FILE, BLOCK, ROW)
    inner = has.get("metadata", ("", ()))
    scalars = {name for name, kind in (inner[1] if inner[0] == "struct" else ()) if types.is_scalar(kind)}

    def number(name: str, kind: str) -> str:
        if name in has:
            return f"CAST(_value.{quoted(name)} AS {kind})"
        # Lenses' sinks write it into `metadata`, which others have for other things
        return f"try_cast(CAST(_value.metadata.{quoted(name)} AS STRING) AS {kind})" if name in scalars else f"CAST(NULL AS {kind})"

    offset, partition = number("offset", "BIGINT"), number("partition", "INT")
    kind = has.get("key", ("",))[0]
    key = "CAST(_value.key AS STRING)" if kind in ("string", "binary") else "to_json(_value.key)" if kind else "CAST(NULL AS STRING)"
    old = "_value.oldkey" if has.get("oldkey") == ("string",) else "CAST(NULL AS STRING)"
    old = f"CAST({_header(OLD_KEY_HEADER)} AS STRING)" if "headers" in has else old
    extra = (f"{offset} AS _offset", f"{partition} AS _partition", f"{key} AS _key", f"{old} AS _old_key")
    if has["value"][0] in ("string", "binary"):
        text = "CAST(_value.value AS STRING)"
        wired = {side: _wired(side, has) for side in ("value", "key")}
        apicurio = wire.apicurio_problem(TEXT, WIRE, lambda name: f"{_header(name)} IS NOT NULL" if "headers" in has else "false")
        rows = raw.rows.selectExpr(*origin, f"{text} AS _text", *extra, f"{wired['value']} AS _wire", f"{wired['key']} AS _key_wire", VALUE)
        rows = rows.selectExpr("*", f"{apicurio} AS {UNREADABLE}").drop(VALUE)
        return RawFrame(_checked(rows), paths=raw.paths)
    rows = raw.rows.selectExpr(*origin, f"{member(VALUE, 'value')} AS _value", *extra, f"{raw.unreadable} AS {UNREADABLE}")
    return RawFrame(rows, has["value"], avro.parse(raw.avro).member("value").text() if raw.avro else None, paths=raw.paths)


def _header(name: str) -> str:
    return f"get(filter(_value.headers, _h -> _h.key = {literal(name)}), 0).value"


def _wired(side: str, has: dict[str, types.Type]) -> str:
    column, kind = f"_value.{side}", has.get(side)
    if kind == ("binary",):
        bytes_in_headers = ("value", ("binary",)) in has.get("headers", ("array", ("struct", ())))[1][1]
        return wire.of_headers(side, column, _header) if bytes_in_headers else wire.of_bytes(column)
    return wire.of_text(column) if kind == ("string",) else "CAST(NULL AS BINARY)"
