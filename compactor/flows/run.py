"""Run: resume, commit, compact if due, publish, archive - for one table, and for many at once."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

from compactor.core.model.errors import CompactorError, Conflict, NoRowsYet, Stopped, TryLater
from compactor.core.model.schema import type_changes
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.reports import Progress, RebuildReport, TableReport, silent
from compactor.flows import failures, logs
from compactor.flows.environment import Environment
from compactor.flows.land import discover
from compactor.flows.listed import listed
from compactor.flows.publish import archive, shown
from compactor.flows.publish.landing import show_live, sync_landing
from compactor.flows.publish.publish import publish
from compactor.flows.resume import resume
from compactor.flows.stop import Stop, stopped
from compactor.flows.table import Table
from compactor.flows.transact import ATTEMPTS
from compactor.flows.write import commit, rebuild, restore
from compactor.flows.write.compact import compact, due

Ingest = Callable[[Optional[Snapshot]], Optional[Snapshot]]
"""Ingests into the newest Snapshot, which it is given as far as it is known; returns the new one."""

log = logging.getLogger(__name__)


_LOOKED_AT = 8
"""Tables that are looked at, at a time. Looking waits for storage and computes nothing."""

Start = Callable[[Sequence[TableSpec]], None]
"""Called once, before the tables that have work are run. Raises errors that concern all of them."""


def run_tables(
    env: Environment,
    specs: Sequence[TableSpec],
    progress: Progress = silent,
    parallel: int = 2,
    label: str = "",
    start: Start = lambda specs: None,
) -> list[TableReport]:
    """Run these tables, `parallel` at a time; a table that fails does not stop the others. Reports come in the order of `specs`.

    Tables without work are found first, from storage alone. `start` is not called if all are without work. After Ctrl-C the tables that are not
    finished are reported as stopped.
    """
    with env.stop.on_interrupt():
        return _run_tables(env, specs, env.stop.checking(progress), parallel, label, start)


def _run_tables(env: Environment, specs: Sequence[TableSpec], progress: Progress, parallel: int, label: str, start: Start) -> list[TableReport]:
    reports = idle_tables(env, specs, progress)
    busy = [spec for spec in specs if spec.name not in reports]
    if busy and not env.stop.requested:
        start(busy)
    with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="table") as pool:
        ran = pool.map(lambda spec: _reported(spec.name, lambda: run_table(Table(env, spec), progress, label), progress, env.stop), busy)
        reports.update((spec.name, report) for spec, report in zip(busy, ran) if report is not None)
    return [failures.remember(Table(env, spec), reports[spec.name]) for spec in specs]


def idle_tables(env: Environment, specs: Sequence[TableSpec], progress: Progress = silent) -> dict[str, TableReport]:
    """Return the reports of the tables that have no work, and of those whose work is known to fail. Asks neither engine nor catalog."""
    with ThreadPoolExecutor(_LOOKED_AT, thread_name_prefix="look") as pool:
        reports = pool.map(lambda spec: _reported(spec.name, lambda: idle_table(Table(env, spec)), progress, env.stop), specs)
        return {report.table: report for report in reports if report is not None}


def idle_table(table: Table) -> TableReport | None:
    """Return the report of a run that has nothing to do, or None if there is something to do. Raises what landing is refused for."""
    current = table.newest()
    if current is not None:
        state = shown.recall(table, current)
        if state is None or archive.unfinished(listed(table), current.pending):
            return None
        if state.compacted < current.version and due(table, current):
            return None
    return None if discover.landing(table, current).new else _report(table, current, current, (), False, ())


def _reported(name: str, run: Callable[[], TableReport | None], progress: Progress, stop: Stop) -> TableReport | None:
    began = time.monotonic()
    try:
        if stop.requested:
            raise stopped()
        with logs.about(table=name):
            report = run()
        if report is None:
            return None
    except NoRowsYet as error:
        report = TableReport(name, "idle", notes=(str(error),))
    except Exception as error:
        # after Ctrl-C a cancelled computation raises anything
        report = _failed(name, stopped() if stop.requested else error)
    if report.error is not None:
        logs.failed(report)
    progress(name, "done", 1.0)
    return _timed(report, time.monotonic() - began)


def _failed(name: str, error: Exception) -> TableReport:
    if isinstance(error, CompactorError):
        return failure(name, error)
    # this table's failure, or the other tables' reports would be lost with it
    kind = type(error).__name__
    log.error("table %s: unexpected %s", name, kind, exc_info=error)
    return TableReport(name, "failed", error=f"unexpected {kind}: {error}", error_class=kind, exit_code=1)


def failure(table: str, error: CompactorError) -> TableReport:
    """The report of a table that could not be brought up to date."""
    outcome = "stopped" if isinstance(error, Stopped) else "later" if isinstance(error, TryLater) else "failed"
    return TableReport(table, outcome, error=str(error), error_class=type(error).__name__, exit_code=error.exit_code)


def _timed(report: TableReport, seconds: float) -> TableReport:
    return dataclasses.replace(report, seconds=round(seconds, 3))


def run_table(table: Table, progress: Progress = silent, label: str = "") -> TableReport:
    """Run one table. Any step may have been done by an earlier, interrupted run; the rest is done now."""
    progress(table.name, "discover", 0.0)
    before = current = table.newest()
    resumed = False
    if current is not None:
        current, resumed = resume(table, current)
    made: list[Snapshot] = []

    def ingest() -> Snapshot | None:
        return _ingested(table, current, lambda newest: commit.commit(table, newest, label, progress), made, progress, label)

    committed = first = ingest()
    while committed:
        made.append(committed)
        current = committed
        _finish(table, current, progress)
        full = len(committed.inputs) >= commit.FILES_MAX
        committed = ingest() if full else None
    if not first and table.superseded_since(current) and (newest := table.newest()) is not None:
        # another run ingested what we found; if it has died since, its work is finished here
        current, resumed = resume(table, newest)
    worthless = False
    if current is not None and due(table, current) and not (made and table.env.stop.requested):
        compacted = compact(table, current, label, progress)
        worthless = compacted is None
        if compacted:
            made.append(compacted)
            current = compacted
            _finish(table, current, progress)
    notes: tuple[str, ...] = ()
    if current is not None:
        folders, notes = _shown_landing(table, current) if made or resumed or table.spec.live_view else ([], ())
        shown.remember(table, current, folders, compacted=worthless)
    return _report(table, before, current, made, resumed, notes)


@logs.of_table
def replay_table(table: Table, paths: Sequence[str] = (), progress: Progress = silent, label: str = "") -> TableReport:
    """Ingest what waits in quarantine again, all or these paths. Raises InputRefused when it still cannot be used."""
    return _ingested_again(table, lambda _: commit.replay(table, paths, label, progress), progress, label)


@logs.of_table
def reabsorb_table(table: Table, progress: Progress = silent, label: str = "") -> TableReport:
    """Ingest what restores have undone again. Raises InputRefused when it is gone or still cannot be used."""
    return _ingested_again(table, lambda _: restore.reabsorb(table, progress, label), progress, label)


def _ingested_again(table: Table, ingest: Ingest, progress: Progress, label: str) -> TableReport:
    current = table.newest()
    if current is not None:
        resume(table, current)
    made: list[Snapshot] = []
    committed = _ingested(table, current, ingest, made, progress, label)
    if committed:
        made.append(committed)
        _finish(table, committed, progress)
        show_live(table, committed)
    progress(table.name, "done", 1.0)
    return _report(table, current, committed or current, made, False, ())


@logs.of_table
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


def _ingested(table: Table, newest: Snapshot | None, ingest: Ingest, made: list[Snapshot], progress: Progress, label: str) -> Snapshot | None:
    """Ingest. If numbers become text, first read the table's raw files again, and add the version that this makes to `made`."""
    for _ in range(ATTEMPTS):
        try:
            return ingest(newest)
        except commit.BecomesText as change:
            newest = rebuild.as_text(table, change.columns, progress, label)
            made += [newest] if newest else []
    # each time somebody rebuilt the table from files that hold numbers only
    raise Conflict(f"table {table.name}: its numbers were read again as text {ATTEMPTS} times, and other writers undid it. Run again.")


