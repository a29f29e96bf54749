"""Sample landed files: read a few of moderate size, and describe the sources that they show. Starts no Spark."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from compactor.core.model.files import FileInfo
from compactor.core.sources import increment, records, source_profile
from compactor.core.sources.records import PlainRow
from compactor.core.sources.source_profile import Profiles, ReadSample
from compactor.ports import Storage

RECORDS_MAX = 300
"""Records read from a file in a folder of one table."""
STREAM_RECORDS_MAX = 50_000
"""Records read from each file where several tables share a folder: a table that is not seen is not proposed."""
SIZE_MAX = 1 << 20
"""Bytes of a sampled file. Larger ones are read only where there is no smaller one."""
TRIES_MAX = 3
"""Files of a folder that are tried until one can be read."""


def sample(
    storage: Storage, read: ReadSample, files: Sequence[str], infos: Mapping[str, FileInfo], unreadable: list[str], plain: PlainRow = records.flat
) -> Profiles:
    """Profile a file of the first, the middle and the last folder, the largest one below SIZE_MAX; all files when these show several tables.

    `files` are keys of `infos`. Files that cannot be read are left out, and added to `unreadable` with the reason; the next file of their folder is
    read instead. `plain` reads a plain row.
    """
    # a README beside CSV files is no data
    data = [path for path in files if increment.file_format(path)] or list(files)
    full = [path for path in data if infos[path].size > 0] or data
    parents = sorted({path.rpartition("/")[0] for path in full})
    profiles: Profiles = {}
    empty: list[str] = []

    def add(path: str, records_max: int) -> str:
        """Add what a file shows to `profiles`. Return why it cannot be read."""
        try:
            source_profile.of_file(path, read(path, storage.read(infos[path].path), records_max), profiles, plain)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            return f"{path} cannot be read ({error})"
        return ""

    def worth(path: str) -> tuple[bool, int]:
        # the largest of moderate size shows most rows; else the smallest
        size = infos[path].size
        return (True, size) if size <= SIZE_MAX else (False, -size)

    for parent in dict.fromkeys((parents[0], parents[len(parents) // 2], parents[-1])):
        for path in sorted((path for path in full if path.rpartition("/")[0] == parent), key=worth, reverse=True)[:TRIES_MAX]:
            if problem := add(path, RECORDS_MAX):
                unreadable.append(problem)
            elif profiles:
                break
            else:
                empty.append(path)
    if len(profiles) > 1:
        profiles.clear()
        for path in data:
            add(path, STREAM_RECORDS_MAX)
    if not profiles:
        no_suffix = f"; its name has none of the suffixes {', '.join(increment.SUFFIXES)}"
        unreadable += [f"{path} has no record that could be a row{'' if increment.file_format(path) else no_suffix}" for path in empty]
    return profiles
