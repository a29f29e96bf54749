"""Cache of immutable registry content: the schema of an id, a version of a subject. It is kept in memory and, if configured, in a folder.

An unreadable or damaged file is ignored. The folder needs no cleaning, but empty it after a registry was erased and filled again under the same
address.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote


class Cache:
    """JSON objects by a name of several parts. Safe between threads and processes."""

    def __init__(self, directory: str, urls: Sequence[str], context: str) -> None:
        registry = hashlib.sha256(json.dumps([sorted(urls), context]).encode()).hexdigest()[:16]
        self._folder = Path(directory).expanduser() / registry if directory else None
        self._objects: dict[tuple[str, ...], dict[str, Any]] = {}

    def get(self, *name: str) -> dict[str, Any] | None:
        """Return the object with that name, or None."""
        if name in self._objects or self._folder is None:
            return self._objects.get(name)
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(_file(self._folder, name).read_text(encoding="utf-8"))
            if stored["digest"] == _digest(stored["content"]):
                self._objects[name] = stored["content"]
        return self._objects.get(name)

    def put(self, content: dict[str, Any], *name: str) -> None:
        """Store the object. If the folder is not writable, it stays in memory only."""
        self._objects[name] = content
        if self._folder is None:
            return
        file = _file(self._folder, name)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, staged = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump({"content": content, "digest": _digest(content)}, out)
            os.replace(staged, file)


def _file(folder: Path, name: tuple[str, ...]) -> Path:
    # a subject may be longer than a file name, and may contain any character
    parts = [part if len(part) < 200 else hashlib.sha256(part.encode()).hexdigest() for part in (quote(part, safe="") for part in name)]
    return folder.joinpath(*parts[:-1], f"{parts[-1]}.json")


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
