"""Surveys: the aggregations over decoded rows whose results the driver needs before it can make Changes: how many records, and which Positions.

Also what reports say of records that cannot be used, and Changes without those that turn out to be invalid as Changes (`without_invalid`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from compactor.core.model import times
from compactor.core.model.errors import InputRefused
from compactor.core.model.inputs import Brought, path_of
from compactor.core.model.position import Partitions, Position, earliest, latest
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.sources.increment import repaired_table, shard_of
from compactor.core.sources.quarantine import LISTED_MAX, TEXT_MAX, Unusable
from compactor.core.sources.whole_hours import brought_by_stream
from compactor.spark import measured
from compactor.spark.columns import BLOCK, FILE, INVALID, LEFT_OUT, OP, PARTITION, POSITION, ROW, SOURCE, TEXT, WRITER
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import FIRST_COMMIT
from compactor.spark.input.inputs import Inputs
from compactor.spark.rows import position
from compactor.spark.rows.conform import missing_columns
from compactor.spark.rows.position import record_place
from compactor.spark.sql import BY_HASH, literal, named, query, quoted, unless, with_cited


@dataclass(frozen=True)
class FileCounts:
    """The records of one input."""

    rows: int
    """All records."""
    invalid: int
    """Records that go to quarantine."""
    first: Position | None
    """The smallest Position of a change."""
    last: Position | None
    """The greatest Position of a change."""


@dataclass(frozen=True)
class SurveyResult:
    """The records of all frames of a batch."""

    files: dict[str, FileCounts]
    """By input path."""
    writers: list[tuple[str, Position | None, Position | None, bool]]
    """(id, first and last Position of a row, whether some row was no delete) of each writer that wrote rows."""
    read: int
    """All records."""
    ignored: int
    """Records without a row of this table."""
    invalid: int
    """Records that go to quarantine."""
    unavailable_columns: tuple[tuple[str, str], ...]
    """(writer id, source column) of columns with unavailable values."""
    unlinked: int
    """Creates with unavailable values. Each may be half of a key change, also where a header links it: the header may name no key of the table."""
    inserts: int
    """Creates, and reads of snapshots."""
    deletes: int
    truncates: int
    """Truncates."""
    truncate: Position | None
    """The Position of the newest truncate."""
    shard_truncates: tuple[tuple[str, Position], ...]
    """(shard, the Position of its newest truncate)."""
    source_time: str | None
    """The newest commit time at the source, ISO 8601 in UTC."""
    offsets: Partitions = ()
    """(partition, greatest offset) in the table's epoch, where the records have Kafka offsets."""
    least_offsets: Partitions = ()
    """(partition, least offset), likewise, of all epochs."""
    newer_offsets: Partitions = ()
    """(partition, least offset) of the changes that are newer at their source than `since`."""
    streams: tuple[Brought, ...] = ()
    """What each stream brought, without the times of reads of snapshots: they may be ahead of changes that are still to come."""
    snapshot_lsns: frozenset[tuple[str, int]] = frozenset()
    """(input path, LSN) of PostgreSQL's initial snapshots whose rows were read; of several in one file the least and the greatest."""
    first_transactions: frozenset[tuple[str, int]] = frozenset()
    """(input path, transaction, 0 without one) of changes whose connector had seen no commit; of several in one file the least and the greatest."""
    moves: int = 0
    """Changes that name the key that their row had before, counted when the Changes are (`without_invalid`)."""
    left_out: tuple[str, str] | None = None
    """LEFT_OUT of a tombstone, and its input; None without any."""

    def with_invalid(self, more: Mapping[str, int]) -> SurveyResult:
        """Return the result with more invalid records (input path → number)."""
        files = {name: dataclasses.replace(summary, invalid=summary.invalid + more.get(name, 0)) for name, summary in self.files.items()}
        return dataclasses.replace(self, files=files, invalid=self.invalid + sum(more.values()))


def main_connector(frames: Sequence[Frame]) -> tuple[str | None, bool]:
    """Return the connector that most rows name (None if no row names one), and whether every row has a Kafka offset."""
    counts: Counter[str] = Counter()
    offsets = True
    for frame in frames:
        source = "_source.connector" if "connector:" in dict(frame.rows.dtypes)[SOURCE] else "CAST(NULL AS STRING)"
        rows = frame.rows.where("_op IS NOT NULL").selectExpr(f"{source} AS c", "_offset IS NOT NULL AS o")
        for row in rows.groupBy("c").agg(named("count(1)", "n"), named("min(o)", "o")).collect():
            offsets = offsets and row.o
            if row.c is not None:
                counts[row.c] += row.n
    # of equally frequent ones the first by name, so that the result does not depend on the machine
    return max(sorted(counts), key=lambda name: counts[name], default=None), offsets


