"""Repair: land rows of the source as a file that the next run ingests.

What a crash leaves: nothing, or the file. Its rows count as of the Position in it, whenever a run takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.model.layout import join
from compactor.core.model.snapshot import Snapshot
from compactor.core.reconcile import repair
from compactor.core.reconcile.canonical import Columns
from compactor.core.reconcile.side import Key, Rows
from compactor.core.sources import increment
from compactor.flows import ledger, owner
from compactor.flows.table import Table


def check(table: Table, snapshot: Snapshot) -> None:
    """Raise Refused if no row read from the source has a place among the table's changes."""
    if reason := repair.refusal(table.spec, snapshot):
        raise Refused(f"table {table.name} cannot be repaired from landed rows: {reason}. Use --signal, or `compactor rebuild {table.name}`.")


def land(table: Table, columns: Columns, keys: Sequence[Key], lake: Rows, read: Callable[[], Rows]) -> str:
    """Write the file that makes these keys what `read` returns of the source, and return its path below landing. `lake`: the rows that it has.

    The Position is chosen before the rows are read: everything at or below it came from the source, so the reading shows it.
    """
    snapshot = table.existing(table.newest())
    check(table, snapshot)
    owner.check(table)
    position, now = repair.position_above(snapshot), table.env.clock()
    made = repair.lines(columns, keys, read(), lake, position, int(now * 1_000_000), table.spec.envelope)
    text = "".join(f"{line}\n" for line in made)
    # no hour becomes the newest one by a repair
    hour = times.to_micros(snapshot.hour) / 1_000_000 if snapshot.hour else now
    folder = increment.folder_at(table.spec.pattern, hour, table.spec.hours_in)
    name = increment.repair_name(table.name, table.env.nonce())
    path = join(folder, name) if folder else name
    table.storage.write(table.layout.landed(path), text.encode())
    return path


def ingested(table: Table, path: str) -> bool:
    return any(path == name for name, _ in ledger.absorbed(table, table.newest(), [path]))
