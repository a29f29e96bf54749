"""Notify `notify:` targets of schema changes before the new schema is first used (its Snapshot is not written yet), of tables that need attention,
and of their recovery.

Each change is sent once: a mark in `_compactor/notices/` is written after sending, so a crash in between sends it twice rather than never.
A target that cannot be reached does not stop the table: the failure is logged, and the next run that sees the same change sends it again.

A mark there also remembers that a failure was reported. It is overwritten, not deleted, because who sends alerts need not be allowed to delete
anything. It has no error text, so that it never has to be erased.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from compactor.core.model.errors import CompactorError
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.parallel import in_parallel
from compactor.core.results import notice
from compactor.core.results.notice import Alert
from compactor.core.schema.policy import Decision
from compactor.flows.table import Table

log = logging.getLogger(__name__)


def notify(table: Table, parent: Snapshot | None, decisions: Sequence[object], after: Schema | None) -> None:
    """Notify the targets of these Decisions. `after` is None if they are refused."""
    changes = tuple(decision for decision in decisions if isinstance(decision, Decision))
    if parent is None or not changes or not table.spec.notify:
        return
    mark = table.layout.notice(notice.digest(parent, changes))
    if table.storage.stat(mark) is not None:
        return
    message = notice.of(table.spec, parent, changes, after, table.env.now())
    if notify_all(table, message, "a schema change"):
        table.storage.write(mark, json.dumps(message.to_json(), indent=1, ensure_ascii=False).encode())


def notify_all(table: Table, message: notice.Message, what: str) -> bool:
    """Send a message to each target of the table. Return whether all were reached. An unreachable target is logged as `what`."""
    reached = True
    for target in table.spec.notify:
        try:
            table.env.notify(target, message)
        except CompactorError as error:
            reached = False
            log.warning("%s: could not send %s to %s: %s", table.name, what, target[0], error)
    return reached


FAILED, RECOVERED = "run_failed", "run_recovered"


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
    reported = in_parallel(lambda table: _recovered(table, where), tables)
    return [table.name for table, was_reported in zip(tables, reported) if was_reported]


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
