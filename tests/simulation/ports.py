"""The ports as an actor sees them: each call is a step that the scheduler may place anywhere, or let fail.

Calls that can be interrupted half-way are several steps: each path of a `delete`, each partition of `ensure_partitions` and `drop_partitions`, and
the two halves of a `move` (the target is complete, then the source goes). An engine's call is a step, and so is each call that the engine makes to
the storage. `StrictCatalog` is a catalog whose view cannot go back, as Glue and newer Hive metastores have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from compactor.catalog import rules
from compactor.core.catalog.ddl import NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.files import FileInfo
from tests.oracle.engine import ListEngine
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage
from tests.simulation.scheduler import Actor


class ActorStorage:
    """`inner`, call by call."""

    def __init__(self, inner: MemoryStorage, actor: Actor) -> None:
        self._inner, self._call = inner, actor.call

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """One step."""
        return self._call("list", prefix, lambda: self._inner.list(prefix))

    def folders(self, prefix: str) -> Iterable[str]:
        """One step."""
        return self._call("list", prefix, lambda: self._inner.folders(prefix))

    def read(self, path: str) -> bytes:
        """One step."""
        return self._call("read", path, lambda: self._inner.read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """One step."""
        return self._call("read", path, lambda: self._inner.read_range(path, start, length))

    def stat(self, path: str) -> FileInfo | None:
        """One step."""
        return self._call("stat", path, lambda: self._inner.stat(path))

    def checksum(self, file: FileInfo) -> str:
        """One step."""
        return self._call("checksum", file.path, lambda: self._inner.checksum(file))

    def write(self, path: str, data: bytes) -> None:
        """One step."""
        self._call("write", path, lambda: self._inner.write(path, data))

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """One step."""
        return self._call("replace", file.path, lambda: self._inner.replace(file, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """One step."""
        return self._call("put_if_absent", path, lambda: self._inner.put_if_absent(path, data))

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Two steps: the copy, the rest."""

        def copy() -> None:
            # Only what a real move would have copied: a source that changed or is gone leaves nothing.
            if self._inner.stat(source.path) == source and source.path != target:
                self._inner.put_if_absent(target, self._inner.read(source.path))

        self._call("move", source.path, copy)
        return self._call("move end", source.path, lambda: self._inner.move(source, target, keep))

    def encrypt(self, path: str) -> bool:
        """One step."""
        return self._call("encrypt", path, lambda: self._inner.encrypt(path))

    def delete(self, paths: Iterable[str]) -> None:
        """One step a path."""
        for path in paths:
            self._call("delete", path, partial(self._inner.delete, [path]))

    def now(self) -> float:
        """One step."""
        return self._call("clock", "", self._inner.now)


class ActorCatalog:
    """`inner`, call by call."""

    def __init__(self, inner: MemoryCatalog, actor: Actor) -> None:
        self._inner, self._call = inner, actor.call

    def ensure_database(self, name: str, location: str) -> None:
        """One step."""
        self._call("ensure_database", name, lambda: self._inner.ensure_database(name, location))

    def has_database(self, name: str) -> bool:
        """One step."""
        return self._call("has_database", name, lambda: self._inner.has_database(name))

    def table(self, database: str, name: str) -> TableDef | None:
        """One step."""
        return self._call("table", name, lambda: self._inner.table(database, name))

    def ensure_table(self, table: TableDef) -> None:
        """One step."""
        self._call("ensure_table", table.name, lambda: self._inner.ensure_table(table))

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """One step a partition, one for none."""
        for some in [[partition] for partition in partitions] or [[]]:
            name = "/".join([table, *(value for partition in some for value in partition.values)])
            self._call("ensure_partitions", name, partial(self._inner.ensure_partitions, database, table, some))

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """One step."""
        return self._call("partitions", table, lambda: self._inner.partitions(database, table))

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """One step a partition, one for none."""
        for some in [[value] for value in values] or [[]]:
            name = "/".join([table, *(part for value in some for part in value)])
            self._call("drop_partitions", name, partial(self._inner.drop_partitions, database, table, some))

    def view(self, database: str, name: str) -> ViewDef | None:
        """One step."""
        return self._call("view", name, lambda: self._inner.view(database, name))

    def native(self, database: str, name: str) -> NativeDef | None:
        """One step."""
        return self._call("native", name, lambda: self._inner.native(database, name))

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """One step."""
        return self._call("point", table.metadata, lambda: self._inner.point(table, expected))

    def replace_view(self, view: ViewDef) -> None:
        """One step."""
        self._call("replace_view", f"{view.name} version {view.properties.get('compactor.version')}", lambda: self._inner.replace_view(view))


class StrictCatalog(MemoryCatalog):
    """A catalog with a compare-and-set: a view that shows a newer version of the same table stays."""

    def replace_view(self, view: ViewDef) -> None:
        """Replace, never backwards."""
        found = self.view(view.database, view.name)
        if found is None or not rules.outdated(view, found.properties):
            super().replace_view(view)


class ActorEngine:
    """A ListEngine on the actor's storage; each call is a step before it begins."""

    def __init__(self, storage: ActorStorage, actor: Actor) -> None:
        self._engine, self._actor = ListEngine(storage), actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._actor.call(f"engine.{name}", "", lambda: None)
            return method(*arguments, **options)

        return call
