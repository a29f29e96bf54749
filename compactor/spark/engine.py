"""SparkEngine: the Engine port on Spark.

These modules only build SQL, and start no Spark job: `keys`, `sql`, `decode/conversions`, `decode/order`, `decode/pg_text`, `rows/conform`,
`rows/position`, `rows/reduce`, `rows/keyless` and `history/versions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog import live
from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.model.errors import CompactorError, OrderRefused, Refused
from compactor.core.model.files import LIVE, Delta, FeedPart, FileInfo, Segment
from compactor.core.model.history import History
from compactor.core.model.inputs import Input, other_events
from compactor.core.model.layout import relative
from compactor.core.model.policy import Rule
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.planning.audit import Measured
from compactor.core.results.batch import BatchSummary, ErasedRecords, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.results.explained import CompactionDue, Explained
from compactor.core.schema.adoption import ForeignBase
from compactor.core.schema.clustering import by_key
from compactor.core.sources.quarantine import not_usable_now
from compactor.ports import Entries, Storage
from compactor.spark import failures, keys
from compactor.spark.checks import explain, repeated_keys, views
from compactor.spark.columns import UNCHANGED
from compactor.spark.history import check as history_check
from compactor.spark.history import commit as history_commit
from compactor.spark.history import parts as history_parts
from compactor.spark.input import kafka, rewrite
from compactor.spark.input.inputs import Inputs
from compactor.spark.interpreting import Sessions
from compactor.spark.keys import segment_index
from compactor.spark.reading import Reader, SparkBatch
from compactor.spark.rows import erase
from compactor.spark.rows.reduce import BASE
from compactor.spark.rows.resolution import Resolution, resolve
from compactor.spark.sql import named
from compactor.spark.tables import compact, compare, feed, segments, table_writer
from compactor.spark.tables.table_reader import TableReader


@failures.translated
class SparkEngine:
    """One Spark session. It works on any number of tables at once. `ports.Engine` says what its methods do."""

    def __init__(self, spark: SparkSession, storage: Storage, schemas: kafka.Schemas = None) -> None:
        """`schemas` returns the schema text for an id, for Kafka records that carry only the id."""
        self._spark = spark
        self._sessions = Sessions(spark)
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
        erased: Erased | None = None,
    ) -> SparkBatch:
        with ExitStack() as scratch:
            opened = Inputs(self._sessions.of(inputs, parent), self._storage, spec, inputs, locations, scratch)
            batch = Reader(opened, parent, version, self._schemas, entries, base, erased).read()
            return dataclasses.replace(batch, scratch=scratch.pop_all())

    def resolve(self, batch: SparkBatch, whole: bool) -> Resolution:
        return resolve(batch, whole)

    def explain(
        self, read: Callable[[], SparkBatch], whole: Callable[[BatchSummary], str | None], committed: bool, compacted: CompactionDue | None = None
    ) -> Explained:
        def due() -> tuple[str, str] | None:
            if compacted is None:
                return None
            compact.compacted(self._spark, self._sessions.by_file, compacted.spec, compacted.snapshot, compacted.targets)
            return "compaction", compacted.why

        return explain.explain(read, whole, committed, due)

    def write(self, resolution: Resolution, commit: str, purge_through: int) -> Staged:
        if resolution.plan.whole:
            return self._write_base(resolution, commit, purge_through)
        return self._write_delta(resolution, commit)

    def _write_delta(self, work: Resolution, commit: str) -> Staged:
        spec, parent = work.batch.spec, work.batch.parent
        directory = spec.layout.delta(commit)
        # a base row that was looked up and did not change stays in the base
        rows = work.rows.where(f"NOT (_origin = {BASE} AND {UNCHANGED})")
        base = parent.segments if parent else ()
        filled = compaction.stored_defaults(spec, work.schema)
        form = table_writer.Form(work.schema, work.order, by_key(work.schema), work.partial, filled, work.plan.tombstones)
        parts, done = table_writer.write(self._storage, rows, form, directory, spec.name, keys.owners(base, work.schema))
        counts, ties = work.counts(done)
        note = repeated_keys.note(work.batch, counts)
        if not parts:
            return Staged(None, (), counts, ties, note=note)
        (made,) = parts.values()
        untouched = keys.not_owning(base, made.numbers)
        path, columns = relative(directory, spec.root), made.unavailable_columns
        delta = Delta(commit, path, made.rows, made.tombstones, made.files, *work.span, columns, untouched, filled, spec.soft)
        return Staged(delta, (), counts, ties, self._unresolved(work, [delta]) if columns else 0, note=note)

    def _write_base(self, work: Resolution, commit: str, purge_through: int) -> Staged:
        spec, parent = work.batch.spec, work.batch.parent
        keep = compaction.keeps_tombstones(spec, work.order, parent.offsets if parent else ())
        rows = compact.purged(work.rows, purge_through, work.schema, keep)
        placed = work.placed or segments.ONE
        form = segments.form_of(spec, work.schema, work.order, work.partial, work.plan.tombstones)
        made, done = segments.write(self._storage, rows, form, spec, commit, placed, work.batch.version, work.span)
        counts, ties = work.counts(done)
        unknown = self._unresolved(work, [segment for segment in made if segment.unavailable_columns])
        purged_to = compact.purged_to(work.rows, purge_through, keep, work.order, done)
        return Staged(None, tuple(made), counts, ties, unknown, purged_to, repeated_keys.note(work.batch, counts))

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        delta = TableReader(self._spark, spec.layout, snapshot, snapshot.schema).delta()
        if delta is None or not snapshot.segments:
            return {}
        delta = delta.coalesce(1) if snapshot.delta is not None and spec.in_one_task(snapshot.delta.size) else delta
        rows = delta.groupBy(named(segment_index(snapshot.segments, snapshot.schema), "i")).count().collect()
        return {snapshot.segments[row.i].id: row["count"] for row in rows}

    def hidden(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, list[int]]:
        return TableReader(self._spark, spec.layout, snapshot, snapshot.schema).hidden()

    def compact(self, spec: TableSpec, snapshot: Snapshot, targets: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        made = compact.compacted(self._spark, self._sessions.by_file, spec, snapshot, targets)
        return compact.write(self._storage, made, spec, snapshot, commit, purge_through)

    def erased_with(self, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
        return erase.erased_with(self._spark, spec, snapshot, keys)

    def without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[Staged, int]:
        schema, order = snapshot.schema, snapshot.order
        stored = TableReader(self._spark, spec.layout, snapshot, schema)
        rows, delta = stored.rows(snapshot.segments), stored.delta()
        rows, left_out = erase.stored_rows(compact.merged(rows, delta, spec, snapshot), schema, erased, spec)
        parts = compaction.segment_count(snapshot.size, snapshot.size, spec)
        placed = segments.placement(rows, schema, [(None, None, parts)], snapshot.rows)
        rows, version = placed.place(rows, schema), snapshot.version
        form = segments.form_of(spec, schema, order, snapshot.unavailable_columns)
        made, _ = segments.write(self._storage, rows, form, spec, commit, placed, version, snapshot.span)
        return Staged(None, tuple(made), {}), left_out

    def history_without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
        return history_parts.without(self._spark, self._storage, spec, snapshot, erased, commit)

    def records_of(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, erased: Erased
    ) -> dict[str, ErasedRecords]:
        # events of erased keys are looked for, not left out
        emptied = dataclasses.replace(snapshot.emptied(), erased=None)
        batch = self.read(erase.decides_all(spec), emptied, inputs, snapshot.version + 1, locations)
        with ExitStack() as scratch:
            scratch.callback(batch.close)
            erase.check_readable(spec, batch.summary)
            others = []
            if spec.container != "value":
                registry = self._schemas is not None
                others = erase.erased_places(spec, batch.summary.evolved, batch.unpacked, batch.frames, erased, registry)
            return erase.records(spec, batch.summary, batch.changes, batch.raws, [frame.rows for frame in batch.frames], erased, others)

    def write_without(self, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
        return rewrite.without(self._spark, self._storage, spec, location, records, staging)

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: Resolution | None) -> FeedPart | None:
        spark = resolution.batch.session if resolution is not None else self._spark
        return feed.write(spark, self._storage, spec, parent, made, resolution is not None and resolution.plan.small)

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        return feed.json_lines(self._spark, spec, snapshot)

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        return feed.check(self._spark, spec, parent, made)

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        try:
            return self._compared(spec, snapshot, inputs, locations, origin)
        except CompactorError:
            raise
        except Exception as error:
            failures.raise_environment_error(error)
            raise Refused(f"table {spec.name}: Spark failed while comparing: {failures.reason(error)}") from error

    def _compared(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None
    ) -> list[Check]:
        checks = [compare.compare_with_reference(self._spark, spec, snapshot)]
        if not inputs and origin is None:
            return [*checks, *self._history(spec, snapshot)]
        if origin is None and snapshot.erased is not None:
            # as a rebuild: a column, its type, or all rows may be known from erased records only
            origin = snapshot.emptied()
        try:
            return [*checks, *self._recomputed(spec, snapshot, inputs, locations, origin)]
        except OrderRefused:
            if origin is not None:
                raise
            # values that went to quarantine when the order had its type are no reason
            return [*checks, *self._recomputed(spec, snapshot, inputs, locations, snapshot.emptied())]

    def _recomputed(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None
    ) -> list[Check]:
        checks = []
        with self._rows(spec, origin, inputs, locations, snapshot.erased) as (schema, rows, batch, work):
            name, other = "view equals full recompute", "a resolve of the whole archive"
            checks.append(compare.view_against(self._spark, spec, spec.view, name, other, snapshot, schema, rows))
            if batch is not None:
                problem = not_usable_now(inputs, batch.summary.inputs, batch.summary.unusable) or _changed_files(inputs, batch.summary.inputs)
                checks.append(Check(spec.name, "ingested records", problem is None, problem or f"{batch.summary.read:,} read"))
            return [*checks, *self._history(spec, snapshot, inputs, work)]

    @contextmanager
    def _rows(
        self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], locations: InputLocations, erased: Erased | None = None
    ) -> Iterator[tuple[Schema, DataFrame, SparkBatch | None, Resolution | None]]:
        """Yield the states of `parent` after one batch of `inputs`, all limits off: columns, states, batch and Resolution.

        Without inputs the rows that `parent` shows, no batch and no Resolution.
        """
        if not inputs:
            assert parent is not None
            yield parent.schema, TableReader(self._spark, spec.layout, parent, parent.schema).live(spec.soft), None, None
            return
        with ExitStack() as scratch:
            batch = self.read(spec.unguarded, parent, inputs, parent.version + 1 if parent else 1, locations, erased=erased)
            scratch.callback(batch.close)
            work = resolve(batch, True, several_passes=True)
            scratch.callback(work.close)
            yield work.schema, work.rows, batch, work

    def _history(self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input] = (), work: Resolution | None = None) -> list[Check]:
        return history_check.check(self._spark, spec, snapshot, inputs, work) if spec.history and snapshot.history is not None else []

    def compare_live(self, spec: TableSpec, snapshot: Snapshot, waiting: Sequence[Input], locations: InputLocations) -> Check:
        with self._rows(spec, snapshot, waiting, locations) as (schema, rows, _, _):
            name, other = "live view equals the next version", "the rows after a run"
            return compare.view_against(self._spark, spec, live.name(spec), name, other, snapshot, schema, rows)

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        views.check_text(self._spark, view, tables)

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        return views.audit(self._spark, spec, snapshot, measured)

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        layout = spec.layout
        one, other = (TableReader(self._spark, layout, snapshot, snapshot.schema) for snapshot in (before, after))
        try:
            return compare.compare_snapshots(one, other, spec)
        except Exception as error:
            failures.raise_environment_error(error)
            try:
                other.live(spec.soft).write.format("noop").mode("overwrite").save()
            except Exception:
                raise Refused(f"table {spec.name}: Spark failed while comparing: {failures.reason(error)}") from error
            return Difference(unreadable=failures.reason(error))

    def write_history(self, resolution: Resolution, commit: str, staged: Staged) -> History:
        # where every event is applied, no key has two
        repeated = staged.counts["applied"] < resolution.summary.changes
        return history_commit.write(self._storage, resolution, commit, repeated)

    def _unresolved(self, work: Resolution, parts: Sequence[Segment | Delta]) -> int:
        """Count the values of visible rows that no event has carried."""
        folders = {work.batch.spec.layout.inside(folder.path): folder.size for part in parts for folder in part.folders if folder.state == LIVE}
        if not folders:
            return 0
        rows = table_writer.read(work.batch.session, work.summary.evolved.schema, work.summary.order, folders)
        unknown = named("sum(size(filter(map_values(_own), _e -> NOT _e.known)))", "n")
        return int(rows.where("_own IS NOT NULL").agg(unknown).collect()[0].n or 0)


def _changed_files(ingested: Sequence[Input], read: Sequence[Input]) -> str | None:
    """Return which raw files have another number of events than when they were ingested, or None."""
    events = {(item.path, item.etag): item.rows for item in read}
    problems = [problem for item in ingested if (problem := other_events(item.path, [item], events[item.path, item.etag]))]
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more if problems else None
