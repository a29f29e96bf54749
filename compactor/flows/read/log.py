"""Log: a table's Snapshots, and its ledger."""

from __future__ import annotations

from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.flows import ledger
from compactor.flows.table import Table


def history(table: Table) -> list[Snapshot]:
    """Snapshots, newest first."""
    return list(table.history())


def inputs(table: Table) -> list[Input]:
    """Every entry of the ledger, oldest first: each file that was taken, and what later attempts, restores and replays made of it."""
    newest = table.newest()
    return ledger.everything(table, newest) if newest else []
