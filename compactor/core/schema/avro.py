"""Avro schemas as values (Avro 1.12 specification): names resolved, references joined, Debezium's envelope recognised. Pure.

A schema's text is parsed into a normal form: every named type (record, enum, fixed) is defined once, under its full name, and spoken of by
that name everywhere; what is no named type is a dict with `type` and its attributes, or a list (a union).
Names are not checked against Avro's grammar: some writers switch that check off, and no name is trusted here anyway.
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
"""Levels of nesting that are followed; real schemas have fewer than ten."""

_ROUTING = ("__dbz__physicalTableIdentifier",)
"""Key fields that are no columns: Debezium's ByLogicalTableRouter tells merged tables apart with it."""


@dataclass(frozen=True)
class AvroSchema:
    """`root` in normal form, and every named type's definition by full name."""

    root: Any
    named: Mapping[str, dict[str, Any]]

    def of(self, kind: Any) -> dict[str, Any]:
        """What a type says: a named one's definition, `{"type": "union", "branches": [...]}`, or the type with its attributes."""
        if isinstance(kind, list):
            return {"type": "union", "branches": kind}
        if isinstance(kind, str):
            return self.named[kind] if kind in self.named else {"type": kind}
        return dict(kind)

    def present(self, kind: Any) -> dict[str, Any]:
        """What a type says when a value is there: without `null`; a union only where several types remain."""
        said = self.of(kind)
        if said["type"] != "union":
            return said
        branches = [branch for branch in said["branches"] if self.of(branch)["type"] != "null"]
        return self.present(branches[0]) if len(branches) == 1 else {"type": "union", "branches": branches}

    def nullable(self, kind: Any) -> bool:
        """Whether null is one of its values."""
        said = self.of(kind)
        return said["type"] == "null" or (said["type"] == "union" and any(self.of(branch)["type"] == "null" for branch in said["branches"]))

    def is_envelope(self) -> bool:
        """Whether it is Debezium's envelope: a record of `op` and `after`, the latter a record too."""
        members = {member["name"]: member["type"] for member in self.of(self.root).get("fields", ())}
        return "op" in members and "after" in members and self.present(members["after"])["type"] == "record"

    def row(self) -> dict[str, Any]:
        """The record whose fields are the table's columns: an envelope's `after`, else the record itself. Raises SchemaRefused."""
        root = self.present(self.root)
        if self.is_envelope():
            members = {member["name"]: member["type"] for member in root["fields"]}
            return self.present(members["after"])
        if root["type"] != "record":
            raise SchemaRefused(f"expected an Avro record, whose fields are columns; found {root['type']}")
        return root

    def text(self) -> str:
        """The schema as one self-contained JSON text: every named type defined where it is first used."""
        return json.dumps(self._written(self.root, set()))

    def _written(self, kind: Any, defined: set[str]) -> Any:
        if isinstance(kind, list):
            return [self._written(branch, defined) for branch in kind]
        if isinstance(kind, str) and (kind not in self.named or kind in defined):
            return kind
        said = self.of(kind)
        out = dict(said)
        if isinstance(kind, str):
            defined.add(kind)
            # the namespace is always said: a definition without one would take that of the record around it
            namespace, _, name = kind.rpartition(".")
            out = {"type": said["type"], "name": name, "namespace": namespace, **{part: value for part, value in said.items() if part != "name"}}
        part = {"array": "items", "map": "values"}.get(said["type"])
        if part:
            out[part] = self._written(said[part], defined)
        if said["type"] == "record":
            out["fields"] = [{**member, "type": self._written(member["type"], defined)} for member in said["fields"]]
        return out


