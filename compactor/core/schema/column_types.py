"""Declared types of columns (`types:`): Hive types of single values, and words for numbers that stand for dates and times."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.schema import Schema
from compactor.core.schema.writer import DECIMAL, TARGETS, WriterField, WriterSchema

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
    for field in schema.payload if schema else ():
        declared_ = typed.field(field.source) if typed else None
        stored = types.parse(field.type)
        if declared_ is not None and types.widest(stored, declared_.type, also=("date_to_timestamp",)) is None:
            raise SchemaRefused(
                f"table {table}, column {field.source}: `types:` declares {types.text(declared_.type)}, and its rows are stored as {field.type}. "
                f"Stored values do not change by a declaration. Read them again from the archive: compactor rebuild {table} --accept-differences"
            )
