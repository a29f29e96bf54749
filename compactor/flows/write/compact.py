"""Fold: rewrite the segments whose share of the Delta is worth it, beside commits that go on meanwhile (H16)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from compactor.core.model.errors import Conflict
from compactor.core.model.layout import commit_id
from compactor.core.model.position import latest
from compactor.core.model.snapshot import Segment, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import plan
from compactor.core.results.reports import Progress
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World
from compactor.flows.write.commit import ATTEMPTS, Committed, purge_through
from compactor.ports import Staged


def due(world: World, spec: TableSpec, snapshot: Snapshot) -> bool:
    """Whether it is time to look for segments worth folding: in `fold.window`, the Delta lost its broadcast, or `fold.every` has passed."""
    if snapshot.delta is None or spec.compaction == "rewrite" or not plan.fold_allowed(spec.fold_window, world.clock()):
        return False
    if plan.delta_estimate(snapshot) > plan.DELTA_LIMIT:
        return True
    since = datetime.fromisoformat((snapshot.folded_at or snapshot.time).replace("Z", "+00:00")).timestamp()
    return world.clock() - since >= spec.fold_every


def fold(world: World, spec: TableSpec, snapshot: Snapshot, label: str, progress: Progress) -> Committed | None:
    """Fold the segments that are worth it. Return None when none is, or when commits meanwhile made the result useless (garbage for vacuum)."""
    progress(spec.name, "fold", 0.5)
    try:
        return _fold(world, spec, snapshot, label)
    except Exception:
        if not snapshots.overtaken(world, snapshots.layout_of(spec), snapshot):
            raise
        return None


def _fold(world: World, spec: TableSpec, snapshot: Snapshot, label: str) -> Committed | None:
    shares = world.engine().shares(spec, snapshot)
    recent = sum(snapshot.counts.get(name, 0) for name in ("applied", "superseded")) or (snapshot.delta.rows if snapshot.delta else 0)
    targets = plan.fold_targets(snapshot, shares, recent)
    if not targets:
        return None
    commit = commit_id(snapshot.version + 1, world.nonce())
    staged = world.engine().fold(spec, snapshot, targets, commit, purge_through(world, spec, snapshot))
    written = [(segment.path, file) for segment in staged.segments for file in segment.files]
    parent: Snapshot | None = snapshot
    for _ in range(ATTEMPTS):
        if parent is None or not plan.can_rebase(snapshot, parent, targets):
            return None
        if parent is not snapshot and not snapshots.standing(world, snapshots.layout_of(spec), parent, written):
            return None
        folded = _folded(world, spec, snapshot, parent, targets, staged, commit, label)
        try:
            snapshots.put(world, snapshots.layout_of(spec), folded)
        except Conflict:
            parent = snapshots.newest(world, snapshots.layout_of(spec))
            continue
        return Committed(folded, sum(segment.size for segment in staged.segments))
    return None


def _folded(
    world: World, spec: TableSpec, seen: Snapshot, parent: Snapshot, targets: Sequence[Segment], staged: Staged, commit: str, label: str
) -> Snapshot:
    """`seen` is the Snapshot that was folded, `parent` the newest one: the same, or a child by commits."""
    replaced = {segment.id for segment in targets}
    ordered = _tiled(parent.segments, replaced, staged.segments)
    same_delta = parent.delta is not None and seen.delta is not None and parent.delta.id == seen.delta.id
    everything = all(segment.folded_through >= seen.version for segment in ordered)
    return dataclasses.replace(
        snapshots.child(world, parent, commit, "fold", label),
        base_id=commit,
        segments=tuple(ordered),
        # every row of this Delta is in the base now: readers need not look at it any more
        delta=None if same_delta and everything else parent.delta,
        ledger=ledger.carried(world, snapshots.layout_of(spec), parent, commit),
        purged_to=latest([parent.purged_to, staged.purged_to]),
        folded_at=world.now(),
    )


def _tiled(segments: Sequence[Segment], replaced: set[str], made: Sequence[Segment]) -> list[Segment]:
    """`made` in the places of the segments that it replaces. A range whose rows were all purged goes to its neighbour.

    Keys are compared nowhere here: bounds are only matched.
    """
    new = {segment.low: segment for segment in made}
    out: list[Segment] = []
    for segment in segments:
        if segment.id not in replaced:
            out.append(segment)
            continue
        low = segment.low
        # one old segment may have become several, each beginning where the one before it ends
        while low in new:
            out.append(new.pop(low))
            low = out[-1].high
    closed = [dataclasses.replace(left, high=right.low) for left, right in zip(out, out[1:])]
    closed += [dataclasses.replace(out[-1], high=None)] if out else []
    return [dataclasses.replace(closed[0], low=None), *closed[1:]] if closed else []
