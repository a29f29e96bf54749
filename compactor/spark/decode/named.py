"""Records that name their columns (`names`, `types`, `values` in parallel) become frames: what wal2json and change-event have in common.

Rules:
- A column that an update leaves out, and whose old value the record has, keeps that value (an unchanged large value under REPLICA IDENTITY FULL).
- Any other column that an update leaves out is *unavailable*, never null. `Frame.absent` lists the columns that can be.
- A column that an insert leaves out is null.
- Only the old image of a delete counts. The old image of an update gives the key that the row had.
- A record is invalid if its arrays differ in length, if a key column is missing or null, if a date is not ISO, or if bytes are not hexadecimal.
- The types are part of the writer: `decode/signatures.py` makes one WriterSchema for each (table, names, types).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterSchema
from compactor.spark.columns import AFTER, BEFORE, EVENT, INVALID, OP, PLACE, SCHEMA, TIME
from compactor.spark.decode import pg_text
from compactor.spark.decode.conversions import to_stored
from compactor.spark.decode.frame import Frame, members_of
from compactor.spark.decode.order import SOURCE, WRAPPED, OrderNames
from compactor.spark.sql import cited, literal, once, quoted

TOAST, ANY = "toast", "any"
"""What an update may leave out unchanged: values that PostgreSQL stores out of line, or any column except the key."""

_OUT_OF_LINE = ("string", "binary", "array", "map", "struct", "decimal")
"""Kinds of stored types whose PostgreSQL types have no fixed length. A numeric of some 34 digits is large enough."""

IMAGE = "STRUCT<names: ARRAY<STRING>, types: ARRAY<STRING>, `values`: ARRAY<STRING>>"

_HEX_DIGITS = r"^(\\x)?([0-9A-Fa-f]{2})*$"

_OBJECT_INSIDE = rf'^(?s)[^"{{]*+\{{(?:[^"{{]++|{pg_text.STRING})*+\{{'


def has_objects(text: str) -> str:
    """SQL: whether a JSON object has other objects inside."""
    return f"{text} RLIKE {literal(_OBJECT_INSIDE)}"


def image(names: str, kinds: str, values: str) -> str:
    """SQL for a row image. Types that are not known are null."""
    kinds_or_nulls = f"coalesce({kinds}, array_repeat(CAST(NULL AS STRING), greatest(size({names}), 0)))"
    return f"CASE WHEN {names} IS NOT NULL THEN CAST(named_struct('names', {names}, 'types', {kinds_or_nulls}, 'values', {values}) AS {IMAGE}) END"


def source(fields: Mapping[str, str]) -> str:
    """SQL for SOURCE: these fields (name → SQL) as text, all others null."""
    members = [f"{fields.get(name, 'CAST(NULL AS STRING)')} AS {quoted(name)}" for name in (*SOURCE, "total_order")]
    members += [f"{value} AS {quoted(name)}" for name, value in fields.items() if name not in (*SOURCE, "total_order")]
    return f"struct({', '.join(members)}) AS _source"


def frame(rows: DataFrame, spec: TableSpec, omits: str, order_names: OrderNames = WRAPPED, sparse: str = "false") -> Frame:
    """Return a Frame without columns yet. In: FILE, BLOCK, ROW, EVENT, OFFSET, PARTITION, OP, INVALID, `_table`, `_new` and `_old` (images), SOURCE,
    TIME. Out: AFTER and BEFORE are images of names, types and values; SCHEMA is the writer's signature as JSON.

    `sparse`: SQL, whether old images leave out columns that are null. A delete then does not show which columns there are.
    """
    kept = "CASE WHEN _op = 'u' AND _old IS NOT NULL THEN array_except(_old.names, _new.names) ELSE array() END"
    rows = once(rows).selectExpr("*", f"CASE WHEN _op IN ('c', 'u', 'r') THEN {kept} END AS _kept")
    taken = "transform(_kept, _n -> get(_old.{0}, CAST(array_position(_old.names, _n) AS INT) - 1))"
    parts = [f"concat(_new.{part}, {taken.format(part)})" for part in ("types", "`values`")]
    rows = once(rows.selectExpr("*", f"CASE WHEN _op IN ('c', 'u', 'r') THEN {image('concat(_new.names, _kept)', *parts)} END AS _full"))
    rows = rows.selectExpr("*", f"{_problem(spec)} AS _why", "CASE WHEN _op = 'd' THEN _old ELSE _full END AS _image")
    members = f"'table', _table, 'names', _image.names, 'types', _image.types, 'sparse', CASE WHEN _op = 'd' AND {sparse} THEN true END"
    rows = rows.selectExpr("*", f"CASE WHEN _image IS NOT NULL THEN to_json(named_struct({members})) END AS _schema")
    out = once(
        rows.selectExpr(
            *PLACE,
            EVENT,
            "coalesce(_invalid, _why) AS _invalid",
            OP,
            "CASE WHEN _schema IS NOT NULL THEN hex(xxhash64(_schema)) END AS _writer",
            SCHEMA,
            "_full AS _after",
            "CASE WHEN _op IN ('u', 'd') THEN _old END AS _before",
            "_full.names AS _named",
            "CAST(NULL AS STRING) AS _record_key",
            "CAST(NULL AS STRING) AS _old_key",
            "_source",
            TIME,
        )
    )
    return Frame(out, None, omits=omits, order_names=order_names)


def _problem(spec: TableSpec) -> str:
    """SQL: why a record is invalid, or null."""
    key = f"array({', '.join(literal(name.lower()) for name in spec.key)})"

    def lacking(images: str) -> str:
        places = f"filter(sequence(0, size({images}.names) - 1), _i -> get({images}.`values`, _i) IS NOT NULL)"
        with_value = f"transform({places}, _i -> lower(get({images}.names, _i)))"
        return f"array_except({key}, CASE WHEN size({images}.names) > 0 THEN {with_value} ELSE array('') END)"

    cases = []
    for images, part in (("_new", "column"), ("_old", "old key")):
        for other in ("types", "values"):
            differ = f"size({images}.names) <> size({images}.{quoted(other)})"
            reason = f"concat('has ', size({images}.names), ' {part} names and ', size({images}.{quoted(other)}), ' {other}')"
            cases.append(f"WHEN _op <> 't' AND {differ} THEN {reason}")
    cases.append("WHEN _op IN ('c', 'u', 'r') AND coalesce(size(_new.names), 0) <= 0 THEN 'has no columns'")
    if spec.key:
        where = "concat('has no value for the key column ', array_join({0}, ', '))"
        cases.append(f"WHEN _op = 'd' AND size({lacking('_old')}) > 0 THEN {where.format(lacking('_old'))}")
        cases.append(f"WHEN _op IN ('c', 'u', 'r') AND size({lacking('_full')}) > 0 THEN {where.format(lacking('_full'))}")
    for images in ("_new", "_old"):
        problem = f"get(array_compact(zip_with({images}.types, {images}.`values`, (_t, _v) -> {_value_problem('_t', '_v')})), 0)"
        cases.append(f"WHEN _op <> 't' AND {problem} IS NOT NULL THEN {problem}")
    return f"CASE WHEN _op IS NULL THEN NULL {' '.join(cases)} END"


def _value_problem(kind: str, value: str) -> str:
    """SQL: why a value cannot be read without the server's settings (02-04-2013 may be in February or in April), or null."""
    day = f"{kind} RLIKE '^(date|timestamptz?)([ (].*)?$' AND {kind} NOT LIKE '%]'"
    moment = f"{day} AND NOT ({value} RLIKE '{pg_text.ISO_DATE}' OR {value} RLIKE '{pg_text.INFINITE}')"
    escaped = f"{kind} = 'bytea' AND {value} NOT RLIKE {literal(_HEX_DIGITS)}"
    return (
        f"CASE WHEN {moment} THEN concat('holds the date ', {cited(value)}, ', which is not ISO: set DateStyle of the sending session to ISO') "
        f"WHEN {escaped} THEN 'holds bytes that are not hexadecimal: set bytea_output of the sending session to hex' END"
    )


