"""Copies: increments that each hold the whole table as the source had it at that hour (`envelope: full-load`), plain rows without event fields.

A folder is one copy. It is whole when its writer's marker lies in it and no file is newer than that (`complete: _SUCCESS`), or else when nothing was
written into it for `settle`. A folder that is not whole waits, all of it. Copies come in the order of their hours, which is the order of Changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.sources import increment

HOUR = "full_load.hour"
"""The order column of such a table: the folder's hour, UTC, as text (`2026-11-20T14:00`)."""


def whole(spec: TableSpec, files: Iterable[tuple[str, float]], now: float) -> frozenset[str]:
    """The folders that are whole. `files`: (path below the landing root, epoch seconds when it was written) of everything that lies there."""
    marked: dict[str, float] = {}
    newest: dict[str, float] = {}
    for path, modified in files:
        place = increment.landed(spec.pattern, path, spec.hours_in)
        if place is None:
            continue
        if spec.complete is not None and path == f"{place.folder}/{spec.complete}":
            marked[place.folder] = modified
        elif spec.complete is None or not increment.ignored(path):
            newest[place.folder] = max(modified, newest.get(place.folder, modified))
    if spec.complete is not None:
        return frozenset(folder for folder, written in marked.items() if written >= newest.get(folder, written))
    return frozenset(folder for folder, written in newest.items() if now - written >= spec.settle)


def newest_hour(snapshot: Snapshot | None) -> str | None:
    """The hour of the newest copy that a Snapshot has absorbed, as in `Landed.hour`; None when there is none."""
    position = snapshot.position if snapshot else None
    return str(position[1]) if position is not None and position[0] >= 0 and position[1] is not None else None


def kept(spec: TableSpec, inputs: Iterable[Input], gone: Iterable[str]) -> list[Input]:
    """The inputs without those at the paths `gone`; of a full copy nothing is kept without the rest of it."""
    inputs, gone = list(inputs), set(gone)
    folders = {item.folder for item in inputs if item.path in gone} if spec.source.full_loads else set()
    return [item for item in inputs if item.path not in gone and item.folder not in folders]


def other_delivery(entries: Iterable[Input], folders: Iterable[str], paths: Iterable[tuple[str, str]]) -> Input | None:
    """What the ledger (`entries`: the latest word of each input) tells to be absorbed of these folders, but for inputs at `paths` (path, etag)."""
    wanted, own = set(folders), set(paths)
    found = (item for item in entries if item.folder in wanted and (item.path, item.etag) not in own)
    return next((item for item in found if not item.unabsorbed or item.outcome == "undone"), None)


def hours(entries: Iterable[Input]) -> tuple[str, ...]:
    """The hours of the copies that are absorbed, in order. `entries`: the ledger's latest word of each input."""
    return tuple(sorted({item.hour for item in entries if item.hour is not None and not item.unabsorbed}))


@dataclass(frozen=True)
class Gap:
    """Copies that come late between two that are absorbed: their hours, in order, and those of the copies `before` (None: none) and `after` them."""

    before: str | None
    late: tuple[str, ...]
    after: str


def gaps(late: Iterable[str], absorbed: Iterable[str]) -> list[Gap]:
    """Where late copies belong; none for an hour of which a copy is absorbed already.

    >>> gaps(["02", "05", "03", "01"], ["01", "04", "06"])
    [Gap(before='01', late=('02', '03'), after='04'), Gap(before='04', late=('05',), after='06')]
    """
    known = sorted(absorbed)
    found: dict[int, list[str]] = {}
    for hour in sorted(set(late) - set(known)):
        found.setdefault(bisect_left(known, hour), []).append(hour)
    return [Gap(known[at - 1] if at else None, tuple(there), known[at]) for at, there in found.items() if at < len(known)]
