"""Measure: the numbers that alarms watch, after a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from compactor.core.model.errors import CompactorError
from compactor.core.model.spec import TableSpec
from compactor.core.results.measures import Measure, TableProgress, measures
from compactor.core.results.reports import TableReport
from compactor.flows.environment import Environment
from compactor.flows.read.status import status
from compactor.flows.table import Table

log = logging.getLogger(__name__)


def measure(env: Environment, specs: Sequence[TableSpec], reports: Sequence[TableReport], send: Callable[[Sequence[Measure]], None]) -> None:
    """Measure these tables and send the measures. Errors are only logged: no run fails because its measures could not be sent."""
    standings = []
    for spec in specs:
        try:
            current = status(Table(env, spec))
        except CompactorError as error:
            log.warning("table %s: not measured: %s", spec.name, error)
            continue
        standings.append(TableProgress(spec.name, current.source_time, current.oldest_waiting, current.quarantined))
    failed = sum(report.outcome in ("failed", "blocked") for report in reports)
    try:
        send([*measures(failed, standings, env.clock())])
    except CompactorError as error:
        log.warning("%s", error)
