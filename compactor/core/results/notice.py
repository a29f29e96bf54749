"""Messages to people: a Notice of a schema change, before the change is first used, and an Alert about a table that needs attention."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from compactor.core.catalog import ddl_text, objects, views
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.policy import Decision

Target = tuple[str, ...]
"""A recipient: ("log",), ("command", program, argument ..), ("webhook", url), ("sns", arn), ("apprise", url ..), or one of IN_VARIABLES with the
variable's name."""

IN_VARIABLES = ("webhook_env", "apprise_env")
"""Kinds of recipients whose addresses are in an environment variable."""

FORMAT = 1

_EVENTS = {"run_failed": "has failed", "table_late": "is late", "quarantined": "has input in quarantine", "run_recovered": "has recovered"}


@dataclass(frozen=True)
class Alert:
    """A table that needs attention, or no longer does."""

    table: str
    event: str
    """`run_failed`: an Airflow task failed and has no retries left. `table_late`: the table's deadline has passed, or nothing has
    landed for longer than usual. `quarantined`: files or records wait in quarantine. `run_recovered`: a run succeeded after `run_failed` was sent."""
    time: str
    """When it happened, ISO 8601."""
    reason: str
    """Why, as the command line reports it."""
    where: Mapping[str, str] = field(default_factory=dict)
    """DAG, run, task and log."""

    @property
    def subject(self) -> str:
        return f"{self.table} {_EVENTS[self.event]}"

    @property
    def text(self) -> str:
        """Return what happened, and where to look."""
        return "\n".join([f"table {self.subject}: {self.reason}", *(f"- {name}: {value}" for name, value in self.where.items())])

    @property
    def urgent(self) -> bool:
        """Return whether somebody has to act; an alert about a recovery needs nobody."""
        return self.event != "run_recovered"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values. `format` is the version of this JSON."""
        return {"format": FORMAT, **dataclasses.asdict(self), "where": dict(self.where), "text": self.text}


@dataclass(frozen=True)
class Notice:
    """The schema changes of one table in one run."""

    table: str
    version: int
    """The version that the run makes, or would have made."""
    time: str
    """When, ISO 8601."""
    refused: bool
    decisions: tuple[Decision, ...]
    """The changes, and what the table does about each."""
    before: tuple[str, int, int | None] | None = None
    """The registered schema before: (subject, version, id or None); None without a registry."""
    after: tuple[str, int, int | None] | None = None
    ddl: tuple[str, ...] = ()
    """Statements that change the tables below the view."""
    objects: tuple[str, ...] = ()
    """Views and tables that readers may use, as `database.name`."""

    @property
    def subject(self) -> str:
        return f"{self.table} {'stops at a schema change' if self.refused else 'has a new schema'}"

    @property
    def urgent(self) -> bool:
        return self.refused

    @property
    def text(self) -> str:
        head = f"table {self.table}: its source's schema has changed" + (", and the table stops" if self.refused else f" (version {self.version})")
        return "\n".join([head, *(f"- {decision.sentence}" for decision in self.decisions)])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values. `format` is the version of this JSON."""
        before, after = (dict(zip(("subject", "version", "id"), schema)) if schema else None for schema in (self.before, self.after))
        return {
            "format": FORMAT,
            "event": "schema_refused" if self.refused else "schema_changed",
            "table": self.table,
            "version": self.version,
            "time": self.time,
            "text": self.text,
            "changes": [decision.to_json() for decision in self.decisions],
            "registry": {"before": before, "after": after},
            "ddl": list(self.ddl),
            "objects": list(self.objects),
        }


Message = Union[Alert, Notice]
"""A message for a target: text for people, JSON for programs."""


def of(spec: TableSpec, parent: Snapshot, decisions: Sequence[Decision], after: Schema | None, time: str) -> Notice:
    """Return the notice for these decisions. `after`: the schema after them; None if they are refused."""
    registered = spec.registry_version
    names = (*objects.views_of(spec), *objects.tables_of(spec))
    ddl = () if after is None else tuple(_ddl(spec, parent, after))
    return Notice(spec.name, parent.version + 1, time, after is None, tuple(decisions), parent.schema.registered, registered, ddl, names)


def _ddl(spec: TableSpec, parent: Snapshot, after: Schema) -> list[str]:
    old, new = views.tables(spec, parent), views.tables(spec, dataclasses.replace(parent, schema=after))
    return [
        statement
        for before, now in zip(old, new)
        for statement in (ddl_text.alter_table(before, now) if before.name == now.name else [ddl_text.create_table(now)])
    ]


def digest(parent: Snapshot, decisions: Sequence[Decision]) -> str:
    """Return a name for the notice that is the same in every run with the same changes, so that people are notified once.

    It depends on the table's uuid, the changes, and the time since a column is gone.
    """
    lasts = {field.name: field.last for field in parent.schema.fields}
    items = []
    for decision in decisions:
        since = lasts.get(decision.stored) if decision.change.kind == "removed" else None
        items.append([decision.change.to_json(), decision.action, since])
    return hashlib.sha256(json.dumps([parent.uuid, items], default=str).encode()).hexdigest()[:32]
