"""Discover: what has landed and is not absorbed yet."""

from __future__ import annotations

from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.plan import Found, Landing, discover
from compactor.core.sources import full_loads, increment
from compactor.flows import ledger
from compactor.flows.environment import World
from compactor.flows.snapshots import layout_of


def landing(world: World, spec: TableSpec, snapshot: Snapshot | None) -> Landing:
    """List landing, take away the ledger. Raises InputRefused when files lie there and none fits the pattern."""
    found = [Found(relative(info.path, spec.landing), info.size, info.etag, info.modified) for info in world.storage.list(spec.landing)]
    places = [increment.landed(spec.pattern, item.path, load_files=spec.source.load_files) for item in found]
    known = ledger.absorbed(world, layout_of(spec), snapshot, {place.folder for place in places if place})
    landed = discover(spec, found, known, world.storage.now())
    if spec.source.load_files and snapshot is not None:
        _check_full_load(world, spec, snapshot, landed, {path for path, _ in known})
    if spec.source.full_loads and snapshot is not None and landed.new:
        _check_copies(world, spec, snapshot, landed, known)
    return landed


def _check_copies(world: World, spec: TableSpec, snapshot: Snapshot, landed: Landing, known: frozenset[tuple[str, str]]) -> None:
    """Raises InputRefused for files that come to a full copy after it was taken: alone they would look like a table that has lost its other rows."""
    folders = {item.folder for item in landed.new}
    if not any((place := increment.landed(spec.pattern, path, spec.hours_in)) and place.folder in folders for path, _ in known):
        return
    there = full_loads.other_delivery(ledger.latest(ledger.everything(world, layout_of(spec), snapshot)).values(), folders, ())
    if there is not None:
        late = next(item for item in landed.new if item.folder == there.folder)
        raise InputRefused(
            f"table {spec.name}: {join(spec.landing, late.path)}: the full copy in {there.folder} was absorbed already, and this file came to it "
            "since. Was the copy not whole then, put all of it into the folder of a later hour, and have `complete:` or a longer `settle` tell when "
            "a copy is whole; else remove the file."
        )


def _check_full_load(world: World, spec: TableSpec, snapshot: Snapshot, landed: Landing, known: set[str]) -> None:
    """DMS's second full load of a table takes the names of the first; its rows would lie below all changes since. Raises OrderRefused (H6)."""
    again = {item.path for item in landed.new if item.path in known and increment.is_full_load(item.path)}
    if not again:
        return
    for item in ledger.everything(world, layout_of(spec), snapshot):
        if item.path in again and (item.position_min or (spec.epoch,))[0] >= spec.epoch:
            raise OrderRefused(
                f"table {spec.name}: {join(spec.landing, item.path)}: a file of this name was absorbed before, so DMS has loaded the table anew. "
                f"A full load comes before all changes, and these rows would lose to every change since. Say `epoch: {spec.epoch + 1}`, with which "
                "the new load wins (rows deleted since the last one stay: docs/sources.md), or remove the file."
            )
