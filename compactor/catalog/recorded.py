"""A catalog that tells what it is asked to change, as statements, and changes it only when it is to: what `compactor sync --dry-run` shows.

A call that would change nothing is neither told nor passed on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compactor.catalog import rules
from compactor.core.catalog import ddl_text
from compactor.core.catalog.ddl import PartitionDef, TableDef, ViewDef
from compactor.ports import Catalog


class RecordedCatalog:
    """`inner`, watched. With `apply` False nothing reaches it but questions, and answers are as if nothing had been asked for."""

    def __init__(self, inner: Catalog, apply: bool) -> None:
        self.statements: list[str] = []
        self._inner = inner
        self._apply = apply
        self.has_database, self.table, self.partitions, self.view = inner.has_database, inner.table, inner.partitions, inner.view
        self._keys: dict[tuple[str, str], list[str]] = {}

    def ensure_database(self, name: str, location: str) -> None:
        """Tell, when it is missing."""
        statement = ddl_text.create_database(name, location)
        if not self._inner.has_database(name) and statement not in self.statements:
            self.statements.append(statement)
            if self._apply:
                self._inner.ensure_database(name, location)

    def ensure_table(self, table: TableDef) -> None:
        """Tell what differs. Raises CatalogRefused for what the inner catalog would refuse."""
        rules.check_table(table)
        label = f"{table.database}.{table.name}"
        columns = rules.table_columns(table)
        self._keys[table.database, table.name] = [column.name for column in table.partition_columns]
        wanted = dataclasses.replace(table, columns=columns, partition_columns=rules.stored(table.partition_columns))
        found = self._inner.table(table.database, table.name)
        if found is None:
            told = [ddl_text.create_table(wanted)]
        else:
            rules.check_location(label, found.location, table.location)
            rules.check_partition_columns(label, found.partition_columns, table.partition_columns)
            rules.check_evolution(label, found.columns, columns)
            told = [*ddl_text.alter_table(found, wanted)]
        self.statements += told
        if told and self._apply:
            self._inner.ensure_table(table)

    def ensure_partitions(self, database: str, table: str, partitions: Sequence[PartitionDef]) -> None:
        """Tell those that are missing; the inner catalog also brings the others' columns and statistics up to date."""
        known = {partition.values: partition for partition in self._inner.partitions(database, table)}
        for partition in partitions:
            if partition.values in known:
                rules.check_location(f"{database}.{table} {list(partition.values)}", known[partition.values].location, partition.location)
        missing = [partition for partition in partitions if partition.values not in known]
        self.statements += ddl_text.add_partitions(database, table, self._columns(database, table), missing)
        if self._apply and partitions:
            self._inner.ensure_partitions(database, table, partitions)

    def drop_partitions(self, database: str, table: str, values: Sequence[tuple[str, ...]]) -> None:
        """Tell those that are there."""
        known = {partition.values for partition in self._inner.partitions(database, table)}
        there = [each for each in values if each in known]
        self.statements += ddl_text.drop_partitions(database, table, self._columns(database, table), there)
        if self._apply and there:
            self._inner.drop_partitions(database, table, there)

    def replace_view(self, view: ViewDef) -> None:
        """Tell, when text, columns or properties differ."""
        found = self._inner.view(view.database, view.name)
        wanted = rules.kept(view.properties).items()
        if found is not None and (found.text, found.columns) == (view.text, rules.stored(view.columns)) and wanted <= found.properties.items():
            return
        self.statements.append(ddl_text.create_view(view))
        if self._apply:
            self._inner.replace_view(view)

    def _columns(self, database: str, table: str) -> list[str]:
        """The names of its partition columns, of a table that is there or has just been asked for."""
        found = self._inner.table(database, table)
        return [column.name for column in found.partition_columns] if found else self._keys.get((database, table), [])
