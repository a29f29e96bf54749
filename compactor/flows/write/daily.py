"""Freeze days on a table that nothing else changes: a version of the same rows, which has the days that ended (`transact` adds them).

What a crash leaves: before the put nothing, after it a catalog that is behind, which the next run publishes.
"""

from __future__ import annotations

from contextlib import ExitStack

from compactor.core.model.edit import Edit
from compactor.core.model.snapshot import Snapshot
from compactor.flows.table import Table
from compactor.flows.transact import days_after, transact


def days_end(table: Table, snapshot: Snapshot) -> bool:
    """Return whether days ended after `snapshot`, or its days are not those of the settings."""
    return days_after(table, snapshot, None, table.env.now()) != snapshot.days


def freeze(table: Table, newest: Snapshot) -> Snapshot | None:
    """Commit a version with the days that ended; None if there is nothing to do. Raises Conflict as `transact` does."""

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if parent is None or not days_end(table, parent):
            return None
        return Edit("daily", table.next_commit(parent))

    return transact(table, planned) if days_end(table, newest) else None
