"""Avro schemas as values (Avro 1.12 specification), with resolved names and references. Recognises Debezium's envelope.

A schema is parsed into a normal form. Every named type (record, enum, fixed) is defined once, under its full name, and referenced by that name. Any
other type is a dict with `type` and its attributes, or a list (a union). Names are not checked against Avro's grammar, because some writers switch
that check off; no code here trusts a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.errors import SchemaRefused

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
DEPTH_MAX = 64
"""The deepest nesting that is accepted. Real schemas have fewer than ten levels."""

ROUTING = ("__dbz__physicalTableIdentifier",)
"""Key fields that are no columns. Debezium's ByLogicalTableRouter adds one to distinguish merged tables."""


@dataclass(frozen=True)
class AvroSchema:
    root: Any
    """The type of the schema, in normal form."""
    named: Mapping[str, dict[str, Any]]
    """The definition of every named type by its full name."""

    def of(self, kind: Any) -> dict[str, Any]:
        """Return a type as a dict: the definition of a named one, `{"type": "union", "branches": [...]}`, or the type with its attributes."""
        if isinstance(kind, list):
            return {"type": "union", "branches": kind}
        if isinstance(kind, str):
            return self.named[kind] if kind in self.named else {"type": kind}
        return dict(kind)

    def present(self, kind: Any) -> dict[str, Any]:
        """Return a type without `null`, as a dict. It is a union only if several types remain."""
        definition = self.of(kind)
        if definition["type"] != "union":
            return definition
        branches = [branch for branch in definition["branches"] if self.of(branch)["type"] != "null"]
        return self.present(branches[0]) if len(branches) == 1 else {"type": "union", "branches": branches}

    def only_null(self, kind: Any) -> bool:
        """Return whether a type has no value but null."""
        present = self.present(kind)
        return present["type"] == "null" or present.get("branches") == []

    def is_envelope(self) -> bool:
        """Return whether the schema is Debezium's envelope: a record with `op`, and with `after`, which is a record too."""
        members = {member["name"]: member["type"] for member in self.present(self.root).get("fields", ())}
        return "op" in members and "after" in members and self.present(members["after"])["type"] == "record"

    def row(self) -> dict[str, Any]:
        """Return the record whose fields are the table's columns: `after` of an envelope, else the root. Raises SchemaRefused if it is no record."""
        root = self.present(self.root)
        if self.is_envelope():
            members = {member["name"]: member["type"] for member in root["fields"]}
            return self.present(members["after"])
        if root["type"] != "record":
            raise SchemaRefused(f"expected an Avro record, whose fields are the columns, found {root['type']}")
        return root

    def member(self, name: str) -> AvroSchema:
        return AvroSchema(next(member["type"] for member in self.present(self.root)["fields"] if member["name"] == name), self.named)

    def text(self) -> str:
        """Return the schema as a self-contained JSON text. It defines every named type at its first use."""
        return json.dumps(self._written(self.root, set()))

    def _written(self, kind: Any, defined: set[str]) -> Any:
        if isinstance(kind, list):
            return [self._written(branch, defined) for branch in kind]
        if isinstance(kind, str) and (kind not in self.named or kind in defined):
            return kind
        definition = self.of(kind)
        out = dict(definition)
        if isinstance(kind, str):
            defined.add(kind)
            # always with a namespace: a definition without one would take that of the record around it
            namespace, _, name = kind.rpartition(".")
            attributes = {part: value for part, value in definition.items() if part != "name"}
            out = {"type": definition["type"], "name": name, "namespace": namespace, **attributes}
        part = {"array": "items", "map": "values"}.get(definition["type"])
        if part:
            out[part] = self._written(definition[part], defined)
        if definition["type"] == "record":
            out["fields"] = [{**member, "type": self._written(member["type"], defined)} for member in definition["fields"]]
        return out


