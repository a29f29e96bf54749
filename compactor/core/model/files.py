"""FileInfo: a stored object, as every Storage describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileInfo:
    """A stored object: `path` is its full location, `size` bytes, `etag` changes with the content, `modified` epoch seconds of the store's clock."""

    path: str
    size: int
    etag: str
    modified: float
