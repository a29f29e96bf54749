"""Commit: absorb new increments into a new Delta (or base) and write the next Snapshot.

What a crash leaves, step by step: reading - nothing; writing data - a directory that nothing names (garbage for vacuum); writing the ledger
file - the same; the put of the Snapshot - either nothing or the commit. Publish and archive work from the stored Snapshot alone (H2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core import plan
from compactor.core.errors import Conflict, InputUnfinished, TryLater
from compactor.core.layout import commit_id
from compactor.core.position import latest
from compactor.core.snapshot import Input, Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import archive, discover, ledger, snapshots
from compactor.flows.reports import Progress
from compactor.flows.world import World
from compactor.ports import Facts, Staged

ATTEMPTS = 5
"""How often a commit that lost the race plans again within one run."""


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
        except TryLater as error:
            if attempt == ATTEMPTS - 1 or not isinstance(error, Conflict):
                raise
        except Exception as error:
            if all(_unchanged(world, spec, item) for item in found.new):
                raise
            # another run archived files, or the sink rewrote them, while we read: what we stumbled over is not there any more
            if attempt == ATTEMPTS - 1:
                raise Conflict(f"table {spec.name}: files go on changing in landing while they are read; the last error: {error}") from error
        parent = snapshots.newest(world, snapshots.layout_of(spec))
    return None


def _attempt(world: World, spec: TableSpec, parent: Snapshot | None, inputs: Sequence[Input], label: str, progress: Progress) -> Committed | None:
    layout = snapshots.layout_of(spec)
    version = parent.version + 1 if parent else 1
    commit = commit_id(version, world.nonce())
    progress(spec.name, "read", 0.1)
    try:
        batch = world.engine().read(spec, parent, inputs, version)
    except InputUnfinished as error:
        rest = [item for item in inputs if layout.landed(item.path) != error.location]
        if len(rest) == len(inputs) or not _young(world, error.location):
            raise
        # a sink that writes in place is not done with it: it waits for the next run
        return _attempt(world, spec, parent, rest, label, progress) if rest else None
    try:
        facts = batch.facts
        steady = tuple(item for item in facts.inputs if _unchanged(world, spec, item))
        if len(steady) < len(facts.inputs):
            # a file was written while we read it (H1): what we read of it is worth nothing, it waits for the next run
            return (
                _attempt(world, spec, parent, [item for item in inputs if any(item.path == kept.path for kept in steady)], label, progress)
                if steady
                else None
            )
        whole = plan.whole_base(spec, parent, facts.changes, bool(facts.evolved.retyped), facts.truncate is not None)
        progress(spec.name, "resolve", 0.4)
        if whole:
            staged = world.engine().write_base(batch, commit, purge_through(world, spec, parent))
        else:
            staged = world.engine().write_delta(batch, commit)
        progress(spec.name, "check", 0.8)
        snapshot = _snapshot(world, spec, parent, facts, staged, commit, whole, label)
        snapshots.put(world, layout, snapshot)
        written = sum(segment.size for segment in staged.segments) + (staged.delta.size if staged.delta else 0)
        return Committed(snapshot, written)
    finally:
        batch.close()


def _young(world: World, location: str) -> bool:
    info = world.storage.stat(location)
    return info is not None and world.storage.now() - info.modified < plan.UNFINISHED_GRACE


def _unchanged(world: World, spec: TableSpec, item: Input) -> bool:
    info = world.storage.stat(snapshots.layout_of(spec).landed(item.path))
    return info is not None and info.etag == item.etag


def _snapshot(world: World, spec: TableSpec, parent: Snapshot | None, facts: Facts, staged: Staged, commit: str, whole: bool, label: str) -> Snapshot:
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
        operation="commit",
        schema=facts.evolved.schema,
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
        raw=facts.raw or (parent.raw if parent else ()),
        folded_at=world.now() if whole else (parent.folded_at if parent else None),
    )


def purge_through(world: World, spec: TableSpec, parent: Snapshot | None) -> int:
    """The newest version whose tombstones are older than their retention, 0 for none (H12: age counts from the commit that absorbed them)."""
    from datetime import datetime

    if parent is None or not (any(segment.tombstones for segment in parent.segments) or (parent.delta and parent.delta.tombstones)):
        return 0
    limit = world.clock() - spec.tombstone_retention
    for snapshot in snapshots.history(world, snapshots.layout_of(spec)):
        if snapshot.version <= parent.version and datetime.fromisoformat(snapshot.time.replace("Z", "+00:00")).timestamp() < limit:
            return snapshot.version
    return 0
