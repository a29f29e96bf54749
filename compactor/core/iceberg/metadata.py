"""The metadata file of an Iceberg table, as JSON values: which rows it shows, and what the next one contains.

The form `base` (format version 2) shows the base, and an Iceberg snapshot is a base. `current` (version 3) shows base and Delta; deletion vectors
hide the base rows with a key of the Delta, as the view does. The id of a snapshot follows from the table's uuid and these, so an export that is
repeated makes the same snapshot, and a restore leads back to the one that there was. https://iceberg.apache.org/spec/ has the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.catalog import base_views
from compactor.core.iceberg.manifests import Manifest
from compactor.core.iceberg.schema import Columns, Ids, ids_of, mapping
from compactor.core.model import times
from compactor.core.model.files import LIVE, DataFile, Delta, Segment
from compactor.core.model.layout import Layout
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import compaction

MAPPING = "schema.name-mapping.default"
UUID, VERSION, PENDING = "compactor.uuid", "compactor.version", "compactor.pending"
"""Properties: the table's uuid, the version whose base and columns are shown, and a digest of what vacuum has given up by then."""
BASE, STATE_VERSION = "compactor.base", "compactor.state_version"
"""Values of a snapshot's summary: what `state_id` returns, and the version of the table that its rows are."""
VECTORS = "compactor.vectors"
"""Value of a snapshot's summary: the location of its Puffin file."""
FORMATS = {"base": 2, "current": 3}
_LOG_MAX = 20
"""Earlier metadata files that one names."""


@dataclass(frozen=True)
class Exported:
    """A metadata file."""

    number: int
    """The N in v<N>.metadata.json."""
    raw: dict[str, Any]

    @property
    def ids(self) -> Ids:
        """Return the ids of all columns so far."""
        return ids_of(json.loads(self.raw["properties"][MAPPING]))

    @property
    def uuid(self) -> str:
        return str(self.raw["properties"].get(UUID))

    @property
    def version(self) -> int:
        """Return the version that it was made for."""
        return int(self.raw["properties"][VERSION])

    @property
    def base(self) -> str:
        """Return the `state_id` of what readers see."""
        return str(self.current["summary"][BASE])

    @property
    def current(self) -> dict[str, Any]:
        return next(each for each in self.raw["snapshots"] if each["snapshot-id"] == self.raw["current-snapshot-id"])

    @property
    def schema(self) -> dict[str, Any]:
        return next(each for each in self.raw["schemas"] if each["schema-id"] == self.raw["current-schema-id"])

    def snapshot_of(self, base: str) -> dict[str, Any] | None:
        """Return the Iceberg snapshot with this `state_id`, or None."""
        return next((each for each in self.raw["snapshots"] if each["summary"][BASE] == base), None)

    def shows(self, snapshot: Snapshot, form: str, columns: Columns) -> bool:
        """Return whether it has the rows and the columns of a version, and nothing that vacuum has given up since."""
        return self.base == state_id(snapshot, form) and _same(self.schema, columns.schema) and not self.outdated(snapshot)

    def outdated(self, snapshot: Snapshot) -> bool:
        """Return whether vacuum has given up anything since, in a version from then until `snapshot`."""
        return bool(self.raw["properties"][PENDING] != pending(snapshot))


@dataclass(frozen=True)
class Part:
    """What an export lists of a Segment or a Delta."""

    segment: str
    path: str
    files: tuple[DataFile, ...]
    """The Parquet files with the rows that are shown, with their names in the directory."""


def state_id(snapshot: Snapshot, form: str) -> str:
    """Return what identifies the files that an export lists."""
    return f"{snapshot.base_id} {snapshot.delta.id}" if form == "current" and snapshot.delta else snapshot.base_id


def parts_of(snapshot: Snapshot, form: str) -> Sequence[Part] | str:
    """Return what an export lists, or a sentence why the rows cannot be shown as they are. The only place that decides this.

    For `base` it is the base files with shown rows of the last compaction, if the base is one version; for `current` those of the Delta too. Readers
    of the bare files must see what the views show, so that no default takes the place of a null.
    """
    if form == "base" and snapshot.delta is not None and base_views.shown(snapshot).delta is not None:
        return "its Segments are of several versions until the next compaction"
    shown: list[Segment | Delta] = [*snapshot.segments, *([snapshot.delta] if form == "current" and snapshot.delta else [])]
    name = next((name for part in shown if (name := compaction.lacking_default(part, snapshot.schema))), None)
    if name is not None:
        return f"rows from before the column {snapshot.schema.field(name).source} read its default, which the next compaction stores in them"
    # a range whose rows were all deleted has no such folder
    return [Part(part.id, part.path, each.files) for part in shown for each in part.folders if each.state == LIVE]


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


