"""The change feed of an Edit: write what it changes before it is committed, and find the parts that the catalog does not show yet.

What a crash leaves: a directory that no Snapshot names; after the commit, partitions that the next publish registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from compactor.core.catalog import feed
from compactor.core.model.edit import Edit
from compactor.core.model.errors import TryLater
from compactor.core.model.snapshot import Feed, Snapshot
from compactor.flows.table import Table
from compactor.flows.transact import preview
from compactor.ports import Resolution


def with_changes(table: Table, parent: Snapshot | None, edit: Edit, resolution: Resolution | None = None) -> Edit:
    """Return `edit` with its part of the change feed, if the table has one. The Edit's data is already written."""
    continued = feed.continued(table.spec, parent)
    if continued is None or continued.mode == feed.OFF:
        return dataclasses.replace(edit, feed=continued)
    made = preview(table, parent, edit)
    feed.check_names(table.name, made.schema)
    if parent is not None and not _comparable(parent, made, continued):
        return dataclasses.replace(edit, feed=dataclasses.replace(continued, began=made.version))
    try:
        part = table.engine().write_feed(table.spec, parent, made, resolution)
    except TryLater:
        raise
    except Exception:
        if made.operation != "rebuild" or parent is None or not table.engine().difference(table.spec, parent, made).unreadable:
            raise
        # a rebuild is the way out when the old rows cannot be read any more: then what changed is unknown
        return dataclasses.replace(edit, feed=dataclasses.replace(continued, began=made.version))
    return dataclasses.replace(edit, feed=dataclasses.replace(continued, part=part))


def _comparable(parent: Snapshot, made: Snapshot, continued: Feed) -> bool:
    """Return whether the rows that readers saw before and see after differ by changes of events alone.

    Not so after a rebuild with another key, and where `delete: soft` was switched: then rows appear or vanish that no event has touched.
    """
    same_soft = parent.feed is None or parent.feed.soft == continued.soft
    return same_soft and (parent.schema.key, parent.order) == (made.schema.key, made.order)


def after(table: Table, snapshot: Snapshot, version: int) -> Iterator[Snapshot]:
    """Yield the Snapshots above `version` up to `snapshot`, oldest first, as far back as their parts are kept; none for a table without feed."""
    if snapshot.feed is None:
        return
    for number in range(max(version, snapshot.feed.first) + 1, snapshot.version):
        yield table.committed(number)
    if snapshot.version > version:
        yield snapshot
