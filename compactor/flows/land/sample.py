"""Sample landed files: read a few of moderate size, and describe the sources that they show. Starts no Spark."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

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


def _worth(size: int) -> tuple[bool, int]:
    """Order files: first those below SIZE_MAX, the largest of them best, because more rows show more; then the smallest."""
    return (True, size) if size <= SIZE_MAX else (False, -size)


def sample(storage: Storage, files: Sequence[str], infos: Mapping[str, FileInfo], unreadable: list[str] | None = None) -> Profiles:
    """Profile a file of the first, the middle and the last folder, the largest one below SIZE_MAX; all files when these show several tables.

    `files` are keys of `infos`. Files that cannot be read are left out, and added to `unreadable` with the reason.
    """
    unreadable = [] if unreadable is None else unreadable
    # a README beside CSV files is no data
    data = [path for path in files if increment.file_format(path)] or list(files)
    full = [path for path in data if infos[path].size > 0] or data
    parents = sorted({path.rpartition("/")[0] for path in full})
    chosen = [
        max((path for path in full if path.rpartition("/")[0] == parent), key=lambda path: _worth(infos[path].size))
        for parent in dict.fromkeys((parents[0], parents[len(parents) // 2], parents[-1]))
    ]
    profiles = _read(storage, chosen, infos, LINES_MAX, unreadable)
    return profiles if len(profiles) < 2 else _read(storage, data, infos, STREAM_LINES_MAX, [])


def _read(storage: Storage, paths: Iterable[str], infos: Mapping[str, FileInfo], lines_max: int, unreadable: list[str]) -> Profiles:
    profiles: Profiles = {}
    for path in paths:
        try:
            source_profile.of_file(infos[path].path, storage.read(infos[path].path), lines_max, profiles)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            unreadable.append(f"{path} cannot be read ({error})")
        else:
            if not profiles:
                no_suffix = "" if increment.file_format(path) else f"; its name has none of the suffixes {', '.join(increment.SUFFIXES)}"
                unreadable.append(f"{path} has no record that could be a row{no_suffix}")
    return profiles
