"""What decoding gives: envelope-free rows, still in the writer's own types. `conform` makes Changes of them.

A record is a raw row of a file; an event is what a record says about one row of the table.

Columns of `Frame.rows`:

| column | type | meaning |
|---|---|---|
| `_file`, `_block`, `_row` | string, bigint, bigint | where the record stands |
| `_text` | string | the record as it stands in the file, where it is text; only quoted, and not there for others |
| `_op` | string | c, u, d, r, t; null for records without a row |
| `_invalid` | string | why the record cannot be used, else null |
| `_writer` | string | id of the WriterSchema that wrote `_after` |
| `_schema` | string | that writer's schema text, where the record carries it (Connect JSON) |
| `_after`, `_before` | `Frame.images` | row images: structs, or JSON text until `Frame.parsed` |
| `_record_key`, `_old_key` | string | JSON of the record's key, and of the key this row had before (Debezium's header) |
| `_source` | struct | the envelope's own fields that order and identify (`spark/decode/order.py`) |
| `_time` | bigint | the source's commit time, microseconds since 1970 |
| `_event` | int | where a record can hold several events: the place of this one in it |
| `_named` | array<string> | where records name their columns: the columns named (null: a delete) |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.schema.writer import WriterField, WriterSchema
from compactor.spark.decode import conversions
from compactor.spark.decode.order import WRAPPED, OrderNames


@dataclass(frozen=True)
class Frame:
    """Decoded rows."""

    rows: DataFrame

    images: types.Type | None
    """The struct type of `_after` and `_before`. None while they are JSON text."""

    writers: tuple[WriterSchema, ...] = ()
    """Who wrote the rows. Empty until that is known."""

    omits: str | None = None
    """What an update may leave out, where records name their columns (`decode/named.py`). None elsewhere: a placeholder marks such values."""

    absent: tuple[str, ...] | None = None
    """Where records name their columns: the columns whose value is unavailable in the rows whose `_named` does not name them."""

    order_names: OrderNames = WRAPPED
    """What the names of `order_by` mean in these rows."""

    metadata: frozenset[str] = frozenset()
    """Columns of the rows that the table does not store. They may order the changes."""

    def parsed(self, writers: Sequence[WriterSchema]) -> Frame:
        """With the images of JSON text parsed, once, into a struct that holds what all these writers wrote; types that clash are read as text."""
        if self.images is not None:
            return dataclasses.replace(self, writers=tuple(writers))
        merged: dict[str, types.Type] = {}
        for writer in writers:
            for field in writer.fields:
                found = conversions.json_type(field.raw)
                merged[field.name] = _joined(merged.get(field.name, found), found)
        images: types.Type = ("struct", tuple(merged.items()))
        parsed = [_parse(column, images) if column in ("_after", "_before") else column for column in self.rows.columns]
        return dataclasses.replace(self, rows=self.rows.selectExpr(*parsed), images=images, writers=tuple(writers))


def _joined(left: types.Type, right: types.Type) -> types.Type:
    # of scalars text keeps what each of them was; text of an array would be read by nobody
    return types.widest(left, right) or (None if types.is_scalar(left) else types.widest(left, right, numbers=True)) or ("string",)


def _parse(column: str, images: types.Type) -> str:
    if not images[1]:
        return f"CAST(NULL AS STRUCT<_none:STRING>) AS {column}"
    return f"from_json({column}, '{ddl(images)}') AS {column}"


def ddl(images: types.Type) -> str:
    """The struct's members as Spark's `from_json` takes them, safe inside single quotes."""
    inside = ", ".join(f"`{name.replace('`', '``')}` {types.text(kind, quote=True)}" for name, kind in images[1])
    return "".join(f"\\u{ord(char):04x}" if char in "\\'" else char for char in inside)


def plain_writer(writer_id: str, struct: types.Type) -> WriterSchema:
    """A writer known only by the types of its columns (Parquet's footer, inference)."""
    return WriterSchema(writer_id, tuple(WriterField(name, kind, types.stored_names(kind)) for name, kind in struct[1]))
