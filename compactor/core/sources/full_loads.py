"""Full loads (`envelope: full-load`): each folder holds the whole table as the source had it at the folder's hour.

A folder is complete when it holds its source's marker and no newer file (`complete: _SUCCESS`), or else when nothing was written into it for
`settle`. A folder that is not complete waits with all its files. The order of loads is the order of their hours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable

from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.sources import increment

HOUR = "full_load.hour"
"""The order column of such a table: the folder's hour, UTC, as text (`2026-11-20T14:00`)."""


def complete_folders(spec: TableSpec, files: Iterable[tuple[str, float]], now: float) -> frozenset[str]:
    """Return the folders that are complete. `files`: path below the landing root and time of writing (epoch seconds) of everything in landing."""
    marked: dict[str, float] = {}
    newest: dict[str, float] = {}
    for path, modified in files:
        place = increment.landed(spec.pattern, path, spec.hours_in)
        if place is None:
            continue
        if spec.complete is not None and path == f"{place.folder}/{spec.complete}":
            marked[place.folder] = modified
        elif spec.complete is None or not increment.ignored(path, spec.ignore):
            newest[place.folder] = max(modified, newest.get(place.folder, modified))
    if spec.complete is not None:
        return frozenset(folder for folder, written in marked.items() if written >= newest.get(folder, written))
    return frozenset(folder for folder, written in newest.items() if abs(now - written) >= spec.settle)


def together(spec: TableSpec, paths: Iterable[str], chosen: Collection[str]) -> frozenset[str]:
    """Return the chosen paths, with all others of the same full loads. With other envelopes each file stands for itself."""
    if not spec.source.full_loads:
        return frozenset(chosen)

    def folder(path: str) -> str | None:
        place = increment.landed(spec.pattern, path, spec.hours_in)
        return place.folder if place else None

    folders = {*map(folder, chosen)}
    return frozenset(path for path in paths if folder(path) in folders)


def newest_hour(snapshot: Snapshot | None) -> str | None:
    """Return the hour of the newest load that a Snapshot has absorbed, as in `Input.hour`, or None."""
    position = snapshot.position if snapshot else None
    return str(position[1]) if position is not None and position[0] >= 0 and position[1] is not None else None


def other_file(entries: Iterable[Input], inputs: Iterable[Input]) -> Input | None:
    """Return an absorbed file in the folder of one of these inputs that is none of them. `entries`: the newest ledger entry of each input."""
    own = {(item.path, item.etag): item.folder for item in inputs}
    folders = set(own.values())
    others = (item for item in entries if item.folder in folders and (item.path, item.etag) not in own)
    return next((item for item in others if not item.unabsorbed or item.outcome == "undone"), None)


def gaps(late: Iterable[str], entries: Iterable[Input]) -> list[tuple[str | None, list[str], str]]:
    """Return where the hours of late loads belong: the absorbed hour before them (or None), the late hours, the absorbed hour after them.

    Hours that an absorbed load has are left out. `entries`: the newest ledger entry of each input.
    """
    absorbed = sorted({item.hour for item in entries if item.hour is not None and not item.unabsorbed})
    between: dict[int, list[str]] = {}
    for hour in sorted(set(late) - set(absorbed)):
        between.setdefault(bisect_left(absorbed, hour), []).append(hour)
    return [(absorbed[at - 1] if at else None, hours, absorbed[at]) for at, hours in between.items() if at < len(absorbed)]
