"""Write the history of one commit: look up the stored events of the batch's keys, merge the batch into them, and write the result.

Of a key only its last event is read, unless something of the batch lies before that. Then its later events are read too, out of the closed parts
that reach so far. A closed part is written again only if one of its events changes.

The usual batch comes after all that is stored. Then this is one broadcast of its keys, and one pass that looks up, computes and writes
(`_Work.following`). All others are worked on in steps (`_Work.merged`), whose result is the same.

In: a Resolution. Out: the table's new History; its parts hold stored events (`history/versions.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.history import History, HistoryPart, Truncated, rules, to_merge
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import Snapshot
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import POSITION, TO
from compactor.spark.history import event_times, plan
from compactor.spark.history.parts import DAY, DELTA_PART, OPEN_PART, Parts, Writer, assembled
from compactor.spark.history.plan import Plan
from compactor.spark.history.versions import CLOSED, MOVED, MOVED_TO, OPEN, Versions
from compactor.spark.keys import key_columns, key_types
from compactor.spark.rows import position
from compactor.spark.rows.carry import MAX_ROUNDS
from compactor.spark.rows.reduce import NEWEST, union
from compactor.spark.rows.resolution import Resolution
from compactor.spark.sql import DIGEST, literal, named, quoted
from compactor.spark.tables import table_writer
from compactor.spark.tables.table_reader import TableReader


def write(spark: SparkSession, storage: Storage, batch: Resolution, commit: str, repeated: bool) -> History:
    """Write the history of a batch and return the table's new history.

    `repeated`: whether some event of the batch occurs twice, or ties with another one. Raises Refused for unknown columns in `track`, InputRefused if
    a change has no time, CheckFailed if what was written is wrong.
    """
    work = _Work(spark, storage, batch, commit, _versions(batch), batch.layout, Plan(batch))
    try:
        return work.written(work.following(repeated) if work.plan.follows else work.merged())
    finally:
        work.free()


@contextmanager
def recomputed(spark: SparkSession, storage: Storage, batch: Resolution) -> Iterator[DataFrame]:
    """Compute the stored events after a batch on a table without a history, without writing them. The rows are valid inside the context."""
    work = _Work(spark, storage, batch, "", _versions(batch), batch.layout, Plan(batch))
    try:
        yield work.merged().rows
    finally:
        work.free()


def _versions(batch: Resolution) -> Versions:
    spec, schema = batch.spec, batch.summary.evolved.schema
    sources = {field.source: field.name for field in schema.payload}
    unknown = sorted({*spec.track} - set(sources))
    if unknown:
        raise Refused(f"table {spec.name}: `track` names {unknown[0]}, which is not a column of the table. Its columns are: {', '.join(sources)}.")
    columns = [stored for name, stored in sources.items() if not spec.track or name in spec.track]
    return Versions(schema, batch.summary.order, batch.version, columns)


@dataclass(frozen=True)
class _Merged:
    """The stored events of the keys of a batch, merged with it."""

    rows: DataFrame
    """The events as they are to be stored."""
    loaded: DataFrame
    """The stored events that were read."""
    keys: DataFrame
    """The keys, with `__first` unless `following`."""
    removed: list[HistoryPart]
    """The closed parts that these events replace."""
    kept: History
    """The history that the new parts are added to."""
    following: bool = False
    """Whether all rows are to be written, and the pass that writes computes them (`_Work.following`)."""


@dataclass(frozen=True)
class _Work:
    """The work on one batch; `cached` are the rows to free at the end."""

    spark: SparkSession
    storage: Storage
    batch: Resolution
    commit: str
    versions: Versions
    layout: Layout
    plan: Plan
    cached: list[DataFrame] = dataclasses.field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return list(self.versions.schema.key)

    def parts(self) -> Parts:
        parent = self.batch.parent
        return Parts(self.spark, self.layout, self.versions, parent.schema if parent else self.versions.schema)

    def _materialize(self, rows: DataFrame) -> DataFrame:
        self.cached.append(measured.materialize(rows))
        return self.cached[-1]

    def free(self) -> None:
        """Free the cached rows."""
        for rows in self.cached:
            measured.release(rows)

    def following(self, repeated: bool) -> _Merged:
        """Merge a batch whose events come after all stored ones. Spark computes the rows later, in the pass that writes them.

        Nothing is materialized: of the stored events only the last ones of the batch's keys are needed, and only their ends change.
        """
        stored, versions, changes = self.plan.stored, self.versions, self.batch.changes
        events = versions.events(event_times.timed(changes, self.batch))
        keys = changes.select(*versions.keys)
        last = []
        if stored is not None:
            # a broadcast is one job, and all look-ups share it
            keys = keys.hint("broadcast") if self.plan.small else keys
            last = self.parts().last(stored, keys)
            if self.plan.small and not self.batch.spec.in_one_task(sum(part.size for part in stored.open)):
                # the look-up stays on all cores
                last[0] = last[0].repartition(1)
        rows = versions.together(versions.deduplicate(events) if repeated else events, last)
        rows = versions.following(rows.coalesce(1) if self.plan.small else rows, len(last) > 1)
        return _Merged(rows, rows, keys, self._removed(rows, rows, ()), self._kept(), True)

    def merged(self) -> _Merged:
        """Look up the stored events of the batch's keys, and merge the batch into them."""
        stored, summary, versions = self.plan.stored, self.batch.summary, self.versions
        changes, linked = self.batch.changes, self.batch.linked
        timed = event_times.timed(changes if linked is None else linked.unionByName(changes.where("_op = 't'")), self.batch)
        truncates, new, moved = self._surveyed(timed)
        events = versions.events(timed.where("_op <> 't'"))
        events = self._materialize(events.unionByName(versions.ends(events)))
        partial = tuple(sorted({*summary.unavailable_columns, *(stored.unavailable_columns if stored else ())}))
        moves = moved or (stored.moves if stored else False)
        keys = self._keys_of(events, timed, new)
        loaded, reach = self._stored(keys)
        if partial and moves and not self.plan.whole:
            keys, loaded, reach = self._reached(events, keys, loaded, reach)
        loaded = self._materialize(loaded)
        rows = union([events.join(keys, self.keys, "left"), loaded])
        if truncates:
            rows = rows.unionByName(versions.truncated(keys, truncates).join(keys, self.keys, "left"), allowMissingColumns=True)
        if partial:
            rows = self._with_first(versions.link(rows), keys)
        # where a default moved, versions of any event may begin elsewhere
        frozen = "false" if self.plan.other_defaults else versions.frozen
        rows = versions.deduplicate(rows).selectExpr("*", f"{frozen} AS __frozen")
        made = self._materialize(versions.versions(self._filled(rows, partial, moves)))
        kept = dataclasses.replace(self._kept(), truncates=truncates, unavailable_columns=partial, moves=moves)
        return _Merged(made, loaded, keys, self._removed(made, loaded, reach), kept)

    # what there is ------------------------------------------------------------------------------------------------

    def _surveyed(self, timed: DataFrame) -> tuple[tuple[Truncated, ...], tuple[Truncated, ...], bool]:
        """Return all truncates, those of the batch, and whether a key changes in the batch. Raises InputRefused for changes without a time."""
        summary, spec = self.batch.summary, self.batch.spec
        # a barrier without a time of its own: the beginning of an epoch, or a truncate whose record has none
        after = f"_position >= {position.fixed(summary.truncate, summary.order)}" if summary.truncate else "false"
        row = timed.agg(
            named("count_if(_op <> 't' AND _time IS NULL)", "timeless"),
            named("min(CASE WHEN _time IS NULL THEN _file END)", "file"),
            named("collect_list(CASE WHEN _op = 't' THEN struct(_position AS p, _time AS t) END)", "truncates"),
            named(f"coalesce(min(CASE WHEN {after} THEN _time END), max(_time))", "first"),
            named("max(_from IS NOT NULL OR (_op = 'c' AND size(_missing) > 0 AND _link IS NOT NULL))", "moved"),
        ).collect()[0]
        event_times.check(spec, row.timeless, row.file)
        barriers = [(position.from_row(truncate.p), truncate.t) for truncate in row.truncates] if spec.truncate == "apply" else []
        if summary.truncate is not None and not any(
            plan.event(at, summary.order) == plan.event(summary.truncate, summary.order) for at, _ in barriers
        ):
            barriers.append((summary.truncate, row.first))
        stored = self.plan.stored.truncates if self.plan.stored else _truncated_before(self.batch.parent)
        events = {plan.event(one.position, summary.order) for one in stored}
        new: list[Truncated] = []
        for at, time in barriers:
            if at is not None and plan.event(at, summary.order) not in events:
                events.add(plan.event(at, summary.order))
                new.append(Truncated(at, time if time is not None else row.first or 0))
        return (*stored, *new), tuple(new), bool(row.moved)

    def _keys_of(self, events: DataFrame, timed: DataFrame, new: Sequence[Truncated]) -> DataFrame:
        """Return the keys to work on, with `__first`: the earliest event of each that is new."""
        versions, stored = self.versions, self.plan.stored
        frames = [events.selectExpr(*versions.keys, f"{versions.event()} AS __first")]
        if TO in timed.columns:
            names = key_columns(TO, key_types(versions.schema))
            went = [f"{value} AS {quoted(name)}" for name, value in zip(versions.schema.key, names)]
            frames.append(timed.where("_to IS NOT NULL").selectExpr(*went, f"{versions.event()} AS __first"))
        order = self.batch.summary.order
        for one in new:
            at = position.fixed(one.position, order)
            if stored is None or self.plan.whole:
                rows = self._everything()
            else:
                reach = [part for part in stored.closed if plan.reaches(part.last, one.position, order)]
                rows = union([self.parts().open(stored, None).drop("__origin", "__digest"), self.parts().rows(reach)])
            met = rows.where(f"_position < {at} AND (__end_position IS NULL OR __end_position > {at})")
            frames.append(met.selectExpr(*versions.keys, f"{versions.event(at)} AS __first"))
        return self._materialize(_earliest(union(frames), versions))

    def _stored(self, keys: DataFrame) -> tuple[DataFrame, list[HistoryPart]]:
        """Return the stored events of these keys that the batch may change, and the closed parts that were read."""
        stored, parts, versions, order = self.plan.stored, self.parts(), self.versions, self.batch.summary.order
        if stored is None or self.plan.whole:
            return self._everything().join(keys, self.keys, "left"), list(stored.closed) if stored else []
        rows = parts.open(stored, keys)
        if not stored.closed:
            return rows, []
        # events are late where a key's last event does not come before its first new one; the earliest of these decides what to read
        rows = self._materialize(rows)
        late = rows.where(f"__first <= {versions.event()}").agg(named("min(__first)", "first")).collect()[0].first
        reach = [part for part in stored.closed if late is not None and plan.reaches(part.last, tuple(late), order)]
        if not reach:
            return rows, []
        closed = parts.loaded(parts.rows(reach, keys), CLOSED)
        return rows.unionByName(closed.where(f"{versions.event('__end_position')} >= __first")), reach

    def _everything(self) -> DataFrame:
        """Return all stored events, or the rows of the table where the history begins."""
        stored, parts = self.plan.stored, self.parts()
        if stored is None:
            return self._seeds()
        return union([parts.open(stored, None), parts.loaded(parts.rows(stored.closed), CLOSED)])

    def _seeds(self) -> DataFrame:
        """Return the rows of a table that exists when its history begins. Each begins at its own time, else at the newest time the table has."""
        parent, versions = self.batch.parent, self.versions
        if parent is None:
            none = table_writer.read(self.spark, versions.schema, self.batch.summary.order, {})
            return versions.seeds(none.selectExpr("*", f"{NEWEST} AS _position"), "0L")
        reader = TableReader(self.spark, self.layout, parent, versions.schema)
        base, delta = reader.base(None), reader.delta()
        if delta is not None:
            base = base.join(delta.select(*versions.keys), self.keys, "left_anti").unionByName(delta)
        base = base.selectExpr("*", f"{NEWEST} AS _position")
        return versions.seeds(base, f"coalesce({', '.join([*event_times.ordered_by_time(self.batch), f'{times.to_micros(_since(parent))}L'])}, NULL)")

    def _reached(
        self, events: DataFrame, keys: DataFrame, loaded: DataFrame, reach: list[HistoryPart]
    ) -> tuple[DataFrame, DataFrame, list[HistoryPart]]:
        """Add the keys that rows moved to, if they may now hold other values: a change of the old key is carried along, through chains too."""
        versions, digest = self.versions, None
        went = [f"{value} AS {quoted(name)}" for name, value in zip(versions.schema.key, key_columns(MOVED_TO, key_types(versions.schema)))]
        columns = [MOVED_TO, f"{versions.event()} AS __e"]
        fresh = events.where(MOVED).selectExpr(*columns)
        for _ in range(MAX_ROUNDS):
            # materialize before filtering: Spark's optimizer loses members of structs that it moves through joins
            old = self._materialize(loaded.where(MOVED).selectExpr(*columns, "__first")).where("__e >= __first").drop("__first")
            more = fresh.unionByName(old).selectExpr(*went, "__e AS __first")
            keys = self._materialize(_earliest(keys.unionByName(more), versions))
            before, digest = digest, keys.agg(named(DIGEST, "s")).collect()[0].s
            if digest == before:
                break
            loaded, reach = self._stored(keys)
        return keys, loaded, reach

    # what becomes of it -------------------------------------------------------------------------------------------

    def _with_first(self, rows: DataFrame, keys: DataFrame) -> DataFrame:
        return rows.drop("__first").join(keys, self.keys, "left")

    def _filled(self, rows: DataFrame, partial: Sequence[str], moves: bool) -> DataFrame:
        versions = self.versions
        if not (partial and moves):
            return versions.fill(rows, partial)
        rows, digest = self._materialize(versions.with_stored_carried(rows, partial)), None
        for _ in range(MAX_ROUNDS):
            filled = versions.fill(rows, partial)
            rows = self._materialize(versions.carry(rows, filled, partial))
            before, digest = digest, rows.agg(named(DIGEST, "s")).collect()[0].s
            if digest == before:
                break
        return versions.fill(rows, partial)

    def _removed(self, made: DataFrame, loaded: DataFrame, reach: Sequence[HistoryPart]) -> list[HistoryPart]:
        """Return the closed parts to replace: those with an event that changed, and small ones that are merged."""
        stored = self.plan.stored
        if stored is None or self.plan.whole:
            return list(stored.closed) if stored else []
        touched: set[str] = set()
        if reach:
            same = made.where("__same").select(*self.versions.keys, POSITION)
            changed = loaded.where(f"__origin = {CLOSED}").join(same, [*self.keys, POSITION], "left_anti")
            touched = {row[0] for row in changed.select("__part").distinct().collect()}
        merged = {part.id for part in to_merge(part for part in stored.closed if part.path not in touched)}
        return [part for part in stored.closed if part.path in touched or part.id in merged]

    def _kept(self) -> History:
        """Return the history that the new parts are added to."""
        spec, parent = self.batch.spec, self.batch.parent
        now = rules(spec.track)
        if self.plan.stored is not None:
            return dataclasses.replace(self.plan.stored, rules=now if self.plan.stored.rules == now else "")
        return History(f"{self.commit}.closed", (), f"{self.commit}.open", (), None, since=_since(parent) if parent else None, rules=now)

    def written(self, merged: _Merged) -> History:
        """Write the events that changed: ended ones into closed parts, last ones into the Delta or, if a compaction is due, into open parts."""
        made, keys, removed, kept = merged.rows, merged.keys, merged.removed, merged.kept
        parts, versions, spec = self.parts(), self.versions, self.batch.spec
        columns = [quoted(name) for name, _ in versions.stored]
        frames = [made.where(self._changed(merged)).selectExpr(*columns)]
        if removed and not self.plan.whole:
            rest = parts.rows(removed).selectExpr(*columns)
            if not merged.following:
                mine = merged.loaded.where(f"__origin = {CLOSED}").select(*versions.keys, POSITION)
                rest = rest.join(mine, [*self.keys, POSITION], "left_anti")
            frames.append(rest)
        if kept.delta and not self.plan.whole:
            frames.append(parts.rows([kept.delta]).selectExpr(*columns).join(keys.select(*versions.keys), self.keys, "left_anti"))
        writer = Writer(self.spark, self.storage, self.layout, versions, self.commit, spec.name)
        if self.plan.compact and kept.open and not self.plan.whole:
            frames = [self._materialize(union(frames))]
            others = parts.rows(kept.open).selectExpr(*columns)
            frames.append(others.join(frames[0].where("__end_position IS NULL").select(*versions.keys), self.keys, "left_anti"))
        rows = union(frames)
        if self.plan.one_pass(removed):
            counted = writer.write_once(self._in_one_task(_with_part(rows, OPEN_PART if self.plan.compact else DELTA_PART)), event_times.TIMELESS)
            if merged.following and counted is not None:
                event_times.check(spec, counted["timeless"], counted["file"])
            return assembled(kept, writer.written(counted, merged.following), removed, self.plan.compact, self.commit)
        about = self.plan.about(removed)
        if self.plan.compact:
            writer.write(_with_part(rows.where("__end_position IS NOT NULL"), ""), about)
            writer.write_open(rows.where("__end_position IS NULL"), self.plan.segments)
        else:
            writer.write(_with_part(rows, DELTA_PART), about + (kept.delta.rows if kept.delta else 0))
        return assembled(kept, writer.written(), removed, self.plan.compact, self.commit)

    def _changed(self, merged: _Merged) -> str:
        """SQL: whether a row of `merged` is to be written."""
        if merged.following:
            return "true"
        gone = ", ".join(literal(part.path) for part in merged.removed)
        moving = f"__origin <> {CLOSED}" + (f" OR __part IN ({gone})" if gone else "")
        # a row of an open part that did not change stays there
        stays = "false" if self.plan.whole else f"__origin = {OPEN} AND __same"
        return f"CASE WHEN __end_position IS NULL THEN NOT ({stays}) ELSE {moving} END"

    def _in_one_task(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if self.plan.small else rows.repartition(1)


def _with_part(rows: DataFrame, last: str) -> DataFrame:
    """Return stored events with the name of their part: the day of their end, or `last` for last events."""
    return rows.selectExpr("*", f"CASE WHEN __end_position IS NULL THEN '{last}' ELSE {DAY} END AS history_part")


def _earliest(rows: DataFrame, versions: Versions) -> DataFrame:
    return rows.groupBy(*versions.keys).agg(named("min(__first)", "__first"))


def _truncated_before(parent: Snapshot | None) -> tuple[Truncated, ...]:
    """Return the last truncate of a table without a history: events below it are in no version, however late they arrive."""
    if parent is None or parent.truncated_to is None:
        return ()
    return (Truncated(parent.truncated_to, times.to_micros(_since(parent))),)


def _since(parent: Snapshot) -> str:
    """Return the newest time that a table without a history has."""
    return parent.source_time or parent.hour or parent.time
