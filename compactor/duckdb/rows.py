"""Rows as JSON texts, made by DuckDB itself: exact for every type, and in the form in which Spark writes them.

| value | JSON |
|---|---|
| numbers | as they are; NaN and infinities as text |
| date, timestamp | ISO 8601, UTC; years beyond 9999 with a sign |
| binary | base64 |
| map | an object, keys as text |
| anything else, such as an interval | its text |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compactor.core.catalog.dialect import DUCKDB
from compactor.core.model import types

_NUMBERS = {"tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint", "decimal"}
_TEXT = DUCKDB.text
_LEADING_POINT = "regexp_replace({}, '^(-?)[.]', '\\10.')"
"""DuckDB writes .5 for 0.5 of a decimal without digits before the point."""


def object_text(names: Sequence[str], values: Sequence[str], kinds: Sequence[Any]) -> str:
    """Return SQL for a row as a JSON object. `values`: SQL of the columns; `kinds`: their DuckDB types."""
    return _object([*zip(names, values, kinds, strict=True)])


def _object(members: Sequence[tuple[str, str, Any]], depth: int = 0) -> str:
    parts = []
    for at, (name, value, kind) in enumerate(members):
        label = f"{',' if at else ''}{_label(name)}:"
        parts.append(f"{_TEXT(label)}, coalesce({_text(value, kind, depth)}, 'null')")
    return f"concat('{{', {', '.join(parts)}, '}}')" if parts else "'{}'"


def _label(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _text(value: str, kind: Any, depth: int) -> str:
    """Return SQL for a value as JSON, null for null. `depth`: how many lambdas are around it."""
    family = kind.id
    if family == "decimal" and _child(kind, "precision") == _child(kind, "scale"):
        return _LEADING_POINT.format(f"CAST({value} AS VARCHAR)")
    if family in _NUMBERS:
        return f"CAST({value} AS VARCHAR)"
    if family == "boolean":
        return f"CASE WHEN {value} THEN 'true' WHEN NOT {value} THEN 'false' END"
    if family in ("float", "double"):
        return _float_text(value, '"')
    # a run never stores an infinite time, but a statement may compute one
    if family == "date":
        return f"'\"' || coalesce({_day(value)}, CAST({value} AS VARCHAR)) || '\"'"
    if family == "timestamp with time zone":
        # the calendar of a time zone is slow, and the zone is UTC
        return f"coalesce({_moment(f'make_timestamp(epoch_us({value}))', 'Z')}, '\"' || CAST({value} AS VARCHAR) || '\"')"
    if family in ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"):
        return f"coalesce({_moment(f'CAST({value} AS TIMESTAMP)', '')}, '\"' || CAST({value} AS VARCHAR) || '\"')"
    if family == "blob":
        return f"'\"' || base64({value}) || '\"'"
    if family in ("list", "array"):
        item = f"e{depth}"
        texts = f"list_transform({value}, lambda {item}: coalesce({_text(item, _child(kind, 'child'), depth + 1)}, 'null'))"
        return f"'[' || array_to_string({texts}, ',') || ']'"
    if family == "struct":
        members = [(name, f"{value}.{DUCKDB.name(name)}", child) for name, child in kind.children]
        return f"CASE WHEN {value} IS NOT NULL THEN {_object(members, depth)} END"
    if family == "map":
        item = f"e{depth}"
        key = _text(f"{item}.key", _child(kind, "key"), depth + 1)
        key = f"CASE WHEN starts_with({key}, '\"') THEN {key} ELSE CAST(to_json({key}) AS VARCHAR) END"
        text = _text(f"{item}.value", _child(kind, "value"), depth + 1)
        texts = f"list_transform(map_entries({value}), lambda {item}: {key} || ':' || coalesce({text}, 'null'))"
        return f"'{{' || array_to_string({texts}, ',') || '}}'"
    return f"CAST(to_json(CAST({value} AS VARCHAR)) AS VARCHAR)"


def spark_text(value: str, kind: types.Type) -> str:
    """Return SQL for a value as Spark casts it to text, null for null. `kind`: its Hive type, no nested one."""
    if kind[0] in ("float", "double"):
        return _float_text(value)
    if kind[0] == "date":
        return _day(value)
    if kind[0] == "timestamp":
        moment = f"make_timestamp(epoch_us({value}))"
        return f"{_day(moment)} || rtrim(rtrim(strftime({moment}, ' %H:%M:%S.%f'), '0'), '.')"
    if kind[0] == "binary":
        return f"decode({value})"
    text = f"CAST({value} AS VARCHAR)"
    return _LEADING_POINT.format(text) if kind[0] == "decimal" else text


def _float_text(value: str, quote: str = "") -> str:
    """Return SQL for the text of a number, null for null. `quote`: what stands around NaN and infinities."""
    nan, infinity, negative = (f"'{quote}{text}{quote}'" for text in ("NaN", "Infinity", "-Infinity"))
    special = f"CASE WHEN isnan({value}) THEN {nan} WHEN {value} > 0 THEN {infinity} ELSE {negative} END"
    return f"CASE WHEN isfinite({value}) THEN {_decimal_text(value)} WHEN {value} IS NOT NULL THEN {special} END"


def _decimal_text(value: str) -> str:
    """Return SQL for the text of a finite number, as Java writes it: with an exponent below 0.001 and from 10,000,000 on."""
    text = f"CAST(abs({value}) AS VARCHAR)"
    # DuckDB writes 123456789.5, 1e+16, 0.0001, 1e-05
    mantissa, power = f"split_part({text}, 'e', 1)", f"coalesce(TRY_CAST(split_part({text}, 'e', 2) AS INTEGER), 0)"
    whole, part = f"split_part({mantissa}, '.', 1)", f"split_part({mantissa}, '.', 2)"
    digits = f"ltrim({whole} || {part}, '0')"
    shift = f"(length({whole}) - 1 - (length({whole} || {part}) - length({digits})))"
    after = f"coalesce(nullif(rtrim(substring({digits}, 2), '0'), ''), '0')"
    scientific = f"left({digits}, 1) || '.' || {after} || 'E' || ({power} + {shift})"
    plain = f"{value} = 0 OR (abs({value}) >= 1e-3 AND abs({value}) < 1e7)"
    return f"CASE WHEN {plain} THEN CAST({value} AS VARCHAR) ELSE CASE WHEN {value} < 0 THEN '-' ELSE '' END || {scientific} END"


def _child(kind: Any, name: str) -> Any:
    return dict(kind.children)[name]


def _day(value: str) -> str:
    """Return SQL for the text of a date. DuckDB's `%Y` has neither a plus nor leading zeros for years outside of 1 to 9999."""
    year = f"year({value})"
    other = f"CASE WHEN {year} > 9999 THEN '+' WHEN {year} < 0 THEN '-' ELSE '' END || format('{{:04d}}', abs({year})) || strftime({value}, '-%m-%d')"
    return f"CASE WHEN {year} BETWEEN 1 AND 9999 THEN strftime({value}, '%Y-%m-%d') ELSE {other} END"


def _moment(value: str, zone: str) -> str:
    return f"'\"' || {_day(value)} || strftime({value}, 'T%H:%M:%S.%f') || '{zone}\"'"
