"""The Parquet files of a version, for other tools."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec


@dataclass(frozen=True)
class TableFile:
    part: str
    """`base`, `delta`, `history`, or `changes` (of this version only)."""
    location: str
    """Path or URI."""
    size: int
    """Bytes."""


def table_files(spec: TableSpec, snapshot: Snapshot) -> list[TableFile]:
    """Return the files that a version reads.

    A Delta row replaces the base row with its key, and the keys in files below `row_state=deleted` are deleted. So the base alone is the table only
    if there is no Delta.
    """
    layout = spec.layout
    listed = [("base", segment.path, file.name, file.size) for segment in snapshot.segments for file in segment.files]
    listed += [("delta", snapshot.delta.path, file.name, file.size) for file in snapshot.delta.files] if snapshot.delta else []
    history = snapshot.history.parts if snapshot.history else ()
    listed += [("history", part.path, file.name, file.size) for part in history for file in part.files]
    changes = snapshot.feed.part if snapshot.feed else None
    listed += [("changes", changes.path, file.name, file.size) for file in changes.files] if changes else []
    return [TableFile(part, layout.inside(f"{path}/{name}"), size) for part, path, name, size in listed]