def count_records(frames: Sequence[Frame], spec: TableSpec, since: str | None = None, raws: Sequence[DataFrame] = ()) -> SurveyResult:
    """Count the records of frames that have POSITION. `since`: the source time of the table, ISO 8601.

    `raws`: the raw rows that the frames were decoded from (`record_numbers`).

    Raises InputRefused, with file and record, for a change that a keyless table cannot take.
    """
    rows = [row for frame in frames for row in _grouped(frame, spec, since).collect()]
    of = {op: [row for row in rows if row[OP] == op] for op in "crudt"}
    images = [*of["c"], *of["r"], *of["u"]]
    changes = [*images, *of["d"]]
    _check_removals(spec, [row.lost for row in [*of["u"], *of["d"]] if row.lost is not None], raws)
    files, by_file = _by(rows, FILE), _by(changes, FILE)
    upserts = {row[WRITER] for row in images}
    source_times = [row.time for row in rows if row.time is not None]
    later = [row for row in rows if row[OP] not in (None, "r")]
    streamed = [row for row in rows if not repaired_table(path_of(row[FILE]))]
    return SurveyResult(
        {name: FileCounts(_sum(group, "n"), _sum(group, "invalid"), *_bounds(by_file.get(name, ()))) for name, group in files.items()},
        [(name, *_bounds(group), name in upserts) for name, group in _by(changes, WRITER).items()],
        _sum(rows, "n"),
        sum(row.n - row.invalid for row in rows if row[OP] is None),
        _sum(rows, "invalid"),
        tuple({(row[WRITER], name) for row in images for name in row.unavailable_columns or ()}),
        _sum(of["c"], "partial"),
        _sum([*of["c"], *of["r"]], "n"),
        _sum(of["d"], "n"),
        _sum(of["t"], "n"),
        _bounds(of["t"])[1],
        _by_shard(of["t"], spec),
        times.from_micros(max(source_times)) if source_times else None,
        _by_partition(rows, "offset", max),
        _by_partition(rows, "least", min),
        _by_partition(rows, "newer", min),
        brought_by_stream((path_of(row[FILE]), _partition(row, spec), None if row[OP] == "r" else row.time, row[OP] is not None) for row in streamed),
        frozenset((row[FILE], lsn) for row in of["r"] for lsn in (row.least_start, row.greatest_start) if lsn is not None),
        frozenset((row[FILE], number) for row in later for number in (row.least_start, row.greatest_start) if number is not None),
        left_out=max(((row.left_out, row[FILE]) for row in rows if row.left_out is not None), default=None),
    )


def _by(rows: Iterable[Any], column: str) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return groups


def _sum(rows: Iterable[Any], column: str) -> int:
    return sum(row[column] for row in rows)


def _bounds(rows: Iterable[Any]) -> tuple[Position | None, Position | None]:
    """Return the smallest and the greatest Position of surveyed rows."""
    ends = [(position.from_row(row.first), position.from_row(row.last)) for row in rows]
    return earliest([first for first, _ in ends]), latest([last for _, last in ends])


def _check_removals(spec: TableSpec, lost: Sequence[Any], raws: Sequence[DataFrame]) -> None:
    """Raise InputRefused for changes of a keyless table that name no row. `lost`: their places."""
    if lost:
        first = min(lost)
        place = (first.f, first.b, first.r)
        record = record_numbers([place], raws)[place]
        raise InputRefused(
            f"table {spec.name}: {spec.landing}/{path_of(first.f)}, record {record}: the record changes or deletes "
            f"a row (op {first.op}) of a table without a key, and has no before image. Nothing was ingested. Set `key:`, or have the source "
            "send before images."
        )


def _by_shard(truncates: Sequence[Any], spec: TableSpec) -> tuple[tuple[str, Position], ...]:
    """Return (shard, its newest truncate) of the shards that have one."""
    bounds: dict[str, list[Any]] = {}
    for row in truncates if spec.shard and spec.truncate == "apply" else ():
        bounds.setdefault(shard_of(spec.pattern, path_of(row[FILE])), []).append(row)
    newest = ((shard, _bounds(group)[1]) for shard, group in sorted(bounds.items()))
    return tuple((shard, bound) for shard, bound in newest if bound is not None)