def _shown_landing(table: Table, current: Snapshot) -> tuple[list[str], tuple[str, ...]]:
    """Bring the landing table up to date. Return its folders, and notes. Only a live view that was asked for is worth failing for."""
    try:
        return sync_landing(table, current)
    except CompactorError as error:
        if table.spec.live_view:
            raise
        return [], (f"the table of landed files was not updated: {error}",)


def _finish(table: Table, snapshot: Snapshot, progress: Progress) -> None:
    progress(table.name, "publish", 0.85)
    publish(table, snapshot)
    progress(table.name, "archive", 0.95)
    archive.archive(table, snapshot)


def _report(
    table: Table, before: Snapshot | None, current: Snapshot | None, made: Sequence[Snapshot], resumed: bool, notes: tuple[str, ...]
) -> TableReport:
    outcome = "committed" if made else "resumed" if resumed else "idle"
    if current is None:
        return TableReport(table.name, outcome, notes=(f"nothing has landed below {table.spec.landing}",))
    if before is not None:
        notes = (*notes, *type_changes(before.schema, current.schema))
    # a rebuild before the commit counts old events again
    ingested = [snapshot for snapshot in made if snapshot.operation != "rebuild"]
    inputs = [item for snapshot in ingested for item in snapshot.inputs]
    counts = {name: sum(snapshot.counts.get(name, 0) for snapshot in ingested) for snapshot in ingested for name in snapshot.counts}
    unusable = sum(item.outcome == "quarantined" for item in inputs)
    records = counts.get("quarantined", 0) + counts.get("beyond_retention", 0)
    if unusable or records:
        what = f"{unusable} files and {records} records cannot be used and wait in quarantine"
        notes = (*notes, f"{what}: compactor quarantine list {table.name}")
    return TableReport(
        table.name,
        outcome,
        current.version,
        tuple(f"{item.operation} {item.version}" for item in made),
        files=len(inputs),
        counts=counts,
        rows=current.rows,
        ties=sum(snapshot.ties for snapshot in ingested),
        unresolved=sum(snapshot.unresolved for snapshot in ingested),
        bytes_written=sum(item.bytes_written for item in made),
        archived=len(inputs) if table.spec.archive == "move" else 0,
        notes=notes,
    )
