"""FileInfo: a stored object, as every Storage describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileInfo:
    """A stored object."""

    path: str
    """Full location: a path or a URI."""
    size: int
    """Bytes."""
    etag: str
    """Changes with the content."""
    modified: float
    """When it was written, in epoch seconds of the store's clock."""
    problem: str = ""
    """Why nobody may read it under this path, as `is a symbolic link`; "" for all others. Only listings show such objects."""
