"""SparkEngine: the Engine port on Spark. Actions happen here and in `survey`, `signatures`, `store`; the steps themselves are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.errors import CheckFailed, CompactorError, Refused
from compactor.core.model.history import History
from compactor.core.model.layout import Layout, join, relative
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Delta, FeedPart, Input, Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.schema.adoption import ForeignBase
from compactor.ports import Entries, Storage
from compactor.spark import failures
from compactor.spark.decode import wire
from compactor.spark.history import commit as history_commit
from compactor.spark.input.files import reason
from compactor.spark.reading import Reader, SparkBatch
from compactor.spark.rows import position
from compactor.spark.rows.resolution import Resolution, resolve
from compactor.spark.rows.resolve import BASE, Resolver, union
from compactor.spark.sql import named, quoted
from compactor.spark.tables import compare, feed, table_writer
from compactor.spark.tables.table_reader import Stored

_MAX_SEGMENTS = 1000
"""Partitions are registered in bulk and listed by every query (H17)."""

Range = tuple["tuple[str, ...] | None", "tuple[str, ...] | None", int]
"""(low, high, number of segments): bounds as `conform.key_text` writes them."""


@failures.told
class SparkEngine:
    """One Spark application; any number of tables at once."""

    def __init__(self, spark: SparkSession, storage: Storage, schemas: wire.Schemas = None) -> None:
        """`schemas` is asked for the schemas that Kafka records name by id."""
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
        """Open, decode and conform these inputs."""
        return Reader(self._spark, self._storage, self._schemas).read(spec, parent, inputs, version, locations, entries, base)

    def resolve(self, batch: SparkBatch, whole: bool) -> Resolution:
        """Resolve the batch with what is stored."""
        return resolve(self._spark, batch, whole)

    def write(self, resolution: Resolution, commit: str, purge_through: int) -> Staged:
        """Write the resolved rows as a new base or a new Delta, and read them back."""
        if resolution.whole:
            return self._write_base(resolution, commit, purge_through)
        return self._write_delta(resolution, commit)

    def _write_delta(self, work: Resolution, commit: str) -> Staged:
        directory = work.layout.delta(commit)
        # a looked-up base row that stayed as it was belongs to the base, not into the Delta
        rows = work.heads.where(f"_source <> {BASE} OR _version = {work.version}")
        expected = rows.count()
        table_writer.write(rows, work.schema, directory)
        found = table_writer.inspect(self._spark, self._storage, work.schema, work.order, directory, work.spec.name, expected)
        if not found:
            return Staged(None, (), work.counts, work.ties)
        made = found[0]
        delta = Delta(
            commit, relative(directory, work.spec.root), made.rows, made.tombstones, made.files, made.position_min, made.position_max, made.partial
        )
        return Staged(delta, (), work.counts, work.ties, self._unresolved(work, {directory: delta.size}) if made.partial else 0)

    def _write_base(self, work: Resolution, commit: str, purge_through: int) -> Staged:
        size = (work.parent.size if work.parent else 0) + _estimated_bytes(work.schema, work.summary.changes)
        rows, purged = _purged(work.heads, purge_through)
        ranges: list[Range] = [(None, None, _segment_count(size, size, work.spec))]
        made = self._write_segments(rows, rows.count(), work.schema, work.order, work.spec, commit, ranges, work.version)
        unknown = sum(self._unresolved(work, {work.layout.inside(segment.path): segment.size}) for segment in made if segment.partial)
        return Staged(None, tuple(made), work.counts, work.ties, unknown, purged)

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Delta rows per segment that are not compacted yet."""
        delta = Stored(self._spark, Layout(spec.root, spec.landing), snapshot, snapshot.schema).delta()
        if delta is None or not snapshot.segments:
            return {}
        rows = delta.groupBy(named(table_writer.segment_index(snapshot.segments, snapshot.schema), "i")).count().collect()
        return {snapshot.segments[row.i].id: row["count"] for row in rows}

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments over the ranges of these: their rows resolved with their share of the Delta."""
        schema, order = snapshot.schema, snapshot.order
        stored = Stored(self._spark, Layout(spec.root, spec.landing), snapshot, schema)
        resolver = Resolver(schema, order, snapshot.version, spec.keyless)
        wanted = {segment.id for segment in segments}
        at = [number for number, segment in enumerate(snapshot.segments) if segment.id in wanted]
        index = table_writer.segment_index(snapshot.segments, schema)
        frames, delta = [stored.rows(segments)], stored.delta()
        if delta is not None:
            frames.append(delta.where(f"{index} IN ({', '.join(str(number) for number in at)})"))
        states = union(frames).selectExpr("*", "CAST(NULL AS STRING) AS _file")
        heads = resolver.heads(resolver.outcomes(states, () if spec.keyless else snapshot.partial)).persist()
        try:
            rows, purged = _purged(heads, purge_through)
            runs = _runs(at)
            case = " ".join(f"WHEN {index} BETWEEN {run[0]} AND {run[-1]} THEN {number}" for number, run in enumerate(runs))
            tagged = rows.selectExpr("*", f"CASE {case} END AS _run") if len(runs) > 1 else rows
            ranges = [_range(snapshot, run, len(runs), spec) for run in runs]
            made = self._write_segments(tagged, tagged.count(), schema, order, spec, commit, ranges, snapshot.version)
        finally:
            heads.unpersist()
        return Staged(None, tuple(made), {}, purged_to=purged)

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: Resolution | None) -> FeedPart | None:
        """What `made` changes, as images."""
        events = None
        if resolution is not None and resolution.event_outcomes is not None:
            key = [*made.schema.key, "_position"]
            told = resolution.changes.where("_op <> 't'").join(resolution.event_outcomes, key, "left")
            events = told.where("NOT (_event_outcome <=> 'duplicate')")
        return feed.write(self._spark, self._storage, spec, parent, made, events)

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """A Snapshot's own changes as JSON objects."""
        return feed.lines(self._spark, spec, snapshot)

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """The part of `made` against the difference of all rows."""
        return feed.check(self._spark, spec, parent, made)

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """The view against its reference definition and against one resolve of all inputs on top of `origin`."""
        try:
            return self._compared(spec, snapshot, inputs, locations, origin)
        except CompactorError:
            raise
        except Exception as error:
            raise failures.known(error) or Refused(f"table {spec.name}: Spark failed while comparing: {reason(error)}") from error

    def _compared(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None
    ) -> list[Check]:
        checks = [compare.against_reference(self._spark, spec, snapshot)]
        if not inputs:
            if origin is None:
                return checks
            rows = Stored(self._spark, Layout(spec.root, spec.landing), origin, origin.schema).live(spec.soft)
            resolver = Resolver(origin.schema, origin.order, origin.version, spec.keyless)
            return [*checks, compare.against_history(self._spark, spec, snapshot, resolver, rows)]
        batch = self.read(spec.unguarded, origin, inputs, origin.version + 1 if origin else 1, locations)
        with ExitStack() as scratch:
            scratch.callback(batch.close)
            work = self.resolve(batch, whole=True)
            scratch.callback(work.close)
            return [*checks, compare.against_history(self._spark, spec, snapshot, work.resolver, work.heads)]

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """What the visible rows of two Snapshots differ in."""
        layout = Layout(spec.root, spec.landing)
        one, other = (Stored(self._spark, layout, snapshot, snapshot.schema) for snapshot in (before, after))
        try:
            return compare.between(one, other, spec)
        except Exception as error:
            failures.spare_the_data(error)
            try:
                other.live(spec.soft).write.format("noop").mode("overwrite").save()
            except Exception:
                raise Refused(f"table {spec.name}: Spark failed while comparing: {reason(error)}") from error
            return Difference(unreadable=reason(error))

    def write_history(self, resolution: Resolution, commit: str) -> History:
        """The history after the batch."""
        return history_commit.write(self._spark, self._storage, resolution, commit)

    def _unresolved(self, work: Resolution, directories: Mapping[str, int]) -> int:
        """Values of visible rows that no event told. Raises CheckFailed under `unresolved: fail`."""
        rows = table_writer.read(self._spark, work.summary.evolved.schema, work.summary.order, directories)
        unknown = named("sum(size(filter(map_values(_older), _e -> NOT _e.known)))", "n")
        cells = rows.where("_op <> 'd' AND _older IS NOT NULL").agg(unknown).collect()[0].n or 0
        if cells and work.spec.unresolved == "fail":
            raise CheckFailed(
                f"table {work.spec.name}: {cells} values were not sent by the source and no earlier change tells them "
                "(`unresolved: fail`). Nothing was committed."
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
        """Write rows, `expected` many (with `_run`, the number of their range, when there are several), as Segments that tile each range."""
        directory = Layout(spec.root, spec.landing).base(commit)
        keys = [quoted(name) for name in schema.key]
        total = sum(count for _, _, count in ranges)
        by = [*(["_run"] if len(ranges) > 1 else []), *keys]
        spread = rows.repartitionByRange(total, *by) if total > 1 else rows.coalesce(1)
        run = "_run" if len(ranges) > 1 else "0"
        tagged = spread.selectExpr("*", f"concat({run}, '-', lpad(spark_partition_id(), 5, '0')) AS segment")
        table_writer.write(tagged, schema, directory, by_segment=True)
        found = table_writer.inspect(self._spark, self._storage, schema, order, directory, spec.name, expected)
        out = []
        for number, (low, high, _) in enumerate(ranges):
            mine = [made for made in found if made.name.startswith(f"segment={number}-")]
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
        partial=made.partial,
    )


