"""Discover: what has landed and is not absorbed yet, and which landed folders no table takes.

Folders are listed level by level, so that the files of tables are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from compactor.core.model.errors import CompactorError, OrderRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.folders import Discovery, Folder, upwards
from compactor.core.planning.landing import Landing, discover
from compactor.core.sources import increment
from compactor.flows import ledger
from compactor.flows.table import Table
from compactor.ports import Storage

_FILES_MAX = 200
"""Files of a folder that are looked at for one that could be data."""
_SHOWN = 20
"""Folders that have a line of their own."""
Unlisted = list[tuple[Discovery, CompactorError]]
"""Places whose folders cannot be listed, each with the reason."""


def landing(table: Table, snapshot: Snapshot | None, listed: Iterable[FileInfo] | None = None) -> Landing:
    """Compare landing with the ledger. `listed`: the files in landing, if the caller has listed them.

    Raises InputRefused when files lie there and none fits the pattern.
    """
    infos = table.storage.list(table.spec.landing) if listed is None else listed
    files = [FileInfo(relative(info.path, table.spec.landing), info.size, info.etag, info.modified, info.problem) for info in infos]
    ledgered = ledger.absorbed(table, snapshot, (item.path for item in files))
    # a store's clock is a request, and only the age of a file that may still be written matters
    timed = table.spec.settle or table.spec.source.full_loads or any(item.size == 0 for item in files)
    landed = discover(table.spec, files, ledgered, table.storage.now() if timed else 0.0, first=snapshot is None)
    if table.spec.source.load_files and snapshot is not None:
        _check_full_load(table, snapshot, landed)
    return landed


def _check_full_load(table: Table, snapshot: Snapshot, landed: Landing) -> None:
    """DMS's second full load of a table takes the names of the first; its rows would lie below all changes since. Raises OrderRefused."""
    spec = table.spec
    loads = {increment.load_name(spec.pattern, item.path): item for item in landed.new if increment.is_full_load(item.path)}
    if not loads:
        return
    changes = next((item.path for item in landed.new if not increment.is_full_load(item.path)), None)
    before = f"If {changes} is from before the new load, move the LOAD files away first, run, and move them back. " if changes else ""
    entries = [item for item in ledger.newest_entries(table, snapshot) if item.epoch >= spec.epoch and not item.unabsorbed]
    changed = changes is not None or not all(increment.is_full_load(item.path) for item in entries)
    for item in entries:
        again = loads.get(increment.load_name(spec.pattern, item.path))
        # a copy changes nothing; without any change the newer file wins
        if again is not None and item.etag != again.etag and (changed or again.path == item.path):
            name = "a file of this name" if again.path == item.path else item.path
            raise OrderRefused(
                f"table {table.name}: {join(spec.landing, again.path)}: {name} was ingested before, so DMS loaded the table again. "
                f"A full load comes before all changes, and these rows would lose to every change since. {before}Set "
                f"`epoch: {spec.epoch + 1}`: then the new load wins (rows deleted since the last one stay: docs/sources.md); or remove it."
            )


def untaken(storage: Storage, specs: Sequence[TableSpec], places: Sequence[Discovery]) -> tuple[list[Folder], Unlisted]:
    """Return the folders with landed files that no table takes and that fit one of `places`, by path; with the first one that they fit.

    Also return the places whose folders cannot be listed, each with the reason. No other place gets their folders. `specs`: all tables. A folder
    with a table's own files (archive, base) is no landed one.
    """
    configured, roots = frozenset(spec.landing for spec in specs), {spec.root for spec in specs}
    above = frozenset(each for place in (*configured, *roots) for each in upwards(place))
    folders: dict[str, Folder] = {}
    unlisted: Unlisted = []
    for discovery in places:
        here: dict[str, Folder] = {}
        try:
            for path, values in _matching(storage, discovery, discovery.top, 0):
                # a table has its landing folder here, above or below, or what it stores here or below
                taken = path in above or path in roots or not configured.isdisjoint(upwards(path))
                others = path in folders or any(first.fits(path) for first, _ in unlisted)
                if others or taken or any(each.excludes(path) for each in places):
                    continue
                if (example := _example(storage, path)) is not None:
                    here[path] = Folder(path, example, discovery, discovery.table_name(values))
        except CompactorError as error:
            unlisted.append((discovery, error))
        else:
            folders.update(here)
    return [folders[path] for path in sorted(folders)], unlisted


def exist(storage: Storage, discovery: Discovery) -> bool:
    return next(_matching(storage, discovery, discovery.top, 0), None) is not None


def _matching(storage: Storage, discovery: Discovery, place: str, level: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (path, values of the placeholders) of the folders that fit from a level on."""
    if level == len(discovery.levels):
        yield place, {}
    elif "{" not in discovery.levels[level]:
        yield from _matching(storage, discovery, join(place, discovery.levels[level]), level + 1)
    else:
        for name in storage.folders(place):
            values = discovery.match(level, name)
            if values is not None:
                for path, below in _matching(storage, discovery, join(place, name), level + 1):
                    yield path, {**values, **below}


def _example(storage: Storage, folder: str) -> str | None:
    """Return the path of a file below a folder that could be data, None if the first files are none."""
    paths = (relative(info.path, folder) for info in islice(storage.list(folder), _FILES_MAX) if not info.problem)
    return next((path for path in paths if not increment.ignored(path) and increment.file_format(path)), None)


def sentences(folders: Sequence[Folder]) -> Iterator[str]:
    """Yield a line for each of the first folders, and one for the others."""
    for folder in folders[:_SHOWN]:
        yield f"no table takes the files in {folder.path}, such as {folder.example}"
    if len(folders) > _SHOWN:
        yield f"no table takes the files in {len(folders) - _SHOWN:,} more folders"
