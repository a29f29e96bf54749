"""After a job on EMR: its usage and cost in the run records, and the values that only the sender of the job can write or know."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from compactor.app.base import AppBase
from compactor.core.measures.measures import Measured, TableMeasures, of_job
from compactor.core.measures.price import JobUsage
from compactor.core.measures.record import RunRecord
from compactor.core.model.errors import CompactorError
from compactor.core.results.reports import TableReport
from compactor.core.settings.metrics import MetricsSettings
from compactor.flows.read.measure import measure

log = logging.getLogger(__name__)


def account(app: AppBase, output: str, usage: JobUsage | None) -> None:
    """Add each table's share of `usage` to its record, and send measures. `output`: what `compactor run` printed. Errors are only logged.

    The tables of a job share its usage by the seconds of their runs.
    """
    try:
        reports = [report for report in json.loads(output) if isinstance(report, dict)]
        records = {report["table"]: RunRecord.from_json(report["record"]) for report in reports if report.get("record")}
    except (ValueError, TypeError, KeyError, CompactorError) as error:
        log.warning("the job's output has no run records: %s", error)
        return
    settings = app.settings.metrics_target or MetricsSettings()
    if usage is not None:
        records = dict(_with_usage(app, records, usage, settings))
    outcomes = [TableReport(report["table"], report["outcome"], record=records.get(report["table"])) for report in reports]
    _send(app, outcomes, settings, usage is not None)


def _with_usage(app: AppBase, records: dict[str, RunRecord], usage: JobUsage, settings: MetricsSettings) -> Iterator[tuple[str, RunRecord]]:
    seconds = sum(record.seconds for record in records.values()) or 1.0
    for name, record in records.items():
        amended = dataclasses.replace(record, job=usage.share(record.seconds / seconds, settings.prices))
        table = app.table(name)
        try:
            table.storage.write(table.layout.run(amended.started, amended.id), amended.to_bytes())
        except CompactorError as error:
            log.warning("%s: the usage of job %s was not added to the run's record: %s", name, usage.id, error)
        yield name, amended


def _send(app: AppBase, reports: Sequence[TableReport], settings: MetricsSettings, used: bool) -> None:
    env = app.runtime.environment(files_only=True)
    specs = app.specs([report.table for report in reports]) if reports else []
    if local := app.runtime.sinks(remote=False):
        measure(env, specs, reports, local, settings.lineage_job)
    values: list[Any] = [TableMeasures(report.table, of_job(report.record), report.record) for report in reports if report.record]
    for sink in app.runtime.sinks(local=False) if used and values else ():
        try:
            sink(Measured(env.clock(), tuple(values)))
        except CompactorError as error:
            log.warning("metrics: %s", error)
