"""ListEngine: a fake of the Engine port over JSON files (`tests/oracle/list_files.py`). It lets flows run thousands of times without a JVM.

It knows keys and Positions, and nothing else about rows: of each key it keeps the newest row and the newest delete. What it gives the flows is what
Spark gives them: Segments that tile the keys, one row per key in a Delta, sizes, Positions, and counts that add up. These are Spark's, and are tested
there: values that a source leaves out, defaults of added columns, changed keys, offsets of partitions, ties, changes older than purged tombstones,
and which events are duplicates or late. `tests/oracle/whole_engine.py` has the parts of the port that few flows need.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from compactor.core.catalog.ddl import TableDef, ViewDef
from compactor.core.model import types
from compactor.core.model.errors import InputRefused, NoRowsYet
from compactor.core.model.files import Delta, Segment
from compactor.core.model.inputs import Input
from compactor.core.model.layout import relative
from compactor.core.model.position import Position, at_or_below, latest, sort_key
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS, Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.compaction import keeps_tombstones
from compactor.core.results.batch import BatchSummary, InputLocations, Staged
from compactor.core.results.checks import Check, Difference
from compactor.core.schema.adoption import ForeignBase
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources.quarantine import Limits, Unusable, not_usable_now
from compactor.ports import Entries, Storage
from tests.oracle import erased_keys, list_files
from tests.oracle.list_files import State, bounds_of, owner, tombstones
from tests.oracle.model import DELETED, Change, Key, Row, cast, replayed, sorted_out

Order = tuple[tuple[str, str], ...]


@dataclass(kw_only=True)
class _Work:
    closed: bool = False

    def close(self) -> None:
        """Forbid further use."""
        self.closed = True


@dataclass
class ListBatch(_Work):
    """Inputs as Changes under stored names."""

    summary: BatchSummary
    spec: TableSpec
    parent: Snapshot | None
    version: int
    changes: tuple[Change, ...]


@dataclass
class ListResolution(_Work):
    """A batch resolved: the states of every key, and those that were stored."""

    batch: ListBatch
    whole: bool
    states: dict[Key, State]
    stored: dict[Key, State]
    in_delta: frozenset[Key]
    counts: dict[str, int]

    @property
    def summary(self) -> BatchSummary:
        """The facts about the batch."""
        return self.batch.summary

    def check_open(self) -> None:
        """Neither it nor its batch was closed."""
        assert not self.closed
        assert not self.batch.closed


class ListEngine:
    """The Engine port on a Storage; as small as its contract allows."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

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
        assert base is None, "adopted bases are WholeEngine's"
        # a rebuild reads two contents that one name had after another
        files = {f"{item.path}~{item.etag}": self._events(spec, item, locations) for item in inputs}
        unusable = [one for _, _, refused in files.values() for one in refused]
        unreadable = {one.file: one.reason for one in unusable if one.record is None}
        rows, records = sum(rows for _, rows, _ in files.values()), len(unusable) - len(unreadable)
        counted = tuple(
            item.as_unreadable(unreadable[item.name])
            if item.name in unreadable
            else replace(item, rows=rows, quarantined=len(refused), position_min=bounds[0], position_max=bounds[1])
            for item, (events, rows, refused) in zip(inputs, files.values(), strict=True)
            for bounds in [bounds_of([event.position for event in events])]
        )
        problem = Limits(spec.quarantine_rows, spec.quarantine_share).problem(unusable, records, rows, len(unreadable), len(inputs))
        if problem:
            raise InputRefused(f"table {spec.name}: {problem}")
        writers = [_writer(spec, name, events) for name, (events, _, _) in files.items() if any(event.op != "t" for event in events)]
        if parent is None and not writers:
            raise NoRowsYet(f"table {spec.name}: nothing with a row has landed")
        evolved = evolve(parent.schema if parent else None, writers, spec.key, version, spec.name, spec.policy)
        erased = erased or (parent.erased if parent else None)
        every = [conformed(event, evolved.columns.get(name, {}), evolved.schema) for name, (events, _, _) in files.items() for event in events]
        changes = [change for change in every if change.op == "t" or not erased_keys.gone(erased, change.key)]
        order = tuple((name, "bigint") for name in spec.order_by or ("seq",))
        summary = summary_of(spec, parent, evolved, order, counted, rows, rows - len(changes) - records, changes)
        return ListBatch(replace(summary, quarantined=records, unusable=tuple(unusable)), spec, parent, version, tuple(changes))

    def _events(self, spec: TableSpec, item: Input, locations: InputLocations) -> tuple[list[Change], int, list[Unusable]]:
        """The events of a file, how many records it has, and what of it cannot be used."""
        try:
            data = self._landed(spec, item, locations)
            events, unusable = sorted_out(data, item.name, item.epoch)
        except (UnicodeDecodeError, FileNotFoundError) as error:
            return [], 0, [Unusable(item.name, f"cannot be read ({error!r})")]
        assert not any(event.missing or event.left or event.defaults for event in events), (
            f"{item.path}: values left out and changed keys are Spark's"
        )
        return events, len(data.splitlines()), unusable

    def _landed(self, spec: TableSpec, item: Input, locations: InputLocations) -> bytes:
        return self._storage.read(locations.get((item.path, item.etag)) or spec.layout.landed(item.path))

    # writing ------------------------------------------------------------------------------------------------------

    def resolve(self, batch: ListBatch, whole: bool) -> ListResolution:
        """Compare the events of every key with its stored row."""
        assert not batch.closed
        spec, parent, summary = batch.spec, batch.parent, batch.summary
        delta = self._delta(spec, parent, summary.evolved.schema) if parent else {}
        stored = {**self._base(spec, parent.segments, summary.evolved.schema), **delta} if parent else {}
        barrier = latest([summary.truncate, parent.truncated_to if parent else None])
        live = {key: above for key, state in stored.items() if (above := _above(state, barrier))}
        events: dict[Key, list[Change]] = {key: [] for key in live}
        for change in batch.changes:
            if change.op != "t" and not at_or_below(change.position, barrier):
                events.setdefault(change.key, []).append(change)
        states = {key: _resolved(key, live.get(key), mine, batch.version, spec.soft) for key, mine in events.items()}
        applied = sum(state is not live.get(key) for key, state in states.items())
        counts = dict.fromkeys(COUNTS, 0) | {"ignored": summary.ignored, "quarantined": summary.quarantined}
        # that an event changes nothing may have other reasons, which are Spark's
        counts |= {"applied": applied + summary.truncates, "late": summary.changes - summary.truncates - applied}
        return ListResolution(batch, whole, states, live, frozenset(delta), counts)

    def write(self, resolution: ListResolution, commit: str, purge_through: int) -> Staged:
        """A whole new base; or what the batch changed, and what the parent's Delta holds and no compaction has put into the base."""
        resolution.check_open()
        batch, schema = resolution.batch, resolution.summary.evolved.schema
        spec, layout = batch.spec, batch.spec.layout
        if resolution.whole:
            kept, purged = _purged(spec, resolution.summary.order, resolution.states.values(), purge_through)
            segments = list_files.write_base(self._storage, spec, schema, commit, kept, batch.version)
            return Staged(None, segments, resolution.counts, purged_to=purged)
        delta = [state for key, state in resolution.states.items() if key in resolution.in_delta or state is not resolution.stored.get(key)]
        files = list_files.write(self._storage, layout.delta(commit), schema, delta)
        if not delta:
            return Staged(None, (), resolution.counts)
        bases = batch.parent.segments if batch.parent else ()
        owners = {owner(bases, state.key).id for state in delta} if bases else set()
        untouched = tuple(segment.id for segment in bases if segment.id not in owners)
        path, bounds = relative(layout.delta(commit), layout.root), bounds_of([state.position for state in delta])
        return Staged(Delta(commit, path, len(delta), tombstones(delta), files, *bounds, (), untouched, soft=spec.soft), (), resolution.counts)

    # compacting ---------------------------------------------------------------------------------------------------

    def shares(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, int]:
        """Delta rows per segment that are not compacted yet."""
        return dict(Counter(owner(snapshot.segments, key).id for key in self._delta(spec, snapshot, snapshot.schema)))

    def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Sequence[Segment], commit: str, purge_through: int) -> Staged:
        """New Segments over the same ranges; neighbours may be cut anew."""
        schema, targets = snapshot.schema, {segment.id for segment in segments}
        delta = self._delta(spec, snapshot, schema)
        runs = [[*run] for due, run in itertools.groupby(snapshot.segments, lambda segment: segment.id in targets) if due]
        ranges, purges = [], []
        for run in runs:
            ids = {segment.id for segment in run}
            share = {key: state for key, state in delta.items() if owner(snapshot.segments, key).id in ids}
            kept, purged = _purged(spec, snapshot.order, {**self._base(spec, run, schema), **share}.values(), purge_through)
            ranges.append((run[0].low, run[-1].high, kept))
            purges.append(purged)
        return Staged(None, list_files.write_segments(self._storage, spec, schema, commit, ranges, snapshot.version), {}, purged_to=latest(purges))

    # comparing ----------------------------------------------------------------------------------------------------

    def rows(self, spec: TableSpec, snapshot: Snapshot | None, schema: Schema) -> dict[Key, Row]:
        """The rows that a version shows, by key, under stored names and in the columns of `schema`."""
        stored = self._stored(spec, snapshot, schema) if snapshot else {}
        return {
            key: {**state.values, **({DELETED: True} if state.deleted else {})} for key, state in stored.items() if spec.soft or not state.deleted
        }

    def compare(
        self, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], locations: InputLocations, origin: Snapshot | None = None
    ) -> list[Check]:
        """What the Snapshot holds against one replay of all inputs."""
        rows, read = self.rows(spec, snapshot, snapshot.schema), [self._events(spec, item, locations) for item in inputs]
        began = self._base(spec, origin.segments, snapshot.schema).values() if origin else ()
        changes = [Change("c", state.key, state.values, state.at) for state in began if state.at]
        events = [conformed(event, {}, snapshot.schema) for events, _, _ in read for event in events]
        changes += [event for event in events if event.op == "t" or not erased_keys.gone(snapshot.erased, event.key)]
        barrier = _barrier(spec, None, changes, inputs)
        again = replayed((each for each in changes if not at_or_below(each.position, barrier)), spec.soft)
        different = [key for key in sorted({*rows, *again}, key=repr) if rows.get(key) != again.get(key)]
        detail = f"{len(different)} keys differ, such as {different[0]}" if different else "equal"
        now = [replace(item, quarantined=len(unusable)) for item, (_, _, unusable) in zip(inputs, read, strict=True)]
        problem = not_usable_now(inputs, now, [one for _, _, unusable in read for one in unusable])
        return [
            Check(spec.name, "view equals full recompute", not different, detail),
            Check(spec.name, "ingested records", problem is None, problem or "all can be used"),
        ]

    def difference(self, spec: TableSpec, before: Snapshot, after: Snapshot) -> Difference:
        """What the visible rows of two Snapshots differ in, by the key that `after` has."""

        def visible(snapshot: Snapshot) -> dict[Key, list[str]]:
            out: dict[Key, list[str]] = {}
            hidden = {field.name for field in snapshot.schema.fields if not field.visible}
            for key, values in self.rows(spec, snapshot, snapshot.schema).items():
                row = {**values, **dict(zip(snapshot.schema.key, key))}
                shown = {name: value for name, value in row.items() if name not in hidden}
                out.setdefault(tuple(row.get(name) for name in after.schema.key), []).append(json.dumps(shown, sort_keys=True))
            return out

        try:
            old = visible(before)
        except (FileNotFoundError, ValueError) as error:
            return Difference(unreadable=str(error))
        new = visible(after)
        different = sorted((key for key in {*old, *new} if old.get(key) != new.get(key)), key=repr)
        removed, came = sum(key not in new for key in different), sum(key not in old for key in different)
        return Difference(removed, came, len(different) - removed - came, tuple(repr(key) for key in different[:5]))

    def check_view(self, view: ViewDef, tables: Sequence[TableDef]) -> None:
        """The reader runs every text (`tests/oracle/reader.py`)."""

    # what is stored -----------------------------------------------------------------------------------------------

    def _stored(self, spec: TableSpec, snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        return {**self._base(spec, snapshot.segments, schema), **self._delta(spec, snapshot, schema)}

    def _base(self, spec: TableSpec, segments: Iterable[Segment], schema: Schema) -> dict[Key, State]:
        return {row.key: row for segment in segments for row in list_files.read(self._storage, spec, segment, schema)}

    def _delta(self, spec: TableSpec, snapshot: Snapshot, schema: Schema) -> dict[Key, State]:
        """The Delta's rows that no compaction has put into the base."""
        rows = list_files.read(self._storage, spec, snapshot.delta, schema) if snapshot.delta else []
        return {row.key: row for row in rows if not snapshot.segments or row.version > owner(snapshot.segments, row.key).compacted_through}


def summary_of(
    spec: TableSpec,
    parent: Snapshot | None,
    evolved: Evolved,
    order: Order,
    inputs: tuple[Input, ...],
    read: int,
    ignored: int,
    changes: Sequence[Change],
) -> BatchSummary:
    """The facts about these changes."""
    first, last = bounds_of([change.position for change in changes])
    deletes, truncates = sum(change.op == "d" for change in changes), sum(change.op == "t" for change in changes)
    counts = (read, ignored, len(changes), (), deletes, 0, truncates)
    return BatchSummary(evolved, order, inputs, *counts, first, last, _barrier(spec, parent, changes, inputs), None)


def _writer(spec: TableSpec, name: str, events: Sequence[Change]) -> WriterSchema:
    """The columns of a file, by their values."""
    kinds: dict[str, types.Type] = {}
    for event in events:
        for column, value in (*zip(spec.key, event.key), *sorted(event.values.items())):
            if value is not None:
                kind = ({bool: "boolean", int: "bigint", float: "double", str: "string"}[type(value)],)
                kinds[column] = types.widest(kinds.get(column, kind), kind, True) or ("string",)
    fields = tuple(WriterField(column, kind, kind, inferred=True) for column, kind in kinds.items())
    return WriterSchema(name, fields, *bounds_of([event.position for event in events]))


def conformed(event: Change, columns: dict[str, str], schema: Schema) -> Change:
    """The event under stored names, with stored types."""
    shown = {field.source: field.name for field in schema.payload} | columns
    kinds = {field.name: field.type for field in schema.fields}
    key = tuple(cast(value, kinds[name]) for name, value in zip(schema.key, event.key))
    named = [(shown.get(name, name), value) for name, value in event.values.items() if value is not None]
    return replace(event, key=key, values={name: cast(value, kinds.get(name, "")) for name, value in named})


def _above(state: State, barrier: Position | None) -> State | None:
    """What a truncate leaves of a stored row."""
    if at_or_below(state.position, barrier):
        return None
    return replace(state, values={}, at=None) if at_or_below(state.at, barrier) else state


def _resolved(key: Key, stored: State | None, events: Sequence[Change], version: int, soft: bool) -> State:
    """The newest values and the newest delete of a key; what is stored, if they are the same."""
    rows = [(event.position, event.values) for event in events if event.op != "d"]
    rows += [(stored.at, stored.values)] if stored and stored.at else []
    at, values = max(rows, key=lambda row: sort_key(row[0]), default=(None, {}))
    gone = latest([*(event.position for event in events if event.op == "d"), stored.gone if stored else None])
    made = State(key, version, values, at, gone)
    if not made.deleted:
        made = replace(made, gone=None)
    elif not soft:
        made = replace(made, values={}, at=None)
    return stored if stored and stored.content == made.content else made


def _barrier(spec: TableSpec, parent: Snapshot | None, changes: Sequence[Change], inputs: Sequence[Input]) -> Position | None:
    """The newest truncate, or the beginning of an epoch that replaces what was before it, once."""
    positions = [change.position for change in changes if change.op == "t" and spec.truncate == "apply"]
    replacing = {item.epoch for item in inputs if item.replaces_epochs}
    begun = [change.position for change in changes if change.op != "t" and change.position[0] in replacing]
    if begun:
        begins = (max(position[0] for position in begun), *[None] * (len(begun[0]) - 1))
        positions += [] if at_or_below(begins, parent.truncated_to if parent else None) else [begins]
    return latest(positions)


def _purged(spec: TableSpec, order: Order, states: Collection[State], through: int) -> tuple[list[State], Position | None]:
    """The rows without the tombstones whose retention is over, and the newest Position of these."""
    last = 0 if keeps_tombstones(spec, order, ()) else through
    gone = [state.position for state in states if state.deleted and state.version <= last]
    return [state for state in states if not state.deleted or state.version > last], latest(gone)
