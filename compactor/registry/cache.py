"""What never changes at a registry - the schema of an id, a version of a subject - kept in memory, and in a folder when one is named.

A file of the folder that cannot be read, or does not hold what it says, is as good as none. Nobody needs to clean up, but a registry that was
wiped and filled anew under the same address needs the folder emptied.
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
    """JSON objects by a name of several parts. Threads and processes may share it."""

    def __init__(self, directory: str, urls: Sequence[str], context: str) -> None:
        registry = hashlib.sha256(json.dumps([sorted(urls), context]).encode()).hexdigest()[:16]
        self._folder = Path(directory).expanduser() / registry if directory else None
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def get(self, *name: str) -> dict[str, Any] | None:
        """What is kept under that name, or None."""
        if name in self._known or self._folder is None:
            return self._known.get(name)
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(_file(self._folder, name).read_text(encoding="utf-8"))
            if found["digest"] == _digest(found["content"]):
                self._known[name] = found["content"]
        return self._known.get(name)

    def put(self, content: dict[str, Any], *name: str) -> None:
        """Keep it. A folder that cannot be written only costs the saving."""
        self._known[name] = content
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
    # a subject may be longer than a file's name, and hold any character
    parts = [part if len(part) < 200 else hashlib.sha256(part.encode()).hexdigest() for part in (quote(part, safe="") for part in name)]
    return folder.joinpath(*parts[:-1], f"{parts[-1]}.json")


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
