"""Records that name their columns (`names`, `types`, `values` in parallel) as frames: what wal2json and change-event have in common.

Rules:
- a column that an update leaves out, and whose old value the record tells, has that value (an unchanged large value under REPLICA IDENTITY FULL).
- a column that an update leaves out otherwise is *unavailable*, never null: `Frame.absent` names those that can be.
- what an insert leaves out is null.
- of a delete only the old image counts, of an update it tells the key that the row had.
- a record that cannot be used has `_invalid`: arrays of different lengths, a key column missing or null, dates that are not ISO, bytes that are no
  hexadecimal digits.
- the types are part of the writer: one WriterSchema per (table, names, types), made by `spark/decode/signatures.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterSchema
from compactor.spark.decode import pg_text
from compactor.spark.decode.conversions import stored
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import NAMED_COLUMNS, SOURCE, OrderNames
from compactor.spark.sql import literal, once, quoted

TOAST, ANY = "toast", "any"
"""What an update may leave out unchanged: values that PostgreSQL stores out of line, or any column but the key."""

_OUT_OF_LINE = ("string", "binary", "array", "map", "struct")

IMAGE = "STRUCT<names: ARRAY<STRING>, types: ARRAY<STRING>, `values`: ARRAY<STRING>>"

_HEX_DIGITS = r"^(\\x)?([0-9A-Fa-f]{2})*$"

TWO_DOCUMENTS = r'\}\s*\{"'
"""Inside a string every quote has a backslash: this is two documents on one line (a sink that writes no line ends)."""


def image(names: str, kinds: str, held: str) -> str:
    """SQL for a row image; types that are not told are null."""
    told = f"coalesce({kinds}, array_repeat(CAST(NULL AS STRING), greatest(size({names}), 0)))"
    return f"CASE WHEN {names} IS NOT NULL THEN CAST(named_struct('names', {names}, 'types', {told}, 'values', {held}) AS {IMAGE}) END"


def source(fields: Mapping[str, str]) -> str:
    """SQL for `_source`: these fields as text, the others null."""
    members = [f"{fields.get(name, 'CAST(NULL AS STRING)')} AS {quoted(name)}" for name in (*SOURCE, "total_order")]
    members += [f"{value} AS {quoted(name)}" for name, value in fields.items() if name not in (*SOURCE, "total_order")]
    return f"struct({', '.join(members)}) AS _source"


def frame(rows: DataFrame, spec: TableSpec, omits: str, order_names: OrderNames = NAMED_COLUMNS) -> Frame:
    """Rows with `_op`, `_invalid`, `_table`, `_new`, `_old` (images), `_source`, `_time` and their place, as a frame without columns yet."""
    kept = "CASE WHEN _op = 'u' AND _old IS NOT NULL THEN array_except(_old.names, _new.names) ELSE array() END"
    rows = once(rows).selectExpr("*", f"CASE WHEN _op IN ('c', 'u', 'r') THEN {kept} END AS _kept")
    taken = "transform(_kept, _n -> get(_old.{0}, CAST(array_position(_old.names, _n) AS INT) - 1))"
    parts = [f"concat(_new.{part}, {taken.format(part)})" for part in ("types", "`values`")]
    rows = once(rows.selectExpr("*", f"CASE WHEN _op IN ('c', 'u', 'r') THEN {image('concat(_new.names, _kept)', *parts)} END AS _full"))
    rows = rows.selectExpr("*", f"{_problem(spec)} AS _why", "CASE WHEN _op = 'd' THEN _old ELSE _full END AS _image")
    signature = "CASE WHEN _image IS NOT NULL THEN to_json(named_struct('table', _table, 'names', _image.names, 'types', _image.types)) END"
    rows = rows.selectExpr("*", f"{signature} AS _schema")
    out = once(
        rows.selectExpr(
            "_file",
            "_block",
            "_row",
            "_event",
            "_offset",
            "_partition",
            "coalesce(_invalid, _why) AS _invalid",
            "_op",
            "CASE WHEN _schema IS NOT NULL THEN hex(xxhash64(_schema)) END AS _writer",
            "_schema",
            "_full AS _after",
            "CASE WHEN _op IN ('u', 'd') THEN _old END AS _before",
            "_full.names AS _named",
            "CAST(NULL AS STRING) AS _record_key",
            "CAST(NULL AS STRING) AS _old_key",
            "_source",
            "_time",
        )
    )
    return Frame(out, None, omits=omits, order_names=order_names)


def _problem(spec: TableSpec) -> str:
    key = f"array({', '.join(literal(name.lower()) for name in spec.key)})"

    def lacking(images: str) -> str:
        told_at = f"filter(sequence(0, size({images}.names) - 1), _i -> get({images}.`values`, _i) IS NOT NULL)"
        told = f"transform({told_at}, _i -> lower(get({images}.names, _i)))"
        return f"array_except({key}, CASE WHEN size({images}.names) > 0 THEN {told} ELSE array('') END)"

    cases = []
    for images, part in (("_new", "column"), ("_old", "old key")):
        for other in ("types", "values"):
            differ = f"size({images}.names) <> size({images}.{quoted(other)})"
            told = f"concat('has ', size({images}.names), ' {part} names and ', size({images}.{quoted(other)}), ' {other}')"
            cases.append(f"WHEN _op <> 't' AND {differ} THEN {told}")
    cases.append("WHEN _op IN ('c', 'u', 'r') AND coalesce(size(_new.names), 0) <= 0 THEN 'has no columns'")
    if spec.key:
        where = "concat('has no value for the key column ', array_join({0}, ', '))"
        cases.append(f"WHEN _op = 'd' AND size({lacking('_old')}) > 0 THEN {where.format(lacking('_old'))}")
        cases.append(f"WHEN _op IN ('c', 'u', 'r') AND size({lacking('_full')}) > 0 THEN {where.format(lacking('_full'))}")
    for images in ("_new", "_old"):
        odd = f"get(array_compact(zip_with({images}.types, {images}.`values`, (_t, _v) -> {_odd('_t', '_v')})), 0)"
        cases.append(f"WHEN _op <> 't' AND {odd} IS NOT NULL THEN {odd}")
    return f"CASE WHEN _op IS NULL THEN NULL {' '.join(cases)} END"


def _odd(kind: str, value: str) -> str:
    """SQL: what is wrong with a value whose text depends on settings of the server (02-04-2013 may be in February or in April)."""
    day = f"{kind} RLIKE '^(date|timestamptz?)([ (].*)?$' AND {kind} NOT LIKE '%]'"
    moment = f"{day} AND NOT ({value} RLIKE '{pg_text.ISO_DATE}' OR {value} RLIKE '{pg_text.INFINITE}')"
    escaped = f"{kind} = 'bytea' AND {value} NOT RLIKE {literal(_HEX_DIGITS)}"
    return (
        f"CASE WHEN {moment} THEN concat('holds the date ', {value}, ', which is not ISO: set DateStyle of the sending session to ISO') "
        f"WHEN {escaped} THEN 'holds bytes that are not hexadecimal: set bytea_output of the sending session to hex' END"
    )


def with_columns(frame: Frame, writers: Sequence[WriterSchema], held: Sequence[str]) -> Frame:
    """The frame with images as structs of text, a member for each column of the writers and of the table (`held`); what does not fit is `_invalid`."""
    names = list(dict.fromkeys([*(field.name for writer in writers for field in writer.fields), *held]))
    images: types.Type = ("struct", tuple((name, ("string",)) for name in names))
    parsed = [_struct(column, names) if column in ("_after", "_before") else column for column in frame.rows.columns]
    out = once(frame.rows.selectExpr(*parsed))
    if frame.omits == ANY:
        bad = f"coalesce(_invalid, get(array_compact(array({', '.join(_misfits(writers))})), 0)) AS _invalid"
        out = out.selectExpr(*[bad if column == "_invalid" else column for column in out.columns])
    return dataclasses.replace(frame, rows=out, images=images, writers=tuple(writers), absent=tuple(names))


def _struct(column: str, names: Sequence[str]) -> str:
    members = [f"{literal(name)}, get({column}.`values`, CAST(array_position({column}.names, {literal(name)}) AS INT) - 1)" for name in names]
    return f"CASE WHEN {column} IS NOT NULL THEN named_struct({', '.join(members) or literal('_none') + ', NULL'}) END AS {column}"


def _misfits(writers: Sequence[WriterSchema]) -> list[str]:
    """SQL per column: what does not read as the type the column has. Empty text is null there; infinity and NaN are null by policy."""
    cases = []
    for column in dict.fromkeys(field for writer in writers for field in writer.fields):
        if column.type == ("string",):
            continue
        ids = ", ".join(literal(writer.id) for writer in writers if column in writer.fields)
        for images in ("_after", "_before"):
            value = f"{images}.{quoted(column.name)}"
            meant = f"{value} <> '' AND lower({value}) NOT RLIKE '^[+-]?(infinity|nan)$'"
            told = f"concat({literal(f'column {column.name}: ')}, substr({value}, 1, 60), {literal(f' is no {types.text(column.type)}')})"
            cases.append(f"CASE WHEN _writer IN ({ids}) AND {meant} AND {stored(value, ('string',), column)} IS NULL THEN {told} END")
    return cases or ["CAST(NULL AS STRING)"]


def can_be_absent(kind: types.Type, omits: str) -> bool:
    """Whether an update may leave out an unchanged value of this stored type."""
    return omits == ANY or kind[0] in _OUT_OF_LINE
