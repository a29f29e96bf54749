"""What the catalog is asked to hold, as values: tables, partitions, views. Pure; the adapters in `catalog/` carry it out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """One column as Hive knows it: lower-case name, Hive type text such as `decimal(10,2)`, comment."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True)
class TableDef:
    """An external table; `format` is `parquet`, `avro` or `json`."""

    database: str
    name: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    location: str
    properties: dict[str, str] = field(default_factory=dict)
    format: str = "parquet"
    comment: str = ""


@dataclass(frozen=True)
class PartitionDef:
    """A registered directory. `rows`, `size` (bytes) and `files` are the statistics Trino and Hive plan with; None = unknown."""

    values: tuple[str, ...]
    location: str
    rows: int | None = None
    size: int | None = None
    files: int | None = None


@dataclass(frozen=True)
class ViewDef:
    """A view: `text` is what its readers run, `columns` (Hive types) must equal the text's output, `properties` carry uuid and version.

    `dialect`: `hive` for every engine that reads Hive's views, `presto` for Athena, which reads no others than its own.
    """

    database: str
    name: str
    text: str
    columns: tuple[Column, ...]
    properties: dict[str, str] = field(default_factory=dict)
    dialect: str = "hive"


def quoted(name: str) -> str:
    """A name as Hive and Spark take it literally: back-quotes around, back-quotes inside doubled."""
    return "`" + name.replace("`", "``") + "`"