def _segment_count(size: int, table_size: int, spec: TableSpec) -> int:
    """Segments for `size` bytes of a table."""
    return max(1, round(size / max(spec.target_file_bytes, table_size // _MAX_SEGMENTS, 1)))


def _range(snapshot: Snapshot, run: Sequence[int], runs: int, spec: TableSpec) -> Range:
    """The key range of neighbouring segments, and into how many they are to be written."""
    size = sum(snapshot.segments[number].size for number in run) + (snapshot.delta.size // runs if snapshot.delta else 0)
    count = _segment_count(size, snapshot.size, spec)
    return snapshot.segments[run[0]].low, snapshot.segments[run[-1]].high, count


def _runs(indexes: list[int]) -> list[list[int]]:
    """Neighbouring numbers together: [1, 2, 5] → [[1, 2], [5]]."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _purged(heads: DataFrame, purge_through: int) -> tuple[DataFrame, Position | None]:
    """Rows without tombstones of versions ≤ `purge_through`, and the greatest Position purged."""
    if purge_through <= 0:
        return heads, None
    old = f"_op = 'd' AND _version <= {purge_through}"
    found = heads.where(old).agg(named("max(_position)", "p")).collect()[0].p
    return heads.where(f"NOT ({old})"), position.from_row(found)


def _estimated_bytes(schema: Schema, rows: int) -> int:
    """A guess at compressed Parquet bytes, for choosing the number of segments before anything is written."""
    widths = {"string": 20, "binary": 40, "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
    return rows * (8 + sum(widths.get(field.type, 8) for field in schema.fields)) // 2
