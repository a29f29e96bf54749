"""Metrics: the sinks of `metrics:`, and what they get after a run here or on EMR. A job on EMR sends nothing itself: who sent it does."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial

from compactor import telemetry
from compactor.app.base import AppBase
from compactor.config.settings import Settings
from compactor.config.values import absolute
from compactor.core.model.errors import CompactorError
from compactor.core.model.spec import TableSpec
from compactor.core.results.record import JobUsage, RunRecord, TableReport
from compactor.core.settings.aws import ClientConfig
from compactor.flows.read.status import Sink, measure

log = logging.getLogger(__name__)


def sinks(settings: Settings) -> list[Sink]:
    keys, home = settings.metrics, str(settings.file.parent)
    places: list[Sink] = []
    if keys.deployment and keys.cloudwatch:
        from compactor.aws import metrics

        client = ClientConfig(settings.region, operation_seconds=20.0)
        places.append(partial(metrics.send, namespace=keys.namespace, deployment=keys.deployment, config=client))
    if keys.prometheus:
        places.append(partial(telemetry.write_prometheus, folder=absolute(keys.prometheus, home), deployment=keys.deployment or "compactor"))
    if keys.json_:
        places.append(partial(telemetry.write_records, file=absolute(keys.json_, home)))
    return places


def send(app: AppBase, specs: Sequence[TableSpec], reports: Sequence[TableReport]) -> None:
    """Send the measures of these tables, and their records, to every sink. Errors are only logged."""
    measure(app.runtime.environment(files_only=True), specs, reports, sinks(app.settings))


def account(app: AppBase, output: str, usage: Callable[[], JobUsage | None]) -> None:
    """Add each table's share of a job's usage to its record, by the seconds of its run, and send measures. `output`: what `compactor run` printed."""
    try:
        reports = [_parsed(report) for report in json.loads(output)]
    except (ValueError, TypeError, KeyError, CompactorError) as error:
        log.warning("the job's output has no reports: %s", error)
        return
    seconds = sum(report.seconds for report in reports if isinstance(report, RunRecord)) or 1.0
    # a table may have left the configuration while the job ran
    reports = [report for report in reports if report.table in app.settings.tables]
    try:
        used = usage()
    except CompactorError as error:
        log.warning("the usage of the job is not known: %s", error)
        used = None
    if used is not None:
        reports = [_with_usage(app, report, used.share(report.seconds / seconds)) for report in reports]
    if reports:
        send(app, app.specs([report.table for report in reports]), reports)


def _parsed(report: dict[str, str]) -> TableReport:
    return RunRecord.from_json(report) if "id" in report else TableReport(report["table"], report["outcome"])


def _with_usage(app: AppBase, report: TableReport, share: JobUsage) -> TableReport:
    if not isinstance(report, RunRecord):
        return report
    record, table = dataclasses.replace(report, job=share), app.table(report.table)
    try:
        table.storage.write(table.layout.run(record.started, record.id), record.to_bytes())
    except CompactorError as error:
        log.warning("%s: the usage of job %s was not added to the run's record: %s", record.table, share.id, error)
    return record
