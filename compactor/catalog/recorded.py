"""A catalog that records changes as SQL statements and optionally applies them. `compactor publish --dry-run` shows these statements.

A call that would change nothing is not recorded, and not applied either, but for partitions: their statistics are not compared here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.catalog import rules
from compactor.core.catalog import ddl_text
from compactor.core.catalog.ddl import NativeDef, PartitionDef, TableDef, ViewDef
from compactor.ports import Catalog


class RecordedCatalog:
    """Record changes to `inner`. Without `apply`, only reads reach it, and they show no change."""

    def __init__(self, inner: Catalog, apply: bool) -> None:
        self.statements: list[str] = []
        self._inner = inner
        self._apply = apply
        self.has_database, self.table, self.partitions, self.view = inner.has_database, inner.table, inner.partitions, inner.view
        self.native = inner.native
        self._keys: dict[tuple[str, str], list[str]] = {}

    def ensure_database(self, name: str, location: str) -> None:
        statement = ddl_text.create_database(name, location)
        if not self._inner.has_database(name) and statement not in self.statements:
            self.statements.append(statement)
            if self._apply:
                self._inner.ensure_database(name, location)

    def ensure_table(self, table: TableDef) -> None:
        """Record the differences. Raises CatalogRefused where the inner catalog would."""
        label = f"{table.database}.{table.name}"
        columns = rules.table_columns(table)
        self._keys[table.database, table.name] = [column.name for column in table.partition_columns]
        requested = dataclasses.replace(table, columns=columns, partition_columns=rules.stored(table.partition_columns))
        existing = self._inner.table(table.database, table.name)
        if existing is None:
            statements = [ddl_text.create_table(requested)]
        else:
            rules.check_location(label, existing.location, table.location)
            rules.check_partition_columns(label, existing.partition_columns, table.partition_columns)
            rules.check_evolution(label, existing.columns, columns)
            statements = [*ddl_text.alter_table(existing, requested)]
        self.statements += statements
        if statements and self._apply:
            self._inner.ensure_table(table)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Record the missing partitions. When applied, the inner catalog also updates columns and statistics of the others."""
        registered = {partition.values: partition for partition in self._inner.partitions(database, table)}
        for partition in partitions:
            if partition.values in registered:
                rules.check_location(f"{database}.{table} {list(partition.values)}", registered[partition.values].location, partition.location)
        missing = [partition for partition in partitions if partition.values not in registered]
        self.statements += ddl_text.add_partitions(database, table, self._columns(database, table), missing)
        if self._apply and partitions:
            self._inner.ensure_partitions(database, table, partitions)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        registered = {partition.values for partition in self._inner.partitions(database, table)}
        there = [each for each in values if each in registered]
        self.statements += ddl_text.drop_partitions(database, table, self._columns(database, table), there)
        if self._apply and there:
            self._inner.drop_partitions(database, table, there)

    def replace_view(self, view: ViewDef) -> None:
        """Record a view whose text, columns or properties differ. Its comment is not compared: Athena's views have another one."""
        existing = self._inner.view(view.database, view.name)
        requested = rules.shown(view.properties).items()
        if (
            existing is not None
            and (existing.text, existing.columns) == (view.text, rules.stored(view.columns))
            and requested <= existing.properties.items()
        ):
            return
        self.statements.append(ddl_text.create_view(view))
        if self._apply:
            self._inner.replace_view(view)

    def point(self, table: NativeDef, expected: str | None) -> bool:
        """Record the new pointer, and move it. Nothing exports where changes are not applied."""
        self.statements.append(f"-- {table.database}.{table.name}: table_type = ICEBERG, metadata_location = {table.metadata}")
        return self._inner.point(table, expected)

    def _columns(self, database: str, table: str) -> list[str]:
        """Return the names of the partition columns of a registered or just recorded table."""
        existing = self._inner.table(database, table)
        return [column.name for column in existing.partition_columns] if existing else self._keys.get((database, table), [])
