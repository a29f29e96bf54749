"""SparkEngine: the Engine port on Spark. Reads and actions happen here (and in `survey`, `store`); the steps themselves are pure."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core import increment
from compactor.core.errors import CheckFailed, CompactorError, InputRefused, NoRowsYet, OrderRefused, Refused
from compactor.core.evolution import evolve
from compactor.core.layout import Layout, join
from compactor.core.position import Position, at_or_below, latest
from compactor.core.schema import Schema
from compactor.core.snapshot import COUNTS, Delta, Input, Segment, Snapshot
from compactor.core.spec import TableSpec
from compactor.ports import Check, Facts, Staged, Storage
from compactor.spark import compare, files, keyless, position, store, survey
from compactor.spark.conform import conform, with_position, writer_positions
from compactor.spark.decode import debezium, flat, kafka
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import default_order, expression, flat_connector, flat_source
from compactor.spark.resolve import BASE, DELTA, EVENT, Resolver, union
from compactor.spark.sql import quoted
from compactor.spark.store import _expr

ENVELOPES = {"debezium": debezium.decode, "flat": flat.decode}
"""Where another envelope joins: one module under `decode/`, one entry here."""

_MAX_ROUNDS = 8
"""Key changes of one row followed within one run; a longer chain leaves its unavailable values unknown, and counted."""


@dataclass
class SparkBatch:
    """A batch of inputs as Changes, kept in Spark's cache until `close`."""

    facts: Facts
    spec: TableSpec
    parent: Snapshot | None
    version: int
    changes: DataFrame

    def close(self) -> None:
        """Let the cache go."""
        self.changes.unpersist()


