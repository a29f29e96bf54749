"""`container: kafka`: files of whole Kafka records (key, value, headers, partition, offset, timestamp), whose value has the envelope.

Two forms are read. JSON lines: kcat and Connect's file sinks, with `value` (kcat: `payload`) as text or as an object. Parquet: Spark's Kafka source,
with `key` and `value` binary or text and `headers` an array of structs. Only the header `__debezium.oldkey` is used, which links a key change.

Values and keys may be in Confluent's wire format: a zero byte, the schema's id (4 bytes, big-endian), then the Avro datum (docs.confluent.io, "Wire
format"). The registry turns ids into writers' schemas, and a file may hold records of many. The records of each schema become a frame of their own,
as if an Avro file held them. All others (JSON, tombstones) stay one frame of text. A record that cannot be read goes to quarantine, and the reason
names its id, or the settings to change. Files of JSON lines hold bytes as base64 text, as `{"b64": "..."}`, or as text if they happen to be UTF-8.

Apicurio may put the id into a header instead, in 8 bytes, with the bare datum as value. `contentId` is the id of Confluent's API, so where headers
are bytes it is converted to Confluent's form. Other forms (`globalId`, a header as text, 8 bytes of id before the datum) give no reliable id.

In: a raw frame. Out: raw frames with TEXT or VALUE of the record's value, and OFFSET, PARTITION, KEY, OLD_KEY.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Optional

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from compactor.core.model import types
from compactor.core.model.errors import InputRefused, RegistryRefused, SchemaRefused
from compactor.core.schema import avro, writer
from compactor.spark.columns import BLOCK, FILE, KEY, KEY_WIRE, OFFSET, OLD_KEY, PARTITION, ROW, TEXT, UNREADABLE, VALUE, WIRE
from compactor.spark.decode import conversions
from compactor.spark.decode.pg_text import fractions_back, fractions_kept, names_decimal
from compactor.spark.input import json_text
from compactor.spark.input.files import RawFrame, from_spark, in_utc
from compactor.spark.sql import EXACT_JSON, as_column, from_json, let, literal, member, once, quoted, struct

OLD_KEY_HEADER = "__debezium.oldkey"
"""The header of a create that holds the key which the row had before."""
STORED_KEY = "\ue001"
"""The first member of the JSON of a record's key whose values are those that a table stores, not those of the source's converter."""
_MEMBERS = (
    *("topic", "partition", "offset", "key", "headers", "timestamp", "timestampType", "timestamp_type", "ts", "tstype", "broker", "leader_epoch"),
)
"""What a record without value may have in JSON, as kcat, Kafka's console consumer and Connect's file sinks name it."""
_RECORD = (
    "key STRING, value STRING, payload STRING, headers STRING, partition STRING, `offset` STRING, topic STRING, metadata STRING, _corrupt STRING"
)

Schemas = Optional[Callable[[int], str]]
"""Id → self-contained schema text. Raises RegistryRefused for an unknown id, SchemaRefused for one that is not Avro, Unavailable."""
Hold = Callable[[DataFrame], DataFrame]
"""Computes rows once and keeps them while the batch lasts."""
_MAGIC = "X'00'"
_CONTENT, _GLOBAL = "apicurio.{0}.contentId", "apicurio.{0}.globalId"
_SETTINGS = "set apicurio.registry.headers.enabled=false and apicurio.registry.as-confluent=true in its converter"
_BASE64 = "^AA[A-Za-z0-9+/]{5,}={0,2}$"
"""Base64 of bytes that begin with a zero byte. No JSON text begins with an A."""


def unpack(raw: RawFrame, container: str, schemas: Schemas, hold: Hold) -> list[RawFrame]:
    """Return the frame with the container's columns (null for `container: value`). Records that name schemas by id become one frame per schema."""
    if container == "value":
        kinds = {OFFSET: "BIGINT", PARTITION: "INT", KEY: "STRING", OLD_KEY: "STRING"}
        nulls = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in kinds.items())
        return [dataclasses.replace(raw, rows=_readable(raw).selectExpr("*", *nulls))]
    made = _json(raw) if raw.schema is None else _typed(raw)
    if WIRE not in made.rows.columns:
        return [made]
    return _split_by_schema(made, schemas, hold)


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
    kept = fractions_kept(TEXT, names_decimal(TEXT), long=True)
    record = once(_readable(raw).selectExpr("*", f"{from_json(kept, literal(_RECORD), columnNameOfCorruptRecord='_corrupt')} AS _record"))
    value = "coalesce(_record.value, _record.payload)"
    # a line that is not a JSON object goes on unchanged; the envelope reports it with file and row
    corrupt = "(_record._corrupt IS NOT NULL OR (_record IS NULL AND trim(_text) <> ''))"
    rows = record.selectExpr(
        FILE,
        BLOCK,
        ROW,
        f"CASE WHEN {corrupt} THEN _text ELSE {_plain(fractions_back(value))} END AS _text",
        # Lenses' sinks write both into `metadata`
        "try_cast(coalesce(_record.`offset`, get_json_object(_record.metadata, '$.offset')) AS BIGINT) AS _offset",
        "try_cast(coalesce(_record.partition, get_json_object(_record.metadata, '$.partition')) AS INT) AS _partition",
        f"{_plain(fractions_back('_record.key'))} AS _key",
        f"{_json_header(OLD_KEY_HEADER)} AS _old_key",
        f"{of_wire_text(value)} AS _wire",
        f"{of_wire_text('_record.key')} AS _key_wire",
        "_record.headers AS _headers",
        f"CASE WHEN NOT {corrupt} AND {value} IS NULL THEN {_no_record()} END AS _no_record",
        UNREADABLE,
    )
    apicurio = _apicurio_problem(lambda name: f"contains(_headers, {literal(name)})")
    rows = rows.withColumn(UNREADABLE, as_column(f"coalesce({UNREADABLE}, _no_record, {apicurio})")).drop("_headers", "_no_record")
    return RawFrame(_checked(rows), paths=raw.paths)