def snapshot_id(snapshot: Snapshot, form: str) -> int:
    """Return the id of the Iceberg snapshot of a version: a positive long."""
    return int.from_bytes(hashlib.sha256(f"{snapshot.uuid} {state_id(snapshot, form)}".encode()).digest()[:8], "big") >> 1


def schema_of(before: Exported | None, columns: Columns) -> dict[str, Any]:
    """Return the schema with its id: that of an equal schema which there was, else the next one."""
    schemas = before.raw["schemas"] if before else []
    same = next((each for each in schemas if _same(each, columns.schema)), None)
    return same or {**columns.schema, "schema-id": max((each["schema-id"] for each in schemas), default=-1) + 1}


def snapshot_entry(
    snapshot: Snapshot, form: str, before: Exported | None, schema_id: int, manifests: Sequence[Manifest], size: int, listed: str, row_ids: int
) -> dict[str, Any]:
    """Return the Iceberg snapshot of a version.

    `size`: bytes of its files; `listed`: location of the manifest list; `row_ids`: the number of ids that new manifests take.
    """
    data, hiding = [each for each in manifests if not each.hides], [each for each in manifests if each.hides]
    version, source_time = base_views.state(snapshot) if form == "base" else (snapshot.version, snapshot.source_time)
    hidden = {"total-delete-files": sum(each.files for each in hiding), "total-position-deletes": sum(each.rows for each in hiding)}
    ids = {"first-row-id": next_row_id(before), "added-rows": row_ids} if FORMATS[form] == 3 else {}
    parent = {"parent-snapshot-id": before.raw["current-snapshot-id"]} if before else {}
    return {
        "snapshot-id": snapshot_id(snapshot, form),
        **parent,
        **ids,
        "sequence-number": next_sequence(before),
        "timestamp-ms": _milliseconds(snapshot.compacted_at or snapshot.time) if form == "base" else _milliseconds(snapshot.time),
        "manifest-list": listed,
        "schema-id": schema_id,
        "summary": {
            "operation": "overwrite" if before else "append",
            "total-records": str(sum(each.rows for each in data)),
            "total-data-files": str(sum(each.files for each in data)),
            "total-files-size": str(size),
            **{name: str(count) for name, count in hidden.items()},
            "total-equality-deletes": "0",
            BASE: state_id(snapshot, form),
            STATE_VERSION: str(version),
            **({"compactor.source_time": source_time} if source_time else {}),
        },
    }


def next_sequence(before: Exported | None) -> int:
    return int(before.raw["last-sequence-number"]) + 1 if before else 1


def next_row_id(before: Exported | None) -> int:
    """Return the id of the next row; ids are used once."""
    return int(before.raw.get("next-row-id", 0)) if before else 0


def following(
    before: Exported | None, snapshot: Snapshot, form: str, columns: Columns, entry: dict[str, Any], bases: Collection[str], layout: Layout, now: str
) -> Exported:
    """Return the next metadata file: `entry` is the Iceberg snapshot that readers see, and the others are those of `bases` that there were.

    `now`: ISO 8601.
    """
    location = address(layout.iceberg(form))
    old: dict[str, Any] = before.raw if before else {"schemas": [], "snapshots": [], "snapshot-log": [], "metadata-log": []}
    schema = schema_of(before, columns)
    others = [each for each in old["snapshots"] if each["snapshot-id"] != entry["snapshot-id"] and each["summary"][BASE] in bases]
    snapshots = sorted([*others, entry], key=lambda each: int(each["sequence-number"]))
    listed = {each["snapshot-id"] for each in snapshots}
    moment = max(_milliseconds(now), int(old.get("last-updated-ms", 0)))
    log = [each for each in old["snapshot-log"] if each["snapshot-id"] in listed]
    if not log or log[-1]["snapshot-id"] != entry["snapshot-id"]:
        log.append({"snapshot-id": entry["snapshot-id"], "timestamp-ms": moment})
    files = [*old["metadata-log"]]
    if before:
        files.append({"timestamp-ms": old["last-updated-ms"], "metadata-file": address(layout.iceberg_metadata(form, before.number))})
    raw = {
        "format-version": FORMATS[form],
        **({"next-row-id": max(next_row_id(before), entry["first-row-id"] + entry["added-rows"])} if FORMATS[form] == 3 else {}),
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
        "metadata-log": files[-_LOG_MAX:],
        "statistics": [],
    }
    return Exported(before.number + 1 if before else 1, raw)


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {**one, "schema-id": 0} == {**other, "schema-id": 0}


def _uuid(text: str) -> str:
    digits = hashlib.sha256(text.encode()).hexdigest()
    # those of version 4, variant 1
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _milliseconds(text: str) -> int:
    return int(times.to_seconds(text) * 1000)
