"""The metadata file of an Iceberg table (format version 2), as JSON values: which base it shows, and what the next one contains.

An Iceberg snapshot is a base. Its id follows from the table's uuid and the base's id, so an export that is repeated makes the same snapshot, and a
restore leads back to the one that there was. https://iceberg.apache.org/spec/ has the format.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.catalog import base_views
from compactor.core.iceberg.manifests import Manifest
from compactor.core.iceberg.schema import Columns, Ids, ids_of, mapping
from compactor.core.model import times
from compactor.core.model.files import LIVE, DataFile
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import compaction

MAPPING = "schema.name-mapping.default"
UUID, VERSION, PENDING = "compactor.uuid", "compactor.version", "compactor.pending"
"""Properties: the table's uuid, the version whose base and columns are shown, and a digest of what vacuum has given up by then."""
BASE, STATE_VERSION = "compactor.base", "compactor.state_version"
"""Values of a snapshot's summary: the id of the base, and the version of the table that its rows are."""
_LOG_MAX = 20
"""Earlier metadata files that one names."""


@dataclass(frozen=True)
class Exported:
    """A metadata file."""

    number: int
    """The N in v<N>.metadata.json."""
    raw: dict[str, Any]
    """Its content."""

    @property
    def ids(self) -> Ids:
        """Return the ids of all columns so far."""
        return ids_of(json.loads(self.raw["properties"][MAPPING]))

    @property
    def uuid(self) -> str:
        """Return the uuid of the table that it shows."""
        return str(self.raw["properties"].get(UUID))

    @property
    def version(self) -> int:
        """Return the version that it was made for."""
        return int(self.raw["properties"][VERSION])

    @property
    def base(self) -> str:
        """Return the id of the base that readers see."""
        return str(self.current["summary"][BASE])

    @property
    def current(self) -> dict[str, Any]:
        """Return the Iceberg snapshot that readers see."""
        return next(each for each in self.raw["snapshots"] if each["snapshot-id"] == self.raw["current-snapshot-id"])

    def snapshot_of(self, base: str) -> dict[str, Any] | None:
        """Return the Iceberg snapshot of a base, or None."""
        return next((each for each in self.raw["snapshots"] if each["summary"][BASE] == base), None)

    def shows(self, snapshot: Snapshot, columns: Columns) -> bool:
        """Return whether it has the base and the columns of a version, and nothing that vacuum has given up since."""
        schema = next(each for each in self.raw["schemas"] if each["schema-id"] == self.raw["current-schema-id"])
        return self.base == snapshot.base_id and _same(schema, columns.schema) and not self.outdated(snapshot)

    def outdated(self, snapshot: Snapshot) -> bool:
        """Return whether vacuum has given up anything since, in a version from then until `snapshot`."""
        return bool(self.raw["properties"][PENDING] != pending(snapshot))


@dataclass(frozen=True)
class Part:
    """What an export lists of a Segment."""

    segment: str
    """The id of the Segment."""
    path: str
    """Its directory below the table's root."""
    files: tuple[DataFile, ...]
    """The Parquet files with the rows that are shown, with their names in the directory."""


def parts_of(snapshot: Snapshot) -> Sequence[Part] | str:
    """Return what an export lists, or a sentence why the base cannot be shown as it is. The only place that decides this.

    It is the base files with shown rows of the last compaction: if the base is one version, and if readers of the bare files see what `<view>_ro`
    shows, so that no default takes the place of a null.
    """
    if snapshot.delta is not None and base_views.shown(snapshot).delta is not None:
        return "its Segments are of several versions until the next compaction"
    name = next((name for segment in snapshot.segments if (name := compaction.lacking_default(segment, snapshot.schema))), None)
    if name is not None:
        return f"rows from before the column {snapshot.schema.field(name).source} read its default, which the next compaction stores in them"
    # a range whose rows were all deleted has no such folder
    return [Part(segment.id, segment.path, each.files) for segment in snapshot.segments for each in segment.folders if each.state == LIVE]


def address(location: str) -> str:
    """Return a location as readers get it: with a scheme.

    >>> address("/lake/t/_iceberg"), address("s3://bucket/t")
    ('file:///lake/t/_iceberg', 's3://bucket/t')
    """
    return f"file://{location}" if location.startswith("/") else location


def pending(snapshot: Snapshot) -> str:
    """Return a digest of what vacuum has given up."""
    paths = sorted(item.path for item in snapshot.pending_deletions)
    return hashlib.sha256(json.dumps([snapshot.oldest, paths]).encode()).hexdigest()[:16]


def snapshot_id(snapshot: Snapshot) -> int:
    """Return the id of the Iceberg snapshot of a version's base: a positive long."""
    return int.from_bytes(hashlib.sha256(f"{snapshot.uuid} {snapshot.base_id}".encode()).digest()[:8], "big") >> 1


