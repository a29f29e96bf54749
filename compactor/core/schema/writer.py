"""WriterSchema: the columns of one producer, from a Connect schema in JSON, an Avro schema, a Parquet footer, or inferred from values.

Supported formats: Kafka Connect's JSON schema (`{"type": "struct", "fields": [{"field", "type", "optional", "name", "parameters",
"default"}]}`), Avro 1.11's record schema with Connect's `connect.name` / `connect.parameters` / `connect.default` annotations,
and the semantic types of Debezium's data type mappings (`io.debezium.time.*`, `io.debezium.data.*`).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.position import Position
from compactor.core.schema import avro
from compactor.core.schema.semantic_types import DECIMAL, DIGITS, TARGETS, constant

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
    # CockroachDB's, for values of any type
    "json": "string",
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
    # a member that only ever is null
    "null": "string",
}


@dataclass(frozen=True)
class WriterField:
    """One column as a producer wrote it."""

    name: str
    """The source's spelling."""
    raw: types.Type
    """The Hive type of the value in the file. Connect's JSON writes bytes and decimals as base64 text; their `raw` is Connect's type, `binary`."""
    type: types.Type
    """The Hive type of the stored value."""
    semantic: str = ""
    """The semantic type of the value, such as `io.debezium.time.Date`; "" without one."""
    scale: int = 0
    default: Any = None
    """The source's default if it is a constant (`core/schema/semantic_types.py`)."""
    doc: str = ""
    item: WriterField | None = None
    """The elements of an array."""
    members: tuple[WriterField, ...] = ()
    """The members of a struct, or the values of a map, if some value inside is stored as another type than `raw`; else ()."""
    guessed: bool = False
    """Whether the type is a guess from values of CSV or of JSON without schema. Values of the next file may suggest another type."""
    inferred: bool = False
    """Whether the type comes from JSON values, which do not distinguish integers from fractions."""
    aliases: tuple[str, ...] = ()
    """Earlier names of the column (Avro)."""
    marked: types.Type | None = None
    """`raw` with marks where the values of JSON show no type (`core/schema/nested_types.py`). They are text. None without any."""

    @property
    def single(self) -> WriterField:
        """The elements of an array, or of arrays of arrays; else the column."""
        return self.item.single if self.item else self

    def of_single(self, raw: types.Type, semantic: str) -> WriterField:
        """Return the column with another raw type and meaning of `single`."""
        item = self.item and self.item.of_single(raw, semantic)
        return replace(self, raw=("array", item.raw), item=item) if item else replace(self, raw=raw, semantic=semantic)


@dataclass(frozen=True)
class WriterSchema:
    """The columns of one producer."""

    id: str
    """Identifies the schema (`signature`)."""
    fields: tuple[WriterField, ...]
    first: Position | None = None
    """The least Position of the events with this schema. The engine sets it."""
    last: Position | None = None
    """The greatest Position of the events with this schema. The engine sets it."""
    undecided: tuple[str, ...] = ()
    """Columns without a value: only nulls."""
    large: bool = False
    """Whether its records may have numbers that a double or a decimal does not hold."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Members of objects (as JSON writes them) that are another member in all but case, which no object has beside it, and the name of that one."""
    blanks: bool = False
    """Whether its records may have empty texts as elements of arrays. In an array of numbers they are nulls."""
    fractions: bool = False
    """Whether its rows are JSON without schema, and some record has a number with a fraction or an exponent."""
    whole: bool = True
    """Whether its rows have all columns of the source's table. False for deletes, which may have the key only, and for incomplete events."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, those without a value last."""
        return (*(field.name for field in self.fields), *self.undecided)

    def field(self, name: str) -> WriterField | None:
        return next((field for field in self.fields if field.name == name), None)

    def declared(self, name: str, names: Collection[str]) -> WriterField | None:
        """Return the field that declares a column of files with these `names`: that of its name, else the only one whose name differs in case."""
        others = [field for field in self.fields if field.name.lower() == name.lower() and field.name not in names]
        return self.field(name) or (replace(others[0], name=name) if len(others) == 1 else None)