def parse(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """The schema that `text` spells. `references` are texts of schemas that define names it uses, each after those it uses itself.

    Raises SchemaRefused for what is no Avro schema, naming the place in it.
    """
    named: dict[str, dict[str, Any]] = {}
    for each in references:
        _normal(_json(each), named, "", "a referenced schema", 0)
    return AvroSchema(_normal(_json(text), named, "", "", 0), named)


def used_names(text: str) -> list[str]:
    """The named types, as full names, that `text` uses and does not define, in order of use. Raises SchemaRefused."""
    missing = _Missing()
    _normal(_json(text), missing, "", "", 0)
    return missing.asked


def defined_names(text: str) -> list[str]:
    """The full names that `text` defines. Raises SchemaRefused."""
    known = _Missing()
    _normal(_json(text), known, "", "", 0)
    return [name for name in known if name not in known.asked]


def key_fields(text: str) -> tuple[str, ...]:
    """The key columns that the schema of a record's key names, in its order (the primary key's). Raises SchemaRefused."""
    schema = parse(text)
    root = schema.present(schema.root)
    if root["type"] != "record":
        raise SchemaRefused(f"the key is a bare {root['type']}, which names no column. Say `key:` for this table.")
    return tuple(member["name"] for member in root["fields"] if member["name"] not in _ROUTING)


class _Missing(dict[str, dict[str, Any]]):
    """Named types that makes one up for every name it lacks, and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # a bare name is a schema too, and some registries hand it out without quotes
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaRefused(f"not an Avro schema: {type(error).__name__} in {text[:80]!r}") from None


def _normal(kind: Any, named: dict[str, dict[str, Any]], space: str, path: str, depth: int) -> Any:
    where = f"at {path}: " if path else ""
    if depth > DEPTH_MAX:
        raise SchemaRefused(f"{where[:200]}the schema is nested deeper than {DEPTH_MAX} levels")
    if isinstance(kind, str):
        return kind if kind in PRIMITIVES else _known(kind, named, space, where)
    if isinstance(kind, list):
        branches = [_normal(branch, named, space, path, depth + 1) for branch in kind]
        if not branches or any(isinstance(branch, list) for branch in branches):
            raise SchemaRefused(f"{where}a union needs types, and none that is a union itself")
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
    return _known(base, named, space, where)


def _known(name: Any, named: dict[str, dict[str, Any]], space: str, where: str) -> str:
    """The full name that is meant: in the namespace around, else in none."""
    if not isinstance(name, str) or not name:
        raise SchemaRefused(f"{where}expected a type, found {json.dumps(name)[:80]}")
    full = name if "." in name or not space else f"{space}.{name}"
    for candidate in (full, name):
        if candidate in named:
            return candidate
    if not isinstance(named, _Missing):
        raise SchemaRefused(f"{where}type {full!r} is not known: neither Avro's nor defined before its use, nor among the references")
    named.asked.append(full)
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
        named.setdefault(full, made)  # known before its fields are looked at: they may speak of it
        made["fields"] = list(_members(kind, named, inside, path, depth))
    elif made["type"] == "enum" and not _texts(kind.get("symbols")):
        raise SchemaRefused(f"{where}enum {full}: expected a list of symbols, found {json.dumps(kind.get('symbols'))[:80]}")
    elif made["type"] == "fixed" and (not isinstance(kind.get("size"), int) or isinstance(kind["size"], bool) or kind["size"] < 0):
        raise SchemaRefused(f"{where}fixed {full}: expected a size in bytes, found {json.dumps(kind.get('size'))[:80]}")
    if before is not None and before != made:
        raise SchemaRefused(f"{where}type {full} is defined twice, differently")
    named[full] = made
    return full


def _members(kind: dict[str, Any], named: dict[str, dict[str, Any]], space: str, path: str, depth: int) -> Iterator[dict[str, Any]]:
    members, where = kind.get("fields"), f"at {path}: " if path else ""
    if not isinstance(members, list):
        raise SchemaRefused(f"{where}record {kind['name']}: expected a list of fields, found {json.dumps(members)[:80]}")
    seen: set[str] = set()
    for member in members:
        if not isinstance(member, dict) or not isinstance(member.get("name"), str) or "type" not in member:
            raise SchemaRefused(f"{where}record {kind['name']}: expected a field with name and type, found {json.dumps(member)[:80]}")
        if member["name"] in seen:
            raise SchemaRefused(f"{where}record {kind['name']} has two fields {member['name']!r}")
        seen.add(member["name"])
        below = f"{path}.{member['name']}" if path else member["name"]
        yield {**member, "type": _normal(member["type"], named, space, below, depth + 1)}


def _need(kind: dict[str, Any], part: str, where: str) -> Any:
    if part not in kind:
        raise SchemaRefused(f"{where}{kind['type']} without {part!r}: {json.dumps(kind)[:80]}")
    return kind[part]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def readable_by_spark(text: str) -> str:
    """The schema text without the decimals that Spark refuses to open (more than 38 digits): they are read as bytes."""

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        precision = node.get("precision")
        big = node.get("logicalType") == "decimal" and isinstance(precision, int) and precision > 38
        return {name: plain(value) for name, value in node.items() if not (big and name == "logicalType")}

    return json.dumps(plain(json.loads(text)))


def container_schema(head: bytes) -> str:
    """The writer's schema out of the head of an Avro object container file (Avro 1.11, "Object Container Files"). Raises ValueError.

    >>> container_schema(b"Obj" + bytes([1, 2, 22]) + b"avro.schema" + bytes([8]) + b'"in"' + bytes([0]))
    '"in"'
    """
    if head[:4] != b"Obj\x01":
        raise ValueError(f"not an Avro container file: it begins with {head[:4]!r}, expected b'Obj\\x01'")
    at = 4

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = head[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def chunk() -> bytes:
        nonlocal at
        size = number()
        at += size
        if at > len(head):
            raise ValueError("the Avro header is cut short")
        return head[at - size : at]

    try:
        while count := number():
            if count < 0:
                number()
            for _ in range(abs(count)):
                name, value = chunk(), chunk()
                if name == b"avro.schema":
                    return value.decode()
    except IndexError:
        raise ValueError("the Avro header is cut short") from None
    raise ValueError("the Avro header holds no avro.schema")
