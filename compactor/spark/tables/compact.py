"""Compaction: the rows of Segments and their share of the Delta, in one query.

Only the keys of the Delta are reduced: its tombstones take over the rows that they hide, and its rows without all values those of the base. All
other rows stay as they are. Where each Segment stays a Segment they keep their order too, without an exchange, and the Delta's share becomes one more
sorted file. Otherwise all rows are exchanged and sorted.

In: the states of base and Delta. Out: the columns of a file, with SEGMENT where several Segments are written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.files import Segment
from compactor.core.model.position import Position, Span, spanned
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import ROW_ID, TableSpec
from compactor.core.planning import compaction
from compactor.core.results.batch import Staged
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import AT, MOVED, OWN, SEGMENT, STATE
from compactor.spark.keys import segment_index
from compactor.spark.measured import Pass
from compactor.spark.rows import keyless, position
from compactor.spark.rows.reduce import Reducer, union
from compactor.spark.sql import listed, query, quoted
from compactor.spark.tables import defaults, segments
from compactor.spark.tables.segments import Placement
from compactor.spark.tables.table_reader import TableReader


@dataclasses.dataclass(frozen=True)
class Compacted:
    """The rows of a compaction, before they are written."""

    rows: DataFrame
    placed: Placement
    span: Span
    """Positions that no row is below and above."""
    in_place: bool
    """Whether the rows are in the order of the files."""


def compacted(spark: SparkSession, by_file: SparkSession, spec: TableSpec, snapshot: Snapshot, targets: Sequence[Segment]) -> Compacted:
    """Return the rows of these Segments and their share of the Delta, placed in Segments over the same key ranges.

    `by_file`: the session in which each file is a task. One Spark job if a key range is divided.
    """
    ids = {segment.id for segment in targets}
    at = [number for number, segment in enumerate(snapshot.segments) if segment.id in ids]
    ranges = segments.ranges_of(snapshot, at, spec)
    in_place = compaction.keeps_files(spec, snapshot, targets) and [count for _, _, count in ranges] == [1] * len(targets)
    stored = TableReader(by_file if in_place else spark, spec.layout, snapshot, snapshot.schema)
    base, delta = stored.rows(targets), stored.delta()
    if delta is not None:
        delta = delta.where(f"{segment_index(snapshot.segments, snapshot.schema)} IN ({', '.join(map(str, at))})")
    states = base if delta is None else union([base, delta])
    placed = segments.placement(states, snapshot.schema, ranges, sum(segment.rows for segment in targets))
    span = spanned([part.span for part in (*targets, *([snapshot.delta] if snapshot.delta else []))])
    return Compacted(merged(base, delta, spec, snapshot, placed, in_place), placed, span, in_place)


def merged(
    base: DataFrame, delta: DataFrame | None, spec: TableSpec, snapshot: Snapshot, placed: Placement | None = None, in_place: bool = False
) -> DataFrame:
    """Return one row for each key of base and Delta. `placed`: each Segment in one task; `in_place`: in the tasks and the order of the base."""
    schema, partial = snapshot.schema, snapshot.unavailable_columns
    columns, keys = listed([*map(quoted, schema.names), *STATE]), ", ".join(map(quoted, schema.key))
    segment = placed.segment(base.sparkSession, schema) if placed else ""
    by_segment, order = placed.hint if placed else "", f"{SEGMENT}, {keys}" if segment else keys
    named = f"{columns}, {segment}" if segment else columns
    if delta is None:
        return query("compact", f"SELECT {'' if in_place else by_segment}{named}\nFROM {{base}}", base=base)
    kept = f"SELECT {named if in_place else columns}\nFROM {{base}} LEFT ANTI JOIN {{delta}} USING ({keys})"
    states, met = f"SELECT {columns}, _origin FROM {{delta}}", base
    if partial or (snapshot.delta and snapshot.delta.tombstones):
        lacking = f"(SELECT {keys} FROM {{delta}}{'' if partial else ' WHERE _gone IS NOT NULL'})"
        met = defaults.without_later(base, spec, schema, partial, snapshot.order)
        states = f"SELECT {columns}, _origin FROM {{met}} LEFT SEMI JOIN {lacking} USING ({keys})\nUNION ALL {states}"
    if spec.in_one_task(snapshot.size):
        states = f"SELECT /*+ COALESCE(1) */ * FROM ({states})"
    reducer = Reducer(schema, snapshot.order, snapshot.version, spec.keyless, partial=() if spec.keyless else partial)
    changed = f"({reducer.query(f'({states})')})"
    if in_place:
        text = f"{kept}\nUNION ALL\n(SELECT {by_segment}{named}\nFROM {changed} SORT BY {order})"
    else:
        text = f"{kept}\nUNION ALL\nSELECT {columns}\nFROM {changed}"
        text = f"SELECT {by_segment}{named}\nFROM ({text})" if placed else text
    return query("compact", text, base=base, delta=delta, met=met)


def write(storage: Storage, made: Compacted, spec: TableSpec, snapshot: Snapshot, commit: str, purge_through: int) -> Staged:
    """Write the rows as Segments, without tombstones of versions ≤ `purge_through`, and check what was written."""
    schema, order, partial = snapshot.schema, snapshot.order, snapshot.unavailable_columns
    keep = compaction.keeps_tombstones(spec, order, snapshot.offsets)
    rows = purged(made.rows, purge_through, schema, keep)
    form = segments.form_of(spec, schema, order, partial, snapshot.tombstones > 0, made.in_place)
    parts, done = segments.write(storage, rows, form, spec, commit, made.placed, snapshot.version, made.span)
    return Staged(None, tuple(parts), {}, purged_to=purged_to(made.rows, purge_through, keep, order, done))


def purged(rows: DataFrame, purge_through: int, schema: Schema, keep: bool) -> DataFrame:
    """Return the rows without tombstones of versions ≤ `purge_through`. With `keep` they stay, without the values of the rows that they hide."""
    if purge_through <= 0:
        return rows
    old = _old_tombstone(purge_through)
    if keep:
        # A removal that waits for its row still needs its values. A key change without values carries none: late ones would take newer ones' place.
        bare = f"({old} AND NOT {keyless.is_waiting()})"
        emptied = {AT, OWN, *schema.values, *([] if schema.key == (ROW_ID,) else [MOVED])}
        columns = [f"CASE WHEN NOT {bare} THEN {quoted(name)} END AS {quoted(name)}" if name in emptied else quoted(name) for name in rows.columns]
        return rows.selectExpr(*columns)
    return measured.observe(rows, "purged", {"last": f"max(CASE WHEN {old} THEN _gone END)"}).where(f"NOT ({old})")


def purged_to(rows: DataFrame, purge_through: int, keep: bool, order: position.Order, done: Pass | None) -> Position | None:
    """Return the greatest Position of the tombstones that `purged` left out. `done` is the pass that wrote the others, if it was one."""
    if purge_through <= 0 or keep:
        return None
    numbers = done.numbers("purged") if done is not None else None
    if numbers is None:
        numbers = measured.compute(rows, {"last": f"max(CASE WHEN {_old_tombstone(purge_through)} THEN _gone END)"})
    return position.from_json(numbers["last"], order)


def _old_tombstone(purge_through: int) -> str:
    return f"(_gone IS NOT NULL AND _version <= {purge_through})"
