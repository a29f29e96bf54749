"""Publish: make the catalog show a Snapshot. Tables, then partitions, then one replacement of the view; never backwards.

What a crash leaves: tables or partitions that no view reads yet; the next run registers what is missing and replaces the view.
This module is the only one that replaces the table's view.
"""

from __future__ import annotations

from compactor.core import feed as feeds
from compactor.core import history_views, views
from compactor.core.ddl import ViewDef
from compactor.core.errors import CatalogRefused, TryLater
from compactor.core.schema import Schema
from compactor.core.snapshot import Snapshot
from compactor.core.spec import TableSpec
from compactor.flows import feed, snapshots
from compactor.flows.world import World


def _wanted(spec: TableSpec, snapshot: Snapshot) -> list[ViewDef]:
    """Every view to show, the table's own last."""
    return [*history_views.published(spec, snapshot), *views.published(spec, snapshot)]


def behind(world: World, spec: TableSpec, snapshot: Snapshot) -> bool:
    """Whether the catalog shows something older than `snapshot`, or something else than its text. Raises CatalogRefused for another table's view."""
    # all of them are looked at: none is replaced while another is not ours
    found = [_behind(world, spec, snapshot, wanted) for wanted in _wanted(spec, snapshot)]
    return any(found)


def _behind(world: World, spec: TableSpec, snapshot: Snapshot, wanted: ViewDef) -> bool:
    shown = world.catalog().view(wanted.database, wanted.name)
    if shown is None:
        return True
    _owned(spec, snapshot, shown)
    version = _version(shown)
    return version < snapshot.version or (version == snapshot.version and shown.text != wanted.text)


def shown_version(world: World, spec: TableSpec, snapshot: Snapshot) -> int | None:
    """The oldest version that a view of the table shows, None without any. Raises CatalogRefused for another table's view."""
    found = []
    for wanted in _wanted(spec, snapshot):
        shown = world.catalog().view(wanted.database, wanted.name)
        if shown is not None:
            _owned(spec, snapshot, shown)
            found.append(_version(shown))
    return min(found, default=None)


def publish(world: World, spec: TableSpec, snapshot: Snapshot) -> Snapshot:
    """Show `snapshot`, or what has become newer meanwhile; gives back what is shown.

    Raises TryLater when the process slept longer than `publish_window` between reading the Snapshot and the replacement (H23).
    """
    if snapshot.publish != "yes":
        return snapshot
    layout = snapshots.layout_of(spec)
    while True:
        began = world.clock()
        if behind(world, spec, snapshot):
            try:
                _register(world, spec, snapshot)
            except CatalogRefused:
                newest = snapshots.newest(world, layout)
                if newest is None or newest.version <= snapshot.version or newest.publish != "yes":
                    raise
                # a newer Snapshot's columns are registered already, which ours lacks: nothing may show ours any more
                snapshot = newest
                continue
            if world.clock() - began > spec.publish_window:
                raise TryLater(f"table {spec.name}: publishing version {snapshot.version} took longer than publish_window; the next run finishes it")
            for wanted in _wanted(spec, snapshot):
                if _behind(world, spec, snapshot, wanted):
                    world.catalog().replace_view(wanted)
        newest = snapshots.newest(world, layout)
        # a writer that came after us and published before our replacement has just been undone: show the newest again
        if newest is None or newest.version <= snapshot.version or newest.publish != "yes":
            return snapshot
        snapshot = newest


def refresh(world: World, spec: TableSpec, snapshot: Snapshot) -> Snapshot:
    """Publish, and bring up to date what publishing does not look at: comments and properties of what shows the right rows already."""
    snapshot = publish(world, spec, snapshot)
    shown = world.catalog().view(spec.database, spec.view)
    if snapshot.publish != "yes" or shown is None or _version(shown) != snapshot.version:
        return snapshot
    try:
        _register(world, spec, snapshot)
        world.catalog().replace_view(views.view(spec, snapshot))
    except CatalogRefused:
        newest = snapshots.newest(world, snapshots.layout_of(spec))
        if newest is None or newest.version <= snapshot.version:
            raise
        # a run beside us has registered columns that this version lacks; the newest version has them
    # a run that published meanwhile may have been undone just now: show the newest again
    return publish(world, spec, snapshot)


def declare(world: World, spec: TableSpec, schema: Schema) -> None:
    """Show a table that has no Snapshot yet, empty. Raises CatalogRefused for a view that somebody else has made."""
    table, view = views.declared(spec, schema)
    catalog = world.catalog()
    shown = catalog.view(spec.database, spec.view)
    if shown is not None and (shown.properties.get(views.UUID), shown.properties.get(views.ROOT)) != (views.NOBODY, spec.root):
        raise CatalogRefused(
            f"table {spec.name}: the view {spec.database}.{spec.view} exists, and nothing is stored below {spec.root} yet: it is another table's, or "
            "of another life of this one. Drop it if that life is over, or say `view:`."
        )
    for database in dict.fromkeys((spec.database, spec.tables_in)):
        catalog.ensure_database(database, snapshots.layout_of(spec).root.rpartition("/")[0])
    catalog.ensure_table(table)
    catalog.replace_view(view)


def _register(world: World, spec: TableSpec, snapshot: Snapshot) -> None:
    catalog = world.catalog()
    for database in dict.fromkeys((spec.database, spec.tables_in)):
        catalog.ensure_database(database, snapshots.layout_of(spec).root.rpartition("/")[0])
    base, delta = views.tables(spec, snapshot)
    catalog.ensure_table(base)
    catalog.ensure_table(delta)
    if snapshot.history is not None:
        rows = history_views.table(spec, snapshot)
        catalog.ensure_table(rows)
        catalog.ensure_partitions(rows.database, rows.name, history_views.partitions(spec, snapshot.history))
    base_partitions, delta_partitions = views.partitions(spec, snapshot)
    catalog.ensure_partitions(base.database, base.name, base_partitions)
    if delta_partitions:
        catalog.ensure_partitions(delta.database, delta.name, delta_partitions)
    if snapshot.feed is not None and snapshot.feed.mode != feeds.OFF:
        # a run that died before it published has left its changes to us
        for table, partitions in feeds.registrations(spec, feed.after(world, spec, snapshot, _shown(world, spec, snapshot))):
            catalog.ensure_table(table)
            if partitions:
                catalog.ensure_partitions(table.database, table.name, partitions)


def _shown(world: World, spec: TableSpec, snapshot: Snapshot) -> int:
    """The version up to which the catalog has the changes."""
    shown = world.catalog().view(spec.database, spec.view)
    version = _version(shown) if shown is not None else 0
    return version if version < snapshot.version else 0


def _owned(spec: TableSpec, snapshot: Snapshot, shown: ViewDef) -> None:
    owner = shown.properties.get(views.UUID)
    if owner is None:
        raise CatalogRefused(
            f"table {spec.name}: the view {shown.database}.{shown.name} exists and is not ours. Rename it, or say `view:` for this table."
        )
    if owner == views.NOBODY and shown.properties.get(views.ROOT) == spec.root:
        return
    if owner != snapshot.uuid:
        raise CatalogRefused(
            f"table {spec.name}: the view {shown.database}.{shown.name} belongs to another life of this table (uuid {owner}, ours is "
            f"{snapshot.uuid}): two environments on one database, or a wiped warehouse. Drop the view if that life is over."
        )


def _version(shown: ViewDef) -> int:
    try:
        return int(shown.properties.get(views.VERSION, "0"))
    except ValueError:
        return 0
