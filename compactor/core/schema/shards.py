"""Shards: sources of one shape whose rows are one table. docs/design/shards.md has the rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.core.model.errors import SchemaRefused
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterField


def stored(spec: TableSpec, schema: Schema) -> str:
    """Return the stored name of the shard's column; "" without shards."""
    return next(field.name for field in schema.fields if field.source == spec.shard) if spec.shard else ""


def columns(spec: TableSpec, fields: Sequence[WriterField]) -> tuple[WriterField, ...]:
    """Return the columns of a writer, after that of the shard if the table has one.

    Raises SchemaRefused if the rows have a column of this name themselves.
    """
    if not spec.shard:
        return tuple(fields)
    if any(field.name == spec.shard for field in fields):
        raise SchemaRefused(
            f"table {spec.name}: the rows have a column {spec.shard} themselves. The increments stay in landing. Give the shard another name in "
            f"`increments:`, such as {{source_{spec.shard}}}."
        )
    # rows older than a column read its default, and rows of two shards are not older or newer
    return (WriterField(spec.shard, ("string",), ("string",)), *(dataclasses.replace(field, default=None) for field in fields))
