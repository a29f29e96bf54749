"""The history of one commit: what is stored of the batch's keys is looked up, put in order with it, and written.

Nothing is read of a key but its last event, unless something of the batch lies before that; then its later events too, out of the closed parts
that reach so far. A closed part is written again only when a stored event of it changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.errors import InputRefused, Refused
from compactor.core.model.history import History, HistoryPart, Truncated, compaction_due, to_merge, tracked
from compactor.core.model.layout import Layout
from compactor.core.model.position import Position, event_part, latest, sort_key
from compactor.core.model.snapshot import Snapshot
from compactor.ports import Storage
from compactor.spark.history.parts import Parts, Writer
from compactor.spark.history.versions import CLOSED, MOVED, OPEN, Versions
from compactor.spark.rows import position
from compactor.spark.rows.conform import key_columns
from compactor.spark.rows.resolution import Resolution
from compactor.spark.rows.resolve import union
from compactor.spark.sql import literal, named, quoted
from compactor.spark.tables import table_writer
from compactor.spark.tables.table_reader import Stored

_MAX_ROUNDS = 16
"""Key changes of one row followed within one run, as in `engine`."""

_DAY_US = 86_400_000_000


def write(spark: SparkSession, storage: Storage, batch: Resolution, commit: str) -> History:
    """The parent's history with the batch. Raises InputRefused when a change has no time, CheckFailed when what was written is wrong."""
    spec, schema = batch.spec, batch.summary.evolved.schema
    sources = {field.source: field.name for field in schema.payload}
    unknown = sorted({*spec.track, *spec.track_except} - set(sources))
    if unknown:
        raise Refused(
            f"table {spec.name}: `{'track' if spec.track else 'track_except'}` names {unknown[0]}, which is no column; there are {', '.join(sources)}"
        )
    columns = [sources[name] for name in tracked(list(sources), spec.track, spec.track_except)]
    versions = Versions(schema, batch.summary.order, batch.version, columns, spec.history_zero_length == "keep")
    return _Work(spark, storage, batch, commit, versions, Layout(spec.root, spec.landing)).done()


