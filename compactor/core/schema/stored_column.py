"""Which stored column takes a writer's column: the one of its name, unless the source has removed that one or had not added it yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compactor.core.model import types
from compactor.core.model.position import Position, after, at_or_below, sort_key
from compactor.core.model.schema import Field
from compactor.core.model.spec import ROW_ID
from compactor.core.schema.writer import WriterField, WriterSchema


def of_column(
    fields: Collection[Field],
    column: WriterField,
    writer: WriterSchema,
    others: Sequence[Position | None],
    writers: Sequence[WriterSchema],
    also: Collection[str],
) -> Field | None:
    """Return the stored column that takes a writer's column, None if it is a new one.

    `others`: where some writer, of an earlier run or before this one, had other columns. `writers`: all of this run.
    """
    named = of_source(fields, column.name) or _under_another_name(fields, column, writer)
    if not named:
        return None
    newest = _newest(named)
    if column.marked or newest.undecided:
        return newest
    for field in reversed(named):
        if joined(types.parse(field.type), column, also) == types.parse(field.type):
            return field
    # another guessed type is no reason for a new column: the guess from the next file may differ again
    if column.guessed or joined(types.parse(newest.type), column, also) is not None:
        return newest
    # between this writer and the column's first one, or its last one and this writer, some writer had other columns and not this one
    low = column.name.lower()
    without = [each.first for each in writers if each.whole and low not in (name.lower() for name in each.names)]
    came_later = any(after(position, writer.last) and after(newest.first, position) for position in (*others, *without))
    was_away = any(after(position, newest.last) and at_or_below(position, writer.first) for position in (*others, *without))
    return None if came_later or was_away else newest


def of_nulls(fields: Collection[Field], name: str) -> Field | None:
    """Return the stored column that a writer's column of nulls is; None if no other writer has shown its type."""
    same = [field for field in fields if field.source == name] or [field for field in fields if name in field.formerly]
    return _newest(same) if same else None


def of_source(fields: Collection[Field], name: str) -> list[Field]:
    """Return the columns of a source name. The identity of rows without key is no column of the source."""
    return [field for field in fields if field.source == name and field.name != ROW_ID]


def _under_another_name(fields: Collection[Field], column: WriterField, writer: WriterSchema) -> list[Field]:
    """Return the stored columns that Avro aliases connect with a writer's column, in either direction, or whose name differs in case only.

    The writer must not have both.
    """
    joined = [field for field in fields if column.name in field.formerly or field.source in column.aliases]
    names_ = writer.names
    if not joined and [name.lower() for name in names_].count(column.name.lower()) == 1:
        joined = [field for field in fields if field.source.lower() == column.name.lower()]
    # also one that is hidden: the source may have dropped it, or shown no type of it yet
    return [field for field in joined if field.source not in names_]


def _newest(named: Sequence[Field]) -> Field:
    """Return the column that was written last, of columns with the same source name."""
    return max(named, key=lambda field: sort_key(field.last or ()))


def joined(stored: types.Type, column: WriterField, also: Collection[str]) -> types.Type | None:
    """Return the type that can store both the stored values and the new ones, or None. `also` is that of `types.widest`."""
    return types.widest(stored, column.type, numbers=True, also=also)
