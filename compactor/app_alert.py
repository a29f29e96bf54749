"""Alerts: tell a table's `notify:` targets that it needs somebody. What goes wrong in telling is logged, and never makes things worse."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from compactor.app_schema import notify
from compactor.core.errors import CompactorError
from compactor.core.notice import Alert
from compactor.core.spec import TableSpec
from compactor.flows.reports import TableStatus

log = logging.getLogger(__name__)


def tell(spec: TableSpec, alert: Alert) -> None:
    """Tell everyone whom the table names."""
    for target in spec.notify:
        try:
            notify(target, alert)
        except CompactorError as error:
            log.warning("table %s: an alert (%s) was not told to %s: %s", alert.table, alert.event, target[0], error)


def lateness(deadline: str, statuses: Sequence[TableStatus]) -> dict[str, str]:
    """Why tables are late whose DAG run is not done after `deadline`, by name: those of which files wait."""
    found = {}
    for item in statuses:
        if item.waiting_files:
            since = f", the oldest of {item.oldest_waiting}" if item.oldest_waiting else ""
            shown = f"version {item.version} of {item.committed}" if item.version is not None else "no version"
            found[item.table] = f"{deadline} after the run was to start {item.waiting_files} files wait in landing{since}; {shown} is shown"
    return found
