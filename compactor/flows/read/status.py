"""Status: where a table stands, what a run would do, and its measures after a run; from files alone, without a JVM."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

from compactor.core.catalog import base_views
from compactor.core.model import times
from compactor.core.model.errors import CompactorError, Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.planning.landing import Landing
from compactor.core.results.checks import SILENT, Check
from compactor.core.results.measures import TableMeasures, of_table
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.core.results.reports import TablePlan, TableStatus
from compactor.core.sources import whole_hours
from compactor.flows.environment import Environment
from compactor.flows.land import discover
from compactor.flows.publish import archive, audit, shown
from compactor.flows.read import arrived, quarantine
from compactor.flows.read.check import Looked, check
from compactor.flows.record import healed, last_comparison, last_run
from compactor.flows.table import Table, listed
from compactor.flows.transact import days_end
from compactor.flows.write.compact import due

LATE_SECONDS = 3 * 3600.0
"""Files of an hour that wait in landing so long after its beginning are late."""


def lateness(statuses: Iterable[TableStatus], deadline: str) -> dict[str, str]:
    """Return table name → why it is late, for tables with files waiting in landing after the `deadline` of their DAG run."""
    late = {}
    for item in statuses:
        if item.waiting_files:
            since = f", the oldest of {item.oldest_waiting}" if item.oldest_waiting else ""
            shown = f"version {item.version} of {item.committed}" if item.version is not None else "no version"
            late[item.table] = f"{deadline} after the run was to start {item.waiting_files} files wait in landing{since}; {shown} is shown"
    return late


def compaction_note(table: Table, snapshot: Snapshot) -> str | None:
    """Return what the next run does about a compaction that is needed, or what it waits for; None if none is needed or worth it."""
    if not due(table, snapshot):
        return compaction.waits(table.spec, snapshot, table.env.clock())
    if shown.remembered(table).compacted >= snapshot.version:
        return None
    budget = table.spec.compact_budget
    return "compaction is due in the next run" + ("" if budget is None else f", within {budget:,} bytes for all its tables (`compact_budget`)")


def _waits(table: Table, oldest: str | None) -> str | None:
    """Return that files wait in landing for too long, None if they do not. `oldest`: the hour of the oldest folder that has any."""
    if oldest is None or table.env.clock() - times.to_seconds(oldest) <= LATE_SECONDS:
        return None
    return f"files of {oldest.replace('T', ' ')} still wait in landing"


def statuses(tables: Sequence[Table]) -> list[TableStatus]:
    """Return the status of each table. A failure is over if a later run was idle, and no compaction waits, which may be what failed."""
    states = [status(table) for table in tables]
    last = healed(tables, [item.last_run for item in states])
    return [item if item.compaction else dataclasses.replace(item, last_run=record) for item, record in zip(states, last)]


def status(table: Table) -> TableStatus:
    """Return the newest Snapshot, what waits in landing, and the last run that was not idle."""
    snapshot = table.newest()
    landing = discover.landing(table, snapshot)
    hours = [item.hour for item in landing.new if item.hour]
    delta = snapshot.delta if snapshot else None
    history = snapshot.history if snapshot else None
    estimate = compaction.delta_estimate(snapshot) if snapshot else 0
    ro = base_views.state(snapshot) if snapshot and table.spec.read_optimized else (None, None)
    return TableStatus(
        table=table.name,
        version=snapshot.version if snapshot else None,
        newest_folder=snapshot.hour if snapshot else None,
        source_time=snapshot.source_time if snapshot else None,
        committed=snapshot.time if snapshot else None,
        rows=snapshot.rows if snapshot else 0,
        segments=len(snapshot.segments) if snapshot else 0,
        bytes=snapshot.size if snapshot else 0,
        delta_bytes=delta.size if delta else 0,
        delta_rows=delta.rows if delta else 0,
        delta_tombstones=delta.tombstones if delta else 0,
        delta_estimate=estimate,
        delta_limit=compaction.DELTA_LIMIT,
        read_strategy="base-only" if delta is None else "broadcast" if estimate <= compaction.DELTA_LIMIT else "sort-merge",
        waiting_files=len(landing.new) + landing.waiting,
        waiting_bytes=landing.size,
        late=arrived.silent(table, snapshot, landing) or _waits(table, min(hours) if hours else None),
        unusable_files=next(iter(landing.notes), None),
        oldest_waiting=min(hours) if hours else None,
        pending_archive=len(archive.unfinished(listed(table), snapshot.pending)) if snapshot else 0,
        quarantined=len(quarantine.waiting(listed(table), snapshot)),
        feed=snapshot.feed.mode if snapshot and snapshot.feed else "off",
        feed_from=snapshot.feed.first if snapshot and snapshot.feed and snapshot.feed.mode != "off" else None,
        history_events=sum(part.rows for part in history.parts) if history else 0,
        history_bytes=history.size if history else 0,
        history_since=history.since if history else None,
        blocked=audit.blocked(table, snapshot) if snapshot else None,
        last_run=last_run(table),
        last_comparison=last_comparison(table),
        whole_to=snapshot.watermark.whole_to if snapshot else None,
        whole_note=whole_hours.note(snapshot.watermark, table.spec.streams) if snapshot else None,
        compaction=compaction_note(table, snapshot) if snapshot else None,
        ro_version=ro[0],
        ro_source_time=ro[1],
    )


log = logging.getLogger(__name__)

Sink = Callable[[Sequence[TableMeasures]], None]
"""Sends or writes measures. Raises a CompactorError if it cannot."""


def measure(env: Environment, specs: Sequence[TableSpec], reports: Sequence[TableReport], sinks: Sequence[Sink]) -> None:
    """Measure these tables and pass the values to every sink. Errors are only logged: no run fails because its measures could not be sent."""
    now, by_table, measured = env.clock(), {report.table: report for report in reports}, []
    for spec in specs if sinks else ():
        if spec.name not in by_table:
            continue
        current = None
        try:
            current = status(Table(env, spec))
        except CompactorError as error:
            log.warning("%s: the state of the table was not measured: %s", spec.name, error)
        measured.append(of_table(current, by_table[spec.name], now))
    for sink in sinks if measured else ():
        try:
            sink(measured)
        except CompactorError as error:
            log.warning("metrics: %s", error)


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
