"""transact: the only way to change a table. It commits the Edit that a verb plans, and plans again after a lost race.

What a crash leaves: before the put, data directories and a ledger file that no Snapshot names (garbage for vacuum); after it, a commit that
stands. Publishing and archiving work from the stored Snapshot alone.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Optional

from compactor.core.catalog.daily_views import form
from compactor.core.model import times
from compactor.core.model.edit import Edit, Stamp, apply, unmet
from compactor.core.model.errors import CheckFailed, Conflict, InconsistentRead, RequirementFailed, TryLater
from compactor.core.model.snapshot import Day, Days, Snapshot
from compactor.core.planning import daily
from compactor.core.planning.compaction import tiling_problem
from compactor.core.results.phrases import counted
from compactor.flows import ledger, logs, owner
from compactor.flows.publish import audit
from compactor.flows.table import Table

log = logging.getLogger(__name__)

ATTEMPTS = 5
"""How often a verb plans within one call."""

Plan = Callable[[Optional[Snapshot], ExitStack], Optional[Edit]]
"""(newest Snapshot, stack that is closed after the put) → the Edit to commit, or None if there is nothing to do."""


def transact(table: Table, plan: Plan, moved: Callable[[], bool] = lambda: False, newest: Snapshot | None = None) -> Snapshot | None:
    """Commit what `plan` returns on top of the newest Snapshot. Return the new Snapshot, or None if there is nothing to do.

    `newest`: the newest Snapshot, if the caller has just read it. An outdated one costs an attempt.

    `plan` is called again when another writer commits first, and when it fails on ground that moved meanwhile: a newer version exists (its run
    may have archived the files that were being read, or vacuumed them), or `moved` returns True. Any other error is raised as it is.
    Raises Conflict after `ATTEMPTS` attempts, RequirementFailed when the newest Snapshot does not meet what the Edit requires.
    """
    last: Exception | None = None
    for attempt in range(ATTEMPTS):
        parent = newest if attempt == 0 and newest is not None else table.newest()
        logs.at_version(parent.version if parent else None)
        with ExitStack() as scratch:
            try:
                edit = plan(parent, scratch)
                if edit is None:
                    return None
                owner.check(table)
                _check(table, parent, edit, planned_before=attempt > 0)
                stamp = _stamp(table)
                edit = dataclasses.replace(edit, days=days_after(table, parent, edit, stamp.time))
                made = apply(parent, edit, stamp, ledger.carried(table, parent, edit.writer, edit.erased is not None))
                put(table, made)
                logs.at_version(made.version)
                figures = {"operation": made.operation, "rows": made.rows, "bytes": made.size}
                text = f"committed version {made.version} ({made.operation}), {counted(made.rows, 'row')}"
                log.info("%s: %s", table.name, text, extra={logs.FIELDS: figures})
                return made
            except RequirementFailed:
                raise
            except Conflict as error:
                last = error
            except Exception as error:
                if isinstance(error, TryLater) and not isinstance(error, InconsistentRead):
                    raise
                if not table.superseded_since(parent) and not moved():
                    raise
                last = error
    raise Conflict(
        f"table {table.name}: {ATTEMPTS} attempts lost to other writers, or to files that changed while they were read. Run again. The last "
        f"error: {last}"
    ) from last


def days_after(table: Table, parent: Snapshot | None, edit: Edit | None, time: str) -> Days | None:
    """Return the frozen days of a version made at a time: those of `edit`, else of `parent`, and those that ended since `parent`."""
    if parent is None:
        return () if table.spec.daily else None
    before = edit.days if edit is not None and edit.days is not None else parent.days
    if table.spec.daily is None or (edit is not None and edit.erased is not None):
        # all days have the rows that are erased now, also one that ended with the parent
        return daily.given_up(before)
    since, until = times.parse(parent.time), times.parse(time)
    last = audit.last_shown(table, parent) if any(daily.ended(table.spec.daily, since, until)) else None
    return daily.after(before, table.spec.daily, Day("", last.version, form(last)) if last else None, since, until)


def preview(table: Table, parent: Snapshot | None, edit: Edit) -> Snapshot:
    """Return the Snapshot that `edit` would make. Its data can be read and compared before it is committed."""
    return apply(parent, edit, _stamp(table))


def _stamp(table: Table) -> Stamp:
    return Stamp(table.name, str(uuid.uuid4()), table.label, table.env.now())


def put(table: Table, snapshot: Snapshot) -> None:
    """Create the Snapshot's object if its name is free: the commit point.

    A put that seemed to fail but took effect is recognised by its bytes, which contain the attempt's random id. Raises Conflict when another
    writer has the version, CheckFailed when the segments do not tile the keys or the Snapshot names what vacuum has given up.
    """
    problem = tiling_problem(snapshot.segments)
    if problem:
        raise CheckFailed(f"table {table.name}: the segments of version {snapshot.version} do not tile the keys: {problem}. Nothing was committed.")
    part = snapshot.feed.part if snapshot.feed else None
    given_up = {*snapshot.named, *([part.path] if part else [])} & {item.path for item in snapshot.pending_deletions}
    if given_up:
        raise CheckFailed(f"table {table.name}: version {snapshot.version} names {min(given_up)}, which vacuum has given up. Nothing was committed.")
    data = snapshot.to_bytes()
    path = table.layout.snapshot(snapshot.version)
    if not table.storage.put_if_absent(path, data) and table.storage.read(path) != data:
        raise Conflict(f"table {table.name}: another writer committed version {snapshot.version} first")
    table.storage.write(table.layout.hint(), str(snapshot.version).encode())


def _check(table: Table, parent: Snapshot | None, edit: Edit, planned_before: bool) -> None:
    """Raises RequirementFailed if `edit` must not be applied to `parent`."""
    problem = unmet(edit.requires, parent)
    if problem is None and planned_before and parent is not None and edit.files and not table.files_exist(parent, edit.files):
        problem = "expected the files that were written for it, found that vacuum has taken them for orphans"
    if problem is not None:
        raise RequirementFailed(f"table {table.name}: {edit.operation} cannot be committed on version {parent.version if parent else 0}: {problem}")


def days_end(table: Table, snapshot: Snapshot) -> bool:
    """Return whether days ended after `snapshot`, or its days are not those of the settings."""
    return days_after(table, snapshot, None, table.env.now()) != snapshot.days


def freeze(table: Table, newest: Snapshot) -> Snapshot | None:
    """Commit a version with the days that ended; None if there is nothing to do. Raises Conflict as `transact` does."""

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if parent is None or not days_end(table, parent):
            return None
        return Edit("daily", table.next_commit(parent))

    return transact(table, planned) if days_end(table, newest) else None
