"""Run: resume, commit, fold if due, publish, archive - for one table, and for many at once."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from compactor.core.model.errors import CompactorError, NoRowsYet, TryLater
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.reports import Progress, RebuildReport, TableReport, silent
from compactor.flows import snapshots
from compactor.flows.environment import World
from compactor.flows.publish import archive
from compactor.flows.publish.publish import publish
from compactor.flows.publish.sync import sync_landing
from compactor.flows.resume import resume
from compactor.flows.write import commit, rebuild, restore
from compactor.flows.write.commit import Committed
from compactor.flows.write.compact import due, fold

log = logging.getLogger(__name__)


def run_tables(world: World, specs: Sequence[TableSpec], progress: Progress = silent, parallel: int = 2, label: str = "") -> list[TableReport]:
    """Run these tables, `parallel` at a time; a table that fails does not stop the others. Reports come in the order of `specs`."""
    with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="table") as pool:
        return list(pool.map(lambda spec: _reported(world, spec, progress, label), specs))


def _reported(world: World, spec: TableSpec, progress: Progress, label: str) -> TableReport:
    began = time.monotonic()
    try:
        report = run_table(world, spec, progress, label)
    except NoRowsYet as error:
        report = TableReport(spec.name, "idle", notes=(str(error),))
    except CompactorError as error:
        report = failure(spec.name, error)
    except Exception as error:
        # nobody foresaw it: this table's failure all the same, or the others' reports would be lost with it
        log.exception("table %s: unexpected %s", spec.name, type(error).__name__)
        report = TableReport(spec.name, "failed", error=f"unexpected {type(error).__name__}: {error}", error_class=type(error).__name__, exit_code=1)
    progress(spec.name, "done", 1.0)
    return _timed(report, time.monotonic() - began)


def failure(table: str, error: CompactorError) -> TableReport:
    """The report of a table that could not be brought up to date."""
    outcome = "later" if isinstance(error, TryLater) else "failed"
    return TableReport(table, outcome, error=str(error), error_class=type(error).__name__, exit_code=error.exit_code)


def _timed(report: TableReport, seconds: float) -> TableReport:
    return dataclasses.replace(report, seconds=round(seconds, 3))


def run_table(world: World, spec: TableSpec, progress: Progress = silent, label: str = "") -> TableReport:
    """One table. Any part may have been done by an earlier, interrupted run; what is left is done now."""
    layout = snapshots.layout_of(spec)
    progress(spec.name, "discover", 0.0)
    current = snapshots.newest(world, layout)
    resumed = False
    if current is not None:
        current, resumed = resume(world, spec, current)
    committed = commit.commit(world, spec, current, label, progress)
    made = [committed] if committed else []
    if committed:
        current = committed.snapshot
        _finish(world, spec, current, progress)
    else:
        newest = snapshots.newest(world, layout)
        if newest is not None and (current is None or newest.version > current.version):
            # another run took what we found; should it have died since, its work is finished here
            current, resumed = resume(world, spec, newest)
    if current is not None and due(world, spec, current):
        folded = fold(world, spec, current, label, progress)
        if folded:
            made.append(folded)
            current = folded.snapshot
            _finish(world, spec, current, progress)
    notes = _shown_landing(world, spec, current) if current is not None and (made or resumed or spec.live_view) else ()
    return _report(spec, current, made, resumed, notes)


def replay_table(world: World, spec: TableSpec, paths: Sequence[str] = (), progress: Progress = silent, label: str = "") -> TableReport:
    """Take again what waits in quarantine, all or these paths. Raises InputRefused when it still cannot be used."""
    return _taken_again(world, spec, lambda: commit.replay(world, spec, paths, label, progress), progress)


def reabsorb_table(world: World, spec: TableSpec, progress: Progress = silent, label: str = "") -> TableReport:
    """Take again what restores have undone. Raises InputRefused when it is gone or still cannot be used."""
    return _taken_again(world, spec, lambda: restore.reabsorb(world, spec, progress, label), progress)


def _taken_again(world: World, spec: TableSpec, take: Callable[[], Committed | None], progress: Progress) -> TableReport:
    current = snapshots.newest(world, snapshots.layout_of(spec))
    if current is not None:
        resume(world, spec, current)
    committed = take()
    if committed:
        _finish(world, spec, committed.snapshot, progress)
    progress(spec.name, "done", 1.0)
    return _report(spec, committed.snapshot if committed else current, [committed] if committed else [], False, ())


def rebuild_table(
    world: World,
    spec: TableSpec,
    target: Snapshot | None = None,
    accept: bool = False,
    dry: bool = False,
    progress: Progress = silent,
    label: str = "",
) -> RebuildReport:
    """Build the table, or an older version of it, again out of its raw files; what an earlier run left undone is finished first."""
    current = snapshots.newest(world, snapshots.layout_of(spec))
    if current is not None and not dry:
        resume(world, spec, current)
    report = rebuild.rebuild(world, spec, target, accept, dry, progress, label)
    progress(spec.name, "done", 1.0)
    return report


def _shown_landing(world: World, spec: TableSpec, current: Snapshot) -> tuple[str, ...]:
    """Bring the landing table up to date; only a live view that was asked for is worth failing for."""
    try:
        sync_landing(world, spec, current)
    except CompactorError as error:
        if spec.live_view:
            raise
        return (f"the table of landed files was not updated: {error}",)
    return ()


def _finish(world: World, spec: TableSpec, snapshot: Snapshot, progress: Progress) -> None:
    progress(spec.name, "publish", 0.85)
    publish(world, spec, snapshot)
    progress(spec.name, "archive", 0.95)
    archive.archive(world, spec, snapshot)


def _report(spec: TableSpec, current: Snapshot | None, made: Sequence[Committed], resumed: bool, notes: tuple[str, ...]) -> TableReport:
    outcome = "committed" if made else "resumed" if resumed else "idle"
    if current is None:
        return TableReport(spec.name, outcome, notes=(f"nothing has landed below {spec.landing}",))
    first = made[0].snapshot if made else None
    counts = first.counts if first else {}
    unusable = sum(item.outcome == "quarantined" for item in first.inputs) if first else 0
    records = counts.get("quarantined", 0) + counts.get("beyond_retention", 0)
    if unusable or records:
        what = f"{unusable} files and {records} records cannot be used and wait in quarantine"
        notes = (*notes, f"{what}: compactor quarantine list {spec.name}")
    return TableReport(
        spec.name,
        "held" if current.publish != "yes" else outcome,
        current.version,
        tuple(f"{item.snapshot.operation} {item.snapshot.version}" for item in made),
        files=len(first.inputs) if first else 0,
        counts=counts,
        rows=current.rows,
        ties=first.ties if first else 0,
        unresolved=first.unresolved if first else 0,
        bytes_written=sum(item.bytes_written for item in made),
        archived=len(first.inputs) if first and spec.archive == "move" else 0,
        notes=notes,
    )
