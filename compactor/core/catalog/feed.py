"""The change feed: which versions it covers, how long its parts stay, and the catalog tables over it (docs/design/history.md#the-change-feed).

Each Snapshot names only the part with its own changes, so that Snapshots do not grow with the feed. Readers of the versions (V, W] read the Snapshots
V+1 to W, whose names are predictable. The stub of an expired Snapshot still names its part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef
from compactor.core.model import position
from compactor.core.model.errors import Refused
from compactor.core.model.schema import FEED, Schema
from compactor.core.model.snapshot import Feed, Snapshot
from compactor.core.model.spec import TableSpec

OFF, NET = "off", "net"

INSERT, BEFORE, AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"
"""Values of `_change_type`."""

TABLE = "changes"
"""Suffix of the catalog table: `student_changes`, `student_changes_g2`."""

VERSION = "feed_version"
"""The partition column. Its value is the commit id, such as `v00000042-1a2b3c4d` for version 42, and sorts as versions do."""


def continued(spec: TableSpec, parent: Snapshot | None) -> Feed | None:
    """Return the feed of the next version that changes rows, without its part; None for a table that never had a feed."""
    before = parent.feed if parent else None
    version = parent.version if parent else 0
    if spec.feed == OFF:
        return dataclasses.replace(before, mode=OFF, part=None) if before else None
    if before is None:
        return Feed(spec.feed, version, version, spec.soft)
    return Feed(spec.feed, version if before.mode == OFF else before.began, before.kept, spec.soft)


def begun_anew(before: Feed | None, version: int) -> Feed | None:
    """Return the feed of a version from which on it begins anew, without a part: every older part is given up."""
    return dataclasses.replace(before, began=version, part=None) if before else None


def check_names(table: str, schema: Schema) -> None:
    """Raise Refused if a stored column has the name of one of the feed's columns. It was stored before these names were reserved."""
    taken = sorted({*schema.names} & {*FEED})
    if taken:
        raise Refused(
            f"table {table}: the column {taken[0]} has the name of a column of the change feed. Set `change_feed: false`, or load the table again: "
            f"then the column is stored as {taken[0]}_2."
        )


def check_start(spec: TableSpec, newest: Snapshot, version: int) -> None:
    """Raise Refused if the feed cannot be read from `version` on. The message has the first possible version."""
    feed = newest.feed
    if feed is None or feed.mode == OFF:
        how = "set `change_feed: true`; the feed begins with the next run" if spec.feed == OFF else "it begins with the next run that has changes"
        raise Refused(f"table {spec.name}: version {newest.version} has no change feed; {how}")
    if version > newest.version:
        raise Refused(f"table {spec.name}: expected a version up to {newest.version}, which readers see, found {version}")
    if version >= feed.first:
        return
    if version < feed.began:
        since = f"the change feed begins at version {feed.began}" + ("" if feed.began >= feed.kept else ", and")
    else:
        since = "older changes are past `keep`:"
    kept = f" it can be read from version {feed.first} on" if feed.began < feed.kept else ""
    raise Refused(
        f"table {spec.name}: the changes from version {version} on are not available; {since}{kept}. Copy the view at version {feed.first} or later, "
        "and read the changes from there."
    )


def given_up(spec: TableSpec, newest: Snapshot, modified: Mapping[int, float], now: float) -> int:
    """Return the newest version whose feed part, and all before it, may be deleted: older than `keep`, or from before the feed began.

    `modified`: when each Snapshot was written. Times are epoch seconds of the store's clock.
    """
    feed = newest.feed
    if feed is None:
        return 0
    if feed.mode == OFF:
        return newest.version
    kept = feed.first
    while kept < newest.version and now - modified[kept + 1] >= spec.feed_retention:
        kept += 1
    return kept


def table(spec: TableSpec, snapshot: Snapshot) -> TableDef:
    """Return the table `<table>_changes` with this Snapshot's columns. A type change begins a table of a new generation."""
    own = (
        Column("_change_type", "string", "insert, update_preimage, update_postimage or delete"),
        Column("_commit_version", "bigint", "the version that made this change"),
        Column("_commit_timestamp", "timestamp", "when the version was committed"),
        Column("_deleted", "boolean", "whether the source has deleted the row (delete: soft)"),
        Column("_position", position.ddl(snapshot.order), "place in the source's order"),
    )
    return TableDef(
        spec.tables_in,
        views.table_name(spec, TABLE, snapshot.schema.generation),
        (*own, *views.columns(snapshot.schema)),
        (Column(VERSION, "string"),),
        spec.layout.inside("feed"),
        {views.UUID: snapshot.uuid, **views.registered(snapshot.schema)},
        comment=f"compactor: changes of {spec.database}.{spec.view}, version by version",
    )


def partition(spec: TableSpec, snapshot: Snapshot) -> PartitionDef | None:
    """Return the partition with this Snapshot's changes, with statistics; None without any."""
    part = snapshot.feed.part if snapshot.feed else None
    if part is None:
        return None
    place = spec.layout.inside(part.path)
    return PartitionDef((snapshot.writer,), place, part.rows, part.size, len(part.files))


def registrations(spec: TableSpec, snapshots: Iterable[Snapshot]) -> list[tuple[TableDef, list[PartitionDef]]]:
    """Return the tables with their new partitions. `snapshots`: in the order of versions. Each table has its generation's newest columns."""
    tables: dict[str, tuple[TableDef, list[PartitionDef]]] = {}
    for snapshot in snapshots:
        if snapshot.feed is not None and snapshot.feed.mode != OFF:
            definition, added = table(spec, snapshot), partition(spec, snapshot)
            earlier = tables.get(definition.name, (definition, []))[1]
            tables[definition.name] = (definition, [*earlier, *([added] if added else [])])
    return list(tables.values())


def paths(snapshots: Sequence[Snapshot], after: int) -> frozenset[str]:
    """Return the paths of the feed parts of versions above `after`."""
    return frozenset(snapshot.feed.part.path for snapshot in snapshots if snapshot.feed and snapshot.feed.part and snapshot.version > after)
