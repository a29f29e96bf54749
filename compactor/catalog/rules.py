"""Rules shared by all catalogs, without I/O: equal locations, allowed changes of columns, and which properties belong to whom."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model import types
from compactor.core.model.errors import CatalogRefused

_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
FORMATS = {
    "parquet": (
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    "avro": (
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
    ),
    "json": ("org.apache.hadoop.mapred.TextInputFormat", _TEXT_OUTPUT, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
}
VIEW_FORMAT = ("org.apache.hadoop.mapred.TextInputFormat", _TEXT_OUTPUT, "")
NATIVE_FORMAT = (
    "org.apache.hadoop.mapred.FileInputFormat",
    "org.apache.hadoop.mapred.FileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
"""Those that Iceberg's own catalogs register: no engine reads the table by them."""

COMMENT_BYTES_MAX = 255
"""Glue's limit for a column comment (a Hive metastore: 256 characters). It rejects the whole call for a longer one."""

FOREIGN_PREFIXES = ("spark.sql.", "view.")
"""Spark's own copies of schema and settings. If they stay while the columns change, Spark shows the OLD columns."""

TABLE, VIEW = "EXTERNAL_TABLE", "VIRTUAL_VIEW"
"""Kinds of objects, as Hive and Glue name them."""

POINTER = "metadata_location"
"""The parameter of an Iceberg table with its metadata file."""

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


def serde_parameters(formats: tuple[str, str, str]) -> dict[str, str]:
    """Return the parameters of a serde.

    Spark takes those of a Parquet table as options of its own reader. Without the rebase modes it refuses dates before 1582, and timestamps before
    1900, in files that Spark has not written. Writers other than Hive and Spark 2 use the calendar of today for all dates (`CORRECTED`).
    """
    modes = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"} if formats == FORMATS["parquet"] else {}
    return {"serialization.format": "1", **modes}


