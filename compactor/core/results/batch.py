"""What an engine returns about a batch: what it read, and what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.core.model.position import Partitions, Position
from compactor.core.model.snapshot import Delta, Input, Segment
from compactor.core.schema.adoption import Adoption
from compactor.core.schema.evolution import Evolved
from compactor.core.sources.quarantine import Unusable

InputLocations = Mapping[tuple[str, str], str]
"""(path, etag) of inputs → their location, when they lie no longer in landing."""


@dataclass(frozen=True)
class BatchSummary:
    """What reading a batch of inputs told, before anything is written.

    `read` events in all, `ignored` of them carry no row (tombstones, heartbeats, other tables), `quarantined` cannot be used; `changes` are the
    rest, of which `beyond_retention` turn out, while they are resolved, to be older than purged tombstones. `inputs` are the files with rows,
    Positions and outcome filled in; `unusable` describes what of them is quarantined, up to `LISTED_MAX`. `first`/`last` bound the Positions of the
    changes. `truncate` is the newest truncate. `partial` names the columns that some change does not tell (unavailable values); `moves` counts key
    changes. `raw` are the columns of the files as they lie there (empty for text). `offsets` as in `Snapshot`. `unfinished`:
    paths of quarantined files that lack their end. `unchanged` counts rows read that are as the table has them, `late` rows read
    that come too late to change anything; neither are `changes`. `adoption`: what became of the columns of a foreign base.
    """

    evolved: Evolved
    order: tuple[tuple[str, str], ...]
    inputs: tuple[Input, ...]
    read: int
    ignored: int
    changes: int
    partial: tuple[str, ...]
    moves: int
    truncates: int
    first: Position | None
    last: Position | None
    truncate: Position | None
    source_time: str | None
    raw: tuple[tuple[str, str], ...] = ()
    offsets: Partitions = ()
    quarantined: int = 0
    unfinished: frozenset[str] = frozenset()
    beyond_retention: int = 0
    unusable: tuple[Unusable, ...] = ()
    unchanged: int = 0
    late: int = 0
    adoption: Adoption | None = None


@dataclass(frozen=True)
class Staged:
    """What an engine wrote and checked: either a Delta or Segments (a whole new base), and what became of every event."""

    delta: Delta | None
    segments: tuple[Segment, ...]
    counts: dict[str, int]
    ties: int = 0
    unresolved: int = 0
    purged_to: Position | None = None
