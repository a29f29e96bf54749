"""The writers of records that name their columns (`decode/named.py`): one WriterSchema per table, names and types that occur.

Types are declared where the records or the operator declare them. Two things only the values tell, and are counted in one more aggregation where
they are needed: how deep the arrays of a column are (PostgreSQL's type `integer[]` does not say), and what columns without any type hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Row

from compactor.core.model import types
from compactor.core.model.errors import InputRefused
from compactor.core.model.spec import TableSpec
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.core.sources import postgres
from compactor.core.sources.postgres import MIXED, TEXT
from compactor.spark.decode import pg_text
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.named import ANY
from compactor.spark.sql import literal, named

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)([.][0-9]+)?$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?$"


@dataclass(frozen=True)
class _Known:
    """What is said of columns beside the records: by `schema:`, and by the table as it is."""

    schema: WriterSchema | None
    stored: Mapping[str, WriterField]

    def declared(self, name: str) -> WriterField | None:
        """The column as `schema:` declares it, its values being text."""
        said = self.schema.field(name) if self.schema else None
        return _textual(said) if said else None


def writers_of(frame: Frame, stored: Sequence[WriterField], schema: WriterSchema | None, spec: TableSpec) -> list[WriterSchema]:
    """One writer per signature. Raises InputRefused when the events belong to several tables and nothing says which to take."""
    rows = frame.rows.where("_writer IS NOT NULL AND _invalid IS NULL").groupBy("_writer")
    found = rows.agg(named("first(_schema)", "said"), named("max(_op <> 'd')", "whole")).collect()
    said = {row["_writer"]: json.loads(row.said) for row in found}
    tables = sorted({str(one.get("table")) for one in said.values()})
    if len(tables) > 1 and spec.source_table is None:
        raise InputRefused(
            f"table {spec.name}: the stream holds several tables ({', '.join(tables[:5])}). Say `source_table:`, such as `source_table: {tables[0]}`."
        )
    known = _Known(schema, {field.name: field for field in stored})
    named_types = {(name, kind) for one in said.values() for name, kind in _pairs(one) if known.declared(name) is None}
    arrays = {name for name, kind in named_types if postgres.is_array(kind)}
    bare = {name for name, kind in named_types if kind is None}
    counts = _counted(frame, sorted(arrays | bare), known) if arrays or bare else {}
    out = []
    for row in sorted(found, key=lambda row: str(row["_writer"])):
        fields = [_field(name, kind, known, counts) for name, kind in _pairs(said[row["_writer"]])]
        undecided = tuple(name for (name, _), field in zip(_pairs(said[row["_writer"]]), fields) if field is None)
        told = [field for field in fields if field is not None]
        if schema:
            # declared columns are there from the first run on, whether or not an event has told one yet
            told += [_textual(field) for field in schema.fields if field.name not in {name for name, _ in _pairs(said[row["_writer"]])}]
        # hand-made events name what they please
        whole = bool(row.whole) and frame.omits != ANY
        out.append(WriterSchema(row["_writer"], tuple(told), undecided=undecided, whole=whole))
    return out


def _pairs(said: Mapping[str, Sequence[str | None]]) -> list[tuple[str, str | None]]:
    names, kinds = said.get("names") or [], said.get("types") or []
    return [(str(name), kinds[at] if at < len(kinds) else None) for at, name in enumerate(names)]


def _field(name: str, kind: str | None, known: _Known, counts: Mapping[str, Row]) -> WriterField | None:
    """The column, or None where nothing tells its type."""
    declared = known.declared(name)
    if declared:
        return declared
    if kind is None:
        return _inferred(name, known.stored.get(name), counts.get(name))
    if not postgres.is_array(kind):
        return postgres.column(name, kind)
    row, held = counts.get(name), known.stored.get(name)
    if held and held.type == ("string",):
        return postgres.column(name, kind, MIXED)
    seen = {row.low, row.high} - {None} if row else set()
    if not seen:
        return postgres.column(name, kind, _depth(held.type) if held else 1)
    return postgres.column(name, kind, MIXED if len(seen) > 1 else seen.pop())


def _depth(kind: types.Type) -> int:
    return 1 + _depth(kind[1]) if kind[0] == "array" else 0


def _textual(field: WriterField) -> WriterField:
    """A declared column whose values come as text, whatever `schema:` says of how it would be encoded."""
    item = _textual(WriterField("", field.type[1], field.type[1])) if field.type[0] == "array" else None
    return replace(field, raw=("string",), semantic=TEXT, scale=0, item=item)


def _counted(frame: Frame, names: Sequence[str], known: _Known) -> dict[str, Row]:
    """Per column of text: the depths of its arrays, and which types read all its values without loss."""
    wanted = ", ".join(literal(name) for name in names)
    images = "flatten(array_compact(array(arrays_zip(_after.names, _after.`values`), arrays_zip(_before.names, _before.`values`))))"
    cells = (
        frame.rows.where("_op IS NOT NULL AND _invalid IS NULL")
        .selectExpr(f"inline({images})")
        .where(f"names IN ({wanted}) AND `values` IS NOT NULL")
    )
    value = "`values`"
    fits = [
        f"WHEN {literal(name)} THEN {value} = '' OR {pg_text.stored(value, _textual(known.stored[name]))} IS NOT NULL"
        for name in names
        if name in known.stored and known.stored[name].type != ("string",)
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
        named(f"bool_and({value} RLIKE '{pg_text.ISO_DATE}$' AND try_cast({value} AS DATE) IS NOT NULL)", "day"),
        named(f"bool_and({value} RLIKE '{_MOMENT}' AND try_cast({value} AS TIMESTAMP) IS NOT NULL)", "moment"),
    )
    return {row["names"]: row for row in rows.collect()}


def _inferred(name: str, held: WriterField | None, row: Row | None) -> WriterField | None:
    """The table's type where all values fit it, else the narrowest that reads them all, else text; None for nulls of an unknown column."""
    if held is not None and (row is None or row.fits):
        return _textual(held)
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
