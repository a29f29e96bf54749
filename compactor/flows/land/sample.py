"""Sample landed files: read a few of moderate size, and describe the sources that they show. Starts no Spark."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from compactor.core.model.files import FileInfo
from compactor.core.sources import increment, source_profile
from compactor.core.sources.source_profile import Profiles
from compactor.ports import Storage

LINES_MAX = 300
"""Lines read from a file in a folder of one table."""
STREAM_LINES_MAX = 50_000
"""Lines read from each file where several tables share a folder: a table that is not seen is not proposed."""

SIZE_MAX = 1 << 20
"""Bytes of a sampled file. Larger ones are read only where there is no smaller one."""

TRIES_MAX = 3
"""Files of a folder that are tried until one can be read."""


def _worth(size: int) -> tuple[bool, int]:
    """Order files: first those below SIZE_MAX, the largest of them best, because more rows show more; then the smallest."""
    return (True, size) if size <= SIZE_MAX else (False, -size)


def sample(storage: Storage, files: Sequence[str], infos: Mapping[str, FileInfo], unreadable: list[str] | None = None) -> Profiles:
    """Profile a file of the first, the middle and the last folder, the largest one below SIZE_MAX; all files when these show several tables.

    `files` are keys of `infos`. Files that cannot be read are left out, and added to `unreadable` with the reason; the next file of their folder is
    read instead.
    """
    unreadable = [] if unreadable is None else unreadable
    # a README beside CSV files is no data
    data = [path for path in files if increment.file_format(path)] or list(files)
    full = [path for path in data if infos[path].size > 0] or data
    parents = sorted({path.rpartition("/")[0] for path in full})
    profiles: Profiles = {}
    empty: list[str] = []
    for parent in dict.fromkeys((parents[0], parents[len(parents) // 2], parents[-1])):
        files_of_folder = [path for path in full if path.rpartition("/")[0] == parent]
        for path in sorted(files_of_folder, key=lambda path: _worth(infos[path].size), reverse=True)[:TRIES_MAX]:
            if _read(storage, path, infos, LINES_MAX, unreadable, profiles):
                if profiles:
                    break
                empty.append(path)
    if len(profiles) > 1:
        profiles = {}
        for path in data:
            _read(storage, path, infos, STREAM_LINES_MAX, [], profiles)
    if not profiles:
        unreadable += [f"{path} has no record that could be a row{_no_suffix(path)}" for path in empty]
    return profiles


def _read(storage: Storage, path: str, infos: Mapping[str, FileInfo], lines_max: int, unreadable: list[str], profiles: Profiles) -> bool:
    """Add what a file shows to `profiles`. Return whether it could be read."""
    try:
        source_profile.of_file(infos[path].path, storage.read(infos[path].path), lines_max, profiles)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        unreadable.append(f"{path} cannot be read ({error})")
        return False
    return True


def _no_suffix(path: str) -> str:
    return "" if increment.file_format(path) else f"; its name has none of the suffixes {', '.join(increment.SUFFIXES)}"
