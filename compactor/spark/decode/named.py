"""Records that name their columns (`names`, `types`, `values` in parallel) become frames: what wal2json and change-event have in common.

Rules:
- A column that an update leaves out, and whose old value the record has, keeps that value (an unchanged large value under REPLICA IDENTITY FULL).
- Any other column that an update leaves out is *unavailable*, never null. `Frame.absent` lists the columns that can be.
- A column that an insert leaves out is null.
- Only the old image of a delete counts. The old image of an update gives the key that the row had.
- A record is invalid if its arrays differ in length, if a key column is missing or null, if a date is not ISO, or if bytes are not hexadecimal.
- The types are part of the writer: there is one WriterSchema for each signature (table, names, types) that occurs. Two things show only in the
  values, and need one more aggregation: how deep the arrays of a column are (PostgreSQL's type `integer[]` is silent about it), and the type of
  columns without any.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Row

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import postgres
from compactor.core.sources.postgres import MIXED, TEXT
from compactor.spark.columns import AFTER, BEFORE, EVENT, INVALID, OP, PLACE, SCHEMA, TIME, WRITER
from compactor.spark.decode import pg_text
from compactor.spark.decode.conversions import is_numbered, to_stored
from compactor.spark.decode.frame import Frame, members_of
from compactor.spark.decode.order import SOURCE, WRAPPED, OrderNames
from compactor.spark.sql import END, cited, literal, named, once, quoted

TOAST, ANY = "toast", "any"
"""What an update may leave out unchanged: values that PostgreSQL stores out of line, or any column except the key."""
_OUT_OF_LINE = ("string", "binary", "array", "map", "struct", "decimal")
"""Kinds of stored types whose PostgreSQL types have no fixed length. A numeric of some 34 digits is large enough."""
_WHOLE = f"^(0|-?[1-9][0-9]{{0,17}}){END}"
_EXACT, _PADDED = (*types.INTEGERS, "decimal"), r"^\s*[+-]?0[0-9]"
"""Exact numbers, and text of digits that a number would lose."""
_DECIMAL = f"^-?(0|[1-9][0-9]*)([.][0-9]+)?{END}"
_MOMENT = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?" + END

IMAGE = "STRUCT<names: ARRAY<STRING>, types: ARRAY<STRING>, `values`: ARRAY<STRING>>"

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
    rows = rows.selectExpr("*", f"{_problem(spec, omits)} AS _why", "CASE WHEN _op = 'd' THEN _old ELSE _full END AS _image")
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


def _problem(spec: TableSpec, omits: str | None) -> str:
    """SQL: why a record is invalid, or null. `omits`: see `Frame`."""
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
        if omits == TOAST:
            unnamed = f"array_except({key}, transform(_old.names, _n -> lower(_n)))"
            advice = "', which its identity (REPLICA IDENTITY) does not have: set `key:` to columns that it has'"
            cases.append(f"WHEN _op = 'u' AND size(_old.names) > 0 AND size({unnamed}) > 0 THEN concat({where.format(unnamed)}, {advice})")
        cases.append(f"WHEN _op IN ('c', 'u', 'r') AND size({lacking('_full')}) > 0 THEN {where.format(lacking('_full'))}")
    for images in ("_new", "_old"):
        problem = f"get(array_compact(zip_with({images}.types, {images}.`values`, (_t, _v) -> {_value_problem('_t', '_v')})), 0)"
        cases.append(f"WHEN _op <> 't' AND {problem} IS NOT NULL THEN {problem}")
    return f"CASE WHEN _op IS NULL THEN NULL {' '.join(cases)} END"


def _value_problem(kind: str, value: str) -> str:
    """SQL: why a value cannot be read without the server's settings (02-04-2013 may be in February or in April), or null."""
    day = f"{kind} RLIKE '^(date|timestamptz?)([ (].*)?$' AND {kind} NOT LIKE '%]'"
    moment = f"{day} AND NOT ({value} RLIKE '{pg_text.ISO_DATE}' OR {value} RLIKE '{pg_text.INFINITE}')"
    escaped = f"{kind} = 'bytea' AND {value} NOT RLIKE {literal(pg_text.HEX_DIGITS)}"
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


@dataclass(frozen=True)
class _Declared:
    schema: WriterSchema | None
    stored: Mapping[str, WriterField]
    """The columns of the table, by name."""

    def declared(self, name: str) -> WriterField | None:
        """Return the column as `schema:` declares it, with values that are text."""
        field = self.schema.field(name) if self.schema else None
        return _textual(field) if field else None


def writers_of(frame: Frame, stored: Sequence[WriterField], schema: WriterSchema | None, spec: TableSpec) -> list[WriterSchema]:
    """Return one writer for each signature. Raises InputRefused if the events belong to several tables and `source_table` is not set."""
    assert frame.omits
    rows = frame.rows.where("_writer IS NOT NULL AND _invalid IS NULL").groupBy(WRITER)
    collected = rows.agg(named("first(_schema)", "signature"), named("bool_and(_op = 'u')", "updates")).collect()
    signatures = {row[WRITER]: json.loads(row.signature) for row in collected}
    tables = sorted({str(signature.get("table")) for signature in signatures.values()})
    if len(tables) > 1 and spec.source_table is None:
        raise InputRefused(
            f"table {spec.name}: the stream holds several tables ({', '.join(tables[:5])}). Set `source_table:`, such as `source_table: {tables[0]}`."
        )
    columns = _Declared(schema, {field.name: field for field in stored})
    named_types = {(name, kind) for signature in signatures.values() for name, kind in _pairs(signature) if columns.declared(name) is None}
    arrays = {name for name, kind in named_types if postgres.is_array(kind)}
    bare = {name for name, kind in named_types if kind is None}
    counts = _counted(frame, sorted(arrays | bare), columns) if arrays or bare else {}
    out = []
    for row in sorted(collected, key=lambda row: str(row[WRITER])):
        pairs = _pairs(signatures[row[WRITER]])
        fields = [_field(name, kind, columns, counts) for name, kind in pairs]
        undecided = tuple(name for (name, _), field in zip(pairs, fields) if field is None)
        decided = [field for field in fields if field is not None]
        if schema:
            # declared columns exist from the first run on, even if no event has named them yet
            decided += [_textual(field) for field in schema.fields if field.name not in {name for name, _ in pairs}]
        # hand-made events may leave out any column, and some deletes those that are null
        whole = frame.omits != ANY and not signatures[row[WRITER]].get("sparse")
        out.append(WriterSchema(row[WRITER], tuple(decided), undecided=undecided, whole=whole))
    # updates that lack a column which may be left out do not show that it is gone
    omitted = {field.name for field in (*stored, *(field for each in out for field in each.fields)) if can_be_absent(field.type, frame.omits)}
    updates = {row[WRITER] for row in collected if row.updates}
    return [replace(each, whole=each.whole and not (each.id in updates and omitted.difference(each.names))) for each in out]


