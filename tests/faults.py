"""Storage and Catalog that fail at the n-th call, for loops over every n.

    for faults in every_fault(mode="from_then_on"):
        storage = FaultyStorage(MemoryStorage(), faults)
        catalog = FaultyCatalog(MemoryCatalog(), faults)       # one counter for both
        with contextlib.suppress(Crash):
            run(storage, catalog)
        ...run again without faults, compare with a run nobody disturbed

The loop ends with the first run that makes fewer calls than n. Calls that can die half-way are counted piece by piece: each path
of a `delete`, each partition of `ensure_partitions` and `drop_partitions`; a `move` counts twice, and before its second half the
target is complete and the source still there.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from compactor.core.catalog.ddl import NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import Unavailable
from compactor.core.model.files import FileInfo
from compactor.ports import Catalog, Storage

T = TypeVar("T")
Port = TypeVar("Port")

MODES = ("before", "after_effect", "from_then_on")
ERRORS = ("crash", "unavailable")


class Crash(BaseException):
    """A simulated process death; no `except Exception` swallows it.

    A real one runs no cleanup either: with `from_then_on` the calls made in `finally` fail too.
    """


class Faults:
    """When to fail, and the counter that all wrappers given this object share.

    `fail_at` counts from 1; 0 never fails. `before` fails once, without effect; `after_effect` once, when the call has been
    carried out; `from_then_on` without effect, and at every later call. `only` names the operations that count; the others are
    passed on. `error` is `crash` (Crash) or `unavailable` (the project's Unavailable).
    """

    def __init__(self, fail_at: int = 0, mode: str = "before", only: Iterable[str] | None = None, error: str = "crash") -> None:
        if mode not in MODES or error not in ERRORS:
            raise ValueError(f"expected a mode of {MODES} and an error of {ERRORS}, found {mode!r} and {error!r}")
        self.fail_at, self.mode, self.error = fail_at, mode, error
        self.only = None if only is None else frozenset(only)
        self.calls: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    @property
    def fired(self) -> bool:
        """Whether a call has failed."""
        return 0 < self.fail_at <= len(self.calls)

    def call(self, operation: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Count and carry out one call, or fail as told; `half` is what a death just before `effect` leaves behind."""
        if self.only is not None and operation not in self.only:
            return effect()
        with self._lock:
            self.calls.append((operation, path))
            number = len(self.calls)
        due = number == self.fail_at
        if due and self.mode == "after_effect":
            effect()
        elif due and half is not None:
            half()
        if due or (self.fired and self.mode == "from_then_on"):
            message = f"{self.error} injected at call {number}: {operation} {path} ({self.mode} {self.fail_at})"
            raise Crash(message) if self.error == "crash" else Unavailable(message)
        return effect()


def every_fault(mode: str = "before", only: Iterable[str] | None = None, error: str = "crash") -> Iterator[Faults]:
    """Faults at call 1, 2, 3, ... up to and including the first that the caller's run did not reach."""
    operations = None if only is None else frozenset(only)
    for number in itertools.count(1):
        faults = Faults(number, mode, operations, error)
        yield faults
        if not faults.fired:
            return


class _Faulty(Generic[Port]):
    """`inner`, failing at call `fail_at`; give a Faults instead of the number to share its counter."""

    def __init__(
        self,
        inner: Port,
        fail_at: int | Faults = 0,
        mode: str = "before",
        only: Iterable[str] | None = None,
        error: str = "crash",
    ) -> None:
        self.inner = inner
        self.faults = fail_at if isinstance(fail_at, Faults) else Faults(fail_at, mode, only, error)

    @property
    def calls(self) -> Sequence[tuple[str, str]]:
        """What was counted so far, as (operation, path or name)."""
        return self.faults.calls


class FaultyStorage(_Faulty[Storage]):
    """A storage that fails."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """One call, made at once: the listing is complete before the first entry is looked at."""
        return self.faults.call("list", prefix, lambda: iter([*self.inner.list(prefix)]))

    def folders(self, prefix: str) -> Iterable[str]:
        """One call."""
        return self.faults.call("list", prefix, lambda: self.inner.folders(prefix))

    def read(self, path: str) -> bytes:
        """One call."""
        return self.faults.call("read", path, lambda: self.inner.read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """One call."""
        return self.faults.call("read", path, lambda: self.inner.read_range(path, start, length))

    def stat(self, path: str) -> FileInfo | None:
        """One call."""
        return self.faults.call("stat", path, lambda: self.inner.stat(path))

    def checksum(self, file: FileInfo) -> str:
        """One call."""
        return self.faults.call("checksum", file.path, lambda: self.inner.checksum(file))

    def write(self, path: str, data: bytes) -> None:
        """One call."""
        self.faults.call("write", path, lambda: self.inner.write(path, data))

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """One call."""
        return self.faults.call("replace", file.path, lambda: self.inner.replace(file, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """One call."""
        return self.faults.call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Two calls: before and between target and source."""

        def half() -> None:
            # Only what a real move would have copied: a source that changed or is gone leaves nothing.
            if self.inner.stat(source.path) == source and source.path != target:
                self.inner.put_if_absent(target, self.inner.read(source.path))

        self.faults.call("move", source.path, lambda: None)
        return self.faults.call("move", source.path, lambda: self.inner.move(source, target, keep), half)

    def encrypt(self, path: str) -> bool:
        """One call."""
        return self.faults.call("encrypt", path, lambda: self.inner.encrypt(path))

    def delete(self, paths: Iterable[str]) -> None:
        """One call a path."""
        for path in paths:
            self.faults.call("delete", path, partial(self.inner.delete, [path]))

    def now(self) -> float:
        """One call."""
        return self.faults.call("now", "", self.inner.now)


class FaultyCatalog(_Faulty[Catalog]):
    """A catalog that fails."""

    def ensure_database(self, name: str, location: str) -> None:
        """One call."""
        self.faults.call("ensure_database", name, lambda: self.inner.ensure_database(name, location))

    def has_database(self, name: str) -> bool:
        """One call."""
        return self.faults.call("has_database", name, lambda: self.inner.has_database(name))

    def table(self, database: str, name: str) -> TableDef | None:
        """One call."""
        return self.faults.call("table", _name(database, name), lambda: self.inner.table(database, name))

    def ensure_table(self, table: TableDef) -> None:
        """One call."""
        self.faults.call("ensure_table", f"{table.database}.{table.name}", lambda: self.inner.ensure_table(table))

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """One call a partition, one for none."""
        for some in [[partition] for partition in partitions] or [[]]:
            name = _name(database, table, *(partition.values for partition in some))
            self.faults.call("ensure_partitions", name, partial(self.inner.ensure_partitions, database, table, some))

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """One call."""
        return self.faults.call("partitions", _name(database, table), lambda: self.inner.partitions(database, table))

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """One call a partition, one for none."""
        for some in [[value] for value in values] or [[]]:
            name = _name(database, table, *some)
            self.faults.call("drop_partitions", name, partial(self.inner.drop_partitions, database, table, some))

    def view(self, database: str, name: str) -> ViewDef | None:
        """One call."""
        return self.faults.call("view", _name(database, name), lambda: self.inner.view(database, name))

    def native(self, database: str, name: str) -> NativeDef | None:
        """One call."""
        return self.faults.call("native", _name(database, name), lambda: self.inner.native(database, name))

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """One call."""
        return self.faults.call("point", _name(table.database, table.name), lambda: self.inner.point(table, expected))

    def replace_view(self, view: ViewDef) -> None:
        """One call."""
        self.faults.call("replace_view", _name(view.database, view.name), lambda: self.inner.replace_view(view))


def _name(database: str, name: str, *values: tuple[str, ...]) -> str:
    return "/".join([f"{database}.{name}", *itertools.chain(*values)])
