"""Publish: make the catalog show a Snapshot. Tables, then partitions, then one replacement of the view; never backwards.

What a crash leaves: tables or partitions that no view reads yet; the next run registers what is missing and replaces the view.
This module is the only one that replaces the table's view.
"""

from __future__ import annotations

import re
from contextlib import ExitStack

from compactor.core.catalog import feed, history_views, live, views
from compactor.core.catalog.ddl import ViewDef
from compactor.core.model.errors import CatalogRefused, TryLater
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.flows import logs, owner
from compactor.flows.publish import audit, daily, native
from compactor.flows.publish.shown import publication, published_views, remember_published
from compactor.flows.table import Table

_ID = re.compile(r"'(v[0-9]+-[0-9a-f]+[\w.-]*|[0-9]{4}-[0-9]{2}-[0-9]{2})'")
"""A commit id or a day in the text of a view."""


def behind(table: Table, snapshot: Snapshot) -> bool:
    """Whether the catalog shows something older than `snapshot`, or something else than its text. Raises CatalogRefused for another table's view."""
    # all of them are looked at: none is replaced while another is not ours
    results = [_is_behind(_ours(table, snapshot, view), snapshot, view) for view in published_views(table, snapshot)]
    return any(results)


def _is_behind(shown: ViewDef | None, snapshot: Snapshot, view: ViewDef, again: bool = False) -> bool:
    if shown is None:
        return True
    version = _version(shown)
    return version < snapshot.version or (version == snapshot.version and (again or shown.text != view.text))


def _ours(table: Table, snapshot: Snapshot, view: ViewDef) -> ViewDef | None:
    """Return the view of this name that the catalog shows; None without one.

    Raises CatalogRefused if it is another table's, StateRefused if it shows a version that is newer than `snapshot` and gone.
    """
    shown = table.catalog().view(view.database, view.name)
    if shown is not None:
        check_owner(table, snapshot, shown)
        table.check_all_there(snapshot, _version(shown), f"the view {shown.database}.{shown.name} shows version {_version(shown)}")
    return shown


def shown_version(table: Table, snapshot: Snapshot) -> int | None:
    """Return the oldest version that a view of the table shows, None without any.

    Raises StateRefused if a view shows a version that is newer than `snapshot` and gone, CatalogRefused for another table's view.
    """
    shown = (_ours(table, snapshot, view) for view in published_views(table, snapshot))
    return min((_version(view) for view in shown if view is not None), default=None)


def oldest_shown(table: Table, snapshot: Snapshot) -> int | None:
    """Return the oldest version that readers can still see: as `shown_version`, or in a live view, which a run that died left behind."""
    versions = [shown_version(table, snapshot)]
    if table.spec.live_view:
        there = table.catalog().view(table.spec.database, live.name(table.spec))
        versions.append(_version(there) if there is not None and there.properties.get(views.UUID) == snapshot.uuid else None)
    return min((version for version in versions if version is not None), default=None)


def newest_shown(table: Table, snapshot: Snapshot) -> int:
    """Return the newest version that a view of the table shows; 0 without any. Raises CatalogRefused for another table's view."""
    shown = [there for view in published_views(table, snapshot) if (there := table.catalog().view(view.database, view.name))]
    for view in shown:
        check_owner(table, snapshot, view)
    return max(map(_version, shown), default=0)


def publish(table: Table, snapshot: Snapshot, again: bool = False) -> Snapshot:
    """Do what `show` does; gives back what is shown."""
    return show(table, snapshot, again)[0]


def show(table: Table, snapshot: Snapshot, again: bool = False) -> tuple[Snapshot, bool]:
    """Show `snapshot`, or what has become newer meanwhile, also as an Iceberg table if there is one; gives back what is shown, and whether a view
    had been behind.

    `again`: also bring comments and properties up to date. Raises audit.Blocked if a rule of `checks:` does not hold for it; the views stay as they
    are. Raises TryLater when the process slept longer than `publish_window` between reading the Snapshot and the replacement.
    """
    needed = False
    with ExitStack() as marked:
        while True:
            began = table.env.clock()
            outdated = behind(table, snapshot)
            needed = needed or outdated
            if outdated:
                owner.check(table)
                audit.check(table, snapshot)
            if outdated or again:
                with logs.phase(table, "publishing") as phase:
                    marked.enter_context(publication(table))
                    _replace(table, snapshot, began, again)
                    phase.did(
                        f"{'published' if outdated else 'refreshed'} version {snapshot.version} in the view {table.spec.database}.{table.spec.view}"
                    )
            if table.spec.rules or table.spec.daily:
                # readers of files see no version that a check has blocked (flows.read.visible), and it is no frozen day
                remember_published(table, snapshot)
            newest = table.newest()
            # a writer that came after us and published before our replacement has just been undone: show the newest again
            if newest is None or newest.version <= snapshot.version:
                native.export(table, snapshot)
                return snapshot, needed
            snapshot = newest


