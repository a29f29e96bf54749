"""Compaction: when a commit writes a new base, and which Segments are worth merging with the Delta.

Cost model: docs/performance.md#the-law. Waiting makes every reader and every commit pay for a larger Delta; compacting rewrites Segments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compactor.core.model import times
from compactor.core.model.files import Delta, Segment
from compactor.core.model.position import KEY, PARTITION, TABLE, Order, Partitions, at_or_below, scope
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.settings.forms import NEVER, hours

DELTA_LIMIT = 8 << 20
"""Bytes of `delta_estimate` up to which readers get a broadcast join. Spark's threshold is 10 MB."""

_MAX_SEGMENTS = 1000
"""The greatest number of Segments of a table. They are registered in bulk and every query lists them."""

_SORTED_FILES_MAX = 8
"""Files of a Segment up to which a compaction adds a file. With more, its rows are sorted as a whole."""

_WIDTHS = {"string": 20, "binary": 100, "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "date": 4, "float": 4}
"""Bytes that Spark's planner assumes for a value. Every other type counts 8."""

_ROW_OVERHEAD = 8
"""Bytes that Spark's planner adds to each row."""

_STATE_WIDTH = 150
"""Bytes of the columns that compactor stores beside the payload in each row of a Delta."""


def row_width(schema: Schema, columns: Sequence[str] | None = None) -> int:
    """Return the bytes that Spark's planner assumes for a row with these stored columns (default: all)."""
    chosen = schema.names if columns is None else columns
    return _ROW_OVERHEAD + sum(_WIDTHS.get(schema.field(name).type, 8) for name in chosen)


def estimated_bytes(schema: Schema, rows: int) -> int:
    """Return a rough size of rows as compressed Parquet. It decides the number of Segments before anything is written."""
    return rows * row_width(schema) // 2


def delta_estimate(snapshot: Snapshot) -> int:
    """Return the bytes that Spark expects for the keys of the Delta when it chooses a join: file bytes × key width / row width."""
    if snapshot.delta is None:
        return 0
    schema = snapshot.schema
    return snapshot.delta.size * row_width(schema, schema.key) // (row_width(schema) + _STATE_WIDTH)


def whole_base(spec: TableSpec, parent: Snapshot | None, changes: int, rewritten: bool, truncated: bool) -> str | None:
    """Return why a commit writes a new base instead of a Delta, or None if it writes a Delta.

    It does so for the first load, if the stored rows must be rewritten (a changed column type or default; `delete: soft`), for a truncate (the
    barrier may cut through Segments), for `write_mode: copy-on-write`, and when the changes are at least half as many as the rows. The Delta of such
    a commit would be compacted by the next run anyway.
    """
    if parent is None or not parent.segments:
        return "the table has no base yet"
    if rewritten:
        return "stored rows change: a column has another type, older rows read another default, or `delete: soft` shows rows that were hidden"
    if truncated:
        return "a truncate may cut through the Segments"
    if spec.write_mode == "copy-on-write":
        return "`write_mode: copy-on-write`"
    rows = sum(segment.rows for segment in parent.segments)
    if spec.write_mode == "auto" and changes >= max(rows, 1) // 2:
        return f"{changes:,} changes are at least half as many as the {rows:,} rows: the next run would compact their Delta anyway"
    return None


def keeps_tombstones(spec: TableSpec, order: Order, offsets: Partitions) -> bool:
    """Return whether tombstones stay stored after their retention, without the values of the rows they hide.

    After a purge, a change without a stored row is judged by its Position. That needs an order of more than one key's changes: one of the table, or
    one of each Kafka partition (`offsets`, known only if the files name partitions). `beyond_retention: apply` and `delete: hard` judge nothing.
    """
    # positions of two shards do not compare
    compares = KEY if spec.shard else scope(order)
    judged = compares == TABLE or (compares == PARTITION and bool(offsets))
    return not judged and spec.beyond_retention != "apply" and spec.delete != "hard"


def keeps_files(spec: TableSpec, snapshot: Snapshot, targets: Sequence[Segment]) -> bool:
    """Return whether a compaction of these Segments may write their rows in the order that they have, file by file, and the Delta's beside them.

    The Delta's keys must be few enough for a broadcast. Files in another order than by key are written anew, and so are those of a Segment that has
    many.
    """
    alike = all(
        segment.sorted_by == snapshot.schema.key and all(len(each.files) < _SORTED_FILES_MAX for each in segment.folders) for segment in targets
    )
    return alike and not spec.keyless and not spec.cluster_by and delta_estimate(snapshot) <= DELTA_LIMIT


def segment_count(size: int, table_size: int, spec: TableSpec) -> int:
    """Return the number of Segments for `size` bytes of a table of `table_size` bytes."""
    return max(1, round(size / max(spec.target_file_bytes, table_size // _MAX_SEGMENTS, 1)))


def in_window(window: tuple[int, int], seconds: float) -> bool:
    """Return whether a time (epoch seconds) lies in a daily window (first minute, minute after the last one), UTC. It may span midnight.

    >>> [in_window((22 * 60, 5 * 60 + 30), hour * 3600.0) for hour in (21, 22, 5, 6)]
    [False, True, True, False]
    """
    first, end = window
    minute = int(seconds // 60) % (24 * 60)
    return first <= minute < end if first <= end else minute >= first or minute < end


def needed(spec: TableSpec, snapshot: Snapshot, now: float) -> bool:
    """Return whether to look for Segments worth compacting, if the time of day allows it.

    The Delta is too large to broadcast, or `compact_every` has passed. `now`: epoch seconds.
    """
    if snapshot.delta is None or spec.write_mode == "copy-on-write":
        return False
    since = times.to_seconds(snapshot.compacted_at or snapshot.time)
    return delta_estimate(snapshot) > DELTA_LIMIT or now - since >= spec.compact_every


def waits(spec: TableSpec, snapshot: Snapshot, now: float) -> str | None:
    """Return why a compaction that is needed waits for a time of day; None if it need not, or none is needed."""
    if in_window(spec.compact_window, now) or not needed(spec, snapshot, now):
        return None
    if spec.compact_window == NEVER:
        return "compaction waits for `compactor run --compact` (`compact_window` is never)"
    return f"compaction waits for {hours(spec.compact_window)} UTC (`compact_window`); the Delta has {snapshot.delta.size:,} bytes"  # type: ignore[union-attr]


def nothing_worth(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return why a compaction that somebody asked for rewrites nothing."""
    if snapshot.delta is None:
        return "not compacted: the table has no Delta, all changes are in the base"
    if spec.write_mode == "copy-on-write":
        return "not compacted: the next commit writes a new base (`write_mode: copy-on-write`)"
    rows = sum(segment.rows for segment in snapshot.segments)
    return (
        f"not compacted: no segment is worth rewriting. One is if at least {threshold(snapshot.brought, rows):.1%} of its rows have changed; "
        f"the Delta has {snapshot.delta.rows:,} rows, the base {rows:,}"
    )


def debt(snapshot: Snapshot | None) -> int:
    """Return what readers pay until the next compaction, as bytes of the Delta. The tables with the largest are compacted first."""
    return 0 if snapshot is None or snapshot.delta is None else snapshot.delta.size


def affordable(targets: Sequence[Segment], budget: int | None, spent: int, whole: bool) -> tuple[Segment, ...]:
    """Return the first of these Segments that a run may rewrite. It has rewritten `spent` bytes of its `budget` (None: no limit).

    `whole`: all or none. The first compaction of a run gets one Segment (or all) at any size, so that a small budget delays compactions and never
    ends them.
    """
    if budget is None:
        return tuple(targets)
    if whole:
        return tuple(targets) if not spent or spent + sum(segment.size for segment in targets) <= budget else ()
    chosen: list[Segment] = []
    for segment in targets:
        if spent and spent + segment.size > budget:
            break
        chosen.append(segment)
        spent += segment.size
    return tuple(chosen)


def takes_every(spec: TableSpec, snapshot: Snapshot) -> bool:
    """Return whether a compaction takes every Segment with Delta rows: so that the base alone is one version, or for `hides_values`."""
    return spec.read_optimized or "base" in spec.iceberg or hides_values(spec, snapshot)


def hides_values(spec: TableSpec, snapshot: Snapshot) -> bool:
    """Return whether `delete: soft` shows deleted rows from now on, and the last values of some are in the base alone."""
    delta = snapshot.delta
    return delta is not None and spec.soft and not delta.soft and delta.tombstones > 0


def stored_defaults(spec: TableSpec, schema: Schema) -> tuple[str, ...]:
    """Return the columns whose default the files of this schema hold in each row that reads it: all of them if others read the files alone."""
    return tuple(schema.defaults) if spec.iceberg else ()


def lacking_default(part: Segment | Delta, schema: Schema) -> str | None:
    """Return a column whose default some row of a Segment or Delta reads and no file holds, or None."""
    return next((name for name, (first, _) in schema.defaults.items() if name not in part.defaults and at_or_below(part.position_min, first)), None)


def threshold(changes: int, base_rows: int) -> float:
    """Return the share of Delta rows at which a Segment is worth rewriting: sqrt(2C/N), where waiting costs as much as compacting."""
    return min(1.0, math.sqrt(2.0 * max(changes, 1) / max(base_rows, 1)))


def targets(snapshot: Snapshot, shares: dict[str, int], changes: int, every: bool = False, fill: bool = False) -> tuple[Segment, ...]:
    """Return the Segments worth compacting now, those with the largest share of Delta rows first.

    `shares`: Delta rows by Segment id. `changes`: rows that a typical run brings. `every`: all Segments with Delta rows, so that the base is one
    version afterwards. `fill`: those too that lack a default.
    """
    if snapshot.delta is None:
        return ()
    if every:
        worth = [segment for segment in snapshot.segments if shares.get(segment.id, 0)]
    else:
        worth = _worth(snapshot, shares, changes)
    lacking = [segment for segment in snapshot.segments if fill and segment not in worth and lacking_default(segment, snapshot.schema)]
    return (*worth, *lacking)


def _worth(snapshot: Snapshot, shares: dict[str, int], changes: int) -> list[Segment]:
    rows = sum(segment.rows for segment in snapshot.segments)
    limit = threshold(changes, rows)
    ranked = sorted(snapshot.segments, key=lambda segment: -shares.get(segment.id, 0) / max(segment.rows, 1))
    # not "more than": where most rows change in every run the threshold is 1, and a Delta of updates never has more rows than the base
    worth = [segment for segment in ranked if shares.get(segment.id, 0) >= limit * max(segment.rows, 1)]
    if not worth and delta_estimate(snapshot) > DELTA_LIMIT:
        # the Delta is too large for a broadcast join, which slows down every reader: compact the fullest quarter of the Segments
        worth = [segment for segment in ranked[: max(1, len(ranked) // 4)] if shares.get(segment.id, 0)]
    return worth


def tiling_problem(segments: Sequence[Segment]) -> str | None:
    """Return why the key ranges of these Segments do not cover the key space without gap or overlap, or None if they do."""
    if not segments:
        return None
    if segments[0].low is not None or segments[-1].high is not None:
        return "the first range must begin at -∞ and the last end at +∞"
    for left, right in zip(segments, segments[1:]):
        if left.high is None or left.high != right.low:
            return f"{left.id} ends at {left.high}, {right.id} begins at {right.low}"
    return None
