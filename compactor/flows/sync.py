"""Sync: keep `<t>_incremental` (and `<t>_live`) equal to what lies in landing. Best effort for looking at; nothing else depends on it."""

from __future__ import annotations

from compactor.core import live
from compactor.core.layout import relative
from compactor.core.snapshot import Snapshot
from compactor.core.spec import TableSpec
from compactor.flows.world import World


def sync_landing(world: World, spec: TableSpec, snapshot: Snapshot) -> None:
    """Register landing folders that hold files, unregister those that do not, and replace the live view. Raises Refused when it cannot be had."""
    table = live.incremental_table(spec, snapshot)
    catalog = world.catalog()
    catalog.ensure_table(table)
    wanted = live.incremental_partitions(spec, (relative(info.path, spec.landing) for info in world.storage.list(spec.landing)))
    there = {partition.values for partition in catalog.partitions(table.database, table.name)}
    gone = sorted(there - {partition.values for partition in wanted})
    new = [partition for partition in wanted if partition.values not in there]
    if gone:
        catalog.drop_partitions(table.database, table.name, gone)
    if new:
        catalog.ensure_partitions(table.database, table.name, new)
    if spec.live_view:
        view = live.live_view(spec, snapshot)
        shown = catalog.view(view.database, view.name)
        if shown is None or shown.text != view.text:
            catalog.replace_view(view)
