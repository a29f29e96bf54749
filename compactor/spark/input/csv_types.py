"""Values of CSV files get types: declared by `types:` or a schema, else inferred from the values without loss.

Inference loses no digit, and it makes no difference how many runs the files come in. The type of a column is

| type | if every value of the run, and the column as it is stored, is |
|---|---|
| bigint; beyond 64 bits decimal(38,0) | a whole number as a computer writes it: no leading zero, no plus sign (`007` and `+7` are text) |
| decimal(19+s, s) | such a number with at most s digits after the point; wider for more whole digits, up to 38 in all |
| string | anything else: numbers with exponent, dates and times (only a schema can give their form and zone) |

Blanks around a number or time of a declared type are no part of it.
A later value may widen a number (12.50, then 12.505); a number never becomes text unless `on_schema_change` names `to_string`.
The source did not state an inferred type, so a different one never makes a second column of one name (`WriterField.guessed`). A value that does not
fit a declared type makes the record invalid, never null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from compactor.core.model import types
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import flat_rows
from compactor.spark.columns import BLOCK, FILE, ROW, UNREADABLE, VALUE
from compactor.spark.decode import conversions
from compactor.spark.input.files import RawFrame
from compactor.spark.sql import END, cited, literal, named, quoted, struct

_WHOLE = f"^-?(0|[1-9][0-9]*){END}"
_NUMBER = f"^-?(0|[1-9][0-9]*)([.][0-9]+)?{END}"
_NO_VALUE = ("infinity", "-infinity", "inf", "-inf", "nan")
_FAR = "^[+-]?[0-9]{5,}-"
"""Special values that databases write and that no engine's date, time or decimal can hold: null by policy (docs/sources.md), not an error."""
_DIGITS_MAX = 38
_WHOLE_DIGITS = 19
"""Whole digits of an inferred decimal, where there is room: enough for most columns, so that the type seldom needs to widen."""


def add_types(raws: Sequence[RawFrame], stored: Sequence[WriterField], schema: WriterSchema | None, spec: TableSpec) -> list[RawFrame]:
    """Return text frames with typed values. `stored` are the table's columns, `schema` has the declared ones.

    The operation's code stays text. A column BI_x of before images has the type of x.
    """
    twins, operation = spec.source.before_prefix, spec.op or spec.source.operation_column
    words = (operation,) if operation else ()
    guesses: dict[str, types.Type | None] = {field.name: field.type for field in stored}
    for raw in raws:
        for name, guess in _guessed(raw, schema, words, spec).items():
            own = name[len(twins) :] if twins and name.startswith(twins) and name[len(twins) :] in dict(_columns(raw)) else name
            guesses[own] = _joined(guesses.get(own), guess)
    return [_typed(raw, guesses, schema, words, twins) for raw in raws]


def _columns(raw: RawFrame) -> tuple[tuple[str, types.Type], ...]:
    assert raw.schema is not None
    columns: tuple[tuple[str, types.Type], ...] = raw.schema[1]
    return columns


def _joined(left: types.Type | None, right: types.Type | None) -> types.Type | None:
    """Return the type that holds every digit of the values of both types."""
    if left is None or right is None:
        return left or right
    return types.widest(left, right) or ("string",)


def _guessed(raw: RawFrame, schema: WriterSchema | None, words: Sequence[str], spec: TableSpec) -> dict[str, types.Type | None]:
    """Infer a type for each column that is not declared, None where there is no value. One Spark job."""
    present, twins = [name for name, _ in _columns(raw)], spec.source.before_prefix
    names = [name for name in present if name not in words and not (schema and schema.declared(name, present))]
    if not names:
        return {}
    # a row without before image has empty values there, whatever stands for null elsewhere
    texts = {name: f"nullif(_value.{quoted(name)}, '')" if twins and name.startswith(twins) else f"_value.{quoted(name)}" for name in names}
    valid, operation = f"{raw.unreadable} IS NULL", next((name for name in flat_rows.operation_names(spec.op) if name in present), None)
    if operation and spec.source.operation_column:
        code, meanings = f"coalesce(lower(trim(_value.{quoted(operation)})), '')", flat_rows.operations(spec)
        valid += f" AND {code} IN ('', {', '.join(map(literal, meanings))})"
        if spec.key:
            # of a delete only these values count; the others may be fillers
            used = {name.lower() for name in (*spec.key, *spec.order_by)}
            deleted = f"{code} IN ({', '.join(literal(text) for text, meaning in meanings.items() if meaning == 'd')})"
            texts = {name: text if name.lower() in used else f"CASE WHEN NOT {deleted} THEN {text} END" for name, text in texts.items()}
    summary = [part for at, name in enumerate(names) for part in _counts(texts[name], at)]
    row = raw.rows.where(valid).agg(*summary).collect()[0]
    return {name: _guess(row, at) for at, name in enumerate(names)}


