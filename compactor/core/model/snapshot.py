"""Snapshot: the complete, immutable state of a table at a version, as JSON with a format number."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from compactor.core.model.errors import StateRefused
from compactor.core.model.history import History
from compactor.core.model.position import Partitions, Position, latest
from compactor.core.model.schema import Schema

FORMAT = 1

COUNTS = ("applied", "superseded", "duplicate", "late", "ignored", "beyond_retention", "quarantined")
"""What becomes of an event read: `read` is exactly the sum of these."""


@dataclass(frozen=True)
class DataFile:
    """A file of a Segment or Delta: name inside its directory, bytes, `checksum` as in `core/model/checksum.py` ("" in Snapshots of before)."""

    name: str
    size: int
    checksum: str = ""


@dataclass(frozen=True)
class Segment:
    """One directory of sorted rows with keys in `[low, high)`; None = open end. Positions bound its rows' Positions.

    `compacted_through`: delta rows of its range with `_version` at or below it are already inside (H16). `partial`: the columns that some row
    holds from an older event, or does not know (`_older`).
    """

    id: str
    path: str
    rows: int
    tombstones: int
    files: tuple[DataFile, ...]
    low: tuple[Any, ...] | None
    high: tuple[Any, ...] | None
    position_min: Position | None
    position_max: Position | None
    compacted_through: int
    partial: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Delta:
    """One row per changed key since the base; `partial` as in `Segment`."""

    id: str
    path: str
    rows: int
    tombstones: int
    files: tuple[DataFile, ...]
    position_min: Position | None
    position_max: Position | None
    partial: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class FeedPart:
    """The directory with a version's own changes; `updates` counts pairs of images, `rows` is everything in the files."""

    path: str
    rows: int
    files: tuple[DataFile, ...]
    inserts: int
    updates: int
    deletes: int

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Feed:
    """The change feed as of a version. `part`: what this version changed, None when that is nothing.

    The changes of every version above `began` were written; the parts of those up to `kept` have been given up. `mode`: `net`, `all`, or
    `off` when it was switched off. `soft`: deleted rows are still rows, marked.
    """

    mode: str
    began: int
    kept: int
    soft: bool = False
    part: FeedPart | None = None

    @property
    def first(self) -> int:
        """The oldest version that the feed can be followed from."""
        return max(self.began, self.kept)

    def idle(self) -> Feed:
        """What it is in a next version that changes no row."""
        return dataclasses.replace(self, part=None)


@dataclass(frozen=True)
class Input:
    """One file that was taken, named by (path, etag): `path` below the landing root, `rows` read from it.

    `outcome` is `absorbed`, or `quarantined` for a file that could not be opened, for the `reason` told. Later attempts are entries of their own:
    `replayed` for a file that was in quarantine whole, `reread` for one of which some records were; `undone` when a restore took its rows out of
    the table, `redone` when they came in again; `discarded` when its raw file has left the archive. `quarantined` counts unusable records.
    """

    path: str
    size: int
    etag: str
    folder: str
    hour: str | None
    rows: int = 0
    position_min: Position | None = None
    position_max: Position | None = None
    outcome: str = "absorbed"
    quarantined: int = 0
    reason: str = ""

    def unopened(self, reason: str) -> Input:
        """What it is when this attempt could not open it."""
        return dataclasses.replace(self, outcome=self.outcome if self.outcome in LATER else "quarantined", reason=reason)

    @property
    def unabsorbed(self) -> bool:
        """Whether its rows are not in the table: no attempt up to this one got one out of it, or a restore undid it."""
        return self.outcome == "undone" or (bool(self.reason) and self.outcome in ("quarantined", "replayed", "redone"))

    @property
    def waits(self) -> bool:
        """Whether something of it is in quarantine."""
        return bool(self.reason or self.quarantined)


AGAIN = ("replayed", "reread")
"""Outcomes of inputs that were taken again out of quarantine."""

LATER = (*AGAIN, "undone", "redone", "discarded")
"""Outcomes of entries about an input whose first attempt is in the ledger too."""


@dataclass(frozen=True)
class PendingDeletion:
    """What vacuum has given up: a directory of data, a ledger file, or a Snapshot that is to become a stub; `path` below the root.

    No later Snapshot may name it (H21). `since`: epoch seconds of the store's clock. `reason`: `expired`, it was named by Snapshots that are
    kept no longer, and its files stay one grace period more; `orphan`, no Snapshot ever named it.
    """

    path: str
    since: float
    reason: str


@dataclass(frozen=True)
class Pin:
    """A version that is kept until the pin is removed; `time` of pinning, ISO 8601."""

    name: str
    version: int
    time: str


