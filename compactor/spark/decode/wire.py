"""Confluent's wire format inside Kafka records: a zero byte, the schema's id (4 bytes, big-endian), then the Avro datum.

(docs.confluent.io, "Wire format".) The registry turns ids into writers' schemas; a file may hold records of many. Each schema's records become
a frame of their own, as if they had come in an Avro file; the rest (JSON, tombstones) stay one frame of text.

Where records stand in JSON, bytes come as base64 text, as `{"b64": "..."}`, or, where they happen to be UTF-8, as that text.

Rules:
- a record whose id the registry does not know, or whose datum does not fit that schema, goes to quarantine with the id named.
- without `registry:` all such records do, and the reason says what to add.
- Apicurio may put the id into a header instead, in 8 bytes, with the bare datum as value. `contentId` is what Confluent's API calls
  an id, so where headers are bytes it is brought into Confluent's form. Other forms (`globalId`, a header that is text by now, 8 bytes of id before
  the datum) name no id that could be trusted: they go to quarantine, and the reason names the settings that write Confluent's form.
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
from compactor.spark.input.files import RawFrame, from_spark
from compactor.spark.sql import literal

Schemas = Optional[Callable[[int], str]]
"""Id → self-contained schema text. Raises RegistryRefused for an unknown id, SchemaRefused for one that is not Avro, Unavailable."""

Hold = Callable[[DataFrame], DataFrame]
"""Rows computed once and kept while the batch lasts."""

_MAGIC = "X'00'"
_CONTENT, _GLOBAL = "apicurio.{0}.contentId", "apicurio.{0}.globalId"
_SETTINGS = "set apicurio.registry.headers.enabled=false and apicurio.registry.as-confluent=true in its converter"
_BASE64 = "^AA[A-Za-z0-9+/]{5,}={0,2}$"
"""Text that begins with a zero byte when it is decoded. No JSON begins with an A."""


def of_text(text: str) -> str:
    """SQL: the bytes in wire format that a JSON string stands for, else null."""
    inside, itself = _base64(f"get_json_object({text}, '$.b64')"), f"CAST({text} AS BINARY)"
    return (
        f"CASE WHEN {text} LIKE '{{\"b64\":%' THEN {of_bytes(inside)} WHEN {text} RLIKE '{_BASE64}' THEN {of_bytes(_base64(text))} "
        f"ELSE {of_bytes(itself)} END"
    )


def _base64(text: str) -> str:
    return f"try_to_binary({text}, 'base64')"


def of_bytes(value: str) -> str:
    """SQL: the bytes when they are in wire format, else null."""
    return f"CASE WHEN substring({value}, 1, 1) = {_MAGIC} AND length({value}) > 4 THEN {value} END"


def of_headers(side: str, value: str, header: Callable[[str], str]) -> str:
    """SQL: `of_bytes`, or what Apicurio's header makes of the bytes; `side` is value or key, `header` gives SQL for the bytes of one."""
    number = header(_CONTENT.format(side))
    told = f"length({number}) = 8 AND substring({number}, 1, 4) = X'00000000' AND {value} IS NOT NULL"
    return f"CASE WHEN {told} THEN concat({_MAGIC}, substring({number}, 5, 4), {value}) ELSE {of_bytes(value)} END"


def unreadable(text: str, wired: str, named: Callable[[str], str]) -> str:
    """SQL: why a record of Apicurio's is not read, or null; `named` gives SQL that tells whether there is a header of a name."""
    form = f"{wired} IS NULL AND {text} IS NOT NULL AND NOT startswith({text}, '{{')"
    names = (_CONTENT.format("value"), _GLOBAL.format("value"))
    cases = " ".join(f"WHEN {form} AND {named(name)} THEN {literal(_told(f'the header {name}'))}" for name in names)
    wide = f"WHEN {_id(wired)} = 0 AND length({wired}) > 8 THEN {literal(_told('8 bytes before the datum'))}"
    return f"CASE {cases} {wide} END"


def _told(where: str) -> str:
    return f"is Avro as Apicurio writes it, with the schema's id in {where}: {_SETTINGS}"


