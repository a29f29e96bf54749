"""ListEngine: a fake of the Engine port over JSON files. It lets flows run thousands of times without a JVM.

It knows keys and Positions, and nothing else about rows: of each key it keeps the newest row and the newest delete. Values that a source leaves out,
changed keys, offsets of partitions and ties are Spark's, and are tested there against the model. What it gives the flows is what Spark gives them:
Segments that tile the keys, one row per key in a Delta, sizes, Positions, counts.

    row_state=*/part-*.json    [{"id": 1, "a": 5, "_version": 3, "_at": [..], "_gone": null}, ...] sorted by key
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.erasure.keys import with_keys
from compactor.core.formats import checksum
from compactor.core.model import types
from compactor.core.model.errors import CheckFailed, InputRefused, NoRowsYet, OrderRefused
from compactor.core.model.files import LIVE, DataFile, Delta, FeedPart, FileInfo, Segment
from compactor.core.model.history import History
from compactor.core.model.inputs import Brought, Input
from compactor.core.model.layout import relative
from compactor.core.model.position import Position, at_or_below, earliest, event_part, latest, sort_key
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS, Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.planning.audit import Measured, Rule, query
from compactor.core.results.batch import BatchSummary, ErasedRecords, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.schema.adoption import ForeignBase
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import flat_rows
from compactor.core.sources.quarantine import BEYOND_RETENTION, Limits, Unusable, not_usable_now
from compactor.core.sources.whole_hours import brought_by_stream
from compactor.ports import Entries, Storage
from compactor.spark.input import raw_records
from tests.oracle import erasing, history_engine
from tests.oracle.model import DELETED, Added, Change, Key, Row, added, ordered, replayed, sorted_out

_ROWS_PER_FILE = 8
_PADDING = "." * 100
"""Makes rows large beside the rest of a file, so that few of them make several Segments that are worth compacting."""

TOTAL = (("__lsn",), ("offset",))
"""Orders of more than one key's events. Any other is taken for a counter that each row has for itself."""


