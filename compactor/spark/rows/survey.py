"""Surveys: the few aggregations over raw rows that must be known before Changes can be made - writers, Positions, what is unusable.

Each function is one Spark job and gives plain Python values.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.position import Partitions, Position, earliest, latest
from compactor.core.model.spec import TableSpec
from compactor.core.schema import writer
from compactor.core.schema.writer import WriterSchema
from compactor.core.sources.quarantine import LISTED_MAX, TEXT_MAX, Unusable
from compactor.spark.decode.frame import Frame, plain_writer
from compactor.spark.input.files import from_spark
from compactor.spark.rows import position
from compactor.spark.rows.conform import missing_columns
from compactor.spark.sql import literal, named


def writers_of(spark: SparkSession, frame: Frame, key: Sequence[str], schema: WriterSchema | None = None, bare: bool = False) -> list[WriterSchema]:
    """The writers of JSON text: their schema out of the records, or inferred from the values where records carry none.

    `bare`: the records are rows without envelope. Where no connector added columns (`__op`) they are hand-made: a column that some lack was not away.
    A declared `schema` tells the meaning of columns whose records carry none.
    Records whose writer wrote deletes only tell the types of the key, never of other columns: their other values are fillers.
    """
    image = "coalesce(_after, _before)"
    found = (
        frame.rows.where("_writer IS NOT NULL AND _op IS NOT NULL")
        .groupBy("_writer")
        .agg(
            named("first(_schema)", "text"),
            named("max(_op IN ('c', 'u', 'r'))", "rows"),
            named(f"first({image})", "sample"),
        )
        .collect()
    )
    out = []
    for row in sorted(found, key=lambda row: str(row["_writer"])):
        if row.text:
            known = dataclasses.replace(writer.from_connect(row.text), id=row["_writer"])
        else:
            known = _inferred(
                spark,
                frame,
                row["_writer"],
                "_after" if row.rows else "_before",
                list(json.loads(row.sample)) if row.sample else [],
                bare,
            )
            known = writer.declared(known, schema) if schema else known
        if not row.rows and not row.text:
            others = tuple(field.name for field in known.fields if field.name not in key)
            known = dataclasses.replace(
                known, fields=tuple(field for field in known.fields if field.name in key), undecided=(*known.undecided, *others)
            )
        out.append(known)
    return out


def _inferred(spark: SparkSession, frame: Frame, writer_id: str, image: str, names: list[str], bare: bool) -> WriterSchema:
    texts = frame.rows.where(f"_writer = '{writer_id}'").select(image)
    jvm = spark._jvm
    assert jvm is not None
    strings = getattr(texts._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    # not prefersDecimal: it takes text that looks like a number for one
    reader = spark._jsparkSession.read().option("dropFieldIfAllNull", "true")
    struct = T.StructType.fromJson(json.loads(reader.json(strings).schema().json()))
    kinds = {field.name: _number(from_spark(field.dataType)) for field in struct.fields if not field.name.startswith("_corrupt")}
    described = plain_writer(writer_id, ("struct", tuple((name, kinds[name]) for name in names if name in kinds)))
    guessed = bare and not any(name.startswith("__") for name in names)
    fields = tuple(dataclasses.replace(field, inferred=True, guessed=guessed) for field in described.fields)
    return dataclasses.replace(described, fields=fields, undecided=tuple(name for name in names if name not in kinds))


def _number(kind: types.Type) -> types.Type:
    """Fractions in JSON are doubles: that is what JSON's own readers and writers make of them. Whole numbers beyond 64 bits stay exact."""
    if kind[0] == "decimal":
        return ("double",) if kind[2] else ("decimal", 38, 0)
    if kind[0] == "array":
        return ("array", _number(kind[1]))
    if kind[0] == "struct":
        return ("struct", tuple((name, _number(member)) for name, member in kind[1]))
    return kind


@dataclass(frozen=True)
class FileFacts:
    """What one input holds; `bad` records cannot be used."""

    rows: int
    bad: int
    first: Position | None
    last: Position | None


@dataclass(frozen=True)
class SurveyResult:
    """What a frame set holds: per file, per writer, and in all. `partial`: (writer id, source column) of unavailable values."""

    files: dict[str, FileFacts]
    writers: list[tuple[str, Position | None, Position | None]]
    read: int
    ignored: int
    bad: int
    partial: tuple[tuple[str, str], ...]
    unlinked: int
    moves: int
    truncates: int
    truncate: Position | None
    source_time: str | None
    offsets: Partitions = ()

    def without(self, more: Mapping[str, int]) -> SurveyResult:
        """With so many more records of each file that cannot be used."""
        files = {name: dataclasses.replace(summary, bad=summary.bad + more.get(name, 0)) for name, summary in self.files.items()}
        return dataclasses.replace(self, files=files, bad=self.bad + sum(more.values()))


def connector(frames: Sequence[Frame]) -> tuple[str | None, bool]:
    """The connector that wrote most of the rows that name one, and whether every row has a Kafka offset."""
    counts: Counter[str] = Counter()
    offsets = True
    for frame in frames:
        source = "_source.connector" if "connector:" in dict(frame.rows.dtypes)["_source"] else "CAST(NULL AS STRING)"
        rows = frame.rows.where("_op IS NOT NULL").selectExpr(f"{source} AS c", "_offset IS NOT NULL AS o")
        for row in rows.groupBy("c").agg(named("count(1)", "n"), named("min(o)", "o")).collect():
            offsets = offsets and row.o
            if row.c is not None:
                counts[row.c] += row.n
    # of equally many the first by name, on every machine
    return max(sorted(counts), key=lambda name: counts[name], default=None), offsets


