"""Every call of the simulation into the flows, and what it needs to know about Snapshots. Nothing else here imports `compactor.flows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compactor.core import views
from compactor.core.errors import InputRefused, Refused, TryLater
from compactor.core.layout import Layout
from compactor.core.plan import tiling_problem
from compactor.core.snapshot import LATER, Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import archive, pin, publish, restore, snapshots
from compactor.flows import fold as compaction
from compactor.flows import ledger as ledgers
from compactor.flows.reports import silent
from compactor.flows.run import reabsorb_table, rebuild_table, replay_table, run_table
from compactor.flows.sync import sync_table
from compactor.flows.vacuum import vacuum
from compactor.flows.verify import verify
from compactor.flows.world import World
from compactor.ports import Catalog, Engine, Storage

SAME_ROWS = ("fold", "vacuum", "pin")
"""Operations of Snapshots whose rows are those of their parent."""

WRITE_MODES = ("delta", "delta", "delta", "auto", "rewrite")
"""Values of the option that chooses between Delta and whole base, the usual one more often."""


def options(write_mode: str, compact_every: float, segment_bytes: int, **others: Any) -> dict[str, Any]:
    """Return fields of a TableSpec by what they are called today."""
    return {"compaction": write_mode, "fold_every": compact_every, "target_file_bytes": segment_bytes, "quarantine_share": 1.0, **others}


def environment(storage: Storage, engine: Engine, catalog: Catalog, clock: Callable[[], float], nonce: Callable[[], str]) -> World:
    """Return what a flow needs, for one process."""
    return World(storage, lambda: engine, lambda: catalog, clock, nonce)


def _run(world: World, spec: TableSpec, _: Any) -> None:
    run_table(world, spec)


def _compact(world: World, spec: TableSpec, _: Any) -> None:
    newest = snapshots.newest(world, snapshots.layout_of(spec))
    made = compaction.fold(world, spec.folding, newest, "", silent) if newest else None
    if made:
        publish.publish(world, spec, made.snapshot)
        archive.archive(world, spec, made.snapshot)


def _kept(world: World, spec: TableSpec, back: int) -> Snapshot | None:
    """Return the version `back` versions before the newest one, at least the first."""
    newest = snapshots.newest(world, snapshots.layout_of(spec))
    return restore.at_version(world, spec, max(1, newest.version - back)) if newest else None


def _restore(world: World, spec: TableSpec, back: int) -> None:
    target = _kept(world, spec, back)
    if target is not None:
        restore.restore(world, spec, target)


def _restore_version(world: World, spec: TableSpec, version: int) -> None:
    restore.restore(world, spec, restore.at_version(world, spec, version))


def _reabsorb(world: World, spec: TableSpec, _: Any) -> None:
    reabsorb_table(world, spec)


def _replay(world: World, spec: TableSpec, _: Any) -> None:
    replay_table(world, spec)


def _rebuild(world: World, spec: TableSpec, back: int | None) -> None:
    target = None if back is None else _kept(world, spec, back)
    report = rebuild_table(world, spec, target)
    assert report.outcome == "published", f"the rebuilt rows differ: {report.difference}"


def _vacuum(world: World, spec: TableSpec, _: Any) -> None:
    vacuum(world, spec, False)


def _pin(world: World, spec: TableSpec, back: int) -> None:
    target = _kept(world, spec, back)
    if target is not None:
        pin.pin(world, spec, target.version, "a")


def _unpin(world: World, spec: TableSpec, _: Any) -> None:
    pin.unpin(world, spec, "a")


def _publish(world: World, spec: TableSpec, _: Any) -> None:
    sync_table(world, spec)


Verb = Callable[[World, TableSpec, Any], None]

VERBS: Mapping[str, tuple[Verb, tuple[type[Exception], ...]]] = {
    "run": (_run, (TryLater, InputRefused)),
    "compact": (_compact, (TryLater,)),
    "restore": (_restore, (TryLater, Refused)),
    "restore version": (_restore_version, (TryLater,)),
    "reabsorb": (_reabsorb, (TryLater, InputRefused)),
    "replay": (_replay, (TryLater, InputRefused)),
    "rebuild": (_rebuild, (TryLater, Refused)),
    "vacuum": (_vacuum, (TryLater,)),
    "pin": (_pin, (TryLater, Refused)),
    "unpin": (_unpin, (TryLater, Refused)),
    "publish": (_publish, (TryLater,)),
}
"""Name → function of (environment, table, argument), and the errors with which it may end."""


def ledger(world: World, spec: TableSpec, snapshot: Snapshot) -> dict[tuple[str, str], Any]:
    """Return what the ledger says last of each input, by (path, etag)."""
    return ledgers.latest(ledgers.everything(world, Layout(spec.root, spec.landing), snapshot))


def first_attempts(world: World, spec: TableSpec, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return (path, etag) of the first ledger entry of each input."""
    entries = ledgers.everything(world, Layout(spec.root, spec.landing), snapshot)
    return [(item.path, item.etag) for item in entries if item.outcome not in LATER]


def failed_checks(world: World, spec: TableSpec) -> list[str]:
    """Return what `compactor verify` finds wrong."""
    return [f"{check.name}: {check.detail}" for check in verify(world, spec) if not check.ok]


def view_text(spec: TableSpec, snapshot: Snapshot) -> str:
    """Return the text that the view of a Snapshot has."""
    return views.view_text(spec, snapshot)


def table_name(spec: TableSpec, part: str, generation: int) -> str:
    """Return the name of a table below the view."""
    return views.table_name(spec, part, generation)


def gap_between_segments(snapshot: Snapshot) -> str | None:
    """Return why the segments of a Snapshot do not tile the keys, None if they do."""
    return tiling_problem(snapshot.segments)
