"""Lakes on a storage of another kind than a dict: a directory, an S3 server. The lake's clock is theirs too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compactor.core.model.files import FileInfo
from compactor.core.model.spec import TableSpec
from compactor.flows.environment import Environment
from compactor.ports import Storage
from tests.faults import Faults
from tests.oracle.lake import Lake
from tests.oracle.s3_lake import BUCKET
from tests.parts.memory_storage import MemoryStorage
from tests.parts.s3 import Server


class Clocked:
    """`inner`, with ages by another clock: what is written is as old as that says. `changes` counts what was changed through it."""

    def __init__(self, inner: Storage, clock: Callable[[], float]) -> None:
        self._inner, self._clock = inner, clock
        self._modified: dict[str, float] = {}
        self.changes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def told(self, info: FileInfo) -> FileInfo:
        """What the storage says of an object, with its age by the clock."""
        return dataclasses.replace(info, modified=self._modified[info.path])

    def _changed(self, path: str, anew: bool = True) -> None:
        self.changes += 1
        if anew or path not in self._modified:
            self._modified[path] = self._clock()

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """As the inner one."""
        return map(self.told, self._inner.list(prefix))

    def stat(self, path: str) -> FileInfo | None:
        """As the inner one."""
        info = self._inner.stat(path)
        return None if info is None else self.told(info)

    def write(self, path: str, data: bytes) -> None:
        """As the inner one."""
        self._inner.write(path, data)
        self._changed(path)

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """As the inner one."""
        done = self._inner.replace(file, data)
        self._changed(file.path, done)
        return done

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """As the inner one."""
        done = self._inner.put_if_absent(path, data)
        self._changed(path, done)
        return done

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """As the inner one."""
        there = self._inner.stat(target)
        done = self._inner.move(source, target, keep)
        self._changed(target, there is None)
        return done

    def delete(self, paths: Iterable[str]) -> None:
        """As the inner one."""
        self._inner.delete(paths)
        self.changes += 1

    def now(self) -> float:
        """The clock."""
        return self._clock()


class Bucket(MemoryStorage):
    """What a bucket holds now, by one look after each change; what is written goes there."""

    def __init__(self, there: Clocked, server: Server) -> None:
        super().__init__(there.now)
        self._there, self._server, self._seen = there, server, -1

    def _look(self) -> None:
        if self._seen == self._there.changes:
            return
        self._seen = self._there.changes
        found = ((f"s3://{BUCKET}/{key}", etag, data) for key, (etag, _, data) in self._server.objects(BUCKET).items())
        self._objects = {
            path: (self._there.told(FileInfo(path, len(data), etag, 0.0)), data) for path, etag, data in found if path in self._there._modified
        }

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """As of now."""
        self._look()
        return super().list(prefix)

    def read(self, path: str) -> bytes:
        """As of now."""
        self._look()
        return super().read(path)

    def stat(self, path: str) -> FileInfo | None:
        """As of now."""
        self._look()
        return super().stat(path)

    def write(self, path: str, data: bytes) -> None:
        """As a sink would."""
        self._there.write(path, data)


class StoredLake(Lake):
    """A lake whose processes work on `there`; with a `server`, the observer sees all of its bucket at one moment instead of asking S3."""

    def __init__(self, spec: TableSpec, there: Storage, server: Server | None = None) -> None:
        super().__init__(spec)
        self._there = Clocked(there, self._clock)
        self.storage = self._there if server is None else Bucket(self._there, server)  # type: ignore[assignment]

    def env(self, faults: Faults | None = None) -> Environment:
        """What a process sees."""
        observer, self.storage = self.storage, self._there  # type: ignore[assignment]
        try:
            return super().env(faults)
        finally:
            self.storage = observer

    def observed(self) -> Environment:
        """What the observer sees."""
        return super().env()
