"""ListEngine: the Engine port over plain Python rows and JSON files; the oracle for the Spark one, and what lets flows run thousands of times.

Every stored row carries the events of its key (`_events`), so resolving is playing them back (`tests.oracle.model`): no registers, no
lookups, no cheap rules. Where it keeps less than all events is where the protocol says so: truncate barriers and purged tombstones.
What it gives the flows is what Spark gives them: Segments that tile the keys, one row per key in a Delta, sizes, Positions, counts.

    row_state=*/part-*.json    [{"id": 1, "a": 5, "_version": 3, "_at": [..], "_events": [..]}, ...] sorted by key
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.erasure.erased import Erased
from compactor.core.erasure.keys import with_keys
from compactor.core.model import checksum, types
from compactor.core.model.errors import CheckFailed, InputRefused, NoRowsYet, OrderRefused
from compactor.core.model.files import LIVE, DataFile, Delta, FeedPart, FileInfo, Segment
from compactor.core.model.history import History
from compactor.core.model.inputs import Input
from compactor.core.model.layout import Layout, relative
from compactor.core.model.position import Position, at_or_below, earliest, event_part, latest, sort_key
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.audit import Measured, Rule, query
from compactor.core.results.batch import BatchSummary, ErasedRecords, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.schema.adoption import ForeignBase, adoption, unplaced
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import flat_rows
from compactor.core.sources.quarantine import BEYOND_RETENTION, Limits, Unusable, not_usable_now
from compactor.core.sources.watermark import Brought
from compactor.core.sources.whole_hours import brought_by_stream
from compactor.ports import Entries, Storage
from compactor.spark.input import raw_records
from tests.oracle import erasing, history_engine
from tests.oracle.model import DELETED, UNKNOWN, Added, Change, Key, Replay, Row, added, ordered, replayed, shown, sorted_out

_ROWS_PER_FILE = 8

TOTAL = (("__lsn",), ("offset",))
"""Orders of more than one key's events. Any other is taken for a counter that each row has for itself."""


@dataclass(frozen=True)
class State:
    """A stored row: its columns, and the events it was played back from."""

    key: Key
    op: str
    version: int
    position: Position
    values: Row
    events: tuple[Change, ...]

    def same(self, other: State | None) -> bool:
        """Whether nothing but the version differs."""
        return other is not None and dataclasses.replace(self, version=other.version) == other

    def tells(self, other: State) -> bool:
        """Whether it is made of the same events, under whatever names they were delivered, and shows the same."""
        said = [{(event.event, event.content, repr(event.inherited)) for event in each.events} for each in (self, other)]
        return said[0] == said[1] and (self.op, self.values) == (other.op, other.values)

    @property
    def at(self) -> Position | None:
        """The Position of the newest event of the row, also of one that is deleted; None if there was none."""
        if self.op != "d":
            return self.position
        return latest([event.position for event in self.events if event.op != "d" and event.key == self.key]) if self.values else None

    @property
    def partial(self) -> frozenset[str]:
        """The columns that the newest event does not tell."""
        last = self.events[-1]
        return last.missing if last.key == self.key else frozenset()


@dataclass(frozen=True)
class ListBatch:
    """Inputs as Changes under stored names."""

    summary: BatchSummary
    spec: TableSpec
    parent: Snapshot | None
    version: int
    changes: tuple[Change, ...]
    closed: list[bool] = dataclasses.field(default_factory=list)

    def without(self, keys: set[Key]) -> ListBatch:
        """The batch without the changes of these keys, which count as beyond retention."""
        found = [change for change in self.changes if change.op != "t" and change.key in keys]
        counts = Counter(change.position[-3] for change in found)
        told = tuple(Unusable(change.position[-3], BEYOND_RETENTION, change.position[-1] + 1) for change in found)
        inputs = tuple(dataclasses.replace(item, quarantined=item.quarantined + counts[item.name]) for item in self.summary.inputs)
        summary = dataclasses.replace(self.summary, inputs=inputs, beyond_retention=len(found), unusable=(*self.summary.unusable, *told))
        return dataclasses.replace(
            self, summary=summary, changes=tuple(change for change in self.changes if change.op == "t" or change.key not in keys)
        )

    def close(self) -> None:
        """Nothing may be read from it any more."""
        self.closed.append(True)


@dataclass(frozen=True)
class ListResolution:
    """A batch resolved: the states of every key, and those that were stored."""

    batch: ListBatch
    whole: bool
    states: dict[Key, State]
    stored: dict[Key, State]
    in_delta: frozenset[Key]
    counts: dict[str, int]
    ties: int
    closed: list[bool] = dataclasses.field(default_factory=list)

    @property
    def summary(self) -> BatchSummary:
        """The facts about the batch."""
        return self.batch.summary

    def check_open(self) -> None:
        """Neither it nor its batch was closed."""
        assert not self.closed
        assert not self.batch.closed

    def close(self) -> None:
        """Nothing may be read from it any more."""
        self.closed.append(True)


