"""Commit: absorb new increments, or what waited in quarantine, into a new Delta (or base) and write the next Snapshot.

What a crash leaves, step by step: reading - nothing; writing data and changes - directories that nothing names (garbage for vacuum); writing reason
files and the ledger file - the same; the put of the Snapshot - either nothing or the commit. Publish and archive work from the stored
Snapshot alone (H2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

from compactor.core.model.errors import CheckFailed, Conflict, InconsistentRead, InputUnfinished, SchemaRefused, TryLater
from compactor.core.model.layout import commit_id
from compactor.core.model.position import Partitions, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import plan
from compactor.core.results.reports import Progress
from compactor.core.sources import full_loads
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World
from compactor.flows.land import discover
from compactor.flows.publish import archive, notices
from compactor.flows.read import quarantine
from compactor.flows.write import feed
from compactor.ports import Elsewhere, Facts, Staged

ATTEMPTS = 5
"""How often a commit that lost the race plans again within one run."""

_LANDING: Elsewhere = {}

Chosen = Callable[[Optional[Snapshot]], tuple[list[Input], dict[tuple[str, str], str]]]
"""The newest Snapshot → inputs to take again, and where they lie."""


@dataclass(frozen=True)
class Committed:
    """A commit that stands."""

    snapshot: Snapshot
    bytes_written: int


def commit(world: World, spec: TableSpec, parent: Snapshot | None, label: str, progress: Progress) -> Committed | None:
    """Absorb what has landed; None when nothing has. Raises Conflict after losing the race `ATTEMPTS` times."""
    for attempt in range(ATTEMPTS):
        found = discover.landing(world, spec, parent)
        if not found.new:
            return None
        try:
            return _attempt(world, spec, parent, found.new, label, progress)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        except Exception as error:
            if isinstance(error, TryLater) and not isinstance(error, InconsistentRead):
                raise
            overtaken = snapshots.overtaken(world, snapshots.layout_of(spec), parent)
            if not overtaken and all(_unchanged(world, spec, item) for item in found.new):
                raise
            # another run archived files, the sink rewrote them, or vacuum took the parent while we read: what we stumbled over is not there any more
            if attempt == ATTEMPTS - 1:
                raise Conflict(f"table {spec.name}: files go on changing while they are read; the last error: {error}") from error
        parent = snapshots.newest(world, snapshots.layout_of(spec))
    return None


def replay(world: World, spec: TableSpec, paths: Sequence[str], label: str, progress: Progress) -> Committed | None:
    """Absorb again what waits in quarantine, all or these paths; None when nothing does. Raises Conflict as `commit` does."""

    def held(parent: Snapshot | None) -> tuple[list[Input], dict[tuple[str, str], str]]:
        found = quarantine.chosen(spec, quarantine.waiting(world, spec, parent), paths)
        return quarantine.again(world, spec, found, parent) if parent else ([], {})

    return again(world, spec, held, label, progress, "replay")


def again(world: World, spec: TableSpec, chosen: Chosen, label: str, progress: Progress, operation: str) -> Committed | None:
    """Absorb inputs of the ledger once more: those that `chosen` tells, None when there are none. Raises Conflict as `commit` does."""
    for attempt in range(ATTEMPTS):
        parent = snapshots.newest(world, snapshots.layout_of(spec))
        inputs, places = chosen(parent)
        if not inputs:
            return None
        try:
            return _attempt(world, spec, parent, inputs, label, progress, places, operation)
        except Exception as error:
            if not isinstance(error, Conflict) and not snapshots.overtaken(world, snapshots.layout_of(spec), parent):
                raise
            if attempt == ATTEMPTS - 1:
                raise Conflict(f"table {spec.name}: others go on committing; the last error: {error}") from error
    return None


def _attempt(
    world: World,
    spec: TableSpec,
    parent: Snapshot | None,
    inputs: Sequence[Input],
    label: str,
    progress: Progress,
    elsewhere: Elsewhere = _LANDING,
    operation: str = "commit",
) -> Committed | None:
    layout = snapshots.layout_of(spec)
    version = parent.version + 1 if parent else 1
    commit = commit_id(version, world.nonce())
    progress(spec.name, "read", 0.1)
    try:
        batch = world.engine().read(spec, parent, inputs, version, elsewhere, ledger.copies(world, spec, parent, inputs))
    except SchemaRefused as error:
        notices.tell(world, spec, parent, error.decisions, None)
        raise
    except InputUnfinished as error:
        if elsewhere or not any(_young(world, layout.landed(path)) for path in error.paths):
            raise
        # a sink that writes in place is not done with it: it waits for the next run
        kept = full_loads.kept(spec, inputs, [path for path in error.paths if _young(world, layout.landed(path))])
        return _attempt(world, spec, parent, kept, label, progress, elsewhere, operation) if kept else None
    try:
        facts = batch.facts
        young = {path for path in facts.unfinished if not elsewhere and _young(world, layout.landed(path))}
        steady = {
            (item.path, item.etag)
            for item in facts.inputs
            if (item.path, item.etag) in elsewhere or (item.path not in young and _unchanged(world, spec, item))
        }
        if len(steady) < len(facts.inputs):
            # a file was written while we read it (H1), or is not finished: what we read of it is worth nothing, it waits for the next run
            kept = full_loads.kept(spec, inputs, [item.path for item in inputs if (item.path, item.etag) not in steady])
            return _attempt(world, spec, parent, kept, label, progress, elsewhere, operation) if kept else None
        notices.tell(world, spec, parent, facts.evolved.decisions, facts.evolved.schema)
        whole = plan.whole_base(spec, parent, facts.changes, bool(facts.evolved.retyped), facts.truncate is not None)
        progress(spec.name, "resolve", 0.4)
        if whole:
            staged = world.engine().write_base(batch, commit, purge_through(world, spec, parent))
        else:
            staged = world.engine().write_delta(batch, commit)
        history = world.engine().write_history(batch, commit) if spec.history else None
        progress(spec.name, "check", 0.8)
        facts = batch.facts
        _guard(spec, parent, staged, whole)
        quarantine.describe(world, spec, commit, facts)
        snapshot = dataclasses.replace(_snapshot(world, spec, parent, facts, staged, commit, whole, label, operation), history=history)
        snapshot = feed.with_changes(world, spec, parent, snapshot, batch)
        snapshots.put(world, layout, snapshot)
        parts = (*staged.segments, staged.delta, snapshot.feed.part if snapshot.feed else None)
        written = sum(part.size for part in parts if part is not None)
        return Committed(snapshot, written + (history.written_by(commit) if history else 0))
    finally:
        batch.close()


def _guard(spec: TableSpec, parent: Snapshot | None, staged: Staged, whole: bool) -> None:
    """Raises CheckFailed when more of the table's rows would go than `checks: {max_gone: ..}` allows: a TRUNCATE or a DELETE nobody meant."""
    if parent is None or spec.max_gone >= 1.0 or spec.source.full_loads:
        # of full copies each was held against the one before it when they were read
        return
    old, new = parent.delta, staged.delta
    before = sum(segment.rows - segment.tombstones for segment in parent.segments) - (old.tombstones if old else 0)
    if whole:
        gone = before - sum(segment.rows - segment.tombstones for segment in staged.segments)
    else:
        gone = (new.tombstones if new else 0) - (old.tombstones if old else 0)
    if gone > spec.max_gone * max(before, 1):
        raise CheckFailed(
            f"table {spec.name}: {gone:,} of {before:,} rows would go in one run, `checks: {{max_gone: {spec.max_gone:g}}}` allows fewer. Nothing "
            "was committed, the increments stay in landing. If that is right, raise the limit for one run."
        )