def numbers(frames: Sequence[Frame], values: Sequence[str]) -> tuple[int, int]:
    """How many rows have a value (SQL for text, for each frame), and how many of these write a whole number of at most 18 digits."""
    told, digits = 0, 0
    for frame, value in zip(frames, values):
        rows = frame.rows.where(f"_op IS NOT NULL AND _bad IS NULL AND ({value}) IS NOT NULL")
        row = rows.agg(named("count(1)", "n"), named(f"count_if(({value}) RLIKE '^-?[0-9]{{1,18}}$')", "d")).collect()[0]
        told, digits = told + row.n, digits + row.d
    return told, digits


def counted(frames: Sequence[Frame], spec: TableSpec) -> SurveyResult:
    """Everything about rows with Positions. Raises InputRefused, naming file and row, for a change that a table without key cannot take."""
    rows = [row for frame in frames for row in _grouped(frame, spec).collect()]
    for row in rows:
        if row.lost is not None:
            raise InputRefused(
                f"table {spec.name}: {spec.landing}/{row.lost.f}, record {row.lost.r + 1}: changes or deletes a row of a table without a key "
                f"(op {row.lost.op}) and has no before image. Nothing was absorbed. Say `key:`, or have the source send before images."
            )
    by_file: dict[str, list[object]] = {}
    for row in rows:
        by_file.setdefault(row["_file"], []).append(row)
    files = {name: _file_facts(group) for name, group in by_file.items()}
    bounds: dict[str, tuple[Position | None, Position | None]] = {}
    for row in rows:
        if row.images:
            first, last = bounds.get(row["_writer"], (None, None))
            bounds[row["_writer"]] = (
                earliest([first, position.from_row(row.first)]),
                latest([last, position.from_row(row.last)]),
            )
    offsets: dict[int, int] = {}
    for row in rows:
        if row["_partition"] is not None and row["offset"] is not None:
            offsets[row["_partition"]] = max(row["offset"], offsets.get(row["_partition"], row["offset"]))
    times = [row.time for row in rows if row.time is not None]
    return SurveyResult(
        files,
        [(name, *ends) for name, ends in bounds.items()],
        sum(row.n for row in rows),
        sum(row.ignored for row in rows),
        sum(row.bad for row in rows),
        tuple({(row["_writer"], name) for row in rows for name in row.partial or ()}),
        sum(row.unlinked for row in rows),
        sum(row.moves for row in rows),
        sum(row.truncates for row in rows),
        latest([position.from_row(row.truncate) for row in rows]),
        _iso(max(times)) if times else None,
        tuple(sorted(offsets.items())),
    )


def _grouped(frame: Frame, spec: TableSpec) -> DataFrame:
    missing = missing_columns(frame) if spec.key else []
    partial = " OR ".join(test for _, test in missing) or "false"
    names = ", ".join(f"CASE WHEN max(_op IN ('c', 'u', 'r') AND {test}) THEN {literal(name)} END" for name, test in missing)
    lost = "_op IN ('u', 'd') AND _before IS NULL" if not spec.key else "false"
    return frame.rows.groupBy("_file", "_writer", "_partition").agg(
        named("count(1)", "n"),
        named("count_if(_op IS NULL AND _bad IS NULL)", "ignored"),
        named("count_if(_bad IS NOT NULL)", "bad"),
        named("min(CASE WHEN _op <> 't' THEN _position END)", "first"),
        named("max(CASE WHEN _op <> 't' THEN _position END)", "last"),
        named("max(_op IN ('c', 'u', 'r', 'd'))", "images"),
        named(f"array_compact(array({names}))" if missing else "CAST(NULL AS ARRAY<STRING>)", "partial"),
        named(f"count_if(_op = 'c' AND _oldkey IS NULL AND ({partial}))", "unlinked"),
        named("count_if(_oldkey IS NOT NULL AND _op IN ('c', 'u'))", "moves"),
        named("count_if(_op = 't')", "truncates"),
        named("max(CASE WHEN _op = 't' THEN _position END)", "truncate"),
        named(f"min(CASE WHEN {lost} THEN named_struct('f', _file, 'b', _block, 'r', _row, 'op', _op) END)", "lost"),
        named("max(_time)", "time"),
        named("max(CASE WHEN _op IS NOT NULL THEN _offset END)", "offset"),
    )


def _file_facts(group: list) -> FileFacts:  # type: ignore[type-arg]
    first, last = (
        earliest([position.from_row(row.first) for row in group]),
        latest([position.from_row(row.last) for row in group]),
    )
    return FileFacts(sum(row.n for row in group), sum(row.bad for row in group), first, last)


def unusable(rows: DataFrame, why: str, text: str) -> list[Unusable]:
    """The first of these rows as what is wrong with them: `why` and `text` are SQL."""
    found = (
        rows.selectExpr("_file", "_block", "_row", f"{why} AS why", f"substr({text}, 1, {TEXT_MAX}) AS text")
        .orderBy("_file", "_block", "_row")
        .limit(LISTED_MAX)
        .collect()
    )
    return [Unusable(row["_file"], row.why, row["_row"] + 1, row["_block"], row.text or "") for row in found]


def _iso(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
