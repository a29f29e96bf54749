"""Failures: remember the last failure of a table beside its Snapshots, in `_compactor/last_failure.json`.

The record is no part of the table, and nothing decides by it. A run writes it when it fails, and neither reads nor removes it when it succeeds: the
failure is over as soon as a version is newer. What a crash leaves: the record before, or the new one.
"""

from __future__ import annotations

import dataclasses
import json
import logging

from compactor.core.model.errors import UNEXPECTED, CompactorError
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.reports import LastFailure, TableReport
from compactor.flows.table import Table

log = logging.getLogger(__name__)

FORMAT = 1
_TEXT_MAX = 4000
_OUTCOMES = ("failed", "later")


def remember(table: Table, report: TableReport) -> TableReport:
    """Write the failure that a report has, and return the report with the number of failures since the newest version. Never raises."""
    if report.outcome not in _OUTCOMES or report.error is None:
        return report
    try:
        before = recall(table, table.newest())
    except CompactorError:
        before = None
    counted = before if before is not None and not before.over else None
    now = table.env.now()
    record = LastFailure(
        now,
        report.error_class or "",
        report.error_id or UNEXPECTED,
        report.error[:_TEXT_MAX],
        count=1 + (counted.count if counted else 0),
        first=counted.first if counted else now,
    )
    values = {"format": FORMAT, **{name: value for name, value in dataclasses.asdict(record).items() if name != "over"}}
    try:
        table.storage.write(table.layout.last_failure(), json.dumps(values, ensure_ascii=False).encode())
    except CompactorError as error:
        log.warning("%s: the failure was not recorded: %s", table.name, error)
    return dataclasses.replace(report, failures=record.count)


def recall(table: Table, newest: Snapshot | None) -> LastFailure | None:
    """Return the last failure, over or not; None without one. A record that cannot be read counts for nothing."""
    try:
        values = json.loads(table.storage.read(table.layout.last_failure()))
        if values.pop("format") != FORMAT:
            return None
        record = LastFailure(**values)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dataclasses.replace(record, over=newest is not None and newest.time > record.time)
