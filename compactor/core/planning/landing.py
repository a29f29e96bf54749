"""Landing: which landed files the next commit takes.

A landed file is new when the ledger has no entry with its path and etag. Files that may still be written wait for a later run.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from compactor.core.formats.csv_dialect import columns_of_lines
from compactor.core.model.errors import InputRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.inputs import Input
from compactor.core.model.spec import TableSpec
from compactor.core.sources import full_loads, increment

UNFINISHED_GRACE = 900.0
"""Seconds during which a file without content, or without the end that its format requires, counts as still being written."""

_NEVER_EMPTY = ("parquet", "avro")
"""Formats whose smallest file has a header or a footer. A file of 0 bytes is unfinished."""


@dataclass(frozen=True)
class Landing:
    """The result of a discovery: the new inputs, and how many of the other files were left alone for which reason."""

    new: tuple[Input, ...]
    """The inputs that the next commit takes, sorted by path."""
    waiting: int = 0
    """Files younger than `settle`, files that are still being written, and files of incomplete full loads."""
    skipped: int = 0
    """Files in folders before the first one that counts (`first_folder`)."""
    ignored: int = 0
    """Files without data (markers, hidden and empty files), and files in folders of another form than the pattern."""
    absorbed: int = 0
    """Files that are in the ledger already."""
    unusable: tuple[str, ...] = ()
    """Files that no run will take until somebody renames or removes them, each with the reason."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence about `unusable`, if there are any."""
        more = f"; and {len(self.unusable) - 3:,} more" if len(self.unusable) > 3 else ""
        return (f"left in landing until renamed or removed: {'; '.join(self.unusable[:3])}{more}",) if self.unusable else ()

    @property
    def size(self) -> int:
        return sum(item.size for item in self.new)


def discover(spec: TableSpec, files: Iterable[FileInfo], absorbed: frozenset[tuple[str, str]], now: float, first: bool = True) -> Landing:
    """Compare the files in landing, by their paths below its root, with the ledger and return the new inputs.

    `absorbed`: (path, etag) of every input in the ledger. `now`: epoch seconds of the store's clock. An empty Parquet or Avro file is taken once
    UNFINISHED_GRACE has passed; reading it puts it into quarantine. Full loads (`core/sources/full_loads.py`) are taken only if they are complete.

    `first`: nothing was ever ingested. Raises InputRefused if there are files, and none lies in a folder that fits the pattern.
    """
    new, waiting, skipped, ignored, old = [], 0, 0, 0, 0
    contents = Counter(path for path, _ in absorbed)
    misplaced: list[str] = []
    unusable: list[str] = []
    unfinished: set[str] = set()
    files = list(files)
    for item in files:
        marker = spec.complete is not None and item.path.rpartition("/")[2] == spec.complete
        if marker or (increment.ignored(item.path, spec.ignore) and increment.repaired_table(item.path) != spec.name):
            ignored += 1
            continue
        place = increment.landed(spec.pattern, item.path, spec.hours_in, spec.source.load_files)
        if place is None and increment.names_no_date(spec.pattern, item.path, spec.hours_in):
            unusable.append(f"{item.path} lies in a folder that names no date")
        elif place is None:
            misplaced.append(item.path)
        elif item.problem:
            unusable.append(f"{item.path} {item.problem}")
        elif (item.path, item.etag) in absorbed:
            old += 1
        elif spec.first_folder and _before(spec, place, spec.first_folder):
            skipped += 1
        elif abs(now - item.modified) < spec.settle:
            # a time in the future is a wrong clock: the file must not wait until then
            waiting += 1
            unfinished.add(place.folder)
        elif item.size == 0 and _format(spec, item.path) not in _NEVER_EMPTY:
            ignored += 1
        elif item.size == 0 and abs(now - item.modified) < UNFINISHED_GRACE:
            waiting += 1
            unfinished.add(place.folder)
        else:
            content = contents[item.path] + 1
            new.append(Input(item.path, item.size, item.etag, place.folder, place.hour, epoch=_epoch(spec, place), content=content))
    placed = bool(new or waiting or old or skipped or unusable)
    near = (path for path in misplaced if increment.file_format(path) and increment.resembles(spec.pattern, path))
    astray = dict.fromkeys(near if placed or not first else ())
    unusable += [f"{path} lies in no folder that fits {spec.pattern!r}" for path in astray]
    # beside the folders of a table that runs, a README is no reason to stop; data in folders of another form are
    data = [path for path in misplaced if path not in astray and (first or spec.format != "auto" or increment.file_format(path))]
    if data and not placed:
        raise InputRefused(
            f"table {spec.name}: no file below {spec.landing} lies in a folder that fits {spec.pattern!r}. There "
            f"{'is 1 file' if len(data) == 1 else f'are {len(data)} files'}, such as {data[0]}. Correct `increments:`."
        )
    if spec.source.full_loads and new:
        complete = full_loads.complete_folders(spec, ((item.path, item.modified) for item in files), now) - unfinished
        waiting += sum(item.folder not in complete for item in new)
        new = [item for item in new if item.folder in complete]
    if new:
        columns = columns_of_lines(spec)
        new = [replace(item, columns=columns, replaces_epochs=replaces_epochs(spec, item.epoch)) for item in new]
    return Landing(tuple(sorted(new, key=lambda item: item.path)), waiting, skipped, ignored + len(misplaced) - len(astray), old, tuple(unusable))


def replaces_epochs(spec: TableSpec, epoch: int) -> bool:
    """Return whether the present settings let an epoch remove the rows of those before it."""
    return spec.epoch_replaces and epoch == spec.epoch


def _epoch(spec: TableSpec, place: increment.Landed) -> int:
    """Return the epoch of a new input: the table's, or the one before it for folders before the first one of the epoch.

    A file beside the dated folders (DMS's full load) has no hour. It belongs to the epoch in which it is taken.
    """
    undated = place.hour is None and "%Y" in spec.pattern
    return spec.epoch - 1 if spec.epoch_from and not undated and _before(spec, place, spec.epoch_from) else spec.epoch


def _before(spec: TableSpec, place: increment.Landed, folder: str) -> bool:
    """Return whether an increment comes before that of a folder. Hours are compared, as names such as `05-03-2024` do not sort by time."""
    first = _named(spec.pattern, folder, spec.hours_in)
    if first is not None and first.hour and place.hour:
        return place.hour < first.hour
    return place.folder < folder


@functools.lru_cache(64)
def _named(pattern: str, folder: str, zone: str) -> increment.Landed | None:
    return increment.landed(pattern, f"{folder}/", zone)


def _format(spec: TableSpec, path: str) -> str | None:
    return spec.format if spec.format != "auto" else increment.file_format(path)
