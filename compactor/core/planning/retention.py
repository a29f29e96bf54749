"""Which Snapshots are kept, and what vacuum may take. Pure: values in, a plan out.

A *unit* is what is taken as a whole: a Segment's or Delta's directory, a ledger file, what a dead engine left beside them. A unit that a kept
Snapshot names stays. One that only expired Snapshots name is condemned, and its files go one grace period later (H22). An orphan, which
no Snapshot ever named, is condemned when everything its writer wrote is older than the grace period, and its files go at once. Condemning is
a commit: from then on no Snapshot can name the unit (H21).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactor.core.catalog import feed
from compactor.core.model import history
from compactor.core.model.layout import Layout, relative
from compactor.core.model.snapshot import PendingDeletion, Snapshot
from compactor.core.model.spec import TableSpec

EXPIRED, ORPHAN = "expired", "orphan"


@dataclass(frozen=True)
class Unit:
    """A unit as it lies in storage: `path` below the root, `commit` that wrote it, locations of its files, bytes, newest change in epoch seconds."""

    path: str
    commit: str
    files: tuple[str, ...]
    size: int
    newest: float


@dataclass(frozen=True)
class Sweep:
    """What vacuum would do. `kept` tells why each kept version is; `expired` are whole Snapshots that are not.

    `condemned` is what the next Snapshot names as such, `fresh` those of it that the newest does not; without `fresh` nothing is committed.
    `feed_kept`: the changes of versions up to it are given up.
    """

    kept: dict[int, str]
    expired: tuple[Snapshot, ...]
    pending_deletions: tuple[PendingDeletion, ...]
    fresh: tuple[PendingDeletion, ...]
    oldest: int
    feed_kept: int = 0

    def due(self, grace: float, now: float) -> tuple[PendingDeletion, ...]:
        """What may go now, when the Snapshot that condemns it stands and the expired Snapshots are stubs."""
        return tuple(item for item in self.pending_deletions if goes_at(item, grace) <= now)


def goes_at(item: PendingDeletion, grace: float) -> float:
    """When the files of a condemned unit may go, epoch seconds: readers of an expired Snapshot get one grace period to finish."""
    return item.since + (grace if item.reason == EXPIRED else 0.0)


def is_pending_deletion(snapshot: Snapshot, layout: Layout, newest: Snapshot) -> bool:
    """Whether `newest` has given up this Snapshot, or anything it names: no later one may be made from it."""
    return snapshot.expired or bool({*snapshot.named, _own_path(snapshot, layout)} & {item.path for item in newest.pending_deletions})


def kept(
    spec: TableSpec, newest: Snapshot, whole: Sequence[Snapshot], modified: Mapping[int, float], shown: int | None, now: float
) -> dict[int, str]:
    """Version → why it is kept. `whole` are the Snapshots that are not stubs; `modified` when each was written; `shown` what the catalog shows.

    Times are epoch seconds of the store's clock.
    """
    layout = Layout(spec.root, spec.landing)
    pinned = {pin.version: pin.name for pin in newest.pins}
    recent = sorted((snapshot.version for snapshot in whole), reverse=True)[: max(spec.keep_versions, 1)]
    reasons = {}
    for snapshot in whole:
        version = snapshot.version
        if version == newest.version:
            reasons[version] = "the newest"
        elif is_pending_deletion(snapshot, layout, newest):
            continue
        elif shown is not None and version >= shown:
            reasons[version] = "the catalog shows it" if version == shown else "newer than what the catalog shows"
        elif version in pinned:
            reasons[version] = f"pinned as {pinned[version]}"
        elif version in recent:
            reasons[version] = f"one of the last {spec.keep_versions}"
        elif now - superseded_at(version, modified) < spec.keep:
            reasons[version] = "younger than `keep`"
    return reasons


def superseded_at(version: int, modified: Mapping[int, float]) -> float:
    """When readers certainly had a newer version: runs publish what is there before they commit more, so by the commit of the one after the next."""
    return modified.get(version + 2, modified[version + 1])


def sweep(
    spec: TableSpec,
    newest: Snapshot,
    whole: Sequence[Snapshot],
    modified: Mapping[int, float],
    units: Mapping[str, Unit],
    shown: int | None,
    now: float,
    changes: Sequence[Snapshot] = (),
) -> Sweep:
    """The plan. `units` are those that lie in storage, by path; `changes` the Snapshots, stubs too, whose parts of the feed are kept so far."""
    layout = Layout(spec.root, spec.landing)
    reasons = kept(spec, newest, whole, modified, shown, now)
    expired = tuple(snapshot for snapshot in whole if snapshot.version not in reasons)
    live = {path for snapshot in whole if snapshot.version in reasons for path in snapshot.named}
    feed_kept = feed.given_up(spec, newest, modified, now)
    # a part stays with its version's own retention, whether the version expires sooner or later
    live |= feed.paths(changes, feed_kept)
    given_up = {*(path for snapshot in expired for path in snapshot.named), *feed.paths(changes, 0)} - live
    before = {item.path: item for item in newest.pending_deletions}
    youngest: dict[str, float] = {}
    for unit in units.values():
        youngest[unit.commit] = max(unit.newest, youngest.get(unit.commit, unit.newest))
    orphans = {unit.path for unit in units.values() if unit.path not in {*live, *given_up, *before} and now - youngest[unit.commit] >= spec.grace}
    if not given_up and not orphans:
        # a stub that sets nothing free is not worth a Snapshot
        reasons.update({snapshot.version: "what it names is kept anyway" for snapshot in expired})
        expired = ()
    own = {_own_path(snapshot, layout) for snapshot in expired}
    # what expired Snapshots name counts anew, even when condemned before: an interrupted vacuum may not have come to unregister it
    fresh = [PendingDeletion(path, now, EXPIRED) for path in sorted({*given_up, *own})]
    fresh += [PendingDeletion(path, now, ORPHAN) for path in sorted(orphans)]
    named = {item.path for item in fresh}
    carried = [item for item in newest.pending_deletions if item.path not in named and item.path in units]
    oldest = min([newest.version, *reasons, *(snapshot.version for snapshot in expired)])
    return Sweep(dict(sorted(reasons.items())), expired, (*carried, *fresh), tuple(fresh), oldest, feed_kept)


def _own_path(snapshot: Snapshot, layout: Layout) -> str:
    return relative(layout.snapshot(snapshot.version), layout.root.rstrip("/"))


def unregistered(expired: Iterable[Snapshot], remaining: Iterable[Snapshot]) -> dict[tuple[str, int], list[tuple[str, ...]]]:
    """(`base`, `delta` or `history_rows`, generation) → partition values that expired Snapshots' views read and the remaining ones' do not."""
    kept_values = {value for snapshot in remaining for value in _values(snapshot)}
    found: dict[tuple[str, int], list[tuple[str, ...]]] = {}
    for part, generation, values in dict.fromkeys(value for snapshot in expired for value in _values(snapshot)):
        if (part, generation, values) not in kept_values:
            found.setdefault((part, generation), []).append(values)
    return found


def _values(snapshot: Snapshot) -> list[tuple[str, int, tuple[str, ...]]]:
    generation = snapshot.schema.generation
    base = [("base", generation, (snapshot.base_id, segment.id)) for segment in snapshot.segments]
    versions = [(history.ROWS, generation, value) for value, _ in history.values(snapshot.history)] if snapshot.history else []
    return [*base, *versions, *([("delta", generation, (snapshot.delta.id,))] if snapshot.delta else [])]