def _young(world: World, location: str) -> bool:
    info = world.storage.stat(location)
    return info is not None and world.storage.now() - info.modified < plan.UNFINISHED_GRACE


def _unchanged(world: World, spec: TableSpec, item: Input) -> bool:
    info = world.storage.stat(snapshots.layout_of(spec).landed(item.path))
    return info is not None and info.etag == item.etag


def _snapshot(
    world: World, spec: TableSpec, parent: Snapshot | None, facts: Facts, staged: Staged, commit: str, whole: bool, label: str, operation: str
) -> Snapshot:
    layout = snapshots.layout_of(spec)
    hours = [item.hour for item in facts.inputs if item.hour] + ([parent.hour] if parent and parent.hour else [])
    times = [time for time in (facts.source_time, parent.source_time if parent else None) if time]
    return Snapshot(
        table=spec.name,
        uuid=parent.uuid if parent else snapshots.new_uuid(),
        version=parent.version + 1 if parent else 1,
        parent=parent.version if parent else None,
        writer=commit,
        run=label,
        time=world.now(),
        operation=operation,
        schema=registered(spec, facts.evolved.schema),
        order=facts.order,
        base_id=commit if whole or parent is None else parent.base_id,
        segments=staged.segments if whole or parent is None else parent.segments,
        delta=staged.delta,
        inputs=facts.inputs,
        pending=(*archive.unfinished(world, spec, parent.pending if parent else ()), *facts.inputs) if spec.archive != "keep" else (),
        ledger=ledger.carried(world, layout, parent, commit),
        counts={"read": facts.read, **staged.counts},
        ties=staged.ties,
        unresolved=staged.unresolved,
        hour=max(hours) if hours else None,
        position=latest([facts.last, parent.position if parent else None]),
        source_time=max(times) if times else None,
        truncated_to=latest([facts.truncate, parent.truncated_to if parent else None]),
        purged_to=latest([staged.purged_to, parent.purged_to if parent else None]),
        epoch=spec.epoch,
        offsets=offsets(parent, facts, spec.epoch),
        raw=facts.raw or (parent.raw if parent else ()),
        condemned=parent.condemned if parent else (),
        pins=parent.pins if parent else (),
        oldest=parent.oldest if parent else 1,
        folded_at=world.now() if whole else (parent.folded_at if parent else None),
    )


def registered(spec: TableSpec, schema: Schema) -> Schema:
    """The schema with what the registry had for it before this run; else with what an earlier run found there."""
    return schema if spec.registry_version is None else dataclasses.replace(schema, registered=spec.registry_version)


def offsets(parent: Snapshot | None, facts: Facts, epoch: int) -> Partitions:
    """The greatest offset per partition since the epoch began."""
    known = dict(parent.offsets) if parent and parent.epoch == epoch else {}
    return tuple(sorted({**known, **{name: max(offset, known.get(name, offset)) for name, offset in facts.offsets}}.items()))


def purge_through(world: World, spec: TableSpec, parent: Snapshot | None) -> int:
    """The newest version whose tombstones are older than their retention, 0 for none (H12: age counts from the commit that absorbed them)."""
    from datetime import datetime

    if parent is None or spec.soft or not (any(segment.tombstones for segment in parent.segments) or (parent.delta and parent.delta.tombstones)):
        return 0
    limit = world.clock() - spec.tombstone_retention
    for snapshot in snapshots.history(world, snapshots.layout_of(spec)):
        if snapshot.version <= parent.version and datetime.fromisoformat(snapshot.time.replace("Z", "+00:00")).timestamp() < limit:
            return snapshot.version
    return 0
