"""Notify `notify:` targets of schema changes before the new schema is first used: its Snapshot is not written yet.

Each change is sent once: a mark in `_compactor/notices/` is written after sending, so a crash in between sends it twice rather than never.
A target that cannot be reached does not stop the table: the failure is logged, and the next run that sees the same change sends it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from compactor.core.model.errors import CompactorError
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.results import notice
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
