"""Discover: what has landed and is not absorbed yet."""

from __future__ import annotations

from collections.abc import Iterable

from compactor.core.model.errors import OrderRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.landing import Landing, discover
from compactor.core.sources import increment
from compactor.flows import ledger
from compactor.flows.table import Table


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
        _check_full_load(table, snapshot, landed, {path for path, _ in ledgered})
    return landed


def _check_full_load(table: Table, snapshot: Snapshot, landed: Landing, ledgered: set[str]) -> None:
    """DMS's second full load of a table takes the names of the first; its rows would lie below all changes since. Raises OrderRefused."""
    again = {item.path for item in landed.new if item.path in ledgered and increment.is_full_load(item.path)}
    if not again:
        return
    for item in ledger.everything(table, snapshot):
        if item.path in again and item.epoch >= table.spec.epoch:
            raise OrderRefused(
                f"table {table.name}: {join(table.spec.landing, item.path)}: a file of this name was ingested before, so DMS loaded the table again. "
                f"A full load comes before all changes, and these rows would lose to every change since. Set `epoch: {table.spec.epoch + 1}`: then "
                "the new load wins (rows deleted since the last one stay: docs/sources.md), or remove the file."
            )