@dataclass(frozen=True)
class State:
    """A stored row: the newest values of its key with their Position, and the Position of its newest delete."""

    key: Key
    version: int
    values: Row
    at: Position | None
    gone: Position | None

    @property
    def position(self) -> Position:
        """The Position of the newest event."""
        newest = latest([self.at, self.gone])
        assert newest is not None
        return newest

    @property
    def deleted(self) -> bool:
        """Whether the delete is newer than the values."""
        return self.position == self.gone

    def has(self, event: Change) -> bool:
        """Return whether it is made of this event, under whatever name that was delivered."""
        if event.op == "d":
            return self.gone is not None and event_part(self.gone) == event_part(event.position)
        return self.at is not None and event_part(self.at) == event_part(event.position) and self.values == event.values


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
        """Return the batch without the changes of these keys, which count as beyond retention."""
        old = [change for change in self.changes if change.op != "t" and change.key in keys]
        counts = Counter(change.position[-3] for change in old)
        unusable = (*self.summary.unusable, *(Unusable(change.position[-3], BEYOND_RETENTION, change.position[-1] + 1) for change in old))
        inputs = tuple(dataclasses.replace(item, quarantined=item.quarantined + counts[item.name]) for item in self.summary.inputs)
        summary = dataclasses.replace(self.summary, inputs=inputs, beyond_retention=len(old), unusable=unusable)
        _check_limits(self.spec, summary.unusable, summary.quarantined + len(old), summary)
        return dataclasses.replace(self, summary=summary, changes=tuple(change for change in self.changes if change not in old))

    def close(self) -> None:
        """Forbid further reading."""
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
        """Forbid further reading."""
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
        unusable = [one for _, _, refused in files.values() for one in refused]
        unreadable = {one.file: one.reason for one in unusable if one.record is None}
        read, records = sum(rows for _, rows, _ in files.values()), len(unusable) - len(unreadable)
        groups: dict[str, list[Change]] = {}
        for (path, etag), (events, _, _) in files.items():
            for event in events:
                groups.setdefault("~".join((path, etag, json.dumps(event.defaults))), []).append(event)
        writers = [_writer(spec, name, events) for name, events in groups.items() if any(event.op != "t" for event in events)]
        counted = tuple(
            item.as_unreadable(unreadable[item.name])
            if item.name in unreadable
            else dataclasses.replace(item, rows=rows, quarantined=len(refused), position_min=bounds[0], position_max=bounds[1])
            for item, (events, rows, refused) in zip(inputs, files.values(), strict=True)
            for bounds in [_bounds([event.position for event in events])]
        )
        limits = Limits(spec.quarantine_rows, spec.quarantine_share)
        problem = limits.problem(unusable, records, read, len(unreadable), len(inputs))
        if problem:
            raise InputRefused(f"table {spec.name}: {problem}")
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: nothing with a row has landed")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name, spec.policy)
        erased = erased or (parent.erased if parent else None)
        every = [_conformed(event, evolved.columns.get(name, {}), evolved.schema) for name, events in groups.items() for event in events]
        changes = [change for change in every if change.op == "t" or not erasing.gone(erased, change.key)]
        truncates = sum(change.op == "t" for change in changes)
        if truncates and spec.truncate == "fail":
            raise InputRefused(f"table {spec.name}: a TRUNCATE arrived and `truncate: fail` is set")
        summary = _summary(spec, parent, evolved, order, counted, read, read - len(changes) - records, changes)
        summary = dataclasses.replace(summary, streams=self._streams(inputs), quarantined=records, unusable=tuple(unusable))
        return ListBatch(summary, spec, parent, version, tuple(changes))

    def _streams(self, inputs: Sequence[Input]) -> tuple[Brought, ...]:
        """The newest `time` of each stream's records that are no reads of a snapshot; records of other tables (`-`) have one too."""
        records = ((item.path, raw) for item in inputs for raw in self._timed.get((item.path, item.etag), ()))
        return brought_by_stream((path, raw.get("partition"), raw["time"] if raw["op"] != "r" else None, raw["op"] != "-") for path, raw in records)

    def _events(self, spec: TableSpec, item: Input, locations: InputLocations) -> tuple[list[Change], int, list[Unusable]]:
        """The events of a file, how many records it has, and what of it cannot be used."""
        place = locations.get((item.path, item.etag)) or spec.layout.landed(item.path)
        try:
            data = self._storage.read(place)
            events, unusable = sorted_out(data, item.name, item.epoch)
        except (UnicodeDecodeError, FileNotFoundError) as error:
            return [], 0, [Unusable(item.name, f"cannot be read ({error!r})")]
        assert not any(event.missing or event.left for event in events), f"{place}: values left out and changed keys are tested on Spark"
        lines = data.decode().splitlines()
        self._timed[item.path, item.etag] = [json.loads(line) for line in lines if '"time": ' in line]
        return events, len(lines), unusable

    def _read_base(self, spec: TableSpec, inputs: Sequence[Input], base: ForeignBase) -> ListBatch:
        """Files with a JSON object of numbers in each line: each row as if one event had made it, before all others."""
        layout = spec.layout
        rows = [json.loads(line) for item in inputs for line in self._storage.read(layout.landed(item.path)).decode().splitlines()]
        names = dict.fromkeys(name for row in rows for name in row)
        evolved = base.evolved([WriterSchema("base", tuple(WriterField(name, ("bigint",), ("bigint",)) for name in names))], spec)
        stored = evolved.columns["base"]
        changes = []
        for row in rows:
            values = {stored[name]: value for name, value in row.items() if value is not None}
            key = tuple(values.pop(name) for name in evolved.schema.key)
            changes.append(Change("c", key, values, base.position))
        summary = _summary(spec, None, evolved, base.order, tuple(inputs), len(rows), 0, changes)
        return ListBatch(summary, spec, None, 1, tuple(changes))

    # writing ------------------------------------------------------------------------------------------------------

    def resolve(self, batch: ListBatch, whole: bool) -> ListResolution:
        """Compare the events of every key with its stored row."""
        assert not batch.closed
        spec, parent = batch.spec, batch.parent
        delta = self._delta(spec, parent, batch.summary.evolved.schema) if parent else {}
        stored = {**self._base(spec, parent.segments, parent, batch.summary.evolved.schema), **delta} if parent else {}
        barrier = latest([batch.summary.truncate, parent.truncated_to if parent else None])
        live = {key: state for key, state in ((key, _above(state, barrier)) for key, state in stored.items()) if state is not None}
        beyond = _beyond(spec, parent, batch.changes, {*live})
        batch = batch.without(beyond) if beyond else batch
        events: dict[Key, list[Change]] = {key: [] for key in live}
        counts = dict.fromkeys(COUNTS, 0)
        for change in batch.changes:
            if change.op != "t" and at_or_below(change.position, barrier):
                counts["superseded"] += 1
            elif change.op != "t":
                events.setdefault(change.key, []).append(change)
        states = {key: _resolved(key, live.get(key), mine, batch.version, spec.soft, counts) for key, mine in events.items()}
        counts["applied"] += batch.summary.truncates
        counts["ignored"] = batch.summary.ignored
        counts["quarantined"], counts["beyond_retention"] = batch.summary.quarantined, batch.summary.beyond_retention
        if sum(counts.values()) != batch.summary.read:
            raise CheckFailed(f"table {spec.name}: {batch.summary.read} events read, {counts} add up to {sum(counts.values())}")
        return ListResolution(batch, whole, states, live, frozenset(delta), counts)

    def write(self, resolution: ListResolution, commit: str, purge_through: int) -> Staged:
        """A whole new base; or what the batch changed, and what the parent's Delta holds and no compaction has put into the base."""
        resolution.check_open()
        batch, schema = resolution.batch, resolution.summary.evolved.schema
        if resolution.whole:
            kept, purged = _purged(batch.spec, resolution.states.values(), purge_through)
            segments = self._segments(batch.spec, schema, commit, [(None, None, kept)], batch.version) if kept else ()
            return Staged(None, segments, resolution.counts, purged_to=purged)
        delta = [state for key, state in resolution.states.items() if key in resolution.in_delta or state != resolution.stored.get(key)]
        layout = batch.spec.layout
        files = self._write(layout.delta(commit), schema, delta, bool(batch.spec.iceberg))
        if not delta:
            return Staged(None, (), resolution.counts)
        bases = batch.parent.segments if batch.parent else ()
        owners = {_owner(bases, state.key).id for state in delta} if bases else set()
        untouched = tuple(segment.id for segment in bases if segment.id not in owners)
        path, bounds = relative(layout.delta(commit), layout.root), _bounds([state.position for state in delta])
        filled = compaction.stored_defaults(batch.spec, schema)
        return Staged(Delta(commit, path, len(delta), _tombstones(delta), files, *bounds, (), untouched, filled), (), resolution.counts)

    def write_history(self, resolution: ListResolution, commit: str, staged: Staged) -> History:
        """Every event played back."""
        resolution.check_open()
        batch = resolution.batch
        before = batch.parent.history if batch.parent else None
        return history_engine.written(self._storage, batch.spec, batch.summary.evolved.schema, before, batch.changes, commit)

    # compacting ---------------------------------------------------------------------------------------------------

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Delta rows per segment that are not compacted yet."""
        return dict(Counter(_owner(snapshot.segments, key).id for key in self._delta(spec, snapshot, snapshot.schema)))

    def hidden(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, list[int]]:
        """Rows of base files that the Delta has the keys of."""
        changed = {row.key for row in self._files(spec, snapshot.delta, snapshot.schema, snapshot.schema)} if snapshot.delta else set()
        places = {}
        for segment in snapshot.segments:
            for file in (file for folder in segment.folders if folder.state == LIVE for file in folder.files):
                rows = self._files(spec, dataclasses.replace(segment, files=(file,)), snapshot.schema, snapshot.schema)
                places[f"{segment.path}/{file.name}"] = [at for at, row in enumerate(rows) if row.key in changed]
        return {path: found for path, found in places.items() if found}

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments over the same ranges; neighbours may be cut anew."""
        schema, targets = snapshot.schema, {segment.id for segment in segments}
        delta = self._delta(spec, snapshot, schema)
        runs: list[list[Segment]] = [[]]
        for segment in snapshot.segments:
            if segment.id in targets:
                runs[-1].append(segment)
            elif runs[-1]:
                runs.append([])
        ranges, purges = [], []
        for run in filter(None, runs):
            ids = {segment.id for segment in run}
            share = {key: state for key, state in delta.items() if _owner(snapshot.segments, key).id in ids}
            kept, purged = _purged(spec, {**self._base(spec, run, snapshot, schema), **share}.values(), purge_through)
            ranges.append((run[0].low, run[-1].high, kept))
            purges.append(purged)
        return Staged(None, self._segments(spec, schema, commit, ranges, snapshot.version), {}, purged_to=latest(purges))

    # erasing ------------------------------------------------------------------------------------------------------

    def erased_with(self, spec: TableSpec, snapshot: Snapshot, keys: Sequence[Sequence[str]]) -> Erased:
        """Their texts, hashed."""
        return with_keys(snapshot.erased, [json.dumps(list(key)) for key in keys], erasing.SECRET, spec.name)

    def without(self, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[Staged, int]:
        """A new base of the other rows."""
        stored = self._stored(spec, snapshot, snapshot.schema)
        kept = [state for key, state in stored.items() if not erasing.gone(erased, key)]
        segments = self._segments(spec, snapshot.schema, commit, [(None, None, kept)], snapshot.version) if kept else ()
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
            conformed = [_conformed(event, {}, snapshot.schema) for event in events]
            numbers = {event.position[-1] + 1 for event in conformed if erasing.gone(erased, event.key)}
            out[item.path] = ErasedRecords(tuple(sorted(numbers)), rows, events=rows)
        return out

    def write_without(self, spec: TableSpec, location: str, records: ErasedRecords, staging: str) -> FileInfo:
        """The other lines, whatever the name of the file says about its format."""
        self._storage.write(f"{staging}/part-00000.json", raw_records.without(location, "json", self._storage.read(location), records))
        (info,) = self._storage.list(staging)
        return info

    # comparing ----------------------------------------------------------------------------------------------------

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """What the Snapshot holds against one replay of all inputs."""
        rows, read = self.rows(spec, snapshot, snapshot.schema), [self._events(spec, item, locations) for item in inputs]
        events = [event for each, _, _ in read for event in each]
        began = self._base(spec, origin.segments, origin, snapshot.schema).values() if origin else ()
        changes = [Change("c", state.key, state.values, state.at) for state in began if state.at]
        changes += [_conformed(event, {}, snapshot.schema) for event in events if event.op == "t" or not erasing.gone(snapshot.erased, event.key)]
        # a column may have come with an event that a truncate has ended
        barrier = _barrier(spec, None, changes)
        again = replayed(ordered(each for each in changes if not at_or_below(each.position, barrier)), spec.soft, added(changes))
        different = [key for key in sorted({*rows, *again}, key=repr) if rows.get(key) != again.get(key)] if rows != again else []
        detail = f"{len(different)} keys differ, such as {different[0]}" if different else "equal"
        now = [dataclasses.replace(item, quarantined=len(unusable)) for item, (_, _, unusable) in zip(inputs, read, strict=True)]
        problem = not_usable_now(inputs, now, [one for _, _, unusable in read for one in unusable])
        return [
            Check(spec.name, "view equals full recompute", not different, detail),
            Check(spec.name, "ingested records", problem is None, problem or "all can be used"),
        ]

    def compare_live(self, spec: TableSpec, snapshot: Snapshot, waiting: Sequence[Input], locations: InputLocations) -> Check:
        """No SQL runs here, so there is nothing to compare."""
        return Check(spec.name, "live view equals the next version", True, "not compared")

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """What the visible rows of two Snapshots differ in, by the key that `after` has."""

        def visible(snapshot: Snapshot) -> dict[Key, list[str]]:
            out: dict[Key, list[str]] = {}
            for key, values in self.rows(spec, snapshot, snapshot.schema).items():
                row = {**values, **dict(zip(snapshot.schema.key, key))}
                out.setdefault(tuple(row.get(name) for name in after.schema.key), []).append(json.dumps(row, sort_keys=True))
            return out

        try:
            old = visible(before)
        except (CheckFailed, FileNotFoundError, ValueError) as error:
            return Difference(unreadable=str(error))
        new = visible(after)
        different = sorted((key for key in {*old, *new} if old.get(key) != new.get(key)), key=repr)
        removed, came = sum(key not in new for key in different), sum(key not in old for key in different)
        return Difference(removed, came, len(different) - removed - came, tuple(repr(key) for key in different[:5]))

    # the change feed ----------------------------------------------------------------------------------------------

    def rows(self, spec: TableSpec, snapshot: Snapshot | None, schema: Schema) -> dict[Key, Row]:
        """The rows that a version shows, by key, under stored names and in the columns of `schema`."""
        stored = self._stored(spec, snapshot, schema) if snapshot else {}
        return {
            key: {**state.values, **({DELETED: True} if state.deleted else {})} for key, state in stored.items() if spec.soft or not state.deleted
        }

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
        """The whole difference, in one file."""
        rows = self.changed(spec, parent, made)
        if not rows:
            return None
        layout = spec.layout
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
        place = spec.layout.inside(snapshot.feed.part.path)
        for file in snapshot.feed.part.files:
            yield from map(json.dumps, json.loads(self._storage.read(f"{place}/{file.name}")))

    def check_feed(self, spec: TableSpec, parent: Snapshot | None, made: Snapshot) -> Check:
        """The part against the difference."""
        part = [json.loads(line) for line in self.read_feed(spec, made)] if made.feed and made.feed.part else []
        same = part == self.changed(spec, parent, made)
        return Check(spec.name, "feed = difference", same, f"version {made.version}: {'equal' if same else 'they differ'}")

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        """The reader runs every text (`tests/oracle/reader.py`): only the tables' names are looked at here."""
        quote = '"' if view.dialect == "presto" else "`"
        named = {f"{quote}{table.database}{quote}.{quote}{table.name}{quote} " for table in tables}
        if not any(name in view.text for name in named):
            raise CheckFailed(f"{view.name}: reads none of {sorted(named)}")

    def audit(self, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
        """The queries, as SQLite answers them."""
        rows = [{**values, **dict(zip(snapshot.schema.key, key))} for key, values in self.rows(spec, snapshot, snapshot.schema).items()]
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE `{spec.view}` ({', '.join(f'`{name}`' for name in snapshot.schema.names)})")
            marks = ", ".join("?" * len(snapshot.schema.names))
            values = [[row.get(name) for name in snapshot.schema.names] for row in rows]
            database.executemany(f"INSERT INTO `{spec.view}` VALUES ({marks})", values)
            answers = [database.execute(query(rule, f"`{spec.view}`")).fetchall() for rule in measured]
        return Measured(len(rows), tuple((len(answer), str(answer[0]) if answer else "") for answer in answers))

    # what is stored -----------------------------------------------------------------------------------------------

    def _stored(self, spec: TableSpec, snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        return {**self._base(spec, snapshot.segments, snapshot, schema), **self._delta(spec, snapshot, schema)}

    def _delta(self, spec: TableSpec, snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        """The Delta's rows that no compaction has put into the base."""
        rows = self._files(spec, snapshot.delta, schema, snapshot.schema) if snapshot.delta else []
        return {row.key: row for row in rows if not snapshot.segments or row.version > _owner(snapshot.segments, row.key).compacted_through}

    def _base(self, spec: TableSpec, segments: Sequence[Segment], snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        out: dict[Key, State] = {}
        for segment in segments:
            rows = self._files(spec, segment, schema, snapshot.schema)
            misplaced = [row.key for row in rows if _owner(snapshot.segments, row.key).id != segment.id]
            if misplaced:
                raise CheckFailed(f"table {spec.name}: {segment.id} holds {misplaced[0]}, which another segment owns")
            out.update({row.key: row for row in rows})
        return out

    def _files(self, spec: TableSpec, part: Segment | Delta, schema: Schema, stored: Schema) -> list[State]:
        layout = spec.layout
        rows = []
        for file in part.files:
            data = self._storage.read(f"{layout.inside(part.path)}/{file.name}")
            if len(data) != file.size:
                raise CheckFailed(f"{part.path}/{file.name}: expected {file.size} bytes, found {len(data)}")
            rows += [_revived(raw, schema, stored) for raw in json.loads(data)]
        return rows

    def _write(self, directory: str, schema: Schema, states: Sequence[State], fill: bool) -> tuple[DataFile, ...]:
        ranked = sorted(states, key=lambda state: state.key)
        for name, deleted in ((LIVE, False), ("deleted", True)):
            alike = [_plain(state, schema, fill) for state in ranked if state.deleted == deleted]
            for start in range(0, len(alike), _ROWS_PER_FILE):
                data = json.dumps(alike[start : start + _ROWS_PER_FILE]).encode()
                self._storage.write(f"{directory}/row_state={name}/part-{start // _ROWS_PER_FILE:05d}.json", data)
        contents = {info.path: self._storage.read(info.path) for info in self._storage.list(directory)}
        if (count := sum(len(json.loads(data)) for data in contents.values())) != len(ranked):
            raise CheckFailed(f"{directory}: expected {len(ranked)} rows, found {count}")
        return tuple(DataFile(relative(path, directory), len(data), checksum.of(data)) for path, data in contents.items())

    def _segments(
        self, spec: TableSpec, schema: Schema, commit: str, ranges: Sequence[tuple[Key | None, Key | None, list[State]]], through: int
    ) -> tuple[Segment, ...]:
        """Segments of about the target size that tile each range. A range without rows still has one, of no files."""
        layout, fill, filled = spec.layout, bool(spec.iceberg), compaction.stored_defaults(spec, schema)
        out = []
        for run, (low, high, states) in enumerate(ranges):
            ranked = sorted(states, key=lambda state: state.key)
            size = sum(len(json.dumps(_plain(state, schema, fill))) for state in ranked)
            step = -(-len(ranked) // max(1, min(len(ranked), round(size / spec.target_file_bytes)))) or 1
            parts = [ranked[start : start + step] for start in range(0, len(ranked), step)] or [[]]
            for at, part in enumerate(parts):
                directory, name = f"{layout.base(commit)}/segment={run}-{at:05d}", f"{commit}.{run}-{at:05d}"
                first, last = low if at == 0 else part[0].key, high if at == len(parts) - 1 else parts[at + 1][0].key
                files, bounds = self._write(directory, schema, part, fill), _bounds([state.position for state in part])
                out.append(
                    Segment(
                        name, relative(directory, layout.root), len(part), _tombstones(part), files, first, last, *bounds, through, defaults=filled
                    )
                )
        return tuple(out)


def _summary(
    spec: TableSpec,
    parent: Snapshot | None,
    evolved: Evolved,
    order: tuple[tuple[str, str], ...],
    inputs: tuple[Input, ...],
    read: int,
    ignored: int,
    changes: list[Change],
) -> BatchSummary:
    first, last = _bounds([change.position for change in changes])
    deletes, truncates = sum(change.op == "d" for change in changes), sum(change.op == "t" for change in changes)
    counts = (read, ignored, len(changes), (), deletes, 0, truncates)
    raw = _raw_columns(spec, evolved.schema)
    made = BatchSummary(evolved, order, inputs, *counts, first, last, _barrier(spec, parent, changes), None, raw=raw)
    return dataclasses.replace(made, raw_format="parquet" if raw else "")


def _writer(spec: TableSpec, path: str, events: Sequence[Change]) -> WriterSchema:
    """The columns of a file, by their values."""
    kinds: dict[str, types.Type] = {}
    names: dict[str, None] = dict.fromkeys(spec.key)
    defaults = dict(events[0].defaults)
    # values of JSON without schema do not distinguish integers from fractions
    bare = not defaults
    for event in events:
        for name, value in (*zip(spec.key, event.key), *sorted({**defaults, **event.values}.items())):
            names[name] = None
            if value is not None:
                kind = ({bool: "boolean", int: "bigint", float: "double", str: "string"}[type(value)],)
                kinds[name] = types.widest(kinds.get(name, kind), kind, bare) or ("string",)
    fields = tuple(WriterField(name, kinds[name], kinds[name], default=defaults.get(name), inferred=bare) for name in names if name in kinds)
    return WriterSchema(path, fields, *_bounds([event.position for event in events]), tuple(name for name in names if name not in kinds))


def _raw_columns(spec: TableSpec, schema: Schema) -> tuple[tuple[str, str], ...]:
    """The columns of the landed files, as a live view has them (`tests.oracle.live`)."""
    if not spec.live_view:
        return ()
    columns = {field.source.lower(): field.type for field in schema.payload}
    operation = flat_rows.OPERATION if "op" in columns else "op"
    return (*columns.items(), *((name, "bigint") for name in spec.order_by if name not in columns), (operation, "string"))


def cast(value: Any, kind: str) -> Any:
    """A JSON value as the column's type holds it."""
    if value is None or kind not in ("string", "double"):
        return value
    if kind == "double":
        return float(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _conformed(event: Change, columns: dict[str, str], schema: Schema) -> Change:
    """The event under stored names, with stored types."""
    shown = {field.source: field.name for field in schema.payload}
    kinds = {field.name: field.type for field in schema.fields}
    key = tuple(cast(value, schema.field(name).type) for name, value in zip(schema.key, event.key))
    names = {name: columns.get(name) or shown.get(name) or name for name in (*event.values, *dict(event.defaults))}
    values = {names[name]: cast(value, kinds.get(names[name], "")) for name, value in event.values.items() if value is not None}
    return dataclasses.replace(event, key=key, values=values, defaults=tuple((names[name], value) for name, value in event.defaults))


def _above(state: State, barrier: Position | None) -> State | None:
    """What a truncate leaves of a stored row."""
    if at_or_below(state.position, barrier):
        return None
    return dataclasses.replace(state, values={}, at=None) if at_or_below(state.at, barrier) else state


def _resolved(key: Key, stored: State | None, events: list[Change], version: int, soft: bool, counts: dict[str, int]) -> State:
    """The newest values and the newest delete of a key. Counts what became of each event."""
    once: dict[tuple[Position, str], Change] = {}
    for event in sorted(events, key=lambda event: sort_key(event.position)):
        if not (stored and stored.has(event)):
            once[event_part(event.position), event.content] = event
    fresh = sorted(once.values(), key=lambda event: sort_key(event.position))
    counts["duplicate"] += len(events) - len(fresh)
    bound = stored.position if stored else None
    late = fresh and at_or_below(fresh[-1].position, bound)
    counts["late" if late else "superseded"] += len(fresh) - (0 if late else 1) if fresh else 0
    counts["applied"] += 1 if fresh and not late else 0
    values = [(sort_key(event.position), event.position, event.values) for event in fresh if event.op != "d"]
    values += [(sort_key(stored.at), stored.at, stored.values)] if stored and stored.at else []
    _, at, row = max(values, key=lambda each: each[0], default=(None, None, {}))
    gone = latest([*(event.position for event in fresh if event.op == "d"), stored.gone if stored else None])
    made = State(key, version, row, at, gone)
    if not made.deleted:
        made = dataclasses.replace(made, gone=None)
    elif not soft:
        made = dataclasses.replace(made, values={}, at=None)
    return stored if stored and dataclasses.replace(made, version=stored.version) == stored else made


def _added(schema: Schema) -> Added:
    """The columns of a table that older rows read a default in, as the product remembers them."""
    return {field.name: (field.first, field.default) for field in schema.fields if field.default is not None and field.first is not None}


def _barrier(spec: TableSpec, parent: Snapshot | None, changes: Sequence[Change]) -> Position | None:
    """The newest truncate, or the beginning of an epoch that replaces what was before it, once."""
    positions = [change.position for change in changes if change.op == "t" and spec.truncate == "apply"]
    newest = latest([change.position for change in changes if change.op != "t"])
    if spec.epoch_replaces and newest is not None and newest[0] == spec.epoch:
        begins = (spec.epoch, *[None] * (len(newest) - 1))
        positions += [] if at_or_below(begins, parent.truncated_to if parent else None) else [begins]
    return latest(positions)


def _check_limits(spec: TableSpec, unusable: Sequence[Unusable], records: int, summary: BatchSummary) -> None:
    files = sum(bool(item.reason) for item in summary.inputs)
    problem = Limits(spec.quarantine_rows, spec.quarantine_share).problem(unusable, records, summary.read, files, len(summary.inputs))
    if problem:
        raise InputRefused(f"table {spec.name}: {problem}")


def _beyond(spec: TableSpec, parent: Snapshot | None, changes: Sequence[Change], stored: set[Key]) -> set[Key]:
    """The keys without a row whose changes are older than purged tombstones: a purged delete may have ended them."""
    newest = {change.key: change for change in sorted(changes, key=lambda each: sort_key(each.position)) if change.op != "t"}
    bound = parent.purged_to if parent else None
    old = {key for key, change in newest.items() if key not in stored and at_or_below(change.position, bound)}
    if old and spec.beyond_retention == "refuse":
        raise InputRefused(f"table {spec.name}: {len(old)} changes are older than purged tombstones, such as {min(old, key=repr)}")
    return set() if spec.beyond_retention == "apply" else old


def _purged(spec: TableSpec, states: Iterable[State], through: int) -> tuple[list[State], Position | None]:
    every = list(states)
    if spec.order_by[:1] not in TOTAL and spec.beyond_retention != "apply":
        # positions of other keys say nothing, so only the tombstone itself can hold a late event back
        return every, None
    kept = [state for state in every if not state.deleted or state.version > through]
    return kept, latest([state.position for state in every if state not in kept])


def _owner(segments: Sequence[Segment], key: Key) -> Segment:
    return next(segment for segment in segments if segment.high is None or key < tuple(segment.high))


def _tombstones(states: Sequence[State]) -> int:
    return sum(state.deleted for state in states)


def _bounds(positions: Sequence[Position]) -> tuple[Position | None, Position | None]:
    return earliest(positions), latest(positions)


def _plain(state: State, schema: Schema, fill: bool) -> dict[str, Any]:
    row = {**state.values, **dict(zip(schema.key, state.key))}
    # what follows from the row's Position is the view's to show, unless others read the files alone
    later = {name: default for name, (first, default) in _added(schema).items() if state.at is not None and sort_key(state.at) < sort_key(first)}
    shown = {**later, **{name: value for name, value in row.items() if value is not None}} if fill else {**row, **dict.fromkeys(later)}
    columns = {name: shown.get(name) for name in schema.names}
    return {**columns, "_version": state.version, "_at": state.at, "_gone": state.gone, "_padding": _PADDING}


def _revived(raw: dict[str, Any], schema: Schema, stored: Schema) -> State:
    at, gone = raw["_at"] and tuple(raw["_at"]), raw["_gone"] and tuple(raw["_gone"])
    kinds = {field.name: field.type for field in schema.fields}
    for name, read in _added(stored).items():
        if at is not None and sort_key(at) < sort_key(read[0]) and raw.get(name) == read[1] and _added(schema).get(name) != read:
            raw = {**raw, name: None}
    values = {name: cast(raw.get(name), kind) for name, kind in kinds.items() if name not in schema.key and raw.get(name) is not None}
    for name, (first, default) in _added(schema).items():
        if at is not None and sort_key(at) < sort_key(first) and name not in values:
            values[name] = cast(default, kinds[name])
    return State(tuple(cast(raw[name], kinds[name]) for name in schema.key), raw["_version"], values, at, gone)
