"""Show what lies in landing: the partitions of `<t>_incremental`, and the view `<t>_live`. Nothing else depends on them. Needs no Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Sequence

from compactor.core.catalog import landed, live, views
from compactor.core.catalog.ddl import TableDef
from compactor.core.model.errors import CatalogRefused, InputRefused, Refused
from compactor.core.model.files import FileInfo
from compactor.core.model.layout import relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.sources import increment
from compactor.flows import ledger
from compactor.flows.land import discover
from compactor.flows.publish.publish import check_owner, view_shape
from compactor.flows.publish.shown import publication
from compactor.flows.table import Table

ANALYSED = "compactor.analysed"
"""The property of the live view with the digest of its text, folders and ids aside, that an engine has analysed."""


def sync_landing(table: Table, snapshot: Snapshot) -> tuple[list[str], tuple[str, ...]]:
    """Register folders that hold files, unregister those that do not, and replace the live view. Return the partitions, and notes for the report.

    Raises Refused if `live_view` is set and the table cannot have one.
    """
    while True:
        try:
            return _synced(table, snapshot)
        except CatalogRefused:
            newest = table.newest()
            if newest is None or newest.version <= snapshot.version:
                raise
            # a run registered columns meanwhile that this version lacks
            snapshot = newest


def show_live(table: Table, snapshot: Snapshot) -> None:
    """Bring the live view, if there is one, to a version that a restore, rebuild, replay or adoption has just published."""
    if table.spec.live_view:
        # a table that cannot have one: the next run and sync report it
        with contextlib.suppress(Refused):
            sync_landing(table, snapshot)


def _synced(table: Table, snapshot: Snapshot) -> tuple[list[str], tuple[str, ...]]:
    spec, catalog = table.spec, table.catalog()

    def registered(name: str) -> TableDef | None:
        return catalog.table(spec.tables_in, name)

    if spec.columns:
        # landed files hold protected values: no table shows them
        return [], ()
    definition = landed.table(spec, snapshot, registered)
    catalog.ensure_table(definition)
    files = list(table.storage.list(spec.landing))
    partitions = landed.partitions(spec, (relative(info.path, spec.landing) for info in files))
    there = {partition.values for partition in catalog.partitions(definition.database, definition.name)}
    gone = sorted(there - {partition.values for partition in partitions})
    new = [partition for partition in partitions if partition.values not in there]
    if new:
        catalog.ensure_partitions(definition.database, definition.name, new)
    notes = _show_live(table, snapshot, definition, files) if spec.live_view else ()
    # last, because the view that was replaced may have named them
    if gone:
        catalog.drop_partitions(definition.database, definition.name, gone)
    for other in landed.other_tables(spec, definition, registered):
        # the folders may hold files of the new type by now
        values = [partition.values for partition in catalog.partitions(other.database, other.name)]
        if values:
            catalog.drop_partitions(other.database, other.name, values)
    return [partition.values[0] for partition in partitions], notes


def _show_live(table: Table, snapshot: Snapshot, definition: TableDef, files: Sequence[FileInfo]) -> tuple[str, ...]:
    folders, hidden = pending(table, snapshot, files)
    view = live.live_view(table.spec, snapshot, definition, folders)
    shown = table.catalog().view(view.database, view.name)
    if shown is not None:
        check_owner(table, snapshot, shown)
    newer = shown is not None and int(shown.properties.get(views.VERSION, "0")) > snapshot.version
    if not newer and (shown is None or shown.text != view.text):
        # whatever folders have landed, the text is the same but for them: no engine has to start for a new folder
        shape = live.live_view(table.spec, snapshot, definition, {"": table.spec.epoch})
        digest = hashlib.sha256(repr(view_shape(shape)).encode()).hexdigest()
        if shown is None or shown.properties.get(ANALYSED) != digest:
            table.engine().check_view(shape, [*views.tables(table.spec, snapshot), definition])
        with publication(table, lambda: not table.superseded_since(snapshot)):
            table.catalog().replace_view(dataclasses.replace(view, properties={**view.properties, ANALYSED: digest}))
    if not hidden:
        return ()
    return (
        f"{view.name} leaves out {len(hidden)} folders (such as {hidden[0]}): beside new files they hold files that were undone, discarded, adopted, "
        "unreadable or of another epoch, or that runs leave out. The next run ingests the new files",
    )


def pending(table: Table, snapshot: Snapshot, files: Sequence[FileInfo]) -> tuple[dict[str, int], list[str]]:
    """Return the folders with files that the next run takes, each with the epoch of its events, and the folders that the view cannot read."""
    try:
        landing = discover.landing(table, snapshot, files)
    except InputRefused:
        # no file lies in a folder of the pattern: the run reports it
        return {}, []
    folders = {item.folder: item.epoch for item in landing.new}
    names = ((relative(info.path, table.spec.landing), info.etag) for info in files)
    places = {name: place.folder for name in names if (place := increment.landed(table.spec.pattern, name[0])) and place.folder in folders}
    hidden = set()
    for name, item in ledger.latest(ledger.of_paths(table, snapshot, (path for path, _ in places))).items():
        if name in places and live.hides(table.spec, snapshot, folders[places[name]], item):
            hidden.add(places[name])
    for info in files:
        path = relative(info.path, table.spec.landing)
        # what a run leaves out and engines read; they read no empty file, such as the marker of a folder
        if info.size and increment.ignored(path, table.spec.ignore) and not increment.hidden(path):
            hidden.update(folder for folder in folders if path.startswith(f"{folder}/"))
    return {folder: epoch for folder, epoch in folders.items() if folder not in hidden}, sorted(hidden)
