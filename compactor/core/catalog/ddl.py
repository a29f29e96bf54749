"""Tables, partitions and views of a Hive catalog, as values. The adapters in `catalog/` create them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """One column of a table or a view."""

    name: str
    type: str
    """Hive type text, such as `decimal(10,2)`."""
    comment: str = ""


@dataclass(frozen=True)
class TableDef:
    database: str
    name: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    location: str
    properties: dict[str, str] = field(default_factory=dict)
    format: str = "parquet"
    """`parquet`, `avro` or `json`."""
    comment: str = ""


@dataclass(frozen=True)
class PartitionDef:
    """A partition. Trino and Hive use its statistics for planning; None is unknown."""

    values: tuple[str, ...]
    location: str
    rows: int | None = None
    size: int | None = None
    """Bytes."""
    files: int | None = None


@dataclass(frozen=True)
class NativeDef:
    """An Iceberg table: a pointer to a metadata file."""

    database: str
    name: str
    columns: tuple[Column, ...]
    location: str
    metadata: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewDef:
    database: str
    name: str
    text: str
    columns: tuple[Column, ...]
    """Columns of the query's result, with Hive types."""
    properties: dict[str, str] = field(default_factory=dict)
    """Our properties, such as the table's uuid and version."""
    dialect: str = "hive"
    """`hive` for all engines that read Hive's views; `presto` for Athena, which reads only views of its own form."""


def text_literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL, whatever it contains.

    >>> text_literal("it's")
    "'it\\\\u0027s'"
    """
    return "'" + "".join(f"\\u{ord(char):04x}" if char in "\\'\"" or ord(char) < 32 else char for char in text) + "'"


def quoted(name: str) -> str:
    """Return a name in back-quotes for Hive and Spark, with doubled back-quotes inside."""
    return "`" + name.replace("`", "``") + "`"
