"""Watch: the invariants that hold at every instant, whatever runs, dies or races (docs/design/protocol.md). `Intrusion`: somebody else in between."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from compactor.core.catalog import views
from compactor.core.model.snapshot import COUNTS, Snapshot
from compactor.core.planning.compaction import tiling_problem
from compactor.core.planning.retention import shortened
from compactor.flows import ledger
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from tests.faults import Faults, T
from tests.oracle.lake import Lake


class Intrusion(Faults):
    """Faults that fail nothing: at call `at` somebody else acts, then the call goes on; no process knows of the other.

    `published` is called after every replacement of a view.
    """

    def __init__(self, at: int, act: Callable[[], object], published: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._at, self._act, self._published = at, act, published

    @property
    def happened(self) -> bool:
        """Whether the call was reached."""
        return len(self.calls) >= self._at

    def call(self, operation: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Count, let the other act when it is time, carry out."""
        if len(self.calls) + 1 == self._at:
            self.calls.append((operation, path))
            self._act()
            result = effect()
        else:
            result = super().call(operation, path, effect, half)
        if operation == "replace_view" and self._published is not None:
            self._published()
        return result


def watched(lake: Lake) -> tuple[Lake, Watch]:
    """The lake, and a watch that has looked at it."""
    watch = Watch(lake)
    watch.look()
    return lake, watch


def at_every_call(begin: Callable[[], tuple[Lake, Watch]], act: Callable[[Lake], object], step: int = 1) -> Iterator[tuple[Lake, Watch, Intrusion]]:
    """A lake, its watch and an Intrusion, again and again: at call 1, 2, .. of what is done with the Intrusion somebody else does `act`.

    In the last lake nobody did, because there are no more calls.
    """
    for at in itertools.count(1, step):
        lake, watch = begin()
        intrusion = Intrusion(at, functools.partial(act, lake))
        yield lake, watch, intrusion
        if not intrusion.happened:
            return


