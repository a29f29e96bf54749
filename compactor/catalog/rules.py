"""What every catalog agrees on: which locations are one place, how columns may change, which properties are whose. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.model import types
from compactor.core.model.errors import CatalogRefused

COMMENT_BYTES_MAX = 255
"""Glue keeps no more of a column's comment (a metastore on a database: 256 characters), and refuses the whole call for one that is longer."""

FOREIGN_PREFIXES = ("spark.sql.", "view.")
"""Spark's own copies of schema and settings. When somebody else changes columns and leaves them, Spark shows the OLD ones."""

_SYSTEM = {
    "COLUMN_STATS_ACCURATE",
    "EXTERNAL",
    "comment",
    "last_modified_by",
    "last_modified_time",
    "numFiles",
    "numPartitions",
    "numRows",
    "rawDataSize",
    "totalSize",
    "transient_lastDdlTime",
}


def place(location: str) -> str:
    """A location as it is compared and shown: local ones as plain paths, whatever their URI looked like; one name for S3."""
    found = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):(//[^/]*)?", location)
    scheme, host = (found[1].lower(), found[2] or "") if found else ("", "")
    path = re.sub("/{2,}", "/", location[found.end() if found else 0 :]).rstrip("/")
    if scheme in ("", "file"):
        return path or "/"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{host}{path}"


def uri(location: str) -> str:
    """A location as it is registered: a bare path would be read in the metastore's own default file system."""
    return f"file://{location}" if location.startswith("/") else location


def same_type(one: str, other: str) -> bool:
    """Two type texts that mean one type."""
    return re.sub(r"\s", "", one).lower() == re.sub(r"\s", "", other).lower()


def stored(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Columns as a metastore keeps them."""
    return tuple(Column(column.name.lower(), _type(column.type), _short(column.comment)) for column in columns)


def table_columns(table: TableDef) -> tuple[Column, ...]:
    """The columns registered. Hive 2 has no JSON reader among its own jars: such a table shows the text, one line a row."""
    if table.format == "json":
        return (Column("line", "string", "one JSON document"),)
    return stored(table.columns)


def check_table(table: TableDef) -> None:
    """Refuse what no engine would read right."""
    label = f"{table.database}.{table.name}"
    if table.format not in ("parquet", "avro", "json"):
        raise CatalogRefused(f"{label}: expected format parquet, avro or json, found {table.format!r}")
    for column in table.partition_columns:
        # Athena and Hive prune partitions by text only.
        if not same_type(column.type, "string"):
            raise CatalogRefused(f"{label}: partition column {column.name} must be a string, found {column.type}")


def check_evolution(label: str, existing: Sequence[Column], wanted: Sequence[Column]) -> None:
    """Columns are matched by name in files, by position in the metastore: they may only be appended or get another comment."""
    for position, column in enumerate(existing):
        if position >= len(wanted) or wanted[position].name != column.name or not same_type(wanted[position].type, column.type):
            found = f"{wanted[position].name} {wanted[position].type}" if position < len(wanted) else "nothing"
            raise CatalogRefused(
                f"{label}: column {position + 1} is {column.name} {column.type} in the catalog, and {found} is asked for; "
                "columns of a table can only be appended, anything else needs a new table"
            )


def check_partition_columns(label: str, existing: Sequence[Column], wanted: Sequence[Column]) -> None:
    """How a table is partitioned never changes."""
    found, expected = [column.name for column in existing], [column.name.lower() for column in wanted]
    if found != expected:
        raise CatalogRefused(f"{label}: expected it partitioned by {expected}, found {found}")


def check_location(label: str, existing: str, wanted: str) -> None:
    """An object of ours at another place belongs to another life of the table, or to somebody else."""
    if place(existing) != place(wanted):
        raise CatalogRefused(f"{label}: expected at {place(wanted)}, registered at {place(existing)}; drop it or choose another name")


def distinct(label: str, keys: Sequence[str], partitions: Sequence[PartitionDef]) -> dict[tuple[str, ...], PartitionDef]:
    """Partitions by values; refused where one has another number of values than the table, or is given twice and unequal."""
    found: dict[tuple[str, ...], PartitionDef] = {}
    for partition in partitions:
        if len(partition.values) != len(keys) or not all(partition.values):
            raise CatalogRefused(f"{label}: expected a value for each of {list(keys)}, found {list(partition.values)}")
        if found.setdefault(partition.values, partition) != partition:
            raise CatalogRefused(f"{label}: partition {list(partition.values)} is asked for twice, differently")
    return found


def statistics(partition: PartitionDef) -> dict[str, str]:
    """The parameters Trino and Hive plan with. Spark's ANALYZE would write other names, which they do not read."""
    known = {"numRows": partition.rows, "totalSize": partition.size, "numFiles": partition.files}
    return {name: str(value) for name, value in known.items() if value is not None}


def kept(properties: Mapping[str, str]) -> dict[str, str]:
    """What stays of an object's properties when we alter it."""
    return {name: value for name, value in properties.items() if not name.startswith(FOREIGN_PREFIXES)}


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """An object's properties without what the metastore itself writes."""
    return {name: value for name, value in kept(properties).items() if name not in _SYSTEM}


def between(now: Sequence[Column], wanted: Sequence[Column]) -> tuple[Column, ...] | None:
    """The columns under which both texts of a view can be read while it changes from `now` to `wanted`; None where there are no such columns.

    A metastore does not read text and columns of a view in one transaction, and Spark picks the columns listed out of what the text gives, by name,
    each cast to the type listed as long as nothing can be lost. So: the columns of both, in the types of then. The text alone changes under these.
    """
    types_now = {column.name: column.type for column in now}
    both = tuple(column for column in wanted if column.name in types_now)
    return both if all(_follows(types.parse(types_now[column.name]), types.parse(column.type)) for column in both) else None


def _follows(old: types.Type, new: types.Type) -> bool:
    """Whether Spark reads the values of one type where a view lists the other (UpCast)."""
    if old == new:
        return True
    if old[0] == new[0] and old[0] in ("array", "map"):
        return all(_follows(before, after) for before, after in zip(old[1:], new[1:]))
    if old[0] == new[0] == "struct":
        named = [name for name, _ in old[1]] == [name for name, _ in new[1]]
        return named and all(_follows(before, after) for (_, before), (_, after) in zip(old[1], new[1]))
    if not types.is_scalar(old) or (old[0] == "decimal" and new[0] in ("float", "double")):
        return False
    return new == ("string",) or types.widest(old, new, numbers=True, also=("date_to_timestamp",)) == new


def outdated(view: ViewDef, properties: Mapping[str, str]) -> bool:
    """Whether an object with these properties shows a newer version of the same life of the table than `view`."""
    if properties.get(views.UUID) is None or properties.get(views.UUID) != view.properties.get(views.UUID):
        return False
    shown, wanted = (said.get(views.VERSION, "") for said in (properties, view.properties))
    return shown.isdigit() and wanted.isdigit() and int(shown) > int(wanted)


def _type(text: str) -> str:
    return text if "`" in text else re.sub(r"\s", "", text)


def _short(comment: str) -> str:
    data = comment.encode()
    return comment if len(data) <= COMMENT_BYTES_MAX else data[: COMMENT_BYTES_MAX - 3].decode(errors="ignore") + "…"
