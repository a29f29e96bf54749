"""Sync: make the catalog hold what the table's newest Snapshot, its registered schema and its landing folder say."""

from __future__ import annotations

import dataclasses

from compactor.core.catalog import live
from compactor.core.catalog.ddl import TableDef
from compactor.core.model.errors import NoRowsYet
from compactor.core.model.layout import relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.schema.evolution import evolve
from compactor.core.schema.writer import from_avro
from compactor.flows.publish.publish import check_owner, check_view, declare, refresh
from compactor.flows.publish.shown import remember
from compactor.flows.table import Table


def sync_table(table: Table) -> str:
    """Bring database, tables, partitions and views up to date; gives back what was done, in words. Commits nothing, reads no row.

    A table without Snapshot is shown empty when its schema is declared (a registry's subject, an .avsc file). Raises NoRowsYet when it is not.
    """
    snapshot = table.newest()
    if snapshot is not None:
        shown = refresh(table, snapshot)
        remember(table, shown, sync_landing(table, shown))
        return f"version {shown.version}"
    if table.spec.avro_schema is None:
        raise NoRowsYet(f"table {table.name}: its columns are unknown: nothing was committed and no `schema:` is declared. Declare it, or run")
    schema = evolve(None, [from_avro(table.spec.avro_schema)], table.spec.key, 0, table.name).schema
    if table.spec.registry_version is not None:
        schema = dataclasses.replace(schema, registered=table.spec.registry_version)
    declare(table, schema)
    return "no rows yet"


def sync_landing(table: Table, snapshot: Snapshot) -> list[str]:
    """Keep `<t>_incremental` (and `<t>_live`) equal to what lies in landing: register folders that hold files, unregister those that do not,
    replace the live view. For looking at; nothing else depends on it. Return the folders. Raises Refused when the live view cannot be had,
    CatalogRefused when another view has its name."""
    catalog = table.catalog()

    def registered(name: str) -> TableDef | None:
        return catalog.table(table.spec.tables_in, name)

    landed = live.incremental_table(table.spec, snapshot, registered)
    catalog.ensure_table(landed)
    for other in live.other_tables(table.spec, landed, registered):
        # the folders may hold files of the new type by now
        values = [partition.values for partition in catalog.partitions(other.database, other.name)]
        if values:
            catalog.drop_partitions(other.database, other.name, values)
    partitions = live.incremental_partitions(table.spec, (relative(info.path, table.spec.landing) for info in table.storage.list(table.spec.landing)))
    there = {partition.values for partition in catalog.partitions(landed.database, landed.name)}
    gone = sorted(there - {partition.values for partition in partitions})
    new = [partition for partition in partitions if partition.values not in there]
    if gone:
        catalog.drop_partitions(landed.database, landed.name, gone)
    if new:
        catalog.ensure_partitions(landed.database, landed.name, new)
    if table.spec.live_view:
        view = live.live_view(table.spec, snapshot, landed)
        shown = catalog.view(view.database, view.name)
        if shown is not None:
            check_owner(table, snapshot, shown)
        if shown is None or shown.text != view.text:
            check_view(table, snapshot, view, landed)
            catalog.replace_view(view)
    return [partition.values[0] for partition in partitions]
