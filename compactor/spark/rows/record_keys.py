"""Records of a Kafka topic without a value: their key alone says whose row was deleted. Raw files keep it, also where it makes no Change.

A key is text, JSON, or Avro that `input/wire.py` made JSON. It is read as the key columns of every writer of the batch, as the table's own columns,
and as the value itself. A key that none of these can read is nobody's, and nothing may be erased around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.inputs import path_of
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import Evolved
from compactor.spark.columns import BLOCK, FILE, KEY, OFFSET, RECORD_KEY, ROW, TEXT, VALUE
from compactor.spark.decode.debezium import wrapped
from compactor.spark.decode.frame import Frame
from compactor.spark.input.files import RawFrame
from compactor.spark.keys import key_text, key_types
from compactor.spark.rows.conform import own_key, plain_key, record_key
from compactor.spark.rows.erase import gone


def erased_places(
    spec: TableSpec, evolved: Evolved, unpacked: Sequence[RawFrame], frames: Sequence[Frame], erased: Erased, registry: bool
) -> list[tuple[str, int, int]]:
    """Return (FILE, BLOCK, ROW) of each record without a value whose key is erased. Raises InputRefused for a key that cannot be read.

    `unpacked`: the raw frames, with KEY. `frames`: what they were decoded to. `registry`: whether keys that name a schema were read, or are null.
    """
    readings = _readings(evolved.schema, evolved, frames)
    unread = " AND ".join(f"({reading}) IS NULL" for reading in readings)
    # of a stream of several tables a JSON key with other columns is another table's
    foreign = f"coalesce(startswith(ltrim({RECORD_KEY}), '{{'), false)" if spec.source_table else "false"
    # blank lines have no offset either
    named = f"(trim({KEY}) <> ''{f' OR {OFFSET} IS NOT NULL' if registry else ''})"
    places = []
    for raw in unpacked:
        is_gone = gone(raw.rows.sparkSession, spec, erased)
        own = " OR ".join(f"({is_gone(reading)})" for reading in readings)
        rows = _empty(raw).where(f"{named} AND {raw.unreadable} IS NULL").selectExpr(FILE, BLOCK, ROW, f"{wrapped(KEY)[1]} AS {RECORD_KEY}")
        for row in rows.selectExpr(FILE, BLOCK, ROW, f"{unread} AS unread", f"{own} AS own").where(f"own OR (unread AND NOT {foreign})").collect():
            if row.unread:
                raise _unreadable(spec, evolved.schema, path_of(row[FILE]))
            places.append((row[FILE], row[BLOCK], row[ROW]))
    return places


def _unreadable(spec: TableSpec, schema: Schema, path: str) -> InputRefused:
    return InputRefused(
        f"table {spec.name}: {path} in the archive has records without a value whose key cannot be read, so nobody knows whether they belong to an "
        f"erased key. Nothing was erased. Expected a key with the columns {', '.join(schema.key)} as JSON, or as Avro with `registry:` set. Set "
        "`registry:`, or remove the file."
    )


def _empty(raw: RawFrame) -> DataFrame:
    return raw.rows.where(f"{TEXT} IS NULL OR trim({TEXT}) IN ('', 'null')" if raw.schema is None else f"{VALUE} IS NULL")


def _readings(schema: Schema, evolved: Evolved, frames: Sequence[Frame]) -> list[str]:
    """SQL for each way to read RECORD_KEY: the key as text, or null."""
    fields = [schema.field(name) for name in schema.key]
    kinds = key_types(schema)
    ways = [[record_key(frame, evolved, field, RECORD_KEY) for field in fields] for frame in frames]
    ways.append([own_key(RECORD_KEY, field) for field in fields])
    if len(fields) == 1:
        ways.append([plain_key(RECORD_KEY, types.parse(kinds[0]))])
    readings = []
    for way in ways:
        parts = [part for part in way if part is not None]
        if len(parts) == len(fields):
            there = " AND ".join(f"({part}) IS NOT NULL" for part in parts)
            readings.append(f"CASE WHEN {there} THEN {key_text(parts, kinds)} END")
    return list(dict.fromkeys(readings))
