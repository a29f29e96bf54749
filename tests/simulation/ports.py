"""The ports as an actor sees them: each call is a step that the scheduler may place anywhere, or let fail.

Calls that can be interrupted half-way are several steps: each path of a `delete`, each partition of `ensure_partitions` and `drop_partitions`, and
the two halves of a `move` (the target is complete, then the source goes). An engine's call is a step, and so is each call that the engine makes to
the storage. `StrictCatalog` is a catalog whose view cannot go back, as Glue and newer Hive metastores have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from compactor.catalog import rules
from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.core.model.files import FileInfo
from tests.oracle.engine import ListEngine
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage
from tests.simulation.scheduler import Actor


class ActorStorage:
    """`inner`, call by call: one step each, unless it can be interrupted half-way."""

    def __init__(self, inner: MemoryStorage, actor: Actor) -> None:
        self._inner, self._call = inner, actor.call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(file: FileInfo | str, *more: Any) -> Any:
            return self._call(name, file if isinstance(file, str) else file.path, lambda: method(file, *more))

        return call

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Two steps: the copy, the rest."""

        def copy() -> None:
            # Only what a real move would have copied: a source that changed or is gone leaves nothing.
            if self._inner.stat(source.path) == source and source.path != target:
                self._inner.put_if_absent(target, self._inner.read(source.path))

        self._call("move", source.path, copy)
        return self._call("move end", source.path, lambda: self._inner.move(source, target, keep))

    def delete(self, paths: Iterable[str]) -> None:
        """One step a path."""
        for path in paths:
            self._call("delete", path, partial(self._inner.delete, [path]))

    def now(self) -> float:
        """One step."""
        return self._call("clock", "", self._inner.now)


class ActorCatalog:
    """`inner`, call by call: one step each, unless it can be interrupted half-way."""

    def __init__(self, inner: MemoryCatalog, actor: Actor) -> None:
        self._inner, self._call = inner, actor.call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(what: TableDef | str, *more: Any) -> Any:
            return self._call(name, " ".join([what, *more]) if isinstance(what, str) else what.name, lambda: method(what, *more))

        return call

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """One step a partition, one for none."""
        for some in [[partition] for partition in partitions] or [[]]:
            name = "/".join([table, *(value for partition in some for value in partition.values)])
            self._call("ensure_partitions", name, partial(self._inner.ensure_partitions, database, table, some))

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """One step a partition, one for none."""
        for some in [[value] for value in values] or [[]]:
            name = "/".join([table, *(part for value in some for part in value)])
            self._call("drop_partitions", name, partial(self._inner.drop_partitions, database, table, some))

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
