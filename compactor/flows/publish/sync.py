"""Sync: make the catalog hold what the table's newest Snapshot, its registered schema and its landing folder say."""

from __future__ import annotations

import dataclasses

from compactor.core.catalog import live
from compactor.core.model.errors import NoRowsYet
from compactor.core.model.layout import relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import evolve
from compactor.core.schema.writer import from_avro
from compactor.flows import snapshots
from compactor.flows.environment import World
from compactor.flows.publish.publish import declare, refresh


def sync_table(world: World, spec: TableSpec) -> str:
    """Bring database, tables, partitions and views up to date; gives back what was done, in words. Commits nothing, reads no row.

    A table without Snapshot is shown empty when its schema is declared (a registry's subject, an .avsc file). Raises NoRowsYet when it is not.
    """
    snapshot = snapshots.newest(world, snapshots.layout_of(spec))
    if snapshot is not None:
        shown = refresh(world, spec, snapshot)
        if shown.publish != "yes":
            return f"version {shown.version} is held: {shown.publish}"
        sync_landing(world, spec, shown)
        return f"version {shown.version}"
    if spec.avro_schema is None:
        raise NoRowsYet(f"table {spec.name}: nothing was committed yet, and no schema is declared: `schema:` or a first run tells its columns")
    schema = evolve(None, [from_avro(spec.avro_schema)], spec.key, 0, spec.name).schema
    if spec.registry_version is not None:
        schema = dataclasses.replace(schema, registered=spec.registry_version)
    declare(world, spec, schema)
    return "no rows yet"


def sync_landing(world: World, spec: TableSpec, snapshot: Snapshot) -> None:
    """Keep `<t>_incremental` (and `<t>_live`) equal to what lies in landing: register folders that hold files, unregister those that do not,
    replace the live view. For looking at; nothing else depends on it. Raises Refused when the live view cannot be had."""
    table = live.incremental_table(spec, snapshot)
    catalog = world.catalog()
    catalog.ensure_table(table)
    wanted = live.incremental_partitions(spec, (relative(info.path, spec.landing) for info in world.storage.list(spec.landing)))
    there = {partition.values for partition in catalog.partitions(table.database, table.name)}
    gone = sorted(there - {partition.values for partition in wanted})
    new = [partition for partition in wanted if partition.values not in there]
    if gone:
        catalog.drop_partitions(table.database, table.name, gone)
    if new:
        catalog.ensure_partitions(table.database, table.name, new)
    if spec.live_view:
        view = live.live_view(spec, snapshot)
        shown = catalog.view(view.database, view.name)
        if shown is None or shown.text != view.text:
            catalog.replace_view(view)
