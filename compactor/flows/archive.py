"""Archive: take absorbed files out of landing. Works from the stored Snapshot; every step may be interrupted and repeated.

What a crash leaves: a file in landing, or in both places (the next run finishes), never in none.
"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.snapshot import Input, Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import snapshots
from compactor.flows.world import World
from compactor.ports import FileInfo


def archive(world: World, spec: TableSpec, snapshot: Snapshot) -> int:
    """Move the Snapshot's pending inputs into the archive; gives back how many were still in landing."""
    moved = 0
    for item in snapshot.pending:
        moved += _archived(world, spec, item)
    return moved


def unfinished(world: World, spec: TableSpec, pending: Sequence[Input]) -> tuple[Input, ...]:
    """Those of `pending` that still lie in landing: what the next Snapshot has to carry on."""
    layout = snapshots.layout_of(spec)
    return tuple(item for item in pending if _same(world.storage.stat(layout.landed(item.path)), item))


def _archived(world: World, spec: TableSpec, item: Input) -> bool:
    layout = snapshots.layout_of(spec)
    source = world.storage.stat(layout.landed(item.path))
    if source is None or not _same(source, item):
        # archived by an earlier attempt; or the sink wrote the name again: that is a new input, and this one's content is in the Snapshot's rows only
        return False
    try:
        return world.storage.move(source, layout.archived(item.path))
    except FileExistsError:
        # another input of this name was archived before (H1)
        return world.storage.move(source, layout.archived(item.path, item.etag))


def _same(info: FileInfo | None, item: Input) -> bool:
    return info is not None and info.etag == item.etag
