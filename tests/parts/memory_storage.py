"""Storage in a dict: for tests, for experiments, and as the simplest implementation of the contract."""

from __future__ import annotations

import errno
import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from compactor.core.formats import checksum
from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo


class MemoryStorage:
    """Objects of one process, safe between its threads. Locations may be paths or URIs; the clock can be replaced."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._objects: dict[str, tuple[FileInfo, bytes]] = {}
        self._generation = 0

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Return every object below `prefix` as of this call, in path order."""
        start = prefix.rstrip("/") + "/"
        _check(start + "x")
        with self._lock:
            listed = [info for path, (info, _) in self._objects.items() if path.startswith(start)]
        return iter(sorted(listed, key=lambda info: info.path))

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the names of the directories directly below `prefix`, sorted."""
        start = len(prefix.rstrip("/")) + 1
        return sorted({info.path[start:].partition("/")[0] for info in self.list(prefix) if "/" in info.path[start:]})

    def read(self, path: str) -> bytes:
        """Return the content. Raises FileNotFoundError."""
        _check(path)
        with self._lock:
            if path not in self._objects:
                raise FileNotFoundError(errno.ENOENT, "no such object", path)
            return self._objects[path][1]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of the content. Raises FileNotFoundError."""
        return self.read(path)[start : start + length]

    def stat(self, path: str) -> FileInfo | None:
        """Return size, etag and time of the object, or None."""
        _check(path)
        with self._lock:
            return self._objects[path][0] if path in self._objects else None

    def checksum(self, file: FileInfo) -> str:
        """Return the checksum of the content. Raises FileNotFoundError."""
        return checksum.of(self.read(file.path))

    def write(self, path: str, data: bytes) -> None:
        """Create or replace the object."""
        _check(path)
        with self._lock:
            self._generation += 1
            etag = f"{hashlib.sha256(data).hexdigest()}-{self._generation}"
            self._objects[path] = (FileInfo(path, len(data), etag, self._clock()), bytes(data))

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """Replace the object if its etag is the same."""
        with self._lock:
            here = self.stat(file.path)
            if here is None or here.etag != file.etag:
                return False
            self.write(file.path, data)
            return True

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object. Return False if the name is taken."""
        _check(path)
        with self._lock:
            if path in self._objects:
                return False
            self.write(path, data)
            return True

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Move `source` as the port requires. The etag contains a hash of the content, so the target is compared by it."""
        _check(source.path)
        _check(target)
        with self._lock:
            here, there = self.stat(source.path), self.stat(target)
            unchanged = here is not None and here.etag == source.etag
            if source.path == target and here is not None:
                return unchanged
            arrived = there is not None and _content(there) == _content(source)
            if here is None and there is None:
                raise FileNotFoundError(errno.ENOENT, f"neither here nor at {target}", source.path)
            if here is not None and not unchanged:
                return arrived
            if there is not None and not arrived:
                raise FileExistsError(errno.EEXIST, f"holds other content than {source.path}", target)
            if there is None:
                self.write(target, self.read(source.path))
            if not keep:
                self.delete([source.path])
            return True

    def encrypt(self, path: str) -> bool:
        """Return False: nothing is encrypted here."""
        return False

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects. Missing ones are ignored."""
        names = [*paths]
        for name in names:
            _check(name)
        with self._lock:
            for name in names:
                self._objects.pop(name, None)

    def now(self) -> float:
        """Return epoch seconds of the given clock."""
        return self._clock()


def _content(info: FileInfo) -> str:
    return info.etag.partition("-")[0]


def _check(path: str) -> None:
    scheme, separator, rest = path.rpartition("://")
    names = (rest if separator else path).split("/")
    absolute = bool(scheme) if separator else names[0] == "" and len(names) > 1
    # Other stores could not keep such a name, or would change it.
    if not absolute or "\0" in path or any(name in ("", ".", "..") for name in names[1:]):
        raise Refused(f"{path!r}: expected an absolute path or URI without empty, '.' and '..' parts")
