"""Measure: the values of all measures after a run, for every sink that is configured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from compactor.core.model.errors import CompactorError
from compactor.core.model.spec import TableSpec
from compactor.core.results.measures import TableMeasures, of_table
from compactor.core.results.record import TableReport
from compactor.flows.environment import Environment
from compactor.flows.read.status import status
from compactor.flows.table import Table

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
