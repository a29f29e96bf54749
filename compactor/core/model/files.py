"""Files: stored objects as a Storage lists them, and the directories of Parquet files that a Snapshot names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compactor.core.model.position import Position, Span


@dataclass(frozen=True)
class FileInfo:
    path: str
    """Full location: a path or a URI."""
    size: int
    etag: str
    modified: float
    """When it was written, in epoch seconds of the store's clock."""
    problem: str = ""
    """Why nobody may read it under this path, as `is a symbolic link`; "" for all others. Only listings show such objects."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a Segment, a Delta, a feed part or a part of the history."""

    name: str
    """Path inside its directory. Segments and Deltas have a folder for each state of rows: `row_state=live/part-0.parquet`."""
    size: int
    checksum: str = ""
    """Checksum of the content, as in `core/formats/checksum.py`; "" if none was taken."""


ROW_STATE = "row_state"
"""The partition column of Segments and Deltas, and the name of their folders: `row_state=live`."""

LIVE, DELETED = "live", "deleted"
"""Its values: rows that are shown, and tombstones."""


class Directory:
    """A directory with files."""

    path: str
    """Below the table's root."""
    files: tuple[DataFile, ...]
    """The Parquet files in it."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Folder(Directory):
    """The folder of a Segment or Delta with the rows in one state."""

    state: str
    path: str
    rows: int
    files: tuple[DataFile, ...]
    """The Parquet files, with their names in the directory of the Segment or Delta."""


class _Rows(Directory):
    """A directory with a folder for each state of rows."""

    rows: int
    """Stored rows, tombstones included."""
    tombstones: int
    """Rows that mark a deleted key."""
    position_min: Position | None
    """A Position that none of its rows is below."""
    position_max: Position | None
    """A Position that none of its rows is above."""

    @property
    def span(self) -> Span:
        """Return Positions that none of its rows is below and above."""
        return self.position_min, self.position_max

    @property
    def folders(self) -> tuple[Folder, ...]:
        """Return the folders that have files, that of the rows that are shown first."""
        made = []
        for state, rows in ((LIVE, self.rows - self.tombstones), (DELETED, self.tombstones)):
            folder = f"{ROW_STATE}={state}"
            files = tuple(file for file in self.files if file.name.startswith(f"{folder}/"))
            made += [Folder(state, f"{self.path}/{folder}", rows, files)] if files else []
        return tuple(made)


@dataclass(frozen=True)
class Segment(_Rows):
    """One directory of the base: rows with keys in `[low, high)`, sorted by key, or by `cluster_by:` and key."""

    id: str
    """The value of the partition column `segment`."""
    path: str
    rows: int
    tombstones: int
    files: tuple[DataFile, ...]
    low: tuple[Any, ...] | None
    """The least key of the range; None for an open beginning."""
    high: tuple[Any, ...] | None
    """The first key after the range; None for an open end."""
    position_min: Position | None
    position_max: Position | None
    compacted_through: int
    """The Segment contains all changes of its key range up to this version: Delta rows with `_version` at or below it are already there."""
    unavailable_columns: tuple[str, ...] = ()
    """Columns whose value comes from an older event in some row of the Segments that were written together, or is unknown there (`_own`)."""
    sorted_by: tuple[str, ...] = ()
    """The columns that each file is sorted by; () if that is not known."""
    defaults: tuple[str, ...] = ()
    """Columns whose default is stored in each row that reads it (`iceberg:`). In all others the views put it in the place of a null."""


@dataclass(frozen=True)
class Delta(_Rows):
    """One directory with one row for each key that changed since the base was written."""

    id: str
    """The value of the partition column `delta_version`."""
    path: str
    rows: int
    tombstones: int
    files: tuple[DataFile, ...]
    position_min: Position | None
    position_max: Position | None
    unavailable_columns: tuple[str, ...] = ()
    """Columns whose value comes from an older event in some row, or is unknown there (`_own`)."""
    untouched: tuple[str, ...] = ()
    """Ids of Segments that own none of its rows: readers need not compare them. A Segment that is not listed may own some."""
    defaults: tuple[str, ...] = ()
    soft: bool = False
    """Whether its tombstones have the values of the rows that they hide (`delete: soft`)."""


@dataclass(frozen=True)
class FeedPart(Directory):
    """One directory with the changes of one version, for the change feed."""

    path: str
    rows: int
    """Rows in the files. An update has two: the row before and the row after."""
    files: tuple[DataFile, ...]
    inserts: int
    updates: int
    deletes: int
