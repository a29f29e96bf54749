"""SparkEngine: the Engine port on Spark.

Spark jobs start here and in `input/`, `decode/signatures.py`, `rows/survey.py`, `rows/resolution.py`, `history/commit.py` and `tables/`. All other
modules only build SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.model.errors import CheckFailed, CompactorError, Refused
from compactor.core.model.history import History
from compactor.core.model.inputs import Input
from compactor.core.model.layout import Layout, join, relative
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Delta, FeedPart, Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.planning.audit import Measured, Rule
from compactor.core.results.batch import InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.schema.adoption import ForeignBase
from compactor.ports import Entries, Storage
from compactor.spark import audit, failures, view_check
from compactor.spark.columns import BEHIND, OLDER, POSITION
from compactor.spark.history import check as history_check
from compactor.spark.history import commit as history_commit
from compactor.spark.input import wire
from compactor.spark.input.files import reason
from compactor.spark.keys import segment_index
from compactor.spark.reading import Reader, SparkBatch
from compactor.spark.rows import keyless, position
from compactor.spark.rows.precedence import BASE, Resolver, union
from compactor.spark.rows.resolution import Resolution, resolve
from compactor.spark.sql import named, quoted
from compactor.spark.tables import compare, feed, table_writer
from compactor.spark.tables.table_reader import TableReader

_MAX_SEGMENTS = 1000
"""The greatest number of Segments of a table. They are registered in bulk and every query lists them (H17)."""

Range = tuple["tuple[str, ...] | None", "tuple[str, ...] | None", int]
"""(low, high, number of Segments) of a key range; bounds as `keys.key_text` writes them, None is open."""


@failures.translated
class SparkEngine:
    """One Spark session. It works on any number of tables at once."""

    def __init__(self, spark: SparkSession, storage: Storage, schemas: wire.Schemas = None) -> None:
        """`schemas` returns the schema text for an id, for Kafka records that carry only the id."""
        self._spark = spark
        self._storage = storage
        self._schemas = schemas

    def read(
        self,
        spec: TableSpec,
        parent: Snapshot | None,
        inputs: Sequence[Input],
        version: int,
        locations: InputLocations,
        entries: Entries = tuple,
        base: ForeignBase | None = None,
    ) -> SparkBatch:
        """Decode these inputs into Changes. `entries` reads the ledger; `base` is set for the files of a foreign base."""
        return Reader(self._spark, self._storage, self._schemas).read(spec, parent, inputs, version, locations, entries, base)

    def resolve(self, batch: SparkBatch, whole: bool) -> Resolution:
        """Resolve the batch with the stored rows. `whole` reads the whole base, for a new base."""
        return resolve(self._spark, batch, whole)

    def write(self, resolution: Resolution, commit: str, purge_through: int) -> Staged:
        """Write the resolved rows as a new base or a new Delta, and check what was written."""
        if resolution.whole:
            return self._write_base(resolution, commit, purge_through)
        return self._write_delta(resolution, commit)

    def _write_delta(self, work: Resolution, commit: str) -> Staged:
        directory = work.layout.delta(commit)
        # a base row that was looked up and did not change stays in the base
        rows = work.heads.where(f"_origin <> {BASE} OR _version = {work.version}")
        expected = rows.count()
        table_writer.write(rows, work.schema, work.order, directory)
        written = table_writer.inspect(self._spark, self._storage, work.schema, work.order, directory, work.spec.name, expected)
        if not written:
            return Staged(None, (), work.counts, work.ties)
        made = written[0]
        path, columns = relative(directory, work.spec.root), made.unavailable_columns
        delta = Delta(commit, path, made.rows, made.tombstones, made.files, made.position_min, made.position_max, columns)
        return Staged(delta, (), work.counts, work.ties, self._unresolved(work, {directory: delta.size}) if columns else 0)

    def _write_base(self, work: Resolution, commit: str, purge_through: int) -> Staged:
        size = (work.parent.size if work.parent else 0) + compaction.estimated_bytes(work.schema, work.summary.changes)
        keep = compaction.keeps_tombstones(work.spec, work.order, work.summary.offsets or (work.parent.offsets if work.parent else ()))
        rows, purged = _purged(work.heads, purge_through, work.schema, keep)
        ranges: list[Range] = [(None, None, _segment_count(size, size, work.spec))]
        made = self._write_segments(rows, rows.count(), work.schema, work.order, work.spec, commit, ranges, work.version)
        unknown = sum(self._unresolved(work, {work.layout.inside(segment.path): segment.size}) for segment in made if segment.unavailable_columns)
        return Staged(None, tuple(made), work.counts, work.ties, unknown, purged)

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Return the number of Delta rows that are not compacted yet, by Segment id."""
        delta = TableReader(self._spark, Layout(spec.root, spec.landing), snapshot, snapshot.schema).delta()
        if delta is None or not snapshot.segments:
            return {}
        rows = delta.groupBy(named(segment_index(snapshot.segments, snapshot.schema), "i")).count().collect()
        return {snapshot.segments[row.i].id: row["count"] for row in rows}

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """Resolve the rows of these Segments with their share of the Delta, and write them as new Segments over the same key ranges."""
        schema, order = snapshot.schema, snapshot.order
        stored = TableReader(self._spark, Layout(spec.root, spec.landing), snapshot, schema)
        resolver = Resolver(schema, order, snapshot.version, spec.keyless)
        ids = {segment.id for segment in segments}
        at = [number for number, segment in enumerate(snapshot.segments) if segment.id in ids]
        index = segment_index(snapshot.segments, schema)
        frames, delta = [stored.rows(segments)], stored.delta()
        if delta is not None:
            frames.append(delta.where(f"{index} IN ({', '.join(str(number) for number in at)})"))
        states = union(frames).selectExpr("*", f"false AS {BEHIND}")
        heads = resolver.heads(resolver.outcomes(states, () if spec.keyless else snapshot.unavailable_columns)).persist()
        try:
            keep = compaction.keeps_tombstones(spec, order, snapshot.offsets)
            rows, purged = _purged(heads, purge_through, schema, keep)
            runs = _runs(at)
            case = " ".join(f"WHEN {index} BETWEEN {run[0]} AND {run[-1]} THEN {number}" for number, run in enumerate(runs))
            tagged = rows.selectExpr("*", f"CASE {case} END AS _run") if len(runs) > 1 else rows
            ranges = [_range(snapshot, run, len(runs), spec) for run in runs]
            made = self._write_segments(tagged, tagged.count(), schema, order, spec, commit, ranges, snapshot.version)
        finally:
            heads.unpersist()
        return Staged(None, tuple(made), {}, purged_to=purged)

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: Resolution | None) -> FeedPart | None:
        """Write the change feed of `made`: the rows that it changed, before and after. Returns None if it changed none."""
        events = None
        if resolution is not None and resolution.event_outcomes is not None:
            key = [*made.schema.key, POSITION]
            joined = resolution.changes.where("_op <> 't'").join(resolution.event_outcomes, key, "left")
            events = joined.where("NOT (_event_outcome <=> 'duplicate')")
        return feed.write(self._spark, self._storage, spec, parent, made, events)

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """Yield the changes of one Snapshot as JSON objects."""
        return feed.json_lines(self._spark, spec, snapshot)

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """Compare the feed of `made` with the difference between all rows of both Snapshots."""
        return feed.check(self._spark, spec, parent, made)

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """Compare the view with its reference definition, and with one resolve of all `inputs` on top of `origin`."""
        try:
            return self._compared(spec, snapshot, inputs, locations, origin)
        except CompactorError:
            raise
        except Exception as error:
            raise failures.environment_error(error) or Refused(f"table {spec.name}: Spark failed while comparing: {reason(error)}") from error

    def _compared(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None
    ) -> list[Check]:
        checks = [compare.compare_with_reference(self._spark, spec, snapshot)]
        if not inputs:
            checks += self._history(spec, snapshot)
            if origin is None:
                return checks
            rows = TableReader(self._spark, Layout(spec.root, spec.landing), origin, origin.schema).live(spec.soft)
            resolver = Resolver(origin.schema, origin.order, origin.version, spec.keyless)
            return [*checks, compare.compare_with_archive(self._spark, spec, snapshot, resolver, rows)]
        batch = self.read(spec.unguarded, origin, inputs, origin.version + 1 if origin else 1, locations)
        with ExitStack() as scratch:
            scratch.callback(batch.close)
            work = self.resolve(batch, whole=True)
            scratch.callback(work.close)
            checks.append(compare.compare_with_archive(self._spark, spec, snapshot, work.resolver, work.heads))
            return [*checks, *self._history(spec, snapshot, inputs, work)]

    def _history(self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input] = (), work: Resolution | None = None) -> list[Check]:
        return history_check.check(self._spark, self._storage, spec, snapshot, inputs, work) if snapshot.history is not None else []

    def compare_live(self, spec: TableSpec, snapshot: Snapshot, waiting: Sequence[Input], locations: InputLocations) -> Check:
        """Compare the live view with the rows that the view has after a run with the files that wait in landing."""
        if not waiting:
            rows = TableReader(self._spark, Layout(spec.root, spec.landing), snapshot, snapshot.schema).live(spec.soft)
            resolver = Resolver(snapshot.schema, snapshot.order, snapshot.version, spec.keyless)
            return compare.compare_live(self._spark, spec, snapshot, resolver, rows)
        batch = self.read(spec.unguarded, snapshot, waiting, snapshot.version + 1, locations)
        with ExitStack() as scratch:
            scratch.callback(batch.close)
            work = self.resolve(batch, whole=True)
            scratch.callback(work.close)
            return compare.compare_live(self._spark, spec, snapshot, work.resolver, work.heads)

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        """Raise CheckFailed unless the text of the view is valid in its dialect and gives the view's columns."""
        view_check.check(self._spark, view, tables)

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        """Count the rows that break audit rules."""
        return audit.audit(self._spark, spec, snapshot, measured)

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """Count the visible rows in which two Snapshots differ. `unreadable` of the result is set if only `before` cannot be read."""
        layout = Layout(spec.root, spec.landing)
        one, other = (TableReader(self._spark, layout, snapshot, snapshot.schema) for snapshot in (before, after))
        try:
            return compare.compare_snapshots(one, other, spec)
        except Exception as error:
            failures.raise_environment_error(error)
            try:
                other.live(spec.soft).write.format("noop").mode("overwrite").save()
            except Exception:
                raise Refused(f"table {spec.name}: Spark failed while comparing: {reason(error)}") from error
            return Difference(unreadable=reason(error))

    def write_history(self, resolution: Resolution, commit: str) -> History:
        """Write the history of the batch and return the table's new history."""
        return history_commit.write(self._spark, self._storage, resolution, commit)

    def _unresolved(self, work: Resolution, directories: Mapping[str, int]) -> int:
        """Count the values of visible rows that no event has carried. Raises CheckFailed under `unresolved: fail`."""
        rows = table_writer.read(self._spark, work.summary.evolved.schema, work.summary.order, directories)
        unknown = named("sum(size(filter(map_values(_older), _e -> NOT _e.known)))", "n")
        cells = rows.where("_op <> 'd' AND _older IS NOT NULL").agg(unknown).collect()[0].n or 0
        if cells and work.spec.unresolved == "fail":
            raise CheckFailed(
                f"table {work.spec.name}: the source did not send {cells} values, and no earlier change has them. Nothing was committed, because "
                "`unresolved: fail` is set."
            )
        return int(cells)

    def _write_segments(
        self,
        rows: DataFrame,
        expected: int,
        schema: Schema,
        order: position.Order,
        spec: TableSpec,
        commit: str,
        ranges: Sequence[Range],
        through: int,
    ) -> list[Segment]:
        """Write rows as Segments that cover each key range without gaps.

        `expected` is the number of rows. If there are several ranges, the column `_run` has the number of each row's range. `through` is the version
        up to which the Delta is compacted into these Segments.
        """
        directory = Layout(spec.root, spec.landing).base(commit)
        keys = [quoted(name) for name in schema.key]
        total = sum(count for _, _, count in ranges)
        by = [*(["_run"] if len(ranges) > 1 else []), *keys]
        spread = rows.repartitionByRange(total, *by) if total > 1 else rows.coalesce(1)
        run = "_run" if len(ranges) > 1 else "0"
        tagged = spread.selectExpr("*", f"concat({run}, '-', lpad(spark_partition_id(), 5, '0')) AS segment")
        table_writer.write(tagged, schema, order, directory, by_segment=True)
        written = table_writer.inspect(self._spark, self._storage, schema, order, directory, spec.name, expected)
        out = []
        for number, (low, high, _) in enumerate(ranges):
            mine = [made for made in written if made.name.startswith(f"segment={number}-")]
            bounds = [low, *(made.key_min for made in mine[1:]), high]
            for at, made in enumerate(mine):
                out.append(_segment(commit, made, bounds[at], bounds[at + 1], through))
        return out


