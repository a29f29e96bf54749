"""Plan: what a run would do, and what is wrong with the configuration, without a run and without a JVM."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.landing import Landing
from compactor.core.results.checks import SILENT, Check
from compactor.core.results.phrases import counted
from compactor.core.results.reports import TablePlan
from compactor.flows.land import discover
from compactor.flows.listed import listed
from compactor.flows.publish import archive
from compactor.flows.read import arrived
from compactor.flows.read.check import Looked, check
from compactor.flows.read.status import compaction_note
from compactor.flows.table import Table
from compactor.flows.transact import days_end


def plan(table: Table, others: Sequence[TableSpec] = (), samples: bool = True) -> TablePlan:
    """Return the steps of the next run as sentences, and what the configuration has in common with the files (`flows/read/check`).

    What depends on the data (a truncate, a type change) is given as a possibility. `others`: all tables; `samples`:
    whether to read files of landing, which a role that may only list cannot do.
    """
    snapshot = table.newest()
    infos = [*table.storage.list(table.spec.landing)]
    landing: Landing | Refused
    try:
        landing = discover.landing(table, snapshot, infos)
    except Refused as error:
        landing = error
    checks = check(table, Looked(snapshot, infos, landing, others, samples))
    if not isinstance(landing, Refused) and (silent := arrived.silent(table, snapshot, landing)):
        checks.append(Check(table.name, SILENT, True, silent))
    version = snapshot.version if snapshot else None
    if isinstance(landing, Refused):
        return TablePlan(table.name, version, Landing(()), ("nothing, until the problem is solved",), tuple(checks))
    return TablePlan(table.name, version, landing, tuple(_steps(table, snapshot, landing)) or ("nothing to do",), tuple(checks))


def _steps(table: Table, snapshot: Snapshot | None, landing: Landing) -> list[str]:
    steps = []
    left = archive.unfinished(listed(table), snapshot.pending) if snapshot else ()
    if left:
        steps.append(f"archive {counted(len(left), 'file')} that an earlier run ingested")
    if landing.new:
        size = sum(item.size for item in landing.new)
        folders = len({item.folder for item in landing.new})
        steps.append(f"read {counted(len(landing.new), 'new file')} ({size:,} bytes) in {counted(folders, 'folder')}")
        first = snapshot is None or not snapshot.segments or table.spec.write_mode == "copy-on-write"
        steps.append(
            f"write {'a new base' if first else 'a new Delta (a new base if half of the table changes, is truncated, or a column changes its type)'}"
        )
        steps.append(f"commit version {snapshot.version + 1 if snapshot else 1}, publish {table.spec.database}.{table.spec.view}")
        steps.append(f"{table.spec.archive} the files {'to the archive' if table.spec.archive != 'keep' else 'in landing'}")
    if snapshot and (sentence := compaction_note(table, snapshot)):
        steps.append(sentence)
    if snapshot and not landing.new and days_end(table, snapshot):
        steps.append(f"commit version {snapshot.version + 1}, because the days of {table.spec.view}_daily change")
    if landing.waiting:
        steps.append(f"leave {counted(landing.waiting, 'file')} that may not be complete yet for the next run")
    return [*steps, *landing.notes]
