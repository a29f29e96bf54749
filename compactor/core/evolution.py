"""How a table's schema follows its writers: one pure function, `evolve`.

Rules, in the order in which they are tried for one writer's column and the stored column of the same source name:

| writer says | stored column | result |
|---|---|---|
| a name never seen | - | added; rows of older writers read the default it came with (H15) |
| the same type, or one that fits | as it is | as it is |
| a wider type (int → bigint, decimal digits up, float → double, struct members added) | widened: a new generation (H14) |
| two scalars with no common number type (boolean → text) | widened to string: a new generation |
| another type (not a guessed one), after the column was away or before it existed | a new column; the newest of one source name is shown under it |
| arrays of another depth (`integer[]` may hold `{1}` and `{{1}}`) | widened to string, as JSON: a new generation |
| anything else (struct → array) | refused; increments stay in landing |
| nothing (column gone) | kept, null in new rows |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core import names, types
from compactor.core.errors import SchemaRefused
from compactor.core.position import Position, at_or_below, latest
from compactor.core.schema import RESERVED, Field, Schema
from compactor.core.spec import ROW_ID
from compactor.core.writer import WriterField, WriterSchema


@dataclass(frozen=True)
class Evolved:
    """The schema after these writers; `columns` maps writer id → {source name: stored name}; `retyped` and `added` name stored columns."""

    schema: Schema
    columns: dict[str, dict[str, str]]
    retyped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def evolve(schema: Schema | None, writers: Sequence[WriterSchema], key: Sequence[str], version: int, table: str) -> Evolved:
    """The stored schema that holds what all `writers` wrote. `key` is in the source's spelling; `version` is the one being made.

    Raises SchemaRefused naming table, column, what was expected and found.
    """
    fields: list[Field] = list(schema.fields) if schema else [] if key else [Field(ROW_ID, ROW_ID, "string", visible=False)]
    retyped: list[str] = []
    columns: dict[str, dict[str, str]] = {}
    # within a run the newest writer decides what a name means; _first sorts unknown Positions first
    for writer in sorted(writers, key=lambda w: (w.first is not None, [(v is not None, v or 0) for v in w.first or ()])):
        columns[writer.id] = {}
        written = [field.last for field in fields]
        for column in writer.fields:
            at = _owner(fields, column, writer, written)
            if at is None:
                fields.append(_new(fields, column, writer, version))
                at = len(fields) - 1
            else:
                followed = _followed(fields[at], column, writer, table, retyped)
                kept = {} if writer.whole else {"first": fields[at].first, "last": fields[at].last, "default": fields[at].default}
                fields[at] = dataclasses.replace(followed, **kept)
            columns[writer.id][column.name] = fields[at].name
        for name in writer.undecided:
            # a column of nulls only tells no type, but it is there
            known = [at for at, field in enumerate(fields) if field.source == name]
            if known:
                fields[_newest(fields, known)] = _seen(fields[_newest(fields, known)], writer)
    before = {field.name for field in schema.fields} if schema else set()
    changed = tuple(name for name in dict.fromkeys(retyped) if name in before)
    generation = (schema.generation if schema else 1) + (1 if changed else 0)
    stored_key = (ROW_ID,) if not key else tuple(_key_column(fields, name, table) for name in key)
    if schema and {*stored_key} != {*schema.key}:
        was, now = (", ".join(key_) if key_ != (ROW_ID,) else "none" for key_ in (schema.key, stored_key))
        raise SchemaRefused(
            f"table {table}: its rows are stored by the key ({was}), and the key is ({now}) now. A key never changes in place: say the old "
            "one with `key:`, or make the table anew under another name, from the archive, with the new key."
        )
    stored_key = schema.key if schema else stored_key
    added = tuple(field.name for field in fields if field.name not in before)
    return Evolved(Schema(tuple(_shown(fields)), stored_key, generation), columns, changed, added)


def _seen(field: Field, writer: WriterSchema) -> Field:
    return dataclasses.replace(field, last=latest([field.last, writer.last]))


def _owner(fields: list[Field], column: WriterField, writer: WriterSchema, written: Sequence[Position | None]) -> int | None:
    named = [at for at, field in enumerate(fields) if field.source == column.name]
    for at in reversed(named):
        if _fits(column.type, types.parse(fields[at].type)):
            return at
    if not named:
        return None
    newest = _newest(fields, named)
    came_later = writer.last is not None and at_or_below(writer.last, fields[newest].first) and writer.last != fields[newest].first
    # some writer after its last one and before this one knew other columns and not this one, in this run or an earlier one
    was_away = any(_between(fields[newest].last, last, writer.first) for last in written)
    joined = types.widest(types.parse(fields[newest].type), column.type)
    # a guess that differs is no other column: the next file may look otherwise again
    return None if joined is None and not column.guessed and (came_later or was_away) else newest


def _newest(fields: list[Field], named: list[int]) -> int:
    """Of the columns that share a source name, the one written last."""
    return max(named, key=lambda at: [(v is not None, v or 0) for v in fields[at].last or ()])


def _between(low: Position | None, position: Position | None, high: Position | None) -> bool:
    return at_or_below(low, position) and not at_or_below(position, low) and at_or_below(position, high)


def _fits(kind: types.Type, stored: types.Type) -> bool:
    return types.widest(kind, stored) == stored


def _new(fields: list[Field], column: WriterField, writer: WriterSchema, version: int) -> Field:
    name = names.unique(names.stored_name(column.name), [*RESERVED, *(field.name for field in fields)])
    return Field(name, column.name, types.text(column.type), version, writer.first, writer.last, column.default, True, names.comment(column.doc))


def _followed(field: Field, column: WriterField, writer: WriterSchema, table: str, retyped: list[str]) -> Field:
    stored = types.parse(field.type)
    joined = types.widest(stored, column.type)
    if joined is None and ((types.is_scalar(stored) and types.is_scalar(column.type)) or _depth(stored) != _depth(column.type) > 0 < _depth(stored)):
        joined = ("string",)
    if joined is None:
        raise SchemaRefused(
            f"table {table}, column {field.source}: stored as {field.type}, the new data has {types.text(column.type)}, and no type holds both. "
            "The increments stay in landing. Repair the producer, or rename the column."
        )
    if joined != stored:
        retyped.append(field.name)
    last = latest([field.last, writer.last])
    earlier = writer.first is not None and at_or_below(writer.first, field.first)
    # an older writer that knows the column moves its beginning back; the default is the one of the beginning
    first, default = (writer.first, column.default) if earlier else (field.first, field.default)
    return dataclasses.replace(field, type=types.text(joined), last=last, first=first, default=default)


def _depth(kind: types.Type) -> int:
    return 1 + _depth(kind[1]) if kind[0] == "array" else 0


def _key_column(fields: list[Field], name: str, table: str) -> str:
    exact = [field.name for field in fields if field.source == name] or [field.name for field in fields if field.source.lower() == name.lower()]
    if not exact:
        known = ", ".join(field.source for field in fields) or "none"
        raise SchemaRefused(f"table {table}: key column {name!r} is not in the data; columns found: {known}. Correct `key:`.")
    kind = next(field.type for field in fields if field.name == exact[0])
    if types.parse(kind)[0] in ("float", "double", "array", "map", "struct"):
        raise SchemaRefused(f"table {table}: key column {name!r} has type {kind}; engines disagree on equality of {kind}. Choose another key.")
    return exact[0]


def _shown(fields: list[Field]) -> list[Field]:
    newest: dict[str, Field] = {}
    for field in fields:
        rival = newest.get(field.source)
        if rival is None or not at_or_below(field.last, rival.last):
            newest[field.source] = field
    return [dataclasses.replace(field, visible=newest[field.source] is field and field.name != ROW_ID) for field in fields]
