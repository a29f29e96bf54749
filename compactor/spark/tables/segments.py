"""Segments: choose the key ranges of a base, bring the rows of each range into one task, and write each as a directory.

The ranges are chosen from a sample of the keys before the rows are resolved. So the rows are exchanged once, by range, and sorted once, by key:
resolving and writing need the same order, unless `cluster_by:` asks for another one of the files. To let Spark choose the ranges while it writes
(`repartitionByRange`), the resolved rows would have to be computed twice or kept, and exchanged and sorted once more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Optional

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.files import Segment
from compactor.core.model.layout import join
from compactor.core.model.position import Span
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.schema.clustering import of_segments
from compactor.ports import Storage
from compactor.spark.columns import SEGMENT
from compactor.spark.keys import key_columns_text, key_struct, key_types, range_index
from compactor.spark.measured import Pass
from compactor.spark.rows import position
from compactor.spark.sql import literal, named, quoted
from compactor.spark.tables import table_writer

Bound = Optional["tuple[str, ...]"]
"""A bound of a key range, as `keys.key_text` writes keys. None is open."""
Range = tuple[Bound, Bound, int]
"""(low, high, number of Segments to write) of a key range."""
_SAMPLED = 100
"""Keys that are sampled for each Segment."""
_TRIES = 400
"""Names that are tried for a Segment until Spark's hash sends it to a task of its own. Without one it shares a task."""


_NAMES: dict[int, tuple[str, ...]] = {1: ("0-00000",)}
"""Number of Segments → their names."""


@dataclass(frozen=True)
class Placement:
    """The key ranges of the Segments to write, in key order. Every row is in one of them, but they need not touch."""

    ranges: tuple[tuple[Bound, Bound], ...]
    """(low, high) of each."""

    def names(self, spark: SparkSession) -> tuple[str, ...]:
        """Return the name of each Segment: `N-00017`, where N only serves to spread the Segments over tasks."""
        count = len(self.ranges)
        if count not in _NAMES:
            # names that Spark's hash sends to a task each; its optimizer computes them, without a job
            tried = f"transform(sequence(0, {_TRIES - 1}), _salt -> format_string('%d-%05d', _salt, _at))"
            chosen = f"coalesce(get(filter({tried}, _name -> pmod(hash(_name), {count}) = _at), 0), format_string('0-%05d', _at))"
            (row,) = spark.sql(f"SELECT transform(sequence(0, {count - 1}), _at -> {chosen}) AS names FROM VALUES (1) AS _one(_x)").collect()
            _NAMES[count] = tuple(row.names)
        return _NAMES[count]

    @property
    def hint(self) -> str:
        """SQL after SELECT: brings each Segment into one task. One Segment alone needs no exchange."""
        count = len(self.ranges)
        return f"/*+ REPARTITION({count}, {SEGMENT}) */ " if count > 1 else "/*+ COALESCE(1) */ "

    def segment(self, spark: SparkSession, schema: Schema) -> str:
        """SQL: the name of the Segment of a row, as SEGMENT. Empty for one Segment alone: its rows are in one partition."""
        if len(self.ranges) == 1:
            return ""
        texts = ", ".join(map(literal, self.names(spark)))
        return f"get(array({texts}), {range_index([high for _, high in self.ranges], schema)}) AS {SEGMENT}"

    def place(self, rows: DataFrame, schema: Schema) -> DataFrame:
        """Return the rows with SEGMENT, each Segment in one task."""
        segment = self.segment(rows.sparkSession, schema)
        return rows.selectExpr("*", segment).repartition(len(self.ranges), SEGMENT) if segment else rows.coalesce(1)


ONE = Placement(((None, None),))
"""All rows in one Segment."""


def placement(rows: DataFrame, schema: Schema, ranges: Sequence[Range], about: int) -> Placement:
    """Choose the ranges of about equally many rows. One Spark job over the keys, none if no range is divided.

    `ranges` are in key order, and every row is in one of them. `about` is the approximate number of rows.
    """
    bounds = _sampled(rows, schema, ranges, about) if any(count > 1 for _, _, count in ranges) else {}
    out: list[tuple[Bound, Bound]] = []
    for at, (low, high, _) in enumerate(ranges):
        edges = [low, *(bound for bound in bounds.get(at, ()) if bound != low), high]
        out += zip(edges, edges[1:])
    return Placement(tuple(out))


