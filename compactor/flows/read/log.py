"""Log: a table's Snapshots, and its ledger."""

from __future__ import annotations

from itertools import islice

from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.flows import ledger
from compactor.flows.table import Table


def history(table: Table, limit: int = 0) -> list[Snapshot]:
    """The `limit` newest Snapshots, newest first; 0 for all."""
    return list(islice(table.history(), limit or None))


def inputs(table: Table) -> list[Input]:
    """Every entry of the ledger, oldest first: each file that was taken, and what later attempts, restores and replays made of it."""
    newest = table.newest()
    return ledger.everything(table, newest) if newest else []