def signature(text: str) -> str:
    """Return a short, stable id for the text of a schema."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def from_connect(text: str, bare: bool = False) -> WriterSchema:
    """Return the columns of the row in a Connect schema: `after` of an envelope; with `bare` the struct itself. Raises SchemaRefused."""
    root = json.loads(text, parse_float=Decimal)
    if root.get("type") != "struct":
        raise SchemaRefused(f"expected a Connect struct schema, found type {root.get('type')!r}")
    members = {member.get("field"): member for member in root["fields"]}
    row = members["after"] if "after" in members and "op" in members and not bare else root
    return WriterSchema(signature(text), tuple(_connect_field(member) for member in row["fields"]))


def _connect_field(member: dict[str, Any]) -> WriterField:
    name, semantic = member.get("field", ""), member.get("name") or ""
    raw = _connect_type(member, name)
    parameters = member.get("parameters") or {}
    if semantic == DIGITS and raw == ("double",):
        digits, places = (int(parameters.get(each, 0)) for each in ("precision", "scale"))
        kind: types.Type = ("decimal", digits, places) if 0 < digits <= 38 else ("string",)
        return WriterField(name, ("string",), kind, semantic, doc=member.get("doc") or "")
    scale = int(parameters.get("scale", 0)) if semantic == DECIMAL else 0
    item = _connect_field(member["items"]) if raw[0] == "array" else None
    inside = {"struct": member.get("fields", ()), "map": [member.get("values")]}.get(raw[0], ())
    precision = int(parameters.get("connect.decimal.precision", 38))
    stored = ("array", item.type) if item else _stored(raw, semantic, scale, precision)
    default = constant(member.get("default"), stored, semantic, scale, base64.b64decode)
    field = WriterField(name, raw, stored, semantic, scale, default, member.get("doc") or "", item)
    return _with_members(field, tuple(map(_connect_field, inside)))


def _with_members(field: WriterField, members: tuple[WriterField, ...]) -> WriterField:
    """Return a struct or map with its members, and the type that follows from theirs, if one of them has a meaning."""
    if not members or field.semantic in TARGETS:
        return field
    if field.raw[0] == "map":
        stored: types.Type = ("map", types.stored_names(field.raw)[1], members[0].type)
    else:
        stored = types.stored_names(("struct", tuple((member.name, member.type) for member in members)))
    return replace(field, type=stored, members=members) if stored != types.stored_names(field.raw) else field


def _connect_type(member: dict[str, Any], path: str) -> types.Type:
    kind = member["type"]
    if kind == "array":
        return ("array", _connect_type(member["items"], path))
    if kind == "map":
        return ("map", _connect_type(member["keys"], path), _connect_type(member["values"], path))
    if kind == "struct":
        return ("struct", tuple((inner["field"], _connect_type(inner, f"{path}.{inner['field']}")) for inner in member["fields"]))
    if kind not in _CONNECT:
        raise SchemaRefused(f"column {path}: unknown Connect type {kind!r}")
    return (_CONNECT[kind],)


def _stored(raw: types.Type, semantic: str, scale: int, precision: int) -> types.Type:
    if semantic == DECIMAL:
        # engines have no decimals of more digits: stored as exact text
        # Oracle's scale may be negative (NUMBER(20,-2): whole hundreds) or exceed the precision (NUMBER(3,5): fractions below 0.01)
        digits = max(precision - min(scale, 0), scale + 1 if precision < scale < 38 else scale)
        return ("decimal", digits, max(scale, 0)) if digits <= 38 else ("string",)
    if semantic in TARGETS:
        return types.parse(TARGETS[semantic])
    return types.stored_names(raw)


MEMBERS_MAX = 10_000
"""The largest number of columns and nested members. A short Avro schema can have millions, because it may use a named record many times."""

_LOGICAL = {
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""Avro's logical types that Spark reads as plain numbers, with the equivalent semantic type."""

MICROS = "io.debezium.time.MicroTimestamp"
_MOMENTS = {
    "timestamp-millis": "io.debezium.time.Timestamp",
    "timestamp-micros": MICROS,
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": MICROS,
}
"""Those that Spark reads as timestamps out of Avro files. In JSON under a declared schema they are numbers."""

_CONNECT_PRECISION = 64
"""The precision that Confluent's converter writes for a decimal of unknown precision."""


def from_avro(text: str) -> WriterSchema:
    """Return the columns of the row in an Avro schema: those of `after` of an envelope, else of the record itself. Raises SchemaRefused.

    A column of the type null is undecided.
    """
    schema = avro.parse(text)
    reader = _AvroReader(schema)
    members = schema.row()["fields"]
    undecided = tuple(member["name"] for member in members if schema.only_null(member["type"]))
    fields = tuple(reader.field(member, member["name"]) for member in members if member["name"] not in undecided)
    return WriterSchema(signature(text), fields, undecided=undecided)


def avro_type(text: str) -> types.Type:
    """Return the type of the records of an Avro schema, as Spark's Avro reader returns them. Raises SchemaRefused."""
    schema = avro.parse(text)
    return _AvroReader(schema).raw(schema.root, "", ())


