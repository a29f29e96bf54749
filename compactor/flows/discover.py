"""Discover: what has landed and is not absorbed yet."""

from __future__ import annotations

from compactor.core import increment
from compactor.core.layout import relative
from compactor.core.plan import Found, Landing, discover
from compactor.core.snapshot import Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import ledger
from compactor.flows.snapshots import layout_of
from compactor.flows.world import World


def landing(world: World, spec: TableSpec, snapshot: Snapshot | None) -> Landing:
    """List landing, take away the ledger. Raises InputRefused when files lie there and none fits the pattern."""
    found = [Found(relative(info.path, spec.landing), info.size, info.etag, info.modified) for info in world.storage.list(spec.landing)]
    places = [increment.landed(spec.pattern, item.path) for item in found]
    known = ledger.absorbed(world, layout_of(spec), snapshot, {place.folder for place in places if place})
    return discover(spec, found, known, world.storage.now())
