"""Storage in a file system with hard links. Every object appears under its name whole and durable, or not at all.

An object is staged under a private name in its own directory and then linked or renamed into place. A process that dies leaves at
worst a private name, which no listing shows and which `delete` sweeps away once it is a day old.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.files import FileInfo

T = TypeVar("T")

STAGING_PREFIX = ".compactor-staging-"
STAGING_SECONDS_MAX = 24 * 3600
ATTEMPTS = 1000
BLOCK_BYTES = 1 << 20
_LOCATION = re.compile(r"(?:file:(?://(?:localhost)?)?)?(/(?!/).*)", re.DOTALL)
_REFUSALS = (
    ({errno.ENOSPC, errno.EDQUOT}, "no space left for {} ({}): free some; nothing of it was stored"),
    ({errno.EACCES, errno.EPERM, errno.EROFS}, "not allowed: {} ({}): check owner and mode of it and its directories"),
    ({errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}, "{} cannot be used as a file ({}): rename it"),
)
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
# A sink's files may lie on another device, or belong to another user (fs.protected_hardlinks): their content can still be copied.
_COPY_INSTEAD = _NO_LINKS | {errno.EXDEV, errno.EACCES}


def local_path(location: str, directory: bool = False) -> str:
    """The absolute path of `/x`, `file:/x`, `file:///x` or `file://localhost/x`; only a directory may end in a slash.

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
    """Objects as files. Etags are size, mtime and inode; links to files are followed, links to directories not listed."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """Every file below `prefix` in path order; other people's dot files too."""
        return _walk(local_path(prefix, directory=True))

    def read(self, path: str) -> bytes:
        """The content. Raises FileNotFoundError."""
        name = local_path(path)
        with _errors(name):
            if _stat(name) is None:
                raise FileNotFoundError(errno.ENOENT, "no such object", name)
            with open(name, "rb") as file:
                return file.read()

    def stat(self, path: str) -> FileInfo | None:
        """What is there, or None; a directory is nothing."""
        return _described(local_path(path))

    def checksum(self, file: FileInfo) -> str:
        """SHA-256 of the content, which the operating system still holds when it was just written. Raises FileNotFoundError."""
        name, digest = local_path(file.path), hashlib.sha256()
        with _errors(name), open(name, "rb") as opened:
            while block := opened.read(BLOCK_BYTES):
                digest.update(block)
        return f"sha256:{digest.hexdigest()}"

    def write(self, path: str, data: bytes) -> None:
        """Create or replace, atomically and durably."""
        name = local_path(path)
        with _errors(name):
            _again_without_directory(name, lambda: _replace(name, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create durably; False when the name is taken, by an object that is then durable too."""
        name = local_path(path)
        with _errors(name):
            created = _again_without_directory(name, lambda: _put(name, data))
            if not created and os.path.isdir(name):
                raise IsADirectoryError(errno.EISDIR, "is a directory", name)
            return created

    def move(self, source: FileInfo, target: str, keep: bool = False) -> bool:
        """Move by hard link, else (and to `keep` the source: a sink may write in place) by verified copy.

        A crash leaves the source alone, or both complete, or the target alone; the same call again ends with the target alone.
        The source is looked at once more just before it is unlinked: a file replaced after that look is lost, one replaced
        earlier stays where it is.
        """
        start, end = local_path(source.path), local_path(target)
        with _errors(end):
            for _ in range(ATTEMPTS):
                verdict = _verdict(start, end, source, keep)
                if verdict is not None:
                    return verdict
                # Source, target or directory changed hands under us: judge anew.
                with suppress(FileNotFoundError, FileExistsError):
                    if _bring(start, end, source, keep):
                        return _finish(start, end, source, keep)
        raise Unavailable(f"{end}: source and target keep changing; {ATTEMPTS} attempts to move {start} failed")

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects, then the directories this leaves empty, upwards to the first that holds anything."""
        names = [local_path(path) for path in paths]
        for name in names:
            with _errors(name), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(name)
        # Also above objects that were gone already: an earlier call may have died between the two.
        remaining = {_prune(directory) for directory in sorted({os.path.dirname(name) for name in names}, reverse=True)}
        for directory in remaining:
            with _errors(directory), suppress(NotADirectoryError):
                _sync_directory(directory)

    def now(self) -> float:
        """Epoch seconds."""
        return time.time()


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """What the operating system says, in this project's words; FileNotFoundError and FileExistsError are part of the contract."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        for errnos, text in _REFUSALS:
            if error.errno in errnos:
                raise Refused(text.format(path, error.strerror)) from error
        raise Unavailable(f"{path}: {error.strerror} (errno {error.errno})") from error


def _again_without_directory(path: str, attempt: Callable[[], T]) -> T:
    """A concurrent `delete` may remove the directory between its creation and the first file in it."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            return attempt()
    raise Unavailable(f"{path}: its directory vanished {ATTEMPTS} times while the file was being created")


@contextmanager
def _staged(path: str) -> Iterator[str]:
    """A private name beside `path`, its directory created; whatever is left under it at the end goes."""
    directory = os.path.dirname(path)
    private = os.path.join(directory, STAGING_PREFIX + uuid.uuid4().hex)
    created_in = _make_directories(directory)
    try:
        yield private
        # Only now that a file holds them: a sync between mkdir and the file would give a concurrent `delete` time to win.
        for parent in created_in:
            _sync_directory(parent)
    finally:
        # The outcome is decided by now; a private name left behind harms nobody.
        with suppress(OSError):
            os.unlink(private)


def _fill(private: str, data: bytes) -> None:
    with open(private, "xb") as file:
        file.write(data)
        file.flush()
        # The kernel's own mtime moves in steps of some ms, and inodes are used again: two quick writes could share an etag.
        now = time.time_ns()
        os.utime(file.fileno(), ns=(now, now))
        os.fsync(file.fileno())


def _replace(name: str, data: bytes) -> None:
    with _staged(name) as private:
        _fill(private, data)
        os.replace(private, name)
        _sync_directory(os.path.dirname(name))


def _put(name: str, data: bytes) -> bool:
    created = False
    if not os.path.lexists(name):
        with _staged(name) as private:
            _fill(private, data)
            created = _link_into_place(private, name)
    # Also for the loser: it will act on the winner's object, which must not vanish with the power.
    _sync_directory(os.path.dirname(name))
    return created


def _link_into_place(private: str, name: str) -> bool:
    try:
        os.link(private, name)
        return True
    except FileExistsError:
        # NFS repeats a request whose answer was lost: then the one in our way is ourselves.
        return os.path.samestat(os.lstat(private), os.lstat(name))
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        text = f"{name}: expected a file system with hard links ({error.strerror}); without them two writers could both win"
        raise Refused(f"{text}: use another file system or object storage") from error


def _verdict(start: str, end: str, source: FileInfo, keep: bool) -> bool | None:
    """The answer of a move that has nothing left to bring, finished if it was interrupted; None when there is."""
    here, there = _stat(start), _stat_plain(end)  # in this order: a mover beside us fills the target before it removes the source
    if here is None:
        if there is None:
            raise FileNotFoundError(errno.ENOENT, f"neither here nor at {end}", start)
        if not _holds(there, source):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}, which is gone", end)
        return True
    unchanged = _etag(here) == source.etag
    if _one_entry(start, end):
        return unchanged
    if there is None:
        return None if unchanged else False
    if not unchanged:
        return _holds(there, source)
    # A mover beside us may take the source away meanwhile: judge anew.
    with suppress(FileNotFoundError):
        if not os.path.samestat(here, there) and not (here.st_size == there.st_size and _digest(start) == _digest(end)):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}", end)
        return _finish(start, end, source, keep)
    return None


