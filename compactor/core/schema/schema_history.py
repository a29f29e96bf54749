"""Schema history: how a table's stored schema changed from Snapshot to Snapshot, and how the registry's newest schema would change it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import TO_STRING
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.plain import Plain
from compactor.core.schema import nested_types
from compactor.core.schema.evolution import evolve
from compactor.core.schema.policy import Change, Decision
from compactor.core.schema.writer import from_avro

FAR = 1 << 62
"""An epoch after all others. The registry's newest schema is newer than every row."""


@dataclass(frozen=True)
class Step(Plain):
    """A Snapshot whose schema differs from its parent's."""

    version: int
    time: str
    generation: int
    registered: tuple[str, int, int | None] | None
    changes: tuple[Change, ...]


def steps(history: Iterable[Snapshot]) -> list[Step]:
    """Return the Snapshots that changed the schema, newest first. Version 1 adds every column.

    `history`: Snapshots, newest first. A stub without columns has those of the version after it.
    """
    snapshots: list[Snapshot] = []
    for snapshot in history:
        snapshots.append(snapshot.with_columns(snapshots[-1] if snapshots else None))
    result = []
    for snapshot, parent in zip(snapshots, [*snapshots[1:], None]):
        schema = snapshot.schema
        # only version 1 has no parent; older versions may have expired
        before = parent.schema if parent else Schema((), schema.key, schema.generation) if snapshot.parent is None else schema
        changes = tuple(differences(before, schema))
        if changes or (schema.generation, schema.registered) != (before.generation, before.registered):
            result.append(Step(snapshot.version, snapshot.time, schema.generation, schema.registered, changes))
    return result


def differences(before: Schema, after: Schema) -> list[Change]:
    """Return the differences between two stored schemas of one table, in the order of the newer one's columns."""
    old = {field.name: field for field in before.fields}
    changes: list[Change] = []
    for field in after.fields:
        same = old.get(field.name)
        if same is None:
            rival = next((other for other in before.fields if other.source == field.source and other.visible), None)
            if rival is not None and field.visible:
                changes.append(Change("replaced", field.source, rival.type, field.type))
            elif field.visible:
                older = "null in older rows" if field.default is None else f"older rows read {field.default!r}"
                changes.append(Change("added", field.source, after=field.type, detail=older if old else "from the first rows on"))
            continue
        if same.source != field.source:
            changes.append(Change("renamed", field.source, same.source))
        if same.type != field.type:
            changes += _type_changes(same, field)
        if same.visible and not field.visible and not any(other.source == field.source and other.visible for other in after.fields):
            changes.append(Change("removed", field.source, before=field.type))
        if same.comment != field.comment:
            changes.append(Change("comment", field.source, same.comment or "none", field.comment or "none"))
    return changes


def _type_changes(before: Field, after: Field) -> list[Change]:
    """Return the changes of a column's type, as changes of its members where only those changed."""
    was, now = types.parse(before.type), types.parse(after.type)
    joined, changes = nested_types.joined(was, now, after.source, True, types.ON_REQUEST)
    kind = TO_STRING if now == nested_types.TEXT else "widened"
    return changes if joined == now else [Change(kind, after.source, before.type, after.type)]


def became_text(before: Schema, after: Schema) -> dict[str, str]:
    """Return stored name → type after, of the columns that have text where they had other values before."""
    names = {field.name for field in before.fields}
    pairs = ((before.field(field.name), field) for field in after.fields if field.name in names)
    return {now.name: now.type for was, now in pairs if was.type != now.type and TO_STRING in (change.kind for change in _type_changes(was, now))}


def expected(spec: TableSpec, snapshot: Snapshot) -> tuple[tuple[Decision, ...], Schema | None]:
    """Return the decisions of a run that gets rows of the declared schema (`spec.avro_schema`), and the table's schema after them.

    The schema is None if the run would refuse; the refusals are among the decisions.
    """
    writer = from_avro(str(spec.avro_schema))
    length = max((len(field.last) for field in snapshot.schema.fields if field.last is not None), default=0)
    far = (FAR, *[None] * (length - 1)) if length else None
    try:
        newest = dataclasses.replace(writer, first=far, last=far)
        result = evolve(snapshot.schema, [newest], spec.row_key, snapshot.version + 1, spec.name, spec.policy)
        return result.decisions, result.schema
    except SchemaRefused as error:
        decisions: Sequence[object] = error.decisions
        if not decisions:
            raise
        return tuple(decision for decision in decisions if isinstance(decision, Decision)), None
