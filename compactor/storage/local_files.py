"""Single files and directories for LocalStorage: atomic durable writes, listings, removal of empty directories, translated errors; and the move by
hard link, otherwise by verified copy. Each step of a move leaves a state from which the same call can go on."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.files import FileInfo

T = TypeVar("T")

STAGING_PREFIX = ".compactor-staging-"
STAGING_SECONDS_MAX = 24 * 3600
ATTEMPTS = 1000
BLOCK_BYTES = 1 << 20
LINK = "is a symbolic link"
"""What listings say of a link."""
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_REFUSALS = (
    ({errno.ENOSPC, errno.EDQUOT}, "no space left for {} ({}); nothing of it was stored. Free some space."),
    ({errno.EACCES, errno.EPERM, errno.EROFS}, "not allowed: {} ({}). Check owner and mode of it and of its directories."),
    ({errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL}, "{} cannot be used as a file ({}). Rename it."),
)


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Translate OSError into Refused or Unavailable. FileNotFoundError and FileExistsError are part of the port's contract and pass."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        for errnos, text in _REFUSALS:
            if error.errno in errnos:
                raise Refused(text.format(path, error.strerror)) from error
        raise Unavailable(f"{path}: {error.strerror} (errno {error.errno})") from error


def retry_directory(path: str, attempt: Callable[[], T]) -> T:
    """Repeat `attempt` while it raises FileNotFoundError: a concurrent `delete` may remove the directory before its first file is in it."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            return attempt()
    raise Unavailable(f"{path}: its directory vanished {ATTEMPTS} times while the file was being created")


@contextmanager
def staged(path: str) -> Iterator[str]:
    """Yield a private name beside `path` and create its directory. At the end, remove what is left under the private name."""
    directory = os.path.dirname(path)
    private = os.path.join(directory, STAGING_PREFIX + uuid.uuid4().hex)
    created_in = _make_directories(directory)
    try:
        yield private
        # Only now, when the directories have a file: a sync between mkdir and the file would give a concurrent `delete` time to remove them.
        for parent in created_in:
            sync_directory(parent)
    finally:
        # The outcome is already decided; a private name left behind does no harm.
        with suppress(OSError):
            os.unlink(private)


def _fill(private: str, data: bytes) -> None:
    with open(private, "xb") as file:
        file.write(data)
        file.flush()
        # The kernel's own mtime advances in steps of some ms, and inodes are reused: two quick writes could share an etag.
        now = time.time_ns()
        os.utime(file.fileno(), ns=(now, now))
        os.fsync(file.fileno())


def replace(name: str, data: bytes) -> None:
    """Create or replace a file atomically and durably."""
    with staged(name) as private:
        _fill(private, data)
        os.replace(private, name)
        sync_directory(os.path.dirname(name))


def put(name: str, data: bytes) -> bool:
    """Create a file durably. Return False if the name is taken."""
    created = False
    if not os.path.lexists(name):
        with staged(name) as private:
            _fill(private, data)
            created = link_into_place(private, name)
    # Also for the loser: it will act on the winner's file, which must survive a power failure.
    sync_directory(os.path.dirname(name))
    return created


def link_into_place(private: str, name: str) -> bool:
    """Give the staged file its name. Return False if the name is taken by another file."""
    try:
        os.link(private, name)
        return True
    except FileExistsError:
        # NFS repeats a request if the answer is lost. Then the existing entry is our own.
        return os.path.samestat(os.lstat(private), os.lstat(name))
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        text = f"{name}: expected a file system with hard links ({error.strerror}). Without them two writers could both commit."
        raise Refused(f"{text} Use another file system or object storage.") from error


def sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            digest.update(block)
    return digest.hexdigest()