@dataclass(frozen=True)
class _Work:
    spark: SparkSession
    storage: Storage
    batch: Resolution
    commit: str
    versions: Versions
    layout: Layout
    held: list[DataFrame] = dataclasses.field(default_factory=list)

    @property
    def known(self) -> History | None:
        return self.batch.parent.history if self.batch.parent else None

    @property
    def whole(self) -> bool:
        """Whether everything is written: the history begins, or a column has changed its type (H14)."""
        return self.known is None or bool(self.batch.summary.evolved.retyped)

    @property
    def keys(self) -> list[str]:
        return list(self.versions.schema.key)

    def parts(self) -> Parts:
        parent = self.batch.parent
        return Parts(self.spark, self.layout, self.versions, parent.schema if parent else self.versions.schema)

    def _hold(self, rows: DataFrame) -> DataFrame:
        self.held.append(table_writer.held(rows))
        return self.held[-1]

    def done(self) -> History:
        """Look up, put in order, write; then let Spark's cache go."""
        try:
            return self._made()
        finally:
            for rows in self.held:
                rows.unpersist()

    def _made(self) -> History:
        known, summary, versions = self.known, self.batch.summary, self.versions
        changes, linked = self.batch.changes, self.batch.linked
        timed = _timed(changes if linked is None else linked.unionByName(changes.where("_op = 't'")), self.batch)
        truncates, new, moved = self._surveyed(timed)
        events = versions.events(timed.where("_op <> 't'"))
        events = self._hold(events.unionByName(versions.ends(events)))
        partial = tuple(sorted({*summary.partial, *(known.partial if known else ())}))
        moves = moved or (known.moves if known else False)
        wanted = self._wanted(events, timed, new)
        loaded, reach = self._stored(wanted)
        if partial and moves and not self.whole:
            wanted, loaded, reach = self._reached(events, wanted, loaded, reach)
        loaded = self._hold(loaded)
        rows = union([events.join(wanted, self.keys, "left"), loaded])
        if truncates:
            rows = rows.unionByName(versions.truncated(wanted, truncates).join(wanted, self.keys, "left"), allowMissingColumns=True)
        if partial:
            rows = self._with_first(versions.linked(rows), wanted)
        rows = versions.once(rows)
        made = self._hold(versions.versions(self._filled(rows, partial, moves)))
        removed = self._removed(made, loaded, reach)
        return self._written(made, loaded, wanted, removed, dataclasses.replace(self._kept(), truncates=truncates, partial=partial, moves=moves))

    # what there is ------------------------------------------------------------------------------------------------

    def _surveyed(self, timed: DataFrame) -> tuple[tuple[Truncated, ...], tuple[Truncated, ...], bool]:
        """All truncates known, those of the batch, and whether keys change in it. Raises InputRefused for changes without a time."""
        summary, spec = self.batch.summary, self.batch.spec
        found = timed.agg(
            named("count_if(_op <> 't' AND _time IS NULL)", "timeless"),
            named("min(CASE WHEN _time IS NULL THEN _file END)", "file"),
            named("collect_list(CASE WHEN _op = 't' THEN struct(_position AS p, _time AS t) END)", "truncates"),
            named("min(_time)", "first"),
            named("max(_from IS NOT NULL OR (_op = 'c' AND size(_missing) > 0 AND _link IS NOT NULL))", "moved"),
        ).collect()[0]
        if found.timeless:
            raise InputRefused(
                f"table {spec.name}: {found.timeless} changes of {found.file} tell no time, and neither does its folder, so that a history cannot be "
                "made of them. Say `order_by:` with a timestamp first, let the source's time come along (`__ts_ms`), or leave `history` out."
            )
        barriers = [(position.from_row(row.p), row.t) for row in found.truncates] if spec.truncate == "apply" else []
        if summary.truncate is not None and not any(_event(at, summary.order) == _event(summary.truncate, summary.order) for at, _ in barriers):
            barriers.append((summary.truncate, found.first))
        known = self.known.truncates if self.known else ()
        events = {_event(one.position, summary.order) for one in known}
        new: list[Truncated] = []
        for at, time in barriers:
            if at is not None and _event(at, summary.order) not in events:
                events.add(_event(at, summary.order))
                new.append(Truncated(at, time if time is not None else found.first or 0))
        return (*known, *new), tuple(new), bool(found.moved)

    def _wanted(self, events: DataFrame, timed: DataFrame, new: Sequence[Truncated]) -> DataFrame:
        """The keys to work on, with `__first`: the earliest event that is new to each."""
        versions, known = self.versions, self.known
        found = [events.selectExpr(*versions.keys, f"{versions.event()} AS __first")]
        if "_to" in timed.columns:
            names = key_columns("_to", [versions.schema.field(name).type for name in versions.schema.key])
            went = [f"{value} AS {quoted(name)}" for name, value in zip(versions.schema.key, names)]
            found.append(timed.where("_to IS NOT NULL").selectExpr(*went, f"{versions.event()} AS __first"))
        order = self.batch.summary.order
        for one in new:
            at = position.fixed(one.position, order)
            if known is None or self.whole:
                rows = self._everything()
            else:
                reach = [part for part in known.closed if _reaches(part.last, one.position, order)]
                rows = union([self.parts().open(known, None).drop("__origin", "__was"), self.parts().rows(reach)])
            met = rows.where(f"_position < {at} AND (__end_position IS NULL OR __end_position > {at})")
            found.append(met.selectExpr(*versions.keys, f"{versions.event(at)} AS __first"))
        return self._hold(_earliest(union(found), versions))

    def _stored(self, wanted: DataFrame) -> tuple[DataFrame, list[HistoryPart]]:
        """What is stored of these keys and must be looked at, and the closed parts that were."""
        known, parts, versions, order = self.known, self.parts(), self.versions, self.batch.summary.order
        if known is None or self.whole:
            return self._everything().join(wanted, self.keys, "left"), list(known.closed) if known else []
        rows = parts.open(known, wanted)
        if not known.closed:
            return rows, []
        # a key's last event is where its first new one would have to come after; the earliest of those that do not
        rows = self._hold(rows)
        late = rows.where(f"__first <= {versions.event()}").agg(named("min(__first)", "first")).collect()[0].first
        reach = [part for part in known.closed if late is not None and _reaches(part.last, tuple(late), order)]
        if not reach:
            return rows, []
        closed = parts.loaded(parts.rows(reach, wanted), CLOSED)
        return rows.unionByName(closed.where(f"{versions.event('__end_position')} >= __first")), reach

    def _everything(self) -> DataFrame:
        """All that is stored of the history; where it begins, the rows of the table."""
        known, parts = self.known, self.parts()
        if known is None:
            return self._seeds()
        return union([parts.open(known, None), parts.loaded(parts.rows(known.closed), CLOSED)])

    def _seeds(self) -> DataFrame:
        """A table that has rows already: each is so since its own time, or else since the newest that the table knows."""
        parent, versions = self.batch.parent, self.versions
        if parent is None:
            return versions.seeds(table_writer.read(self.spark, versions.schema, self.batch.summary.order, {}), "0L")
        stored = Stored(self.spark, self.layout, parent, versions.schema)
        base, delta = stored.base(None), stored.delta()
        if delta is not None:
            base = base.join(delta.select(*versions.keys), self.keys, "left_anti").unionByName(delta)
        return versions.seeds(base, f"coalesce({', '.join([*_ordered_by_time(self.batch), f'{_micros(_since(parent))}L'])}, NULL)")

    def _reached(
        self, events: DataFrame, wanted: DataFrame, loaded: DataFrame, reach: list[HistoryPart]
    ) -> tuple[DataFrame, DataFrame, list[HistoryPart]]:
        """With the keys to which rows went that may now hold other values: a change of the old key is passed along (H10), chains included."""
        versions, told = self.versions, None
        kinds = [versions.schema.field(name).type for name in versions.schema.key]
        went = [f"{value} AS {quoted(name)}" for name, value in zip(versions.schema.key, key_columns("_moved_to", kinds))]
        columns = ["_moved_to", f"{versions.event()} AS __e"]
        fresh = events.where(MOVED).selectExpr(*columns)
        for _ in range(_MAX_ROUNDS):
            # kept before it is looked into: Spark's optimizer loses track of members of structs that it takes through joins
            old = self._hold(loaded.where(MOVED).selectExpr(*columns, "__first")).where("__e >= __first").drop("__first")
            more = fresh.unionByName(old).selectExpr(*went, "__e AS __first")
            wanted = self._hold(_earliest(wanted.unionByName(more), versions))
            before, told = told, wanted.agg(named("bit_xor(xxhash64(to_json(struct(*))))", "s")).collect()[0].s
            if told == before:
                break
            loaded, reach = self._stored(wanted)
        return wanted, loaded, reach

    # what becomes of it -------------------------------------------------------------------------------------------

    def _with_first(self, rows: DataFrame, wanted: DataFrame) -> DataFrame:
        return rows.drop("__first").join(wanted, self.keys, "left")

    def _filled(self, rows: DataFrame, partial: Sequence[str], moves: bool) -> DataFrame:
        versions = self.versions
        if not (partial and moves):
            return versions.filled(rows, partial)
        rows, told = self._hold(versions.given(rows, partial)), None
        for _ in range(_MAX_ROUNDS):
            filled = versions.filled(rows, partial)
            found = self._hold(versions.passed_on(rows, filled, partial))
            before, told = told, found.agg(named("bit_xor(xxhash64(to_json(struct(*))))", "s")).collect()[0].s
            rows = found
            if told == before:
                break
        return versions.filled(rows, partial)

    def _removed(self, made: DataFrame, loaded: DataFrame, reach: Sequence[HistoryPart]) -> list[HistoryPart]:
        """The closed parts that are replaced: those of which a stored event changed, and small ones that become one."""
        known = self.known
        if known is None or self.whole:
            return list(known.closed) if known else []
        touched: set[str] = set()
        if reach:
            same = made.where("__same").select(*self.versions.keys, "_position")
            changed = loaded.where(f"__origin = {CLOSED}").join(same, [*self.keys, "_position"], "left_anti")
            touched = {row[0] for row in changed.select("__part").distinct().collect()}
        merged = {part.id for part in to_merge(part for part in known.closed if part.path not in touched)}
        return [part for part in known.closed if part.path in touched or part.id in merged]

    def _kept(self) -> History:
        """What carries over before anything is written."""
        if self.known is not None:
            return self.known
        parent = self.batch.parent
        since = _since(parent) if parent else None
        return History(f"{self.commit}.closed", (), f"{self.commit}.open", (), None, since=since)

    def _written(self, made: DataFrame, loaded: DataFrame, wanted: DataFrame, removed: Sequence[HistoryPart], kept: History) -> History:
        parts, versions, spec = self.parts(), self.versions, self.batch.spec
        columns = [quoted(name) for name, _ in versions.stored]
        gone = ", ".join(literal(part.path) for part in removed)
        moving = f"__origin <> {CLOSED}" + (f" OR __part IN ({gone})" if removed else "")
        ended = made.where(f"__end_position IS NOT NULL AND ({moving})").selectExpr(*columns)
        if removed and not self.whole:
            rest = parts.rows(removed).selectExpr(*columns)
            mine = loaded.where(f"__origin = {CLOSED}").select(*versions.keys, "_position")
            ended = ended.unionByName(rest.join(mine, [*self.keys, "_position"], "left_anti"))
        closed = ended.selectExpr("*", "concat('d', date_format(timestamp_micros(__end_us), 'yyyy-MM-dd')) AS history_part")
        # an open part's row that stays as it is stays where it is
        stays = "false" if self.whole else f"__origin = {OPEN} AND __same"
        last = made.where(f"__end_position IS NULL AND NOT ({stays})").selectExpr(*columns)
        if kept.delta and not self.whole:
            untouched = parts.rows([kept.delta]).selectExpr(*columns).join(wanted.select(*versions.keys), self.keys, "left_anti")
            last = last.unionByName(untouched)
        changes = self.batch.summary.changes
        held = sum(part.rows for part in kept.open)
        writer = Writer(self.spark, self.storage, self.layout, versions, self.commit, spec.name)
        compact = self.whole or not kept.open or compaction_due(held, (kept.delta.rows if kept.delta else 0) + changes, changes)
        about = 2 * changes + sum(part.rows for part in removed)
        if compact:
            if not self.whole and kept.open:
                last = self._hold(last)
                others = parts.rows(kept.open).selectExpr(*columns).join(last.select(*versions.keys), self.keys, "left_anti")
                last = last.unionByName(others)
            writer.write(closed, about)
            size = sum(part.size for part in kept.open) or (self.batch.parent.size if self.batch.parent else 0) + 100 * changes
            writer.write_open(last, max(1, round(size / max(spec.target_file_bytes, 1))))
        else:
            writer.write(closed.unionByName(last.selectExpr("*", "'delta' AS history_part")), about + (kept.delta.rows if kept.delta else 0))
        return self._named(kept, writer.written(), removed, compact)

    def _named(self, kept: History, found: Sequence[HistoryPart], removed: Sequence[HistoryPart], compact: bool) -> History:
        closed = tuple(part for part in found if part.low is not None and not part.id.endswith(".delta") and ".open-" not in part.id)
        closed = tuple(dataclasses.replace(part, low=None) for part in closed)
        gone = {part.id for part in removed}
        made = dataclasses.replace(
            kept,
            closed=(*(part for part in kept.closed if part.id not in gone), *closed),
            set=f"{self.commit}.closed" if removed else kept.set,
            delta=next((dataclasses.replace(part, low=None) for part in found if part.id.endswith(".delta")), None),
            last=latest([kept.last, *(part.last for part in found)]),
        )
        if not compact:
            return made
        opened = [part for part in found if ".open-" in part.id]
        lows: list[tuple[Any, ...] | None] = [None, *(part.low for part in opened[1:])]
        tiled = [dataclasses.replace(part, low=low, high=high) for part, low, high in zip(opened, lows, [*lows[1:], None])]
        return dataclasses.replace(made, open=tuple(tiled), open_id=f"{self.commit}.open", delta=None)


