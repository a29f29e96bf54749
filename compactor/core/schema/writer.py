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

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.position import Position
from compactor.core.schema import avro

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
    `guessed`: the type is told by the look of values only, and the next file's may look otherwise (CSV, hand-made JSON). `inferred`: by values of
    JSON, where a whole number may be a fraction's neighbour. `aliases`: names that the column had before (Avro).
    """

    name: str
    raw: types.Type
    type: types.Type
    semantic: str = ""
    scale: int = 0
    default: Any = None
    doc: str = ""
    item: WriterField | None = None
    guessed: bool = False
    inferred: bool = False
    aliases: tuple[str, ...] = ()


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
    return types.stored_names(raw)


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


MEMBERS_MAX = 10_000
"""Columns and nested members of one schema. A few lines of Avro can spell millions, because a named record may be used again and again."""

_LOGICAL = {
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""Avro's logical types that Spark reads as plain numbers, and the semantic type that says the same."""

_MOMENTS = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_CONNECT_PRECISION = 64
"""What Confluent's converter writes as the precision of a decimal whose precision nobody said."""


def from_avro(text: str) -> WriterSchema:
    """The row's columns out of an Avro schema: those of an envelope's `after`, else of the record itself. Raises SchemaRefused."""
    schema = avro.parse(text)
    reader = _AvroReader(schema)
    return WriterSchema(signature(text), tuple(reader.field(member, member["name"]) for member in schema.row()["fields"]))


def avro_column(schema: avro.AvroSchema, member: dict[str, Any], path: str) -> WriterField:
    """One field of an Avro record as a column; `path` names it in errors. Raises SchemaRefused."""
    return _AvroReader(schema).field(member, path)


class _AvroReader:
    """Avro's types as Spark's Avro reader gives them (`raw`), and as they are stored. Counts what it has made."""

    def __init__(self, schema: avro.AvroSchema) -> None:
        self._schema = schema
        self._left = MEMBERS_MAX

    def field(self, member: dict[str, Any], path: str, inside: tuple[str, ...] = ()) -> WriterField:
        """One column, or the elements of one that is an array."""
        kind = self._schema.present(member["type"])
        raw = self._raw(member["type"], path, inside)
        logical, semantic = kind.get("logicalType"), _LOGICAL.get(str(kind.get("logicalType")), kind.get("connect.name") or "")
        precision, scale = _digits(kind)
        if logical == "decimal" and precision:
            # beyond 38 digits no engine has a decimal: read as bytes, kept as exact text
            semantic = DECIMAL if raw[0] == "binary" else semantic
        item = self.field({"name": "", "type": kind["items"]}, f"{path}[]", inside) if raw[0] == "array" else None
        understood = raw[0] in ("date", "timestamp", "decimal")
        stored = ("array", item.type) if item else raw if understood else _stored(raw, semantic, scale, precision or 38)
        meaning = DECIMAL if raw[0] == "decimal" else semantic
        default = _constant(member.get("default"), stored, meaning, scale, lambda packed: packed.encode("latin-1"))
        said = member.get("aliases")
        aliases = tuple(str(alias) for alias in said) if isinstance(said, list) else ()
        return WriterField(member["name"], raw, stored, semantic, scale, default, member.get("doc") or "", item, aliases=aliases)

    def _raw(self, said: Any, path: str, inside: tuple[str, ...]) -> types.Type:
        self._left -= 1
        if self._left < 0:
            raise SchemaRefused(f"column {path}: the schema has more than {MEMBERS_MAX} columns and nested members")
        kind = self._schema.present(said)
        base, logical = kind["type"], kind.get("logicalType")
        precision, scale = _digits(kind)
        if precision and precision <= 38 and not _unsaid(kind):
            return ("decimal", precision, scale)
        if base == "int" and logical == "date":
            return ("date",)
        if base == "long" and logical in _MOMENTS:
            return ("timestamp",)
        if base == "array":
            return ("array", self._raw(kind["items"], f"{path}[]", inside))
        if base == "map":
            return ("map", ("string",), self._raw(kind["values"], f"{path}{{}}", inside))
        if base == "union":
            return self._union(kind["branches"], path, inside)
        if base == "record":
            if kind["name"] in inside:
                raise SchemaRefused(f"column {path}: the record {kind['name']} contains itself; Hive has no recursive types. Leave the column out.")
            below = (*inside, kind["name"])
            return ("struct", tuple((member["name"], self._raw(member["type"], f"{path}.{member['name']}", below)) for member in kind["fields"]))
        if base not in _AVRO:
            raise SchemaRefused(f"column {path}: Avro type {base!r} is not known, or has no values but null")
        return (_AVRO[base],)

    def _union(self, branches: list[Any], path: str, inside: tuple[str, ...]) -> types.Type:
        """Several types: one that holds them where Spark's reader knows one, else a struct with a member each, as that reader makes it."""
        kinds = {self._schema.of(branch)["type"] for branch in branches}
        if kinds == {"int", "long"}:
            return ("bigint",)
        if kinds == {"float", "double"}:
            return ("double",)
        if not branches:
            raise SchemaRefused(f"column {path}: it has no values but null")
        return ("struct", tuple((f"member{at}", self._raw(branch, path, inside)) for at, branch in enumerate(branches)))


def _digits(kind: dict[str, Any]) -> tuple[int, int]:
    """Precision and scale of an Avro decimal; precision 0 for what is none, or breaks Avro's rules and is then its bytes only.

    A Connect decimal whose precision nobody said has as many digits as an engine's decimal.
    """
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    if kind.get("logicalType") != "decimal" or kind["type"] not in ("bytes", "fixed"):
        return 0, int(scale) if isinstance(scale, int) else 0
    if not isinstance(precision, int) or not isinstance(scale, int) or precision <= 0 or not 0 <= scale <= precision:
        return 0, 0
    if kind["type"] == "fixed" and precision > len(str(2 ** (8 * kind["size"] - 1))) - 1:
        return 0, 0
    return (38 if _unsaid(kind) else precision), scale


def _unsaid(kind: dict[str, Any]) -> bool:
    """Whether a decimal's precision is only what the converter writes when it knows none."""
    said = kind.get("connect.parameters") or {}
    return kind.get("connect.name") == DECIMAL and kind.get("precision") == _CONNECT_PRECISION and "connect.decimal.precision" not in said
