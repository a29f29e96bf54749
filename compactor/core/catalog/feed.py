"""The change feed: from where to where it can be read, how long its parts stay, and the tables that show it. Pure.

Every Snapshot names the part with its own changes and no other's: readers of (V, W] go through the Snapshots V+1 to W, whose names are
predictable, and Snapshots do not grow with the feed. Stubs of expired Snapshots keep their part's name (docs/design/feed.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from compactor.core.catalog import views
from compactor.core.catalog.ddl import Column, PartitionDef, TableDef
from compactor.core.model.errors import Refused
from compactor.core.model.layout import Layout
from compactor.core.model.schema import FEED, Schema
from compactor.core.model.snapshot import Feed, Snapshot
from compactor.core.model.spec import TableSpec

OFF, NET, ALL = "off", "net", "all"

INSERT, BEFORE, AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"
"""Values of `_change_type`."""

APPLIED = "applied"
"""`_outcome` of the rows that make the next version out of the last; they alone have `_applied` = true."""

TABLE = "changes"
"""`student_changes`, `student_changes_g2`: what comes after the table's name."""

VERSION = "feed_version"
"""The partition column: `v00000042-1a2b3c4d`, the commit id of version 42; sorts like the versions."""


def continued(spec: TableSpec, parent: Snapshot | None) -> Feed | None:
    """The feed of the next version that changes rows, without its part. None for a table that never had one.

    It begins again where rows of before cannot be compared with rows of after: when it was off, when `delete: soft` came or went.
    """
    before = parent.feed if parent else None
    version = parent.version if parent else 0
    if spec.feed == OFF:
        return dataclasses.replace(before, mode=OFF, part=None) if before else None
    if before is None:
        return Feed(spec.feed, version, version, spec.soft)
    goes_on = before.mode != OFF and before.soft == spec.soft
    return Feed(spec.feed, before.began if goes_on else version, before.kept, spec.soft)


def check_names(table: str, schema: Schema) -> None:
    """Raises Refused for a stored column that has the name of one of the feed's own: it came before these names were reserved."""
    taken = sorted({*schema.names} & {*FEED})
    if taken:
        raise Refused(
            f"table {table}: the column {taken[0]} has the name of one of the change feed's own columns. Say `change_feed: false`, or load the "
            f"table anew: then it is stored as {taken[0]}_2."
        )


def check_start(spec: TableSpec, newest: Snapshot, version: int) -> None:
    """Raises Refused, saying from when on the feed can be read, when that is not from `version` on."""
    feed = newest.feed
    if feed is None or feed.mode == OFF:
        how = "say `change_feed: true`; it begins with the next run" if spec.feed == OFF else "it begins with the next run that finds changes"
        raise Refused(f"table {spec.name}: version {newest.version} has no change feed; {how}")
    if version > newest.version:
        raise Refused(f"table {spec.name}: expected a version up to {newest.version}, the newest, found {version}")
    if version >= feed.first:
        return
    if version < feed.began:
        since = f"the change feed begins at version {feed.began}: it was switched on then" + ("" if feed.began >= feed.kept else ", and")
    else:
        since = "older changes are past `feed_retention`:"
    kept = f" it can be read from version {feed.first} on" if feed.began < feed.kept else ""
    raise Refused(
        f"table {spec.name}: the changes from version {version} on are not there; {since}{kept}. Copy the view at version {feed.first} or later, "
        "and go on from there."
    )


def given_up(spec: TableSpec, newest: Snapshot, modified: Mapping[int, float], now: float) -> int:
    """The newest version whose part of the feed, and all before it, may go: older than `feed_retention`, or from before the feed began.

    `modified`: when each Snapshot was written, epoch seconds of the store's clock, as `now`.
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
    """`<table>_changes` as this Snapshot's columns are; a type change brings one of a new generation (H14)."""
    own = (
        Column("_change_type", "string", "insert, update_preimage, update_postimage or delete"),
        Column("_commit_version", "bigint", "the version that this row is a change of"),
        Column("_commit_timestamp", "timestamp", "when that version was committed"),
        Column("_applied", "boolean", "false for events that changed nothing (feed: all)"),
        Column("_outcome", "string", "applied, or of events: superseded, late or unchanged"),
        Column("_deleted", "boolean", "whether the source has deleted the row (delete: soft)"),
        Column("_position", views.position_type(snapshot.order), "place in the source's order"),
    )
    return TableDef(
        spec.tables_in,
        views.table_name(spec, TABLE, snapshot.schema.generation),
        (*own, *views.columns(snapshot.schema)),
        (Column(VERSION, "string"),),
        Layout(spec.root, spec.landing).inside("feed"),
        {views.UUID: snapshot.uuid, **views.registered(snapshot.schema)},
        comment=f"compactor: changes of {spec.database}.{spec.view}, version by version",
    )


def partition(spec: TableSpec, snapshot: Snapshot) -> PartitionDef | None:
    """What shows this Snapshot's own changes, with statistics; None when it has none."""
    part = snapshot.feed.part if snapshot.feed else None
    if part is None:
        return None
    place = Layout(spec.root, spec.landing).inside(part.path)
    return PartitionDef((snapshot.writer,), place, part.rows, part.size, len(part.files))


def registrations(spec: TableSpec, found: Iterable[Snapshot]) -> list[tuple[TableDef, list[PartitionDef]]]:
    """Tables with their new partitions, for Snapshots in the order of their versions: each table with its generation's last columns."""
    tables: dict[str, tuple[TableDef, list[PartitionDef]]] = {}
    for snapshot in found:
        if snapshot.feed is not None and snapshot.feed.mode != OFF:
            definition, wanted = table(spec, snapshot), partition(spec, snapshot)
            known = tables.get(definition.name, (definition, []))[1]
            tables[definition.name] = (definition, [*known, *([wanted] if wanted else [])])
    return list(tables.values())


def paths(found: Sequence[Snapshot], after: int) -> frozenset[str]:
    """Paths of the parts of versions above `after`."""
    return frozenset(snapshot.feed.part.path for snapshot in found if snapshot.feed and snapshot.feed.part and snapshot.version > after)
