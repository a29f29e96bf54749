"""Changes: which Snapshots have a feed's next parts, in order, up to a version or for as long as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compactor.core.catalog import feed
from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.flows.read.visible import none_visible, visible
from compactor.flows.table import Table
from compactor.flows.write.feed import after

Wait = Callable[[], object]
"""Lets some time pass."""


def changes(table: Table, start: int, to: int | None = None, wait: Wait | None = None) -> Iterator[Snapshot]:
    """The Snapshots after version `start` that changed rows, oldest first, up to `to` or the newest.

    With `wait` it does not end there: new ones are looked for, by their names, whenever `wait` has returned. Raises Refused when the feed does not
    reach back to `start` - also later, when its reader was too slow for `keep` - or has not come to `to`.
    """
    done = start
    while True:
        newest = visible(table)
        if newest is None:
            raise none_visible(table)
        feed.check_start(table.spec, newest, done)
        if wait is None and to is not None and to > newest.version:
            raise Refused(f"table {table.name}: expected a version up to {newest.version}, which readers see, found {to}")
        for snapshot in after(table, newest, done):
            if to is not None and snapshot.version > to:
                break
            done = snapshot.version
            if snapshot.feed is not None and snapshot.feed.part is not None:
                yield snapshot
        if wait is None or (to is not None and done >= to):
            return
        wait()