def _timed(changes: DataFrame, batch: Resolution) -> DataFrame:
    """Changes with `_time` wherever anything tells it: the source, a timestamp that orders them, the folder's hour."""
    told = ["_time", *_ordered_by_time(batch)]
    hours = {item.path: item.hour for item in batch.summary.inputs if item.hour}
    if hours and batch.spec.source.plain_rows:
        pairs = ", ".join(f"{literal(path)}, {_micros(hour)}L" for path, hour in hours.items())
        told.append(f"try_element_at(map({pairs}), _file)")
    columns = [quoted(name) for name in changes.columns if name != "_time"]
    return changes.selectExpr(*columns, f"coalesce({', '.join(told)}, NULL) AS _time")


def _ordered_by_time(batch: Resolution) -> list[str]:
    """SQL for microseconds since 1970 out of a Position, where it is a time that orders the changes first."""
    if not batch.summary.order:
        return []
    name, kind = batch.summary.order[0]
    by = {field.source: field.type for field in batch.summary.evolved.schema.fields}.get(name)
    if by == "timestamp":
        return ["_position.o1"]
    if by == "date":
        return [f"_position.o1 * {_DAY_US}L"]
    if by == kind == "string":
        return ["CASE WHEN _position.o1 RLIKE '^[0-9]{4}-' THEN unix_micros(try_cast(_position.o1 AS TIMESTAMP)) END"]
    return []


def _earliest(rows: DataFrame, versions: Versions) -> DataFrame:
    return rows.groupBy(*versions.keys).agg(named("min(__first)", "__first"))


def _event(at: Position | None, order: position.Order) -> Position | None:
    return at if at is None or position.by_file(order) else event_part(at)


def _reaches(last: Position | None, first: Position, order: position.Order) -> bool:
    """Whether a part whose last event ended at `last` holds something that may change with an event at `first` (a whole Position or an event's)."""
    wanted = first if position.by_file(order) or len(first) == len(order) + 1 else event_part(first)
    return last is not None and sort_key(_event(last, order) or ()) >= sort_key(wanted)


def _since(parent: Snapshot) -> str:
    """The newest time that a table without a history knows of."""
    return parent.source_time or parent.hour or parent.time


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
