"""Several stores behind one Storage, chosen by the scheme of a location."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import S3Settings
from compactor.ports import Storage
from compactor.storage.local import LocalStorage


class RoutedStorage:
    """Route `s3://` locations to the store that `remote` creates on first use, all others to `local`. Nothing moves between the two."""

    def __init__(self, local: Storage, remote: Callable[[str], Storage]) -> None:
        self._local, self._remote = local, remote
        self._made: Storage | None = None
        self._lock = threading.Lock()

    def at(self, location: str) -> Storage:
        """Return the store of a location."""
        if not location.startswith("s3://"):
            return self._local
        with self._lock:
            if self._made is None:
                self._made = self._remote(location)
            return self._made

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return self.at(prefix).list(prefix)

    def folders(self, prefix: str) -> Iterable[str]:
        return self.at(prefix).folders(prefix)

    def read(self, path: str) -> bytes:
        return self.at(path).read(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.at(path).read_range(path, start, length)

    def stat(self, path: str) -> FileInfo | None:
        return self.at(path).stat(path)

    def checksum(self, file: FileInfo) -> str:
        return self.at(file.path).checksum(file)

    def write(self, path: str, data: bytes) -> None:
        self.at(path).write(path, data)

    def replace(self, file: FileInfo, data: bytes) -> bool:
        return self.at(file.path).replace(file, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.at(path).put_if_absent(path, data)

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        return self.at(source.path).move(source, target, keep)

    def encrypt(self, path: str) -> bool:
        return self.at(path).encrypt(path)

    def delete(self, paths: Iterable[str]) -> None:
        locations = list(paths)
        for store in {id(store): store for store in map(self.at, locations)}.values():
            store.delete([path for path in locations if self.at(path) is store])

    def now(self) -> float:
        """Return the time of the remote store once it was used, otherwise of the local one."""
        return (self._made or self._local).now()


def any_storage(settings: S3Settings) -> RoutedStorage:
    """Return the stores of this machine and of S3, for locations in which nothing is committed. boto3 is loaded when the first is in S3."""

    def remote(location: str) -> Storage:
        from compactor.storage.s3.storage import S3Storage

        return S3Storage(location, settings)

    return RoutedStorage(LocalStorage(), remote)