class _AvroReader:
    """Converts Avro's types to the types that Spark's Avro reader returns (`raw`) and to stored types. Counts the members."""

    def __init__(self, schema: avro.AvroSchema) -> None:
        self._schema = schema
        self._left = MEMBERS_MAX

    def field(self, member: dict[str, Any], path: str, inside: tuple[str, ...] = ()) -> WriterField:
        """Return a column, or a value inside of one."""
        kind = self._schema.present(member["type"])
        raw = self.raw(member["type"], path, inside)
        logical, semantic = kind.get("logicalType"), _LOGICAL.get(str(kind.get("logicalType")), kind.get("connect.name") or "")
        precision, scale = _digits(kind)
        if semantic == DECIMAL and not precision:
            # a scale that Avro's own decimals cannot have: plain bytes for Avro, and a number for Connect
            parameters = kind.get("connect.parameters") or {}
            scale, precision = int(parameters.get("scale", kind.get("scale", 0))), int(parameters.get("connect.decimal.precision", 38))
        elif precision:
            semantic = DECIMAL
        elif raw[0] in ("date", "timestamp"):
            semantic = _MOMENTS.get(str(logical), "io.debezium.time.Date")
        # what is inside was counted
        left, self._left = self._left, MEMBERS_MAX
        item = self.field({"name": "", "type": kind["items"]}, f"{path}[]", inside) if raw[0] == "array" else None
        members = tuple(self.field(*each) for each in self._inside(kind, path, inside))
        self._left = left
        understood = raw[0] in ("date", "timestamp", "decimal")
        stored = ("array", item.type) if item else raw if understood else _stored(raw, semantic, scale, precision or 38)
        default = constant(member.get("default"), stored, semantic, scale, lambda packed: packed.encode("latin-1"))
        listed = member.get("aliases")
        aliases = tuple(str(alias) for alias in listed) if isinstance(listed, list) else ()
        field = WriterField(member["name"], raw, stored, semantic, scale, default, member.get("doc") or "", item, aliases=aliases)
        return _with_members(field, members)

    @staticmethod
    def _inside(kind: dict[str, Any], path: str, inside: tuple[str, ...]) -> list[tuple[dict[str, Any], str, tuple[str, ...]]]:
        """Return the arguments of `field` for the members of a record, or the values of a map."""
        if kind["type"] == "map":
            return [({"name": "", "type": kind["values"]}, f"{path}{{}}", inside)]
        return [(member, f"{path}.{member['name']}", (*inside, kind["name"])) for member in kind["fields"]] if kind["type"] == "record" else []

    def raw(self, avro_type: Any, path: str, inside: tuple[str, ...]) -> types.Type:
        """Return a type as Spark's Avro reader returns it. `inside`: the records around it."""
        self._left -= 1
        if self._left < 0:
            raise SchemaRefused(f"column {path}: the schema has more than {MEMBERS_MAX} columns and nested members")
        kind = self._schema.present(avro_type)
        base, logical = kind["type"], kind.get("logicalType")
        precision, scale = _digits(kind)
        if precision and precision <= 38 and not _unknown_precision(kind):
            return ("decimal", precision, scale)
        if base == "int" and logical == "date":
            return ("date",)
        if base == "long" and logical in _MOMENTS:
            return ("timestamp",)
        if base == "array":
            return ("array", self.raw(kind["items"], f"{path}[]", inside))
        if base == "map":
            return ("map", ("string",), self.raw(kind["values"], f"{path}{{}}", inside))
        if base == "union":
            return self._union(kind["branches"], path, inside)
        if base == "record":
            if kind["name"] in inside:
                raise SchemaRefused(
                    f"column {path}: the record {kind['name']} contains itself, and Hive has no recursive types. Leave the column out at the source."
                )
            below = (*inside, kind["name"])
            return ("struct", tuple((member["name"], self.raw(member["type"], f"{path}.{member['name']}", below)) for member in kind["fields"]))
        return (_AVRO[base],)

    def _union(self, branches: list[Any], path: str, inside: tuple[str, ...]) -> types.Type:
        """Return the type of a union as Spark's reader makes it: a common number type, else a struct with one member for each branch."""
        kinds = {self._schema.of(branch)["type"] for branch in branches}
        if kinds == {"int", "long"}:
            return ("bigint",)
        if kinds == {"float", "double"}:
            return ("double",)
        if not branches:
            raise SchemaRefused(f"column {path}: expected a union with a type besides null, found none")
        return ("struct", tuple((f"member{at}", self.raw(branch, path, inside)) for at, branch in enumerate(branches)))


def _digits(kind: dict[str, Any]) -> tuple[int, int]:
    """Return precision and scale of an Avro decimal. Precision 0: it is no decimal, or breaks Avro's rules and counts as plain bytes.

    A Connect decimal of unknown precision gets 38 digits, the most that engines have.
    """
    precision, scale = kind.get("precision"), kind.get("scale", 0)
    if kind.get("logicalType") != "decimal" or kind["type"] not in ("bytes", "fixed"):
        return 0, int(scale) if isinstance(scale, int) else 0
    if not isinstance(precision, int) or not isinstance(scale, int) or precision <= 0 or not 0 <= scale <= precision:
        return 0, 0
    if kind["type"] == "fixed" and precision > len(str(2 ** (8 * kind["size"] - 1))) - 1:
        return 0, 0
    return (38 if _unknown_precision(kind) else precision), scale


def _unknown_precision(kind: dict[str, Any]) -> bool:
    """Return whether a decimal has the precision that the converter writes for an unknown one."""
    parameters = kind.get("connect.parameters") or {}
    return kind.get("connect.name") == DECIMAL and kind.get("precision") == _CONNECT_PRECISION and "connect.decimal.precision" not in parameters
