"""Publish frozen days: register their partitions, and find the forms that their view reads.

What a crash leaves: partitions of days that no view shows; the next publish registers the rest and replaces the view.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from compactor.core.catalog import daily_views
from compactor.core.catalog.daily_views import Form
from compactor.core.catalog.ddl import PartitionDef, TableDef
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.daily import shown
from compactor.flows.table import Table


def forms(table: Table, snapshot: Snapshot) -> list[Form]:
    """Return the forms of the shown days. Reads one Snapshot for each form that is not that of `snapshot`."""
    out = []
    for digest, days in groupby(shown(snapshot.days), lambda day: day.form):
        first, *rest = days
        version = snapshot if digest == daily_views.form(snapshot) else table.columns_of(first.version)
        out.append(Form(version, first.day, rest[-1].day if rest else first.day))
    return out


def versions(table: Table, snapshot: Snapshot, since: int = 0) -> Iterator[tuple[str, Snapshot]]:
    """Yield the shown days that versions above `since` have frozen, each with its version."""
    # the version after a day's version has frozen it
    for number, days in groupby((day for day in shown(snapshot.days) if day.version >= since), lambda day: day.version):
        version = table.committed(number)
        yield from ((day.day, version) for day in days)


def tables(table: Table, snapshot: Snapshot) -> list[TableDef]:
    return daily_views.tables(table.spec, snapshot, forms(table, snapshot))


def register(table: Table, snapshot: Snapshot, since: int) -> None:
    """Register the partitions of the days that versions above `since` have frozen; 0 for all days."""
    catalog = table.catalog()
    for definition in tables(table, snapshot):
        catalog.ensure_table(daily_views.extended(definition, catalog.table(definition.database, definition.name)))
    partitions: dict[str, list[PartitionDef]] = {}
    for day, version in versions(table, snapshot, since):
        partitions.setdefault(daily_views.table(table.spec, version), []).extend(daily_views.partitions(table.spec, day, version))
    for name, registered in partitions.items():
        if registered:
            catalog.ensure_partitions(table.spec.tables_in, name, registered)
