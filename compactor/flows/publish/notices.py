"""Tell `notify:` targets about schema changes, before the first use of the new schema: the Snapshot that brings it is not yet written.

Each is told once: a mark in `_compactor/notices/` is written after the telling, so a crash between the two tells it again and never not at
all. A target that cannot be reached does not hold up the table: it is logged, and told again when another run finds the same.
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


def tell(table: Table, parent: Snapshot | None, decisions: Sequence[object], after: Schema | None) -> None:
    """Tell of these Decisions; `after` None: they are refused."""
    known = tuple(decision for decision in decisions if isinstance(decision, Decision))
    if parent is None or not known or not table.spec.notify:
        return
    mark = table.layout.notice(notice.digest(parent, known))
    if table.storage.stat(mark) is not None:
        return
    told = notice.of(table.spec, parent, known, after, table.env.now())
    if everybody(table, told, "a schema change"):
        table.storage.write(mark, json.dumps(told.to_json(), indent=1, ensure_ascii=False).encode())


def everybody(table: Table, message: notice.Message, what: str) -> bool:
    """Tell each target of the table; whether all were reached. One that is not is logged, as `what`, and harms nothing."""
    reached = True
    for target in table.spec.notify:
        try:
            table.env.notify(target, message)
        except CompactorError as error:
            reached = False
            log.warning("table %s: %s was not told to %s: %s", table.name, what, target[0], error)
    return reached