def _bring(start: str, end: str, source: FileInfo, keep: bool) -> bool:
    """Give the content of `source` the name `end`; False when it changed meanwhile."""
    with _staged(end) as private:
        if not keep and not os.path.islink(start) and _link(start, private):
            whole = _etag(os.stat(private)) == source.etag
        else:
            whole = _copy(start, private, source)
        return whole and _link_into_place(private, end)


def _link(start: str, private: str) -> bool:
    try:
        os.link(start, private)
    except OSError as error:
        if error.errno in _COPY_INSTEAD:
            return False
        raise
    # Its writer may never have synced it, and the archive is the proof.
    with open(private, "rb") as file:
        os.fsync(file.fileno())
    return True


def _copy(start: str, private: str, source: FileInfo) -> bool:
    with open(start, "rb") as reader, open(private, "xb") as writer:
        before = os.fstat(reader.fileno())
        shutil.copyfileobj(reader, writer, BLOCK_BYTES)
        writer.flush()
        # The mtime goes along: it tells a later call that this is the content of a source already gone.
        os.utime(writer.fileno(), ns=(before.st_mtime_ns, before.st_mtime_ns))
        os.fsync(writer.fileno())
    equal = _digest(start) == _digest(private)
    unchanged = _etag(before) == source.etag == _etag(os.stat(start))
    if unchanged and not equal:
        raise Unavailable(f"{start}: its copy beside the target reads back differently; the source stays")
    return unchanged


