"""Frame: what decoding returns. Rows without envelope, still in the writer's types; `rows/conform.py` makes Changes of them.

A record is a raw row of a file. An event is what a record says about one row of the table; some envelopes have several events in one record.

Columns of `Frame.rows` (types and meanings: `spark/columns.py`): FILE, BLOCK, ROW, OFFSET, PARTITION, OP, INVALID, WRITER, SCHEMA, AFTER, BEFORE,
RECORD_KEY, OLD_KEY, SOURCE, TIME. Records that are text also have TEXT. Records that can hold several events also have EVENT, and records that name
their columns also have NAMED.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark.columns import AFTER, BEFORE
from compactor.spark.decode import conversions, pg_text
from compactor.spark.decode.order import WRAPPED, OrderNames, of_snapshot
from compactor.spark.sql import literal, quoted


@dataclass(frozen=True)
class Frame:
    """Decoded rows and what is needed to read them."""

    rows: DataFrame
    """The columns that the module lists."""

    images: types.Type | None
    """The struct type of AFTER and BEFORE. None while they are JSON text."""

    writers: tuple[WriterSchema, ...] = ()
    """The writers of the rows. Empty until they are determined."""

    omits: str | None = None
    """For records that name their columns: what an update may leave out (`named.TOAST` or `named.ANY`). None for others, which use a placeholder."""

    absent: tuple[str, ...] | None = None
    """For records that name their columns: the columns whose value is unavailable in updates that do not name them."""

    order_names: OrderNames = WRAPPED
    """What the names of `order_by` mean in these rows."""

    metadata: frozenset[str] = frozenset()
    """Columns of the rows that the table does not store. They may still order the changes."""

    def parsed(self, writers: Sequence[WriterSchema], stored: Sequence[WriterField] = ()) -> Frame:
        """Return the frame with JSON images parsed into a struct of all columns of these writers. Columns whose types clash are read as text.

        Inferred numbers of a column that is text, here or in `stored` (the table's columns), are the text that the source wrote.
        """
        if self.images is not None:
            return dataclasses.replace(self, writers=tuple(writers))
        merged: dict[str, types.Type] = {}
        for writer in writers:
            for field in writer.fields:
                kind = conversions.json_type(field.raw)
                merged[field.name] = _joined(merged.get(field.name, kind), kind)
        numbers = {field.name for writer in writers for field in writer.fields if field.inferred and types.is_scalar(field.raw)}
        merged.update({field.name: field.type for field in stored if field.type == ("string",) and field.name in numbers})
        images: types.Type = ("struct", tuple(merged.items()))
        # a number among text loses its form in a JSON reader: 7.50 would be 7.5
        written = {name for name in numbers if merged[name] == ("string",)} if any(writer.fractions for writer in writers) else set[str]()
        parsed = [_parse(column, images, written) if column in (AFTER, BEFORE) else column for column in self.rows.columns]
        return dataclasses.replace(self, rows=self.rows.selectExpr(*parsed), images=images, writers=tuple(writers))


def _joined(left: types.Type, right: types.Type) -> types.Type:
    # text keeps the value of any scalar; an array as text would be of no use
    return types.widest(left, right) or (None if types.is_scalar(left) else types.widest(left, right, numbers=True)) or ("string",)


def _parse(column: str, images: types.Type, written: Collection[str]) -> str:
    """SQL: a JSON image as a struct. `written`: columns whose numbers are read as the text that stands there."""
    if not images[1]:
        return f"CAST(NULL AS STRUCT<_none:STRING>) AS {column}"
    if not written:
        return f"from_json({column}, '{ddl(images)}') AS {column}"
    names = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in sorted(written))
    exact = ddl(("struct", tuple((name, ("string",)) for name in sorted(written))))
    here = literal(f"(?:{names}){pg_text.FRACTION}")
    numbers = f"CASE WHEN {column} RLIKE {here} THEN from_json({pg_text.exact_numbers(column)}, '{exact}') END"
    members = (
        f"{literal(name)}, {f'coalesce(_p.n.{quoted(name)}, _p.a.{quoted(name)})' if name in written else f'_p.a.{quoted(name)}'}"
        for name, _ in images[1]
    )
    whole = f"CASE WHEN _p.a IS NOT NULL THEN named_struct({', '.join(members)}) END"
    return f"get(transform(array(struct(from_json({column}, '{ddl(images)}') AS a, {numbers} AS n)), _p -> {whole}), 0) AS {column}"


def ddl(images: types.Type) -> str:
    """Return the struct's members as Spark's `from_json` takes them, safe inside single quotes."""
    inside = ", ".join(f"`{name.replace('`', '``')}` {types.text(kind, quote=True)}" for name, kind in images[1])
    return "".join(f"\\u{ord(char):04x}" if char in "\\'" else char for char in inside)


def declared_order(names: Sequence[str], frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the order columns `names` of the settings as the Snapshot of a new table names them."""
    columns = {name for frame in frames for name, _ in (frame.images or ("struct", ()))[1]}
    return of_snapshot(names, columns, frames[0].order_names) if frames else tuple(names)


def plain_writer(writer_id: str, struct: types.Type) -> WriterSchema:
    """Return a writer that is described only by its column types (Parquet's footer, inference)."""
    return WriterSchema(writer_id, tuple(WriterField(name, kind, types.stored_names(kind)) for name, kind in struct[1]))
