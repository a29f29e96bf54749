"""Commit: ingest new increments, or inputs that were ingested before, into a new Delta (or base).

What a crash leaves: data directories and reason files that no Snapshot names, or the commit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Optional

from compactor.core.catalog import views
from compactor.core.model.edit import Edit
from compactor.core.model.errors import CheckFailed, InputRefused, InputUnfinished, OrderRefused, SchemaRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import AGAIN, GIVEN_UP, Input
from compactor.core.model.schema import Schema, called
from compactor.core.model.snapshot import Snapshot
from compactor.core.parallel import in_parallel
from compactor.core.planning import compaction, landing
from compactor.core.results.batch import BatchSummary, InputLocations, Staged
from compactor.core.results.phrases import counted
from compactor.core.schema.schema_history import became_text
from compactor.core.sources import full_loads, increment
from compactor.core.sources.source_profile import SourceProfile, other_envelope, several_tables
from compactor.flows import ledger, logs, owner
from compactor.flows.land import discover
from compactor.flows.land.propose import sample
from compactor.flows.publish import archive, notices
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import state
from compactor.ports import Batch

FILES_MAX = 100_000
"""The largest number of files that one commit ingests. Its Snapshot describes each of them in about 1 kB, and whoever reads the table reads it."""

_SAMPLED = 3
"""Files that are looked at for another envelope when a run is refused."""

_LANDING: InputLocations = {}

Choice = Callable[[Optional[Snapshot]], "tuple[Sequence[Input], InputLocations]"]
"""The newest Snapshot → inputs to ingest, and the locations of those that do not lie in landing."""


def commit(table: Table, newest: Snapshot | None) -> Snapshot | None:
    """Ingest what has landed, at most FILES_MAX files. Return the new Snapshot, or None if nothing has. Raises Conflict as `transact` does."""

    def choose(parent: Snapshot | None) -> tuple[Sequence[Input], InputLocations]:
        with logs.phase(table, "listing") as phase:
            landed = discover.landing(table, parent)
            new = landed.new
            table.notes.extend(landed.notes)
            if new:
                phase.did(f"listed {counted(len(new), 'new file')}, {landed.size:,} bytes,", files=len(new), bytes=landed.size)
        # a full load is ingested whole; all other events may come in any number of commits
        return new if table.spec.source.full_loads else new[:FILES_MAX], _LANDING

    return ingest(table, choose, "commit", newest)


def replay(table: Table, paths: Sequence[str], given_up: bool = False) -> Snapshot | None:
    """Ingest what waits in quarantine again: all of it, or these paths. Return None if nothing waits. Raises Conflict as `transact` does.

    `given_up`: with the empty copies of `quarantine.give_up`, which are refused otherwise.
    """

    def choose(parent: Snapshot | None) -> tuple[Sequence[Input], InputLocations]:
        waiting = quarantine.chosen(table, quarantine.waiting(table, parent), paths)
        if not given_up:
            quarantine.check_not_empty(table, waiting)
        return quarantine.again(table, waiting, parent) if parent else ((), _LANDING)

    return ingest(table, choose, "replay")


def give_up_records(table: Table, paths: Sequence[str]) -> Snapshot | None:
    """Give the invalid records of these files up. Raises InputRefused for a path without records in quarantine, Conflict as `transact` does."""

    def choose(parent: Snapshot | None) -> tuple[Sequence[Input], InputLocations]:
        return quarantine.records_given_up(table, parent, paths) if parent else ((), _LANDING)

    return ingest(table, choose, "replay")


def ingest(table: Table, choose: Choice, operation: str, newest: Snapshot | None = None) -> Snapshot | None:
    """Commit the inputs that `choose` returns. Return None if there are none."""
    attempts: list[_Ingestion] = []

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        inputs, locations = choose(parent)
        attempts.append(_Ingestion(table, parent, locations, operation, scratch))
        return attempts[-1].edit(inputs)

    return transact(table, planned, moved=lambda: bool(attempts) and attempts[-1].inputs_changed(), newest=newest)


class BecomesText(SchemaRefused):
    """Stored columns become text: their values have to be read again from the archive first."""

    advice = "Run again. A run reads them by itself and never ends with this error; if yours does, please report it."

    def __init__(self, table: str, columns: Mapping[str, str]) -> None:
        super().__init__(f"table {table}: {', '.join(columns)}: numbers become text, and their values have to be read again from the archive first")
        self.columns = columns
        """Stored name → new type of the columns."""


class _Ingestion:
    """One attempt to ingest inputs on top of `parent`."""

    def __init__(self, table: Table, parent: Snapshot | None, locations: InputLocations, operation: str, scratch: ExitStack) -> None:
        self.table, self.parent, self.operation, self.scratch = table, parent, operation, scratch
        self.locations = locations
        self.inputs: Sequence[Input] = ()
        self.left_out = False
        """Whether files that had landed are not among the inputs."""

    def edit(self, inputs: Sequence[Input]) -> Edit | None:
        """Read, resolve and write these inputs. Files that are still being written wait for the next run."""
        self.inputs = inputs
        if not inputs:
            return None
        owner.check(self.table)
        if not self.locations:
            owner.check_landing(self.table)
        self.table.step("read", 0.1)
        version = self.parent.version + 1 if self.parent else 1
        commit = self.table.next_commit(self.parent)
        if self.parent is not None and all(self._given_up(item) for item in inputs):
            return self._without_events(self.parent, commit)
        try:
            batch = self._read(inputs, version)
        except InputUnfinished as error:
            young = [path for path in error.paths if self._young(path)]
            if self.locations or not young:
                raise
            return self.edit(self._without(young))
        self.scratch.callback(batch.close)
        texts = became_text(self.parent.schema, batch.summary.evolved.schema) if self.parent else {}
        # adopted rows are in no landed file: the others are read again after this commit
        if texts and self.table.adopted() is None:
            raise BecomesText(self.table.name, texts)
        unsteady = self._unsteady(batch)
        if unsteady:
            return self.edit(self._without(unsteady))
        return self._written(batch, commit)

    def _given_up(self, item: Input) -> bool:
        """Return whether nothing is to be read: an empty copy stands for a file in quarantine, or invalid records are given up."""
        if item.outcome == GIVEN_UP:
            return True
        location = self.locations.get(item.id)
        info = self.table.storage.stat(location) if location else None
        return info is not None and info.size == 0

    def _without_events(self, parent: Snapshot, commit: str) -> Edit:
        """Return the Edit for files that were given up: nothing is read, and only the ledger changes."""
        made = dataclasses.replace(parent.state, watermark=state.watermark_given_up(self.table, parent, self.inputs))
        return Edit(self.operation, commit, made, inputs=tuple(self.inputs), pending=self._pending(self.inputs))

    def _without(self, paths: Sequence[str]) -> list[Input]:
        self.left_out = True
        gone = full_loads.together(self.table.spec, [item.path for item in self.inputs], paths)
        return [item for item in self.inputs if item.path not in gone]

    def inputs_changed(self) -> bool:
        """Return whether a file in landing is not what it was when it was listed."""
        return not self.locations and not all(self._unchanged(item) for item in self.inputs)

    def _read(self, inputs: Sequence[Input], version: int) -> Batch:
        table, parent = self.table, self.parent
        try:
            with logs.phase(table, "decoding") as phase:
                batch = table.engine().read(table.spec, parent, inputs, version, self.locations, lambda: ledger.newest_entries(table, parent))
                events = batch.summary.read
                phase.did(f"decoded {counted(events, 'event')} from {counted(len(inputs), 'file')}", events=events, files=len(inputs))
            return batch
        except InputUnfinished:
            raise
        except (InputRefused, OrderRefused, SchemaRefused) as error:
            if isinstance(error, SchemaRefused):
                notices.notify(table, parent, error.decisions, None)
            looks = other_envelope(table.spec, self._profiles(inputs))
            if not looks or looks in str(error):
                raise
            raise InputRefused(f"table {table.name}: {looks}. Otherwise: {str(error).removeprefix(f'table {table.name}: ')}") from error

    def _profiles(self, inputs: Sequence[Input]) -> Collection[SourceProfile]:
        """Return what the records of a few inputs are, one profile for each source table."""
        table = self.table
        smallest = sorted((item for item in inputs if item.size), key=lambda item: item.size)[:_SAMPLED]
        places = {item.path: self.locations.get(item.id) or table.layout.landed(item.path) for item in smallest}
        infos = {item.path: FileInfo(places[item.path], item.size, item.etag, 0.0) for item in smallest}
        return sample(table.storage, table.env.read_sample, [*infos], infos, [], table.spec).values() if infos else ()

    def _unsteady(self, batch: Batch) -> list[str]:
        """Return the paths that were written while we read them, or that a sink has not finished. What was read of them is worth nothing."""
        summary = batch.summary
        young = {path for path in summary.unfinished if self._young(path)}
        landed = [item for item in summary.inputs if item.id not in self.locations]
        return [item.path for item, unchanged in zip(landed, in_parallel(self._unchanged, landed)) if item.path in young or not unchanged]

    def _written(self, batch: Batch, commit: str) -> Edit:
        table, parent = self.table, self.parent
        evolved = batch.summary.evolved
        views.check_names(table.spec, evolved.schema)
        notices.notify(table, parent, evolved.decisions, evolved.schema)
        # the schemas of two versions show columns that are new or have another type
        table.notes.extend(decision.sentence for decision in evolved.decisions if decision.change.kind == "removed")
        whole = why_new_base(table, parent, batch.summary) is not None
        table.step("resolve", 0.4)
        purge = state.purge_through(table, parent) if whole else 0
        written = state.write(table, batch, parent, commit, whole, purge, self.scratch)
        table.step("check", 0.8)
        _check_gone(table, parent, written.staged, whole, batch.summary)
        if written.staged.note:
            table.notes.append(written.staged.note)
        if parent is None:
            table.notes.extend(_left_in_folders(evolved.schema, self.inputs))
            if several := several_tables(table.spec, self._profiles(self.inputs)):
                table.notes.append(several)
        summary = written.resolution.summary
        quarantine.describe(table, commit, summary)
        left_out = self.left_out or len(self.inputs) >= FILES_MAX
        watermark = state.watermark_after(table, parent, summary, left_out, self.operation == "commit")
        made, inputs, staged = dataclasses.replace(written.state, watermark=watermark), summary.inputs, written.staged
        pending, counts = self._pending(inputs), written.counts
        edit = Edit(self.operation, commit, made, inputs=inputs, pending=pending, counts=counts, ties=staged.ties, unresolved=staged.unresolved)
        return state.with_changes(table, parent, edit, written.resolution)

    def _pending(self, inputs: Sequence[Input]) -> tuple[Input, ...]:
        return (*archive.unfinished(self.table, self.parent.pending if self.parent else ()), *filter(self._moves, inputs))

    def _moves(self, item: Input) -> bool:
        if item.outcome in AGAIN and item.quarantined:
            # a copy that is put into quarantine later, for what still waits, was not read
            return self.table.layout.kind(self.locations[item.id]) == "quarantine"
        # what was taken again leaves quarantine, wherever landed files stay
        return self.table.spec.archive != "keep" or item.outcome in (*AGAIN, GIVEN_UP)

    def _young(self, path: str) -> bool:
        info = self.table.storage.stat(self.table.layout.landed(path))
        return info is not None and abs(self.table.storage.now() - info.modified) < landing.UNFINISHED_GRACE

    def _unchanged(self, item: Input) -> bool:
        info = self.table.storage.stat(self.table.layout.landed(item.path))
        return info is not None and info.etag == item.etag


def why_new_base(table: Table, parent: Snapshot | None, summary: BatchSummary) -> str | None:
    """Return why the commit of a batch writes a new base, or None if it writes a Delta."""
    rewritten = bool(summary.evolved.retyped) or _holds_other_defaults(table, parent, summary.evolved.schema)
    rewritten = rewritten or (parent is not None and compaction.hides_values(table.spec, parent))
    return compaction.whole_base(table.spec, parent, summary.changes, rewritten, summary.truncate is not None)


def _holds_other_defaults(table: Table, parent: Snapshot | None, schema: Schema) -> bool:
    """Return whether stored files may hold defaults that a late event has changed. Other rows read them, and hold none."""
    if parent is None:
        return False
    filled = {name for part in (*parent.segments, parent.delta) if part for name in part.defaults}
    if any(schema.defaults.get(name) != parent.schema.defaults.get(name) for name in filled):
        return True
    if not (table.spec.soft or parent.unavailable_columns):
        return False
    return schema.defaults_moved(parent.schema, parent.position_max)


def _left_in_folders(schema: Schema, inputs: Sequence[Input]) -> list[str]:
    """Return a sentence about values of a new table that only the names of folders have."""
    columns = increment.folder_columns(item.path[len(item.folder) :].lstrip("/") for item in inputs)
    left = [f"{name}=.." for name in columns if called(name, schema.fields) is None]
    return [f"folders are called {', '.join(left)}: such values are no columns; have the writer put into the files what rows need"] if left else []


def _check_gone(table: Table, parent: Snapshot | None, staged: Staged, whole: bool, summary: BatchSummary) -> None:
    """Raises CheckFailed when more of the table's rows would go than `max_gone` allows: a TRUNCATE or a DELETE nobody meant."""
    spec = table.spec
    if parent is None or spec.max_gone_in_run >= 1.0:
        return
    old, new = parent.delta, staged.delta
    before = sum(segment.rows - segment.tombstones for segment in parent.segments)
    if spec.keyless:
        # a row that went is still one of the base, so these are too many
        before += old.rows - old.tombstones if old else 0
    else:
        before -= old.tombstones if old else 0
    if whole:
        gone = before - sum(segment.rows - segment.tombstones for segment in staged.segments)
    else:
        gone = (new.tombstones if new else 0) - (old.tombstones if old else 0)
    if spec.keyless and summary.truncate is None and not summary.shard_truncates:
        # a removal and the row that it takes are two tombstones, and updates have some too
        gone = min(gone if whole else gone // 2, summary.deletes)
    if gone > spec.max_gone_in_run * max(before, 1):
        raise CheckFailed(
            f"table {table.name}: {gone:,} of {before:,} rows would be deleted in one run; the limit is {spec.max_gone_in_run:.0%} "
            "(`max_gone`). Nothing was committed; the increments stay in landing. If that is right, raise the limit for one run."
        )
