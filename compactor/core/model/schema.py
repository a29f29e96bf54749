"""Schema: the stored columns of one table, with what evolution needs to remember about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compactor.core.model import names
from compactor.core.model.position import Position, at_or_below, earliest

FEED = ("_change_type", "_commit_version", "_commit_timestamp", "_deleted", "feed_version")

HISTORY = (
    *("__start_time", "__end_time", "__is_current", "__is_deleted", "__start_position", "__end_position", "__previous_key"),
    *("__start_us", "__end_us", "__end_day"),
)

RESERVED = (
    *("_version", "_at", "_gone", "_own", "_moved", "_row_id", "base_version", "delta_version", "segment", "row_state", *FEED),
    *("_op", "_position", "_missing", "_from", "_to", "_link", "_source", "_file", "_time", "_metadata", "_origin", "_behind", "_mistyped"),
    *("_partition", "_content", "_applied", "_duplicate", "_late", "_superseded", "_ties", "_unchanged", *HISTORY),
    *("__shown", "__time_us", "__begun_us", "__missing", "__link", "history_set", "history_day", "history_part"),
    *("daily_day", "daily_part", "_left", "_arrived", "_p", "__time", "__e", "__at", "__load", "__content"),
)
"""Columns that compactor stores or uses beside the payload. A source column with such a name is stored as `<name>_2`."""


@dataclass(frozen=True)
class Field:
    """One stored column."""

    name: str
    """The stored name (`core/model/names.py`). It never changes."""
    source: str
    """The source's spelling."""
    type: str
    since: int = 0
    """The version that added the column."""
    first: Position | None = None
    """The Position of the first event whose writer had the column; None if it was there from the start."""
    last: Position | None = None
    """The Position of the newest event whose writer had the column."""
    default: Any = None
    """What the source shows for rows older than `first`, as a JSON scalar. `Schema.defaults` are those that a row can read."""
    visible: bool = True
    """False if a newer column of another type has the same source name, or if the policy hides removed columns."""
    comment: str = ""
    """The documentation of the column in the source's schema."""
    formerly: tuple[str, ...] = ()
    """Earlier source names: Avro aliases, and other cases."""
    gone: tuple[str, ...] = ()
    """Struct members that the newest writer of the column does not have, as paths (`core/schema/nested_types.py`)."""
    undecided: tuple[str, ...] = ()
    """Paths of empty arrays and objects that no value has given a type. They are stored as their JSON text. "" is the column, which is not shown."""
    protection: str = ""
    """The rule of `columns:` under which its values were stored, `hash` with a fingerprint of the secret (`hash 3fa2..`); "" without one."""


@dataclass(frozen=True)
class Schema:
    """The stored columns of a table."""

    fields: tuple[Field, ...]
    key: tuple[str, ...]
    generation: int = 1
    """Number of the set of catalog tables. A changed column type begins a new one."""
    registered: tuple[str, int, int | None] | None = None
    """The newest schema in the registry when the Snapshot was made: (subject, version, id or None). None without a registry."""

    def field(self, name: str) -> Field:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    def has_columns_of(self, other: Schema) -> bool:
        """Return whether the columns are those of another version of the table, whatever Changes have come since."""
        one, two = ([dataclasses.replace(field, first=None, last=None) for field in schema.fields] for schema in (self, other))
        return one == two and (self.key, self.generation, self.registered) == (other.key, other.generation, other.registered)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def values(self) -> tuple[str, ...]:
        """Return the stored names of the columns outside of the key, in order."""
        return tuple(name for name in self.names if name not in self.key)

    @property
    def oldest(self) -> Position | None:
        """Return the Position of the first event; None if some column was there from the start."""
        # the identity of rows without a key is no column of the source
        firsts = [field.first for field in self.fields if field.name != "_row_id"]
        return None if None in firsts else earliest(firsts)

    @cached_property
    def defaults(self) -> dict[str, tuple[Position, Any]]:
        """Return the columns with a default that older rows read, those that came after another one: stored name → (`first`, default).

        A row from below `first` reads the default, and a row from above it that lacks the column reads null, whenever either arrived.
        """
        later = (field for field in self.fields if field.default is not None and field.first not in (None, self.oldest))
        return {field.name: (field.first, field.default) for field in later if field.first is not None}

    def defaults_moved(self, before: Schema, to: Position | None) -> bool:
        """Return whether a row at or below the Position `to` can read another default than in the schema `before`."""
        old, new = before.defaults, self.defaults
        moved = [each for name in {*old, *new} if old.get(name) != new.get(name) for each in (old.get(name), new.get(name))]
        return any(at_or_below(each[0], to) for each in moved if each)

    def with_defaults_of(self, before: Schema) -> Schema:
        """Return the schema with the defaults that `before` has in its columns. Columns that came later keep theirs."""
        old = {field.name: field for field in before.fields}
        pairs = [(field, old.get(field.name, field)) for field in self.fields]
        return dataclasses.replace(self, fields=tuple(dataclasses.replace(field, first=was.first, default=was.default) for field, was in pairs))

    def without(self, columns: Collection[str]) -> Schema:
        """Return a schema that does not show these stored columns."""
        fields = (dataclasses.replace(field, visible=field.visible and field.name not in columns) for field in self.fields)
        return dataclasses.replace(self, fields=tuple(fields))

    @property
    def payload(self) -> tuple[Field, ...]:
        """Return the fields that the view shows."""
        return tuple(field for field in self.fields if field.visible)

    @property
    def later(self) -> tuple[Field, ...]:
        """Return the fields that were added to a table with rows. Rows of the versions before have no value for them."""
        first = min((field.since for field in self.fields), default=0)
        return tuple(field for field in self.fields if field.since > first)

    def view_name(self, field: Field) -> str:
        """Return the name of a field in the view: that of its source name, unless an earlier field, the feed or the history has it."""
        return self._view_names.get(field.name, field.name)

    @cached_property
    def _view_names(self) -> dict[str, str]:
        # `_deleted` is a column of the view under `delete: soft` alone, which refuses the source's
        taken, shown = names.Taken({*FEED, *HISTORY} - {"_deleted"}), dict[str, str]()
        for field in self.payload:
            free = (name for name in (names.stored_name(field.source), field.name) if name not in taken)
            shown[field.name] = next(free, None) or taken.free(field.name)
            taken.add(shown[field.name])
        return shown


def called(name: str, fields: Iterable[Field]) -> Field | None:
    """Return the column that a setting calls `name`, as the source spells it or once did, else in another case; a visible one if there is one."""
    shown = sorted(fields, key=lambda field: not field.visible)
    rules = (lambda field: field.source == name, lambda field: name in field.formerly, lambda field: field.source.lower() == name.lower())
    return next((field for rule in rules for field in shown if rule(field)), None)


def schema_differences(before: Schema, after: Schema) -> tuple[str, ...]:
    """Return a sentence for each difference between the keys and the views of two schemas of one table."""
    old = {before.view_name(field): field.type for field in before.payload}
    new = {after.view_name(field): field.type for field in after.payload}
    sentences = [f"the key was ({', '.join(before.key)}), it is ({', '.join(after.key)})"] if before.key != after.key else []
    sentences += [f"column {name} {kind} is gone" for name, kind in old.items() if name not in new]
    sentences += [f"column {name} {kind} is new" for name, kind in new.items() if name not in old]
    return (*sentences, *(f"column {name} was {old[name]}, it is {kind}" for name, kind in new.items() if old.get(name, kind) != kind))