def _partition(row: Any, spec: TableSpec) -> int | str | None:
    """Return the Kafka partition of records, with their shard: each shard counts its own."""
    return f"{shard_of(spec.pattern, path_of(row[FILE]))}/{row[PARTITION]}" if spec.shard and row[PARTITION] is not None else row[PARTITION]


def _by_partition(rows: Sequence[Any], column: str, choose: Callable[[list[int]], int]) -> Partitions:
    """Return (partition, the chosen one of the offsets in a column of its rows)."""
    offsets: dict[int, list[int]] = {}
    for row in rows:
        if row[PARTITION] is not None and row[column] is not None:
            offsets.setdefault(row[PARTITION], []).append(row[column])
    return tuple(sorted((partition, choose(each)) for partition, each in offsets.items()))


def _grouped(frame: Frame, spec: TableSpec, since: str | None) -> DataFrame:
    """Return one row for each file, writer, Kafka partition and operation, with the counts and bounds that `count_records` adds up."""
    missing = missing_columns(frame) if spec.key else []
    partial = " OR ".join(test for _, test in missing) or "false"
    names = ", ".join(f"CASE WHEN max({test}) THEN {literal(name)} END" for name, test in missing)
    lost = "CASE WHEN _before IS NULL THEN named_struct('f', _file, 'b', _block, 'r', _row, 'op', _op) END"
    kinds = dict(frame.rows.dtypes)
    has_lsn = "sequence:" in kinds[SOURCE] and "o1:bigint" in kinds[POSITION]
    number = "CASE WHEN _op = 'r' THEN _position.o1 ELSE coalesce(try_cast(_source.txId AS BIGINT), 0L) END"
    start = f"CASE WHEN {FIRST_COMMIT} THEN {number} END" if has_lsn else "CAST(NULL AS BIGINT)"
    newer = f"_time > {unless('_time IS NULL', times.to_micros(since)) if since else 'NULL'}"
    current = f"_op IS NOT NULL AND _position.epoch = {spec.epoch}"
    text = f"""
SELECT _file, _writer, _partition, _op,
  count(1) AS n,
  count(_invalid) AS invalid,
  min(_position) AS first,
  max(_position) AS last,
  {f"array_compact(array({names}))" if missing else "CAST(NULL AS ARRAY<STRING>)"} AS unavailable_columns,
  count_if({partial}) AS partial,
  {"CAST(NULL AS STRING)" if spec.key else f"min({lost})"} AS lost,
  max(_time) AS time,
  max(CASE WHEN {current} THEN _offset END) AS offset,
  min(CASE WHEN _op IS NOT NULL THEN _offset END) AS least,
  min(CASE WHEN {current} AND {newer} THEN _offset END) AS newer,
  min({start}) AS least_start,
  max({start}) AS greatest_start,
  {f"max({LEFT_OUT})" if LEFT_OUT in kinds else "CAST(NULL AS STRING)"} AS left_out,
  {BY_HASH} AS _by_hash
FROM {{records}}
GROUP BY _file, _writer, _partition, _op"""
    return query("survey", text, records=frame.rows)


HIDDEN = "(not shown: the table has `columns` or `archive_kms_key`)"
"""What stands for a record where reports may not quote it."""


def list_unusable(rows: DataFrame, why: str, text: str, raws: Sequence[DataFrame], spec: TableSpec) -> list[Unusable]:
    """Return the first of these rows as entries of the quarantine. `why` (the reason) and `text` (the record) are SQL.

    `raws`: the raw rows that these were decoded from, whose text is preferred to `text`.
    """
    quotes = spec.quotes_records
    text = text if quotes else literal(HIDDEN)
    shown = rows.selectExpr(FILE, BLOCK, ROW, f"{why} AS why", f"substr({text}, 1, {TEXT_MAX}) AS text")
    listed = shown.orderBy(FILE, BLOCK, ROW).limit(LISTED_MAX).collect()
    places = [row[:3] for row in listed]
    numbers, texts = record_numbers(places, raws), record_texts(places, raws if quotes else ())
    return [Unusable(row[FILE], with_cited(row.why, quotes), numbers[row[:3]], texts.get(row[:3]) or row.text or "") for row in listed]