def _plain(text: str) -> str:
    """SQL: a text, or the object whose base64 it is: Aiven's sinks write bytes so, and Lenses'. That of `{` begins with an e, which no JSON does."""
    decoded = let(f"CAST({_base64('_p')} AS STRING)", "_b", "CASE WHEN startswith(_b, '{') THEN _b END")
    return let(text, "_p", f"CASE WHEN startswith(_p, 'e') THEN coalesce({decoded}, _p) ELSE _p END")


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
    has = raw.blocks("headers")
    inner = has.get("metadata", ("", ()))
    place = dict(inner[1]) if inner[0] == "struct" else {}
    # Lenses leaves out the value of tombstones, and begins a file with other columns for them
    only_tombstones = "value" not in has and "key" in has and {"topic", "partition", "offset"} <= place.keys()
    if "value" not in has and not only_tombstones:
        raise InputRefused(
            f"container: kafka expects a column `value`; found {', '.join(has)}. Set `container: value` if the files hold the values alone."
        )
    headers = has.get("headers", ("",))
    if headers[0] in ("struct", "map"):
        # Lenses' sinks write a member for each header
        del has["headers"]
    elif headers[0] and not (headers[0] == "array" and headers[1][0] == "struct" and {"key", "value"} <= {name for name, _ in headers[1][1]}):
        raise InputRefused(
            f"container: kafka expects a column `headers` of type array<struct<key:string,value:binary>>; found {types.text(headers)}. Have the "
            "writer store it so, as Spark's Kafka source does, or leave it out."
        )
    origin = (FILE, BLOCK, ROW)
    scalars = {name for name, kind in place.items() if types.is_scalar(kind)}

    def number(name: str, kind: str) -> str:
        if name in has:
            return f"CAST(_value.{quoted(name)} AS {kind})"
        # Lenses' sinks write it into `metadata`, which others have for other things
        return f"try_cast(CAST(_value.metadata.{quoted(name)} AS STRING) AS {kind})" if name in scalars else f"CAST(NULL AS {kind})"

    offset, partition = number("offset", "BIGINT"), number("partition", "INT")
    kind = has.get("key", ("",))[0]
    key = "CAST(_value.key AS STRING)" if kind in ("string", "binary") else "to_json(_value.key)" if kind else "CAST(NULL AS STRING)"
    old = "_value.oldkey" if has.get("oldkey") == ("string",) else "CAST(NULL AS STRING)"
    if "headers" in has:
        old = f"CAST({_header(OLD_KEY_HEADER)} AS STRING)"
    elif headers[0] == "map":
        old = f"CAST(try_element_at(_value.headers, {literal(OLD_KEY_HEADER)}) AS STRING)"
    extra = (f"{offset} AS _offset", f"{partition} AS _partition", f"{key} AS _key", f"{old} AS _old_key")
    if only_tombstones or has["value"][0] in ("string", "binary"):
        text = "CAST(NULL AS STRING)" if only_tombstones else "CAST(_value.value AS STRING)"
        wired = {side: _wired(side, has) for side in ("value", "key")}
        apicurio = _apicurio_problem(lambda name: f"{_header(name)} IS NOT NULL" if "headers" in has else "false")
        rows = raw.rows.selectExpr(*origin, f"{text} AS _text", *extra, f"{wired['value']} AS _wire", f"{wired['key']} AS _key_wire", VALUE)
        rows = rows.selectExpr("*", f"{apicurio} AS {UNREADABLE}").drop(VALUE)
        return RawFrame(_checked(rows), paths=raw.paths)
    rows = raw.rows.selectExpr(*origin, f"{member(VALUE, 'value')} AS _value", *extra, f"{raw.unreadable} AS {UNREADABLE}")
    schema = avro.parse(raw.avro).member("value").text() if raw.avro else None
    return RawFrame(rows, has["value"], schema, paths=raw.paths, marked=dict(raw.marked[1])["value"] if raw.marked else None)


