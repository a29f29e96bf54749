"""Record: measure the phases of a run, and write its run record beside the Snapshots.

A record is no part of the table: nothing reads it to decide anything, and no run fails because its record could not be written. What a crash leaves:
nothing, or a record. Idle runs write none. The newest record is also copied to one place, so that `status` needs no listing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Sequence

from compactor.core.model import times
from compactor.core.model.errors import CompactorError
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.reconcile.report import ReconcileReport
from compactor.core.results.record import FAILED, Phase, RunRecord, TableReport
from compactor.flows.environment import Environment
from compactor.flows.table import Table

log = logging.getLogger(__name__)


class Recorder:
    """Measures one run of one table. `table` is the table whose steps it measures, and passes on to the callback of the caller's."""

    def __init__(self, table: Table, verb: str) -> None:
        self.table, self._verb, self._progress = dataclasses.replace(table, progress=self.progress), verb, table.progress
        self._began = table.env.clock()
        self._phases: list[Phase] = []
        self._open: tuple[str, float] | None = None

    def progress(self, table: str, step: str, share: float) -> None:
        self._close()
        self._open = (step, self.table.env.clock()) if step != "done" else None
        self._progress(table, step, share)

    def _close(self) -> None:
        if self._open is None:
            return
        (name, began), self._open = self._open, None
        seconds = self.table.env.clock() - began
        if self._phases and self._phases[-1].name == name:
            seconds += self._phases.pop().seconds
        self._phases.append(Phase(name, round(seconds, 3)))

    def recorded(self, report: TableReport) -> TableReport:
        """Write the record of the run behind a report, and return it in the report's place. An idle run has none."""
        self._close()
        if report.outcome == "idle":
            return report
        table, ended, failed = self.table, self.table.env.clock(), report.outcome in FAILED
        before = last_run(table) if failed else None
        moment = times.from_seconds(ended, "milliseconds")
        record = RunRecord(
            **{**vars(report), "seconds": report.seconds or round(ended - self._began, 3)},
            id=table.env.nonce(),
            verb=self._verb,
            started=times.from_seconds(self._began, "milliseconds"),
            ended=moment,
            label=table.label,
            program=table.env.program,
            phases=tuple(self._phases),
            source_lag_seconds=_since(report.source_time, ended),
            landing_lag_seconds=_since(report.newest_folder, ended),
            failures=1 + (before.failures if before else 0) if failed else 0,
            failing_since=(before.failing_since if before else None) or moment if failed else None,
        )
        _write(table, record, table.layout.last_run() if record.shows_state else None)
        return record


def remember_comparison(table: Table, report: ReconcileReport) -> None:
    """Write the record of a comparison that has just ended. It has no keys and no values of rows."""
    ended = table.env.clock()
    record = RunRecord(
        report.table,
        report.outcome,
        report.version,
        rows=report.lake_rows,
        seconds=report.seconds,
        id=table.env.nonce(),
        verb="reconcile",
        started=times.from_seconds(ended - report.seconds, "milliseconds"),
        ended=times.from_seconds(ended, "milliseconds"),
        program=table.env.program,
        comparison=report.comparison,
    )
    _write(table, record, table.layout.last_comparison())


def _write(table: Table, record: RunRecord, copy: str | None) -> None:
    """Write a record, and its copy to one place. A failure is only logged: a comparison needs no right to write, and no run fails because of it."""
    try:
        for place in filter(None, (table.layout.run(record.started, record.id), copy)):
            table.storage.write(place, record.to_bytes())
    except CompactorError as error:
        log.warning("%s: the run record was not written: %s", table.name, error)


def last_comparison(table: Table) -> RunRecord | None:
    """Return the record of the last comparison with the source; None without one. A record that cannot be read counts for nothing."""
    return _copy(table, table.layout.last_comparison())


def last_run(table: Table) -> RunRecord | None:
    """Return the record of the last run that was not idle; None without one. A record that cannot be read counts for nothing."""
    return _copy(table, table.layout.last_run())


def healed(tables: Sequence[Table], records: Sequence[RunRecord | None]) -> list[RunRecord | None]:
    """Return the last runs of tables of one environment, with `failures` 0 where a later run was idle. Asks only if a run has failed."""
    idle: dict[str, str] = {}
    try:
        if any(record and record.failures for record in records):
            idle = last_idle(tables[0].env, [table.spec for table in tables], tables[0].env.now())
    except CompactorError as error:
        # who may read the tables only must see them, too
        log.warning("the idle runs were not read: %s", error)
    return [
        dataclasses.replace(record, failures=0, failing_since=None) if record and idle.get(table.name, "") > record.ended else record
        for table, record in zip(tables, records)
    ]


def _copy(table: Table, path: str) -> RunRecord | None:
    try:
        return RunRecord.from_bytes(table.storage.read(path))
    except (FileNotFoundError, CompactorError):
        return None


def _since(moment: str | None, now: float) -> float | None:
    try:
        return None if moment is None else round(max(0.0, now - times.to_seconds(moment)), 3)
    except ValueError:
        # no run fails because of its record
        return None


# ---- idle runs -------------------------------------------------------------------------------------------------------


def remember_idle(env: Environment, specs: Sequence[TableSpec], reports: Sequence[TableReport]) -> None:
    """Overwrite the file that shows which of these tables had no work, and when: one file for each set of tables that run together.

    Idle runs leave no other trace.
    """
    idle = {report.table for report in reports if report.outcome == "idle"}
    for folder, names in _by_warehouse(specs).items():
        content = {"time": env.now(), "idle": [name for name in names if name in idle]}
        digest = hashlib.sha256("\0".join(sorted(names)).encode()).hexdigest()[:16]
        try:
            if content["idle"]:
                env.storage.write(join(folder, f"{digest}.json"), json.dumps(content).encode())
        except CompactorError as error:
            log.warning("the tables without work were not recorded: %s", error)


def last_idle(env: Environment, specs: Sequence[TableSpec], moment: str) -> dict[str, str]:
    """Return table → time of its last idle run, where that was no later than `moment` (ISO 8601)."""
    last: dict[str, str] = {}
    for folder in _by_warehouse(specs):
        for info in env.storage.list(folder):
            try:
                content = json.loads(env.storage.read(info.path))
                time, names = str(content["time"]), list(content["idle"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                # nothing is lost with it: the next run writes it again
                continue
            if time <= moment:
                last.update((name, max(time, last.get(name, ""))) for name in names)
    return last


def _by_warehouse(specs: Sequence[TableSpec]) -> dict[str, list[str]]:
    """Return folder of the idle runs → names of the tables."""
    folders: dict[str, list[str]] = {}
    for spec in specs:
        folders.setdefault(join(spec.root.rstrip("/").rpartition("/")[0], "_runs"), []).append(spec.name)
    return folders
