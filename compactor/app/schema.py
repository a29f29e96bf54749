"""Schemas for an App: synchronise the catalog, and show what a declared schema changes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from compactor.catalog.recorded import RecordedCatalog
from compactor.core.model.errors import Refused
from compactor.core.results.plain import Plain
from compactor.core.schema.policy import Decision
from compactor.core.schema.schema_history import expected
from compactor.flows.publish import audit, notices
from compactor.flows.publish.sync import sync_table
from compactor.flows.table import Table
from compactor.ports import Registry
from compactor.runtime import with_catalog


@dataclass(frozen=True)
class Synced(Plain):
    """What `compactor publish` did for one table."""

    table: str
    state: str
    """The state of the table's view, as a sentence."""
    statements: tuple[str, ...]
    applied: bool
    """Whether the statements were run; False after a dry run."""


def sync(table: Table, dry_run: bool, accept: bool = False) -> Synced:
    """Create or alter a table's database, tables and view. `accept`: show what `checks:` have blocked.

    Raises CatalogRefused, CheckFailed, NoRowsYet, Unavailable.
    """
    newest, notes = table.newest(), ""
    if newest is not None and not dry_run and table.spec.rules and (accept or audit.blocked(table, newest)):
        failures = (audit.accept(table, newest) if accept else audit.again(table, newest)).failures
        notes = f", although: {'; '.join(failures)}" if accept and failures else ""
    recorded = RecordedCatalog(table.catalog(), apply=not dry_run)
    state = sync_table(with_catalog(table, recorded, applied=not dry_run), applied=not dry_run)
    return Synced(table.name, state + notes, tuple(recorded.statements), not dry_run)


@dataclass(frozen=True)
class SchemaReport(Plain):
    """What a schema changes in a table."""

    also = ("refused",)

    table: str
    before: tuple[str, int, int | None] | None
    """(subject, version, id) of the schema that the newest Snapshot used; None if it was not from a registry."""
    after: tuple[str, int, int | None] | None
    """The same of the declared schema; None if it is a file."""
    decisions: tuple[Decision, ...]
    """What a run would do about the stored columns; empty before the table's first commit."""
    level: str = ""
    """The compatibility level of the subject, if a schema was given that is to come."""
    problems: tuple[str, ...] = ()
    """Why the registry would reject that schema."""

    @property
    def refused(self) -> bool:
        """Whether the registry would reject the schema, or a run would stop at it."""
        return bool(self.problems) or any(decision.action == "refuse" for decision in self.decisions)


def schema_report(table: Table, registry: Registry | None, next_schema: str | None = None, notify: bool = False) -> SchemaReport:
    """Compare a table's declared schema, or an Avro schema that is to be its subject's next version, with the stored columns. Registers nothing.

    `notify`: send the changes to the targets of `notify:`, each once. Raises Refused without a declared schema or subject, SchemaRefused, and
    NoRowsYet before the first commit.
    """
    spec, snapshot = table.spec, table.newest()
    level, problems = "", list[str]()
    if next_schema is not None:
        if spec.subject is None or registry is None:
            raise Refused(f"table {table.name}: no subject is declared to check against; set `schema: {{subject: ..}}`")
        problems, level = registry.check(spec.subject, next_schema), registry.compatibility(spec.subject)
        spec = dataclasses.replace(spec, avro_schema=next_schema)
    elif spec.avro_schema is None:
        raise Refused(f"table {table.name}: no schema is declared; set `schema: {{subject: ..}}` or the path of an .avsc file")
    elif snapshot is None:
        raise table.no_version()
    decisions, after = expected(spec, snapshot) if snapshot else ((), None)
    if notify and snapshot:
        notices.notify(table, snapshot, decisions, after)
    used = snapshot.schema.registered if snapshot else None
    return SchemaReport(table.name, used, None if next_schema else spec.registry_version, decisions, level, tuple(problems))