def _segment(commit: str, made: table_writer.Written, low: object, high: object, through: int) -> Segment:
    return Segment(
        id=f"{commit}.{made.name.partition('=')[2]}",
        path=join("base", commit, made.name),
        rows=made.rows,
        tombstones=made.tombstones,
        files=made.files,
        low=low,  # type: ignore[arg-type]
        high=high,  # type: ignore[arg-type]
        position_min=made.position_min,
        position_max=made.position_max,
        compacted_through=through,
        unavailable_columns=made.unavailable_columns,
    )


def _segment_count(size: int, table_size: int, spec: TableSpec) -> int:
    """Return the number of Segments for `size` bytes of a table."""
    return max(1, round(size / max(spec.target_file_bytes, table_size // _MAX_SEGMENTS, 1)))


def _range(snapshot: Snapshot, run: Sequence[int], runs: int, spec: TableSpec) -> Range:
    """Return the key range of neighbouring Segments, with the number of Segments to write it as."""
    size = sum(snapshot.segments[number].size for number in run) + (snapshot.delta.size // runs if snapshot.delta else 0)
    count = _segment_count(size, snapshot.size, spec)
    return snapshot.segments[run[0]].low, snapshot.segments[run[-1]].high, count


def _runs(indexes: list[int]) -> list[list[int]]:
    """Group neighbouring numbers: [1, 2, 5] → [[1, 2], [5]]."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _purged(heads: DataFrame, purge_through: int, schema: Schema, keep: bool) -> tuple[DataFrame, Position | None]:
    """Return the rows without tombstones of versions ≤ `purge_through`, and the greatest Position of those tombstones.

    With `keep` these tombstones stay, without the values of the rows that they hide.
    """
    if purge_through <= 0:
        return heads, None
    old = f"_op = 'd' AND _version <= {purge_through}"
    if keep:
        # a removal that waits for its row still needs its values
        bare = f"({old} AND NOT {keyless.is_waiting()})"
        emptied = {OLDER, *schema.values}
        columns = [f"CASE WHEN NOT {bare} THEN {quoted(name)} END AS {quoted(name)}" if name in emptied else quoted(name) for name in heads.columns]
        return heads.selectExpr(*columns), None
    greatest = heads.where(old).agg(named("max(_position)", "p")).collect()[0].p
    return heads.where(f"NOT ({old})"), position.from_row(greatest)
