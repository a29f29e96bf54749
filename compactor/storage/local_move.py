"""Move within a file system: by hard link, otherwise by verified copy. Each step leaves a state from which the same call can go on."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress

from compactor.core.model.errors import Unavailable
from compactor.core.model.files import FileInfo
from compactor.storage.local_files import (
    ATTEMPTS,
    BLOCK_BYTES,
    NO_LINKS,
    STAGING_PREFIX,
    etag_of,
    link_into_place,
    regular_file,
    sha256,
    staged,
    sync_directory,
)

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
