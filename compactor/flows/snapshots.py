"""Snapshots in storage: finding the newest, reading one, and the put-if-absent that is the commit point."""

from __future__ import annotations

import dataclasses
import uuid as uuids
from collections.abc import Iterator, Sequence
from typing import Any

from compactor.core.model.errors import CheckFailed, Conflict, StateRefused
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import DataFile, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.plan import tiling_problem
from compactor.core.planning.retention import condemned
from compactor.core.schema.adoption import OPERATION
from compactor.flows.environment import World


def layout_of(spec: TableSpec) -> Layout:
    """The paths of a table."""
    return Layout(spec.root, spec.landing)


def read(world: World, layout: Layout, version: int) -> Snapshot | None:
    """One Snapshot, or None."""
    path = layout.snapshot(version)
    try:
        return Snapshot.from_bytes(world.storage.read(path), path)
    except FileNotFoundError:
        return None


def committed(world: World, layout: Layout, version: int) -> Snapshot:
    """One Snapshot, or its stub, of a version that was committed: it is never taken away. Raises StateRefused."""
    found = read(world, layout, version)
    if found is None:
        raise StateRefused(f"Snapshot {layout.snapshot(version)} is not there: somebody deletes files below {layout.root}. Restore it from a backup.")
    return found


def newest(world: World, layout: Layout) -> Snapshot | None:
    """The Snapshot with the greatest version, or None for a table that was never committed.

    Names are predictable, so the search goes from the hint (or a listing) upwards until a number is free; a stale hint or listing costs
    time and nothing else.
    """
    version = _hinted(world, layout)
    if version is None:
        listed = [layout.version_of(info.path) for info in world.storage.list(layout.snapshots())]
        known = [number for number in listed if number is not None]
        if not known:
            return read(world, layout, 1)
        version = max(known)
    while world.storage.stat(layout.snapshot(version + 1)) is not None:
        version += 1
    found = read(world, layout, version)
    if found is None:
        raise StateRefused(
            f"Snapshot {layout.snapshot(version)} was there and is gone: somebody deletes files below {layout.root}. Restore it from a backup."
        )
    return found


def _hinted(world: World, layout: Layout) -> int | None:
    try:
        version = int(world.storage.read(layout.hint()))
    except (FileNotFoundError, ValueError):
        return None
    return version if version > 0 and world.storage.stat(layout.snapshot(version)) is not None else None


def put(world: World, layout: Layout, snapshot: Snapshot) -> None:
    """The commit point. Raises Conflict when the version is taken by another writer, CheckFailed when the segments do not tile the keys.

    A put that seemed to fail but took effect is recognised by its bytes: they hold this attempt's own random id.
    """
    problem = tiling_problem(snapshot.segments)
    if problem:
        raise CheckFailed(
            f"table {snapshot.table}: the segments of version {snapshot.version} do not tile the keys: {problem}. Nothing was committed."
        )
    part = snapshot.feed.part if snapshot.feed else None
    given_up = {*snapshot.named, *([part.path] if part else [])} & {item.path for item in snapshot.condemned}
    if given_up:
        raise CheckFailed(
            f"table {snapshot.table}: version {snapshot.version} names {min(given_up)}, which vacuum has condemned. Nothing was committed."
        )
    data = snapshot.to_bytes()
    path = layout.snapshot(snapshot.version)
    if not world.storage.put_if_absent(path, data) and world.storage.read(path) != data:
        raise Conflict(f"table {snapshot.table}: version {snapshot.version} was committed by somebody else meanwhile")
    world.storage.write(layout.hint(), str(snapshot.version).encode())


def history(world: World, layout: Layout) -> Iterator[Snapshot]:
    """Snapshots, newest first, as far back as they are kept."""
    snapshot = newest(world, layout)
    while snapshot is not None:
        yield snapshot
        snapshot = read(world, layout, snapshot.parent) if snapshot.parent else None


def adopted(world: World, layout: Layout) -> Snapshot | None:
    """The version with which the table took over a base of others, as it is or its stub; None for a table that did not."""
    first = read(world, layout, 1)
    return first if first is not None and first.operation == OPERATION else None


def origin_lost(world: World, layout: Layout, newest: Snapshot) -> str | None:
    """That nothing holds the rows an adopted table began with any more, in words; None when something does, or the table was never adopted."""
    first = adopted(world, layout)
    if first is None or not condemned(first, layout, newest):
        return None
    return "adopted with rows that no landed file holds, and version 1, which had them, is not kept any more"


def origin(world: World, layout: Layout, newest: Snapshot) -> Snapshot | None:
    """What a table that began with a base of others was before its first change; None for one that did not, or whose first version was vacuumed."""
    first = adopted(world, layout)
    return first if first is not None and not condemned(first, layout, newest) else None


def overtaken(world: World, layout: Layout, snapshot: Snapshot | None) -> bool:
    """Whether vacuum has given up a Snapshot since it was read: its files may be gone, and nothing made from it can be committed."""
    if snapshot is None:
        return False
    stored = read(world, layout, snapshot.version)
    return stored is not None and stored.expired


def standing(world: World, layout: Layout, parent: Snapshot, staged: Sequence[tuple[str, DataFile]]) -> bool:
    """Whether what was staged is all there and was never condemned: vacuum takes the work of a writer that slept too long for an orphan (H21)."""
    given_up = {item.path for item in parent.condemned}
    if any(path in given_up for path, _ in staged):
        return False
    # an entry leaves the list only when its files are gone
    return all(world.storage.stat(f"{layout.inside(path)}/{file.name}") for path, file in staged)


def child(world: World, parent: Snapshot, commit: str, operation: str, label: str, **changes: object) -> Snapshot:
    """The Snapshot after `parent`, for anything but the first commit; what is not in `changes` carries over."""
    base: dict[str, Any] = {
        "version": parent.version + 1,
        "parent": parent.version,
        "writer": commit,
        "run": label,
        "time": world.now(),
        "operation": operation,
        "inputs": (),
        "counts": {},
        "ties": 0,
        "unresolved": 0,
        "feed": parent.feed.idle() if parent.feed else None,
    }
    return dataclasses.replace(parent, **{**base, **changes})


def new_uuid() -> str:
    """The name of a table's life (H24)."""
    return str(uuids.uuid4())
