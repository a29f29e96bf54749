"""Measure: the values of all measures after a run, for every sink that is configured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from compactor.core.measures import lineage
from compactor.core.measures.measures import Measured, TableMeasures, of_table
from compactor.core.model.errors import CompactorError
from compactor.core.model.spec import TableSpec
from compactor.core.results.reports import TableReport
from compactor.flows.environment import Environment
from compactor.flows.read.status import status
from compactor.flows.table import Table

log = logging.getLogger(__name__)

Sink = Callable[[Measured], None]
"""Sends or writes measures. Raises a CompactorError if it cannot."""


def measure(env: Environment, specs: Sequence[TableSpec], reports: Sequence[TableReport], sinks: Sequence[Sink], lineage_job: str | None) -> None:
    """Measure these tables and pass the values to every sink. Errors are only logged: no run fails because its measures could not be sent.

    `lineage_job`: the namespace of jobs in OpenLineage's events; None if no sink takes events.
    """
    now = env.clock()
    by_table = {report.table: report for report in reports}
    specs = [spec for spec in specs if spec.name in by_table]
    tables = tuple(_measured(env, specs, by_table, now))
    events = [event for spec in specs for event in _events(Table(env, spec), by_table[spec.name], lineage_job)] if lineage_job is not None else []
    for sink in sinks:
        try:
            sink(Measured(now, tables, tuple(events)))
        except CompactorError as error:
            log.warning("metrics: %s", error)


def _measured(env: Environment, specs: Sequence[TableSpec], reports: dict[str, TableReport], now: float) -> Iterator[TableMeasures]:
    for spec in specs:
        report, current = reports[spec.name], None
        try:
            current = status(Table(env, spec))
        except CompactorError as error:
            log.warning("%s: the state of the table was not measured: %s", spec.name, error)
        values = tuple(of_table(spec.name, current, report.outcome, report.record, now))
        yield TableMeasures(spec.name, values, report.record)


def _events(table: Table, report: TableReport, job: str | None) -> list[dict[str, object]]:
    if report.record is None or job is None:
        return []
    try:
        return lineage.events(report.record, table.spec, table.newest(), job)
    except CompactorError as error:
        log.warning("%s: no lineage of this run: %s", table.name, error)
        return []
