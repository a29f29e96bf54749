"""A lake in memory: storage, catalog, a clock, a sink that delivers files, and the real flows over the list engine.

lake = Lake(table())
lake.deliver("increment_2026010100/a.json", [line("c", [1], [10], {"a": 5})])
lake.run()
assert lake.look().rows == lake.expected()
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from compactor.core.model.inputs import LATER
from compactor.core.model.layout import Layout
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Pin, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import retention
from compactor.core.results.record import TableReport
from compactor.core.results.reports import RebuildReport, VacuumReport
from compactor.flows import ledger
from compactor.flows.environment import Environment
from compactor.flows.keep import pin
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.read.verify import verify
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.flows.verbs import reabsorb_table, rebuild_table, replay_table
from compactor.flows.write import restore
from compactor.ports import Storage
from tests.faults import Faults, FaultyCatalog, FaultyStorage
from tests.oracle.model import DELETED, Change, Key, Row, cast, parsed, replayed, sorted_out
from tests.oracle.reader import Shown, look
from tests.oracle.whole_engine import WholeEngine
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage

HOUR = 3600.0


def table(**changes: Any) -> TableSpec:
    """A table with small segments that is looked at for folds in every run."""
    standard = {
        "name": "t", "root": "/lake/t", "landing": "/lake/t/incremental", "pattern": "increment_%Y%m%d%H", "database": "school", "view": "t",
        "tables_in": "school", "key": ("id",), "order_by": ("seq",), "target_file_bytes": 1200, "compact_every": 0.0, "write_mode": "merge-on-read",
    }  # fmt: skip
    return TableSpec(**{**standard, **changes})


_parsed = functools.lru_cache(64)(Snapshot.from_bytes)


class Lake:
    """One table's world. `now` is the time of clock and storage; it moves by a second a run."""

    engine = WholeEngine

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self.now = 1_770_000_000.0
        self.storage = MemoryStorage(self._clock)
        self.catalog = MemoryCatalog()
        self.delivered: dict[tuple[str, str], bytes] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self._nonces = itertools.count(1)

    def _clock(self) -> float:
        return self.now

    def copy(self) -> Lake:
        """An independent lake of the same content."""
        other = Lake(self.spec)
        other.now, other.delivered, other._nonces = self.now, dict(self.delivered), copy.copy(self._nonces)
        other.epochs = dict(self.epochs)
        other.storage._objects, other.storage._generation = dict(self.storage._objects), self.storage._generation
        other.catalog = copied(self.catalog)
        return other

    @property
    def layout(self) -> Layout:
        """The table's paths."""
        return self.spec.layout

    def env(self, faults: Faults | None = None) -> Environment:
        """What a process sees: with `faults`, storage and catalog fail as they say."""
        storage: Storage = self.storage if faults is None else FaultyStorage(self.storage, faults)
        engine = self.engine(storage)
        catalog = self.catalog if faults is None else FaultyCatalog(self.catalog, faults)
        return Environment(storage, lambda: engine, lambda: catalog, self._clock, lambda: f"{next(self._nonces):08x}", catalog_name=lambda: "memory")

    def table(self, faults: Faults | None = None) -> Table:
        """The table as a process sees it."""
        return Table(self.env(faults), self.spec)

    def observed(self) -> Environment:
        """What somebody sees who only looks."""
        return self.env()

    def deliver(self, path: str, lines: Iterable[str], damaged: bool = False) -> tuple[str, str]:
        """The sink writes a file, over what may be there, one that is `damaged` unreadable; gives back what names the input."""
        data = "\n".join(lines).encode() + (b"\xff" if damaged else b"")
        place = self.layout.landed(path)
        self.storage.write(place, data)
        info = self.storage.stat(place)
        assert info is not None
        self.delivered[path, info.etag] = data
        return path, info.etag

    def run(self, faults: Faults | None = None) -> TableReport:
        """One run of the table by a process of its own."""
        self.now += 1.0
        self.epochs = {**{name: self._epoch(name[0]) for name in self.landing()}, **self.epochs}
        return run_table(self.table(faults))

    def replay(self, faults: Faults | None = None, *paths: str) -> TableReport:
        """Take again what waits in quarantine."""
        self.now += 1.0
        return replay_table(self.table(faults), paths)

    def vacuum(self, faults: Faults | None = None, dry: bool = False) -> VacuumReport:
        """Delete what may go."""
        self.now += 1.0
        return vacuum(self.table(faults), dry)

    def restore(self, version: int, faults: Faults | None = None) -> TableReport:
        """Bring an older state back."""
        self.now += 1.0
        env = self.env(faults)
        return restore.restore(Table(env, self.spec), restore.at_version(Table(env, self.spec), version))

    def reabsorb(self, faults: Faults | None = None) -> TableReport:
        """Take again what restores have undone."""
        self.now += 1.0
        return reabsorb_table(self.table(faults))

    def rebuild(self, faults: Faults | None = None, target: Snapshot | None = None, accept: bool = False, dry: bool = False) -> RebuildReport:
        """Build the table again out of its raw files."""
        self.now += 1.0
        return rebuild_table(self.table(faults), target, accept, dry)

    def pin(self, version: int, name: str = "", faults: Faults | None = None) -> Pin:
        """Keep a version."""
        self.now += 1.0
        return pin.pin(self.table(faults), version, name)

    def unpin(self, name: str) -> None:
        """Keep it no longer."""
        self.now += 1.0
        pin.unpin(Table(self.env(), self.spec), name)

    def restorable(self) -> list[int]:
        """The versions that a restore may bring back, oldest first."""
        newest = self.newest()
        return [each.version for each in self.committed() if newest and not retention.is_pending_deletion(each, self.layout, newest)]

    def units(self) -> set[str]:
        """The directories of data and the ledger files that lie below the root."""
        found = (self.layout.unit(info.path) for info in self.storage.list(self.spec.root))
        return {unit[0] for unit in found if unit}

    def look(self) -> Shown | None:
        """What a reader sees now."""
        return look(self.catalog, self.storage, self.spec)

    def newest(self) -> Snapshot | None:
        """The newest Snapshot."""
        return max(self.committed(), key=lambda snapshot: snapshot.version, default=None)

    def committed(self) -> Iterator[Snapshot]:
        """Every Snapshot, oldest first."""
        version = 1
        while self.storage.stat(place := self.layout.snapshot(version)) is not None:
            yield _parsed(self.storage.read(place))
            version += 1

    def committed_at(self, version: int) -> Snapshot:
        """The Snapshot of a version."""
        return _parsed(self.storage.read(self.layout.snapshot(version)))

    def ledger(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        """(path, etag) of every input absorbed up to a Snapshot."""
        found = ledger.everything(Table(self.observed(), self.spec), snapshot)
        return [(item.path, item.etag) for item in found if item.outcome not in LATER]

    def outcomes(self, snapshot: Snapshot) -> dict[tuple[str, str], str]:
        """What became of every input up to a Snapshot, by its last attempt."""
        return {(item.path, item.etag): item.outcome for item in ledger.everything(Table(self.observed(), self.spec), snapshot)}

    def has_unusable(self, name: tuple[str, str]) -> bool:
        """Whether something of a delivery cannot be used."""
        try:
            return bool(sorted_out(self.delivered[name], name[0])[1])
        except UnicodeDecodeError:
            return True

    def events(self, inputs: Iterable[tuple[str, str]]) -> list[Change]:
        """The events of these files, as they were delivered; without those that a newer epoch has replaced."""
        names = [*inputs]
        epochs = {name: self.epochs.get(name, self._epoch(name[0])) for name in names}
        found = [event for name in names for event in parsed(self.delivered[name], name[0], epochs[name])]
        begun = self.spec.epoch_replaces and any(event.position[0] == self.spec.epoch for event in found)
        return [event for event in found if not begun or event.position[0] >= self.spec.epoch]

    def _epoch(self, path: str) -> int:
        """The epoch of a file that a run takes now: by the dates of folders."""
        spec, folder = self.spec, path.rpartition("/")[0]
        if spec.epoch_from is None or datetime.strptime(folder, spec.pattern) >= datetime.strptime(spec.epoch_from, spec.pattern):
            return spec.epoch
        return spec.epoch - 1

    def landing(self) -> set[tuple[str, str]]:
        """What lies in landing."""
        start = len(self.spec.landing) + 1
        files = (info for info in self.storage.list(self.spec.landing) if info.path != self.layout.landing_owner())
        return {(info.path[start:], info.etag) for info in files}

    def archive(self) -> list[bytes]:
        """The contents of the archive."""
        return [self.storage.read(info.path) for info in self.storage.list(f"{self.spec.root}/archive")]

    def expected(self, snapshot: Snapshot | None = None) -> tuple[tuple[Any, ...], ...]:
        """The rows of a Snapshot (the newest) by the model: all events that its ledger names, played back from nothing."""
        snapshot = snapshot or self.newest()
        assert snapshot is not None
        undone = {name for name, outcome in self.outcomes(snapshot).items() if outcome == "undone"}
        rows = replayed(self.events(name for name in self.ledger(snapshot) if name not in undone), self.spec.soft)
        return as_rows(rows, snapshot.schema, self.spec.soft)

    def failed_checks(self) -> list[str]:
        """What `verify` finds wrong."""
        return [f"{check.name}: {check.detail}" for check in verify(Table(self.env(), self.spec)) if not check.ok]


def copied(catalog: MemoryCatalog) -> MemoryCatalog:
    """An independent catalog of the same content."""
    other = MemoryCatalog()
    other._databases = dict(catalog._databases)
    for name, found in catalog._objects.items():
        other._objects[name] = found if not hasattr(found, "partitions") else type(found)(found.definition, dict(found.partitions))
    return other


def as_rows(rows: dict[Key, Row], schema: Schema, soft: bool = False) -> tuple[tuple[Any, ...], ...]:
    """The model's rows as the view shows them, sorted; with `soft` with `_deleted`, as SQLite has truth."""
    out = []
    for key, row in rows.items():
        told = {**row, **dict(zip((schema.field(name).source for name in schema.key), key))}
        deleted = (int(DELETED in row),) if soft else ()
        out.append((*(cast(told.get(field.source), field.type) for field in schema.payload), *deleted))
    return tuple(sorted(out, key=repr))
