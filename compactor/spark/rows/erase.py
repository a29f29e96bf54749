"""Erased keys: which rows, Changes and records have one, and Changes without them.

Of a record of a Kafka topic without a value its key alone says whose row was deleted. Raw files keep it, also where it makes no Change. A key is
text, JSON, or Avro that `input/kafka.py` made JSON. It is read as the key columns of every writer of the batch, as the table's own columns, and as
the value itself. A key that none of these can read is nobody's, and nothing may be erased around it.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, Row, SparkSession

from compactor.core.erasure.keys import check_secret, with_keys
from compactor.core.model import types
from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.inputs import path_of
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary, ErasedRecords
from compactor.core.schema.evolution import Evolved
from compactor.spark import measured
from compactor.spark.columns import BLOCK, FILE, FROM, KEY, LINK_MARK, MOVED, OFFSET, RECORD_KEY, ROW, TEXT, TO, VALUE
from compactor.spark.decode.debezium import wrapped
from compactor.spark.decode.frame import Frame
from compactor.spark.input.files import RawFrame
from compactor.spark.keys import key_columns, key_text, key_types, row_key
from compactor.spark.rows import survey
from compactor.spark.rows.conform import own_key, plain_key, record_key
from compactor.spark.rows.position import event_number, record_place
from compactor.spark.rows.protect import hashing, secret
from compactor.spark.sql import literal
from compactor.spark.sql import named as named_sql

_WHY = "the table has erased keys"


def erased_with(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
    """Return the erased keys of a version and these: a text for each key column. Raises Refused for a text that is no value of its column."""
    kinds = key_types(snapshot.schema)
    # rows and not literals: one job for all keys, and no key is in a plan that Spark shows or logs
    given = spark.createDataFrame([(json.dumps(list(key)),) for key in keys], "key STRING")
    texts = [row.text for row in given.selectExpr(f"{key_text(key_columns('key', kinds), kinds)} AS text").collect()]
    for key, text in zip(keys, texts):
        if len(key) != len(kinds) or None in json.loads(text):
            columns = ", ".join(f"{name} ({kind})" for name, kind in zip(snapshot.schema.key, kinds))
            raise Refused(f"table {spec.name}: expected a value for each column of the key, {columns}, found {', '.join(key)}. Nothing was erased.")
    return with_keys(snapshot.erased, texts, secret(spec, _WHY), spec.name)


def gone(spark: SparkSession, spec: TableSpec, erased: Erased) -> Callable[[str], str]:
    """Return a function from SQL of a key, as `key_text` writes it, to SQL for this session: whether the key is erased; false for null.

    Raises Refused for a missing or another secret.
    """
    key = secret(spec, _WHY)
    check_secret(erased, key, spec.name)
    hashes, listed = hashing(spark, key), ", ".join(literal(each) for each in erased.keys)
    return lambda text: f"coalesce({hashes(text)} IN ({listed}), false)"


def without_erased(changes: DataFrame, schema: Schema, erased: Erased, spec: TableSpec) -> tuple[DataFrame, int]:
    """Return the Changes of other keys, which name no erased key, and the number of those left out."""
    is_gone = gone(changes.sparkSession, spec, erased)
    own = f"(_op <> 't' AND {is_gone(row_key(schema))})"
    left_out = int(measured.compute(changes, {"n": f"count_if({own})"})["n"])
    emptied = {name: f"CASE WHEN NOT {is_gone(name)} THEN {name} END AS {name}" for name in (FROM, TO)}
    return changes.where(f"NOT {own}").selectExpr(*(emptied.get(name, f"`{name}`") for name in changes.columns)), left_out


def stored_rows(rows: DataFrame, schema: Schema, erased: Erased, spec: TableSpec, naming: Sequence[str] = (MOVED,)) -> tuple[DataFrame, int]:
    """Return the stored rows of other keys, and the number of those left out. `naming`: the columns that name another key.

    Raises Refused if a row's key was changed from or to an erased one, and not both are erased.
    """
    is_gone = gone(rows.sparkSession, spec, erased)
    own = is_gone(row_key(schema))
    moved = " OR ".join(_half_erased(own, name, is_gone) for name in naming)
    numbers = measured.compute(rows, {"n": f"count_if({own})", "moved": f"count_if({moved})"})
    if numbers["moved"]:
        raise _moved(spec.name)
    return rows.where(f"NOT {own}"), int(numbers["n"])


def decides_all(spec: TableSpec) -> TableSpec:
    """Return the spec with which every row in a raw file becomes a Change, those of ignored operations too: as deletes, which need a key only."""
    operations = tuple((code, "d" if meaning == "ignore" else meaning) for code, meaning in spec.op_map)
    return dataclasses.replace(spec.unguarded, truncate="ignore", op_map=operations)


def check_readable(spec: TableSpec, summary: BatchSummary) -> None:
    """Raise InputRefused if the batch has records that cannot be used."""
    invalid = [item for item in summary.inputs if item.reason or item.quarantined]
    if invalid:
        raise InputRefused(
            f"table {spec.name}: {invalid[0].path} in the archive has records that cannot be read, so nobody knows whether they belong to an erased "
            f"key{f' ({invalid[0].reason})' if invalid[0].reason else ''}. Nothing was erased. Repair or remove the file."
        )


def records(
    spec: TableSpec,
    summary: BatchSummary,
    changes: DataFrame,
    raws: Sequence[DataFrame],
    frames: Sequence[DataFrame],
    erased: Erased,
    others: Sequence[tuple[str, int, int]] = (),
) -> dict[str, ErasedRecords]:
    """Return which records of each input of a batch belong to erased keys, and which changes of records that hold others too.

    `raws` and `frames`: the raw and the decoded rows of the batch. `others`: (FILE, BLOCK, ROW) of records that make no Change.
    """
    changes = changes.where("_op <> 't'")
    is_gone = gone(changes.sparkSession, spec, erased)
    own = is_gone(row_key(summary.evolved.schema))
    moved = _half_erased(own, FROM, is_gone)
    columns = (FILE, *record_place(spec), f"{moved} AS moved", f"{event_number(spec)} AS change")
    rows = changes.where(f"{own} OR {moved}").selectExpr(*columns).distinct().collect()
    if any(row.moved for row in rows):
        raise _moved(spec.name)
    numbers = survey.record_numbers([*(row[:3] for row in rows), *others], raws)
    chosen: dict[str, set[int]] = {}
    for (file, _, _), record in numbers.items():
        chosen.setdefault(file, set()).add(record)
    shared = _shared(rows, frames) if spec.source.several_events else set()
    parts: dict[str, set[tuple[int, int]]] = {}
    for row in rows:
        if row[:3] in shared:
            parts.setdefault(row[FILE], set()).add((numbers[row[:3]], row.change))
    totals = {**{item.name: item.rows for item in summary.inputs}, **(_record_counts(raws) if spec.source.several_events else {})}
    return {
        item.path: ErasedRecords(tuple(sorted(chosen.get(item.name, ()))), totals[item.name], tuple(sorted(parts.get(item.name, ()))), item.rows)
        for item in summary.inputs
    }


def _shared(rows: Sequence[Row], frames: Sequence[DataFrame]) -> set[tuple[str, int, int]]:
    """Return (FILE, BLOCK, ROW) of the records with more changes than those in `rows`, of this table or another."""
    mine = Counter(row[:3] for row in rows)
    places = ", ".join(literal("\n".join(map(str, place))) for place in sorted(mine))
    shared = set()
    for frame in frames if mine else ():
        counted = frame.where(f"concat_ws('\n', _file, _block, _row) IN ({places})").groupBy(FILE, BLOCK, ROW).agg(named_sql("count(1)", "n"))
        shared |= {row[:3] for row in counted.collect() if row.n > mine[row[:3]]}
    return shared


def _record_counts(raws: Sequence[DataFrame]) -> dict[str, int]:
    """Return FILE → number of records, of the files in `raws`. Their rows in a frame are changes."""
    return {row[FILE]: row.n for raw in raws for row in raw.groupBy(FILE).agg(named_sql("count(1)", "n")).collect()}


def _half_erased(own: str, name: str, is_gone: Callable[[str], str]) -> str:
    """SQL: whether just one of a row's key (`own`: whether it is erased) and the key that the column `name` has is erased. Links are no keys."""
    return f"({own} <> {is_gone(name)} AND {name} IS NOT NULL AND NOT startswith({name}, '{LINK_MARK}'))"


def _moved(table: str) -> Refused:
    return Refused(
        f"table {table}: the source changed the key of a row from an erased key to another one, or the other way round, so the same "
        "values are stored under both. Nothing was erased. Name both keys."
    )


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
