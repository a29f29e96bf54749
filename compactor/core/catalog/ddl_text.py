"""Changes of the catalog as Hive's SQL, for people to read before they are made. All names are quoted, all texts are escaped.

The adapters do not run these statements, because a metastore's own client can do more in one transaction (docs/design/view.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef, quoted
from compactor.core.catalog.dialect import HIVE
from compactor.core.model import types

_STORED = {"parquet": "PARQUET", "avro": "AVRO", "json": "TEXTFILE"}


def literal(value: str) -> str:
    """Return a string literal for Hive and Spark, with escaped quotes, backslashes and line breaks.

    >>> print(literal("it's"))
    'it\\'s'
    """
    return HIVE.text(value).replace("\n", "\\n").replace("\r", "\\r")


def create_database(name: str, location: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)} LOCATION {literal(location)}"


def create_table(table: TableDef) -> str:
    columns = ",\n  ".join(_column(column) for column in table.columns)
    parts = f"\nPARTITIONED BY ({', '.join(_column(column) for column in table.partition_columns)})" if table.partition_columns else ""
    comment = f"\nCOMMENT {literal(table.comment)}" if table.comment else ""
    stored = f"\nSTORED AS {_STORED[table.format]}\nLOCATION {literal(table.location)}"
    return f"CREATE EXTERNAL TABLE {_name(table.database, table.name)} (\n  {columns})" + comment + parts + stored + _properties(table.properties)


def alter_table(existing: TableDef, target: TableDef) -> Iterator[str]:
    """Yield the statements that change columns, comments and properties of a table. Columns are only appended (`catalog/rules.py`)."""
    head = f"ALTER TABLE {_name(target.database, target.name)}"
    for before, after in zip(existing.columns, target.columns):
        if before != after:
            yield f"{head} CHANGE COLUMN {quoted(before.name)} {_column(after)}"
    added = target.columns[len(existing.columns) :]
    if added:
        yield f"{head} ADD COLUMNS ({', '.join(_column(column) for column in added)}) CASCADE"
    comment = {"comment": target.comment} if target.comment and target.comment != existing.comment else {}
    changed = {name: value for name, value in target.properties.items() if existing.properties.get(name) != value}
    if changed or comment:
        yield f"{head} SET TBLPROPERTIES ({_pairs({**changed, **comment})})"


def add_partitions(database: str, table: str, keys: Sequence[str], partitions: Sequence[PartitionDef]) -> Iterator[str]:
    """Yield ALTER TABLE ADD PARTITION for each partition, with its statistics as a comment."""
    for partition in partitions:
        numbers = {"rows": partition.rows, "bytes": partition.size, "files": partition.files}
        statistics = ", ".join(f"{value:,} {name}" for name, value in numbers.items() if value is not None)
        spec = f"PARTITION ({_values(keys, partition.values)}) LOCATION {literal(partition.location)}"
        yield f"ALTER TABLE {_name(database, table)} ADD IF NOT EXISTS {spec}" + (f" /* {statistics} */" if statistics else "")


def drop_partitions(database: str, table: str, keys: Sequence[str], values: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield ALTER TABLE DROP PARTITION for each partition."""
    for each in values:
        yield f"ALTER TABLE {_name(database, table)} DROP IF EXISTS PARTITION ({_values(keys, each)})"


def create_view(view: ViewDef) -> str:
    names = ", ".join(quoted(column.name) + (f" COMMENT {literal(column.comment)}" if column.comment else "") for column in view.columns)
    properties = {name: value for name, value in view.properties.items() if name != "comment"}
    comment = f"\nCOMMENT {literal(view.properties['comment'])}" if view.properties.get("comment") else ""
    return f"CREATE OR REPLACE VIEW {_name(view.database, view.name)} ({names}){comment}{_properties(properties)}\nAS {view.text}"


def _name(database: str, name: str) -> str:
    return f"{quoted(database)}.{quoted(name)}"


def _column(column: Column) -> str:
    # Hive's words may be names of a struct's members too, as `row` is in `_position`
    kind = types.text(types.parse(column.type), quote=True)
    return f"{quoted(column.name)} {kind}" + (f" COMMENT {literal(column.comment)}" if column.comment else "")


def _properties(properties: Mapping[str, str]) -> str:
    return f"\nTBLPROPERTIES ({_pairs(properties)})" if properties else ""


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in sorted(properties.items()))


def _values(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{quoted(key)} = {literal(value)}" for key, value in zip(keys, values))