def _finish(start: str, end: str, source: FileInfo, keep: bool) -> bool:
    """The target is complete: make it durable, then remove the source (unless kept) if it still is what was moved."""
    _sync_directory(os.path.dirname(end))
    here = _stat(start)
    if here is not None and _etag(here) != source.etag:
        return _holds(os.stat(end), source)
    if not keep:
        with suppress(FileNotFoundError):
            os.unlink(start)
        _sync_directory(os.path.dirname(start))
    return True


def _holds(found: os.stat_result, source: FileInfo) -> bool:
    """Whether a move of `source` made this: its inode may be another, size and mtime are not."""
    return _etag(found).rpartition("-")[0] == source.etag.rpartition("-")[0]


def _one_entry(start: str, end: str) -> bool:
    """One directory entry under two names (the same path, or through a linked directory): removing one would remove both."""
    if os.path.basename(start) != os.path.basename(end):
        return False
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samefile(os.path.dirname(start), os.path.dirname(end))
    return False


def _digest(path: str) -> bytes:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            digest.update(block)
    return digest.digest()


def _stat(path: str) -> os.stat_result | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _stat_plain(path: str) -> os.stat_result | None:
    """Like `_stat`, but a link or directory is in the way: a link may lead to the very source that is about to go."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        raise FileExistsError(errno.EEXIST, "is a directory or a link, expected a plain file or nothing", path)
    return found


def _etag(found: os.stat_result) -> str:
    return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"


def _described(path: str) -> FileInfo | None:
    with _errors(path):
        found = _stat(path)
    return None if found is None else FileInfo(path, found.st_size, _etag(found), found.st_mtime)


def _walk(directory: str) -> Iterator[FileInfo]:
    for name, is_directory in _entries(directory):
        path = os.path.join(directory, name)
        found = None if is_directory else _described(path)
        if is_directory:
            yield from _walk(path)
        elif found is not None:
            yield found


def _entries(directory: str) -> list[tuple[str, bool]]:
    """Names with whether they are directories, in the order of the full paths below them: `a-b` comes before `a/x`."""
    with _errors(directory):
        try:
            with os.scandir(directory) as scan:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        except (FileNotFoundError, NotADirectoryError):
            return []
    plain = [entry for entry in found if not entry[0].startswith(STAGING_PREFIX)]
    return sorted(plain, key=lambda entry: entry[0] + "/" if entry[1] else entry[0])


def _make_directories(directory: str) -> list[str]:
    """Create what is missing; the directories that got a new entry, still to be synced."""
    if os.path.isdir(directory):
        return []
    parent = os.path.dirname(directory)
    created_in = _make_directories(parent)
    try:
        os.mkdir(directory)
    except FileExistsError:
        if os.path.isfile(directory):
            raise NotADirectoryError(errno.ENOTDIR, f"{directory} is a file") from None
    return [*created_in, parent]


def _sync_directory(directory: str) -> None:
    with suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _prune(directory: str) -> str:
    """Remove empty directories from here upwards; the first that stays."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        full = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
        return _prune(directory) if full and _swept(directory) else directory
    return _prune(os.path.dirname(directory))


def _swept(directory: str) -> bool:
    """Remove what dead processes left; False when anything else is there."""
    with suppress(OSError), os.scandir(directory) as scan:
        for entry in scan:
            # ctime, not mtime: a staged hard link has the mtime of its source.
            age = time.time() - entry.stat(follow_symlinks=False).st_ctime
            if not entry.name.startswith(STAGING_PREFIX) or age < STAGING_SECONDS_MAX:
                return False
            os.unlink(entry.path)
        return True
    return False
