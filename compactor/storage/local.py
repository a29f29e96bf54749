"""Storage in a file system with hard links. Every object appears under its name whole and durable, or not at all.

An object is staged under a private name in its own directory and then linked or renamed into place. A process that dies leaves at
worst a private name. No listing shows it. The next move of the same file removes it, and so does the `delete` of the last other file of its
directory once it is a day old.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from compactor.core.model.errors import Refused
from compactor.core.model.files import FileInfo
from compactor.storage.local_files import (
    STAGING_PREFIX,
    describe,
    directories,
    move,
    os_errors,
    prune,
    put,
    regular_file,
    replace,
    retry_directory,
    sha256,
    sync_directory,
    walk,
)

_LOCATION = re.compile(r"(?:file:(?://(?:localhost)?)?)?(/(?!/).*)", re.DOTALL)


def local_path(location: str, directory: bool = False) -> str:
    """Return the absolute path for `/x`, `file:/x`, `file:///x` or `file://localhost/x`. Only a directory may end in a slash.

    Nothing is percent-decoded: like Hadoop's `Path`, `%20` in a location is part of the name.
    """
    match = _LOCATION.fullmatch(location)
    path = match[1] if match else ""
    names = (path.rstrip("/") if directory else path).split("/")[1:]
    if not match or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise Refused(f"{location!r}: expected an absolute path of this machine without empty, '.' and '..' parts")
    if names and names[-1].startswith(STAGING_PREFIX):
        raise Refused(f"{location!r}: names beginning with {STAGING_PREFIX!r} are private to this storage")
    return "/" + "/".join(names)


class LocalStorage:
    """Objects as files. An etag is made of size, mtime and inode. Links to directories are not listed."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Return every file below `prefix` in path order, including the dot files of other programs."""
        return walk(local_path(prefix, directory=True))

    def folders(self, prefix: str) -> Iterable[str]:
        return directories(local_path(prefix, directory=True))

    def read(self, path: str) -> bytes:
        name = local_path(path)
        with os_errors(name):
            if regular_file(name) is None:
                raise FileNotFoundError(errno.ENOENT, "no such object", name)
            with open(name, "rb") as file:
                return file.read()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        name = local_path(path)
        with os_errors(name), open(name, "rb") as file:
            file.seek(start)
            return file.read(length)

    def stat(self, path: str) -> FileInfo | None:
        return describe(local_path(path))

    def checksum(self, file: FileInfo) -> str:
        """Return the SHA-256 of the content, cheap for a file that was just written. Raises FileNotFoundError."""
        name = local_path(file.path)
        with os_errors(name):
            return f"sha256:{sha256(name)}"

    def write(self, path: str, data: bytes) -> None:
        name = local_path(path)
        with os_errors(name):
            retry_directory(name, lambda: replace(name, data))

    def replace(self, file: FileInfo, data: bytes) -> bool:
        """Replace the file if its etag is the same, atomically and durably. It is compared just before: what changes it after that is lost."""
        here = self.stat(file.path)
        if here is None or here.etag != file.etag:
            return False
        self.write(file.path, data)
        return True

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file durably. Return False if the name is taken; the existing file is durable then, too."""
        name = local_path(path)
        with os_errors(name):
            created = retry_directory(name, lambda: put(name, data))
            if not created and os.path.isdir(name):
                raise IsADirectoryError(errno.EISDIR, "is a directory", name)
            return created

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Move by hard link, otherwise by verified copy. With `keep` always copy: a sink may write into its file later.

        A crash leaves only the source, both files complete, or only the target. The same call again completes the move.
        The source is checked once more just before it is unlinked. A file that replaces it after that check is lost;
        one that replaced it earlier stays.
        """
        start, end = local_path(source.path), local_path(target)
        with os_errors(end):
            return move(start, end, source, keep)

    def encrypt(self, path: str) -> bool:
        return False

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, then the directories that became empty, upwards to the first one that is not."""
        names = [local_path(path) for path in paths]
        for name in names:
            with os_errors(name), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(name)
        # Also above files that were already gone: an earlier call may have died between the two steps.
        remaining = {prune(directory) for directory in sorted({os.path.dirname(name) for name in names}, reverse=True)}
        for directory in remaining:
            with os_errors(directory), suppress(NotADirectoryError):
                sync_directory(directory)

    def now(self) -> float:
        return time.time()