class ListEngine:
    """The Engine port on a Storage; as small as its contract allows."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._timed: dict[tuple[str, str], list[dict[str, Any]]] = {}

    # reading ------------------------------------------------------------------------------------------------------

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
    ) -> ListBatch:
        """Parse the files, follow their columns."""
        if base is not None:
            return self._read_base(spec, inputs, base)
        order = tuple((name, "bigint") for name in spec.order_by or ("seq",))
        if parent is not None and parent.order != order:
            raise OrderRefused(f"table {spec.name}: expected order {parent.order}, found {order}")
        # a rebuild reads two contents that one name had after another
        files = {(item.path, item.etag): self._events(spec, item, locations) for item in inputs}
        changes = {name: events for name, (events, _, _) in files.items()}
        bad = [one for _, _, unusable in files.values() for one in unusable]
        broken = {one.file: one.reason for one in bad if one.record is None}
        read, records = sum(rows for _, rows, _ in files.values()), len(bad) - len(broken)
        problem = Limits(spec.quarantine_rows, spec.quarantine_share).problem(bad, records, read, len(broken), len(inputs))
        if problem:
            raise InputRefused(f"table {spec.name}: {problem}")
        groups = _groups(changes)
        writers = [_writer(spec, name, events) for name, events in groups.items() if any(event.op != "t" for event in events)]
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: nothing with a row has landed")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name, spec.policy)
        conformed = [_conformed(event, evolved.columns.get(name, {}), evolved.schema) for name, events in groups.items() for event in events]
        erased = erased or (parent.erased if parent else None)
        conformed = [change for change in conformed if change.op == "t" or not erasing.gone(erased, change.key)]
        truncates = [change.position for change in conformed if change.op == "t"]
        if truncates and spec.truncate == "fail":
            raise InputRefused(f"table {spec.name}: a TRUNCATE arrived and `truncate: fail` is set")
        counted = tuple(
            item.as_unreadable(broken[item.name])
            if item.name in broken
            else dataclasses.replace(
                item, rows=files[item.path, item.etag][1], quarantined=len(files[item.path, item.etag][2]), **_bounds(changes[item.path, item.etag])
            )
            for item in inputs
        )
        summary = BatchSummary(
            evolved,
            order,
            counted,
            read,
            read - len(conformed) - records,
            len(conformed),
            tuple(sorted({name for change in conformed for name in change.missing})),
            sum(change.op == "d" for change in conformed),
            sum(change.left is not None for change in conformed),
            len(truncates),
            earliest([change.position for change in conformed]),
            latest([change.position for change in conformed]),
            _barrier(spec, conformed),
            None,
            raw=_raw_columns(spec, evolved.schema) if spec.live_view else (),
            offsets=_offsets(spec, conformed, max),
            least_offsets=_offsets(spec, conformed, min),
            streams=self._streams(inputs),
            quarantined=records,
            unusable=tuple(bad),
        )
        return ListBatch(summary, spec, parent, version, tuple(conformed))

    def _streams(self, inputs: Sequence[Input]) -> tuple[Brought, ...]:
        """The newest `time` of each stream's records that are no reads of a snapshot; records of other tables (`-`) have one too."""
        records = ((item.path, raw) for item in inputs for raw in self._timed.get((item.path, item.etag), ()))
        return brought_by_stream((path, raw.get("partition"), raw["time"] if raw["op"] != "r" else None, raw["op"] != "-") for path, raw in records)

    def _events(self, spec: TableSpec, item: Input, locations: InputLocations) -> tuple[list[Change], int, list[Unusable]]:
        """The events of a file, how many records it has, and what of it cannot be used."""
        place = locations.get((item.path, item.etag)) or Layout(spec.root, spec.landing).landed(item.path)
        try:
            data = self._storage.read(place)
            events, unusable = sorted_out(data, item.name, item.epoch)
        except (UnicodeDecodeError, FileNotFoundError) as error:
            return [], 0, [Unusable(item.name, f"cannot be read ({error!r})")]
        lines = data.decode().splitlines()
        self._timed[item.path, item.etag] = [json.loads(line) for line in lines if '"time": ' in line]
        return events, len(lines), unusable

    # writing ------------------------------------------------------------------------------------------------------

    def resolve(self, batch: ListBatch, whole: bool) -> ListResolution:
        """Play back the events of every key."""
        assert not batch.closed
        parent, schema = batch.parent, batch.summary.evolved.schema
        delta: dict[Key, State] = {}
        stored: dict[Key, State] = {}
        if parent is not None:
            delta = self._delta(batch.spec, parent, schema)
            stored = {**self._base(batch.spec, parent.segments, parent, schema), **delta}
        batch, states, counts, ties = self._resolved(batch, stored)
        return ListResolution(batch, whole, states, stored, frozenset(delta), counts, ties)

    def write(self, resolution: ListResolution, commit: str, purge_through: int) -> Staged:
        """A whole new base; or what the batch changed, and what the parent's Delta holds and no compaction has put into the base."""
        resolution.check_open()
        batch, schema = resolution.batch, resolution.summary.evolved.schema
        if resolution.whole:
            kept, purged = _purged(batch.spec, resolution.states.values(), purge_through)
            segments = self._segments(batch.spec, schema, commit, [(None, None, kept)], batch.version) if kept else ()
            return Staged(None, segments, resolution.counts, resolution.ties, _unresolved(kept), purged)
        changed = resolution.states.items()
        delta = [state for key, state in changed if key in resolution.in_delta or not state.same(resolution.stored.get(key))]
        layout = Layout(batch.spec.root, batch.spec.landing)
        files = self._write(layout.delta(commit), schema, delta)
        written = None
        if delta:
            path = relative(layout.delta(commit), layout.root)
            bases = batch.parent.segments if batch.parent else ()
            owners = {_owner(bases, state.key).id for state in delta} if bases else set()
            untouched = tuple(segment.id for segment in bases if segment.id not in owners)
            written = Delta(commit, path, len(delta), _tombstones(delta), files, *_position_bounds(delta), _partial(delta), untouched)
        return Staged(written, (), resolution.counts, resolution.ties, _unresolved(delta))

    def _resolved(self, batch: ListBatch, stored: dict[Key, State]) -> tuple[ListBatch, dict[Key, State], dict[str, int], int]:
        spec, summary, parent = batch.spec, batch.summary, batch.parent
        barrier = latest([summary.truncate, parent.truncated_to if parent else None])
        events = [change for change in batch.changes if change.op != "t"]
        live = [change for change in events if not at_or_below(change.position, barrier)]
        stored = {key: state for key, state in stored.items() if not at_or_below(state.position, barrier)}
        known = [event for state in stored.values() for event in state.events if not at_or_below(event.position, barrier)]
        touched = {*stored, *(change.key for change in live), *(change.left for change in live if change.left is not None)}
        states = _played(ordered([*known, *live]), touched, stored, batch.version, summary.evolved.schema, spec.soft)
        outcomes, ties = _outcomes(live, stored)
        counts = {name: outcomes.count(name) for name in COUNTS}
        counts["superseded"] += len(events) - len(live)
        counts["applied"] += summary.truncates
        counts["ignored"] = summary.ignored
        counts["quarantined"], counts["beyond_retention"] = summary.quarantined, summary.beyond_retention
        if sum(counts.values()) != summary.read:
            raise CheckFailed(f"table {spec.name}: {summary.read} events read, {counts} add up to {sum(counts.values())}")
        beyond = _beyond(spec, parent, live, stored)
        if beyond:
            batch = batch.without(beyond)
            _check_limits(spec, batch.summary)
            return self._resolved(batch, stored)
        return batch, states, counts, ties

    def write_history(self, resolution: ListResolution, commit: str, staged: Staged) -> History:
        """Every event played back."""
        resolution.check_open()
        batch = resolution.batch
        known = batch.parent.history if batch.parent else None
        return history_engine.written(self._storage, batch.spec, batch.summary.evolved.schema, known, batch.changes, commit)

    # compacting ------------------------------------------------------------------------------------------------------

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Delta rows per segment that are not compacted yet."""
        counts: dict[str, int] = {}
        for key in self._delta(spec, snapshot, snapshot.schema):
            owner = _owner(snapshot.segments, key)
            counts[owner.id] = counts.get(owner.id, 0) + 1
        return counts

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments over the same ranges; neighbours may be cut anew."""
        schema = snapshot.schema
        wanted = {segment.id for segment in segments}
        delta = self._delta(spec, snapshot, schema)
        runs: list[list[Segment]] = []
        previous = None
        for segment in snapshot.segments:
            if segment.id in wanted:
                if previous is not None and previous.id in wanted:
                    runs[-1].append(segment)
                else:
                    runs.append([segment])
            previous = segment
        ranges, purges = [], []
        for run in runs:
            ids = {segment.id for segment in run}
            share = {key: state for key, state in delta.items() if _owner(snapshot.segments, key).id in ids}
            rows = {**self._base(spec, run, snapshot, schema), **share}
            kept, purged = _purged(spec, rows.values(), purge_through)
            ranges.append((run[0].low, run[-1].high, kept))
            purges.append(purged)
        return Staged(None, self._segments(spec, schema, commit, ranges, snapshot.version), {}, purged_to=latest(purges))

    # erasing ------------------------------------------------------------------------------------------------------

    def erased_with(self, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
        """Their texts, hashed."""
        return with_keys(snapshot.erased, [json.dumps(list(key)) for key in keys], erasing.SECRET, spec.name)

    def without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[Staged, int]:
        """A new base of the other rows."""
        schema = snapshot.schema
        stored = {**self._base(spec, snapshot.segments, snapshot, schema), **self._delta(spec, snapshot, schema)}
        kept = [state for key, state in stored.items() if not erasing.gone(erased, key)]
        segments = self._segments(spec, schema, commit, [(None, None, kept)], snapshot.version) if kept else ()
        return Staged(None, segments, {}), len(stored) - len(kept)

    def history_without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
        """All events of the other keys again."""
        assert snapshot.history is not None
        return history_engine.without(self._storage, spec, snapshot.schema, snapshot.history, erased, commit)

    def records_of(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, erased: Erased
    ) -> dict[str, ErasedRecords]:
        """The lines of the files."""
        assert len({item.path for item in inputs}) == len(inputs)
        out = {}
        for item in inputs:
            events, rows, unusable = self._events(spec, item, locations)
            if unusable:
                raise InputRefused(f"table {spec.name}: {item.path} has records that cannot be read")
            numbers = {event.position[-1] + 1 for event in _named(events, snapshot.schema) if erasing.gone(erased, event.key)}
            out[item.path] = ErasedRecords(tuple(sorted(numbers)), rows, events=rows)
        return out

    def write_without(self, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
        """The other lines, whatever the name of the file says about its format."""
        self._storage.write(f"{staging}/part-00000.json", raw_records.without(location, "json", self._storage.read(location), records))
        (info,) = self._storage.list(staging)
        return info

    # adopting -----------------------------------------------------------------------------------------------------

    def _read_base(self, spec: TableSpec, inputs: Sequence[Input], base: ForeignBase) -> ListBatch:
        """Files with a JSON object of numbers in each line: each row as if one event had made it, where it says, or before all others."""
        layout = Layout(spec.root, spec.landing)
        rows = [json.loads(line) for item in inputs for line in self._storage.read(layout.landed(item.path)).decode().splitlines()]
        columns: dict[str, types.Type] = {name: ("bigint",) for row in rows for name in row}
        how = adoption(spec, columns, base)
        origin = dict(how.columns)
        changes = []
        for row in rows:
            values = {field.name: row.get(origin.get(field.name, "")) for field in how.schema.fields}
            place = [row.get(name) for name in base.order_by]
            at = (spec.epoch, *place, None, None, None) if place and None not in place else unplaced(base.order)
            payload = {name: value for name, value in values.items() if name not in how.schema.key and value is not None}
            changes.append(Change("c", tuple(values[name] for name in how.schema.key), payload, at))
        if len({change.key for change in changes}) < len(changes):
            raise InputRefused(f"table {spec.name}: keys are in {spec.landing} more than once")
        positions = [change.position for change in changes]
        summary = BatchSummary(
            Evolved(how.schema, {}, decisions=how.decisions),
            base.order,
            tuple(inputs),
            len(rows),
            0,
            len(rows),
            (),
            0,
            0,
            0,
            earliest(positions),
            latest(positions),
            None,
            None,
            adoption=how,
        )
        return ListBatch(summary, spec, None, 1, tuple(changes))

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """What the Snapshot holds against one replay of all inputs."""
        stored = {
            **self._base(spec, snapshot.segments, snapshot, snapshot.schema),
            **_by_key(self._files(spec, snapshot.delta, snapshot.schema) if snapshot.delta else ()),
        }
        rows = {key: _seen(state) for key, state in stored.items() if state.op != "d" or spec.soft}
        every = [event for item in inputs for event in self._events(spec, item, locations)[0]]
        changes = [event for event in every if event.op == "t" or not erasing.gone(snapshot.erased, event.key)]
        began = [event for state in self._base(spec, origin.segments, origin, snapshot.schema).values() for event in state.events] if origin else []
        barrier = _barrier(spec, changes)
        every = [*began, *_named(changes, snapshot.schema)]
        # a column may have come with an event that a truncate has ended
        again = replayed(ordered(each for each in every if not at_or_below(each.position, barrier)), spec.soft, added(every))
        different = sorted({*rows, *again}, key=repr) if rows != again else []
        wrong = [key for key in different if rows.get(key) != again.get(key)]
        detail = f"{len(wrong)} keys differ, such as {wrong[0]}" if wrong else "equal"
        bad = {item.name: self._events(spec, item, locations)[2] for item in inputs}
        now = [dataclasses.replace(item, quarantined=len(bad[item.name])) for item in inputs]
        problem = not_usable_now(inputs, now, [one for each in bad.values() for one in each])
        return [
            Check(spec.name, "view equals full recompute", not wrong, detail),
            Check(spec.name, "ingested records", problem is None, problem or "all can be used"),
        ]

    def compare_live(self, spec: TableSpec, snapshot: Snapshot, waiting: Sequence[Input], locations: InputLocations) -> Check:
        """No SQL runs here, so there is nothing to compare."""
        return Check(spec.name, "live view equals the next version", True, "not compared")

    # the change feed ----------------------------------------------------------------------------------------------

    def rows(self, spec: TableSpec, snapshot: Snapshot | None, schema: Schema) -> dict[Key, Row]:
        """The rows that a version shows, by key, under stored names and in the columns of `schema`."""
        if snapshot is None:
            return {}
        stored = {**self._base(spec, snapshot.segments, snapshot, schema), **self._delta(spec, snapshot, schema)}
        return {key: _seen(state) for key, state in stored.items() if state.op != "d" or spec.soft}

    def changed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> list[dict[str, Any]]:
        """What makes the rows of `made` out of those of `parent`, by looking at all of them."""
        before, after = self.rows(spec, parent, made.schema), self.rows(spec, made, made.schema)
        out = []
        for key in sorted({*before, *after}, key=repr):
            old, new = before.get(key), after.get(key)
            kinds = [("insert", new)] if old is None else [("delete", old)] if new is None else [("update_preimage", old), ("update_postimage", new)]
            named = dict(zip(made.schema.key, key))
            out += [{"_change_type": kind, "_commit_version": made.version, **(row or {}), **named} for kind, row in kinds if old != new]
        return out

    def write_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot, resolution: ListResolution | None) -> FeedPart | None:
        """The whole difference, in one file. Of `feed: all` it knows no more than of `net`."""
        rows = self.changed(spec, parent, made)
        if not rows:
            return None
        layout = Layout(spec.root, spec.landing)
        directory = layout.feed(made.writer)
        self._storage.write(f"{directory}/part-00000.json", json.dumps(rows).encode())
        (info,) = self._storage.list(directory)
        kinds = Counter(row["_change_type"] for row in rows)
        files = (DataFile(relative(info.path, directory), info.size),)
        return FeedPart(relative(directory, layout.root), len(rows), files, kinds["insert"], kinds["update_postimage"], kinds["delete"])

    def read_feed(self, spec: TableSpec, snapshot: Snapshot) -> Iterator[str]:
        """The rows as they were written."""
        assert snapshot.feed is not None
        assert snapshot.feed.part is not None
        place = Layout(spec.root, spec.landing).inside(snapshot.feed.part.path)
        for file in snapshot.feed.part.files:
            yield from map(json.dumps, json.loads(self._storage.read(f"{place}/{file.name}")))

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """The part against the difference."""
        told = [json.loads(line) for line in self.read_feed(spec, made)] if made.feed and made.feed.part else []
        same = told == self.changed(spec, parent, made)
        return Check(spec.name, "feed = difference", same, f"version {made.version}: {'equal' if same else 'they differ'}")

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        """The reader runs every text (`tests/oracle/reader.py`): only the tables' names are looked at here."""
        quote = '"' if view.dialect == "presto" else "`"
        named = {f"{quote}{table.database}{quote}.{quote}{table.name}{quote} " for table in tables}
        if not any(name in view.text for name in named):
            raise CheckFailed(f"{view.name}: reads none of {sorted(named)}")

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        """The queries, as SQLite answers them."""
        rows = list(self.rows(spec, snapshot, snapshot.schema).values())
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            names = ", ".join(f"`{name}`" for name in snapshot.schema.names)
            database.execute(f"CREATE TABLE `{spec.view}` ({names})")
            marks = ", ".join("?" * len(snapshot.schema.names))
            values = [[row.get(name) for name in snapshot.schema.names] for row in rows]
            database.executemany(f"INSERT INTO `{spec.view}` VALUES ({marks})", values)
            answers = [database.execute(query(rule, f"`{spec.view}`")).fetchall() for rule in measured]
        return Measured(len(rows), tuple((len(answer), str(answer[0]) if answer else "") for answer in answers))

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """What the visible rows of two Snapshots differ in, by the key that `after` has."""
        try:
            was = self._visible(spec, before, after.schema.key)
        except (CheckFailed, FileNotFoundError, ValueError) as error:
            return Difference(unreadable=str(error))
        now = self._visible(spec, after, after.schema.key)
        wrong = sorted((key for key in {*was, *now} if was.get(key) != now.get(key)), key=repr)
        missing, added = sum(key not in now for key in wrong), sum(key not in was for key in wrong)
        return Difference(missing, added, len(wrong) - missing - added, tuple(repr(key) for key in wrong[:5]))

    def _visible(self, spec: TableSpec, snapshot: Snapshot, key: Sequence[str]) -> dict[Key, list[str]]:
        """Key → the rows shown under it, as text without the columns that are null."""
        schema = snapshot.schema
        delta = _by_key(self._files(spec, snapshot.delta, schema)) if snapshot.delta else {}
        stored = {**self._base(spec, snapshot.segments, snapshot, schema), **delta}
        out: dict[Key, list[str]] = {}
        for state in stored.values():
            if state.op != "d" or spec.soft:
                row = {**_seen(state), **dict(zip(schema.key, state.key))}
                told = {name: value for name, value in row.items() if value is not None}
                out.setdefault(tuple(row.get(name) for name in key), []).append(json.dumps(told, sort_keys=True))
        return out

    # what is stored -----------------------------------------------------------------------------------------------

    def _delta(self, spec: TableSpec, snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        """The Delta's rows that no compaction has put into the base."""
        if snapshot.delta is None:
            return {}
        rows = self._files(spec, snapshot.delta, schema)
        return _by_key(row for row in rows if not snapshot.segments or row.version > _owner(snapshot.segments, row.key).compacted_through)

    def _base(self, spec: TableSpec, segments: Sequence[Segment], snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        rows: list[State] = []
        for segment in segments:
            mine = self._files(spec, segment, schema)
            strange = [row.key for row in mine if _owner(snapshot.segments, row.key).id != segment.id]
            if strange:
                raise CheckFailed(f"table {spec.name}: {segment.id} holds {strange[0]}, which another segment owns")
            rows += mine
        return _by_key(rows)

    def _files(self, spec: TableSpec, part: Segment | Delta, schema: Schema) -> list[State]:
        layout = Layout(spec.root, spec.landing)
        rows = []
        for file in part.files:
            data = self._storage.read(f"{layout.inside(part.path)}/{file.name}")
            if len(data) != file.size:
                raise CheckFailed(f"{part.path}/{file.name}: expected {file.size} bytes, found {len(data)}")
            rows += [_revived(raw, schema) for raw in json.loads(data)]
        return rows

    def _write(self, directory: str, schema: Schema, states: Sequence[State]) -> tuple[DataFile, ...]:
        ranked = sorted(states, key=lambda state: state.key)
        for name, op in ((LIVE, "u"), ("deleted", "d")):
            alike = [_stored(state, schema) for state in ranked if state.op == op]
            for start in range(0, len(alike), _ROWS_PER_FILE):
                data = json.dumps(alike[start : start + _ROWS_PER_FILE]).encode()
                self._storage.write(f"{directory}/row_state={name}/part-{start // _ROWS_PER_FILE:05d}.json", data)
        listed = [info.path for info in self._storage.list(directory)]
        found = {path: self._storage.read(path) for path in listed}
        written = tuple(DataFile(relative(path, directory), len(data), checksum.of(data)) for path, data in found.items())
        back = [row for data in found.values() for row in json.loads(data)]
        keys = {tuple(row[name] for name in schema.key) for row in back}
        if len(back) != len(ranked) or len(keys) != len(ranked):
            raise CheckFailed(f"{directory}: expected {len(ranked)} rows, one per key, found {len(back)} with {len(keys)} keys")
        return written

    def _segments(
        self,
        spec: TableSpec,
        schema: Schema,
        commit: str,
        ranges: Sequence[tuple[Key | None, Key | None, list[State]]],
        through: int,
    ) -> tuple[Segment, ...]:
        """Segments of about the target size that tile each range. A range without rows still has one, of no files."""
        layout = Layout(spec.root, spec.landing)
        out = []
        for run, (low, high, states) in enumerate(ranges):
            ranked = sorted(states, key=lambda state: state.key)
            size = sum(len(json.dumps(_stored(state, schema))) for state in ranked)
            count = max(1, min(len(ranked), round(size / spec.target_file_bytes)))
            step = -(-len(ranked) // count) or 1
            parts = [ranked[start : start + step] for start in range(0, len(ranked), step)] or [[]]
            for at, part in enumerate(parts):
                directory = f"{layout.base(commit)}/segment={run}-{at:05d}"
                out.append(
                    Segment(
                        f"{commit}.{run}-{at:05d}",
                        relative(directory, layout.root),
                        len(part),
                        _tombstones(part),
                        self._write(directory, schema, part),
                        low if at == 0 else part[0].key,
                        high if at == len(parts) - 1 else parts[at + 1][0].key,
                        *_position_bounds(part),
                        through,
                        _partial(part),
                    )
                )
        return tuple(out)


def _groups(changes: dict[tuple[str, str], list[Change]]) -> dict[str, list[Change]]:
    """The events of each writer: those of one file that have the same columns with defaults."""
    out: dict[str, list[Change]] = {}
    for name, events in changes.items():
        for event in events:
            out.setdefault("~".join((*name, json.dumps(event.defaults))), []).append(event)
    return out


def _writer(spec: TableSpec, path: str, events: Sequence[Change]) -> WriterSchema:
    """The columns of a file, by their values."""
    kinds: dict[str, types.Type] = {}
    seen: list[str] = [*spec.key]
    defaults = dict(events[0].defaults)
    # values of JSON without schema do not distinguish integers from fractions
    bare = not defaults
    for event in events:
        for name, value in (*zip(spec.key, event.key), *sorted({**dict(event.defaults), **event.values}.items())):
            seen.append(name)
            if value is not None:
                kind = _kind(value)
                kinds[name] = types.widest(kinds.get(name, kind), kind, bare) or ("string",)
    names = list(dict.fromkeys(seen))
    fields = tuple(WriterField(name, kinds[name], kinds[name], default=defaults.get(name), inferred=bare) for name in names if name in kinds)
    bounds = [event.position for event in events]
    return WriterSchema(path, fields, earliest(bounds), latest(bounds), tuple(name for name in names if name not in kinds))


def _replacing(spec: TableSpec, changes: Sequence[Change]) -> Position | None:
    """Where an epoch that replaces begins, once one of its events has come: below all of them, above everything older."""
    come = any(change.op != "t" and change.position[0] == spec.epoch for change in changes)
    return (spec.epoch, None, None, None, None) if spec.epoch_replaces and come else None


def _raw_columns(spec: TableSpec, schema: Schema) -> tuple[tuple[str, str], ...]:
    """The columns of the landed files, as a live view has them (`tests.oracle.live`)."""
    columns = {field.source.lower(): field.type for field in schema.payload}
    operation = flat_rows.OPERATION if "op" in columns else "op"
    return (*columns.items(), *((name, "bigint") for name in spec.order_by if name not in columns), (operation, "string"))


def _kind(value: Any) -> types.Type:
    kinds = {bool: "boolean", int: "bigint", float: "double", str: "string"}
    return (kinds[type(value)],)


def cast(value: Any, kind: str) -> Any:
    """A JSON value as the column's type holds it."""
    if value is None or value == UNKNOWN or kind not in ("string", "double"):
        return value
    if kind == "double":
        return float(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _conformed(event: Change, columns: dict[str, str], schema: Schema) -> Change:
    """The event under stored names, with stored types."""
    shown = {field.source: field.name for field in schema.payload}
    kinds = {field.name: field.type for field in schema.fields}

    def name(source: str) -> str:
        return columns.get(source) or shown.get(source) or source

    return dataclasses.replace(
        event,
        key=_cast_key(event.key, schema),
        values=_cast_row({name(source): value for source, value in event.values.items() if value is not None}, kinds),
        missing=frozenset(name(source) for source in event.missing),
        left=_cast_key(event.left, schema) if event.left is not None else None,
        inherited=_cast_row(event.inherited, kinds) if event.inherited is not None else None,
        defaults=tuple((name(source), value) for source, value in event.defaults),
    )


def _named(changes: Iterable[Change], schema: Schema) -> list[Change]:
    return [_conformed(change, {}, schema) for change in changes]


def _cast_row(row: Row, kinds: dict[str, str]) -> Row:
    return {name: cast(value, kinds.get(name, "")) for name, value in row.items()}


def _cast_key(key: Key, schema: Schema) -> Key:
    return tuple(cast(value, schema.field(name).type) for name, value in zip(schema.key, key))


def _played(changes: Sequence[Change], touched: set[Key], stored: dict[Key, State], version: int, schema: Schema, soft: bool) -> dict[Key, State]:
    """The rows and tombstones of the touched keys after these events; one that is as it was keeps its version."""
    table = Replay(_added(schema))
    mine: dict[Key, list[Change]] = {key: [] for key in touched}
    for told in changes:
        # what was inherited counts only when the old key's events are gone (purged); else a late event may have changed it
        change = dataclasses.replace(told, inherited=None) if told.left in stored else told
        taken = table.apply(change)
        if change.left is not None:
            change = dataclasses.replace(change, inherited=taken)
        for key in (change.key, change.left):
            if key in mine:
                mine[key].append(change)
    table.add_columns()
    states = {}
    for key, events in mine.items():
        op, values = ("u", table.rows[key]) if key in table.rows else ("d", (table.gone.get(key) or {}) if soft else {})
        state = State(key, op, version, events[-1].position, values, tuple(events))
        known = stored.get(key)
        states[key] = known if known is not None and known.tells(state) else state
    return states


def _added(schema: Schema) -> Added:
    """The columns of a table that older rows read a default in, as the product remembers them."""
    return {field.name: (field.first, field.default) for field in schema.fields if field.default is not None and field.first is not None}


def _seen(state: State) -> Row:
    """The row that readers see, `delete: soft` or not."""
    return {**shown(state.values), **({DELETED: True} if state.op == "d" else {})}


def _outcomes(events: Sequence[Change], stored: dict[Key, State]) -> tuple[list[str], int]:
    """What became of each event, and how many were tied with another one of their key."""
    candidates: dict[Key, list[tuple[Any, bool, Position, str, bool]]] = {}
    for key, state in stored.items():
        told = state.events[-1].content if state.events[-1].key == key else "left"
        candidates.setdefault(key, []).append((sort_key(state.position), True, state.position, told, False))
    for event in events:
        told = event.content
        candidates.setdefault(event.key, []).append((sort_key(event.position), False, event.position, told, True))
        if event.left is not None:
            candidates.setdefault(event.left, []).append((sort_key(event.position), False, event.position, "left", False))
    outcomes, ties = [], 0
    for ranked in candidates.values():
        ranked.sort(reverse=True)
        head = ranked[0]
        # the event that made the stored row, under whatever name it is delivered again
        again = [each for each in ranked if each[1] and (event_part(each[2]), each[3]) == (event_part(head[2]), head[3])]
        head = again[0] if again else head
        for at, (_, _, position, told, is_event) in enumerate(ranked):
            if not is_event:
                continue
            above = ranked[at - 1] if at else None
            same = above is not None and event_part(above[2]) == event_part(position)
            if above is None and not again:
                outcomes.append("applied")
            elif above is None:
                outcomes.append("duplicate")
            elif (same and above[3] == told) or (head[1] and event_part(head[2]) == event_part(position)):
                outcomes.append("duplicate")
            else:
                outcomes.append("late" if head[1] else "superseded")
                ties += same
    return outcomes, ties


def _barrier(spec: TableSpec, changes: Sequence[Change]) -> Position | None:
    """The newest truncate, or the beginning of an epoch that replaces what was before it."""
    positions = [change.position for change in changes if change.op == "t" and spec.truncate == "apply"]
    newest = latest([change.position for change in changes if change.op != "t"])
    if spec.epoch_replaces and newest is not None and newest[0] == spec.epoch:
        positions.append((spec.epoch, *[None] * (len(newest) - 1)))
    return latest(positions)


def _offsets(spec: TableSpec, changes: Sequence[Change], least_or_greatest: Callable[[list[int]], int]) -> tuple[tuple[int, int], ...]:
    """Of the offsets of each partition the one that is asked for."""
    by_partition: dict[int, list[int]] = {}
    for change in changes:
        if change.partition is not None:
            by_partition.setdefault(change.partition, []).append(change.position[1])
    return tuple(sorted((partition, least_or_greatest(each)) for partition, each in by_partition.items()))


def _check_limits(spec: TableSpec, summary: BatchSummary) -> None:
    records, files = summary.quarantined + summary.beyond_retention, sum(bool(item.reason) for item in summary.inputs)
    limits = Limits(spec.quarantine_rows, spec.quarantine_share)
    problem = limits.problem(summary.unusable, records, summary.read, files, len(summary.inputs))
    if problem:
        raise InputRefused(f"table {spec.name}: {problem}")


def _behind(parent: Snapshot | None, event: Change) -> bool:
    """Whether a tombstone may have been purged that is newer than the event: in its partition where offsets count, else anywhere."""
    if parent is None or parent.purged_to is None:
        return False
    if event.partition is None:
        return at_or_below(event.position, parent.purged_to)
    bounds = {partition: (parent.purged_to[0], offset) for partition, offset in parent.purged_offsets}
    return event.position[0] < parent.purged_to[0] or event.position[:2] <= bounds.get(event.partition, (-9, 0))


def _beyond(spec: TableSpec, parent: Snapshot | None, events: Sequence[Change], stored: dict[Key, State]) -> set[Key]:
    """The keys of changes older than purged tombstones, without a row: they may be ones that a purged delete had ended."""
    newest: dict[Key, Change] = {}
    for event in sorted(events, key=lambda each: sort_key(each.position)):
        newest[event.key] = event
    old = {key for key, event in newest.items() if key not in stored and _behind(parent, event)}
    if old and spec.beyond_retention == "refuse":
        raise InputRefused(f"table {spec.name}: {len(old)} changes are older than purged tombstones, such as {min(old, key=repr)}")
    return set() if spec.beyond_retention == "apply" else old


def _purged(spec: TableSpec, states: Iterable[State], through: int) -> tuple[list[State], Position | None]:
    every = list(states)
    if spec.order_by[:1] not in TOTAL and spec.beyond_retention != "apply":
        # positions of other keys say nothing, so only the tombstone itself can hold a late event back
        return every, None
    gone = [state for state in every if state.op == "d" and state.version <= through]
    return [state for state in every if state not in gone], latest([state.position for state in gone])


def _owner(segments: Sequence[Segment], key: Key) -> Segment:
    return next(segment for segment in segments if segment.high is None or key < tuple(segment.high))


def _by_key(states: Iterable[State]) -> dict[Key, State]:
    return {state.key: state for state in states}


def _tombstones(states: Sequence[State]) -> int:
    return sum(state.op == "d" for state in states)


def _position_bounds(states: Sequence[State]) -> tuple[Position | None, Position | None]:
    positions = [state.position for state in states]
    return earliest(positions), latest(positions)


def _bounds(changes: Sequence[Change]) -> dict[str, Position | None]:
    positions = [change.position for change in changes]
    return {"position_min": earliest(positions), "position_max": latest(positions)}


def _partial(states: Sequence[State]) -> tuple[str, ...]:
    return tuple(sorted({name for state in states for name in state.partial}))


def _unresolved(states: Sequence[State]) -> int:
    return sum(value == UNKNOWN for state in states for value in state.values.values())


def _stored(state: State, schema: Schema) -> dict[str, Any]:
    told = {**shown(state.values), **dict(zip(schema.key, state.key))}
    # what follows from the row's Position is the view's to show
    at = state.at
    later = {name for name, (first, _) in _added(schema).items() if at is not None and sort_key(at) < sort_key(first)}
    columns = {name: told.get(name) if name not in later else None for name in schema.names}
    events = [[e.op, e.key, e.values, e.position, sorted(e.missing), e.left, e.inherited, e.defaults] for e in state.events]
    unknown = [name for name, value in state.values.items() if value == UNKNOWN]
    gone = state.position if state.op == "d" else None
    hidden = {"_version": state.version, "_at": at, "_gone": gone, "_unknown": unknown, "_events": events}
    return {**columns, **hidden}


def _revived(raw: dict[str, Any], schema: Schema) -> State:
    key = _cast_key(tuple(raw[name] for name in schema.key), schema)
    kinds = {field.name: field.type for field in schema.fields}
    values = {name: cast(raw.get(name), kind) for name, kind in kinds.items() if name not in schema.key and raw.get(name) is not None}
    at = raw["_at"] and tuple(raw["_at"])
    position = tuple(raw["_gone"]) if raw["_gone"] else at
    for name, (first, default) in _added(schema).items():
        if at is not None and sort_key(at) < sort_key(first) and name not in values:
            values[name] = cast(default, kinds[name])
    values.update(dict.fromkeys(raw["_unknown"], UNKNOWN))
    events = [
        Change(op, tuple(key), told, tuple(at), frozenset(missing), tuple(left) if left is not None else None, inherited, _pairs(defaults))
        for op, key, told, at, missing, left, inherited, defaults in raw["_events"]
    ]
    return State(key, "d" if raw["_gone"] else "u", raw["_version"], position, values, tuple(_recast(events, schema)))


def _pairs(listed: list[list[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in listed)


def _recast(events: Iterable[Change], schema: Schema) -> list[Change]:
    kinds = {field.name: field.type for field in schema.fields}
    return [
        dataclasses.replace(
            event,
            key=_cast_key(event.key, schema),
            left=_cast_key(event.left, schema) if event.left is not None else None,
            values=_cast_row(event.values, kinds),
            inherited=_cast_row(event.inherited, kinds) if event.inherited is not None else None,
        )
        for event in events
    ]