@dataclass(frozen=True)
class LedgerFile:
    """A file of older inputs; `folders` lets discovery skip it."""

    path: str
    entries: int
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Commit:
    """Which table and version a Snapshot is, and who made it from what."""

    table: str
    """The table's name in the configuration."""
    uuid: str
    """Drawn by the first commit: tells two tables that had the same name apart (H24)."""
    version: int
    """1 for the first Snapshot."""
    parent: int | None
    """The version it was made from; None for the first."""
    writer: str
    """The random id of the attempt. It decides whether a put that seemed to fail was ours (H2)."""
    run: str
    """The scheduler's label of the run; empty without one."""
    time: str
    """When it was made, ISO 8601, UTC."""
    operation: str
    """The verb: `commit`, `compact`, `restore`, ..."""


@dataclass(frozen=True)
class State:
    """The rows of a table at a version, and what the next commit needs to know about them.

    A restore brings a whole State back and a rebuild makes a new one. Everything else in a Snapshot is bookkeeping and stays with the newest version.
    """

    schema: Schema
    """The stored columns."""
    order: tuple[tuple[str, str], ...]
    """The Position columns: (name, type)."""
    base_id: str
    """The partition value under which the Segments are registered."""
    segments: tuple[Segment, ...]
    """The base. The key ranges tile the key space."""
    delta: Delta | None
    """The changes since the base; None without any."""
    hour: str | None = None
    """The newest landing hour ingested."""
    position: Position | None = None
    """The greatest Position ingested."""
    source_time: str | None = None
    """The newest source time ingested, ISO 8601."""
    truncated_to: Position | None = None
    """The truncate barrier: rows at or below it are gone (H11)."""
    purged_to: Position | None = None
    """The greatest Position of a purged tombstone (H12)."""
    epoch: int = 0
    """The first member of every new Position (H6)."""
    compacted_at: str | None = None
    """When the base was last written, ISO 8601."""
    raw: tuple[tuple[str, str], ...] = ()
    """The columns of the landed files (name, Hive type), for `<table>_incremental`."""
    offsets: Partitions = ()
    """The greatest Kafka offset per partition, where offsets come first in the order (H6)."""
    publish: str = "yes"
    """`yes`, or why the version must not be published (H18)."""
    history: History | None = None
    """The parts that hold row versions; None without `history:`."""

    @property
    def data_files(self) -> list[tuple[str, DataFile]]:
        """Every file of base, Delta and history, with the directory below the root that it lies in."""
        parts: list[Segment | Delta] = [*self.segments, *([self.delta] if self.delta else [])]
        history = self.history.parts if self.history else ()
        return [(part.path, file) for part in parts for file in part.files] + [
            (part.path, DataFile(*file)) for part in history for file in part.files
        ]


