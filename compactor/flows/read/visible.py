"""Visible: which version the readers of a table's files see, without a catalog, and what changed in it since an older one.

Readers of the catalog see what its views show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compactor.core.catalog import feed
from compactor.core.model.errors import NoRowsYet, Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.retention import is_pending_deletion
from compactor.flows.publish import shown
from compactor.flows.table import Table

Wait = Callable[[], object]


def visible(table: Table) -> Snapshot | None:
    """Return the version that readers see, or None.

    It is the newest version; with `checks:` the newest published version. Raises Refused if that version is not kept.
    """
    newest = table.newest()
    if newest is None or not table.spec.rules:
        return newest
    version = shown.remembered(table).version
    if version >= newest.version:
        return newest
    return _kept(table, table.snapshot(version), newest, version) if version else None


def kept(table: Table, version: int | None = None) -> Snapshot:
    """Return a version whose files are kept, by default the one that readers see.

    Raises NoRowsYet if they see none, and Refused for a version that is not kept.
    """
    if version is None:
        snapshot = visible(table)
        if snapshot is None:
            raise none_visible(table)
        return snapshot
    snapshot = table.snapshot(version)
    return _kept(table, snapshot, table.newest(), version)


def none_visible(table: Table) -> NoRowsYet:
    """Return the error of a command that reads a table without a version for readers."""
    newest = table.newest()
    if newest is None:
        return table.no_version()
    return NoRowsYet(
        f"table {table.name}: version {newest.version} is committed, and no version has passed its `checks:` yet. `compactor status {table.name}` "
        f"says what was found, `compactor publish {table.name} --accept` shows it as it is"
    )


def _kept(table: Table, snapshot: Snapshot | None, newest: Snapshot | None, version: int) -> Snapshot:
    if snapshot is None or newest is None or snapshot.expired or is_pending_deletion(snapshot, table.layout, newest):
        raise Refused(f"table {table.name}: version {version} is not kept; `compactor log {table.name}` shows those that are")
    return snapshot


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
        for snapshot in table.after(done, newest):
            if to is not None and snapshot.version > to:
                break
            done = snapshot.version
            if snapshot.feed is not None and snapshot.feed.part is not None:
                yield snapshot
        if wait is None or (to is not None and done >= to):
            return
        wait()
