"""Results of the engine: the summary of a batch that it read, and the data that it wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compactor.core.model.files import Delta, Segment
from compactor.core.model.inputs import Brought, Input
from compactor.core.model.position import NO_STARTS, Partitions, Position, Starts, latest
from compactor.core.schema.evolution import Evolved
from compactor.core.sources.quarantine import Unusable

InputLocations = Mapping[tuple[str, str], str]
"""(path, etag) → location, for inputs that are no longer in landing."""


@dataclass(frozen=True)
class BatchSummary:
    """What reading a batch of inputs showed, before anything is written."""

    evolved: Evolved
    order: tuple[tuple[str, str], ...]
    """The order columns of Positions: (name, type)."""
    inputs: tuple[Input, ...]
    """The inputs, with rows, Positions and outcome."""
    read: int
    """All events. For full loads: all rows, and the keys that are gone."""
    ignored: int
    """Events without a row for this table: tombstones, heartbeats, events of other tables."""
    changes: int
    """Events to resolve: those that are neither ignored nor in quarantine nor, for full loads, unchanged or late."""
    unavailable_columns: tuple[str, ...]
    """Columns without a value in some change (the source sent a placeholder)."""
    deletes: int
    """Deletes, without those that follow from comparing full loads."""
    moves: int
    """Changes of a row's key: those whose old key is known, and creates without all values, which may be one half of a key change."""
    truncates: int
    first: Position | None
    """The least Position of the changes."""
    last: Position | None
    """The greatest Position of the changes."""
    truncate: Position | None
    """The Position of the newest truncate."""
    source_time: str | None
    shard_truncates: tuple[tuple[str, Position], ...] = ()
    """The Position of the newest truncate of each shard that has one."""
    starts: Starts = NO_STARTS
    """`State.starts`, of the table and the batch."""
    raw: tuple[tuple[str, str], ...] = ()
    """The columns of the landed files (name, Hive type); () for text files."""
    raw_format: str = ""
    """The format of these files, parquet or avro; of both parquet, because no engine reads them as one table."""
    offsets: Partitions = ()
    """The greatest Kafka offset per partition, as in `State.offsets`."""
    least_offsets: Partitions = ()
    streams: tuple[Brought, ...] = ()
    """What each stream brought, for `State.watermark`."""
    quarantined: int = 0
    unfinished: frozenset[str] = frozenset()
    """Paths of inputs in quarantine that lack the end of the file."""
    beyond_retention: int = 0
    """Changes older than purged tombstones. They are known only after the batch is resolved."""
    unusable: tuple[Unusable, ...] = ()
    """Descriptions of what goes to quarantine, at most LISTED_MAX."""
    unchanged: int = 0
    """For full loads: rows that are as they were in the load before."""
    late: int = 0
    """Rows that come too late to change anything, such as those of an older full load."""
    inserts: int = 0
    """Creates, and reads of snapshots."""

    def barriers(self, before: Iterable[tuple[str, Position]]) -> tuple[tuple[str, Position], ...]:
        """Return the barrier of each shard that had a truncate, in this batch or `before`."""
        newest = dict(before)
        for shard, bound in self.shard_truncates:
            newest[shard] = latest([bound, newest.get(shard)]) or bound
        return tuple(sorted(newest.items()))


@dataclass(frozen=True)
class Staged:
    """The data that an engine wrote and checked, not committed yet: a Delta, or the Segments of a new base."""

    delta: Delta | None
    """The new Delta; None if Segments were written or no row is left."""
    segments: tuple[Segment, ...]
    """The new Segments; () if a Delta was written."""
    counts: dict[str, int]
    """Number of events by what became of them, as `Snapshot.counts`."""
    ties: int = 0
    unresolved: int = 0
    purged_to: Position | None = None
    """The greatest Position of a tombstone that was purged; None if none was."""
    note: str = ""
    """A sentence about inserts that other inserts of the same key superseded; "" without any."""


@dataclass(frozen=True)
class ErasedRecords:
    """The records of a raw file that belong to erased keys."""

    numbers: tuple[int, ...]
    """Their numbers in the file, from 1."""
    total: int
    changes: tuple[tuple[int, int], ...] = ()
    """Of records that hold changes of other keys too: (number of the record, number of the change in it, from 0). Only these changes go."""
    events: int = 0
    """All events of the file, as `Input.rows`."""
