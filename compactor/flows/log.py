"""Log: a table's Snapshots."""

from __future__ import annotations

from compactor.core.snapshot import Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import snapshots
from compactor.flows.world import World


def history(world: World, spec: TableSpec) -> list[Snapshot]:
    """Snapshots, newest first."""
    return list(snapshots.history(world, snapshots.layout_of(spec)))
