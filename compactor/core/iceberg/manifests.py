"""Manifests: Avro files that list data files, and the manifest list of an Iceberg snapshot.

A manifest holds whole Segments. The header of a list names the Segments of each manifest, so an export knows without reading them which manifests
it can use again: those whose Segments are all still there. Names contain a hash of the content: an export that is repeated writes the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.formats import avro
from compactor.core.formats.parquet import Footer
from compactor.core.iceberg.schema import Ids

FILES_MAX = 200
"""Files in a manifest, at which the next one begins: a compaction writes every manifest of a replaced Segment anew."""
FILES_MIN = 50
"""Files of a manifest below which its entries move into a new manifest, when one is written."""
SEGMENTS = "compactor.segments"
"""The header of a manifest list with the ids of the Segments of each manifest."""
_ADDED, _EXISTING = 1, 0


@dataclass(frozen=True)
class Manifest:
    """A manifest in a list."""

    entry: dict[str, Any]
    """Its record in the list."""
    segments: tuple[str, ...]

    @property
    def path(self) -> str:
        """Return its location, as readers get it."""
        return str(self.entry["manifest_path"])

    @property
    def files(self) -> int:
        return int(self.entry["added_files_count"] + self.entry["existing_files_count"])

    @property
    def rows(self) -> int:
        """Return the number of its rows; of deletion vectors, that of the rows that they hide."""
        return int(self.entry["added_rows_count"] + self.entry["existing_rows_count"])

    @property
    def hides(self) -> bool:
        return bool(self.entry["content"])


@dataclass(frozen=True)
class Entries:
    """A Segment in a manifest."""

    segment: str
    files: list[dict[str, Any]]
    """The records of its files."""


def _field(number: int, name: str, kind: Any, optional: bool = False) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind] if optional else kind, "field-id": number, **({"default": None} if optional else {})}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    pair = _record(f"k{key}_v{value}", _field(key, "key", "int"), _field(value, "value", kind))
    return {"type": "array", "items": pair, "logicalType": "map"}


_FILE = _record(
    "r2",
    _field(134, "content", "int"),
    _field(100, "file_path", "string"),
    _field(101, "file_format", "string"),
    _field(102, "partition", _record("r102")),
    _field(103, "record_count", "long"),
    _field(104, "file_size_in_bytes", "long"),
    _field(109, "value_counts", _map(119, 120, "long"), True),
    _field(110, "null_value_counts", _map(121, 122, "long"), True),
    _field(125, "lower_bounds", _map(126, 127, "bytes"), True),
    _field(128, "upper_bounds", _map(129, 130, "bytes"), True),
    _field(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}, True),
)
_ADDED_IN_3 = (
    _field(142, "first_row_id", "long", True),
    _field(143, "referenced_data_file", "string", True),
    _field(144, "content_offset", "long", True),
    _field(145, "content_size_in_bytes", "long", True),
)


def _entry(file: dict[str, Any]) -> dict[str, Any]:
    return _record(
        "manifest_entry",
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", True),
        _field(3, "sequence_number", "long", True),
        _field(4, "file_sequence_number", "long", True),
        _field(2, "data_file", file),
    )


_ENTRY = {2: _entry(_FILE), 3: _entry(_record("r2", *_FILE["fields"], *_ADDED_IN_3))}
"""Format version → the schema of a manifest."""
_IN_LIST = _record(
    "manifest_file",
    _field(500, "manifest_path", "string"),
    _field(501, "manifest_length", "long"),
    _field(502, "partition_spec_id", "int"),
    _field(517, "content", "int"),
    _field(515, "sequence_number", "long"),
    _field(516, "min_sequence_number", "long"),
    _field(503, "added_snapshot_id", "long"),
    *(_field(504 + at, f"{name}_files_count", "int") for at, name in enumerate(("added", "existing", "deleted"))),
    *(_field(512 + at, f"{name}_rows_count", "long") for at, name in enumerate(("added", "existing", "deleted"))),
)
_LIST = {2: _IN_LIST, 3: _record("manifest_file", *_IN_LIST["fields"], _field(520, "first_row_id", "long", True))}
"""Format version → the schema of a manifest list."""


def data_file(location: str, size: int, footer: Footer, ids: Ids) -> dict[str, Any]:
    """Return the record of a file of a Segment. `location`: as readers get it; `size`: bytes."""
    columns = [(ids[path], stats) for path, stats in footer.columns.items()]
    return {
        "content": 0,
        "file_path": location,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": footer.rows,
        "file_size_in_bytes": size,
        "value_counts": [{"key": at, "value": stats.values} for at, stats in columns],
        "null_value_counts": [{"key": at, "value": stats.nulls} for at, stats in columns if stats.nulls is not None],
        "lower_bounds": [{"key": at, "value": stats.low} for at, stats in columns if stats.low is not None],
        "upper_bounds": [{"key": at, "value": stats.high} for at, stats in columns if stats.high is not None],
        "split_offsets": [*footer.splits],
        **dict.fromkeys(("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")),
    }


def digest(content: bytes) -> str:
    """Return the part of a name that follows from the content."""
    return hashlib.sha256(content).hexdigest()[:32]


def reusable(before: Sequence[Manifest], segments: Iterable[str]) -> list[Manifest]:
    """Return the manifests of an earlier list that a list of these Segments can name too; all of them if together they list every Segment."""
    live = {*segments}
    whole = [each for each in before if each.segments and live.issuperset(each.segments)]
    if live == {segment for each in whole for segment in each.segments}:
        return whole
    return [each for each in whole if each.files >= FILES_MIN]


def existing(data: bytes, of: Manifest, segments: Mapping[str, str]) -> list[Entries]:
    """Return the entries of a manifest that is not used again, for the Segments that stay.

    `segments`: address of a directory with files → the id of its Segment.
    """
    entries: dict[str, list[dict[str, Any]]] = {}
    row_id = of.entry.get("first_row_id")
    for entry in avro.read(data)[1]:
        if row_id is not None and entry["data_file"]["first_row_id"] is None:
            # as readers number the rows of the manifest
            entry["data_file"]["first_row_id"] = row_id
            row_id += entry["data_file"]["record_count"]
        segment = segments.get(entry["data_file"]["file_path"].rpartition("/")[0])
        if segment is not None:
            # what was added by the snapshot of the manifest takes its numbers from there
            names = ("sequence_number", "file_sequence_number")
            numbers = {name: of.entry["sequence_number"] if entry[name] is None else entry[name] for name in names}
            entries.setdefault(segment, []).append({**entry, **numbers, "status": _EXISTING})
    return [Entries(segment, files) for segment, files in entries.items()]


def added(segment: str, files: Iterable[dict[str, Any]], snapshot: int) -> Entries:
    """Return the entries of a new Segment. `files`: what `data_file` returned; `snapshot`: the id of the Iceberg snapshot."""
    numbers = {"sequence_number": None, "file_sequence_number": None}
    return Entries(segment, [{"status": _ADDED, "snapshot_id": snapshot, **numbers, "data_file": file} for file in files])


def written(
    entries: Sequence[Entries], folder: str, schema: dict[str, Any], snapshot: int, sequence: int, uuid: str, row_id: int | None = None
) -> Iterator[tuple[Manifest, str, bytes]]:
    """Yield the new manifests with these entries: each with its name below `folder`, as readers get it, and its content.

    `row_id`: where the ids of rows begin; None in version 2, which has none.
    """
    chunk: list[Entries] = []
    for at, each in enumerate(entries):
        chunk.append(each)
        if at == len(entries) - 1 or sum(len(part.files) for part in chunk) >= FILES_MAX:
            made = _manifest(chunk, folder, schema, snapshot, sequence, uuid, row_id)
            row_id = None if row_id is None else row_id + made[0].rows
            yield made
            chunk = []


def vectors(
    files: Sequence[dict[str, Any]], folder: str, schema: dict[str, Any], snapshot: int, sequence: int, uuid: str
) -> tuple[Manifest, str, bytes]:
    """Return the manifest of deletion vectors, as `written` does. `files`: their records."""
    made, name, content = _manifest([added("", files, snapshot)], folder, schema, snapshot, sequence, uuid, 0)
    return Manifest({**made.entry, "first_row_id": None}, ()), name, content


def _manifest(
    chunk: Sequence[Entries], folder: str, schema: dict[str, Any], snapshot: int, sequence: int, uuid: str, row_id: int | None
) -> tuple[Manifest, str, bytes]:
    files, version = [file for part in chunk for file in part.files], 2 if row_id is None else 3
    kind = files[0]["data_file"]["content"]
    header = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": "deletes" if kind else "data",
        "compactor.uuid": uuid,
    }
    content = avro.write(_ENTRY[version], files, header)
    name = f"{digest(content)}-m0.avro"
    counts = {status: [file["data_file"]["record_count"] for file in files if file["status"] == status] for status in (_ADDED, _EXISTING)}
    entry = {
        "manifest_path": f"{folder}/{name}",
        "manifest_length": len(content),
        "partition_spec_id": 0,
        "content": kind,
        "sequence_number": sequence,
        "min_sequence_number": min(file["sequence_number"] or sequence for file in files),
        "added_snapshot_id": snapshot,
        "added_files_count": len(counts[_ADDED]),
        "existing_files_count": len(counts[_EXISTING]),
        "deleted_files_count": 0,
        "added_rows_count": sum(counts[_ADDED]),
        "existing_rows_count": sum(counts[_EXISTING]),
        "deleted_rows_count": 0,
        **({} if row_id is None else {"first_row_id": row_id}),
    }
    return Manifest(entry, tuple(part.segment for part in chunk)), name, content


def list_file(manifests: Sequence[Manifest], snapshot: int, parent: int | None, sequence: int, version: int) -> bytes:
    """Return the manifest list of an Iceberg snapshot. `version`: of the format."""
    header = {
        "snapshot-id": str(snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": str(version),
        SEGMENTS: json.dumps([each.segments for each in manifests]),
    }
    return avro.write(_LIST[version], [each.entry for each in manifests], header)


def read_list(data: bytes) -> list[Manifest]:
    """Return the manifests of a list that `list_file` made."""
    header, entries = avro.read(data)
    return [Manifest(entry, tuple(segments)) for entry, segments in zip(entries, json.loads(header[SEGMENTS]))]
