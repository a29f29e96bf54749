"""Plan: what a run would do, without doing it and without a JVM."""

from __future__ import annotations

from compactor.core.results.reports import TablePlan
from compactor.flows.land import discover
from compactor.flows.listed import listed
from compactor.flows.publish import archive
from compactor.flows.table import Table
from compactor.flows.write.compact import due


def plan(table: Table) -> TablePlan:
    """Return the steps of the next run as sentences. What depends on the data (a truncate, a type change) is given as a possibility."""
    snapshot = table.newest()
    landing = discover.landing(table, snapshot)
    steps = []
    left = archive.unfinished(listed(table), snapshot.pending) if snapshot else ()
    if left:
        steps.append(f"archive {len(left)} files that an earlier run absorbed")
    if landing.new:
        size = sum(item.size for item in landing.new)
        folders = len({item.folder for item in landing.new})
        steps.append(f"read {len(landing.new)} new files ({size:,} bytes) in {folders} folders")
        first = snapshot is None or not snapshot.segments or table.spec.write_mode == "copy-on-write"
        steps.append(
            f"write {'a new base' if first else 'a new Delta (a new base if half of the table changes, is truncated, or a column changes its type)'}"
        )
        steps.append(f"commit version {snapshot.version + 1 if snapshot else 1}, publish {table.spec.database}.{table.spec.view}")
        steps.append(f"{table.spec.archive} the files {'to the archive' if table.spec.archive != 'keep' else 'in landing'}")
    if snapshot and due(table, snapshot):
        steps.append("look for segments worth compacting")
    if landing.waiting:
        steps.append(f"leave {landing.waiting} files that may not be complete yet for the next run")
    return TablePlan(table.name, snapshot.version if snapshot else None, landing, tuple(steps) or ("nothing to do",))
