"""Looking for many files by listing their folders once: a thousand in a request, and with no right to read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from compactor.flows.world import World
from compactor.ports import FileInfo, Storage


class Listed:
    """A Storage whose `stat` tells what lay in the file's folder when it was first asked about one of them. All else is the store's own."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._folders: dict[str, dict[str, FileInfo]] = {}

    def stat(self, path: str) -> FileInfo | None:
        """From the listing."""
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = {info.path: info for info in self._storage.list(folder)}
        return self._folders[folder].get(path)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The store's."""
        return self._storage.list(prefix)

    def read(self, path: str) -> bytes:
        """The store's."""
        return self._storage.read(path)

    def checksum(self, file: FileInfo) -> str:
        """The store's."""
        return self._storage.checksum(file)

    def write(self, path: str, data: bytes) -> None:
        """The store's."""
        self._storage.write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """The store's."""
        return self._storage.put_if_absent(path, data)

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """The store's."""
        return self._storage.move(source, target, keep)

    def delete(self, paths: Iterable[str]) -> None:
        """The store's."""
        self._storage.delete(paths)

    def now(self) -> float:
        """The store's."""
        return self._storage.now()


def listed(world: World) -> World:
    """A world that looks for files so."""
    return dataclasses.replace(world, storage=Listed(world.storage))
