"""Confluent's wire format inside Kafka records: a zero byte, the schema's id (4 bytes, big-endian), then the Avro datum.

Source: docs.confluent.io, "Wire format". The registry turns ids into writers' schemas, and a file may hold records of many. The records of each
schema become a frame of their own, as if an Avro file held them. All others (JSON, tombstones) stay one frame of text. A record that cannot be read
goes to quarantine, and the reason names its id, or the settings to change.

Files of JSON lines hold bytes as base64 text, as `{"b64": "..."}`, or as text if they happen to be UTF-8.

Apicurio may put the id into a header instead, in 8 bytes, with the bare datum as value. `contentId` is the id of Confluent's API, so where headers
are bytes it is converted to Confluent's form. Other forms (`globalId`, a header as text, 8 bytes of id before the datum) give no reliable id.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Optional

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from compactor.core.model.errors import RegistryRefused, SchemaRefused
from compactor.core.schema import avro
from compactor.spark.columns import KEY, KEY_WIRE, TEXT, UNREADABLE, VALUE, WIRE
from compactor.spark.input.files import RawFrame, from_spark
from compactor.spark.sql import as_column, literal

Schemas = Optional[Callable[[int], str]]
"""Id → self-contained schema text. Raises RegistryRefused for an unknown id, SchemaRefused for one that is not Avro, Unavailable."""
Hold = Callable[[DataFrame], DataFrame]
"""Computes rows once and keeps them while the batch lasts."""
_MAGIC = "X'00'"
_CONTENT, _GLOBAL = "apicurio.{0}.contentId", "apicurio.{0}.globalId"
_SETTINGS = "set apicurio.registry.headers.enabled=false and apicurio.registry.as-confluent=true in its converter"
_BASE64 = "^AA[A-Za-z0-9+/]{5,}={0,2}$"
"""Base64 of bytes that begin with a zero byte. No JSON text begins with an A."""


def of_text(text: str) -> str:
    """SQL: the bytes in wire format that a JSON string holds, else null."""
    inside, itself = _base64(f"get_json_object({text}, '$.b64')"), f"CAST({text} AS BINARY)"
    return (
        f"CASE WHEN {text} LIKE '{{\"b64\":%' THEN {of_bytes(inside)} WHEN {text} RLIKE '{_BASE64}' THEN {of_bytes(_base64(text))} "
        f"ELSE {of_bytes(itself)} END"
    )


def value_problem(text: str) -> str:
    """SQL: why a line that is a value alone cannot be read, if it is base64 in wire format, bare or as a JSON string; else null."""
    bare = f"trim(BOTH '\"' FROM trim({text}))"
    reason = "is Avro in wire format, which only whole Kafka records may hold: let the sink write those (`container: kafka`), or Avro files"
    wired = f"{bare} RLIKE '{_BASE64}' AND {of_bytes(_base64(bare))} IS NOT NULL"
    return f"CASE WHEN startswith({text}, 'AA') OR startswith({text}, '\"AA') THEN CASE WHEN {wired} THEN {literal(reason)} END END"


def _base64(text: str) -> str:
    return f"try_to_binary({text}, 'base64')"


def of_bytes(value: str) -> str:
    """SQL: the bytes if they are in wire format, else null."""
    return f"CASE WHEN substring({value}, 1, 1) = {_MAGIC} AND length({value}) > 4 THEN {value} END"


def of_headers(side: str, value: str, header: Callable[[str], str]) -> str:
    """SQL: the bytes in wire format, with the id of Apicurio's header if there is one. `side` is value or key, `header` returns SQL for a header."""
    number = header(_CONTENT.format(side))
    has_id = f"length({number}) = 8 AND substring({number}, 1, 4) = X'00000000' AND {value} IS NOT NULL"
    return f"CASE WHEN {has_id} THEN concat({_MAGIC}, substring({number}, 5, 4), {value}) ELSE {of_bytes(value)} END"


def apicurio_problem(text: str, wired: str, has_header: Callable[[str], str]) -> str:
    """SQL: why a record that Apicurio wrote cannot be read, or null. `has_header` returns SQL for whether the record has a header of a name."""
    form = f"{wired} IS NULL AND {text} IS NOT NULL AND NOT startswith({text}, '{{')"
    names = (_CONTENT.format("value"), _GLOBAL.format("value"))
    cases = " ".join(f"WHEN {form} AND {has_header(name)} THEN {literal(_reason(f'the header {name}'))}" for name in names)
    wide = f"WHEN {_id(wired)} = 0 AND length({wired}) > 8 THEN {literal(_reason('8 bytes before the datum'))}"
    return f"CASE {cases} {wide} END"


def _reason(where: str) -> str:
    return f"is Avro as Apicurio writes it, with the schema's id in {where}: {_SETTINGS}"


def _id(column: str) -> str:
    # as INT an id of 2^31 or more would be negative; Confluent counts from 1
    return f"CAST(conv(hex(substring({column}, 2, 4)), 16, 10) AS BIGINT)"


def split_by_schema(raw: RawFrame, schemas: Schemas, hold: Hold) -> list[RawFrame]:
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
    read = rows.drop(TEXT, UNREADABLE).withColumn(VALUE, _datum(WIRE, text))
    schema = from_spark(read.schema[VALUE].dataType)
    misfit = literal(f"does not fit the schema with id {number}, which it names")
    empty = " AND ".join(f"_value.`{name}` IS NULL" for name, _ in schema[1])
    return RawFrame(read.selectExpr("*", f"CASE WHEN {empty} THEN {misfit} END AS {UNREADABLE}").drop(WIRE), schema, text, paths=raw.paths)


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
    """Return rows whose KEY is JSON where it was in wire format, and null if its schema is unknown: the key is only a fallback for the row's own."""
    shown = [as_column("CASE WHEN _key_wire IS NULL THEN _key END")]
    for number in ids:
        try:
            text = schemas(number)
        except (RegistryRefused, SchemaRefused):
            continue
        read = _datum(KEY_WIRE, text)
        value = F.to_json(read) if _is_record(text) else read.cast("string")
        shown.append(F.when(as_column(f"{_id('_key_wire')} = {number}"), value))
    return rows.withColumn(KEY, F.coalesce(*shown)).drop(KEY_WIRE)


def _is_record(text: str) -> bool:
    kind = json.loads(text)
    return isinstance(kind, dict) and kind.get("type") == "record"


def _datum(column: str, text: str) -> Column:
    datum = as_column(f"substring({column}, 6)")
    return from_avro(datum, avro.readable_by_spark(text), {"mode": "PERMISSIVE"})
