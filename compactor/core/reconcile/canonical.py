"""Canonical: which columns of the lake and of the source are compared, and as what.

Two systems print the same value differently (`1.50` and `1.5`, `1E10` and `10000000000`). So each compared pair of columns has a form, and both
sides turn a value into the text that the form defines. docs/design/proofs.md lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core.model import types
from compactor.core.model.schema import Field, Schema

_LAKE: dict[str, tuple[str, ...]] = {
    "integer": (*types.INTEGERS, "decimal", "string"),
    "number": (*types.INTEGERS, "decimal", "string"),
    "double": (*types.INTEGERS, "float", "double", "string"),
    "single": ("float", "double", "string"),
    "boolean": ("boolean", "string"),
    "date": ("date", "string"),
    "moment": ("timestamp", "string"),
    "time": ("string",),
    "bytes": ("binary",),
    "uuid": ("string",),
    "padded": ("string",),
    "text": ("string",),
}
"""Form → the stored types (without their parameters) that can be compared in it."""

_INSTEAD = {("number", "float"): "double", ("number", "double"): "double", ("integer", "boolean"): "boolean"}
"""(form, stored type) → the form in which both are compared. MySQL's booleans are numbers."""

_NOT_IN_LAKE = "only the source has it"

_BASE = re.compile(r"[^(\[]+")


@dataclass(frozen=True)
class SourceColumn:
    name: str
    type: str
    """The source's type text, such as `numeric(12,2)`."""
    form: str | None
    """The form in which the source can write it; None if there is none."""


@dataclass(frozen=True)
class Pair:
    """A column that both sides have and that is compared."""

    name: str
    """The name in the view."""
    type: str
    source: str
    """The name in the source."""
    source_type: str
    form: str
    key: bool


@dataclass(frozen=True)
class Columns:
    """The result of pairing the columns of two sides."""

    pairs: tuple[Pair, ...]
    """The compared columns, key columns first."""
    skipped: tuple[tuple[str, str], ...]
    """(column, reason) of the columns that are not compared."""

    @property
    def key(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.key)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of the columns in the view that are not compared."""
        return tuple(name for name, reason in self.skipped if reason != _NOT_IN_LAKE)

    @property
    def ranged(self) -> bool:
        """Return whether both sides store the first key column as a whole number, so that it has ranges. PostgreSQL does not compute with an oid."""
        first = self.key[0]
        return first.form == "integer" and base(first.type) in types.INTEGERS and first.source_type != "oid"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the compared columns in the view."""
        return tuple(pair.name for pair in self.pairs)


def base(type_text: str) -> str:
    """Return a type without its parameters.

    >>> base("decimal(10,2)"), base("timestamp(3) with time zone")
    ('decimal', 'timestamp')
    """
    match = _BASE.match(type_text)
    return match[0].strip() if match else type_text


def pair_columns(lake: Schema, source: Sequence[SourceColumn]) -> Columns:
    """Return which columns are compared, and why the others are not."""
    there = {column.name: column for column in source}
    pairs, skipped = [], []
    # the columns of the key first, in its order
    for column in (*map(lake.field, lake.key), *(field for field in lake.payload if field.name not in lake.key)):
        other, name = there.pop(column.source, None), lake.view_name(column)
        reason = _reason(column, other)
        if other is None or reason or other.form is None:
            skipped.append((name, reason))
            continue
        form = _INSTEAD.get((other.form, base(column.type)), other.form)
        pairs.append(Pair(name, column.type, column.source, other.type, form, column.name in lake.key))
    skipped += [(name, _NOT_IN_LAKE) for name in there]
    return Columns(tuple(pairs), tuple(skipped))


def _reason(column: Field, other: SourceColumn | None) -> str:
    if other is None:
        return "only the lake has it"
    if other.form is None:
        return f"{other.type} has no canonical form"
    if column.protection:
        return f"stored by the rule {column.protection.split()[0]} of `columns:`"
    if base(column.type) not in _LAKE[other.form] and (other.form, base(column.type)) not in _INSTEAD:
        return f"stored as {column.type}, {other.type} in the source"
    return ""