def regular_file(path: str) -> os.stat_result | None:
    """Return the status of a regular file, or None. Links are followed."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def etag_of(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def describe(path: str) -> FileInfo | None:
    with os_errors(path):
        status = regular_file(path)
    return None if status is None else FileInfo(path, status.st_size, etag_of(status), status.st_mtime)


def walk(directory: str) -> Iterator[FileInfo]:
    """Return every regular file below `directory` in path order, and links to one, which are a problem.

    Who may write a link into a folder need not be allowed to read what it leads to.
    """
    for name, is_directory in _entries(directory):
        path = os.path.join(directory, name)
        status = None if is_directory else describe(path)
        if is_directory:
            yield from walk(path)
        elif status is not None:
            yield _unnameable(status) or (dataclasses.replace(status, problem=LINK) if os.path.islink(path) else status)


def directories(directory: str) -> list[str]:
    """Return the names of the directories in a directory, sorted, without those whose names are not UTF-8."""
    return sorted(name for name, is_directory in _entries(directory) if is_directory and name == _utf8(name))


def _unnameable(info: FileInfo) -> FileInfo | None:
    """Return the description of a file whose path is not UTF-8; None for all others."""
    text = _utf8(info.path)
    return None if text == info.path else dataclasses.replace(info, path=text, problem="has a name that is not UTF-8")


def _utf8(name: str) -> str:
    """Return a name with the bytes that are not UTF-8 as `\\xe9`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _entries(directory: str) -> list[tuple[str, bool]]:
    """Return (name, is a directory) of each entry, in the order of the full paths below: `a-b` comes before `a/x`."""
    with os_errors(directory):
        try:
            with os.scandir(directory) as scan:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        except (FileNotFoundError, NotADirectoryError):
            return []
    visible = [entry for entry in entries if not entry[0].startswith(STAGING_PREFIX)]
    return sorted(visible, key=lambda entry: entry[0] + "/" if entry[1] else entry[0])


def _make_directories(directory: str) -> list[str]:
    """Create the missing directories. Return the directories that got a new entry; the caller must sync them."""
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


