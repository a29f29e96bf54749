"""Write the history of one commit: look up the stored events of the batch's keys, merge the batch into them, and write the result.

Of a key only its last event is read, unless something of the batch lies before that. Then its later events are read too, out of the closed parts
that reach so far. A closed part is written again only if one of its events changes.

The usual batch comes after all that is stored. Then this is one broadcast of its keys, and one pass that looks up, computes and writes
(`_Work.following`). All others are worked on in steps (`_Work.merged`), whose result is the same.

In: a Resolution. Out: the table's new History; its parts hold stored events (`history/versions.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.history import History, HistoryPart, Truncated, rules, to_merge
from compactor.core.model.position import sort_key
from compactor.core.model.schema import called
from compactor.core.model.snapshot import Snapshot
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import FROM, TO
from compactor.spark.history import plan
from compactor.spark.history.parts import DAY, DELTA_PART, OPEN_PART, Parts, Writer, assembled
from compactor.spark.history.plan import Plan
from compactor.spark.history.versions import CLOSED, MOVED, MOVED_TO, OPEN, Steps, Versions
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position
from compactor.spark.rows.reduce import union
from compactor.spark.rows.resolution import MAX_ROUNDS, Resolution
from compactor.spark.sql import DIGEST, literal, named, query, quoted
from compactor.spark.tables.table_reader import TableReader


def write(storage: Storage, resolution: Resolution, commit: str, repeated: bool) -> History:
    """Write the history of a batch and return the table's new history.

    `repeated`: whether some event of the batch occurs twice, or ties with another one. Raises Refused for unknown columns in `track`, InputRefused if
    a change has no time, CheckFailed if what was written is wrong.
    """
    with _work(resolution, commit) as work:
        return work.written(storage, work.merged() if work.plan.why_steps else work.following(repeated))


def explain(resolution: Resolution) -> tuple[str, str]:
    """Make the queries for the history of a batch, and write nothing. Return (step, why)."""
    with _work(resolution) as work:
        why = work.plan.why_steps
        merged = work.merged() if why else work.following(resolution.counts()[0]["applied"] < resolution.summary.changes)
        work.to_write(merged, work.plan.one_pass(merged.removed))
    return "history", f"in steps: {why}" if why else "in one pass: all events come after the stored ones, and carry all values"


@contextmanager
def recomputed(resolution: Resolution) -> Iterator[DataFrame]:
    """Compute the stored events after a batch on a table without a history, without writing them. The rows are valid inside the context."""
    with _work(resolution) as work:
        yield work.merged().rows


@contextmanager
def _work(resolution: Resolution, commit: str = "") -> Iterator[_Work]:
    batch = resolution.batch
    work = _Work(batch, resolution.linked, commit, _versions(batch), Plan(batch, resolution.linked is not None))
    try:
        yield work
    finally:
        for rows in work.cached:
            measured.release(rows)


def _versions(batch: SparkBatch) -> Versions:
    spec, schema = batch.spec, batch.summary.evolved.schema
    # whether a column is hidden, or its name is used again, changes nothing of the versions
    tracked = {name: called(name, schema.fields) for name in spec.track}
    if unknown := [name for name, field in tracked.items() if field is None]:
        sources = ", ".join(field.source for field in schema.payload)
        raise Refused(f"table {spec.name}: `track` names {unknown[0]}, which is not a column of the table. Its columns are: {sources}.")
    sent = {field.source for field in tracked.values() if field}
    columns = [field.name for field in schema.fields if not tracked or field.source in sent]
    return Versions(schema, batch.summary.order, batch.version, columns)


@dataclass(frozen=True)
class _Merged:
    """The stored events of the keys of a batch, merged with it."""

    rows: DataFrame
    """The events as they are to be stored."""
    keys: DataFrame
    """The keys, with `__first` unless `following`."""
    removed: list[HistoryPart]
    """The closed parts that these events replace."""
    kept: History
    """The history that the new parts are added to."""
    stored: DataFrame | None = None
    """The stored events that were read."""
    following: bool = False
    """Whether all rows are to be written, and the pass that writes computes them (`_Work.following`)."""
    small: bool = True
    """Whether the keys are few."""


@dataclass(frozen=True)
class _Work:
    """The work on one batch; `cached` are the rows to free at the end."""

    batch: SparkBatch
    linked: DataFrame | None
    """`Resolution.linked`."""
    commit: str
    versions: Versions
    plan: Plan
    cached: list[DataFrame] = dataclasses.field(default_factory=list)

    def parts(self) -> Parts:
        parent = self.batch.parent
        return Parts(self.batch.session, self.batch.spec.layout, self.versions, parent.schema if parent else self.versions.schema)

    def _materialize(self, rows: DataFrame) -> DataFrame:
        self.cached.append(measured.materialize(rows))
        return self.cached[-1]

    def following(self, repeated: bool) -> _Merged:
        """Merge a batch whose events come after all stored ones. Spark computes the rows later, in the pass that writes them.

        Nothing is materialized: of the stored events only the last ones of the batch's keys are needed, and only their ends change.
        """
        stored, changes = self.plan.stored, self.batch.changes
        keys = changes.selectExpr(*map(quoted, self.versions.schema.key))
        frames = {"changes": changes}
        if stored is not None:
            frames["open"] = self.parts().rows(self.parts().owners(stored.open, keys))
            frames |= {"newer": self.parts().rows([stored.delta])} if stored.delta else {}
        wide = stored is not None and not self.batch.spec.in_one_task(sum(part.size for part in stored.open))
        steps = Steps(plan.event_time(self.batch), follows=True, repeated=repeated, small=self.plan.small, wide=wide)
        rows = query("history", self.versions.query(steps, frames), **frames)
        return _Merged(rows, keys, self._removed(rows, None, ()), self._kept(), following=True, small=self.plan.small)

    def merged(self) -> _Merged:
        stored, summary, linked = self.plan.stored, self.batch.summary, self.linked
        changes = self.batch.changes if linked is None else union([linked, self.batch.changes.where("_op = 't'")])
        truncates, new, moves_now = self._surveyed(changes)
        partial = tuple(sorted({*summary.unavailable_columns, *(stored.unavailable_columns if stored else ())}))
        moves = moves_now or (stored.moves if stored else False)
        # where a default moved, versions of any event may begin elsewhere
        steps = Steps(
            plan.event_time(self.batch),
            moves=moves_now,
            partial=partial,
            truncates=truncates,
            frozen=not self.plan.other_defaults,
            small=self.plan.small and not new and not self.plan.whole,
        )
        keys = self._keys(changes, new, steps)
        loaded, reach = self._stored(keys)
        if partial and moves and not self.plan.whole:
            keys, loaded, reach = self._reached(keys, loaded, reach)
        frames = {"changes": changes, "keys": keys, **({"stored": loaded} if loaded is not None else {})}
        if partial and moves:
            frames = {"rows": self._carried(steps, frames)}
        rows = self._materialize(query("history", self.versions.query(steps, frames), **frames))
        kept = dataclasses.replace(self._kept(), truncates=truncates, unavailable_columns=partial, moves=moves)
        return _Merged(rows, keys, self._removed(rows, loaded, reach), kept, loaded, small=steps.small)

    # what there is ------------------------------------------------------------------------------------------------

    def _surveyed(self, changes: DataFrame) -> tuple[tuple[Truncated, ...], tuple[Truncated, ...], bool]:
        """Return all truncates, those of the batch, and whether a key changes in the batch. Raises InputRefused for changes without a time."""
        summary, spec = self.batch.summary, self.batch.spec
        # a barrier without a time of its own: the beginning of an epoch, or a truncate whose record has none
        after = f"_position >= {position.fixed(summary.truncate, summary.order)}" if summary.truncate else "false"
        text = f"""
