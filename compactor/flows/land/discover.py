"""Discover: what has landed and is not absorbed yet."""

from __future__ import annotations

from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.plan import LandedFile, Landing, discover
from compactor.core.sources import full_loads, increment
from compactor.flows import ledger
from compactor.flows.table import Table


def landing(table: Table, snapshot: Snapshot | None) -> Landing:
    """List landing, take away the ledger. Raises InputRefused when files lie there and none fits the pattern."""
    files = [
        LandedFile(relative(info.path, table.spec.landing), info.size, info.etag, info.modified) for info in table.storage.list(table.spec.landing)
    ]
    places = [increment.landed(table.spec.pattern, item.path, load_files=table.spec.source.load_files) for item in files]
    ledgered = ledger.absorbed(table, snapshot, {place.folder for place in places if place})
    landed = discover(table.spec, files, ledgered, table.storage.now())
    if table.spec.source.load_files and snapshot is not None:
        _check_full_load(table, snapshot, landed, {path for path, _ in ledgered})
    if table.spec.source.full_loads and snapshot is not None and landed.new:
        _check_copies(table, snapshot, landed, ledgered)
    return landed


def _check_copies(table: Table, snapshot: Snapshot, landed: Landing, ledgered: frozenset[tuple[str, str]]) -> None:
    """Raises InputRefused for files that come to a full copy after it was taken: alone they would look like a table that lost its other rows."""
    folders = {item.folder for item in landed.new}
    if not any((place := increment.landed(table.spec.pattern, path, table.spec.hours_in)) and place.folder in folders for path, _ in ledgered):
        return
    there = full_loads.other_delivery(ledger.latest(ledger.everything(table, snapshot)).values(), folders, ())
    if there is not None:
        late = next(item for item in landed.new if item.folder == there.folder)
        raise InputRefused(
            f"table {table.name}: {join(table.spec.landing, late.path)}: the full copy in {there.folder} was ingested already, and this file came "
            "since. If the load was incomplete, put all of it into the folder of a later hour, and set `complete:` or a longer `settle`. "
            "Else remove the file."
        )


def _check_full_load(table: Table, snapshot: Snapshot, landed: Landing, ledgered: set[str]) -> None:
    """DMS's second full load of a table takes the names of the first; its rows would lie below all changes since. Raises OrderRefused (H6)."""
    again = {item.path for item in landed.new if item.path in ledgered and increment.is_full_load(item.path)}
    if not again:
        return
    for item in ledger.everything(table, snapshot):
        if item.path in again and (item.position_min or (table.spec.epoch,))[0] >= table.spec.epoch:
            raise OrderRefused(
                f"table {table.name}: {join(table.spec.landing, item.path)}: a file of this name was ingested before, so DMS loaded the table again. "
                f"A full load comes before all changes, and these rows would lose to every change since. Set `epoch: {table.spec.epoch + 1}`: then "
                "the new load wins (rows deleted since the last one stay: docs/sources.md), or remove the file."
            )
