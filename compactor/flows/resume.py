"""Resume: finish what an earlier run left undone after its commit point. Idempotent, and a no-op when nothing was left."""

from __future__ import annotations

from compactor.core.model.snapshot import Snapshot
from compactor.flows.publish import archive, audit, publish
from compactor.flows.table import Table


def resume(table: Table, snapshot: Snapshot) -> tuple[Snapshot, bool]:
    """Publish and archive what `snapshot` still needs; gives back what is shown, and whether anything was left to do."""
    try:
        shown, needed = publish.show(table, snapshot)
    except audit.Blocked:
        # what lands next may repair it
        shown, needed = snapshot, False
    moved = archive.archive(table, snapshot)
    return shown, needed or moved > 0