def place(location: str) -> str:
    """Return the canonical form of a location, for comparison and display: a plain path for local ones, `s3://` for every S3 scheme."""
    match = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):(//[^/]*)?", location)
    scheme, host = (match[1].lower(), match[2] or "") if match else ("", "")
    path = re.sub("/{2,}", "/", location[match.end() if match else 0 :]).rstrip("/")
    if scheme in ("", "file"):
        return path or "/"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{host}{path}"


def uri(location: str) -> str:
    """Return a location as it is registered. The metastore would read a bare path in its own default file system."""
    return f"file://{location}" if location.startswith("/") else location


def same_type(one: str, other: str) -> bool:
    return re.sub(r"\s", "", one).lower() == re.sub(r"\s", "", other).lower()


def stored(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns as a metastore stores them: names in lower case, types without blanks, comments shortened."""
    return tuple(Column(column.name.lower(), _type(column.type), _short(column.comment)) for column in columns)


def table_columns(table: TableDef) -> tuple[Column, ...]:
    """Return the columns to register. Hive 2 has no JSON reader among its own jars: such a table shows each line as one text column."""
    if table.format == "json":
        return (Column("line", "string", "one JSON document"),)
    return stored(table.columns)


def check_external(label: str, kind: str, advice: str = "") -> None:
    """Raise CatalogRefused for an object of another kind (`tableType`) than an external table."""
    if kind != TABLE:
        raise CatalogRefused(f"{label}: expected an external table, found {_named(kind)}{advice}")


def check_view(label: str, kind: str) -> None:
    """Raise CatalogRefused for an object of another kind (`tableType`) than a view."""
    if kind != VIEW:
        raise CatalogRefused(f"{label}: expected a view, found {_named(kind)}. Set `view:` to another name, or rename the table.")


def _named(kind: str) -> str:
    return {VIEW: "a view", TABLE: "an external table", "MANAGED_TABLE": "a managed table"}.get(kind, kind or "nothing")


def check_update(
    table: TableDef, kind: str, location: str, columns: Sequence[Column], partition_columns: Sequence[Column], library: str | None
) -> None:
    """Raise CatalogRefused unless an existing object is an earlier form of the table. `library`: the name of its serde."""
    label = f"{table.database}.{table.name}"
    check_external(label, kind, ". Drop it or choose another name.")
    check_location(label, location, table.location)
    check_partition_columns(label, partition_columns, table.partition_columns)
    if library != FORMATS[table.format][2]:
        raise CatalogRefused(f"{label}: expected a table of {table.format} files, found {library}")
    check_evolution(label, columns, table_columns(table))


def check_evolution(label: str, existing: Sequence[Column], requested: Sequence[Column]) -> None:
    """Raise CatalogRefused unless columns are only appended or get other comments.

    Files match columns by name, the metastore by position.
    """
    for position, column in enumerate(existing):
        if position >= len(requested) or requested[position].name != column.name or not same_type(requested[position].type, column.type):
            replacement = f"{requested[position].name} {requested[position].type}" if position < len(requested) else "none"
            raise CatalogRefused(
                f"{label}: column {position + 1} is {column.name} {column.type} in the catalog, requested is {replacement}. "
                "Columns can only be appended; any other change needs a new table."
            )


def check_partition_columns(label: str, existing: Sequence[Column], requested: Sequence[Column]) -> None:
    """Raise CatalogRefused if the partition columns would change."""
    registered, expected = [column.name for column in existing], [column.name.lower() for column in requested]
    if registered != expected:
        raise CatalogRefused(f"{label}: expected partition columns {expected}, found {registered}")


def check_location(label: str, existing: str, requested: str) -> None:
    """Raise CatalogRefused for an object at another location: it belongs to another incarnation of the table, or to another owner."""
    if place(existing) != place(requested):
        raise CatalogRefused(
            f"{label}: expected at {place(requested)}, registered at {place(existing)}. Choose another name; or, if the "
            "warehouse was moved, drop the table's objects from the catalog (their files stay) and run `compactor publish`."
        )


def statistics(partition: PartitionDef) -> dict[str, str]:
    """Return the parameters that Trino and Hive plan with. Spark's ANALYZE writes other names, which they do not read."""
    figures = {"numRows": partition.rows, "totalSize": partition.size, "numFiles": partition.files}
    return {name: str(value) for name, value in figures.items() if value is not None}


def partition(values: Sequence[str], location: str, parameters: Mapping[str, str]) -> PartitionDef:
    """Return a partition of the catalog. A statistic that is no number counts as unknown."""
    figures = (parameters.get(name, "") for name in ("numRows", "totalSize", "numFiles"))
    return PartitionDef(tuple(values), place(location), *(int(text) if text.isdigit() else None for text in figures))


def outdated_partition(requested: PartitionDef, parameters: Mapping[str, str], listed: Sequence[Column], expected: Sequence[Column]) -> bool:
    """Whether a registered partition's statistics differ from those requested, or its columns from the table's."""
    # Hive 2.3 reads a column that the partition does not list as null, silently.
    return not statistics(requested).items() <= parameters.items() or listed != expected


def format_of(library: str | None) -> str:
    """Return the format of a table with this serde, or the serde's name for one that is not ours."""
    return next((name for name, formats in FORMATS.items() if formats[2] == library), str(library))


def table_parameters(table: TableDef) -> dict[str, str]:
    return {**table.properties, **({"comment": table.comment} if table.comment else {})}


def native_parameters(table: NativeDef, before: str | None) -> dict[str, str]:
    """Return the parameters of an Iceberg table. `before`: the metadata file that it pointed to."""
    previous = {"previous_metadata_location": uri(before)} if before else {}
    return {"EXTERNAL": "TRUE", "table_type": "ICEBERG", POINTER: uri(table.metadata), **previous, **table.properties}


def pointer(label: str, parameters: Mapping[str, str]) -> str:
    """Return the metadata file of an object with these parameters. Raises CatalogRefused if it is no Iceberg table."""
    if parameters.get("table_type", "").upper() != "ICEBERG" or not parameters.get(POINTER):
        raise CatalogRefused(f"{label}: expected an Iceberg table, found another object. Set `view:` to another name, or rename it.")
    return place(parameters[POINTER])


def own(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that are ours alone."""
    return {name: value for name, value in parameters.items() if name.startswith("compactor.")}


def kept(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that stay when we alter an object."""
    return {name: value for name, value in properties.items() if not name.startswith(FOREIGN_PREFIXES)}


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return an object's properties without those that the metastore itself writes."""
    return {name: value for name, value in kept(properties).items() if name not in _SYSTEM}


def between(now: Sequence[Column], requested: Sequence[Column]) -> tuple[Column, ...] | None:
    """Return columns under which both texts of a view are readable while it changes from `now` to `requested`. None: there are no such columns.

    A metastore does not read text and columns of a view in one transaction. Spark selects the listed columns by name from the text's result, and
    casts each to the listed type if that loses nothing. So the transition lists the common columns in their new types.
    """
    types_now = {column.name: column.type for column in now}
    both = tuple(column for column in requested if column.name in types_now)
    return both if all(_follows(types.parse(types_now[column.name]), types.parse(column.type)) for column in both) else None


def _follows(old: types.Type, new: types.Type) -> bool:
    """Whether Spark can read values of type `old` where a view lists `new` (UpCast)."""
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
    """Whether an object with these properties shows a newer version of the same incarnation of the table than `view`."""
    if properties.get(views.UUID) is None or properties.get(views.UUID) != view.properties.get(views.UUID):
        return False
    shown, requested = (each.get(views.VERSION, "") for each in (properties, view.properties))
    return shown.isdigit() and requested.isdigit() and int(shown) > int(requested)


def _type(text: str) -> str:
    return text if "`" in text else re.sub(r"\s", "", text)


def _short(comment: str) -> str:
    data = comment.encode()
    return comment if len(data) <= COMMENT_BYTES_MAX else data[: COMMENT_BYTES_MAX - 3].decode(errors="ignore") + "…"