def _counts(value: str, at: int) -> list[Any]:
    """Return the aggregations over one column that `_guess` needs: letter of the figure + number of the column."""
    scale = f"length(regexp_extract({value}, '[.]([0-9]+)$', 1))"
    return [
        named(f"count({value})", f"n{at}"),
        named(f"count_if(NOT {value} RLIKE '{_WHOLE}')", f"w{at}"),
        named(f"count_if(NOT {value} RLIKE '{_NUMBER}')", f"f{at}"),
        named(f"count_if({value} RLIKE '{_WHOLE}' AND try_cast({value} AS BIGINT) IS NULL)", f"b{at}"),
        named(f"max(length(regexp_extract({value}, '^-?([0-9]+)', 1)))", f"i{at}"),
        named(f"max({scale})", f"s{at}"),
    ]


def _guess(row: Any, at: int) -> types.Type | None:
    count, not_whole, not_number, big, whole, scale = (row[f"{letter}{at}"] for letter in "nwfbis")
    if not count:
        return None
    if not not_whole and not big:
        return ("bigint",)
    if not not_whole and whole <= _DIGITS_MAX:
        return ("decimal", _DIGITS_MAX, 0)
    if not not_number and whole + scale <= _DIGITS_MAX:
        return ("decimal", min(max(whole, _WHOLE_DIGITS) + scale, _DIGITS_MAX), scale)
    return ("string",)


def _typed(raw: RawFrame, guesses: dict[str, types.Type | None], schema: WriterSchema | None, words: Sequence[str], twins: str) -> RawFrame:
    columns = _columns(raw)
    present = {name for name, _ in columns}
    members: list[tuple[str, str]] = []
    fields: list[tuple[str, types.Type, WriterField | None]] = []
    faults: list[str] = []
    for name, _ in columns:
        own = name[len(twins) :] if twins and name.startswith(twins) and name[len(twins) :] in present else name
        declared = schema.declared(own, present) if schema else None
        kind = ("string",) if name in words else declared.type if declared else guesses.get(own)
        if kind is None:
            # only nulls: text in the struct, and no field, so that the column stays undecided
            members.append((name, f"_value.{quoted(name)}"))
            fields.append((name, ("string",), None))
            continue
        inferred = WriterField(name, kind, kind, guessed=declared is None)
        described = dataclasses.replace(declared, name=name, raw=kind) if declared else inferred
        text = f"trim(_value.{quoted(name)})" if kind != ("string",) else f"_value.{quoted(name)}"
        value = conversions.exact(text, kind) if declared and kind[0] in types.INTEGERS else conversions.from_text(text, kind)
        if declared and kind == declared.type and conversions.is_numbered(declared):
            value = conversions.numbered(text, declared, value)
        members.append((name, value))
        fields.append((name, kind, described))
        if declared and kind[0] != "string":
            faults.append(_fault(text, value, kind, name))
    made = struct(members)
    fault = f"coalesce({raw.unreadable}, {', '.join(faults)})" if faults else raw.unreadable
    rows = raw.rows.selectExpr(FILE, BLOCK, ROW, f"{made} AS {VALUE}", f"{fault} AS {UNREADABLE}")
    kinds: types.Type = ("struct", tuple((name, kind) for name, kind, _ in fields))
    return RawFrame(rows, kinds, None, tuple(field for _, _, field in fields if field is not None), raw.paths)


def _fault(text: str, value: str, kind: types.Type, name: str) -> str:
    """SQL: why a value does not fit its declared type, or null."""
    special = ", ".join(literal(word) for word in _NO_VALUE)
    far = f" AND NOT {text} RLIKE '{_FAR}'" if kind[0] in ("date", "timestamp") else ""
    rounded = f" OR {conversions.not_exact(text, kind)}" if kind[0] in ("float", "double") else ""
    wrong = f"{text} <> '' AND lower({text}) NOT IN ({special}){far} AND ({value} IS NULL{rounded})"
    why = f"concat({literal(f'column {name} holds ')}, {cited(text)}, {literal(f', expected {types.text(kind)}')})"
    return f"CASE WHEN {wrong} THEN {why} END"