SELECT count_if(_op <> 't' AND __time IS NULL) AS timeless, min(CASE WHEN __time IS NULL THEN _file END) AS file,
  collect_list(CASE WHEN _op = 't' THEN struct(_position AS p, __time AS t) END) AS truncates,
  coalesce(min(CASE WHEN {after} THEN __time END), max(__time)) AS first,
  max(_from IS NOT NULL OR (_op = 'c' AND size(_missing) > 0 AND _link IS NOT NULL)) AS moved
FROM (SELECT *, {plan.event_time(self.batch)} AS __time FROM {{changes}})"""
        row = query("history survey", text, changes=changes).collect()[0]
        plan.check_times(spec, row.timeless, row.file)
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

    def _keys(self, changes: DataFrame, new: Sequence[Truncated], steps: Steps) -> DataFrame:
        """Return the keys to work on, with `__first`: the earliest event of each that is new."""
        versions, order = self.versions, self.batch.summary.order
        moved = [*([FROM] if steps.moves else []), *([TO] if self.linked is not None else [])]
        here = f"{versions.event()} AS __first FROM {{changes}}"
        texts = [f"SELECT {versions.keys}, {here} WHERE _op <> 't'"]
        texts += [f"SELECT {versions.old_key(column)}, {here} WHERE {column} IS NOT NULL" for column in moved]
        frames = {"changes": changes}
        if new:
            first = min((one.position for one in new), key=lambda at: sort_key(plan.event(at, order) or ()))
            stored = self.plan.stored
            reach = [part for part in stored.closed if plan.reaches(part.last, first, order)] if stored else []
            rows = self._seeds() if stored is None else self.parts().last(stored, closed=stored.closed if self.plan.whole else reach)
            frames |= {"stored": rows} if rows is not None else {}
            for at in (position.fixed(one.position, order) for one in new if rows is not None):
                met = f"_position < {at} AND (__end_position IS NULL OR __end_position > {at})"
                texts.append(f"SELECT {versions.keys}, {versions.event(at)} AS __first FROM {{stored}} WHERE {met}")
        one = "/*+ COALESCE(1) */ " if steps.small else ""
        return self._materialize(query("history keys", self._earliest(texts, one), **frames))

    def _earliest(self, texts: Sequence[str], hint: str = "") -> str:
        keys, rows = self.versions.keys, "\nUNION ALL\n".join(texts)
        return f"SELECT {keys}, min(__first) AS __first\nFROM (SELECT {hint}* FROM (\n{rows}))\nGROUP BY {keys}"

    def _stored(self, keys: DataFrame) -> tuple[DataFrame | None, list[HistoryPart]]:
        """Return the stored events of these keys that the batch may change, with `__first`, and the closed parts that were read.

        Where the history begins or is written anew, all stored events; None if there are none.
        """
        stored, parts, versions, order = self.plan.stored, self.parts(), self.versions, self.batch.summary.order
        if stored is None:
            seeds = self._seeds()
            return (None if seeds is None else self._materialize(seeds)), []
        if self.plan.whole:
            return self._materialize(parts.last(stored, closed=stored.closed)), list(stored.closed)
        rows = self._materialize(parts.last(stored, keys))
        if not stored.closed:
            return rows, []
        # events are late where a key's last event does not come before its first new one; the earliest of these decides what to read
        late = rows.where(f"__first <= {versions.event()}").agg(named("min(__first)", "first")).collect()[0].first
        reach = [part for part in stored.closed if late is not None and plan.reaches(part.last, tuple(late), order)]
        return (union([rows, self._materialize(parts.ended(reach, keys))]) if reach else rows), reach

    def _seeds(self) -> DataFrame | None:
        """Return the rows of a table that exists when its history begins. Each begins at its own time, else at the newest time the table has."""
        parent = begins_on(self.batch.parent)
        if parent is None:
            return None
        rows = TableReader(self.batch.session, self.batch.spec.layout, parent, self.versions.schema).live(soft=True)
        time = f"coalesce({', '.join([*plan.ordered_by_time(self.batch), f'{times.to_micros(_since(parent))}L'])}, NULL)"
        return query("history begins", self.versions.seeds(time), table=rows)

    def _reached(self, keys: DataFrame, loaded: DataFrame | None, reach: list[HistoryPart]) -> tuple[DataFrame, DataFrame | None, list[HistoryPart]]:
        """Add the keys that rows moved to, if they may now hold other values: a change of the old key is carried along, through chains too."""
        versions, digest = self.versions, None
        if loaded is None:
            return keys, loaded, reach
        moved = f"SELECT {versions.old_key(MOVED_TO)}, {versions.event()} AS __first FROM {{stored}} WHERE {MOVED} AND {versions.event()} >= __first"
        text = self._earliest([f"SELECT {versions.keys}, __first FROM {{keys}}", moved])
        for _ in range(MAX_ROUNDS):
            keys = self._materialize(query("history keys", text, keys=keys, stored=loaded))
            before, digest = digest, keys.agg(named(DIGEST, "s")).collect()[0].s
            if digest == before:
                break
            loaded, reach = self._stored(keys)
            assert loaded is not None
        return keys, loaded, reach

    def _carried(self, steps: Steps, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return the events, each once, with the values that key changes carry along. Each round follows one step of a chain."""
        rows, digest = self._materialize(query("history events", self.versions.once(steps, frames), **frames)), None
        for _ in range(MAX_ROUNDS):
            rows = self._materialize(query("history carry", self.versions.carry(steps), rows=rows))
            before, digest = digest, rows.agg(named(DIGEST, "s")).collect()[0].s
            if digest == before:
                break
        return rows

    # what becomes of it -------------------------------------------------------------------------------------------

    def _removed(self, made: DataFrame, loaded: DataFrame | None, reach: Sequence[HistoryPart]) -> list[HistoryPart]:
        """Return the closed parts to replace: those with an event that changed, and small ones that are merged."""
        stored = self.plan.stored
        if stored is None or self.plan.whole:
            return list(stored.closed) if stored else []
        touched: set[str] = set()
        if reach and loaded is not None:
            place = f"{self.versions.keys}, _position"
            same = f"(SELECT {place} FROM {{made}} WHERE __same)"
            text = f"SELECT DISTINCT __part FROM {{stored}} LEFT ANTI JOIN {same} USING ({place}) WHERE __origin = {CLOSED}"
            touched = {row[0] for row in query("history parts", text, made=made, stored=loaded).collect()}
        merged = {part.id for part in to_merge(part for part in stored.closed if part.path not in touched)}
        return [part for part in stored.closed if part.path in touched or part.id in merged]

    def _kept(self) -> History:
        parent, now = begins_on(self.batch.parent), rules(self.batch.spec.track)
        if self.plan.stored is not None:
            return dataclasses.replace(self.plan.stored, rules=now if self.plan.stored.rules == now else "")
        return History(f"{self.commit}.closed", (), f"{self.commit}.open", (), None, since=_since(parent) if parent else None, rules=now)

    def written(self, storage: Storage, merged: _Merged) -> History:
        """Write the events that changed: ended ones into closed parts, last ones into the Delta or, if a compaction is due, into open parts."""
        kept, removed, spec = merged.kept, merged.removed, self.batch.spec
        writer = Writer(self.parts(), storage, self.commit, spec.name)
        one_pass = self.plan.one_pass(removed)
        rows = self.to_write(merged, one_pass)
        if one_pass:
            counted = writer.write_once(rows, plan.TIMELESS)
            if merged.following and counted is not None:
                plan.check_times(spec, counted["timeless"], counted["file"])
            return assembled(kept, writer.written(counted, merged.following), removed, self.plan.compact, self.commit)
        about = self.plan.about(removed)
        if self.plan.compact:
            writer.write(rows.where("__end_position IS NOT NULL"), about)
            writer.write_open(rows.where("__end_position IS NULL"), self.plan.segments)
        else:
            writer.write(rows, about + (kept.delta.rows if kept.delta else 0))
        return assembled(kept, writer.written(), removed, self.plan.compact, self.commit)

    def to_write(self, merged: _Merged, one_pass: bool) -> DataFrame:
        """Return the stored events to write, with the name of their part: the day of their end, or one name for all last events.

        Beside those of the batch's keys: the other events of closed parts that are replaced, and of the Delta, which is written anew; and if a
        compaction is due, those of the open parts.
        """
        kept, parts, keys, small = merged.kept, self.parts(), self.versions.keys, self.plan.small
        columns, hint = self.versions.columns(), "/*+ BROADCAST(k) */ " if merged.small else ""
        texts = [f"SELECT {columns} FROM {{made}}" + ("" if merged.following else f" WHERE {self._changed(merged.removed)}")]
        frames = {"made": merged.rows}
        if merged.removed and not self.plan.whole:
            frames["removed"] = parts.rows(merged.removed)
            text = f"SELECT {columns} FROM {{removed}}"
            if merged.stored is not None:
                frames["stored"] = merged.stored
                read = f"(SELECT {keys}, _position FROM {{stored}} WHERE __origin = {CLOSED})"
                text += f" LEFT ANTI JOIN {read} USING ({keys}, _position)"
            texts.append(text)
        others = f"SELECT {keys} FROM {{keys}}"
        if kept.delta and not self.plan.whole:
            frames |= {"keys": merged.keys, "newer": parts.rows([kept.delta])}
            texts.append(f"SELECT {hint}{columns} FROM {{newer}} LEFT ANTI JOIN ({others}) k USING ({keys})")
            others += f" UNION ALL SELECT {keys} FROM {{newer}}"
        if self.plan.compact and kept.open and not self.plan.whole:
            frames |= {"keys": merged.keys, "open": parts.rows(kept.open)}
            texts.append(f"SELECT {hint}{columns} FROM {{open}} LEFT ANTI JOIN ({others}) k USING ({keys})")
        part = f"CASE WHEN __end_position IS NULL THEN '{OPEN_PART if self.plan.compact else DELTA_PART}' ELSE {DAY} END AS history_part"
        tasks = f"/*+ {'COALESCE' if small else 'REPARTITION'}(1) */ " if one_pass else ""
        rows = "\nUNION ALL\n".join(texts)
        return query("history write", f"SELECT {tasks}*, {part}\nFROM (\n{rows})", **frames)

    def _changed(self, removed: Sequence[HistoryPart]) -> str:
        """SQL: whether a merged row is to be written."""
        gone = ", ".join(literal(part.path) for part in removed)
        moving = f"__origin <> {CLOSED}" + (f" OR __part IN ({gone})" if gone else "")
        # without a compaction, a row of an open part that did not change stays there
        stays = "false" if self.plan.compact else f"__origin = {OPEN} AND __same"
        return f"CASE WHEN __end_position IS NULL THEN NOT ({stays}) ELSE {moving} END"


def begins_on(parent: Snapshot | None) -> Snapshot | None:
    """Return the version whose rows a new history begins with; None if there were none, as in a rebuild that begins with the columns alone."""
    return None if parent is None or parent.never_ingested else parent


def _truncated_before(parent: Snapshot | None) -> tuple[Truncated, ...]:
    """Return the last truncate of a table without a history: events below it are in no version, however late they arrive."""
    if parent is None or parent.truncated_to is None:
        return ()
    return (Truncated(parent.truncated_to, times.to_micros(_since(parent))),)


def _since(parent: Snapshot) -> str:
    """Return the newest time that a table without a history has."""
    return parent.source_time or parent.hour or parent.time
