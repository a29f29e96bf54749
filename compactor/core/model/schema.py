"""Schema: the columns of one table as they are stored, with the memory that evolution needs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from compactor.core.model import names
from compactor.core.model.position import Position

FEED = ("_change_type", "_commit_version", "_commit_timestamp", "_applied", "_outcome", "_deleted", "feed_version")
"""Columns of the change feed beside the payload."""

RESERVED = (
    *("_op", "_version", "_position", "_older", "_from", "_moved_to", "_row_id", "base_version", "delta_version", "segment", *FEED),
    *("_missing", "_to", "_link", "_unfit", "_source", "_file", "_time"),
    *("__start_time", "__end_time", "__is_current", "__is_deleted", "__start_position", "__end_position", "__previous_key"),
    *(
        "__start_us",
        "__end_us",
        "__end_day",
        "__shown",
        "__time_us",
        "__begun_us",
        "__missing",
        "__link",
        "history_set",
        "history_day",
        "history_part",
    ),
)
"""Columns that compactor keeps beside the payload; a source column of such a name is stored as `<name>_2`."""


@dataclass(frozen=True)
class Field:
    """One stored column.

    `name` is the stored name (see `core/model/names.py`; never changed), `source` the source's own spelling, `type` Hive's type text.
    `since` is the version that brought the column, `first` the Position of the first Change whose writer knew it (None: there from
    the start), `last` that of the newest Change whose writer knew it. `default` is what the source shows for rows written before `first`
    (JSON scalar; H15). `visible` is False for a column whose source name has passed to a newer column of another type, and for a
    removed one that is to be hidden. `formerly` are source names that Avro aliases have replaced by `source`. `gone` are the members of its structs
    (paths as in `core/schema/nested_types.py`) that the newest writer of the column does not have.
    """

    name: str
    source: str
    type: str
    since: int = 0
    first: Position | None = None
    last: Position | None = None
    default: Any = None
    visible: bool = True
    comment: str = ""
    formerly: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Field:
        """The inverse of `to_json`."""
        values = dict(data)
        for name in ("first", "last"):
            values[name] = tuple(values[name]) if values.get(name) is not None else None
        for name in ("formerly", "gone"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


@dataclass(frozen=True)
class Schema:
    """The stored columns in order, and which of them are the key. `generation` counts type changes (H14).

    `registered` is what the registry had when the Snapshot was made: (subject, version, id or None).
    """

    fields: tuple[Field, ...]
    key: tuple[str, ...]
    generation: int = 1
    registered: tuple[str, int, int | None] | None = None

    def field(self, name: str) -> Field:
        """The field stored under `name`. Raises KeyError."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Stored names in order."""
        return tuple(field.name for field in self.fields)

    @property
    def values(self) -> tuple[str, ...]:
        """Stored names of what is no key, in order."""
        return tuple(name for name in self.names if name not in self.key)

    @property
    def payload(self) -> tuple[Field, ...]:
        """What the view shows."""
        return tuple(field for field in self.fields if field.visible)

    def view_name(self, field: Field) -> str:
        """The name under which the view shows a field: the one its source name gives, unless an earlier field has it."""
        taken: list[str] = []
        for other in self.payload:
            free = (name for name in (names.stored_name(other.source), other.name) if names.unique(name, taken) == name)
            shown = next(free, None) or names.unique(other.name, taken)
            if other.name == field.name:
                return shown
            taken.append(shown)
        return field.name

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        registered = list(self.registered) if self.registered else None
        fields = [field.to_json() for field in self.fields]
        return {"fields": fields, "key": list(self.key), "generation": self.generation, "registered": registered}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Schema:
        """The inverse of `to_json`."""
        said = data.get("registered")
        registered = (said[0], said[1], said[2]) if said else None
        return cls(tuple(Field.from_json(field) for field in data["fields"]), tuple(data["key"]), data["generation"], registered)


def schema_differences(before: Schema, after: Schema) -> tuple[str, ...]:
    """Sentences about what the views of two schemas of one table differ in, and their keys."""
    old = {before.view_name(field): field.type for field in before.payload}
    new = {after.view_name(field): field.type for field in after.payload}
    told = [f"the key was ({', '.join(before.key)}), it is ({', '.join(after.key)})"] if before.key != after.key else []
    told += [f"column {name} {kind} is gone" for name, kind in old.items() if name not in new]
    told += [f"column {name} {kind} is new" for name, kind in new.items() if name not in old]
    return (*told, *(f"column {name} was {old[name]}, it is {kind}" for name, kind in new.items() if old.get(name, kind) != kind))
