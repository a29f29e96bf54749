"""Vacuum: delete what no kept Snapshot names. `core/planning/retention.py` decides what goes.

| step | a crash after it leaves |
|---|---|
| 1. look: Snapshots, pins, what the catalog shows, all objects below the root; anything unknown ends it | nothing |
| 2. commit a Snapshot that names pending deletions and raw files to go; publish it | units that no later Snapshot names; older plans conflict |
| 3. unregister the partitions that only expired Snapshots' views read, and orphan partitions | the next vacuum names and unregisters them again |
| 4. write stubs over the expired Snapshots: a number is never free again | the same for those not yet written |
| 5. delete orphans, pending deletions older than one grace period, raw files and records past their age | the rest, still pending |

Nothing is deleted before step 2 stands, nor before the expired Snapshots that named it are stubs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection
from contextlib import ExitStack

from compactor.core.catalog import daily_views, feed, views
from compactor.core.catalog.ddl import PartitionDef
from compactor.core.model import times
from compactor.core.model.edit import Edit
from compactor.core.model.errors import Conflict, StateRefused
from compactor.core.model.files import FileInfo
from compactor.core.model.history import ROWS
from compactor.core.model.layout import Layout, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import daily, retention
from compactor.core.planning.retention import Unit, VacuumPlan
from compactor.core.results.record import DAYS_KEPT
from compactor.core.results.reports import Swept, VacuumReport
from compactor.flows import logs, owner
from compactor.flows.keep import raw_files
from compactor.flows.keep.raw_files import Discards
from compactor.flows.publish import audit, native, publish, shown
from compactor.flows.table import Table
from compactor.flows.transact import transact

Values = dict[str, list[tuple[str, ...]]]
"""Table → values of some of its partitions."""


@dataclasses.dataclass(frozen=True)
class _Inspection:
    """Step 1. `snapshots`: the file of each version; `orphan_partitions`: partitions that no view needs; `changes`: the Snapshots, stubs too, whose
    parts of the feed are still kept; `records`: run records past their age; `exports`: the files of the Iceberg table.
    """

    newest: Snapshot
    snapshots: dict[int, FileInfo]
    kept: tuple[Snapshot, ...]
    sweep: VacuumPlan
    units: dict[str, Unit]
    orphan_partitions: Values
    discards: Discards
    now: float
    changes: tuple[Snapshot, ...]
    records: tuple[FileInfo, ...]
    exports: tuple[FileInfo, ...]


@logs.of_table
def vacuum(table: Table, dry: bool) -> VacuumReport:
    """Delete what may go; `dry`: only report. Raises Conflict as `transact` does, StateRefused when anything is unknown.

    Where the catalog is not asked (`files_only`, dry runs only) less may go than is reported: what it shows and newer is always kept.
    """
    looks: list[_Inspection] = []

    def planned(newest: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if newest is None:
            return None
        looks.append(_look(table, newest))
        return None if dry else _edit(table, looks[-1])

    made = transact(table, planned)
    if not looks:
        return VacuumReport(table.name, None, dry, notes=("nothing committed yet",))
    inspection = looks[-1]
    if dry:
        return _report(table, inspection, dry=True, version=inspection.newest.version)
    owner.check(table)
    newest = inspection.newest
    if made is not None:
        was = None if table.spec.live_view else shown.recall(table, newest)
        with contextlib.suppress(audit.Blocked):
            newest = publish.publish(table, made)
        if was is not None and newest.version == made.version:
            # with this the next run sees without an engine that there is nothing to do
            shown.remember(table, newest, (), compacted=was.compacted >= inspection.newest.version)
    # what goes is in no export any more, also of a version that was blocked
    native.export(table, made or newest, advance=False)
    _unregister(table, inspection)
    for stub in _stubs(inspection, made is not None):
        _write_over(table, inspection.snapshots[stub.version], stub)
    # listed again: there may be a newer one
    exported = native.unused(table, native.listed(table), table.storage.now()) if inspection.exports else []
    table.storage.delete([*_files(table, inspection), *exported])
    return _report(table, inspection, dry=False, version=newest.version)


@logs.of_table
def vacuum_if_due(table: Table) -> VacuumReport:
    """Delete what may go. The catalog is not asked if nothing may go by the files alone: what it shows can only keep more.

    A partition that is registered and that nothing reads (see `_orphan_partitions`) stays until a vacuum has something to delete.
    """
    by_files = dataclasses.replace(table, env=dataclasses.replace(table.env, files_only=True))
    newest = by_files.newest()
    if newest is None:
        return vacuum(by_files, True)
    inspection = _look(by_files, newest)
    sweep = inspection.sweep
    if sweep.newly_pending or sweep.expired or inspection.discards.entries or _files(by_files, inspection):
        return vacuum(table, False)
    return _report(by_files, inspection, dry=False, version=newest.version)


def _look(table: Table, newest: Snapshot) -> _Inspection:
    layout = table.layout
    now = table.storage.now()
    oldest_shown = None if table.env.files_only else publish.oldest_shown(table, newest)
    # before the files are listed: what is registered was written before
    registered = {} if table.env.files_only else _registered(table, newest)
    units, snapshots, records, exports = _listed(table, layout)
    for version in range(1, max([newest.version, *snapshots]) + 1):
        if version not in snapshots:
            snapshots[version] = _numbered(table, version)
    modified = {version: info.modified for version, info in snapshots.items()}
    # what the vacuum before has written over; it left `oldest` as it was, because it might have died before
    given_up = {layout.version_of(layout.inside(item.path)): item.since for item in newest.pending_deletions}
    stubs = {version for version, when in given_up.items() if version is not None and modified[version] > when}
    whole = [newest]
    since = newest.feed.kept + 1 if newest.feed else newest.version
    changes = [newest]
    for version in sorted({*(retention.possibly_kept(newest) - stubs), *range(since, newest.version)} - {newest.version}):
        snapshot = table.snapshot(version)
        if snapshot is None:
            raise _gone(layout, version)
        if not snapshot.expired:
            whole.append(snapshot)
        if newest.feed and version >= since:
            changes.append(snapshot)
    empty = {segment.path for segment in newest.segments if not segment.files}
    missing = sorted(newest.named - empty - set(units))
    if missing:
        if table.superseded_since(newest):
            raise Conflict(f"table {table.name}: others committed and vacuumed between our looks at version {newest.version} and at its files")
        raise StateRefused(
            f"table {table.name}: version {newest.version} names {missing[0]}, which is not there. Nothing was deleted. "
            f"`compactor verify {table.name}` lists what else is missing; restore it from a backup."
        )
    exported = native.shown(table, whole, newest) if exports else ()
    sweep = retention.plan_vacuum(table.spec, newest, whole, modified, units, oldest_shown, now, changes, exported)
    kept = tuple(snapshot for snapshot in whole if snapshot.version in sweep.kept)
    named = {*(path for snapshot in kept for path in snapshot.named), *feed.paths(changes, sweep.feed_kept)}
    orphans = _orphan_partitions(layout, newest, named, units, registered)
    old = tuple(info for info in records if info.modified < now - DAYS_KEPT * 86400.0)
    return _Inspection(newest, snapshots, kept, sweep, units, orphans, raw_files.due(table, newest, now), now, tuple(changes), old, tuple(exports))


def _listed(table: Table, layout: Layout) -> tuple[dict[str, Unit], dict[int, FileInfo], list[FileInfo], list[FileInfo]]:
    """The units below the root by path, the file of each Snapshot, the run records, and the files of the Iceberg table.

    Raises StateRefused for an object that this version does not know.
    """
    units: dict[str, Unit] = {}
    records: list[FileInfo] = []
    exports: list[FileInfo] = []
    snapshots: dict[int, FileInfo] = {}
    unknown: list[str] = []
    landing = table.spec.landing.rstrip("/") + "/"
    for info in table.storage.list(table.spec.root):
        version, unit = layout.version_of(info.path), layout.unit(info.path)
        if version is not None:
            snapshots[version] = info
        elif unit is not None:
            units[unit[0]] = _with(units.get(unit[0]) or Unit(*unit, (), 0, info.modified), info)
        elif (kind := layout.kind(info.path)) == "run":
            records.append(info)
        elif kind == "iceberg":
            exports.append(info)
        elif kind is None and not info.path.startswith(landing):
            unknown.append(info.path)
    if unknown:
        raise StateRefused(
            f"table {table.name}: {len(unknown)} objects below {table.spec.root} are not ours, such as {unknown[0]}. Nothing was deleted. Move them "
            "elsewhere; if a newer compactor wrote them, let that one vacuum."
        )
    return units, snapshots, records, exports


def _with(unit: Unit, info: FileInfo) -> Unit:
    return dataclasses.replace(unit, files=(*unit.files, info.path), size=unit.size + info.size, newest=max(unit.newest, info.modified))


def _numbered(table: Table, version: int) -> FileInfo:
    """A Snapshot that a listing did not show: it may be behind."""
    info = table.storage.stat(table.layout.snapshot(version))
    if info is None:
        raise _gone(table.layout, version)
    return info


def _gone(layout: Layout, version: int) -> StateRefused:
    return StateRefused(
        f"Snapshot {layout.snapshot(version)} is not there: somebody deletes files below {layout.root}. Its files cannot be distinguished "
        "from garbage, so nothing was deleted. Restore it from a backup."
    )


def _edit(table: Table, inspection: _Inspection) -> Edit | None:
    newest, sweep, entries = inspection.newest, inspection.sweep, inspection.discards.entries
    if not (sweep.newly_pending or entries):
        return None
    kept = dataclasses.replace(newest.feed, kept=sweep.feed_kept, part=None) if newest.feed else None
    writer = table.next_commit(newest)
    return Edit("vacuum", writer, inputs=entries, pending_deletions=sweep.pending_deletions, oldest=sweep.oldest, feed=kept, days=sweep.days)


def _write_over(table: Table, stored: FileInfo, stub: Snapshot) -> None:
    """Write a stub over a Snapshot. It is replaced only as it was read: a bucket policy may deny all other puts (docs/aws.md)."""
    if not table.storage.replace(stored, stub.to_bytes()) and not table.committed(stub.version).expired:
        raise Conflict(f"table {table.name}: {stored.path} changed since it was listed. Vacuum again.")


def _unregister(table: Table, inspection: _Inspection) -> None:
    partitions = retention.unregistered(inspection.sweep.expired, inspection.kept)
    for snapshot in inspection.changes:
        partition = feed.partition(table.spec, snapshot)
        if partition is not None and snapshot.version <= inspection.sweep.feed_kept:
            partitions.setdefault((feed.TABLE, snapshot.schema.generation), []).append(partition.values)
    expired = {snapshot.version: snapshot for snapshot in inspection.sweep.expired}
    for day in inspection.newest.days or ():
        # no day of an expired version is shown
        if day.version in expired:
            values = [each.values for each in daily_views.partitions(table.spec, day.day, expired[day.version])]
            partitions.setdefault((daily_views.ROWS, expired[day.version].schema.generation), []).extend(values)
    gone = {views.table_name(table.spec, part, generation): values for (part, generation), values in partitions.items()}
    for name in dict.fromkeys([*gone, *inspection.orphan_partitions]):
        values = list(dict.fromkeys([*gone.get(name, []), *inspection.orphan_partitions.get(name, [])]))
        table.catalog().drop_partitions(table.spec.tables_in, name, values)


def _stubs(inspection: _Inspection, committed: bool) -> list[Snapshot]:
    """Return the stubs to write: of versions that expire, and shorter ones of versions whose part of the feed is given up now."""
    sweep = inspection.sweep
    at_hand = {snapshot.version: snapshot for snapshot in (*inspection.changes, *sweep.expired, *inspection.kept)}
    given_up = [each for each in inspection.changes if committed and each.expired and each.version <= sweep.feed_kept]
    return [
        snapshot.stub() if snapshot.feed and snapshot.version > sweep.feed_kept else retention.shortened(snapshot, at_hand.get(snapshot.version + 1))
        for snapshot in (*sweep.expired, *given_up)
    ]


def _registered(table: Table, newest: Snapshot) -> dict[str, list[PartitionDef]]:
    parts = ("base", "delta", *([feed.TABLE] if newest.feed else []), ROWS, *([daily_views.ROWS] if newest.days is not None else []))
    tables = [views.table_name(table.spec, part, generation) for generation in range(1, newest.schema.generation + 1) for part in parts]
    return {name: table.catalog().partitions(table.spec.tables_in, name) for name in tables}


def _orphan_partitions(
    layout: Layout, newest: Snapshot, named: Collection[str], units: Collection[str], registered: dict[str, list[PartitionDef]]
) -> Values:
    """Return the partitions whose directory is deleted or pending deletion, and those of days that are not shown any more.

    A publisher that slept through a vacuum registers such partitions.
    """
    given_up = {item.path for item in newest.pending_deletions}
    days = {day.day for day in daily.shown(newest.days)}
    orphans: Values = {}
    for table, partitions in registered.items():
        for partition in partitions:
            unit = layout.unit(f"{partition.location}/-")
            gone = unit and unit[0] not in named and (unit[0] in given_up or unit[0] not in units)
            # days may share a directory that stays
            day = partition.values[0] if daily_views.has_days(table) else None
            if gone or (day and day not in days and daily.unused(day, times.parse(newest.time))):
                orphans.setdefault(table, []).append(partition.values)
    return orphans


def _files(table: Table, inspection: _Inspection) -> list[str]:
    """What goes now, a Segment or Delta after the other."""
    due = (inspection.units[item.path] for item in inspection.sweep.due(table.spec.grace, inspection.now) if item.path in inspection.units)
    return [*(file for unit in due for file in unit.files), *(info.path for info in (*inspection.discards.files, *inspection.records))]


def _report(table: Table, inspection: _Inspection, dry: bool, version: int) -> VacuumReport:
    due = {item.path for item in inspection.sweep.due(table.spec.grace, inspection.now)}
    swept = []
    for item in inspection.sweep.pending_deletions:
        unit = inspection.units.get(item.path)
        if unit is None:
            continue
        goes = None if item.path in due else times.from_seconds(retention.deletable_at(item, table.spec.grace))
        swept.append(Swept(table.name, item.path, item.reason, len(unit.files), unit.size, goes))
    root = table.layout.root
    swept += [Swept(table.name, relative(info.path, root), raw_files.DISCARDED, 1, info.size, None) for info in inspection.discards.files]
    if inspection.records:
        size = sum(info.size for info in inspection.records)
        swept.append(Swept(table.name, relative(table.layout.runs(), root), "record", len(inspection.records), size, None))
    expired = tuple(sorted(snapshot.version for snapshot in inspection.sweep.expired))
    return VacuumReport(table.name, version, dry, expired, inspection.sweep.kept, tuple(swept))
