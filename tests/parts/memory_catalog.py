"""The catalog in dicts: for fault tests, dry runs, and as the simplest implementation of the contract."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from compactor.catalog import rules
from compactor.core.catalog.ddl import Column, NativeDef, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused


@dataclass(frozen=True)
class _Table:
    definition: TableDef
    partitions: dict[tuple[str, ...], tuple[PartitionDef, tuple[Column, ...]]] = field(default_factory=dict)


class MemoryCatalog:
    """A catalog within one process. Thread-safe: every call is atomic."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._databases: dict[str, str] = {}
        self._objects: dict[tuple[str, str], _Table | ViewDef | NativeDef] = {}

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database if it is missing."""
        with self._lock:
            self._databases.setdefault(name.lower(), rules.place(location))

    def has_database(self, name: str) -> bool:
        """Whether the database exists."""
        with self._lock:
            return name.lower() in self._databases

    def ensure_table(self, table: TableDef) -> None:
        """Create the table, or append columns and update comments and properties."""
        _check_table(table)
        label = f"{table.database}.{table.name}"
        with self._lock:
            self._check_database(table.database, label)
            existing = self._object(table.database, table.name)
            if existing is not None and not isinstance(existing, _Table):
                raise CatalogRefused(
                    f"{label}: expected an external table, found {'a view' if isinstance(existing, ViewDef) else 'an Iceberg table'}"
                )
            columns, properties = rules.table_columns(table), dict(table.properties)
            if existing is not None:
                rules.check_location(label, existing.definition.location, table.location)
                rules.check_partition_columns(label, existing.definition.partition_columns, table.partition_columns)
                if existing.definition.format != table.format:
                    raise CatalogRefused(f"{label}: expected a table of {table.format} files, found {existing.definition.format}")
                rules.check_evolution(label, existing.definition.columns, columns)
                properties = {**rules.kept(existing.definition.properties), **properties}
            definition = dataclasses.replace(table, columns=columns, partition_columns=rules.stored(table.partition_columns), properties=properties)
            self._objects[table.database.lower(), table.name.lower()] = _Table(definition, existing.partitions if existing else {})

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing partitions: all of them, or none if one is refused."""
        label = f"{database}.{table}"
        with self._lock:
            existing = self._object(database, table)
            if not isinstance(existing, _Table):
                raise CatalogRefused(f"{label}: expected an external table, found {'a view' if existing else 'nothing'}")
            keys = [column.name for column in existing.definition.partition_columns]
            requested = _distinct(label, keys, partitions)
            for values, partition in requested.items():
                if values in existing.partitions:
                    rules.check_location(f"{label} {list(values)}", existing.partitions[values][0].location, partition.location)
            for values, partition in requested.items():
                registered = existing.partitions.get(values, (PartitionDef(values, ""), ()))[0]
                entry = PartitionDef(
                    values,
                    rules.place(partition.location),
                    registered.rows if partition.rows is None else partition.rows,
                    registered.size if partition.size is None else partition.size,
                    registered.files if partition.files is None else partition.files,
                )
                existing.partitions[values] = (entry, existing.definition.columns)

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """Return the registered partitions, ordered by their values."""
        with self._lock:
            existing = self._object(database, table)
            return [existing.partitions[values][0] for values in sorted(existing.partitions)] if isinstance(existing, _Table) else []

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister partitions."""
        with self._lock:
            existing = self._object(database, table)
            if isinstance(existing, _Table):
                for each in values:
                    existing.partitions.pop(each, None)

    def view(self, database: str, name: str) -> ViewDef | None:
        """Return the registered view, or None."""
        with self._lock:
            existing = self._object(database, name)
            if existing is not None and not isinstance(existing, ViewDef):
                raise CatalogRefused(f"{database}.{name}: expected a view, found a table. Set `view:` to another name, or rename the table.")
            return existing

    def replace_view(self, view: ViewDef) -> None:
        """Create or replace the view. Foreign properties stay, as on a metastore."""
        with self._lock:
            self._check_database(view.database, f"{view.database}.{view.name}")
            existing = self.view(view.database, view.name)
            properties = {**(rules.kept(existing.properties) if existing else {}), **view.properties}
            self._objects[view.database.lower(), view.name.lower()] = ViewDef(
                view.database.lower(), view.name.lower(), view.text, rules.stored(view.columns), properties, view.dialect
            )

    def native(self, database: str, name: str) -> NativeDef | None:
        """Return the Iceberg table, or None."""
        with self._lock:
            existing = self._object(database, name)
            if existing is not None and not isinstance(existing, NativeDef):
                raise CatalogRefused(
                    f"{database}.{name}: expected an Iceberg table, found another object. Set `view:` to another name, or rename it."
                )
            return existing

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """Create the table or move its pointer, if the pointer is `expected`."""
        with self._lock:
            self._check_database(table.database, f"{table.database}.{table.name}")
            existing = self.native(table.database, table.name)
            if (existing.metadata if existing else None) != expected:
                return False
            self._objects[table.database.lower(), table.name.lower()] = dataclasses.replace(table, columns=rules.stored(table.columns))
            return True

    def table(self, database: str, name: str) -> TableDef | None:
        """Return the registered table, or None."""
        with self._lock:
            existing = self._object(database, name)
            return existing.definition if isinstance(existing, _Table) else None

    def _object(self, database: str, name: str) -> _Table | ViewDef | NativeDef | None:
        return self._objects.get((database.lower(), name.lower()))

    def _check_database(self, name: str, label: str) -> None:
        if name.lower() not in self._databases:
            raise CatalogRefused(f"{label}: database {name} does not exist")


# what the flows define must be so; no other catalog checks it


def _check_table(table: TableDef) -> None:
    """Raise CatalogRefused for a definition that engines would misread."""
    label = f"{table.database}.{table.name}"
    if table.format not in ("parquet", "avro", "json"):
        raise CatalogRefused(f"{label}: expected format parquet, avro or json, found {table.format!r}")
    for column in table.partition_columns:
        # Athena and Hive prune partitions by text only.
        if not rules.same_type(column.type, "string"):
            raise CatalogRefused(f"{label}: partition column {column.name} must be a string, found {column.type}")


def _distinct(label: str, keys: Sequence[str], partitions: Sequence[PartitionDef]) -> dict[tuple[str, ...], PartitionDef]:
    """Return partitions by values. Raises CatalogRefused for a wrong number of values, and for two different partitions with the same values."""
    by_values: dict[tuple[str, ...], PartitionDef] = {}
    for partition in partitions:
        if len(partition.values) != len(keys) or not all(partition.values):
            raise CatalogRefused(f"{label}: expected a value for each of {list(keys)}, found {list(partition.values)}")
        if by_values.setdefault(partition.values, partition) != partition:
            raise CatalogRefused(f"{label}: partition {list(partition.values)} is requested twice with different definitions")
    return by_values