class SparkEngine:
    """One Spark application; any number of tables at once."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._storage = storage

    # reading ------------------------------------------------------------------------------------------------------

    def read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int) -> SparkBatch:
        """Open, decode, survey, evolve, conform."""
        try:
            return self._read(spec, parent, inputs, version)
        except CompactorError:
            raise
        except Exception as error:
            raise self._blamed(spec, inputs, error) from error

    def _read(self, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], version: int) -> SparkBatch:
        frames = self._frames(spec, inputs)
        order = self._order(spec, parent, frames)
        placed = [with_position(frame, spec, order) for frame in frames]
        found = survey.counted(placed, spec, order)
        if found.truncate and spec.truncate == "fail":
            raise InputRefused(f"table {spec.name}: a TRUNCATE arrived and `truncate: fail` is set. Its increment stays in landing.")
        writers = writer_positions(found.writers, self._payload_writers(spec, placed))
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: {found.read} records landed, none with a row; they are taken with the first increment that has one")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name)
        if spec.keyless:
            contents = {} if any(name == "offset" for name, _ in order) else {item.path: self._digest(spec, item) for item in inputs}
            placed = [keyless.identified(frame, order, spec.epoch, spec.name, contents) for frame in placed]
        changes = conform(placed, evolved, spec, order, bool(found.partial))
        if found.unlinked and not spec.keyless:
            changes = _linked(changes, evolved.schema)
        truncate = found.truncate if spec.truncate == "apply" else None
        counted = tuple(
            dataclasses.replace(item, rows=found.files[item.path].rows, position_min=found.files[item.path].first, position_max=found.files[item.path].last)
            if item.path in found.files else item
            for item in inputs
        )
        first, last = [f.first for f in found.files.values()], [f.last for f in found.files.values()]
        from compactor.core.position import earliest

        facts = Facts(
            evolved, order, counted, found.read, found.ignored, found.read - found.ignored,
            tuple(sorted({evolved.columns[writer][name] for writer, name in found.partial if name in evolved.columns.get(writer, {})})), found.moves + found.unlinked, found.truncates,
            earliest(first), latest(last), truncate, found.source_time,
        )
        return SparkBatch(facts, spec, parent, version, changes.persist())

    def _frames(self, spec: TableSpec, inputs: Sequence[Input]) -> list[Frame]:
        by_format: dict[str, list[str]] = {}
        for item in inputs:
            kind = spec.format if spec.format != "auto" else increment.file_format(item.path)
            if kind is None:
                raise InputRefused(f"table {spec.name}: {join(spec.landing, item.path)}: the name tells no format; say `format: parquet|avro|json` for this table.")
            by_format.setdefault(kind, []).append(join(spec.landing, item.path))
        decode = ENVELOPES.get(spec.envelope)
        if decode is None:
            raise Refused(f"table {spec.name}: envelope {spec.envelope!r} is not supported yet; known are {', '.join(ENVELOPES)}")
        frames = []
        for kind, paths in by_format.items():
            for raw in files.read(self._spark, kind, spec.landing, paths):
                frame = decode(kafka.unpacked(raw, spec.container), spec)
                if frame.images is None:
                    frame = frame.parsed(survey.writers_of(self._spark, frame, spec.key))
                frames.append(flat.settled(frame, spec) if spec.envelope == "flat" else frame)
        return frames

    def _order(self, spec: TableSpec, parent: Snapshot | None, frames: Sequence[Frame]) -> tuple[tuple[str, str], ...]:
        images = frames[0].images or ("struct", ())
        if parent is not None:
            names = tuple(name for name, _ in parent.order)
            if spec.order_by and spec.order_by != names:
                raise OrderRefused(
                    f"table {spec.name}: order_by is {', '.join(spec.order_by)}, the table was built with {', '.join(names)}. "
                    "Positions of different orders cannot be compared: restore the setting, or rebuild the table."
                )
            return parent.order
        names = spec.order_by
        if not names:
            connector, offsets = survey.connector(frames)
            if spec.envelope == "flat":
                connector = flat_connector(flat_source(dict(images[1])))
            names = default_order(connector, offsets, spec.name)
            if spec.envelope == "flat" and "total_order" in names:
                names = tuple(name for name in names if name != "total_order")
        return tuple((name, str(expression(name, images, spec.name)[1][0])) for name in names)

    def _payload_writers(self, spec: TableSpec, frames: Sequence[Frame]) -> list[survey.WriterSchema]:
        writers = {}
        for frame in frames:
            op = flat.operation_column(spec, dict((frame.images or ("struct", ()))[1])) if spec.envelope == "flat" else None
            for known in frame.writers:
                fields = known.fields
                if spec.envelope == "flat":
                    fields = tuple(field for field in fields if not flat.is_metadata(field.name, spec, op))
                writers[known.id] = dataclasses.replace(known, fields=fields)
        return list(writers.values())

    def _digest(self, spec: TableSpec, item: Input) -> str:
        return hashlib.sha256(self._storage.read(join(spec.landing, item.path))).hexdigest()[:32]

    def _blamed(self, spec: TableSpec, inputs: Sequence[Input], error: Exception) -> CompactorError:
        """Which file made Spark fail: read each half alone until one file is left (H29). Other failures are passed on as they are."""
        paths = [join(spec.landing, item.path) for item in inputs]
        culprit = self._culprit(spec, paths)
        if culprit is None:
            return Refused(f"table {spec.name}: Spark failed: {files.reason(error)}")
        path, why = culprit
        return InputRefused(f"table {spec.name}: {path}: cannot be read ({why}). Nothing of this increment was absorbed. Repair or remove the file.")

    def _culprit(self, spec: TableSpec, paths: list[str]) -> tuple[str, str] | None:
        try:
            kind = spec.format if spec.format != "auto" else increment.file_format(paths[0]) or "json"
            for raw in files.read(self._spark, kind, spec.landing, paths):
                raw.rows.write.format("noop").mode("overwrite").save()
        except Exception as error:
            if len(paths) == 1:
                return paths[0], files.reason(error)
            half = len(paths) // 2
            return self._culprit(spec, paths[:half]) or self._culprit(spec, paths[half:])
        return None

    # writing ------------------------------------------------------------------------------------------------------

    def write_delta(self, batch: SparkBatch, commit: str) -> Staged:
        """A new Delta: the batch, the parent's Delta, and the base rows that must be compared."""
        parent = batch.parent
        assert parent is not None
        spec, facts = batch.spec, batch.facts
        resolver = Resolver(facts.evolved.schema, facts.order, batch.version, spec.keyless)
        layout = Layout(spec.root, spec.landing)
        events = resolver.states(batch.changes.where("_op <> 't'"))
        delta = self._delta(parent, facts.evolved.schema, facts.order, layout)
        stored = [delta.selectExpr("*", f"{DELTA} AS _source")] if delta is not None else []
        base = self._looked_up(batch, events, layout, resolver)
        if base is not None:
            stored.append(base.selectExpr("*", f"{BASE} AS _source"))
        return self._resolved(batch, resolver, events, stored, join(layout.delta(commit)), commit, layout, None)

    def write_base(self, batch: SparkBatch, commit: str, purge_through: int) -> Staged:
        """A whole new base: the batch and everything the parent holds."""
        spec, facts, parent = batch.spec, batch.facts, batch.parent
        schema = facts.evolved.schema
        resolver = Resolver(schema, facts.order, batch.version, spec.keyless)
        layout = Layout(spec.root, spec.landing)
        events = resolver.states(batch.changes.where("_op <> 't'"))
        stored = []
        if parent is not None:
            segments = [segment for segment in parent.segments if not at_or_below(segment.position_max, facts.truncate)]
            rows = store.read(self._spark, schema, facts.order, [layout.inside(segment.path) for segment in segments], parent.schema)
            stored.append(rows.selectExpr("*", f"{BASE} AS _source"))
            delta = self._delta(parent, schema, facts.order, layout)
            if delta is not None:
                stored.append(delta.selectExpr("*", f"{DELTA} AS _source"))
        estimate = (parent.size if parent else 0) + _estimated_bytes(schema, facts.changes)
        return self._resolved(batch, resolver, events, stored, layout.base(commit), commit, layout, (estimate, purge_through))

    def _resolved(
        self, batch: SparkBatch, resolver: Resolver, events: DataFrame, stored: list[DataFrame], directory: str, commit: str, layout: Layout,
        base: tuple[int, int] | None,
    ) -> Staged:
        spec, facts, parent = batch.spec, batch.facts, batch.parent
        barrier = latest([facts.truncate, parent.truncated_to if parent else None])
        gone = f"_position <= {position.fixed(barrier, facts.order)}" if barrier else "false"
        states = union([events, *stored])
        outcomes = resolver.outcomes(states.where(f"NOT ({gone})"), self._partial(batch)).persist()
        try:
            counts, ties = self._counts(batch, outcomes, events, gone)
            heads = self._moved(batch, resolver, resolver.heads(outcomes), gone)
            if spec.keyless:
                heads = keyless.matched(heads, resolver.schema, batch.version)
            heads = self._beyond(batch, heads, counts)
            if base is None:
                # a looked-up base row that stayed as it was belongs to the base, not into the Delta
                return self._staged_delta(batch, heads.where(f"_source <> {BASE} OR _filled"), directory, commit, counts, ties)
            return self._staged_base(batch, resolver, heads, directory, commit, counts, ties, base)
        finally:
            outcomes.unpersist()

    def _partial(self, batch: SparkBatch) -> tuple[str, ...]:
        """The columns that need registers of their own: changes that do not tell them, or late changes that meet rows which do not."""
        parent = batch.parent
        if batch.spec.keyless:
            return ()
        stored = parent.partial if parent else ()
        late = parent is not None and at_or_below(batch.facts.first, parent.position_max)
        return tuple(sorted({*batch.facts.partial, *stored})) if batch.facts.partial or (stored and late) else ()

    def _moved(self, batch: SparkBatch, resolver: Resolver, heads: DataFrame, gone: str) -> DataFrame:
        """Let values follow key changes, as many steps as there were key changes in this batch (and one for late values)."""
        parent = batch.parent
        if not self._partial(batch):
            return heads
        late = parent is not None and at_or_below(batch.facts.first, parent.position_max)
        rounds = min(batch.facts.moves + (1 if late else 0), _MAX_ROUNDS)
        layout = Layout(batch.spec.root, batch.spec.landing)
        for _ in range(rounds):
            fills = resolver.fills(heads, self._partial(batch))
            frames = [heads.drop("_filled"), fills]
            base = self._rows_of(batch, fills, layout, resolver) if parent is not None else None
            if base is not None:
                known = heads.select(*resolver.keys)
                frames.append(base.join(known, list(resolver.schema.key), "left_anti").selectExpr("*", f"{BASE} AS _source"))
            heads = resolver.heads(resolver.outcomes(union(frames).where(f"NOT ({gone})"), self._partial(batch)))
        return heads

    def _beyond(self, batch: SparkBatch, heads: DataFrame, counts: dict[str, int]) -> DataFrame:
        """H12: a change older than purged tombstones, with no stored row, may be one that a purged delete had ended."""
        purged = batch.parent.purged_to if batch.parent else None
        if purged is None or not at_or_below(batch.facts.first, purged):
            return heads
        old = f"_source = {EVENT} AND _position <= {position.fixed(purged, batch.facts.order)}"
        found = heads.where(old).count()
        if found and batch.spec.beyond_retention != "apply":
            raise InputRefused(
                f"table {batch.spec.name}: {found} changes are older than tombstones that were purged (tombstone_retention); whether they were deleted since cannot be "
                "known. They stay in landing. Say `beyond_retention: apply` to insert them, or remove the files."
            )
        return heads

    def _counts(self, batch: SparkBatch, outcomes: DataFrame, events: DataFrame, gone: str) -> tuple[dict[str, int], int]:
        rows = outcomes.where(f"_source = {EVENT}").groupBy("_outcome").agg(_expr("count(1)", "n"), _expr("count_if(_tie)", "t")).collect()
        counts = {name: 0 for name in COUNTS}
        counts.update({row["_outcome"]: row.n for row in rows})
        # truncates themselves are applied; what lies at or below the barrier is superseded by it
        counts["superseded"] += 0 if gone == "false" else events.where(f"_source = {EVENT} AND ({gone})").count()
        counts["applied"] += batch.facts.truncates
        counts["ignored"] = batch.facts.ignored
        if sum(counts.values()) != batch.facts.read:
            raise CheckFailed(f"table {batch.spec.name}: {batch.facts.read} events read, but {counts} add up to {sum(counts.values())}. Nothing was committed.")
        return counts, sum(row.t for row in rows)

    def _staged_delta(self, batch: SparkBatch, heads: DataFrame, directory: str, commit: str, counts: dict[str, int], ties: int) -> Staged:
        spec, facts = batch.spec, batch.facts
        store.write(heads, facts.evolved.schema, directory)
        found = store.inspect(self._spark, self._storage, facts.evolved.schema, facts.order, directory, spec.name)
        if not found:
            return Staged(None, (), counts, ties)
        written = found[0]
        path = Layout("", "").delta(commit).lstrip("/")
        delta = Delta(commit, path, written.rows, written.tombstones, written.files, written.position_min, written.position_max, written.partial)
        return Staged(delta, (), counts, ties, self._unresolved(batch, directory) if written.partial else 0)

    def _unresolved(self, batch: SparkBatch, directory: str) -> int:
        rows = store.read(self._spark, batch.facts.evolved.schema, batch.facts.order, [directory])
        cells = rows.where("_op <> 'd' AND _older IS NOT NULL").agg(_expr("sum(size(filter(map_values(_older), _e -> NOT _e.known)))", "n")).collect()[0].n
        if cells and batch.spec.unresolved == "fail":
            raise CheckFailed(f"table {batch.spec.name}: {cells} values were not sent by the source and are not known from earlier changes (`unresolved: fail`). Nothing was committed.")
        return cells or 0

    def _staged_base(
        self, batch: SparkBatch, resolver: Resolver, heads: DataFrame, directory: str, commit: str, counts: dict[str, int], ties: int, base: tuple[int, int],
    ) -> Staged:
        estimate, purge_through = base
        facts, spec = batch.facts, batch.spec
        rows, purged = _purged(heads, purge_through, facts.order)
        count = max(1, -(-estimate // max(spec.target_file_bytes, estimate // 1000, 1)))
        segments = self._write_segments(rows, resolver.schema, facts.order, directory, commit, [(None, None, count)], batch.version, spec.name)
        unresolved = sum(self._unresolved(batch, directory + "/" + segment.path.rpartition("/")[2]) for segment in segments if segment.partial)
        return Staged(None, tuple(segments), counts, ties, unresolved, purged)

    def _write_segments(
        self, rows: DataFrame, schema: Schema, order: position.Order, directory: str, commit: str, ranges: Sequence[tuple[object, object, int]], through: int, table: str,
    ) -> list[Segment]:
        """Write rows (with `_run` when there are several ranges) as Segments that tile each range (low, high, number of segments)."""
        keys = [quoted(name) for name in schema.key]
        many = len(ranges) > 1
        total = sum(count for _, _, count in ranges)
        spread = rows.repartitionByRange(total, *(["_run"] if many else []), *keys) if total > 1 else rows.coalesce(1)
        run = "_run" if many else "0"
        store.write(spread.selectExpr("*", f"concat({run}, '-', lpad(spark_partition_id(), 5, '0')) AS segment"), schema, directory, by_segment=True)
        found = store.inspect(self._spark, self._storage, schema, order, directory, table)
        out = []
        for at, (low, high, _) in enumerate(ranges):
            mine = [written for written in found if written.name.startswith(f"segment={at}-")]
            for index, written in enumerate(mine):
                begin = low if index == 0 else written.key_min
                end = high if index == len(mine) - 1 else mine[index + 1].key_min
                path = join("base", commit, written.name)
                out.append(Segment(f"{commit}.{written.name.partition('=')[2]}", path, written.rows, written.tombstones, written.files, begin, end,  # type: ignore[arg-type]
                                   written.position_min, written.position_max, through, written.partial))
        return out

    # what is stored -----------------------------------------------------------------------------------------------

    def _delta(self, parent: Snapshot, schema: Schema, order: position.Order, layout: Layout) -> DataFrame | None:
        """The parent's Delta without the rows that a fold has already put into the base (H16)."""
        if parent.delta is None:
            return None
        rows = store.read(self._spark, schema, order, [layout.inside(parent.delta.path)], parent.schema)
        through = [segment.folded_through for segment in parent.segments]
        if not through:
            return rows
        if len(set(through)) == 1:
            return rows.where(f"_version > {through[0]}")
        index = store.segment_index(parent.segments, schema)
        table = ", ".join(f"{value}L" for value in through)
        return rows.where(f"_version > get(array({table}), {index})")

    def _looked_up(self, batch: SparkBatch, events: DataFrame, layout: Layout, resolver: Resolver) -> DataFrame | None:
        """The base rows that this batch must be compared with: H8 says which keys."""
        parent, facts = batch.parent, batch.facts
        assert parent is not None
        if batch.spec.keyless:
            return self._looked_up_keyless(batch, events, layout, resolver)
        if self._partial(batch):
            return self._rows_of(batch, events, layout, resolver)
        bound = latest([segment.position_max for segment in parent.segments])
        if not at_or_below(facts.first, bound) or bound is None:
            return None
        return self._rows_of(batch, events.where(f"_position <= {position.fixed(bound, facts.order)}"), layout, resolver)

    def _rows_of(self, batch: SparkBatch, wanted: DataFrame, layout: Layout, resolver: Resolver) -> DataFrame | None:
        """Base rows of these keys, out of the segments that own them."""
        parent = batch.parent
        assert parent is not None
        keys = wanted.select(*resolver.keys).distinct()
        segments = parent.segments
        if len(segments) > 1:
            owners = {row[0] for row in keys.selectExpr(f"{store.segment_index(segments, resolver.schema)} AS i").distinct().collect()}
            segments = tuple(segment for at, segment in enumerate(segments) if at in owners)
        if not segments:
            return None
        rows = store.read(self._spark, resolver.schema, batch.facts.order, [layout.inside(segment.path) for segment in segments], parent.schema)
        return rows.join(keys, list(resolver.schema.key), "left_semi")

    def _looked_up_keyless(self, batch: SparkBatch, events: DataFrame, layout: Layout, resolver: Resolver) -> DataFrame | None:
        """Rows that a removal may take away or an identity may already be, and removals that wait in the base."""
        parent = batch.parent
        assert parent is not None
        if not parent.segments:
            return None
        rows = store.read(self._spark, resolver.schema, batch.facts.order, [layout.inside(segment.path) for segment in parent.segments], parent.schema)
        wanted = [rows.join(events.select(*resolver.keys).distinct(), list(resolver.schema.key), "left_semi")]
        removals = events.where(f"_from = '{keyless.REMOVAL}'").selectExpr(f"{keyless.content(resolver.schema)} AS _c").distinct()
        content = rows.selectExpr("*", f"{keyless.content(resolver.schema)} AS _c")
        wanted.append(content.where("_op = 'u'").join(removals, ["_c"], "left_semi").drop("_c"))
        if any(segment.tombstones for segment in parent.segments):
            wanted.append(rows.where(keyless.waiting()))
        return union(wanted).dropDuplicates(list(resolver.schema.key))

    # folding ------------------------------------------------------------------------------------------------------

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Delta rows per segment that are not folded yet."""
        delta = self._delta(snapshot, snapshot.schema, snapshot.order, Layout(spec.root, spec.landing))
        if delta is None or not snapshot.segments:
            return {}
        rows = delta.groupBy(_expr(store.segment_index(snapshot.segments, snapshot.schema), "i")).count().collect()
        return {snapshot.segments[row.i].id: row["count"] for row in rows}

    def fold(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments over the ranges of these: their rows resolved with their share of the Delta."""
        schema, order = snapshot.schema, snapshot.order
        layout = Layout(spec.root, spec.landing)
        resolver = Resolver(schema, order, snapshot.version, spec.keyless)
        wanted = {segment.id for segment in segments}
        at = [index for index, segment in enumerate(snapshot.segments) if segment.id in wanted]
        runs = _runs(at)
        base = store.read(self._spark, schema, order, [layout.inside(segment.path) for segment in segments])
        index = store.segment_index(snapshot.segments, schema)
        frames = [base.selectExpr("*", f"{BASE} AS _source")]
        delta = self._delta(snapshot, schema, order, layout)
        if delta is not None:
            frames.append(delta.where(f"{index} IN ({', '.join(str(i) for i in at)})").selectExpr("*", f"{DELTA} AS _source"))
        partial = () if spec.keyless else snapshot.partial
        states = union(frames).selectExpr("*", "CAST(NULL AS STRING) AS _file", "CAST(NULL AS STRING) AS _link")
        heads = resolver.heads(resolver.outcomes(states, partial))
        if partial:
            # folding changes no register, so it must not look like a change
            heads = heads.drop("_filled")
        rows, purged = _purged(heads.persist(), purge_through, order)
        try:
            case = " ".join(f"WHEN {index} BETWEEN {run[0]} AND {run[-1]} THEN {number}" for number, run in enumerate(runs))
            ranges = []
            for run in runs:
                size = sum(snapshot.segments[i].size for i in run) + (snapshot.delta.size if snapshot.delta else 0) // max(1, len(runs))
                target = max(spec.target_file_bytes, snapshot.size // 1000)
                ranges.append((snapshot.segments[run[0]].low, snapshot.segments[run[-1]].high, max(1, round(size / target))))
            tagged = rows.selectExpr("*", f"CASE {case} END AS _run") if len(runs) > 1 else rows
            through = snapshot.version
            written = self._write_segments(tagged, schema, order, layout.base(commit), commit, ranges, through, spec.name)
        finally:
            heads.unpersist()
        return Staged(None, tuple(written), {}, purged_to=purged)


    def compare(self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[tuple[str, str]]) -> list[Check]:
        """The view against its reference definition and against one resolve of all inputs."""
        checks = [compare.against_reference(self._spark, spec, snapshot)]
        locations = [location for _, location in inputs]
        root = spec.root if all(location.startswith(join(spec.root) + "/") for location in locations) else "/"
        again = dataclasses.replace(spec, landing=root)
        found = [Input(location[len(root.rstrip("/")) + 1 :], 0, "", "", None) for location in locations]
        batch = self.read(again, None, found, 1)
        try:
            resolver = Resolver(batch.facts.evolved.schema, batch.facts.order, 1, spec.keyless)
            barrier = batch.facts.truncate
            gone = f"_position <= {position.fixed(barrier, batch.facts.order)}" if barrier else "false"
            outcomes = resolver.outcomes(resolver.states(batch.changes.where("_op <> 't'")).where(f"NOT ({gone})"), self._partial(batch))
            heads = self._moved(batch, resolver, resolver.heads(outcomes), gone)
            heads = keyless.matched(heads, resolver.schema, 1) if spec.keyless else heads
            return [*checks, compare.against_history(self._spark, spec, snapshot, resolver, heads)]
        finally:
            batch.close()


def _runs(indexes: list[int]) -> list[list[int]]:
    """Neighbouring numbers together: [1, 2, 5] → [[1, 2], [5]]."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _purged(heads: DataFrame, purge_through: int, order: position.Order) -> tuple[DataFrame, Position | None]:
    """Rows without tombstones of versions ≤ `purge_through`, and the greatest Position purged."""
    if purge_through <= 0:
        return heads, None
    old = f"_op = 'd' AND _version <= {purge_through}"
    found = heads.where(old).agg(_expr("max(_position)", "p")).collect()[0].p
    return heads.where(f"NOT ({old})"), position.from_row(found)


def _linked(changes: DataFrame, schema: Schema) -> DataFrame:
    """Creates with unavailable values and no header: the delete with the same transaction and LSN is the other half of the key change."""
    from compactor.spark.conform import key_text

    kinds = [schema.field(name).type for name in schema.key]
    keys = [quoted(name) for name in schema.key]
    deletes = changes.where("_op = 'd' AND _link IS NOT NULL").groupBy("_link").agg(_expr(f"first({key_text(keys, kinds)})", "_left"), _expr(f"count(DISTINCT {key_text(keys, kinds)})", "_n"))
    joined = changes.join(deletes.where("_n = 1"), ["_link"], "left")
    found = f"CASE WHEN _op = 'c' AND size(_missing) > 0 AND _left <> {key_text(keys, kinds)} THEN _left END"
    keep = [quoted(name) for name in changes.columns if name != "_from"]
    return joined.selectExpr(*keep, f"coalesce(_from, {found}) AS _from")


def _estimated_bytes(schema: Schema, rows: int) -> int:
    """A guess at compressed Parquet bytes, for choosing the number of segments before anything is written."""
    widths = {"string": 20, "binary": 40, "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
    return rows * (8 + sum(widths.get(field.type, 8) for field in schema.fields)) // 2