def parse(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """Parse a schema. `references`: texts of schemas that define names which it uses. Each comes after the ones that it uses itself.

    Raises SchemaRefused, naming the place in the schema, if the text is no Avro schema.
    """
    named: dict[str, dict[str, Any]] = {}
    for each in references:
        _normal(_json(each), named, "", "a referenced schema", 0)
    return AvroSchema(_normal(_json(text), named, "", "", 0), named)


def used_names(text: str) -> list[str]:
    """Return the full names of the types that `text` uses and does not define, in order of use. Raises SchemaRefused."""
    return _named(text).names


def defined_names(text: str) -> list[str]:
    """Return the full names of the types that `text` defines. Raises SchemaRefused."""
    named = _named(text)
    return [name for name in named if name not in named.names]


def _named(text: str) -> _Missing:
    named = _Missing()
    _normal(_json(text), named, "", "", 0)
    return named


def key_fields(text: str) -> tuple[str, ...]:
    """Return the key columns from the schema of a record's key, in the order of the primary key. Raises SchemaRefused."""
    schema = parse(text)
    root = schema.present(schema.root)
    if root["type"] != "record":
        raise SchemaRefused(
            f"expected a record as the schema of the key, found {root['type']}, which has no column names. Set `key:` for this table."
        )
    return tuple(member["name"] for member in root["fields"] if member["name"] not in ROUTING)


class _Missing(dict[str, dict[str, Any]]):
    """Named types that invents a type for every missing name, and records the name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        """The missing names."""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # the name of a primitive type is a schema too; some registries return it without quotes
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaRefused(f"expected an Avro schema as JSON, found {text[:80]!r} ({type(error).__name__})") from None


def _normal(kind: Any, named: dict[str, dict[str, Any]], space: str, path: str, depth: int) -> Any:
    where = f"at {path}: " if path else ""
    if depth > DEPTH_MAX:
        raise SchemaRefused(f"{where[:200]}the schema is nested deeper than {DEPTH_MAX} levels")
    if isinstance(kind, str):
        return kind if kind in PRIMITIVES else _resolved(kind, named, space, where)
    if isinstance(kind, list):
        branches = [_normal(branch, named, space, path, depth + 1) for branch in kind]
        if not branches or any(isinstance(branch, list) for branch in branches):
            raise SchemaRefused(f"{where}expected a union of types that are no unions themselves, found {json.dumps(kind)[:80]}")
        return branches
    if not isinstance(kind, dict) or "type" not in kind:
        raise SchemaRefused(f"{where}expected a type, found {json.dumps(kind)[:80]}")
    base = kind["type"]
    if isinstance(base, dict):
        return _normal({**kind, **base}, named, space, path, depth + 1)
    if isinstance(base, list):
        return _normal(base, named, space, path, depth + 1)
    if base in NAMED:
        return _definition(kind, named, space, path, depth)
    if base in ("array", "map"):
        part = "items" if base == "array" else "values"
        return {**kind, part: _normal(_need(kind, part, where), named, space, f"{path}{'[]' if base == 'array' else '{}'}", depth + 1)}
    if base in PRIMITIVES:
        return dict(kind)
    return _resolved(base, named, space, where)


def _resolved(name: Any, named: dict[str, dict[str, Any]], space: str, where: str) -> str:
    """Return the full name of a type: in the surrounding namespace, else in none."""
    if not isinstance(name, str) or not name:
        raise SchemaRefused(f"{where}expected a type, found {json.dumps(name)[:80]}")
    full = name if "." in name or not space else f"{space}.{name}"
    for candidate in (full, name):
        if candidate in named:
            return candidate
    if not isinstance(named, _Missing):
        raise SchemaRefused(f"{where}unknown type {full!r}. It is no type of Avro, is not defined before its use, and is not in the references")
    named.names.append(full)
    named[full] = {"type": "null"}
    return full


def _definition(kind: dict[str, Any], named: dict[str, dict[str, Any]], space: str, path: str, depth: int) -> str:
    where = f"at {path}: " if path else ""
    name = _need(kind, "name", where)
    if not isinstance(name, str) or not isinstance(kind.get("namespace") or "", str):
        raise SchemaRefused(f"{where}expected a name, found {json.dumps(name)[:80]}")
    inside = name.rpartition(".")[0] if "." in name else str(kind.get("namespace", space) or "")
    full = name if "." in name or not inside else f"{inside}.{name}"
    before = named.get(full)
    made = {part: value for part, value in kind.items() if part not in ("name", "namespace")}
    made["type"] = "record" if kind["type"] == "error" else kind["type"]
    made["name"] = full
    if isinstance(kind.get("aliases"), list):
        made["aliases"] = [alias if "." in str(alias) or not inside else f"{inside}.{alias}" for alias in kind["aliases"]]
    if made["type"] == "record":
        named.setdefault(full, made)  # before its fields are parsed, because they may refer to it
        made["fields"] = list(_members(kind, named, inside, path, depth))
    elif made["type"] == "enum" and not _texts(kind.get("symbols")):
        raise SchemaRefused(f"{where}enum {full}: expected a list of symbols, found {json.dumps(kind.get('symbols'))[:80]}")
    elif made["type"] == "fixed" and (not isinstance(kind.get("size"), int) or isinstance(kind["size"], bool) or kind["size"] < 0):
        raise SchemaRefused(f"{where}fixed {full}: expected a size in bytes, found {json.dumps(kind.get('size'))[:80]}")
    if before is not None and before != made:
        raise SchemaRefused(f"{where}type {full} has two different definitions")
    named[full] = made
    return full


def _members(kind: dict[str, Any], named: dict[str, dict[str, Any]], space: str, path: str, depth: int) -> Iterator[dict[str, Any]]:
    members, where = kind.get("fields"), f"at {path}: " if path else ""
    if not isinstance(members, list):
        raise SchemaRefused(f"{where}record {kind['name']}: expected a list of fields, found {json.dumps(members)[:80]}")
    taken: set[str] = set()
    for member in members:
        if not isinstance(member, dict) or not isinstance(member.get("name"), str) or "type" not in member:
            raise SchemaRefused(f"{where}record {kind['name']}: expected a field with name and type, found {json.dumps(member)[:80]}")
        if member["name"] in taken:
            raise SchemaRefused(f"{where}record {kind['name']} has two fields {member['name']!r}")
        taken.add(member["name"])
        below = f"{path}.{member['name']}" if path else member["name"]
        yield {**member, "type": _normal(member["type"], named, space, below, depth + 1)}


def _need(kind: dict[str, Any], part: str, where: str) -> Any:
    if part not in kind:
        raise SchemaRefused(f"{where}{kind['type']} without {part!r}: {json.dumps(kind)[:80]}")
    return kind[part]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def readable_by_spark(text: str) -> str | None:
    """Return the schema text with decimals of more than 38 digits as plain bytes, because Spark does not open files with such decimals. None without
    any: Spark reads what a file's header has, and takes no schema that is given to it with a name or default that Avro does not allow.
    """

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        precision = node.get("precision")
        big = node.get("logicalType") == "decimal" and isinstance(precision, int) and precision > 38
        return {name: plain(value) for name, value in node.items() if not (big and name == "logicalType")}

    schema = json.loads(text)
    return json.dumps(readable) if (readable := plain(schema)) != schema else None
