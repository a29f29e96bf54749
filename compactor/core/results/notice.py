"""What people are told: of a change of a source's schema, before its first use (Notice), and of a table that needs somebody (Alert). Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from compactor.core.catalog import ddl_text, views
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.policy import Decision

Target = tuple[str, ...]
"""Who is told: ("log",), ("command", program, argument ..), ("webhook", url), ("webhook_env", variable), ("sns", arn)."""

FORMAT = 1


class Message(Protocol):
    """What a target gets: `subject` in one line, `text` for people, JSON for programs; `urgent`: somebody has to do something."""

    @property
    def subject(self) -> str:
        """One line."""
        ...

    @property
    def text(self) -> str:
        """All of it in words."""
        ...

    @property
    def urgent(self) -> bool:
        """Whether somebody has to do something."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, `text` among them."""
        ...


_EVENTS = {"run_failed": "has failed", "table_late": "is late", "quarantined": "has input in quarantine"}


@dataclass(frozen=True)
class Alert:
    """A table that needs somebody. `event`: `run_failed`, a task of Airflow's that is not tried again; `table_late`, its `deadline` has passed;
    `quarantined`, something waits in quarantine.

    `reason` says why, in the words of the command line; `where` names DAG, run, task and log.
    """

    table: str
    event: str
    time: str
    reason: str
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """One line."""
        return f"{self.table} {_EVENTS[self.event]}"

    @property
    def text(self) -> str:
        """What happened, and where to look."""
        return "\n".join([f"table {self.subject}: {self.reason}", *(f"- {name}: {said}" for name, said in self.where.items())])

    @property
    def urgent(self) -> bool:
        """Always."""
        return True

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `format` counts changes of this shape."""
        return {"format": FORMAT, **dataclasses.asdict(self), "where": dict(self.where), "text": self.text}


@dataclass(frozen=True)
class Notice:
    """One run's changes of one table's schema. `refused`: the table stops at them. `version` is the one that the run makes, or would have.

    `before` and `after` are (subject, version, id) in the registry, where a registry is used. `ddl` changes the tables below the view;
    `objects` are what people may read: `database.name`.
    """

    table: str
    version: int
    time: str
    refused: bool
    decisions: tuple[Decision, ...]
    before: tuple[str, int, int | None] | None = None
    after: tuple[str, int, int | None] | None = None
    ddl: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """One line."""
        return f"{self.table} {'stops at a schema change' if self.refused else 'has a new schema'}"

    @property
    def urgent(self) -> bool:
        """Whether the table stops."""
        return self.refused

    @property
    def text(self) -> str:
        """The notice in words, one change a line."""
        head = f"table {self.table}: its source's schema has changed" + (", and the table stops" if self.refused else f" (version {self.version})")
        return "\n".join([head, *(f"- {decision.sentence}" for decision in self.decisions)])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `format` counts changes of this shape."""
        known = [("subject", "version", "id"), self.before, self.after]
        before, after = (dict(zip(known[0] or (), said)) if said else None for said in known[1:])
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


def of(spec: TableSpec, parent: Snapshot, decisions: Sequence[Decision], after: Schema | None, time: str) -> Notice:
    """The notice of these decisions; `after` is the schema that follows, None when they are refused."""
    registered = spec.registry_version
    parts = ("base", "delta", "incremental")
    live = [f"{spec.database}.{spec.view}_live"] if spec.live_view else []
    objects = (f"{spec.database}.{spec.view}", *live, *(f"{spec.tables_in}.{spec.name}_{part}" for part in parts))
    ddl = () if after is None else tuple(_ddl(spec, parent, after))
    return Notice(spec.name, parent.version + 1, time, after is None, tuple(decisions), parent.schema.registered, registered, ddl, objects)


def _ddl(spec: TableSpec, parent: Snapshot, after: Schema) -> list[str]:
    old, new = views.tables(spec, parent), views.tables(spec, dataclasses.replace(parent, schema=after))
    return [
        statement
        for before, wanted in zip(old, new)
        for statement in (ddl_text.alter_table(before, wanted) if before.name == wanted.name else [ddl_text.create_table(wanted)])
    ]


def digest(parent: Snapshot, decisions: Sequence[Decision]) -> str:
    """A name for what is told, the same for every run that finds it again: the table's life, the changes, and since when a column is gone."""
    lasts = {field.name: field.last for field in parent.schema.fields}
    told = []
    for decision in decisions:
        since = lasts.get(decision.stored) if decision.change.kind == "removed" else None
        told.append([decision.change.to_json(), decision.action, since])
    return hashlib.sha256(json.dumps([parent.uuid, told], default=str).encode()).hexdigest()[:32]
