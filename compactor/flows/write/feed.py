"""The feed's side of a commit: writing what a Snapshot changes before it is put, finding the parts that the catalog does not show yet.

What a crash leaves: a directory that nothing names, garbage for vacuum; after the put, partitions that the next publish registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from compactor.core.catalog import feed
from compactor.core.model.errors import TryLater
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows import snapshots
from compactor.flows.environment import World
from compactor.ports import Batch


def with_changes(world: World, spec: TableSpec, parent: Snapshot | None, made: Snapshot, batch: Batch | None = None) -> Snapshot:
    """`made` with what it changes, when the table has a feed; it is complete but for that, and its data is written."""
    found = feed.continued(spec, parent)
    if found is None or found.mode == feed.OFF:
        return dataclasses.replace(made, feed=found)
    feed.check_names(spec.name, made.schema)
    if parent is not None and (parent.schema.key, parent.order) != (made.schema.key, made.order):
        # a rebuild with another key: rows of before and after have nothing in common
        return dataclasses.replace(made, feed=dataclasses.replace(found, began=made.version))
    try:
        part = world.engine().write_feed(spec, parent, made, batch)
    except TryLater:
        raise
    except Exception:
        if made.operation != "rebuild" or parent is None or not world.engine().difference(spec, parent, made).unreadable:
            raise
        # a rebuild is the way out when what was there cannot be read any more: then nobody knows what has changed
        return dataclasses.replace(made, feed=dataclasses.replace(found, began=made.version))
    return dataclasses.replace(made, feed=dataclasses.replace(found, part=part))


def after(world: World, spec: TableSpec, snapshot: Snapshot, version: int) -> Iterator[Snapshot]:
    """The Snapshots above `version` up to `snapshot`, oldest first, as far back as their parts are kept. None for a table without feed."""
    if snapshot.feed is None:
        return
    layout = snapshots.layout_of(spec)
    for number in range(max(version, snapshot.feed.first) + 1, snapshot.version):
        yield snapshots.committed(world, layout, number)
    if snapshot.version > version:
        yield snapshot