def sync_directory(directory: str) -> None:
    """Make a directory's entries durable. A missing directory is ignored."""
    with suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def prune(directory: str) -> str:
    """Remove empty directories from here upwards. Return the first one that stays."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        full = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
        return prune(directory) if full and _sweep(directory) else directory
    return prune(os.path.dirname(directory))


def _sweep(directory: str) -> bool:
    """Remove staged files of dead processes. Return False if the directory has anything else."""
    with suppress(OSError), os.scandir(directory) as scan:
        for entry in scan:
            # ctime, not mtime: a staged hard link has the mtime of its source.
            age = time.time() - entry.stat(follow_symlinks=False).st_ctime
            if not entry.name.startswith(STAGING_PREFIX) or age < STAGING_SECONDS_MAX:
                return False
            os.unlink(entry.path)
        return True
    return False


# A sink's files may lie on another device, or belong to another user (fs.protected_hardlinks): their content can still be copied.
_COPY_INSTEAD = NO_LINKS | {errno.EXDEV, errno.EACCES}


def move(start: str, end: str, source: FileInfo, keep: bool) -> bool:
    """Move the file `start` to `end` if it is still `source` (`ports.Storage.move`)."""
    for _ in range(ATTEMPTS):
        settled = _settled(start, end, source, keep)
        if settled is not None:
            return settled
        # If source, target or directory change at the same time, look again.
        with suppress(FileNotFoundError, FileExistsError):
            if _transfer(start, end, source, keep):
                return _finish(start, end, source, keep)
    raise Unavailable(f"{end}: source and target keep changing; {ATTEMPTS} attempts to move {start} failed")


def _settled(start: str, end: str, source: FileInfo, keep: bool) -> bool | None:
    """Return the result of a move whose content needs no transfer, completing an interrupted move. Return None if a transfer is needed."""
    # In this order: a concurrent move fills the target before it removes the source.
    here, there = regular_file(start), _plain_file(end)
    if here is None:
        if there is None:
            raise FileNotFoundError(errno.ENOENT, f"neither here nor at {end}", start)
        if not _made_by_move(there, source):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}, which is gone", end)
        _remove_staged(end)
        return True
    unchanged = etag_of(here) == source.etag
    if _same_entry(start, end):
        return unchanged
    if there is None:
        return None if unchanged else False
    if not unchanged:
        return _made_by_move(there, source)
    # A concurrent move may remove the source meanwhile: then look again.
    with suppress(FileNotFoundError):
        if not os.path.samestat(here, there) and not (here.st_size == there.st_size and sha256(start) == sha256(end)):
            raise FileExistsError(errno.EEXIST, f"holds other content than {start}", end)
        return _finish(start, end, source, keep)
    return None


def _transfer(start: str, end: str, source: FileInfo, keep: bool) -> bool:
    """Create `end` with the content of `source`. Return False if the source changed meanwhile or `end` was taken."""
    with staged(end) as private:
        if not keep and not os.path.islink(start) and _link(start, private):
            whole = etag_of(os.stat(private)) == source.etag
        else:
            whole = _copy(start, private, source)
        return whole and link_into_place(private, end)


def _link(start: str, private: str) -> bool:
    """Link and sync the source under a private name. Return False where only a copy is possible."""
    try:
        os.link(start, private)
    except OSError as error:
        if error.errno in _COPY_INSTEAD:
            return False
        raise
    # The writer may never have synced the file, and the archive is the only record of the input.
    with open(private, "rb") as file:
        os.fsync(file.fileno())
    return True


def _copy(start: str, private: str, source: FileInfo) -> bool:
    """Copy the source to a private name and compare. Return False if the source changed. Raises Unavailable for a damaged copy."""
    with open(start, "rb") as reader, open(private, "xb") as writer:
        before = os.fstat(reader.fileno())
        shutil.copyfileobj(reader, writer, BLOCK_BYTES)
        writer.flush()
        # Copy the mtime too: by it a later call recognizes the content after the source is gone.
        os.utime(writer.fileno(), ns=(before.st_mtime_ns, before.st_mtime_ns))
        os.fsync(writer.fileno())
    equal = sha256(start) == sha256(private)
    unchanged = etag_of(before) == source.etag == etag_of(os.stat(start))
    if unchanged and not equal:
        raise Unavailable(f"{start}: the copy beside the target has other content when read back. The source stays.")
    return unchanged


def _finish(start: str, end: str, source: FileInfo, keep: bool) -> bool:
    """Make the complete target durable, then remove the source if it is unchanged and `keep` is off."""
    sync_directory(os.path.dirname(end))
    here = regular_file(start)
    if here is not None and etag_of(here) != source.etag:
        return _made_by_move(os.stat(end), source)
    if not keep:
        with suppress(FileNotFoundError):
            os.unlink(start)
        sync_directory(os.path.dirname(start))
    _remove_staged(end)
    return True


def _remove_staged(end: str) -> None:
    """Remove the private names that moves which died have left of this file: no listing shows them, so an erase would leave their bytes."""
    # a move of the same file beside this one looks again if its name is gone
    with suppress(FileNotFoundError):
        status = os.stat(end)
        if status.st_nlink > 1:
            with os.scandir(os.path.dirname(end)) as entries:
                left = [entry.path for entry in entries if entry.name.startswith(STAGING_PREFIX) and entry.inode() == status.st_ino]
            for private in left:
                os.unlink(private)


def _made_by_move(status: os.stat_result, source: FileInfo) -> bool:
    """Whether a move of `source` made this file: size and mtime are equal, the inode may differ."""
    return etag_of(status).rpartition("-")[0] == source.etag.rpartition("-")[0]


def _same_entry(start: str, end: str) -> bool:
    """Whether two paths lead to the same directory entry, for example through a linked directory. Removing one would remove both."""
    if os.path.basename(start) != os.path.basename(end):
        return False
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samefile(os.path.dirname(start), os.path.dirname(end))
    return False


def _plain_file(path: str) -> os.stat_result | None:
    """Return the status of a plain file, or None. Raises FileExistsError for a directory or link: a link may lead to the source itself."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "is a directory or a link, expected a plain file or nothing", path)
    return status
