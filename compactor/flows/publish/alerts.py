"""Alerts about tables that need attention, and the message that a table has recovered.

A mark in `_compactor/notices/` remembers that a failure was reported. It is overwritten, not deleted, because who sends alerts need not be allowed to
delete anything. It has no error text, so that it never has to be erased.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from compactor.core.model.errors import CompactorError
from compactor.core.results.notice import Alert
from compactor.flows.publish.notices import notify_all
from compactor.flows.table import Table

log = logging.getLogger(__name__)

FAILED, RECOVERED = "run_failed", "run_recovered"

_AT_ONCE = 8


def alert(table: Table, event: str, reason: str, where: Mapping[str, str]) -> None:
    """Send an alert to the table's `notify:` targets. A failure is remembered, with its DAG."""
    message = Alert(table.name, event, table.env.now(), reason, where)
    notify_all(table, message, f"an alert ({event})")
    if event == FAILED and "dag" in where:
        try:
            _remember(table, {where["dag"]: message.time, **_reported(table)})
        except CompactorError as error:
            # the next tables must get their alerts, too
            log.warning("%s: the alert was sent, but could not be remembered: %s", table.name, error)


def recovered(tables: Sequence[Table], where: Mapping[str, str]) -> list[str]:
    """Report those tables that are up to date again after their failure in the same DAG was reported. Return their names."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [table.name for table, was_reported in zip(tables, pool.map(lambda table: _recovered(table, where), tables)) if was_reported]


def _recovered(table: Table, where: Mapping[str, str]) -> bool:
    before = _reported(table)
    since = before.pop(where["dag"], None)
    if since is None:
        return False
    reason = f"up to date; its first failure was reported at {since}"
    notify_all(table, Alert(table.name, RECOVERED, table.env.now(), reason, where), f"an alert ({RECOVERED})")
    # also if a target was not reached, or the others would get the message with every run
    _remember(table, before)
    return True


def _remember(table: Table, reported: dict[str, str]) -> None:
    table.storage.write(table.layout.failed(), json.dumps(reported).encode())


def _reported(table: Table) -> dict[str, str]:
    """Return the failures that were reported: DAG → time of the first report."""
    try:
        content = json.loads(table.storage.read(table.layout.failed()))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
