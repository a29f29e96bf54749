"""Resume: finish what an earlier run left undone after its commit point. Idempotent, and a no-op when nothing was left."""

from __future__ import annotations

from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows.environment import World
from compactor.flows.publish import archive, publish


def resume(world: World, spec: TableSpec, snapshot: Snapshot) -> tuple[Snapshot, bool]:
    """Publish and archive what `snapshot` still needs; gives back what is shown, and whether anything was left to do."""
    needed = publish.behind(world, spec, snapshot)
    shown = publish.publish(world, spec, snapshot)
    moved = archive.archive(world, spec, snapshot)
    return shown, needed or moved > 0