def _header(name: str) -> str:
    return f"get(filter(_value.headers, _h -> _h.key = {literal(name)}), 0).value"


def _wired(side: str, has: dict[str, types.Type]) -> str:
    column, kind = f"_value.{side}", has.get(side)
    if kind == ("binary",):
        bytes_in_headers = ("value", ("binary",)) in has.get("headers", ("array", ("struct", ())))[1][1]
        return _of_headers(side, column) if bytes_in_headers else _of_bytes(column)
    return of_wire_text(column) if kind == ("string",) else "CAST(NULL AS BINARY)"


def of_wire_text(text: str) -> str:
    """SQL: the bytes in wire format that a JSON string holds, else null."""
    inside, itself = _base64(f"get_json_object({text}, '$.b64')"), f"CAST({text} AS BINARY)"
    return (
        f"CASE WHEN {text} LIKE '{{\"b64\":%' THEN {_of_bytes(inside)} WHEN {text} RLIKE '{_BASE64}' THEN {_of_bytes(_base64(text))} "
        f"ELSE {_of_bytes(itself)} END"
    )


def wire_problem(text: str) -> str:
    """SQL: why a line that is a value alone cannot be read, if it is base64 in wire format, bare or as a JSON string; else null."""
    bare = f"trim(BOTH '\"' FROM trim({text}))"
    reason = "is Avro in wire format, which only whole Kafka records may hold: let the sink write those (`container: kafka`), or Avro files"
    wired = f"{bare} RLIKE '{_BASE64}' AND {_of_bytes(_base64(bare))} IS NOT NULL"
    return f"CASE WHEN startswith({text}, 'AA') OR startswith({text}, '\"AA') THEN CASE WHEN {wired} THEN {literal(reason)} END END"


def _base64(text: str) -> str:
    return f"try_to_binary({text}, 'base64')"


def _of_bytes(value: str) -> str:
    """SQL: the bytes if they are in wire format, else null."""
    return f"CASE WHEN substring({value}, 1, 1) = {_MAGIC} AND length({value}) > 4 THEN {value} END"


def _of_headers(side: str, value: str) -> str:
    """SQL: the bytes in wire format, with the id of Apicurio's header if there is one. `side` is value or key."""
    number = _header(_CONTENT.format(side))
    has_id = f"length({number}) = 8 AND substring({number}, 1, 4) = X'00000000' AND {value} IS NOT NULL"
    return f"CASE WHEN {has_id} THEN concat({_MAGIC}, substring({number}, 5, 4), {value}) ELSE {_of_bytes(value)} END"


def _apicurio_problem(has_header: Callable[[str], str]) -> str:
    """SQL: why a record that Apicurio wrote cannot be read, or null. `has_header` returns SQL for whether the record has a header of a name."""
    form = f"{WIRE} IS NULL AND {TEXT} IS NOT NULL AND NOT startswith({TEXT}, '{{')"
    names = (_CONTENT.format("value"), _GLOBAL.format("value"))
    cases = " ".join(f"WHEN {form} AND {has_header(name)} THEN {literal(_reason(f'the header {name}'))}" for name in names)
    wide = f"WHEN {_id(WIRE)} = 0 AND length({WIRE}) > 8 THEN {literal(_reason('8 bytes before the datum'))}"
    return f"CASE {cases} {wide} END"


def _reason(where: str) -> str:
    return f"is Avro as Apicurio writes it, with the schema's id in {where}: {_SETTINGS}"


def _id(column: str) -> str:
    # as INT an id of 2^31 or more would be negative; Confluent counts from 1
    return f"CAST(conv(hex(substring({column}, 2, 4)), 16, 10) AS BIGINT)"


