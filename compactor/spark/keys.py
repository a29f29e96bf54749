"""Keys as text and as structs: how the engine writes, compares and reads back the key of a row; and the keys that the two halves of a key
change give each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.files import Segment
from compactor.core.model.schema import Schema
from compactor.spark.columns import FROM, LINK, TO
from compactor.spark.sql import cast, literal, named, quoted, struct


def key_text(columns: Sequence[str], kinds: Sequence[str]) -> str:
    """SQL: a key as one JSON text, a list of strings.

    `columns` are SQL for the key columns and `kinds` their Hive types. Bytes are written in hexadecimal. `key_columns` is the inverse.
    """
    parts = [f"hex({value})" if kind == "binary" else f"CAST({value} AS STRING)" for value, kind in zip(columns, kinds)]
    return f"to_json(array({', '.join(parts)}))"


def key_columns_text(key: str, names: Sequence[str], kinds: Sequence[str]) -> str:
    """SQL: a key that is a struct (SQL) with these members as the text of `key_text`."""
    return key_text([f"{key}.{quoted(name)}" for name in names], kinds)


def key_columns(text: str, kinds: Sequence[str]) -> list[str]:
    """SQL for each key column out of a text that `key_text` wrote."""
    return [_column(f"get(from_json({text}, 'ARRAY<STRING>'), {at})", kind) for at, kind in enumerate(kinds)]


def _column(text: str, kind: str) -> str:
    return f"unhex({text})" if kind == "binary" else cast(text, types.parse(kind))


def key_types(schema: Schema) -> list[str]:
    return [schema.field(name).type for name in schema.key]


def row_key(schema: Schema) -> str:
    """SQL: the key of a stored row as text."""
    return key_text([quoted(name) for name in schema.key], key_types(schema))


def link_key_changes(changes: DataFrame, schema: Schema, left: DataFrame, arrived: DataFrame | None = None) -> DataFrame:
    """Return Changes with FROM of creates that lack values and name no old key, and with TO of deletes.

    The other half of such a key change has the same transaction and LSN. `left` and `arrived` are (LINK, `_key`) of deletes and of creates; links
    that several keys share are left alone.
    """
    key, joined = row_key(schema), changes
    for halves, name in ((left, "_left"), (arrived, "_arrived")):
        if halves is not None:
            by_link = halves.groupBy(LINK).agg(named("min(_key)", name), named("count(DISTINCT _key)", "_n")).where("_n = 1").drop("_n")
            joined = joined.join(by_link, [LINK], "left")
    came = f"coalesce(_from, CASE WHEN _op = 'c' AND size(_missing) > 0 AND _left <> {key} THEN _left END) AS _from"
    filled = {FROM: came} if arrived is None else {FROM: came, TO: f"CASE WHEN _op = 'd' AND _arrived <> {key} THEN _arrived END AS _to"}
    return joined.selectExpr(*(quoted(name) for name in changes.columns if name not in filled), *filled.values())


def key_struct(schema: Schema) -> str:
    """SQL: the key of a stored row as a struct, which compares as keys do."""
    return struct([(name, quoted(name)) for name in schema.key])


def key_struct_before(schema: Schema, now: Schema) -> str:
    """SQL: the key of a row in the columns of `now` as a struct that compares as it did in `schema`: a number that became text has another order."""
    text = {name for name in schema.key if now.field(name).type == "string" != schema.field(name).type}
    return struct([(name, cast(quoted(name), types.parse(schema.field(name).type)) if name in text else quoted(name)) for name in schema.key])


def least_key(schema: Schema) -> str:
    """SQL for an aggregation: the smallest key of a group as text."""
    return key_columns_text(f"min({key_struct(schema)})", schema.key, key_types(schema))


def bound(low_or_high: Sequence[Any], schema: Schema) -> str:
    """SQL for one bound of a Segment as a struct that compares with `key_struct`."""
    values = [_column(literal(text), kind) for text, kind in zip(low_or_high, key_types(schema))]
    # structs compare only when their members have the same names
    return struct(list(zip(schema.key, values)))


def segment_index(segments: Sequence[Segment], schema: Schema, now: Schema | None = None) -> str:
    """SQL: the index of the Segment that owns a row's key. `segments` are in key order and cover all keys.

    `schema` is that of the Segments; `now` that of the rows, if another one.
    """
    return range_index([segment.high for segment in segments], schema, key_struct_before(schema, now) if now else None)


def owners(segments: Sequence[Segment], schema: Schema) -> dict[str, str]:
    """SQL for an aggregation (name → expression) whose result shows which Segments own the keys of rows (`not_owning`)."""
    return {"owners": f"collect_set({segment_index(segments, schema)})"} if segments else {}


def not_owning(segments: Sequence[Segment], numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the Segments that own none of the rows, from the result of `owners`; () if nothing computed it."""
    return tuple(segment.id for at, segment in enumerate(segments) if "owners" in numbers and at not in numbers["owners"])


def range_index(highs: Sequence[Any], schema: Schema, key: str | None = None) -> str:
    """SQL: the index of the key range that holds a row's key. `highs` are the upper bounds, in key order; the last one does not matter.

    `key` is SQL for the key as a struct, if it is not `key_struct`. A large table has thousands of ranges. They are compared in groups: of n bounds a
    row is compared with 2 √n at most.
    """
    size, key = math.isqrt(len(highs)) or 1, key or key_struct(schema)
    groups = [range(first, min(first + size, len(highs))) for first in range(0, len(highs), size)]
    inner = [_first_above([highs[at] for at in group], [str(at) for at in group], schema, key) for group in groups]
    return _first_above([highs[group[-1]] for group in groups], inner, schema, key) if groups else "0"


def _first_above(highs: Sequence[Any], results: Sequence[str], schema: Schema, key: str) -> str:
    cases = " ".join(f"WHEN {key} < {bound(high, schema)} THEN {result}" for high, result in zip(highs[:-1], results))
    return f"CASE {cases} ELSE {results[-1]} END" if cases else results[-1]
