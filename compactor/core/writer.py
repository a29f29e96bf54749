"""WriterSchema: how one producer wrote its rows, whatever the container: a Connect schema inside JSON, an Avro record, Parquet's footer, inferred.

Formats carried over: Kafka Connect's JSON schema (`{"type": "struct", "fields": [{"field", "type", "optional", "name", "parameters",
"default"}]}`), Avro 1.11's record schema with Connect's `connect.name` / `connect.parameters` / `connect.default` annotations,
and the semantic types of Debezium's data type mappings (`io.debezium.time.*`, `io.debezium.data.*`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from compactor.core import types
from compactor.core.errors import SchemaRefused
from compactor.core.position import Position

_CONNECT = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float": "float",
    "float64": "double",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}
_AVRO = {
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"

TARGETS = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.Time": "string",
    "org.apache.kafka.connect.data.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    VARIABLE_DECIMAL: "string",
}
"""Semantic type → the Hive type its values are stored as. Hive has no time of day: text `HH:MM:SS[.ffffff]`."""

_VOLATILE = {
    "io.debezium.time.ZonedTimestamp",
    "io.debezium.time.MicroTimestamp",
    "io.debezium.time.Timestamp",
    "io.debezium.time.NanoTimestamp",
    "io.debezium.time.Date",
    "io.debezium.data.Uuid",
}


@dataclass(frozen=True)
class WriterField:
    """One column as a producer wrote it.

    `raw` is the Hive type of the value as it can be read (Connect's JSON writes bytes and decimals as base64 text: `raw` is the Connect
    type, `binary`); `semantic` the name that says what it means; `type` what it is stored as; `item` describes an array's elements.
    `default` only where the source's default is a constant (never the epoch or zero uuid that stand for now() and gen_random_uuid()).
    """

    name: str
    raw: types.Type
    type: types.Type
    semantic: str = ""
    scale: int = 0
    default: Any = None
    doc: str = ""
    item: WriterField | None = None


@dataclass(frozen=True)
class WriterSchema:
    """The columns of one producer, with the least and greatest Position of the Changes read with it (filled in by the engine).

    `undecided` are there but hold nothing that tells their type. A writer that is not `whole` leaves out columns at will (deletes that tell old
    keys only, hand-made events): it says nothing of which columns the table had.
    """

    id: str
    fields: tuple[WriterField, ...]
    first: Position | None = None
    last: Position | None = None
    undecided: tuple[str, ...] = ()
    whole: bool = True

    def field(self, name: str) -> WriterField | None:
        """The field of that source name, or None."""
        return next((field for field in self.fields if field.name == name), None)


def declared(known: WriterSchema, schema: WriterSchema) -> WriterSchema:
    """A writer known by its values only, with what a declared schema says of its columns; columns that held only nulls get their type from it.

    Which type a value was read as (`raw`) stays as found: JSON and Parquet write the same meaning differently.
    """
    fields = []
    for field in known.fields:
        said = schema.field(field.name)
        fields.append(replace(said, raw=field.raw) if said else field)
    fields += [field for field in schema.fields if field.name in known.undecided]
    rest = tuple(name for name in known.undecided if schema.field(name) is None)
    return replace(known, fields=tuple(fields), undecided=rest)


def decided(writers: Sequence[WriterSchema], stored: Sequence[WriterField] = ()) -> list[WriterSchema]:
    """The writers with columns that held nothing telling their type (nulls, empty arrays) typed as other writers and the table have them.

    Where those disagree the column stays undecided: its name may have been used again with another type.
    """
    candidates = [*stored, *(field for writer in writers for field in writer.fields)]
    kinds: dict[str, set[types.Type]] = {}
    for field in candidates:
        kinds.setdefault(field.name, set()).add(field.type)
    known = {field.name: field for field in candidates if len(kinds[field.name]) == 1}
    out = []
    for writer in writers:
        found = tuple(known[name] for name in writer.undecided if name in known)
        rest = tuple(name for name in writer.undecided if name not in known)
        out.append(replace(writer, fields=(*writer.fields, *found), undecided=rest))
    return out


def signature(text: str) -> str:
    """A short stable id for the text of a schema."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def from_connect(text: str) -> WriterSchema:
    """The row's columns out of a Connect schema: the `after` of an envelope, else the struct itself. Raises SchemaRefused."""
    root = json.loads(text)
    if root.get("type") != "struct":
        raise SchemaRefused(f"expected a Connect struct schema, found type {root.get('type')!r}")
    members = {member.get("field"): member for member in root["fields"]}
    row = members["after"] if "after" in members and "op" in members else root
    return WriterSchema(signature(text), tuple(_connect_field(member) for member in row["fields"]))


