"""Differences between two versions of a source's schema, as values with a sentence each.

Both versions are Avro schemas of rows or of Debezium envelopes. Columns have the source's names. `policy` decides what a table does about a
difference. A removed column and a new one are a removal and an addition; only an Avro alias makes them a renaming.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compactor.core.model import types
from compactor.core.schema import avro
from compactor.core.schema.avro import AvroSchema
from compactor.core.schema.writer import WriterField, avro_column

KINDS = {
    "added": "`{column}` was added: {after}, {detail}",
    "removed": "`{column}` was removed; it was {before}",
    "renamed": "`{before}` was renamed to `{column}` (Avro alias)",
    "widened": "`{column}` was widened from {before} to {after}{detail}",
    "narrowed": "`{column}` was narrowed from {before} to {after}",
    "replaced": "`{column}` was removed and came back as {after}; its values as {before} stay in a column of their own",
    "date_to_timestamp": "`{column}` changed from {before} to {after}; a date becomes its midnight",
    "string_to_bytes": "`{column}` changed from {before} to {after}; text becomes its UTF-8 bytes",
    "to_string": "`{column}` changed from {before} to {after}, and only text can hold the values of both",
    "incompatible": "`{column}` changed from {before} to {after}, and no type can store both",
    "encoded": "`{column}` is encoded as {after} instead of {before}; it is still stored as {detail}",
    "nullable": "`{column}` is nullable now",
    "required": "`{column}` is required now",
    "symbols added": "`{column}` has new symbols: {after}",
    "symbols removed": "`{column}` lost symbols: {before}",
    "default": "the default of `{column}` changed from {before} to {after}",
    "comment": "the documentation of `{column}` changed from {before} to {after}",
    "reordered": "{detail} have a new order: {after}; before: {before}",
}
"""Every kind of change, with its sentence."""

_ENUMS = ("io.debezium.data.Enum", "io.debezium.data.EnumSet")
_ABSENT = object()


@dataclass(frozen=True)
class Change:
    """One difference."""

    kind: str
    """A key of KINDS."""
    column: str
    """The path in the source's names (`address.zip`, `tags[]`, `scores{}`); "" for the whole row."""
    before: str = ""
    """The type or value before."""
    after: str = ""
    """The type or value after."""
    detail: str = ""
    """More text for the sentence."""

    @property
    def sentence(self) -> str:
        """Return the change in words."""
        return KINDS[self.kind].format(**dataclasses.asdict(self))

    def to_json(self) -> dict[str, str]:
        """Return plain JSON values, the sentence among them."""
        return {**dataclasses.asdict(self), "sentence": self.sentence}


def diff(before: str, after: str) -> list[Change]:
    """Return the changes from one schema to the next, in the order of the new one's columns. Raises SchemaRefused."""
    old, new = avro.parse(before), avro.parse(after)
    return [*_Comparison(old, new).members(old.row(), new.row(), "")]


