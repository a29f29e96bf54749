"""Adoption: a base of plain Parquet files that others built becomes version 1 of a table, in the columns and the order of the table's changes. Pure.

The base's rows are read as the oldest events of the table: its columns follow those of the changes by the rules of `evolution`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core.model import names
from compactor.core.model.errors import Refused, SchemaRefused
from compactor.core.model.position import Position
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import Evolved, evolve
from compactor.core.schema.writer import WriterSchema

EPOCH = -1
"""The epoch of adopted rows: whatever is ingested later is newer."""

OPERATION = "adopt"
"""The operation of the Snapshot. It is always version 1."""

ADOPTED = "adopted"
"""Outcome of an input that was not read, because its changes are in the adopted rows."""

FIRST = 1


@dataclass(frozen=True)
class ForeignBase:
    """A base that others built, before its files are opened. `Engine.read` reads the files by it."""

    changes: Schema
    """The columns of the table's changes."""
    order: tuple[tuple[str, str], ...]
    """The order columns of the changes, with their types."""

    @property
    def position(self) -> Position:
        return (EPOCH, *(None for _ in self.order), None, None, None)

    def spec(self, spec: TableSpec, path: str) -> TableSpec:
        """Return the settings for reading the Parquet files in the folder `path` as the inputs of a first load."""
        return dataclasses.replace(
            spec, landing=path, format="parquet", source_table=None, patch_rows=False, epoch_replaces=False, feed="off", history=False
        )

    def source(self, column: str) -> str:
        """Return the source's name of a column of the base, which Hive may have spelled as it is stored."""
        sources = {field.source for field in self.changes.payload}
        spelled = {field.name: field.source for field in self.changes.payload}
        return column if column in sources else spelled.get(names.stored_name(column), column)

    def evolved(self, writers: Sequence[WriterSchema], spec: TableSpec) -> Evolved:
        """Return the table's columns: those of the changes, with the base's. Raises SchemaRefused."""
        for writer in writers:
            columns = {self.source(field.name) for field in writer.fields}
            lacking = next((name for name in spec.key if name not in columns), None)
            if lacking is not None:
                raise SchemaRefused(
                    f"table {spec.name}: {spec.landing} has no column {lacking!r}, a part of the key; it has {', '.join(sorted(columns)) or 'none'}"
                )
        named = [tuple(dataclasses.replace(field, name=self.source(field.name)) for field in writer.fields) for writer in writers]
        renamed = [dataclasses.replace(writer, fields=fields) for writer, fields in zip(writers, named)]
        made = evolve(self.changes, renamed, spec.key, FIRST, spec.name, spec.policy)
        columns_of = {
            writer.id: {field.name: stored for field in writer.fields if (stored := made.columns[writer.id].get(self.source(field.name)))}
            for writer in writers
        }
        # what the base has was there from the start: its nulls are no defaults
        present = {stored for columns in columns_of.values() for stored in columns.values()}
        fields = tuple(
            dataclasses.replace(field, first=self.position, last=field.last or self.position, default=None) if field.name in present else field
            for field in made.schema.fields
        )
        # nothing is stored yet in another type
        return dataclasses.replace(made, schema=dataclasses.replace(made.schema, fields=fields, generation=1), columns=columns_of, retyped=())


def refused_paths(path: str, below: Sequence[str]) -> str | None:
    """Return why the files below a directory are no plain Parquet base, as a sentence, or None. `below`: paths below it, data or not."""
    tops = {name.split("/", 1)[0] for name in below}
    foreign = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}
    kind = next((product for name, product in foreign.items() if name in tops), None)
    if kind is None and any(name.startswith("metadata/") and name.endswith(".metadata.json") for name in below):
        kind = "Apache Iceberg"
    if kind is not None:
        return f"{path} is a table of {kind}: only {kind} knows which of its files hold rows. Write its rows out as plain Parquet, and adopt that"
    return None


def check_plain(table: str, path: str, data: Sequence[str]) -> None:
    """Raises Refused unless these data files, paths below the directory, are those of a plain, unpartitioned base."""
    if not data:
        raise Refused(f"table {table}: there are no files below {path}; expected the plain Parquet files of a base")
    nested = next((name for name in data if "/" in name), None)
    if nested is not None:
        folder = nested.rsplit("/", 1)[0]
        what = "is partitioned: values of rows are in the names of its folders" if "=" in folder else "has folders"
        raise Refused(
            f"table {table}: {path} {what} ({folder}/); expected Parquet files in one folder. Write its rows into one, partition columns among them "
            "(`INSERT OVERWRITE DIRECTORY ... STORED AS PARQUET SELECT * FROM ...`), and adopt that."
        )
    other = next((name for name in data if name.rsplit(".", 1)[-1].lower() in ("orc", "avro", "json", "jsonl", "csv", "txt", "gz")), None)
    if other is not None:
        raise Refused(f"table {table}: {path} holds {other}, which is no Parquet file; expected Parquet files only")