@dataclass(frozen=True)
class Snapshot(State, Commit):
    """A table at a version: its State, the Commit that made it, and the bookkeeping of files. Immutable; only `edit.apply` makes one."""

    inputs: tuple[Input, ...] = ()
    """The inputs that this version took or changed the outcome of."""
    pending: tuple[Input, ...] = ()
    """Inputs of this or an older version that were not yet archived."""
    ledger: tuple[LedgerFile, ...] = ()
    """The files with the inputs of older versions."""
    counts: dict[str, int] = field(default_factory=dict)
    """What became of the events read, by `COUNTS`, and `read`."""
    ties: int = 0
    """Events whose order columns were all equal to another's of the same key."""
    unresolved: int = 0
    """Values of visible rows that no event told."""
    pending_deletions: tuple[PendingDeletion, ...] = ()
    """What vacuum has given up. No later version may name it (H21)."""
    pins: tuple[Pin, ...] = ()
    """Versions that vacuum keeps."""
    restored: int | None = None
    """The version that a restore or rebuild brought back; None for other operations."""
    replaced: int = 0
    """The newest version whose State did not continue its parent's: the first one, a restore, a rebuild."""
    oldest: int = 1
    """Every version below it has expired."""
    expired: bool = False
    """Whether this is the stub of an expired version, which names no data."""
    feed: Feed | None = None
    """The change feed as of this version."""
    format: int = FORMAT
    """The version of this JSON format."""

    @property
    def state(self) -> State:
        """The State alone."""
        return State(**{each.name: getattr(self, each.name) for each in dataclasses.fields(State)})

    @property
    def named(self) -> frozenset[str]:
        """Paths below the root of the directories and ledger files that must be there for this Snapshot to be read."""
        delta = [self.delta.path] if self.delta else []
        history = [part.path for part in self.history.parts] if self.history else []
        return frozenset([*(segment.path for segment in self.segments), *delta, *history, *(file.path for file in self.ledger)])

    def stub(self) -> Snapshot:
        """What stays under this version's name when it has expired: its number is never given again (H21).

        The columns stay, for their history, and its part of the feed, which has a retention of its own.
        """
        return dataclasses.replace(
            self,
            segments=(),
            delta=None,
            inputs=(),
            pending=(),
            ledger=(),
            raw=(),
            offsets=(),
            pending_deletions=(),
            pins=(),
            history=None,
            expired=True,
        )

    @property
    def bytes_written(self) -> int:
        """Bytes of base, Delta, history and feed that this version's own attempt wrote."""
        parts: list[Any] = [*self.segments, *([self.delta] if self.delta else []), *(self.history.parts if self.history else ())]
        feed = [self.feed.part] if self.feed and self.feed.part else []
        return sum(part.size for part in (*parts, *feed) if self.writer in part.path)

    @property
    def rows(self) -> int:
        """Live rows, when nothing but the base holds them; with a Delta an upper bound."""
        live = sum(segment.rows - segment.tombstones for segment in self.segments)
        return live + (self.delta.rows - self.delta.tombstones if self.delta else 0)

    @property
    def size(self) -> int:
        """Bytes of base and Delta."""
        return sum(segment.size for segment in self.segments) + (self.delta.size if self.delta else 0)

    @property
    def partial(self) -> tuple[str, ...]:
        """The columns that any stored row holds from an older event, or does not know."""
        parts = [segment.partial for segment in self.segments] + ([self.delta.partial] if self.delta else [])
        return tuple(sorted({name for part in parts for name in part}))

    @property
    def position_max(self) -> Position | None:
        """The greatest Position of any stored row or barrier: what lies above it needs no comparing (H8)."""
        parts = [segment.position_max for segment in self.segments]
        return latest([*parts, self.delta.position_max if self.delta else None, self.truncated_to, self.purged_to])

    def to_bytes(self) -> bytes:
        """The JSON text that is stored."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "") -> Snapshot:
        """The inverse of `to_bytes`. Raises StateRefused for another format or damaged text."""
        try:
            raw = json.loads(data)
            if raw.get("format") != FORMAT:
                raise StateRefused(
                    f"Snapshot {path} has format {raw.get('format')!r}; this version reads format {FORMAT}. Install the matching compactor."
                )
            return cls(**_revived(raw))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateRefused(f"Snapshot {path} cannot be read: {error}. It is written once and never changed: restore it from a backup.") from error


_POSITIONS = ("position", "truncated_to", "purged_to")


def _position(value: Any) -> Position | None:
    return tuple(value) if value is not None else None


def _files(raw: list[dict[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**file) for file in raw)


def _stored(raw: dict[str, Any]) -> dict[str, Any]:
    bounds = {name: _position(raw[name]) for name in ("position_min", "position_max")}
    return {**raw, **bounds, "files": _files(raw["files"]), "partial": tuple(raw["partial"])}


def _segment(raw: dict[str, Any]) -> Segment:
    return Segment(**{**_stored(raw), "low": _position(raw["low"]), "high": _position(raw["high"])})


def _feed(raw: dict[str, Any]) -> Feed:
    part = raw["part"]
    return Feed(**{**raw, "part": FeedPart(**{**part, "files": _files(part["files"])}) if part else None})


def input_from_json(raw: dict[str, Any]) -> Input:
    """An Input out of its JSON form (a ledger line)."""
    return Input(**{**raw, "position_min": _position(raw["position_min"]), "position_max": _position(raw["position_max"])})


def _revived(raw: dict[str, Any]) -> dict[str, Any]:
    values = {**raw, **{name: _position(raw[name]) for name in _POSITIONS}}
    values["schema"] = Schema.from_json(raw["schema"])
    values["order"] = tuple((name, kind) for name, kind in raw["order"])
    values["offsets"] = tuple((partition, offset) for partition, offset in raw.get("offsets", ()))
    values["raw"] = tuple((name, kind) for name, kind in raw["raw"])
    values["segments"] = tuple(_segment(segment) for segment in raw["segments"])
    values["delta"] = Delta(**_stored(raw["delta"])) if raw["delta"] else None
    values["inputs"] = tuple(input_from_json(entry) for entry in raw["inputs"])
    values["pending"] = tuple(input_from_json(entry) for entry in raw["pending"])
    values["pending_deletions"] = tuple(PendingDeletion(**entry) for entry in raw.get("pending_deletions", ()))
    values["feed"] = _feed(raw["feed"]) if raw.get("feed") else None
    values["pins"] = tuple(Pin(**entry) for entry in raw.get("pins", ()))
    values["history"] = History.from_json(raw["history"]) if raw.get("history") else None
    values["ledger"] = tuple(LedgerFile(entry["path"], entry["entries"], tuple(entry["folders"])) for entry in raw["ledger"])
    return values