def _id(column: str) -> str:
    # an id of 2^31 and more would be negative; Confluent counts from 1
    return f"CAST(conv(hex(substring({column}, 2, 4)), 16, 10) AS BIGINT)"


def opened(raw: RawFrame, schemas: Schemas, hold: Hold) -> list[RawFrame]:
    """A frame with `_text`, `_unreadable`, `_wire` and `_key_wire` (bytes or null) as frames of one schema each. With a registry one job: the ids.

    Where there are several, files are read and records taken apart once for all. (Spark's optimizer takes minutes for what a dozen would repeat.)
    """
    rows = raw.rows.withColumn("_wire", F.expr("CASE WHEN _unreadable IS NULL THEN _wire END"))
    if schemas is None:
        told = f"concat('names a schema by id (', {_id('_wire')}, '): say `registry:`, and what lies in quarantine can be replayed')"
        broken = F.expr(f"coalesce(_unreadable, CASE WHEN _wire IS NOT NULL THEN {told} END)")
        return [dataclasses.replace(raw, rows=rows.withColumn("_unreadable", broken).drop("_wire", "_key_wire"))]
    ids = [(row.v, row.k) for row in rows.selectExpr(f"{_id('_wire')} AS v", f"{_id('_key_wire')} AS k").distinct().collect()]
    found = {value for value, _ in ids}
    rows = _with_keys(rows, sorted({key for _, key in ids if key is not None}), schemas)
    rows = hold(rows) if len(found) > 1 else rows
    frames = []
    if None in found or not found:
        frames.append(dataclasses.replace(raw, rows=rows.where("_wire IS NULL").drop("_wire")))
    for number in sorted(value for value in found if value is not None):
        frames.append(_of_schema(raw, rows.where(f"{_id('_wire')} = {number}"), number, schemas))
    return frames


def _of_schema(raw: RawFrame, rows: DataFrame, number: int, schemas: Callable[[int], str]) -> RawFrame:
    text, problem = _schema(number, schemas)
    if text is None:
        told = literal(f"names a schema by id ({number}){problem}")
        shown = ["base64(_wire) AS _text" if name == "_text" else name for name in rows.columns if name not in ("_wire", "_unreadable")]
        return dataclasses.replace(raw, rows=rows.selectExpr(*shown, f"{told} AS _unreadable"))
    read = rows.drop("_text", "_unreadable").withColumn("_value", _datum("_wire", text))
    schema = from_spark(read.schema["_value"].dataType)
    misfit = literal(f"does not fit the schema with id {number}, which it names")
    empty = " AND ".join(f"_value.`{name}` IS NULL" for name, _ in schema[1])
    return RawFrame(read.selectExpr("*", f"CASE WHEN {empty} THEN {misfit} END AS _unreadable").drop("_wire"), schema, text, paths=raw.paths)


def _schema(number: int, schemas: Callable[[int], str]) -> tuple[str | None, str]:
    """The text of a record's schema, or why there is none."""
    try:
        text = schemas(number)
    except (RegistryRefused, SchemaRefused) as error:
        return None, f", which cannot be used: {error}"
    if not _is_record(text):
        return None, f", which is no record: {text[:80]}"
    return text, ""


def _with_keys(rows: DataFrame, ids: Iterable[int], schemas: Callable[[int], str]) -> DataFrame:
    """`_key` as JSON where it is in wire format; null where its schema is not known: a key is only the fallback of the row's own."""
    shown = [F.expr("CASE WHEN _key_wire IS NULL THEN _key END")]
    for number in ids:
        try:
            text = schemas(number)
        except (RegistryRefused, SchemaRefused):
            continue
        read = _datum("_key_wire", text)
        told = F.to_json(read) if _is_record(text) else read.cast("string")
        shown.append(F.when(F.expr(f"{_id('_key_wire')} = {number}"), told))
    return rows.withColumn("_key", F.coalesce(*shown)).drop("_key_wire")


def _is_record(text: str) -> bool:
    kind = json.loads(text)
    return isinstance(kind, dict) and kind.get("type") == "record"


def _datum(column: str, text: str) -> Column:
    datum = F.expr(f"substring({column}, 6)")
    return from_avro(datum, avro.readable_by_spark(text), {"mode": "PERMISSIVE"})
