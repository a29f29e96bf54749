"""Log: a table's Snapshots, and its ledger."""

from __future__ import annotations

from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World


def history(world: World, spec: TableSpec) -> list[Snapshot]:
    """Snapshots, newest first."""
    return list(snapshots.history(world, snapshots.layout_of(spec)))


def inputs(world: World, spec: TableSpec) -> list[Input]:
    """Every entry of the ledger, oldest first: each file that was taken, and what later attempts, restores and replays made of it."""
    layout = snapshots.layout_of(spec)
    newest = snapshots.newest(world, layout)
    return ledger.everything(world, layout, newest) if newest else []
