"""Declared types of columns (`types:`, `schema:`), and what they say of the values of a file.

The words of `types:` are Hive types of single values, and words for numbers that stand for dates and times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import NULL
from compactor.core.model.schema import Schema
from compactor.core.schema import nested_types
from compactor.core.schema.semantic_types import DECIMAL, NUMBER_OR_BYTES, TARGETS, VARIABLE_DECIMAL
from compactor.core.schema.writer import WriterField, WriterSchema

ENCODED = {
    "date_days": "io.debezium.time.Date",
    "timestamp_millis": "io.debezium.time.Timestamp",
    "timestamp_micros": "io.debezium.time.MicroTimestamp",
    "timestamp_nanos": "io.debezium.time.NanoTimestamp",
    "time_millis": "io.debezium.time.Time",
    "time_micros": "io.debezium.time.MicroTime",
    "time_nanos": "io.debezium.time.NanoTime",
}
"""Word → semantic type of the numbers, by Debezium's names: days or moments since 1970, times since midnight."""

WORDS = (*types.SCALARS, *ENCODED)


def column(name: str, word: str) -> WriterField:
    """Return the column that a word of `types:` declares. Raises ValueError for a word that is no type of single values.

    >>> column("born", "date_days").type, column("at", "timestamp_millis").type, column("fee", "decimal(9,2)").scale
    (('date',), ('timestamp',), 2)
    """
    if word in ENCODED:
        kind = types.parse(TARGETS[ENCODED[word]])
        return WriterField(name, kind, kind, ENCODED[word])
    kind = types.parse(word)
    if (not types.is_scalar(kind) and kind != ("binary",)) or (kind[0] == "decimal" and not 0 <= kind[2] <= kind[1] <= 38):
        raise ValueError(f"not a type of single values: {word!r}")
    return WriterField(name, kind, kind, DECIMAL, kind[2]) if kind[0] == "decimal" else WriterField(name, kind, kind)


def declared(settings: Sequence[tuple[str, str]]) -> WriterSchema | None:
    """Return the columns that `types:` declares, as (column, word); None without any."""
    return WriterSchema("types", tuple(column(name, word) for name, word in settings)) if settings else None


def over(typed: WriterSchema | None, schema: WriterSchema | None) -> WriterSchema | None:
    """Return the columns of both; those of `types:` (`typed`) take precedence over those of `schema:`."""
    if typed is None or schema is None:
        return typed or schema
    return WriterSchema(schema.id, (*typed.fields, *(field for field in schema.fields if typed.field(field.name) is None)))


def check(table: str, schema: Schema | None, typed: WriterSchema | None) -> None:
    """Raise SchemaRefused if stored values were written under another type than the declared one, and none can store both."""
    names = {field.source for field in schema.payload} if schema else set[str]()
    for field in schema.payload if schema else ():
        # what `columns:` hashes or masks is stored as text
        declared_ = typed.declared(field.source, names) if typed and field.protection in ("", NULL) else None
        stored = types.parse(field.type)
        if declared_ is not None and types.widest(stored, declared_.type, also=("date_to_timestamp",)) is None:
            raise SchemaRefused(
                f"table {table}, column {field.source}: `types:` declares {types.text(declared_.type)}, and its rows are stored as {field.type}. "
                f"Stored values do not change by a declaration. Read them again from the archive: compactor rebuild {table} --accept-differences"
            )


def as_declared(inferred: WriterSchema, schema: WriterSchema, text: bool = False) -> WriterSchema:
    """Return a writer that was inferred from values, with the columns of a declared schema. Undecided columns get their type from it.

    `raw` stays as it was inferred, because JSON and Parquet encode the same type differently. `text`: the values are JSON, and can be read as the
    text that the source wrote: those that could lose something as the inferred type are.
    """
    names = {*inferred.names}
    fields = [_declared(field, other, text) if (other := schema.declared(field.name, names)) else field for field in inferred.fields]
    untyped = {name: schema.declared(name, names) for name in inferred.undecided}
    fields += [replace(field, raw=("string",)) if text and types.is_scalar(field.type) else field for field in untyped.values() if field]
    return replace(inferred, fields=tuple(fields), undecided=tuple(name for name, field in untyped.items() if field is None))


def _declared(field: WriterField, other: WriterField, text: bool) -> WriterField:
    """Return the declared column `other`, whose values were read as `field`. Raises SchemaRefused for a number without unit that means a time."""
    raw = nested_types.unmarked(nested_types.shown(field.marked, other.raw))[0] if field.marked else field.raw
    if _has_own_scale(raw) and other.type[0] in _OF_NUMBERS:
        return replace(other, raw=raw, semantic=VARIABLE_DECIMAL)
    semantic = other.semantic or (field.semantic if field.type == other.type else "")
    if not text and not semantic and other.type[0] in ("date", "timestamp") and raw[0] in ("int", "bigint"):
        units = "date_days" if other.type[0] == "date" else "timestamp_millis, timestamp_micros or timestamp_nanos"
        raise SchemaRefused(f"column {field.name}: declared as {other.type[0]}, and the files have {raw[0]}. Declare {units} in `types:`.")
    if text and (inside := _unread(types.stored_names(raw), other.type)):
        raise SchemaRefused(
            f"column {field.name}{inside[0]}: declared as {inside[1]}, and the JSON has {inside[2]} there. Only columns and arrays of single values "
            "are read as numbers or base64 that a schema explains. Leave out its `logicalType` or `connect.name` in `schema:`."
        )
    if semantic == DECIMAL and types.is_scalar(raw):
        # a number is no bytes
        semantic = NUMBER_OR_BYTES if raw == ("string",) else ""
    if text and types.is_scalar(other.type) and semantic != VARIABLE_DECIMAL:
        exact = other.type == types.widest(raw, other.type) or (raw == ("bigint",) and bool(semantic))
        raw = raw if exact else ("string",)
    return replace(other, raw=raw, semantic=semantic)


_OF_NUMBERS = ("string", "decimal", "tinyint", "smallint", "int", "bigint", "float", "double")
"""Kinds of columns that may be declared for numbers."""


def _has_own_scale(raw: types.Type) -> bool:
    """Return whether values such as `{"scale": 0, "value": "AQ=="}` are of this type: Debezium's numbers of no certain scale, as Oracle's are."""
    kinds = {name: kind[0] for name, kind in raw[1]} if raw[0] == "struct" else {}
    return kinds.keys() == {"scale", "value"} and kinds["scale"] in ("int", "bigint") and kinds["value"] in ("string", "binary")


def _unread(written: types.Type, declared_: types.Type) -> tuple[str, str, str] | None:
    """Return (path, declared type, written type) of the first member of a struct or map whose numbers or base64 would be misread, or None."""
    if written[0] != declared_[0] or written[0] not in ("array", "map", "struct"):
        return None
    inner = [("[]" if written[0] == "array" else "{}", written[-1], declared_[-1])]
    if written[0] == "struct":
        inner = [(f".{name}", kind, dict(declared_[1])[name]) for name, kind in written[1] if name in dict(declared_[1])]
    for path, kind, meant in inner:
        time, packed = meant[0] in ("date", "timestamp") and kind[0] in ("int", "bigint"), meant[0] == "decimal" and kind == ("string",)
        if written[0] != "array" and (time or packed):
            return path, types.text(meant), types.text(kind)
        if below := _unread(kind, meant):
            return path + below[0], *below[1:]
    return None
