"""Audit: decide before a publication whether a version may be shown (`checks:`). A table without rules costs nothing here.

_compactor/audit.json     the verdict on the newest version that was audited, and whether an operator has accepted it

What a crash leaves: no verdict, and the next publication audits again.
"""

from __future__ import annotations

import dataclasses

from compactor.core.model.edit import SAME_ROWS
from compactor.core.model.errors import CheckFailed
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import audit as rules
from compactor.core.planning.audit import Audit
from compactor.core.planning.retention import is_pending_deletion
from compactor.flows.publish import shown
from compactor.flows.table import Table


class Blocked(CheckFailed):
    """A committed version that readers do not see, because a rule of `checks:` does not hold for it. They see the version before."""

    advice = """Look at the rows that the message counts. If the source was wrong, let it send the repaired rows and run again: the next version is
        audited anew. If the rows are right, `compactor publish TABLE --accept` shows them; correct the rule.
        [How checks work](operations.md#keep-wrong-rows-from-readers)."""


def check(table: Table, snapshot: Snapshot) -> None:
    """Raise Blocked if `snapshot` must not be shown. Audits it unless its rows were audited before."""
    if not table.spec.rules:
        return
    verdict = _verdict(table, snapshot) or _audit(table, snapshot)
    if not verdict.shows:
        raise Blocked(_message(table, verdict))


def blocked(table: Table, snapshot: Snapshot) -> str | None:
    """Return why the audited version `snapshot` is not shown, or None. Starts no engine."""
    verdict = _verdict(table, snapshot) if table.spec.rules else None
    return None if verdict is None or verdict.shows else _message(table, verdict)


def last_shown(table: Table, snapshot: Snapshot) -> Snapshot | None:
    """Return the version that readers see while `snapshot` is the newest: itself, or the one before if it was blocked and is not shown yet, whatever
    the rules are now. None if they see none, or if it is not kept. Asks no catalog.
    """
    stored, version = _stored(table), shown.remembered(table).version
    if version >= snapshot.version or stored is None or stored.shows or not _is_about(table, stored, snapshot):
        return snapshot
    before = table.snapshot(version) if version else None
    return None if before is None or before.expired or is_pending_deletion(before, table.layout, snapshot) else before


def accept(table: Table, snapshot: Snapshot) -> Audit:
    """Allow readers to see `snapshot` although rules do not hold for it. Return the verdict."""
    verdict = _verdict(table, snapshot) or _audit(table, snapshot)
    if verdict.shows:
        return verdict
    return _store(table, dataclasses.replace(verdict, version=snapshot.version, accepted=True, passed_rows=verdict.rows))


def again(table: Table, snapshot: Snapshot) -> Audit:
    """Audit `snapshot`, also if there is a verdict: its rules may read other tables or the time."""
    return _audit(table, snapshot)


def _message(table: Table, verdict: Audit) -> str:
    return (
        f"table {table.name}: version {verdict.version} is committed and not shown; readers see the version before. {'; '.join(verdict.failures)}. "
        f"The next version is audited again. `compactor publish {table.name}` audits this one again, with --accept it shows it as it is."
    )


def _audit(table: Table, snapshot: Snapshot) -> Audit:
    counted = table.engine().audit(table.spec, snapshot, rules.measured(table.spec.rules))
    stored = _stored(table)
    before = stored.passed_rows if stored is not None else None
    failures = rules.failures(table.spec.rules, counted, before, snapshot.source_time, table.env.clock())
    stored = _stored(table)
    # an operator may have accepted it while the engine counted
    accepted = stored is not None and stored.accepted and stored.version == snapshot.version
    passed = counted.rows if accepted or not failures else before
    return _store(table, Audit(snapshot.version, rules.digest(table.spec.rules), failures, counted.rows, accepted, passed))


def _verdict(table: Table, snapshot: Snapshot) -> Audit | None:
    """Return the stored verdict if it is about these rows and these rules."""
    stored = _stored(table)
    if stored is None or stored.digest != rules.digest(table.spec.rules) or not _is_about(table, stored, snapshot):
        return None
    return stored


def _is_about(table: Table, verdict: Audit, snapshot: Snapshot) -> bool:
    """Whether the audited version had the rows of `snapshot`."""
    ancestor: Snapshot | None = snapshot
    while ancestor is not None and ancestor.version > verdict.version:
        ancestor = table.snapshot(ancestor.parent) if ancestor.parent and ancestor.operation in SAME_ROWS else None
    return ancestor is not None and ancestor.version == verdict.version


def _stored(table: Table) -> Audit | None:
    try:
        return Audit.from_bytes(table.storage.read(table.layout.audit()))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        # nothing is lost with it but an acceptance: the version is audited again
        return None


def _store(table: Table, verdict: Audit) -> Audit:
    if not table.env.dry:
        table.storage.write(table.layout.audit(), verdict.to_bytes())
    return verdict