def _split_by_schema(raw: RawFrame, schemas: Schemas, hold: Hold) -> list[RawFrame]:
    """Split a frame with TEXT, UNREADABLE, WIRE and KEY_WIRE into frames of one schema each. With a registry one Spark job collects the ids.

    With several schemas the rows are computed once and kept, because Spark's optimizer takes minutes for a dozen copies of the same steps.
    """
    rows = raw.rows.withColumn(WIRE, as_column("CASE WHEN _unreadable IS NULL THEN _wire END"))
    if schemas is None:
        reason = f"concat('names a schema by id (', {_id('_wire')}, '): set `registry:`, then replay the quarantine')"
        unreadable = as_column(f"coalesce(_unreadable, CASE WHEN _wire IS NOT NULL THEN {reason} END)")
        return [dataclasses.replace(raw, rows=rows.withColumn(UNREADABLE, unreadable).drop(WIRE, KEY_WIRE))]
    ids = [(row.v, row.k) for row in rows.selectExpr(f"{_id('_wire')} AS v", f"{_id('_key_wire')} AS k").distinct().collect()]
    values = {value for value, _ in ids}
    rows = _with_keys(rows, sorted({key for _, key in ids if key is not None}), schemas)
    rows = hold(rows) if len(values) > 1 else rows
    frames = []
    if None in values or not values:
        frames.append(dataclasses.replace(raw, rows=rows.where("_wire IS NULL").drop(WIRE)))
    for number in sorted(value for value in values if value is not None):
        frames.append(_of_schema(raw, rows.where(f"{_id('_wire')} = {number}"), number, schemas))
    return frames


def _of_schema(raw: RawFrame, rows: DataFrame, number: int, schemas: Callable[[int], str]) -> RawFrame:
    text, problem = _schema(number, schemas)
    if text is None:
        reason = literal(f"names a schema by id ({number}){problem}")
        columns = ["base64(_wire) AS _text" if name == TEXT else name for name in rows.columns if name not in (WIRE, UNREADABLE)]
        return dataclasses.replace(raw, rows=rows.selectExpr(*columns, f"{reason} AS {UNREADABLE}"))
    # Spark makes a record of nulls of what it cannot read. Inside of another record, which has the same bytes, that is no record of nulls.
    around = json.dumps({"type": "record", "name": "compactor_value", "fields": [{"name": "value", "type": json.loads(text)}]})
    read = rows.drop(TEXT, UNREADABLE).withColumn(VALUE, _datum(WIRE, around)["value"])
    kind = read.schema[VALUE].dataType
    read = read.withColumn(VALUE, as_column(in_utc(VALUE, kind)))
    misfit = literal(f"does not fit the schema with id {number}, which it names")
    read = read.selectExpr("*", f"CASE WHEN _value IS NULL THEN {misfit} END AS {UNREADABLE}").drop(WIRE)
    return RawFrame(read, from_spark(kind), text, by_id=True, paths=raw.paths)


def _schema(number: int, schemas: Callable[[int], str]) -> tuple[str | None, str]:
    """Return the schema text and '', or None and why it cannot be used."""
    try:
        text = schemas(number)
    except (RegistryRefused, SchemaRefused) as error:
        return None, f", which cannot be used: {error}"
    if not _is_record(text):
        return None, f", which is not a record: {text[:80]}"
    return text, ""


def _with_keys(rows: DataFrame, ids: Iterable[int], schemas: Callable[[int], str]) -> DataFrame:
    """Return rows whose KEY is JSON where it was in wire format, and null if its schema is unknown: the key is only a fallback for the row's own.

    The JSON of a record has the values that a table stores, each as the key's own schema says, after the member STORED_KEY: for a tombstone no other
    schema says how to read them.
    """
    shown, read = ["CASE WHEN _key_wire IS NULL THEN _key END"], {}
    for number in ids:
        name = f"_key_{number}"
        try:
            text = schemas(number)
            column = F.when(as_column(f"{_id('_key_wire')} = {number}"), _datum(KEY_WIRE, text))
            value = _stored_key(name, text, rows.select(column.alias(name))) if _is_record(text) else f"CAST({name} AS STRING)"
        except (RegistryRefused, SchemaRefused):
            continue
        read[name] = column
        shown.append(value)
    key = as_column(f"coalesce({', '.join(shown)})")
    return once(rows.withColumns(read)).withColumn(KEY, key).drop(KEY_WIRE, *read)


def _stored_key(name: str, text: str, read: DataFrame) -> str:
    """SQL for the JSON of a key that was read, with an Avro schema, into the column `name` of `read`."""
    kind = read.schema[name].dataType
    kinds = dict(from_spark(kind)[1])
    fields = (field for field in writer.from_avro(text).fields if field.type[0] not in ("array", "map", "struct"))
    members = [(field.name, conversions.key_to_stored(member(in_utc(name, kind), field.name), kinds[field.name], field)) for field in fields]
    return f"CASE WHEN {name} IS NOT NULL THEN to_json({struct([(STORED_KEY, 'true'), *members])}, {EXACT_JSON}) END"


def _is_record(text: str) -> bool:
    kind = json.loads(text)
    return isinstance(kind, dict) and kind.get("type") == "record"


def _datum(column: str, text: str) -> Column:
    datum = as_column(f"substring({column}, 6)")
    return from_avro(datum, avro.readable_by_spark(text) or text, {"mode": "PERMISSIVE"})
