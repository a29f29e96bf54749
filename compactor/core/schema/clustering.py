"""Clustering: by which columns the rows of a Segment's files are sorted, and how large the row groups are (`cluster_by:`).

A Parquet file has the least and the greatest value of each column for each row group and each page. In rows that are sorted by a column these
ranges are narrow, and a filter on that column skips most of them (docs/design/view.md#files-sorted-by-other-columns).
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.model import types
from compactor.core.model.errors import Refused
from compactor.core.model.schema import Schema, called
from compactor.core.model.spec import TableSpec

ROW_GROUP_BYTES = 32 << 20
"""Size of the row groups of clustered files, in memory before compression. Measured in docs/design/view.md#files-sorted-by-other-columns."""

_UNSORTABLE = ("array", "map", "struct", "binary")
"""Types for which no engine skips data."""


@dataclass(frozen=True)
class FileOrder:
    columns: tuple[str, ...]
    """Stored names of the columns that rows are sorted by, most significant first."""
    row_group_bytes: int | None = None
    """Size of a row group; None for the engine's default."""


def by_key(schema: Schema) -> FileOrder:
    """Return the order of a Delta, and of a Segment without `cluster_by:`."""
    return FileOrder(schema.key)


def of_segments(spec: TableSpec, schema: Schema) -> FileOrder:
    """Return the order of the files of a new Segment: by the columns of `cluster_by:`, then by the key.

    Columns that the table does not have are left out (`absent`). Raises Refused for a column by which no reader could skip data.
    """
    columns = [column for name in spec.cluster_by if (column := called(name, schema.fields))]
    for column in columns:
        kind, start = types.parse(column.type), f"table {spec.name}: `cluster_by` names {column.source}"
        if kind[0] in _UNSORTABLE:
            raise Refused(f"{start}, which is {types.text(kind)}: no reader skips data by such a column. Remove it there. Nothing was committed.")
        if kind[0] == "timestamp" and spec.parquet == "hive":
            raise Refused(
                f"{start}, a timestamp. Timestamps are stored as INT96, which has no statistics, so no reader could skip data by it. Set "
                "`parquet: standard` for all tables of the file (Hive 2 and 3 do not read it), or remove the column there. Nothing was committed."
            )
    return FileOrder(tuple(dict.fromkeys((*(column.name for column in columns), *schema.key))), ROW_GROUP_BYTES) if columns else by_key(schema)


def absent(spec: TableSpec, schema: Schema) -> list[str]:
    """Return the names in `cluster_by:` that are no columns. A column may come later: in JSON it has no type before its first value."""
    return [name for name in spec.cluster_by if called(name, schema.fields) is None]
