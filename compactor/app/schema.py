"""The part of the composition root that is about schemas: asking a registry for keys, showing and announcing what a schema changes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from compactor.core.model.errors import NoRowsYet, Refused, RegistryRefused
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.schema import avro
from compactor.core.schema.diff import Change
from compactor.core.schema.policy import Decision
from compactor.flows.table import Table
from compactor.ports import Registry
from compactor.runtime import with_catalog


def registered_key(registry: Registry, spec: TableSpec) -> tuple[str, ...]:
    """The key columns that the subject beside the table's own names: `<topic>-key` for `<topic>-value`. Raises RegistryRefused, SchemaRefused."""
    subject = str(spec.subject)
    beside = f"{subject[: -len('-value')]}-key" if subject.endswith("-value") else ""
    found = registry.latest(beside) if beside else None
    if found is None:
        why = f"{registry} has no subject {beside}" if beside else f"the subject {subject} does not end in -value"
        raise RegistryRefused(f"table {spec.name}: nothing tells the key: {why}. Say `key: [..]`, or `key: []` when rows have none.")
    return avro.key_fields(found.text)


@dataclass(frozen=True)
class Synced:
    """What `sync` did for one table, or (`applied` False) would do: `statements` in order; `state` in words."""

    table: str
    state: str
    statements: tuple[str, ...]
    applied: bool

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def sync(table: Table, dry_run: bool) -> Synced:
    """Make the catalog hold what this table says. Raises CatalogRefused, NoRowsYet, Unavailable."""
    from compactor.catalog.recorded import RecordedCatalog
    from compactor.flows.publish.sync import sync_table

    recorded = RecordedCatalog(table.catalog(), apply=not dry_run)
    state = sync_table(with_catalog(table, recorded))
    return Synced(table.name, state, tuple(recorded.statements), not dry_run)


@dataclass(frozen=True)
class Foreseen:
    """What a table's declared schema will do. `registry`: every difference from the version that was last used, where both are known;
    `decisions`: what a run would do about the stored columns."""

    table: str
    before: tuple[str, int, int | None] | None
    after: tuple[str, int, int | None] | None
    registry: tuple[Change, ...]
    decisions: tuple[Decision, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        changes, decisions = [one.to_json() for one in self.registry], [one.to_json() for one in self.decisions]
        return {"table": self.table, "before": self.before, "after": self.after, "registry": changes, "decisions": decisions}


def foreseen(table: Table, registry: Registry | None) -> Foreseen:
    """What the declared schema of a table changes. Raises Refused without one, NoRowsYet before the first commit."""
    from compactor.core.schema import diff, schema_history

    if table.spec.avro_schema is None:
        raise Refused(f"table {table.name}: no schema is declared; say `schema: {{subject: ..}}` or the path of an .avsc file")
    snapshot = table.newest()
    if snapshot is None:
        raise NoRowsYet(f"table {table.name}: nothing was committed yet, so there is nothing to compare with")
    used = snapshot.schema.registered
    now = table.spec.registry_version
    changes: list[Change] = []
    if registry is not None and used is not None and now is not None and used != now:
        changes = diff.diff(registry.version(used[0], used[1]).text, table.spec.avro_schema)
    return Foreseen(table.name, used, now, tuple(changes), schema_history.foreseen(table.spec, snapshot))


@dataclass(frozen=True)
class Checked:
    """Whether a schema may come next. `level` is what the subject's versions are held to, `problems` why it would not be taken under it;
    `decisions`: what a run would do about rows of it, () before the table's first commit."""

    table: str
    subject: str
    level: str
    problems: tuple[str, ...]
    decisions: tuple[Decision, ...]

    @property
    def passed(self) -> bool:
        """Whether the registry takes it, and the table goes on with it."""
        return not self.problems and all(decision.action != "refuse" for decision in self.decisions)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        decisions = [one.to_json() for one in self.decisions]
        found = {"table": self.table, "subject": self.subject, "level": self.level, "passed": self.passed}
        return {**found, "problems": list(self.problems), "decisions": decisions}


def checked(table: Table, registry: Registry, text: str) -> Checked:
    """Whether the Avro schema `text` may become the next version of a table's subject. Registers nothing. Raises Refused, SchemaRefused."""
    from compactor.core.schema import schema_history

    if table.spec.subject is None:
        raise Refused(f"table {table.name}: no subject is declared to check against; say `schema: {{subject: ..}}`")
    problems, level = registry.check(table.spec.subject, text), registry.compatibility(table.spec.subject)
    snapshot = table.newest()
    decisions = schema_history.foreseen(dataclasses.replace(table.spec, avro_schema=text), snapshot) if snapshot is not None else ()
    return Checked(table.name, table.spec.subject, level, tuple(problems), decisions)


def announce(table: Table) -> Announced:
    """Tell `notify:` targets what the declared schema of a table will change, before a run uses it; each is told once. Raises NoRowsYet."""
    from compactor.core.schema.schema_history import expected
    from compactor.flows.publish import notices

    if table.spec.avro_schema is None:
        raise Refused(f"table {table.name}: no schema is declared; say `schema: {{subject: ..}}` or the path of an .avsc file")
    snapshot = table.newest()
    if snapshot is None:
        raise NoRowsYet(f"table {table.name}: nothing was committed yet, so there is nothing to compare with")
    decisions, after = expected(table.spec, snapshot)
    notices.notify(table, snapshot, decisions, after)
    return Announced(table.name, bool(decisions) and after is None, tuple(decision.sentence for decision in decisions))


@dataclass(frozen=True)
class Announced:
    """What was told of a table: `refused`: its next run will stop at it."""

    table: str
    refused: bool
    changes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def notify(target: Target, message: Message) -> None:
    """Tell one target. Raises Refused or Unavailable."""
    from compactor.notify import local

    kind, *words = target
    if kind == "log":
        local.to_log(message)
    elif kind == "command":
        local.to_command(words, message)
    elif kind == "sns":
        from compactor.notify.sns import to_sns

        to_sns(words[0], message)
    else:
        from compactor.notify.webhook import address_in, to_webhook

        to_webhook(address_in(words[0]) if kind == "webhook_env" else words[0], message)