def schema_of(before: Exported | None, columns: Columns) -> dict[str, Any]:
    """Return the schema with its id: that of an equal schema which there was, else the next one."""
    schemas = before.raw["schemas"] if before else []
    same = next((each for each in schemas if _same(each, columns.schema)), None)
    return same or {**columns.schema, "schema-id": max((each["schema-id"] for each in schemas), default=-1) + 1}


def snapshot_entry(
    snapshot: Snapshot, before: Exported | None, schema_id: int, manifests: Sequence[Manifest], size: int, listed: str
) -> dict[str, Any]:
    """Return the Iceberg snapshot of a version's base. `size`: bytes of its files; `listed`: location of the manifest list."""
    counts = {name: sum(each.entry[f"added_{name}_count"] + each.entry[f"existing_{name}_count"] for each in manifests) for name in ("files", "rows")}
    version, source_time = base_views.state(snapshot)
    deletes = dict.fromkeys(("total-delete-files", "total-position-deletes", "total-equality-deletes"), "0")
    parent = {"parent-snapshot-id": before.raw["current-snapshot-id"]} if before else {}
    return {
        "snapshot-id": snapshot_id(snapshot),
        **parent,
        "sequence-number": next_sequence(before),
        "timestamp-ms": _milliseconds(snapshot.compacted_at or snapshot.time),
        "manifest-list": listed,
        "schema-id": schema_id,
        "summary": {
            "operation": "overwrite" if before else "append",
            "total-records": str(counts["rows"]),
            "total-data-files": str(counts["files"]),
            "total-files-size": str(size),
            **deletes,
            BASE: snapshot.base_id,
            STATE_VERSION: str(version),
            **({"compactor.source_time": source_time} if source_time else {}),
        },
    }


def next_sequence(before: Exported | None) -> int:
    """Return the sequence number of a new snapshot."""
    return int(before.raw["last-sequence-number"]) + 1 if before else 1


def following(
    before: Exported | None, snapshot: Snapshot, columns: Columns, entry: dict[str, Any], bases: Collection[str], location: str, now: str
) -> Exported:
    """Return the next metadata file: `entry` is the Iceberg snapshot that readers see, and the others are those of `bases` that there were.

    `location`: the table's, as readers get it; `now`: ISO 8601.
    """
    old: dict[str, Any] = before.raw if before else {"schemas": [], "snapshots": [], "snapshot-log": [], "metadata-log": []}
    schema = schema_of(before, columns)
    others = [each for each in old["snapshots"] if each["snapshot-id"] != entry["snapshot-id"] and each["summary"][BASE] in bases]
    snapshots = sorted([*others, entry], key=lambda each: int(each["sequence-number"]))
    listed = {each["snapshot-id"] for each in snapshots}
    moment = max(_milliseconds(now), int(old.get("last-updated-ms", 0)))
    log = [each for each in old["snapshot-log"] if each["snapshot-id"] in listed]
    if not log or log[-1]["snapshot-id"] != entry["snapshot-id"]:
        log.append({"snapshot-id": entry["snapshot-id"], "timestamp-ms": moment})
    raw = {
        "format-version": 2,
        "table-uuid": _uuid(f"{snapshot.uuid} {location}"),
        "location": location,
        "last-sequence-number": max(int(old.get("last-sequence-number", 0)), entry["sequence-number"]),
        "last-updated-ms": moment,
        "last-column-id": len(columns.ids),
        "schemas": [*(each for each in old["schemas"] if each["schema-id"] != schema["schema-id"]), schema],
        "current-schema-id": schema["schema-id"],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            # engines must delete no file: vacuum does
            "gc.enabled": "false",
            MAPPING: json.dumps(mapping(columns.ids), ensure_ascii=False),
            UUID: snapshot.uuid,
            VERSION: str(snapshot.version),
            PENDING: pending(snapshot),
        },
        "current-snapshot-id": entry["snapshot-id"],
        "refs": {"main": {"snapshot-id": entry["snapshot-id"], "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": log,
        "metadata-log": old["metadata-log"],
        "statistics": [],
    }
    return Exported(before.number + 1 if before else 1, raw)


def logged(made: Exported, before: Exported | None, path: str) -> Exported:
    """Return the file with `before`, which is at `path`, in its log."""
    if before is None:
        return made
    log = [*made.raw["metadata-log"], {"timestamp-ms": before.raw["last-updated-ms"], "metadata-file": path}]
    return dataclasses.replace(made, raw={**made.raw, "metadata-log": log[-_LOG_MAX:]})


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "schema-id": 0} == {**other, "schema-id": 0}


def _uuid(text: str) -> str:
    digits = hashlib.sha256(text.encode()).hexdigest()
    # those of version 4, variant 1
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _milliseconds(text: str) -> int:
    return int(times.to_seconds(text) * 1000)