def with_columns(frame: Frame, writers: Sequence[WriterSchema], stored_names: Sequence[str]) -> Frame:
    """Return the frame with images as structs of text, with a member for each column of the writers and of the table (`stored_names`).

    Where hand-made records name any columns, a value that does not fit its column's type makes the record INVALID.
    """
    names = list(dict.fromkeys([*(field.name for writer in writers for field in writer.fields), *stored_names]))
    images: types.Type = ("struct", tuple((name, ("string",)) for name in names))
    members = members_of(names)
    parsed = [_struct(column, names, members) if column in (AFTER, BEFORE) else column for column in frame.rows.columns]
    out = once(frame.rows.selectExpr(*parsed))
    if frame.omits == ANY:
        invalid = f"coalesce(_invalid, get(array_compact(array({', '.join(_misfits(writers, members))})), 0)) AS _invalid"
        out = out.selectExpr(*[invalid if column == INVALID else column for column in out.columns])
    return dataclasses.replace(frame, rows=out, images=images, writers=tuple(writers), absent=tuple(names), members=members)


def _struct(column: str, names: Sequence[str], members: Mapping[str, str]) -> str:
    values = (f"get({column}.`values`, CAST(array_position({column}.names, {literal(name)}) AS INT) - 1)" for name in names)
    parts = [f"{literal(members.get(name, name))}, {value}" for name, value in zip(names, values)]
    return f"CASE WHEN {column} IS NOT NULL THEN named_struct({', '.join(parts) or literal('_none') + ', NULL'}) END AS {column}"


def _misfits(writers: Sequence[WriterSchema], members: Mapping[str, str]) -> list[str]:
    """SQL for each column: why a value does not read as the column's type, or null. Empty text, infinity and NaN are null by policy."""
    cases = []
    for column in dict.fromkeys(field for writer in writers for field in writer.fields):
        if column.type == ("string",):
            continue
        ids = ", ".join(literal(writer.id) for writer in writers if column in writer.fields)
        for images in (AFTER, BEFORE):
            value = f"{images}.{quoted(members.get(column.name, column.name))}"
            meant = f"{value} <> '' AND lower({value}) NOT RLIKE '^[+-]?(infinity|nan)$'"
            reason = f"concat({literal(f'column {column.name}: ')}, {cited(value, 60)}, {literal(f' is not of type {types.text(column.type)}')})"
            cases.append(f"CASE WHEN _writer IN ({ids}) AND {meant} AND {to_stored(value, ('string',), column)} IS NULL THEN {reason} END")
    return cases or ["CAST(NULL AS STRING)"]


def can_be_absent(kind: types.Type, omits: str) -> bool:
    """Whether an update may leave out an unchanged value of this stored type."""
    return omits == ANY or kind[0] in _OUT_OF_LINE
