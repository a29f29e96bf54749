"""How a table's stored schema went from Snapshot to Snapshot, and what a registry's newest would do to it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema import nested_types
from compactor.core.schema.diff import Change
from compactor.core.schema.evolution import evolve
from compactor.core.schema.policy import Decision
from compactor.core.schema.writer import from_avro

FAR = 1 << 62
"""An epoch after every one there is: what the registry has now is newer than every row."""


@dataclass(frozen=True)
class Step:
    """A Snapshot whose schema is not its parent's. `registered` as in Schema; `generation` counts rewritten types."""

    version: int
    time: str
    generation: int
    registered: tuple[str, int, int | None] | None
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = dataclasses.asdict(self)
        return {**values, "registered": list(self.registered) if self.registered else None, "changes": [one.to_json() for one in self.changes]}


def steps(history: Iterable[Snapshot]) -> list[Step]:
    """Out of Snapshots, newest first, those that changed the schema, newest first; the first of all brought every column."""
    found = []
    newer: Snapshot | None = None
    for snapshot in history:
        if newer is not None:
            found += _step(newer, snapshot.schema)
        newer = snapshot
    if newer is not None:
        # the first of all; older ones may be gone
        found += _step(newer, Schema((), newer.schema.key, newer.schema.generation)) if newer.parent is None else []
    return found


def _step(snapshot: Snapshot, before: Schema) -> list[Step]:
    schema = snapshot.schema
    changes = differences(before, schema)
    if not changes and (schema.generation, schema.registered) == (before.generation, before.registered):
        return []
    return [Step(snapshot.version, snapshot.time, schema.generation, schema.registered, tuple(changes))]


def differences(before: Schema, after: Schema) -> list[Change]:
    """What differs between two stored schemas of one table, in the order of the newer one's columns."""
    old = {field.name: field for field in before.fields}
    found: list[Change] = []
    for field in after.fields:
        known = old.get(field.name)
        if known is None:
            rival = next((other for other in before.fields if other.source == field.source and other.visible), None)
            if rival is not None and field.visible:
                found.append(Change("replaced", field.source, rival.type, field.type))
            else:
                found.append(Change("added", field.source, after=field.type, detail=_older(field) if old else "from the first rows on"))
            continue
        if known.source != field.source:
            found.append(Change("renamed", field.source, known.source))
        if known.type != field.type:
            found += _grown(known, field)
        if known.visible and not field.visible and not any(other.source == field.source and other.visible for other in after.fields):
            found.append(Change("removed", field.source, before=field.type))
        if known.comment != field.comment:
            found.append(Change("comment", field.source, known.comment or "none", field.comment or "none"))
    return found


def _grown(known: Field, field: Field) -> list[Change]:
    """What makes a column's type another one, inside it where the change is there."""
    told: list[Change] = []
    was, now = types.parse(known.type), types.parse(field.type)

    def follows(change: Change) -> bool:
        told.append(change)
        return True

    joined = nested_types.joined(was, now, field.source, False, types.ON_REQUEST, follows)
    return told if joined == now else [Change("widened", field.source, known.type, field.type)]


def _older(field: Field) -> str:
    return "null in older rows" if field.default is None else f"older rows read {field.default!r}"


def foreseen(spec: TableSpec, snapshot: Snapshot) -> tuple[Decision, ...]:
    """What a run would do about rows of the declared schema (`spec.avro_schema`), refusals included."""
    return expected(spec, snapshot)[0]


def expected(spec: TableSpec, snapshot: Snapshot) -> tuple[tuple[Decision, ...], Schema | None]:
    """The same, and the schema that would follow; None where the run would refuse."""
    writer = from_avro(str(spec.avro_schema))
    length = max((len(field.last) for field in snapshot.schema.fields if field.last is not None), default=0)
    far = (FAR, *[None] * (length - 1)) if length else None
    try:
        found = evolve(snapshot.schema, [dataclasses.replace(writer, first=far, last=far)], spec.key, snapshot.version + 1, spec.name, spec.policy)
        return found.decisions, found.schema
    except SchemaRefused as error:
        told: Sequence[object] = error.decisions
        if not told:
            raise
        return tuple(decision for decision in told if isinstance(decision, Decision)), None
