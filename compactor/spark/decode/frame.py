"""Frame: what decoding returns. Rows without envelope, still in the writer's types; `rows/conform.py` makes Changes of them.

A record is a raw row of a file. An event is what a record says about one row of the table; some envelopes have several events in one record.

Columns of `Frame.rows` (types and meanings: `spark/columns.py`): FILE, BLOCK, ROW, OFFSET, PARTITION, OP, INVALID, WRITER, SCHEMA, AFTER, BEFORE,
RECORD_KEY, OLD_KEY, SOURCE, TIME. Records that are text also have TEXT. Records that can hold several events also have EVENT, and records that name
their columns also have NAMED.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark.columns import AFTER, BEFORE
from compactor.spark.decode import conversions, pg_text
from compactor.spark.decode.order import WRAPPED, OrderNames
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
        fractions = {field.name for writer in writers for field in writer.fields if field.raw == ("double",) and merged[field.name] == ("string",)}
        parsed = [_parse(column, images, fractions & numbers) if column in (AFTER, BEFORE) else column for column in self.rows.columns]
        return dataclasses.replace(self, rows=self.rows.selectExpr(*parsed), images=images, writers=tuple(writers))


def _joined(left: types.Type, right: types.Type) -> types.Type:
    # text keeps the value of any scalar; an array as text would be of no use
    return types.widest(left, right) or (None if types.is_scalar(left) else types.widest(left, right, numbers=True)) or ("string",)


def _parse(column: str, images: types.Type, fractions: Collection[str]) -> str:
    """SQL: a JSON image as a struct. `fractions`: text columns in which numbers with a fraction stand, whose digits a JSON reader would change."""
    if not images[1]:
        return f"CAST(NULL AS STRUCT<_none:STRING>) AS {column}"
    if not fractions:
        return f"from_json({column}, '{ddl(images)}') AS {column}"
    exact: types.Type = ("struct", tuple((name, ("string",)) for name in fractions))
    both = f"from_json({column}, '{ddl(images)}') AS a, from_json({pg_text.exact_numbers(column)}, '{ddl(exact)}') AS b"
    members = ", ".join(f"{literal(name)}, _p.{'b' if name in fractions else 'a'}.{quoted(name)}" for name, _ in images[1])
    return f"get(transform(array(struct({both})), _p -> CASE WHEN _p.a IS NOT NULL THEN named_struct({members}) END), 0) AS {column}"


def ddl(images: types.Type) -> str:
    """Return the struct's members as Spark's `from_json` takes them, safe inside single quotes."""
    inside = ", ".join(f"`{name.replace('`', '``')}` {types.text(kind, quote=True)}" for name, kind in images[1])
    return "".join(f"\\u{ord(char):04x}" if char in "\\'" else char for char in inside)


def plain_writer(writer_id: str, struct: types.Type) -> WriterSchema:
    """Return a writer that is described only by its column types (Parquet's footer, inference)."""
    return WriterSchema(writer_id, tuple(WriterField(name, kind, types.stored_names(kind)) for name, kind in struct[1]))