def _sampled(rows: DataFrame, schema: Schema, ranges: Sequence[Range], about: int) -> dict[int, list[tuple[str, ...]]]:
    """Return the keys that divide each range into its number of parts, by the place of the range."""
    counts = [count for _, _, count in ranges]
    share = min(1.0, _SAMPLED * sum(counts) / max(about, 1))
    keys = rows.select(*[quoted(name) for name in schema.key]).where(f"rand(0) < {share}")
    parts = f"get(array({', '.join(map(str, counts))}), __range)"
    in_range = f"{range_index([high for _, high, _ in ranges], schema)} AS __range"
    divided = keys.selectExpr(in_range, f"{key_struct(schema)} AS __key").where(f"{parts} > 1")
    sampled = divided.groupBy("__range").agg(named("sort_array(collect_list(__key))", "__keys"))
    # keys that many rows have may be chosen twice
    chosen = f"array_distinct(transform(sequence(1, {parts} - 1), _i -> __keys[CAST(_i * size(__keys) div {parts} AS INT)]))"
    texts = f"transform({chosen}, _k -> {key_columns_text('_k', schema.key, key_types(schema))})"
    return {row[0]: [tuple(json.loads(text)) for text in row[1]] for row in sampled.selectExpr("__range", texts).collect()}


def form_of(
    spec: TableSpec, schema: Schema, order: position.Order, partial: Sequence[str], tombstones: bool = True, in_order: bool = False
) -> table_writer.Form:
    """Return what the files of Segments are like."""
    return table_writer.Form(schema, order, of_segments(spec, schema), partial, compaction.stored_defaults(spec, schema), tombstones, in_order)


def write(
    storage: Storage, rows: DataFrame, form: table_writer.Form, spec: TableSpec, commit: str, placed: Placement, through: int, span: Span
) -> tuple[list[Segment], Pass]:
    """Write placed rows as Segments that cover the key ranges without gaps, and check what was written. Returns the pass too.

    `through` is the version up to which the Delta is compacted into these Segments. `span`: Positions that no row is below and above.

    Raises CheckFailed if other rows are in the files than were written.
    """
    directory = spec.layout.base(commit)
    names = [f"{SEGMENT}={name}" for name in placed.names(rows.sparkSession)]
    several = len(names) > 1
    made, done = table_writer.write(storage, rows, form, directory if several else join(directory, names[0]), spec.name, by_segment=several)
    made = made if several else {f"{names[0]}{part}": each for part, each in made.items()}
    ranges = _without_empty(names, placed, made)
    return [_segment(commit, name, made[name], low, high, through, form, span) for name, (low, high) in ranges.items()], done


def _without_empty(names: Sequence[str], placed: Placement, made: Collection[str]) -> dict[str, tuple[Bound, Bound]]:
    """Return the ranges of the Segments that have rows, by name. A range without rows goes to its neighbour."""
    runs: list[list[tuple[str, Bound, Bound]]] = []
    for name, (low, high) in zip(names, placed.ranges):
        if not runs or runs[-1][-1][2] != low or low is None:
            runs.append([])
        runs[-1].append((name, low, high))
    out: dict[str, tuple[Bound, Bound]] = {}
    for run in runs:
        filled = [each for each in run if each[0] in made]
        lows = [run[0][1], *(low for _, low, _ in filled[1:])]
        out.update((name, (low, high)) for (name, _, _), low, high in zip(filled, lows, [*lows[1:], run[-1][2]]))
    return out


def _segment(
    commit: str, name: str, made: table_writer.Written, low: Bound, high: Bound, through: int, form: table_writer.Form, span: Span
) -> Segment:
    return Segment(
        id=f"{commit}.{name.partition('=')[2]}",
        path=join("base", commit, name),
        rows=made.rows,
        tombstones=made.tombstones,
        files=made.files,
        low=low,
        high=high,
        position_min=span[0],
        position_max=span[1],
        compacted_through=through,
        unavailable_columns=made.unavailable_columns,
        sorted_by=form.layout.columns,
        defaults=tuple(form.filled),
    )


def ranges_of(snapshot: Snapshot, chosen: Sequence[int], spec: TableSpec) -> list[Range]:
    """Return the key ranges to rewrite, in key order, for the Segments at these places of a Snapshot.

    Neighbours are one range, which is divided anew. Where it needs as many Segments as it has, and these are of about the same size, each is kept.
    """
    # neighbours are as far from their places in the list
    runs = [[at for _, at in run] for _, run in groupby(enumerate(chosen), lambda each: each[1] - each[0])]
    ranges: list[Range] = []
    for run in runs:
        segments = [snapshot.segments[at] for at in run]
        size = sum(segment.size for segment in segments)
        count = compaction.segment_count(size + (snapshot.delta.size // len(runs) if snapshot.delta else 0), snapshot.size, spec)
        if count == len(run) and all(size < 2 * count * segment.size < 3 * size for segment in segments):
            ranges += [(segment.low, segment.high, 1) for segment in segments]
        else:
            ranges.append((segments[0].low, segments[-1].high, count))
    return ranges
