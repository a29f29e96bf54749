"""Bring what lies beside the Snapshots up to date: `resume` after the commit point of an earlier run, `sync_table` on request."""

from __future__ import annotations

import dataclasses

from compactor.core.model.errors import NoRowsYet, Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import compaction
from compactor.core.schema.evolution import evolve
from compactor.core.schema.writer import from_avro
from compactor.flows.publish import archive, audit, publish
from compactor.flows.publish.landing import show_live, sync_landing
from compactor.flows.publish.shown import remember
from compactor.flows.table import Table
from compactor.flows.transact import days_end, freeze


def with_days(table: Table, snapshot: Snapshot) -> Snapshot:
    """Commit the days that ended while readers saw an older version than `snapshot`, before they may see it. Return the newest version."""
    if table.spec.daily and days_end(table, snapshot) and audit.last_shown(table, snapshot) != snapshot:
        return freeze(table, snapshot) or snapshot
    return snapshot


def resume(table: Table, snapshot: Snapshot) -> tuple[Snapshot, bool]:
    """Publish and archive what `snapshot` still needs: what an earlier run left undone. Return what is shown, and whether anything was left."""
    snapshot = with_days(table, snapshot)
    try:
        shown, needed = publish.show(table, snapshot)
    except audit.Blocked:
        # what lands next may repair it
        shown, needed = snapshot, False
    moved = archive.archive(table, snapshot)
    return shown, needed or moved > 0


def show_and_archive(table: Table, made: Snapshot) -> None:
    """Publish a version that a verb has just committed, bring the live view to it, and archive what is left. Raises audit.Blocked."""
    publish.publish(table, made)
    show_live(table, made)
    archive.archive(table, made)


def sync_table(table: Table, applied: bool = True) -> str:
    """Bring database, tables, partitions and views up to date; gives back what was done, in words. Commits nothing, reads no row.

    A table without Snapshot is shown empty when its schema is declared (a registry's subject, an .avsc file). Raises NoRowsYet when it is not, and
    Refused where only a run can show what the settings ask for.
    `applied`: whether the catalog carries out what it is given.
    """
    snapshot = table.newest()
    if snapshot is not None:
        if compaction.hides_values(table.spec, snapshot):
            raise Refused(
                f"table {table.name}: `delete: soft` shows deleted rows, whose values are in the base alone. Run the table: it compacts first"
            )
        shown = publish.publish(table, snapshot, again=True)
        if applied:
            # of a version that was blocked nothing was archived
            archive.archive(table, shown)
        folders, notes = sync_landing(table, shown)
        notes = (*notes, *remember(table, shown, folders))
        return "; ".join((f"version {shown.version}", *notes))
    if table.spec.avro_schema is None:
        raise NoRowsYet(f"table {table.name}: its columns are unknown: nothing was committed and no `schema:` is declared. Declare it, or run")
    schema = evolve(None, [from_avro(table.spec.avro_schema)], table.spec.key, 0, table.name).schema
    if table.spec.registry_version is not None:
        schema = dataclasses.replace(schema, registered=table.spec.registry_version)
    return "no rows yet" if publish.declare(table, schema) is None else sync_table(table, applied)
