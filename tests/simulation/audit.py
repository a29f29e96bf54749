"""Auditors: what must hold after every step, whoever did what.

They read the stores directly and keep their own books: the Snapshots as they were put, the inputs whose rows each version must have, the files that
each version names. Nothing they compare with comes from a flow.

1. The view shows exactly one committed version: its text, its partitions, and the rows that the model makes of that version's inputs. Every version
   has these rows when it is committed, also one that is never shown.
2. A restore stays restored: a version has the inputs of its parent and those that it absorbs itself; a restore has those of the version it names.
3. Everything that landed is in landing, archive or quarantine; the ledger says where. When all is quiet it is in exactly one place.
4. The accounts of each couple hold 200 together (`tests/simulation/bank.py`).
5. Snapshots are written once; files that a kept Snapshot names are never changed or deleted, those of an expired one stay for `grace`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from compactor.core.catalog import views
from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.compaction import tiling_problem
from compactor.core.planning.retention import shortened
from compactor.ports import Catalog
from tests.oracle.engine import ListEngine
from tests.oracle.lake import as_rows
from tests.oracle.model import Change, parsed, replayed
from tests.oracle.reader import Shown, generations, look
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage
from tests.simulation import bank, verbs

Name = tuple[str, str]
"""(path below the landing root, etag)"""

_events = functools.lru_cache(4096)(parsed)


class Query:
    """What a reader has got of catalog and storage: enough to evaluate the view without asking again."""

    def __init__(self, view: ViewDef, tables: dict[str, TableDef], partitions: dict[str, list[PartitionDef]], files: dict[str, Any]) -> None:
        self._view, self._tables, self._partitions, self._files = view, tables, partitions, files

    def view(self, database: str, name: str) -> ViewDef:
        """The view that was read."""
        return self._view

    def table(self, database: str, name: str) -> TableDef | None:
        """A table that was read."""
        return self._tables.get(name)

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """The partitions that were read."""
        return self._partitions.get(table, [])

    def list(self, prefix: str) -> list[FileInfo]:
        """The files that were read in a directory."""
        return [info for info, _ in self._files.get(prefix, ())]

    def read(self, path: str) -> bytes:
        """The content of such a file."""
        folder = path.rpartition("/")[0]
        return next(bytes(data) for info, data in self._files[folder] if info.path == path)


class Audit:
    """The books of one life, and the checks."""

    def __init__(self, spec: TableSpec, storage: MemoryStorage, catalog: MemoryCatalog, strict: bool, couples: bool) -> None:
        self.spec, self.storage, self.catalog, self.strict, self.couples = spec, storage, catalog, strict, couples
        self.layout = spec.layout
        self.delivered: dict[Name, bytes] = {}
        self.overwritten: set[Name] = set()
        self.snapshots: dict[int, Snapshot] = {}
        self.effective: dict[int, frozenset[Name]] = {0: frozenset()}
        self.ledger: dict[Name, Input] = {}
        self.shown = 0
        self._engine = ListEngine(storage)
        self.debts: dict[str, int] = {}
        self._stored: dict[int, bytes] = {}
        self._files: dict[str, set[int]] = {}
        self._etags: dict[str, str] = {}
        self._rows: dict[int, tuple[tuple[Any, ...], ...]] = {}
        self._evaluated: dict[Any, Shown] = {}
        self._cache: dict[Any, Any] = {}

    @property
    def newest(self) -> Snapshot | None:
        """The newest Snapshot."""
        return self.snapshots[len(self.snapshots)] if self.snapshots else None

    def landed(self, path: str, data: bytes) -> None:
        """Note that the sink has written a file."""
        info = self.storage.stat(self.layout.landed(path))
        assert info is not None
        self.delivered[path, info.etag] = data

    def lands(self, path: str) -> None:
        """Note that the sink replaces what lies under a name now: nobody else has it."""
        info = self.storage.stat(self.layout.landed(path))
        if info is not None:
            self.overwritten.add((path, info.etag))

    def inspect(self, changed: Sequence[tuple[str, str]], now: float, actor: str = "") -> None:
        """Check what these changes of an actor, each (operation, path), may have broken."""
        moved = shown = False
        for operation, path in changed:
            if not path.startswith("/"):
                shown = True
                continue
            kind = self.layout.kind(path)
            if kind == "snapshot":
                self._snapshot(path)
                moved = True
            elif kind in ("segment", "delta", "ledger"):
                self._data(path, operation, now)
            elif kind != "hint":
                moved = True
        if moved:
            self._places()
        if shown:
            self._view(actor)

    def paid(self, actor: str) -> None:
        """Check that an actor which has replaced a newer view, for want of a compare-and-set, leaves it at least as new."""
        version = self.debts.pop(actor, 0)
        assert self.shown >= version, f"{actor} replaced the view of version {version}, and left it at version {self.shown}"

    def caught_up(self, now: float) -> None:
        """Check everything, after changes that nobody has listed."""
        version = len(self.snapshots) + 1
        while self.storage.stat(self.layout.snapshot(version)) is not None:
            self._snapshot(self.layout.snapshot(version))
            version += 1
        self.inspect([("write", self.layout.snapshot(each)) for each in range(1, version)], now)
        for path, versions in self._files.items():
            assert not versions or self.storage.stat(path) is not None, f"{path} is gone, version {max(versions)} names it"
        self._view()

    # Snapshots ----------------------------------------------------------------------------------------------------

    def _snapshot(self, path: str) -> None:
        version = self.layout.version_of(path)
        assert version is not None
        if self.storage.stat(path) is None:
            raise AssertionError(f"Snapshot {version} is gone")
        data = self.storage.read(path)
        if self._stored.get(version) == data:
            return
        stored, known = Snapshot.from_bytes(data), self.snapshots.get(version)
        if known is None:
            assert version == len(self.snapshots) + 1, f"version {version} was put after version {len(self.snapshots)}"
            self._put(stored)
        else:
            self._expired(known, stored)
        self.snapshots[version], self._stored[version] = stored, data
        if known is None:
            rows = as_rows(self._engine.rows(self.spec, stored, stored.schema), stored.schema)
            assert rows == self.expected(version), f"version {version} ({stored.operation}) has other rows than its inputs have"

    def _put(self, snapshot: Snapshot) -> None:
        assert snapshot.parent == (snapshot.version - 1 or None)
        gap = tiling_problem(snapshot.segments)
        assert gap is None, gap
        paths = [self.layout.inside(f"{path}/{file.name}") for path, file in snapshot.data_files]
        paths += [self.layout.inside(file.path) for file in snapshot.ledger]
        given_up = snapshot.named & {item.path for item in snapshot.pending_deletions}
        assert not given_up, f"version {snapshot.version} names {min(given_up)}, which vacuum has given up"
        for path in paths:
            info = self.storage.stat(path)
            assert info is not None, f"version {snapshot.version} names {path}, which is not there"
            assert self._etags.setdefault(path, info.etag) == info.etag, f"{path} changed"
            self._files.setdefault(path, set()).add(snapshot.version)
        self.effective[snapshot.version] = self._inputs(snapshot)
        self.ledger.update({(item.path, item.etag): item for item in snapshot.inputs})
        live = {name for name, item in self.ledger.items() if not item.unabsorbed}
        usable = {name for name in self.effective[snapshot.version] if not self.delivered[name].endswith(b"\xff")}
        wrong = sorted(live ^ usable)
        assert not wrong, f"version {snapshot.version} ({snapshot.operation}): the ledger is wrong about {wrong[0][0]}"

    def _inputs(self, snapshot: Snapshot) -> frozenset[Name]:
        """The inputs whose rows a version must have, by what its operation means."""
        if snapshot.operation in ("restore", "rebuild") and snapshot.restored is not None:
            return self.effective[snapshot.restored]
        parent = self.effective[snapshot.version - 1]
        if snapshot.operation in verbs.SAME_ROWS or snapshot.operation == "rebuild":
            return parent
        return parent | {(item.path, item.etag) for item in snapshot.inputs}

    def _expired(self, before: Snapshot, after: Snapshot) -> None:
        newest, version = self.newest, before.version
        assert newest is not None
        assert after in (before.stub(), shortened(before, None), shortened(before, before)), f"Snapshot {version} changed"
        assert version not in {pin.version for pin in newest.pins}, f"version {version} is pinned and expired"
        assert version != newest.version, "the newest version expired"
        assert version < self.shown or not self.shown, f"version {version} is shown and expired"
        for versions in self._files.values():
            versions.discard(version)

    def _data(self, path: str, operation: str, now: float) -> None:
        info = self.storage.stat(path)
        if path in self._etags and info is not None:
            assert info.etag == self._etags[path], f"{path} changed"
        if operation != "delete" or info is not None:
            return
        assert not self._files.get(path), f"{path} was deleted, version {max(self._files[path])} names it"
        unit = self.layout.unit(path)
        if unit is not None and self.newest is not None:
            early = [
                item
                for item in self.newest.pending_deletions
                if item.path == unit[0] and item.reason == "expired" and now < item.since + self.spec.grace
            ]
            assert not early, f"{path} was deleted before its grace period ended"

    # what landed --------------------------------------------------------------------------------------------------

    def _places(self, settled: bool = False) -> None:
        for name, data in self.delivered.items():
            if name in self.overwritten:
                continue
            places = self._where(name, data)
            item = self.ledger.get(name)
            if item is None:
                assert "landing" in places, f"{name[0]} was not absorbed and is not in landing"
                twin = any(path == name[0] and etag != name[1] and other == data for (path, etag), other in self.delivered.items())
                assert twin or places == ["landing"], f"{name[0]} was not absorbed and is in {places}"
            else:
                assert places, f"{name[0]} was absorbed by a version and is nowhere"
                assert item.outcome != "quarantined" or "archive" not in places, f"{name[0]} was never absorbed and is in the archive"
                assert item.outcome != "absorbed" or "quarantine" not in places, f"{name[0]} was absorbed and is in quarantine"
            assert not settled or (item is not None and len(places) == 1), f"{name[0]} is in {places} when all is quiet"

    def _where(self, name: Name, data: bytes) -> list[str]:
        landed = self.storage.stat(self.layout.landed(name[0]))
        places = ["landing"] if landed is not None and landed.etag == name[1] else []
        for place, within in (("archive", self.layout.archived), ("quarantine", self.layout.quarantined)):
            candidates = (within(name[0]), within(*name))
            if any(self.storage.stat(path) is not None and self.storage.read(path) == data for path in candidates):
                places.append(place)
        return places

    # what readers see ---------------------------------------------------------------------------------------------

    def expected(self, version: int) -> tuple[tuple[Any, ...], ...]:
        """Return the rows of a version: the events of its inputs, played back."""
        if version not in self._rows:
            events = [event for name in self.effective[version] for event in self._parsed(name)]
            self._rows[version] = as_rows(replayed(events), self.snapshots[version].schema)
        return self._rows[version]

    def _parsed(self, name: Name) -> list[Change]:
        return _events(self.delivered[name], name[0])

    def _view(self, actor: str = "") -> None:
        """The catalog as it is now shows one committed version."""
        view = self.catalog.view(self.spec.database, self.spec.view)
        if view is None:
            assert not self.shown, "the view is gone"
            return
        version = int(view.properties["compactor.version"])
        if version < self.shown:
            assert not self.strict, f"the view went from version {self.shown} back to {version}"
            self.debts[actor] = self.shown
        assert version in self.snapshots, f"the view shows version {version}, which was never committed"
        snapshot = self.snapshots[version]
        assert not snapshot.expired, f"the view shows version {version}, which has expired"
        self.shown = version
        tables, partitions = registered(self.catalog, self.spec, view)
        files: dict[str, Any] = {}
        for some in partitions.values():
            for partition in some:
                files[partition.location] = [(info, b"") for info in self.storage.list(partition.location)]
        self.check(self.evaluated(view, tables, partitions, files))

    def evaluated(self, view: ViewDef, tables: dict[str, TableDef], partitions: dict[str, list[PartitionDef]], files: dict[str, Any]) -> Shown:
        """Run the view's text over what a reader got; the same query is evaluated once. A content b"" is read from storage."""
        registered = tuple((name, partition.values, partition.location) for name, some in partitions.items() for partition in some)
        key = (view.text, registered, tuple((info.path, info.etag) for some in files.values() for info, _ in some))
        if key not in self._evaluated:
            contents = {folder: [(info, data or self.storage.read(info.path)) for info, data in some] for folder, some in files.items()}
            query: Any = Query(view, tables, partitions, contents)
            shown = look(query, query, self.spec, cache=self._cache)
            assert shown is not None
            self._evaluated[key] = shown
        return self._evaluated[key]

    def check(self, shown: Shown) -> None:
        """Compare what a reader got with the version that the view names."""
        snapshot = self.snapshots[shown.version]
        if not snapshot.expired:
            assert shown.text == views.view_text(self.spec, snapshot), f"the view's text is not that of version {shown.version}"
        problem = bank.unbalanced(dict(zip(shown.columns, row)) for row in shown.rows) if self.couples else None
        rows = self.expected(shown.version)
        if shown.rows != rows:
            wrong = sorted({*shown.rows} ^ {*rows}, key=repr)
            raise AssertionError(
                f"the view shows version {shown.version} ({snapshot.operation}) with other rows than its inputs have, such as {wrong[:2]}; {problem}"
            )
        assert problem is None, problem

    # the end ------------------------------------------------------------------------------------------------------

    def newest_is_shown(self) -> None:
        """After a run that nobody disturbed, also one that found nothing to do."""
        newest = self.newest
        self._view()
        assert newest is None or self.shown == newest.version, f"version {newest.version} is the newest, version {self.shown} is shown"

    def settled(self, everything: bool) -> None:
        """After a run that nobody disturbed: each file is in one place, the newest version is shown; with `everything` it has all events."""
        newest = self.newest
        assert newest is not None
        self.newest_is_shown()
        self._places(settled=True)
        left = [info.path for info in self.storage.list(self.spec.landing) if info.path != self.layout.landing_owner()]
        assert not left, f"{left[0]} still lies in landing"
        if everything:
            events = [event for name in self._lasting() for event in self._parsed(name)]
            rows = as_rows(replayed(events), newest.schema)
            assert self.expected(newest.version) == rows, "not everything that landed is in the table"

    def _lasting(self) -> Iterable[Name]:
        return [name for name in self.delivered if name not in self.overwritten or name in self.effective[len(self.snapshots)]]


def registered(catalog: Catalog, spec: TableSpec, view: ViewDef) -> tuple[dict[str, TableDef], dict[str, list[PartitionDef]]]:
    """Return the tables that a view reads, and of each the partitions that its text names."""
    tables, partitions = {}, {}
    for generation, part in itertools.product(generations(view), ("base", "delta")):
        table = catalog.table(spec.tables_in, views.table_name(spec, part, generation))
        if table is not None:
            tables[table.name] = table
            every = catalog.partitions(spec.tables_in, table.name)
            partitions[table.name] = [partition for partition in every if f"'{partition.values[0]}'" in view.text]
    return tables, partitions
