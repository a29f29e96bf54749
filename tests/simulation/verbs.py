"""Every call of the simulation into the flows, and what it needs to know about Snapshots. Nothing else here imports `compactor.flows`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from compactor.core.model.edit import ContinuesState
from compactor.core.model.errors import InputRefused, Refused, TryLater
from compactor.core.model.inputs import LATER
from compactor.core.model.policy import Policy
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows import ledger as ledgers
from compactor.flows.environment import Environment
from compactor.flows.keep import pin
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.publish import archive, publish
from compactor.flows.publish.sync import sync_table
from compactor.flows.read.verify import verify
from compactor.flows.run import look_at, run_table
from compactor.flows.table import Table
from compactor.flows.verbs import reabsorb_table, rebuild_table, replay_table
from compactor.flows.write import compact, restore
from compactor.ports import Catalog, Engine, Storage

SAME_ROWS = ("compact", "vacuum", "pin")
"""Operations of Snapshots whose rows are those of their parent."""

WRITE_MODES = ("merge-on-read", "merge-on-read", "merge-on-read", "auto", "copy-on-write")
"""Values of the option that chooses between Delta and whole base, the usual one more often."""


_POLICY = Policy(kinds=(("to_string", "evolve"),))
"""Names and numbers come in one column: a run may have to read everything again as text."""


def options(write_mode: str, compact_every: float, segment_bytes: int, **others: Any) -> dict[str, Any]:
    """Return fields of a TableSpec by what they are called today."""
    return {
        "write_mode": write_mode,
        "compact_every": compact_every,
        "target_file_bytes": segment_bytes,
        "quarantine_share": 1.0,
        "policy": _POLICY,
        **others,
    }


def opened(storage: Storage, engine: Engine, catalog: Catalog, clock: Callable[[], float], nonce: Callable[[], str], spec: TableSpec) -> Table:
    """Return what a flow needs, for one process."""
    return Table(Environment(storage, lambda: engine, lambda: catalog, clock, nonce, catalog_name=lambda: "memory"), spec)


def _run(table: Table, _: Any) -> None:
    if isinstance(look_at(table), int):
        run_table(table)


def _compact(table: Table, _: Any) -> None:
    newest = table.newest()
    spec = table.spec.compacting_now
    made = compact.compact(Table(table.env, spec), newest, compact.Spending())[0] if newest else None
    if made:
        publish.publish(table, made)
        archive.archive(table, made)


def _kept(table: Table, back: int) -> Snapshot | None:
    """Return the version `back` versions before the newest one, at least the first."""
    newest = table.newest()
    return restore.at_version(table, max(1, newest.version - back)) if newest else None


def _restore(table: Table, back: int) -> None:
    target = _kept(table, back)
    if target is not None:
        restore.restore(table, target)


def _restore_version(table: Table, version: int) -> None:
    restore.restore(table, restore.at_version(table, version))


def _reabsorb(table: Table, _: Any) -> None:
    reabsorb_table(table)


def _replay(table: Table, _: Any) -> None:
    replay_table(table)


def _rebuild(table: Table, back: int | None) -> None:
    target = None if back is None else _kept(table, back)
    report = rebuild_table(table, target)
    assert report.outcome == "published", f"the rebuilt rows differ: {report.difference}"


def _vacuum(table: Table, _: Any) -> None:
    vacuum(table, False)


def _pin(table: Table, back: int) -> None:
    target = _kept(table, back)
    if target is not None:
        pin.pin(table, target.version, "a")


def _unpin(table: Table, _: Any) -> None:
    pin.unpin(table, "a")


def _publish(table: Table, _: Any) -> None:
    sync_table(table)


Verb = Callable[[Table, Any], None]

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
"""Name → function of (table, argument), and the errors with which it may end."""


def first_attempts(table: Table, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return (path, etag) of the first ledger entry of each input."""
    entries = ledgers.everything(table, snapshot)
    return [(item.path, item.etag) for item in entries if item.outcome not in LATER]


def failed_checks(table: Table) -> list[str]:
    """Return what `compactor verify` finds wrong."""
    return [f"{check.name}: {check.detail}" for check in verify(table) if not check.ok]


def forget_restores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the requirement out that no restore was committed since a result was computed."""
    complete = ContinuesState.problem

    def problem(self: ContinuesState, newest: Snapshot | None) -> str | None:
        return complete(self, dataclasses.replace(newest, replaced=0) if newest else None)

    monkeypatch.setattr(ContinuesState, "problem", problem)
