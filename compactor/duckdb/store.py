"""DuckDB's file system over a Storage: one set of credentials, endpoints and retries for everything that compactor reads.

DuckDB's own S3 client is an extension that it downloads.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from compactor.duckdb.sources import PROTOCOL
from compactor.ports import Storage

TAIL = 1 << 16
"""Bytes at the end of a file that are read at once: DuckDB asks for the length of the footer, and then for the footer."""


class StoreFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The objects of a Storage, for reading."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self._tails: dict[str, bytes] = {}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> StoredFile:
        if mode != "rb":
            raise PermissionError(f"{path}: compactor's tables are read only")
        return StoredFile(self, path, mode, cache_type="none", size=_size(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the size, which is part of the name. No request is sent: if the object is gone, reading it fails."""
        return {"name": path, "size": _size(path), "type": "file", "mtime": 0.0}

    def modified(self, path: str) -> Any:
        """Return the same time for every object: none ever changes."""
        return datetime.fromtimestamp(0, timezone.utc)

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the path: every file is named."""
        return [path]

    def exists(self, path: str, **_: Any) -> bool:
        """Return True: only files of a Snapshot are named."""
        return True

    def isfile(self, path: str) -> bool:
        return True

    def read(self, path: str, start: int, length: int) -> bytes:
        """Return bytes of an object. Those near its end are kept, because every query reads the footer."""
        size = _size(path)
        length = min(length, size - start)
        if length <= 0:
            return b""
        begin = max(size - TAIL, 0)
        if start < begin:
            return self._storage.read_range(_location(path), start, length)
        if path not in self._tails:
            self._tails[path] = self._storage.read_range(_location(path), begin, size - begin)
        return self._tails[path][start - begin : start - begin + length]


class StoredFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open object. Each read is one request."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.read(self.path, start, end - start)
        return data


def _size(path: str) -> int:
    return int(path.removeprefix(f"{PROTOCOL}://").partition("@")[0])


def _location(path: str) -> str:
    return "s3://" + path.partition("@")[2]