def _connect_field(member: dict[str, Any]) -> WriterField:
    name, semantic = member.get("field", ""), member.get("name") or ""
    raw = _connect_type(member, name)
    scale = int((member.get("parameters") or {}).get("scale", 0)) if semantic == DECIMAL else 0
    item = _connect_field(member["items"]) if raw[0] == "array" else None
    stored = (
        ("array", item.type) if item else _stored(raw, semantic, scale, int((member.get("parameters") or {}).get("connect.decimal.precision", 38)))
    )
    default = _constant(member.get("default"), stored, semantic, scale, base64.b64decode)
    return WriterField(name, raw, stored, semantic, scale, default, member.get("doc") or "", item)


def _connect_type(member: dict[str, Any], path: str) -> types.Type:
    kind = member["type"]
    if kind == "array":
        return ("array", _connect_type(member["items"], path))
    if kind == "map":
        return ("map", _connect_type(member["keys"], path), _connect_type(member["values"], path))
    if kind == "struct":
        return ("struct", tuple((inner["field"], _connect_type(inner, f"{path}.{inner['field']}")) for inner in member["fields"]))
    if kind not in _CONNECT:
        raise SchemaRefused(f"column {path}: Connect type {kind!r} is not known")
    return (_CONNECT[kind],)


def _stored(raw: types.Type, semantic: str, scale: int, precision: int) -> types.Type:
    if semantic == DECIMAL:
        # more digits than any engine's decimal has: kept exact, as text
        return ("decimal", max(precision, scale), scale) if max(precision, scale) <= 38 else ("string",)
    if semantic in TARGETS:
        return types.parse(TARGETS[semantic])
    return types.lower_names(raw)


_PLAIN = {"string": str, "boolean": bool, "tinyint": int, "smallint": int, "int": int, "bigint": int, "float": (int, float), "double": (int, float)}


def _constant(default: Any, stored: types.Type, semantic: str, scale: int, packed: Callable[[str], bytes]) -> Any:
    """A column's default as its stored type spells it, or None: for what is encoded otherwise, and for the made-up ones.

    `packed` takes bytes out of the schema's text: Connect writes base64, Avro a character per byte.
    """
    if semantic == DECIMAL and isinstance(default, str) and default:
        number = int.from_bytes(packed(default), "big", signed=True)
        return str(Decimal(number).scaleb(-scale))
    if semantic in TARGETS or semantic in _VOLATILE or semantic == DECIMAL:
        return None
    wanted = _PLAIN.get(stored[0])
    fits = wanted is not None and isinstance(default, wanted) and isinstance(default, bool) == (stored[0] == "boolean")  # type: ignore[arg-type]
    return default if fits else None


def from_avro(text: str) -> WriterSchema:
    """The row's columns out of an Avro record schema: the `after` of an envelope, else the record itself. Raises SchemaRefused."""
    named: dict[str, Any] = {}
    root = json.loads(text)
    _collect(root, named)
    members = {member["name"]: member for member in root["fields"]}
    row = root
    if "after" in members and "op" in members:
        row = _branch(members["after"]["type"], named)
    return WriterSchema(signature(text), tuple(_avro_field(member, named) for member in row["fields"]))


