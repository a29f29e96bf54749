"""Types of columns whose own values show none: nulls, empty arrays and objects. Other writers of the batch and the table show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compactor.core.model import types
from compactor.core.schema import nested_types
from compactor.core.schema.writer import WriterField, WriterSchema


def decided(writers: Sequence[WriterSchema], stored: Sequence[WriterField] = ()) -> list[WriterSchema]:
    """Return the writers with types for marks and for undecided columns, taken from other writers and the table.

    If those disagree about a column, it stays undecided: a new column of another type may have the same name.
    """
    writers = _shown(writers, stored)
    candidates = [*stored, *(field for writer in writers for field in writer.fields if field.marked != nested_types.UNDECIDED)]
    kinds: dict[str, set[types.Type]] = {}
    for field in candidates:
        kinds.setdefault(field.name, set()).add(field.type)
    decided_fields = {field.name: field for field in candidates if len(kinds[field.name]) == 1}
    out = []
    for writer in writers:
        added = tuple(decided_fields[name] for name in writer.undecided if name in decided_fields)
        rest = tuple(name for name in writer.undecided if name not in decided_fields)
        out.append(replace(writer, fields=(*writer.fields, *added), undecided=rest))
    return out


def _shown(writers: Sequence[WriterSchema], stored: Sequence[WriterField]) -> list[WriterSchema]:
    """Return the writers with types instead of marks, as other writers or else the table have them. UNDECIDED may stay."""
    shown: dict[str, types.Type | None] = {field.name: nested_types.BLANK for writer in writers for field in writer.fields if field.marked}
    for field in (field for writer in writers for field in writer.fields if field.name in shown):
        kind = shown[field.name]
        shown[field.name] = kind and nested_types.joined(kind, field.marked or field.raw, "", True, ())[0]
    table = {field.name: field.marked or field.raw for field in stored}

    def with_types(field: WriterField) -> WriterField:
        if field.marked is None:
            return field
        kind = field.marked
        for other in (shown[field.name], table.get(field.name)):
            kind = nested_types.shown(kind, other) if other else kind
        raw, undecided = nested_types.unmarked(kind)
        return replace(field, raw=raw, type=types.stored_names(raw), marked=kind if undecided else None)

    return [replace(writer, fields=tuple(map(with_types, writer.fields))) for writer in writers]
