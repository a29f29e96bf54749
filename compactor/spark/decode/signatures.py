"""Signatures: the writers of records that name their columns (`decode/named.py`), one WriterSchema for each (table, names, types) that occurs.

Types are those that the records or `schema:` declare. Two things show only in the values, and need one more aggregation: how deep the arrays of a
column are (PostgreSQL's type `integer[]` is silent about it), and the type of columns without any.
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
from compactor.spark.columns import WRITER
from compactor.spark.decode import pg_text
from compactor.spark.decode.conversions import is_numbered
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.named import ANY
from compactor.spark.sql import literal, named

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_EXACT, _PADDED = ("tinyint", "smallint", "int", "bigint", "decimal"), r"^\s*[+-]?0[0-9]"
"""Exact numbers, and text of digits that a number would lose."""

_DECIMAL = r"^-?(0|[1-9][0-9]*)([.][0-9]+)?$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?$"


@dataclass(frozen=True)
class _Declared:
    """What is known of columns apart from the records."""

    schema: WriterSchema | None

    stored: Mapping[str, WriterField]
    """The columns of the table, by name."""

    def declared(self, name: str) -> WriterField | None:
        """Return the column as `schema:` declares it, with values that are text."""
        field = self.schema.field(name) if self.schema else None
        return _textual(field) if field else None


def writers_of(frame: Frame, stored: Sequence[WriterField], schema: WriterSchema | None, spec: TableSpec) -> list[WriterSchema]:
    """Return one writer for each signature. Raises InputRefused if the events belong to several tables and `source_table` is not set."""
    rows = frame.rows.where("_writer IS NOT NULL AND _invalid IS NULL").groupBy(WRITER)
    collected = rows.agg(named("first(_schema)", "signature")).collect()
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
    return out


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
        named(f"bool_and({value} RLIKE '{pg_text.ISO_DATE}$' AND try_cast({value} AS DATE) IS NOT NULL)", "day"),
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