def readable_by_spark(text: str) -> str:
    """The schema text without the decimals that Spark refuses to open (more than 38 digits): they are read as bytes."""

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        big = node.get("logicalType") == "decimal" and int(node["precision"]) > 38
        return {name: plain(value) for name, value in node.items() if not (big and name == "logicalType")}

    return json.dumps(plain(json.loads(text)))


def is_envelope(text: str) -> bool:
    """Whether an Avro record schema is a Debezium envelope."""
    members = {member["name"] for member in json.loads(text).get("fields", ())}
    return {"op", "after"} <= members


def _collect(kind: Any, named: dict[str, Any]) -> None:
    if isinstance(kind, list):
        for branch in kind:
            _collect(branch, named)
    elif isinstance(kind, dict):
        if kind.get("type") in ("record", "enum", "fixed"):
            named[kind["name"]] = kind
            named[f"{kind.get('namespace', '')}.{kind['name']}"] = kind
        for inner in kind.get("fields", ()):
            _collect(inner["type"], named)
        for part in ("items", "values", "type"):
            if isinstance(kind.get(part), (dict, list)):
                _collect(kind[part], named)


def _branch(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        if len(branches) != 1:
            raise SchemaRefused(f"a union of several types is not supported: {json.dumps(kind)[:200]}")
        return _branch(branches[0], named)
    if isinstance(kind, str):
        return dict(named[kind]) if kind in named else {"type": kind}
    return dict(kind)


def _avro_field(member: dict[str, Any], named: dict[str, Any]) -> WriterField:
    kind = _branch(member["type"], named)
    semantic = kind.get("connect.name") or ""
    logical = kind.get("logicalType")
    raw = _avro_type(kind, named, member["name"])
    scale = int(kind.get("scale", 0))
    if logical == "decimal":
        # beyond 38 digits no engine has a decimal: read as bytes, kept as exact text
        semantic = DECIMAL if raw[0] == "binary" else semantic
    elif logical in ("time-millis", "time-micros"):
        semantic = "io.debezium.time.Time" if logical == "time-millis" else "io.debezium.time.MicroTime"
    item = _avro_field({"name": "", "type": kind["items"]}, named) if raw[0] == "array" else None
    stored = (
        ("array", item.type)
        if item
        else _stored(raw, semantic, scale, int(kind.get("precision", 38)))
        if raw[0] not in ("date", "timestamp", "decimal")
        else raw
    )
    meaning = DECIMAL if logical == "decimal" else semantic
    default = _constant(member.get("default"), stored, meaning, scale, lambda text: text.encode("latin-1"))
    return WriterField(member["name"], raw, stored, semantic, scale, default, member.get("doc") or "", item)


def _avro_type(kind: dict[str, Any], named: dict[str, Any], path: str, inside: tuple[str, ...] = ()) -> types.Type:
    base, logical = kind["type"], kind.get("logicalType")
    if isinstance(base, (dict, list)):
        return _avro_type({**_branch(base, named), **{k: v for k, v in kind.items() if k != "type"}}, named, path, inside)
    if logical == "decimal" and int(kind["precision"]) <= 38:
        return ("decimal", int(kind["precision"]), int(kind.get("scale", 0)))
    if logical == "date":
        return ("date",)
    if logical in ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"):
        return ("timestamp",)
    if base == "array":
        return ("array", _avro_type(_branch(kind["items"], named), named, path, inside))
    if base == "map":
        return ("map", ("string",), _avro_type(_branch(kind["values"], named), named, path, inside))
    if base == "record":
        if kind["name"] in inside:
            raise SchemaRefused(f"column {path}: the record {kind['name']} contains itself; Hive has no recursive types")
        inner = (*inside, kind["name"])
        return ("struct", tuple((m["name"], _avro_type(_branch(m["type"], named), named, f"{path}.{m['name']}", inner)) for m in kind["fields"]))
    if base not in _AVRO:
        raise SchemaRefused(f"column {path}: Avro type {base!r} is not known")
    return (_AVRO[base],)


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