def record_texts(places: Collection[tuple[str, int, int]], raws: Sequence[DataFrame]) -> dict[tuple[str, int, int], str]:
    """Return the beginning of each record (FILE, BLOCK, ROW) as its file has it, for text formats."""
    chosen = ", ".join(literal("\n".join(map(str, place))) for place in sorted({*places}))
    texts = {}
    for raw in raws if places else ():
        if TEXT in raw.columns:
            rows = raw.where(f"concat_ws('\n', _file, _block, _row) IN ({chosen})")
            rows = rows.selectExpr(FILE, BLOCK, ROW, f"substr(_text, 1, {TEXT_MAX}) AS text")
            texts.update({row[:3]: row.text or "" for row in rows.collect()})
    return texts


def record_numbers(places: Collection[tuple[str, int, int]], raws: Sequence[DataFrame]) -> dict[tuple[str, int, int], int]:
    """Return the number of each record (FILE, BLOCK, ROW) in its file, from 1.

    ROW orders the records of a block, but it begins anywhere: Spark reads several small files in one task. The raw rows of a block show where it
    begins, and how many records the blocks before it have. Files that are not in `raws` have one block, which begins at 0 (Parquet).
    """
    blocks: dict[str, list[tuple[int, int, int]]] = {}
    paths = ", ".join(literal(path) for path in sorted({path for path, _, _ in places}))
    for raw in raws if places else ():
        counted = raw.where(f"_file IN ({paths})").groupBy(FILE, BLOCK).agg(named("min(_row)", "first"), named("count(1)", "n"))
        for row in counted.collect():
            blocks.setdefault(row[FILE], []).append((row[BLOCK], row.first, row.n))
    numbers = {}
    for path, block, at in places:
        first = next((first for start, first, _ in blocks.get(path, ()) if start == block), 0)
        earlier = sum(count for start, _, count in blocks.get(path, ()) if start < block)
        numbers[path, block, at] = earlier + at - first + 1
    return numbers


def unusable_records(frame: Frame, opened: Inputs) -> list[Unusable]:
    """Return the invalid records of a frame, with the text that reports quote."""
    text = TEXT if TEXT in frame.rows.columns else "to_json(struct(_after AS after, _before AS before))"
    return list_unusable(frame.rows.where("_invalid IS NOT NULL"), INVALID, text, opened.raws, opened.spec)


def without_invalid(opened: Inputs, changes: DataFrame, schema: Schema, kept: bool) -> tuple[DataFrame, dict[str, int], tuple[Unusable, ...], int]:
    """Separate the changes that cannot be used. One Spark job if there are none.

    `kept`: the changes are computed once. Otherwise the job reads what it judges by, the keys and the columns that can have another type, and
    whoever uses the changes reads the files again.

    Returns those with a key and values of their types, the number of others by file, the first others, and the number of all changes whose old
    key is known.
    """
    keyless = f"(_op <> 't' AND ({' OR '.join(f'{quoted(name)} IS NULL' for name in schema.key)}))"
    invalid = f"(_mistyped IS NOT NULL OR {keyless})"
    counted = {"invalid": f"count_if({invalid})", "moves": "count_if(_from IS NOT NULL)"}
    if not kept:
        numbers = measured.compute(changes, counted)
        if not numbers["invalid"]:
            return changes, {}, (), numbers["moves"]
    changes, numbers = measured.materialize_and_measure(changes, counted)
    if not numbers["invalid"]:
        return changes, {}, (), numbers["moves"]
    rows = changes.where(invalid).selectExpr("*", *record_place(opened.spec))
    counts = {row[FILE]: row["count"] for row in rows.groupBy(FILE).count().collect()}
    kinds = ", ".join(f"{literal(field.name)}, {literal(field.type)}" for field in schema.fields)
    nulls = ", ".join(f"CASE WHEN {quoted(name)} IS NULL THEN {literal(name)} END" for name in schema.key)
    no_key = f"concat('a column of the key (', concat_ws(', ', {nulls}), ') is null or cannot be read as its type')"
    why = (
        f"CASE WHEN {keyless} THEN {no_key} ELSE concat('the value of ', _mistyped, ' is not of type ', try_element_at(map({kinds}), _mistyped)) END"
    )
    listed = list_unusable(rows, why, "to_json(struct(*))", opened.raws, opened.spec)
    return changes.where(f"NOT {invalid}"), counts, tuple(listed), numbers["moves"]