class _Comparison:
    """Compares two schemas, member by member."""

    def __init__(self, old: AvroSchema, new: AvroSchema) -> None:
        self._old = old
        self._new = new

    def members(self, before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Change]:
        old = {member["name"]: member for member in before["fields"]}
        new = {member["name"]: member for member in after["fields"]}
        origin = {name: name if name in old else _alias(member, old, new) for name, member in new.items()}
        for name, member in new.items():
            here = f"{path}.{name}" if path else name
            was = origin[name]
            if was is None:
                yield self._added(member, here)
                continue
            if was != name:
                yield Change("renamed", here, f"{path}.{was}" if path else was)
            yield from self.values(old[was]["type"], member["type"], here, nested=bool(path))
            yield from _annotations(old[was], member, here)
        for name, member in old.items():
            if name not in origin.values():
                here = f"{path}.{name}" if path else name
                yield Change("removed", here, before=_text(self._stored(self._old, member["type"], here, bool(path))))
        kept = [name for name in new if origin[name] is not None]
        order = sorted(kept, key=lambda name: list(old).index(str(origin[name])))
        if kept != order:
            yield Change("reordered", path, ", ".join(order), ", ".join(kept), f"the members of `{path}`" if path else "the columns")

    def values(self, before: Any, after: Any, path: str, nested: bool) -> Iterator[Change]:
        """Yield the differences between two types at one path."""
        if self._old.nullable(before) != self._new.nullable(after):
            yield Change("nullable" if self._new.nullable(after) else "required", path)
        old, new = self._old.present(before), self._new.present(after)
        was, now = self._stored(self._old, before, path, nested), self._stored(self._new, after, path, nested)
        if was[0] == now[0] == "struct" and old["type"] == new["type"] == "record":
            yield from self.members(old, new, path)
        elif old["type"] == new["type"] == "array":
            yield from self.values(old["items"], new["items"], f"{path}[]", nested)
        elif old["type"] == new["type"] == "map":
            yield from self.values(old["values"], new["values"], f"{path}{{}}", nested=True)
        else:
            yield from _retyped(was, now, path)
            yield from _symbols(old, new, path)
            encodings = self._encoding(self._old, before, path), self._encoding(self._new, after, path)
            if was == now and encodings[0] != encodings[1]:
                yield Change("encoded", path, *encodings, _text(now))

    def _added(self, member: dict[str, Any], path: str) -> Change:
        column = avro_column(self._new, member, path)
        older = "null in older rows" if column.default is None else f"older rows read {json.dumps(column.default, ensure_ascii=False)}"
        return Change("added", path, after=_text(self._stored(self._new, member["type"], path, "." in path)), detail=older)

    def _column(self, schema: AvroSchema, kind: Any, path: str) -> WriterField:
        return avro_column(schema, {"name": path, "type": kind}, path)

    def _stored(self, schema: AvroSchema, kind: Any, path: str, nested: bool) -> types.Type:
        column = self._column(schema, kind, path)
        # values inside a struct keep the type that they are read as
        return types.stored_names(column.raw) if nested else column.type

    def _encoding(self, schema: AvroSchema, kind: Any, path: str) -> str:
        column = self._column(schema, kind, path)
        return column.semantic.rsplit(".", 1)[-1] or str(schema.present(kind).get("logicalType") or schema.present(kind)["type"])


def _alias(member: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> str | None:
    return next((alias for alias in member.get("aliases") or () if alias in old and alias not in new), None)


def _retyped(before: types.Type, after: types.Type, path: str) -> Iterator[Change]:
    joined, request = types.widest(before, after), types.on_request(before, after)
    if before == after:
        return
    if request:
        yield Change(request, path, _text(before), _text(after))
    elif joined is None:
        yield Change("incompatible", path, _text(before), _text(after))
    elif joined == before:
        yield Change("narrowed", path, _text(before), _text(after))
    else:
        yield Change("widened", path, _text(before), _text(after), "" if joined == after else f"; both are stored as {_text(joined)}")


def _symbols(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Change]:
    old, new = _allowed(before), _allowed(after)
    if old is None or new is None:
        return
    gone, come = [symbol for symbol in old if symbol not in new], [symbol for symbol in new if symbol not in old]
    if come:
        yield Change("symbols added", path, after=", ".join(come))
    if gone:
        yield Change("symbols removed", path, before=", ".join(gone))


def _allowed(definition: dict[str, Any]) -> list[str] | None:
    """Return the symbols of an enum of Avro or Debezium; None for any other type."""
    if definition["type"] == "enum":
        return list(definition["symbols"])
    allowed = (definition.get("connect.parameters") or {}).get("allowed") if definition.get("connect.name") in _ENUMS else None
    return allowed.split(",") if isinstance(allowed, str) else None


def _annotations(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Change]:
    """Yield changes of the default and the documentation of a field."""
    defaults = [member.get("default", _ABSENT) for member in (before, after)]
    if defaults[0] is not defaults[1] and (_ABSENT in defaults or json.dumps(defaults[0]) != json.dumps(defaults[1])):
        yield Change("default", path, *("none" if value is _ABSENT else json.dumps(value, ensure_ascii=False) for value in defaults))
    docs = [str(member.get("doc") or "") for member in (before, after)]
    if docs[0] != docs[1]:
        yield Change("comment", path, *(json.dumps(doc, ensure_ascii=False) if doc else "none" for doc in docs))


def _text(kind: types.Type) -> str:
    return types.text(kind)
