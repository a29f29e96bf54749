"""The catalog in dicts: for fault tests, dry runs, and as the plainest reading of the contract."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from compactor.catalog import rules
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef, ViewDef
from compactor.core.model.errors import CatalogRefused


@dataclass(frozen=True)
class _Table:
    definition: TableDef
    partitions: dict[tuple[str, ...], tuple[PartitionDef, tuple[Column, ...]]] = field(default_factory=dict)


class MemoryCatalog:
    """One process's catalog, safe between its threads: every call is atomic."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._databases: dict[str, str] = {}
        self._objects: dict[tuple[str, str], _Table | ViewDef] = {}

    def ensure_database(self, name: str, location: str) -> None:
        """Create the database when it is missing."""
        with self._lock:
            self._databases.setdefault(name.lower(), rules.place(location))

    def has_database(self, name: str) -> bool:
        """Whether it is there."""
        with self._lock:
            return name.lower() in self._databases

    def ensure_table(self, table: TableDef) -> None:
        """Create the table, or append columns and bring comments and properties up to date."""
        rules.check_table(table)
        label = f"{table.database}.{table.name}"
        with self._lock:
            self._check_database(table.database, label)
            found = self._object(table.database, table.name)
            if isinstance(found, ViewDef):
                raise CatalogRefused(f"{label}: expected an external table, found a view")
            columns, properties = rules.table_columns(table), dict(table.properties)
            if found is not None:
                rules.check_location(label, found.definition.location, table.location)
                rules.check_partition_columns(label, found.definition.partition_columns, table.partition_columns)
                if found.definition.format != table.format:
                    raise CatalogRefused(f"{label}: expected a table of {table.format} files, found {found.definition.format}")
                rules.check_evolution(label, found.definition.columns, columns)
                properties = {**rules.kept(found.definition.properties), **properties}
            definition = dataclasses.replace(table, columns=columns, partition_columns=rules.stored(table.partition_columns), properties=properties)
            self._objects[table.database.lower(), table.name.lower()] = _Table(definition, found.partitions if found else {})

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Register the missing ones; all of them, or none when one is refused."""
        label = f"{database}.{table}"
        with self._lock:
            found = self._object(database, table)
            if not isinstance(found, _Table):
                raise CatalogRefused(f"{label}: expected an external table, found {'a view' if found else 'nothing'}")
            keys = [column.name for column in found.definition.partition_columns]
            wanted = rules.distinct(label, keys, partitions)
            for values, partition in wanted.items():
                if values in found.partitions:
                    rules.check_location(f"{label} {list(values)}", found.partitions[values][0].location, partition.location)
            for values, partition in wanted.items():
                known = found.partitions.get(values, (PartitionDef(values, ""), ()))[0]
                entry = PartitionDef(
                    values,
                    rules.place(partition.location),
                    known.rows if partition.rows is None else partition.rows,
                    known.size if partition.size is None else partition.size,
                    known.files if partition.files is None else partition.files,
                )
                found.partitions[values] = (entry, found.definition.columns)

    def partitions(self, database: str, table: str) -> list[PartitionDef]:
        """What is registered, by values."""
        with self._lock:
            found = self._object(database, table)
            return [found.partitions[values][0] for values in sorted(found.partitions)] if isinstance(found, _Table) else []

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Unregister."""
        with self._lock:
            found = self._object(database, table)
            if isinstance(found, _Table):
                for each in values:
                    found.partitions.pop(each, None)

    def view(self, database: str, name: str) -> ViewDef | None:
        """The view as it is, or None."""
        with self._lock:
            found = self._object(database, name)
            if isinstance(found, _Table):
                raise CatalogRefused(f"{database}.{name}: expected a view, found a table; say `view:` or rename it")
            return found

    def replace_view(self, view: ViewDef) -> None:
        """Create or replace; foreign properties stay, as on a metastore."""
        with self._lock:
            self._check_database(view.database, f"{view.database}.{view.name}")
            found = self.view(view.database, view.name)
            properties = {**(rules.kept(found.properties) if found else {}), **view.properties}
            self._objects[view.database.lower(), view.name.lower()] = ViewDef(
                view.database.lower(), view.name.lower(), view.text, rules.stored(view.columns), properties, view.dialect
            )

    def table(self, database: str, name: str) -> TableDef | None:
        """The table as it is, or None."""
        with self._lock:
            found = self._object(database, name)
            return found.definition if isinstance(found, _Table) else None

    def _object(self, database: str, name: str) -> _Table | ViewDef | None:
        return self._objects.get((database.lower(), name.lower()))

    def _check_database(self, name: str, label: str) -> None:
        if name.lower() not in self._databases:
            raise CatalogRefused(f"{label}: there is no database {name}")
