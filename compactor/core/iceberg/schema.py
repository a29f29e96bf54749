"""The columns of an Iceberg table: field ids, the schema that readers see, and the mapping from the files' names to ids.

Files have no field ids. So every column of the files, members of structs too, is in `schema.name-mapping.default`, ours with ids that no schema has:
PyIceberg refuses a file with a column that the mapping does not name. An id belongs to a stored name forever. A reader's name may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compactor.core.model import types
from compactor.core.model.position import state_columns
from compactor.core.model.snapshot import State
from compactor.core.model.types import Type

Ids = Mapping[tuple[str, ...], int]
"""Path of a column or a part of it in the files → field id."""

_SCALARS = {"tinyint": "int", "smallint": "int", "bigint": "long", "timestamp": "timestamptz"}
"""Hive type → Iceberg type, where the names differ. Spark's timestamps are instants."""


@dataclass(frozen=True)
class Columns:
    """The columns of one version."""

    ids: Ids
    """The ids of all columns that any file of the table has or had."""
    schema: dict[str, Any]
    bounded: Mapping[tuple[str, ...], str]
    """Path → Hive type of the columns that have bounds: scalars outside of lists and maps."""


def columns_of(state: State, before: Ids) -> Columns:
    """Return the columns of a version. `before`: the ids that were given so far; new columns get the next ones."""
    ids = dict(before)
    stored = [*((field.name, field.type) for field in state.schema.fields), *state_columns(state.order)]
    for name, text in stored:
        for path in _paths((name,), types.parse(text)):
            ids.setdefault(path, len(ids) + 1)
    fields, bounded = [], dict[tuple[str, ...], str]()
    for field in state.schema.payload:
        kind = types.parse(field.type)
        comment = {"doc": field.comment} if field.comment else {}
        name = state.schema.view_name(field)
        fields.append({"id": ids[(field.name,)], "name": name, "required": False, "type": _type((field.name,), kind, ids), **comment})
        bounded.update(_scalars((field.name,), kind))
    return Columns(ids, {"type": "struct", "fields": fields}, bounded)


def mapping(ids: Ids) -> list[dict[str, Any]]:
    """Return the name mapping of these ids."""
    children: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for path in sorted(ids, key=lambda path: (-len(path), ids[path])):
        entry = {"field-id": ids[path], "names": [path[-1]], **({"fields": children[path]} if path in children else {})}
        children.setdefault(path[:-1], []).append(entry)
    return children.get((), [])


def ids_of(mapped: list[dict[str, Any]], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Return the ids of a name mapping that `mapping` made."""
    ids: dict[tuple[str, ...], int] = {}
    for entry in mapped:
        path = (*above, entry["names"][0])
        ids |= {path: entry["field-id"], **ids_of(entry.get("fields", []), path)}
    return ids


def _parts(path: tuple[str, ...], kind: Type) -> list[tuple[tuple[str, ...], Type]]:
    if kind[0] == "array":
        return [((*path, "element"), kind[1])]
    if kind[0] == "map":
        return [((*path, "key"), kind[1]), ((*path, "value"), kind[2])]
    return [((*path, name), member) for name, member in kind[1]] if kind[0] == "struct" else []


def _paths(path: tuple[str, ...], kind: Type) -> Iterator[tuple[str, ...]]:
    yield path
    for inner, part in _parts(path, kind):
        yield from _paths(inner, part)


def _scalars(path: tuple[str, ...], kind: Type) -> Iterator[tuple[tuple[str, ...], str]]:
    if kind[0] == "struct":
        for inner, part in _parts(path, kind):
            yield from _scalars(inner, part)
    elif kind[0] not in ("array", "map"):
        yield path, types.text(kind)


def _type(path: tuple[str, ...], kind: Type, ids: Ids) -> Any:
    """Return a type as Iceberg writes it in JSON."""
    inner = [(ids[place], place[-1], _type(place, part, ids)) for place, part in _parts(path, kind)]
    if kind[0] == "array":
        return {"type": "list", "element-id": inner[0][0], "element": inner[0][2], "element-required": False}
    if kind[0] == "map":
        (key_id, _, key), (value_id, _, value) = inner
        return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False}
    if kind[0] == "struct":
        return {"type": "struct", "fields": [{"id": at, "name": name, "required": False, "type": part} for at, name, part in inner]}
    return f"decimal({kind[1]}, {kind[2]})" if kind[0] == "decimal" else _SCALARS.get(kind[0], kind[0])
