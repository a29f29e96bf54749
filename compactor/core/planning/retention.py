"""Retention: which Snapshots vacuum keeps, and which files it may delete.

A *unit* is deleted as a whole: the directory of a Segment or a Delta, a ledger file, or what a dead engine left beside them. A unit that a kept
Snapshot names stays. A unit that only expired Snapshots name becomes pending for deletion; its files are deleted one grace period later. An
orphan, which no Snapshot ever named, becomes pending once everything that its writer wrote is older than the grace period; its files are deleted at
once. The pending deletions are part of a committed Snapshot, so that no later Snapshot can name the unit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.core.catalog import feed
from compactor.core.model import history
from compactor.core.model.layout import Layout, relative
from compactor.core.model.snapshot import Days, PendingDeletion, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import daily

EXPIRED, ORPHAN = "expired", "orphan"


@dataclass(frozen=True)
class Unit:
    path: str
    commit: str
    files: tuple[str, ...]
    size: int
    newest: float
    """When its newest file was written, in epoch seconds."""


@dataclass(frozen=True)
class VacuumPlan:
    kept: dict[int, str]
    """Version → why it is kept."""
    expired: tuple[Snapshot, ...]
    pending_deletions: tuple[PendingDeletion, ...]
    """What the next Snapshot names as pending."""
    newly_pending: tuple[PendingDeletion, ...]
    """Those that are not pending yet. Without any there is nothing to commit."""
    oldest: int
    """The oldest version that is kept or expires now, apart from pinned ones and those of frozen days, which are listed."""
    feed_kept: int = 0
    """The feed parts of versions up to this one are given up."""
    days: Days | None = None
    """The frozen days, without those that are not shown and whose version is a stub."""

    def due(self, grace: float, now: float) -> tuple[PendingDeletion, ...]:
        """Return what may be deleted now, after the Snapshot that names it is committed and the expired Snapshots are stubs."""
        return tuple(item for item in self.pending_deletions if deletable_at(item, grace) <= now)


def deletable_at(item: PendingDeletion, grace: float) -> float:
    """Return when the files of a unit may be deleted, in epoch seconds. Readers of an expired Snapshot get one grace period to finish."""
    return item.since + (grace if item.reason == EXPIRED else 0.0)


def is_pending_deletion(snapshot: Snapshot, layout: Layout, newest: Snapshot) -> bool:
    """Return whether `newest` has given up this Snapshot or anything that it names. No later Snapshot may be made from such a one."""
    return snapshot.expired or bool({*snapshot.named, _own_path(snapshot, layout)} & {item.path for item in newest.pending_deletions})


def possibly_kept(newest: Snapshot) -> set[int]:
    """Return the versions up to `newest` that may be more than stubs. Their number depends on what is kept, not on the age of the table."""
    return {*range(newest.oldest, newest.version + 1), *(pin.version for pin in newest.pins), *(day.version for day in newest.days or ())}


def kept(
    spec: TableSpec,
    newest: Snapshot,
    whole: Sequence[Snapshot],
    modified: Mapping[int, float],
    shown: int | None,
    now: float,
    exported: Collection[int] = (),
) -> dict[int, str]:
    """Return version → why it is kept.

    `whole`: all Snapshots except stubs. `modified`: when each version was written. `shown`: the version that the catalog shows. `exported`:
    those that an Iceberg table shows instead of the newest. Times are epoch seconds of the store's clock.
    """
    layout = spec.layout
    pinned = {pin.version: pin.name for pin in newest.pins}
    frozen = {day.version: day.day for day in daily.shown(newest.days)}
    recent = sorted((snapshot.version for snapshot in whole), reverse=True)[: max(spec.keep_versions, 1)]
    reasons = {}
    for snapshot in whole:
        version = snapshot.version
        if version == newest.version:
            reasons[version] = "the newest"
        elif is_pending_deletion(snapshot, layout, newest):
            continue
        elif shown is not None and version >= shown:
            reasons[version] = "the catalog shows it" if version == shown else "newer than the version that the catalog shows"
        elif version in exported:
            reasons[version] = "an Iceberg table shows it"
        elif version in pinned:
            reasons[version] = f"pinned as {pinned[version]}"
        elif version in frozen:
            reasons[version] = f"the end of {frozen[version]}"
        elif version in recent:
            reasons[version] = f"one of the last {spec.keep_versions}"
        # readers had a newer version at the latest when the second version after it was written, as runs publish before they commit
        elif now - modified.get(version + 2, modified[version + 1]) < spec.keep:
            reasons[version] = "younger than `keep`"
    return reasons


def plan_vacuum(
    spec: TableSpec,
    newest: Snapshot,
    whole: Sequence[Snapshot],
    modified: Mapping[int, float],
    units: Mapping[str, Unit],
    shown: int | None,
    now: float,
    changes: Sequence[Snapshot] = (),
    exported: Collection[int] = (),
) -> VacuumPlan:
    """Plan a vacuum.

    `units`: all units in storage, by path. `changes`: the Snapshots, stubs among them, whose feed parts are kept so far. Others as in `kept`.
    """
    layout = spec.layout
    reasons = kept(spec, newest, whole, modified, shown, now, exported)
    expired = tuple(snapshot for snapshot in whole if snapshot.version not in reasons)
    live = {path for snapshot in whole if snapshot.version in reasons for path in snapshot.named}
    feed_kept = feed.given_up(spec, newest, modified, now)
    # feed parts have a retention of their own, whenever their version expires
    live |= feed.paths(changes, feed_kept)
    given_up = {*(path for snapshot in expired for path in snapshot.named), *feed.paths(changes, 0)} - live
    before = {item.path: item for item in newest.pending_deletions}
    youngest: dict[str, float] = {}
    for unit in units.values():
        youngest[unit.commit] = max(unit.newest, youngest.get(unit.commit, unit.newest))
    orphans = {unit.path for unit in units.values() if unit.path not in {*live, *given_up, *before} and now - youngest[unit.commit] >= spec.grace}
    if not given_up and not orphans:
        # expiring Snapshots whose units all stay frees nothing and is not worth a commit
        reasons.update({snapshot.version: "expiring it would free nothing" for snapshot in expired})
        expired = ()
    own = {_own_path(snapshot, layout) for snapshot in expired}
    # units of expired Snapshots are given up again even if they are pending: an interrupted vacuum may not have unregistered them
    added = [PendingDeletion(path, now, EXPIRED) for path in sorted({*given_up, *own})]
    added += [PendingDeletion(path, now, ORPHAN) for path in sorted(orphans)]
    named = {item.path for item in added}
    carried = [item for item in newest.pending_deletions if item.path not in named and item.path in units]
    listed = {*(day.version for day in newest.days or ()), *(pin.version for pin in newest.pins)}
    there = {snapshot.version for snapshot in whole}
    oldest = min([newest.version, *({*reasons, *(snapshot.version for snapshot in expired)} - listed)])
    days = None if newest.days is None else tuple(day for day in newest.days if day.shown or day.version in there)
    return VacuumPlan(dict(sorted(reasons.items())), expired, (*carried, *added), tuple(added), oldest, feed_kept, days)


def shortened(snapshot: Snapshot, following: Snapshot | None) -> Snapshot:
    """Return the stub without its feed part, and without the columns if `following`, the version after it, has the same.

    A table has a stub for each version that it ever had, and columns are most of a stub.
    """
    same = following is not None and following.schema.has_columns_of(snapshot.schema)
    schema = dataclasses.replace(snapshot.schema, fields=()) if same else snapshot.schema
    return dataclasses.replace(snapshot.stub(), schema=schema, feed=snapshot.feed.idle() if snapshot.feed else None)


def _own_path(snapshot: Snapshot, layout: Layout) -> str:
    return relative(layout.snapshot(snapshot.version), layout.root.rstrip("/"))


def unregistered(expired: Iterable[Snapshot], remaining: Iterable[Snapshot]) -> dict[tuple[str, int], list[tuple[str, ...]]]:
    """Return the partitions that views of expired Snapshots read and those of the remaining ones do not.

    Keys are (`base`, `delta` or `history_rows`, generation), values the partition values.
    """
    kept_values = {value for snapshot in remaining for value in _values(snapshot)}
    partitions: dict[tuple[str, int], list[tuple[str, ...]]] = {}
    for part, generation, values in dict.fromkeys(value for snapshot in expired for value in _values(snapshot)):
        if (part, generation, values) not in kept_values:
            partitions.setdefault((part, generation), []).append(values)
    return partitions


def _values(snapshot: Snapshot) -> list[tuple[str, int, tuple[str, ...]]]:
    generation = snapshot.schema.generation
    base = [("base", generation, (snapshot.base_id, segment.id, folder.state)) for segment in snapshot.segments for folder in segment.folders]
    delta = [("delta", generation, (snapshot.delta.id, folder.state)) for folder in snapshot.delta.folders] if snapshot.delta else []
    versions = [(history.ROWS, generation, value) for value, _ in history.values(snapshot.history)] if snapshot.history else []
    return [*base, *versions, *delta]
