"""Run: resume, commit, compact if due, publish, archive - for one table, and for many at once."""

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
from compactor.flows.environment import Environment
from compactor.flows.publish import archive
from compactor.flows.publish.publish import publish
from compactor.flows.publish.sync import sync_landing
from compactor.flows.resume import resume
from compactor.flows.table import Table
from compactor.flows.write import commit, rebuild, restore
from compactor.flows.write.compact import compact, due

log = logging.getLogger(__name__)


def run_tables(env: Environment, specs: Sequence[TableSpec], progress: Progress = silent, parallel: int = 2, label: str = "") -> list[TableReport]:
    """Run these tables, `parallel` at a time; a table that fails does not stop the others. Reports come in the order of `specs`."""
    with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="table") as pool:
        return list(pool.map(lambda spec: _reported(Table(env, spec), progress, label), specs))


def _reported(table: Table, progress: Progress, label: str) -> TableReport:
    began = time.monotonic()
    try:
        report = run_table(table, progress, label)
    except NoRowsYet as error:
        report = TableReport(table.name, "idle", notes=(str(error),))
    except CompactorError as error:
        report = failure(table.name, error)
    except Exception as error:
        # this table's failure, or the other tables' reports would be lost with it
        log.exception("table %s: unexpected %s", table.name, type(error).__name__)
        report = TableReport(table.name, "failed", error=f"unexpected {type(error).__name__}: {error}", error_class=type(error).__name__, exit_code=1)
    progress(table.name, "done", 1.0)
    return _timed(report, time.monotonic() - began)


def failure(table: str, error: CompactorError) -> TableReport:
    """The report of a table that could not be brought up to date."""
    outcome = "later" if isinstance(error, TryLater) else "failed"
    return TableReport(table, outcome, error=str(error), error_class=type(error).__name__, exit_code=error.exit_code)


def _timed(report: TableReport, seconds: float) -> TableReport:
    return dataclasses.replace(report, seconds=round(seconds, 3))


def run_table(table: Table, progress: Progress = silent, label: str = "") -> TableReport:
    """Run one table. Any step may have been done by an earlier, interrupted run; the rest is done now."""
    progress(table.name, "discover", 0.0)
    current = table.newest()
    resumed = False
    if current is not None:
        current, resumed = resume(table, current)
    made = []
    committed = commit.commit(table, current, label, progress)
    while committed:
        made.append(committed)
        current = committed
        _finish(table, current, progress)
        full = len(committed.inputs) >= commit.FILES_MAX
        committed = commit.commit(table, current, label, progress) if full else None
    if not made and table.superseded_since(current) and (newest := table.newest()) is not None:
        # another run ingested what we found; if it has died since, its work is finished here
        current, resumed = resume(table, newest)
    if current is not None and due(table, current):
        compacted = compact(table, current, label, progress)
        if compacted:
            made.append(compacted)
            current = compacted
            _finish(table, current, progress)
    notes = _shown_landing(table, current) if current is not None and (made or resumed or table.spec.live_view) else ()
    return _report(table, current, made, resumed, notes)


def replay_table(table: Table, paths: Sequence[str] = (), progress: Progress = silent, label: str = "") -> TableReport:
    """Ingest what waits in quarantine again, all or these paths. Raises InputRefused when it still cannot be used."""
    return _ingested_again(table, lambda: commit.replay(table, paths, label, progress), progress)


def reabsorb_table(table: Table, progress: Progress = silent, label: str = "") -> TableReport:
    """Ingest what restores have undone again. Raises InputRefused when it is gone or still cannot be used."""
    return _ingested_again(table, lambda: restore.reabsorb(table, progress, label), progress)


def _ingested_again(table: Table, ingest: Callable[[], Snapshot | None], progress: Progress) -> TableReport:
    current = table.newest()
    if current is not None:
        resume(table, current)
    committed = ingest()
    if committed:
        _finish(table, committed, progress)
    progress(table.name, "done", 1.0)
    return _report(table, committed or current, [committed] if committed else [], False, ())


def rebuild_table(
    table: Table,
    target: Snapshot | None = None,
    accept: bool = False,
    dry: bool = False,
    progress: Progress = silent,
    label: str = "",
) -> RebuildReport:
    """Rebuild the table, or an older version of it, from its raw files; what an earlier run left undone is finished first."""
    current = table.newest()
    if current is not None and not dry:
        resume(table, current)
    report = rebuild.rebuild(table, target, accept, dry, progress, label)
    progress(table.name, "done", 1.0)
    return report


def _shown_landing(table: Table, current: Snapshot) -> tuple[str, ...]:
    """Bring the landing table up to date; only a live view that was asked for is worth failing for."""
    try:
        sync_landing(table, current)
    except CompactorError as error:
        if table.spec.live_view:
            raise
        return (f"the table of landed files was not updated: {error}",)
    return ()


def _finish(table: Table, snapshot: Snapshot, progress: Progress) -> None:
    progress(table.name, "publish", 0.85)
    publish(table, snapshot)
    progress(table.name, "archive", 0.95)
    archive.archive(table, snapshot)


def _report(table: Table, current: Snapshot | None, made: Sequence[Snapshot], resumed: bool, notes: tuple[str, ...]) -> TableReport:
    outcome = "committed" if made else "resumed" if resumed else "idle"
    if current is None:
        return TableReport(table.name, outcome, notes=(f"nothing has landed below {table.spec.landing}",))
    inputs = [item for snapshot in made for item in snapshot.inputs]
    counts = {name: sum(snapshot.counts.get(name, 0) for snapshot in made) for snapshot in made for name in snapshot.counts}
    unusable = sum(item.outcome == "quarantined" for item in inputs)
    records = counts.get("quarantined", 0) + counts.get("beyond_retention", 0)
    if unusable or records:
        what = f"{unusable} files and {records} records cannot be used and wait in quarantine"
        notes = (*notes, f"{what}: compactor quarantine list {table.name}")
    return TableReport(
        table.name,
        "blocked" if current.publish != "yes" else outcome,
        current.version,
        tuple(f"{item.operation} {item.version}" for item in made),
        files=len(inputs),
        counts=counts,
        rows=current.rows,
        ties=sum(snapshot.ties for snapshot in made),
        unresolved=sum(snapshot.unresolved for snapshot in made),
        bytes_written=sum(item.bytes_written for item in made),
        archived=len(inputs) if table.spec.archive == "move" else 0,
        notes=notes,
    )
