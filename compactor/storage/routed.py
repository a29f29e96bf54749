"""Several stores behind one Storage: a location's scheme tells whose it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from compactor.core.model.files import FileInfo
from compactor.ports import Storage


class RoutedStorage:
    """`s3://` locations belong to the store that `remote` makes on first use, all others to `local`. Nothing is moved between the two."""

    def __init__(self, local: Storage, remote: Callable[[str], Storage]) -> None:
        self._local, self._remote = local, remote
        self._made: Storage | None = None
        self._lock = threading.Lock()

    def at(self, location: str) -> Storage:
        """The store of a location."""
        if not location.startswith("s3://"):
            return self._local
        with self._lock:
            if self._made is None:
                self._made = self._remote(location)
            return self._made

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """As the store of `prefix` does."""
        return self.at(prefix).list(prefix)

    def read(self, path: str) -> bytes:
        """As its store does."""
        return self.at(path).read(path)

    def stat(self, path: str) -> FileInfo | None:
        """As its store does."""
        return self.at(path).stat(path)

    def checksum(self, file: FileInfo) -> str:
        """As its store does."""
        return self.at(file.path).checksum(file)

    def write(self, path: str, data: bytes) -> None:
        """As its store does."""
        self.at(path).write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """As its store does."""
        return self.at(path).put_if_absent(path, data)

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """As their store does."""
        return self.at(source.path).move(source, target, keep)

    def delete(self, paths: Iterable[str]) -> None:
        """Each by its store."""
        found = list(paths)
        for store in {id(store): store for store in map(self.at, found)}.values():
            store.delete([path for path in found if self.at(path) is store])

    def now(self) -> float:
        """By the clock of the remote store once it was used, else by the local one."""
        return (self._made or self._local).now()