def _replace(table: Table, snapshot: Snapshot, began: float, again: bool) -> None:
    """Register what the views of `snapshot` read, and replace those that show something older. Do nothing if a newer version needs other columns."""
    try:
        _register(table, snapshot)
    except CatalogRefused:
        if not table.superseded_since(snapshot):
            raise
        # a newer Snapshot's columns are registered already, which ours lacks: nothing may show ours any more
        return
    # the process may have slept: what it has read may be old, and the mark of its publication removed
    if table.env.clock() - began > table.spec.publish_window:
        raise TryLater(f"table {table.name}: publishing version {snapshot.version} took longer than publish_window; the next run finishes it")
    outdated = []
    for view in published_views(table, snapshot):
        shown = _ours(table, snapshot, view)
        if _is_behind(shown, snapshot, view, again):
            _check_view(table, snapshot, view, shown)
            outdated.append(view)
    for view in outdated:
        # the catalog looks again, and leaves a view that has become newer
        table.catalog().replace_view(view)


def declare(table: Table, schema: Schema) -> Snapshot | None:
    """Show a table that has no Snapshot yet, empty. Raises CatalogRefused for a view that somebody else has made.

    Return the Snapshot that is shown instead, if a run has made the first one meanwhile.
    """
    empty, view = views.declared(table.spec, schema)
    catalog = table.catalog()
    shown = catalog.view(table.spec.database, table.spec.view)
    if shown is not None and not is_declared(table, shown):
        newest = table.newest()
        if newest is not None:
            return publish(table, newest)
        raise CatalogRefused(
            f"table {table.name}: the view {table.spec.database}.{table.spec.view} exists, and nothing is stored below {table.spec.root} yet: it is "
            "another table's, or of another incarnation of this one. Drop it if that one is not used any more, or choose another name with `view:`."
        )
    _ensure_databases(table)
    catalog.ensure_table(empty)
    with publication(table):
        catalog.replace_view(view)
        # a run that has just published the first version does not look again: its rows would be hidden
        newest = table.newest()
        return publish(table, newest) if newest is not None else None


def is_declared(table: Table, shown: ViewDef) -> bool:
    """Return whether a view is the one that `declare` has made for this table."""
    return (shown.properties.get(views.UUID), shown.properties.get(views.ROOT)) == (views.NOBODY, table.spec.root)


def _check_view(table: Table, snapshot: Snapshot, view: ViewDef, shown: ViewDef | None) -> None:
    """Have the engine analyse a view before it replaces the one that the catalog shows. Raises CheckFailed.

    A text that differs from the shown one in its literal ids only was analysed when that one was published.
    """
    if shown is None or view_shape(shown) != view_shape(view):
        history = [history_views.table(table.spec, snapshot)] if snapshot.history else []
        days = daily.tables(table, snapshot) if snapshot.days is not None else []
        table.engine().check_view(view, [*views.tables(table.spec, snapshot), *history, *days])


def view_shape(view: ViewDef) -> tuple[object, ...]:
    """Return the view without the ids of what it reads."""
    return _ID.sub("", view.text), *((column.name, "".join(column.type.split())) for column in view.columns)


def _ensure_databases(table: Table) -> None:
    for database in dict.fromkeys((table.spec.database, table.spec.tables_in)):
        table.catalog().ensure_database(database, table.layout.root.rpartition("/")[0])


def _register(table: Table, snapshot: Snapshot) -> None:
    _ensure_databases(table)
    catalog, spec = table.catalog(), table.spec
    registrations = [*zip(views.tables(spec, snapshot), views.partitions(spec, snapshot))]
    if snapshot.history is not None:
        registrations.append((history_views.table(spec, snapshot), history_views.partitions(spec, snapshot.history)))
    if snapshot.feed is not None and snapshot.feed.mode != feed.OFF:
        # a run that died before it published has left its changes to us
        registrations += feed.registrations(spec, table.after(_shown(table, snapshot), snapshot))
    for definition, _ in registrations:
        catalog.ensure_table(definition)
    for definition, partitions in registrations:
        if partitions:
            catalog.ensure_partitions(definition.database, definition.name, partitions)
    if snapshot.days is not None:
        daily.register(table, snapshot, _shown(table, snapshot))


def _shown(table: Table, snapshot: Snapshot) -> int:
    """The version up to which the catalog has the changes."""
    shown = table.catalog().view(table.spec.database, table.spec.view)
    version = _version(shown) if shown is not None else 0
    return version if version < snapshot.version else 0


def check_owner(table: Table, snapshot: Snapshot, shown: ViewDef) -> None:
    """Raise CatalogRefused unless this view is the table's own."""
    owner = shown.properties.get(views.UUID)
    if owner is None:
        raise CatalogRefused(
            f"table {table.name}: the view {shown.database}.{shown.name} exists and is not ours. Rename it, or choose another name with `view:`."
        )
    if owner != snapshot.uuid and not is_declared(table, shown):
        raise CatalogRefused(
            f"table {table.name}: the view {shown.database}.{shown.name} belongs to another life of this table (uuid {owner}, ours is "
            f"{snapshot.uuid}): two environments on one database, or a wiped warehouse. Drop the view if that life is over."
        )


def _version(shown: ViewDef) -> int:
    try:
        return int(shown.properties.get(views.VERSION, "0"))
    except ValueError:
        return 0