def _pairs(signature: Mapping[str, Sequence[str | None]]) -> list[tuple[str, str | None]]:
    """Return (name, type or None) of the columns of a signature."""
    names, kinds = signature.get("names") or [], signature.get("types") or []
    return [(str(name), kinds[at] if at < len(kinds) else None) for at, name in enumerate(names)]


def _field(name: str, kind: str | None, columns: _Declared, counts: Mapping[str, Row]) -> WriterField | None:
    """Return the column, or None if its type cannot be determined yet."""
    declared = columns.declared(name)
    if declared:
        return declared
    if kind is None:
        return _inferred(name, columns.stored.get(name), counts.get(name))
    if not postgres.is_array(kind):
        return postgres.column(name, kind)
    row, stored = counts.get(name), columns.stored.get(name)
    if stored and stored.type == ("string",):
        return postgres.column(name, kind, MIXED)
    depths = {row.low, row.high} - {None} if row else set()
    if not depths:
        return postgres.column(name, kind, types.depth(stored.type) if stored else 1)
    return postgres.column(name, kind, MIXED if len(depths) > 1 else depths.pop())


def _textual(field: WriterField) -> WriterField:
    """Return a declared column as one whose values are text. Of the encodings that are declared only numbers of days and times can be text."""
    item = _textual(WriterField("", field.type[1], field.type[1])) if field.type[0] == "array" else None
    return replace(field, raw=("string",), semantic=field.semantic if is_numbered(field) else TEXT, scale=0, item=item)


def _counted(frame: Frame, names: Sequence[str], columns: _Declared) -> dict[str, Row]:
    """Return for each of these columns the depths of its arrays, and which types read all its values without loss."""
    listed = ", ".join(literal(name) for name in names)
    images = "flatten(array_compact(array(arrays_zip(_after.names, _after.`values`), arrays_zip(_before.names, _before.`values`))))"
    cells = frame.rows.where("_op IS NOT NULL AND _invalid IS NULL").selectExpr(f"inline({images})")
    cells = cells.where(f"names IN ({listed}) AND `values` IS NOT NULL")
    value = "`values`"
    stored = {name: columns.stored[name] for name in names if name in columns.stored and columns.stored[name].type != ("string",)}
    # 01067 is no number, however the column began
    fits = [
        f"WHEN {literal(name)} THEN {value} = '' OR ({pg_text.to_stored(value, _textual(field))} IS NOT NULL"
        f"{f' AND NOT {value} RLIKE {literal(_PADDED)}' if field.type[0] in _EXACT else ''})"
        for name, field in stored.items()
    ]
    fraction = f"length(regexp_extract({value}, '[.]([0-9]+)$', 1))"
    rows = cells.groupBy("names").agg(
        named(f"min({pg_text.dimensions(value)})", "low"),
        named(f"max({pg_text.dimensions(value)})", "high"),
        named(f"bool_and({'CASE names ' + ' '.join(fits) + ' ELSE true END' if fits else 'true'})", "fits"),
        named(f"bool_and({value} RLIKE '{_WHOLE}')", "whole"),
        named(f"bool_and({value} RLIKE '{_DECIMAL}')", "decimal"),
        named(f"max(length(ltrim('-', regexp_extract({value}, '^(-?[0-9]+)', 1))))", "digits"),
        named(f"max({fraction})", "fraction"),
        named(f"bool_and({value} IN ('true', 'false'))", "flag"),
        named(f"bool_and({value} RLIKE '{pg_text.ISO_DATE}{END}' AND try_cast({value} AS DATE) IS NOT NULL)", "day"),
        named(f"bool_and({value} RLIKE '{_MOMENT}' AND try_cast({value} AS TIMESTAMP) IS NOT NULL)", "moment"),
    )
    return {row["names"]: row for row in rows.collect()}


def _inferred(name: str, stored: WriterField | None, row: Row | None) -> WriterField | None:
    """Return the column with the table's type if all values fit it, else with the narrowest type that reads them all, else as text.

    Returns None for a column that the table does not have and that holds only nulls.
    """
    if stored is not None and (row is None or row.fits):
        return _textual(stored)
    if row is None:
        return None
    kind: types.Type = ("string",)
    if row.whole:
        kind = ("bigint",)
    elif row.decimal and row.digits + row.fraction <= 38:
        kind = ("decimal", row.digits + row.fraction, row.fraction)
    elif row.flag:
        kind = ("boolean",)
    elif row.day:
        kind = ("date",)
    elif row.moment:
        kind = ("timestamp",)
    return WriterField(name, ("string",), kind, TEXT)