class Watch:
    """What was seen of a lake so far, and the checks of `look` against it.

    `overwritten`: deliveries that the sink itself replaced while they lay in landing; nobody has them any more.
    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.overwritten: set[tuple[str, str]] = set()
        self.shown = 0
        self._snapshots: dict[int, bytes] = {}
        self._named: dict[str, dict[str, tuple[int, str]]] = {}
        self._rows: dict[int, tuple[tuple[Any, ...], ...]] = {}

    def of(self, lake: Lake) -> Watch:
        """A watch of a copy of the lake, that has seen what this one has."""
        other = Watch(lake)
        other.overwritten, other.shown = set(self.overwritten), self.shown
        other._snapshots, other._rows = dict(self._snapshots), dict(self._rows)
        other._named = {unit: dict(files) for unit, files in self._named.items()}
        return other

    def look(self) -> None:
        """All invariants, now."""
        self._snapshots_stand()
        self._reader_sees_a_snapshot()
        self._nothing_is_lost_or_doubled()

    def _snapshots_stand(self) -> None:
        """Snapshots are never changed or taken back but by vacuum, which leaves stubs of those that may go; what the others name is never touched."""
        storage, layout = self.lake.storage, self.lake.layout
        before = len(self._snapshots)
        committed = [*self.lake.committed()]
        for snapshot in committed:
            data = storage.read(layout.snapshot(snapshot.version))
            known = self._snapshots.setdefault(snapshot.version, data)
            if known != data:
                self._expired(Snapshot.from_bytes(known), snapshot, committed[-1])
                self._snapshots[snapshot.version] = data
            if snapshot.version > before:
                self._new(snapshot, committed[-1])
        assert len(committed) >= before, "a Snapshot is gone"
        if committed:
            self._files_stand([snapshot for snapshot in committed if not snapshot.expired], committed[-1])

    def _expired(self, before: Snapshot, after: Snapshot, newest: Snapshot) -> None:
        version = before.version
        assert after in (before.stub(), shortened(before, None), shortened(before, before)), f"Snapshot {version} changed"
        assert version not in {pin.version for pin in newest.pins}, f"version {version} was pinned"
        assert version != newest.version
        seen = self.lake.look()
        assert seen is None or version < seen.version, f"version {version} was shown"

    def _files_stand(self, whole: list[Snapshot], newest: Snapshot) -> None:
        """What is named by Snapshots that are no stubs is there, and what they named until a moment ago for one grace period more."""
        grace = {item.path for item in newest.pending_deletions if item.reason == "expired" and self.lake.now < item.since + self.lake.spec.grace}
        for unit in grace.union(*(snapshot.named for snapshot in whole)):
            for path, (size, etag) in self._named.get(unit, {}).items():
                info = self.lake.storage.stat(path)
                assert info is not None, f"{path} is gone"
                assert (info.size, info.etag) == (size, etag), f"{path} changed"

    def _new(self, snapshot: Snapshot, newest: Snapshot) -> None:
        layout = self.lake.layout
        assert snapshot.parent == (snapshot.version - 1 or None)
        assert tiling_problem(snapshot.segments) is None
        assert not snapshot.counts or snapshot.counts["read"] == sum(snapshot.counts[name] for name in COUNTS)
        # a vacuum that came since may have given its changes up: `feed_retention` can be no time at all
        given_up = newest.feed.kept if newest.feed else 0
        changes = snapshot.feed.part if snapshot.feed and snapshot.version > given_up else None
        parts = [(part.path, file) for part in (*snapshot.segments, *filter(None, [snapshot.delta, changes])) for file in part.files]
        named = [(f"{layout.inside(path)}/{file.name}", file.size) for path, file in parts]
        named += [(layout.inside(file.path), None) for file in snapshot.ledger]
        for path, size in named:
            unit = layout.unit(path)
            assert unit is not None
            assert unit[0] not in {item.path for item in snapshot.pending_deletions}
            assert layout.kind(path) in ("segment", "delta", "feed", "ledger")
            info = self.lake.storage.stat(path)
            assert info is not None, f"version {snapshot.version} names {path}, which is not there"
            assert size in (None, info.size)
            self._named.setdefault(unit[0], {}).setdefault(path, (info.size, info.etag))

    def _reader_sees_a_snapshot(self) -> None:
        """The view shows exactly one committed Snapshot's rows, and never an older one than before."""
        seen = self.lake.look()
        if seen is None:
            assert self.shown == 0, "the view is gone"
            return
        snapshot = next(each for each in self.lake.committed() if each.version == seen.version)
        assert seen.text == views.view_text(self.lake.spec, snapshot)
        assert seen.version >= self.shown, f"the view went from version {self.shown} back to {seen.version}"
        self.shown = seen.version
        self._changes_are_registered(seen.version)
        if seen.version not in self._rows:
            self._rows[seen.version] = self.lake.expected(snapshot)
        assert seen.rows == self._rows[seen.version], f"the view is not version {seen.version}"

    def _changes_are_registered(self, shown: int) -> None:
        """The changes of every version up to the one shown, as far back as the feed goes, are there and in the catalog."""
        committed = [*self.lake.committed()]
        feed, catalog, spec = committed[-1].feed, self.lake.catalog, self.lake.spec
        if feed is None or feed.mode == "off":
            return
        found = [each for each in committed if feed.first < each.version <= shown and each.feed and each.feed.part]
        for snapshot in found:
            table = views.table_name(spec, "changes", snapshot.schema.generation)
            assert (snapshot.writer,) in {partition.values for partition in catalog.partitions(spec.tables_in, table)}, f"version {snapshot.version}"
            part = snapshot.feed.part if snapshot.feed else None
            assert part is not None
            assert all(self.lake.storage.stat(f"{self.lake.layout.inside(part.path)}/{file.name}") for file in part.files)

    def _nothing_is_lost_or_doubled(self) -> None:
        """Every delivery is either new in landing, or in the ledger once and still in landing, or in the archive or quarantine it belongs to."""
        newest, landing = self.lake.newest(), self.lake.landing()
        absorbed = self.lake.ledger(newest) if newest else []
        outcomes = self.lake.outcomes(newest) if newest else {}
        assert len(absorbed) == len(set(absorbed)), "an input is in the ledger twice"
        for name, data in self.lake.delivered.items():
            if name in self.overwritten:
                continue
            archived, quarantined = self._is_in("archive", name, data), self._is_in("quarantine", name, data)
            if name in absorbed:
                assert archived or quarantined or name in landing, f"{name} was taken and is nowhere"
                assert outcomes[name] != "quarantined" or not archived, f"{name} was never absorbed and is in the archive"
                assert outcomes[name] != "absorbed" or not quarantined, f"{name} was absorbed and is in quarantine"
            else:
                assert name in landing, f"{name} was not absorbed and is not in landing"
                assert not archived, f"{name} was archived and not absorbed"
                assert not quarantined, f"{name} was quarantined and is not in the ledger"

    def _is_in(self, place: str, name: tuple[str, str], data: bytes) -> bool:
        layout, storage = self.lake.layout, self.lake.storage
        within = layout.archived if place == "archive" else layout.quarantined
        places = (within(name[0]), within(*name))
        return any(storage.stat(place) is not None and storage.read(place) == data for place in places)

    def settled(self) -> None:
        """After a run that nobody disturbed: all is absorbed, archived once, shown, and the rows are those of all events."""
        self.look()
        newest = self.lake.newest()
        assert newest is not None
        assert self.lake.landing() == set()
        table = Table(self.lake.env(), self.lake.spec)
        waiting = {(held.path, held.etag) for held in quarantine.waiting(table, newest)}
        # what a restore has undone, and could be opened, waits as a whole
        undone = {item.id for item in ledger.newest_entries(table, newest) if item.outcome == "undone" and not item.reason}
        assert waiting == {name for name in self.lake.ledger(newest) if self.lake.has_unusable(name)} - undone
        assert set(self.lake.ledger(newest)) >= set(self.lake.delivered) - self.overwritten
        assert self.shown == newest.version
        wrong = self.lake.failed_checks()
        assert not wrong, wrong
