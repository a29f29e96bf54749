"""Schemas for an App: synchronise the catalog, compare and check declared schemas, and announce what they change."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.schema.diff import Change
from compactor.core.schema.policy import Decision
from compactor.flows.table import Table
from compactor.ports import Registry
from compactor.runtime import with_catalog


@dataclass(frozen=True)
class Synced:
    """What `compactor publish` did for one table."""

    table: str
    """The table's name."""
    state: str
    """The state of the table's view, as a sentence."""
    statements: tuple[str, ...]
    """The statements, in order."""
    applied: bool
    """Whether the statements were run; False after a dry run."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dataclasses.asdict(self)


def sync(table: Table, dry_run: bool, accept: bool = False) -> Synced:
    """Create or alter a table's database, tables and view. `accept`: show what `checks:` have blocked.

    Raises CatalogRefused, CheckFailed, NoRowsYet, Unavailable.
    """
    from compactor.catalog.recorded import RecordedCatalog
    from compactor.flows.publish import audit
    from compactor.flows.publish.sync import sync_table

    newest, notes = table.newest(), ""
    if newest is not None and not dry_run and table.spec.rules and (accept or audit.blocked(table, newest)):
        failures = (audit.accept(table, newest) if accept else audit.again(table, newest)).failures
        notes = f", although: {'; '.join(failures)}" if accept and failures else ""
    recorded = RecordedCatalog(table.catalog(), apply=not dry_run)
    state = sync_table(with_catalog(table, recorded, applied=not dry_run), applied=not dry_run)
    return Synced(table.name, state + notes, tuple(recorded.statements), not dry_run)


@dataclass(frozen=True)
class SchemaDiff:
    """What a table's declared schema changes."""

    table: str
    """The table's name."""
    before: tuple[str, int, int | None] | None
    """(subject, version, id) of the registered schema that the newest Snapshot used; None if it was not from a registry."""
    after: tuple[str, int, int | None] | None
    """The same of the declared schema."""
    registry: tuple[Change, ...]
    """Every difference between the two registered schemas."""
    decisions: tuple[Decision, ...]
    """What a run would do about the stored columns."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        changes, decisions = [change.to_json() for change in self.registry], [decision.to_json() for decision in self.decisions]
        return {"table": self.table, "before": self.before, "after": self.after, "registry": changes, "decisions": decisions}


def _newest_with_declared_schema(table: Table) -> Snapshot:
    """Return the newest Snapshot of a table that declares a schema. Raises Refused if it declares none, NoRowsYet without a Snapshot."""
    if table.spec.avro_schema is None:
        raise Refused(f"table {table.name}: no schema is declared; set `schema: {{subject: ..}}` or the path of an .avsc file")
    snapshot = table.newest()
    if snapshot is None:
        raise table.no_version()
    return snapshot


def diff_schema(table: Table, registry: Registry | None) -> SchemaDiff:
    """Compare the declared schema of a table with the stored one. Raises Refused without a declared schema, NoRowsYet before the first commit."""
    from compactor.core.schema import diff, schema_history

    snapshot = _newest_with_declared_schema(table)
    used, declared = snapshot.schema.registered, table.spec.registry_version
    changes: list[Change] = []
    if registry is not None and used is not None and declared is not None and used != declared:
        changes = diff.diff(registry.version(used[0], used[1]).text, str(table.spec.avro_schema))
    return SchemaDiff(table.name, used, declared, tuple(changes), schema_history.foreseen(table.spec, snapshot))


@dataclass(frozen=True)
class SchemaCheck:
    """Whether a schema can be the next one of a table."""

    table: str
    """The table's name."""
    subject: str
    """The table's subject in the registry."""
    level: str
    """The compatibility level of the subject."""
    problems: tuple[str, ...]
    """Why the registry would reject the schema; empty if it would accept it."""
    decisions: tuple[Decision, ...]
    """What a run would do about the stored columns; empty before the table's first commit."""

    @property
    def passed(self) -> bool:
        """Whether the registry accepts the schema and the table continues with it."""
        return not self.problems and all(decision.action != "refuse" for decision in self.decisions)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        decisions = [decision.to_json() for decision in self.decisions]
        plain = {"table": self.table, "subject": self.subject, "level": self.level, "passed": self.passed}
        return {**plain, "problems": list(self.problems), "decisions": decisions}


def check_schema(table: Table, registry: Registry, text: str) -> SchemaCheck:
    """Check whether the Avro schema `text` can be the next version of a table's subject. Registers nothing. Raises Refused, SchemaRefused."""
    from compactor.core.schema import schema_history

    if table.spec.subject is None:
        raise Refused(f"table {table.name}: no subject is declared to check against; set `schema: {{subject: ..}}`")
    problems, level = registry.check(table.spec.subject, text), registry.compatibility(table.spec.subject)
    snapshot = table.newest()
    decisions = schema_history.foreseen(dataclasses.replace(table.spec, avro_schema=text), snapshot) if snapshot is not None else ()
    return SchemaCheck(table.name, table.spec.subject, level, tuple(problems), decisions)


@dataclass(frozen=True)
class Announced:
    """The changes of a declared schema that the targets of `notify:` were notified about."""

    table: str
    """The table's name."""
    refused: bool
    """Whether the table's next run will stop at the schema."""
    changes: tuple[str, ...]
    """One sentence a change."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dataclasses.asdict(self)


def announce(table: Table) -> Announced:
    """Notify the targets of `notify:` about the changes of a table's declared schema, each target once.

    Raises Refused without a declared schema, NoRowsYet before the first commit.
    """
    from compactor.core.schema.schema_history import expected
    from compactor.flows.publish import notices

    snapshot = _newest_with_declared_schema(table)
    decisions, after = expected(table.spec, snapshot)
    notices.notify(table, snapshot, decisions, after)
    return Announced(table.name, bool(decisions) and after is None, tuple(decision.sentence for decision in decisions))
