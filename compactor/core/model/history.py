"""History: the files with all versions of a table's rows, and when they are merged (docs/design/history.md).

Each event of a key is one stored row. A version that readers see is a run of events in which no tracked column changes. Rows lie in *parts*:

| part | content | how it changes |
|---|---|---|
| closed, by day | events with a later event of the same key, by the day they ended | commits append parts; late events replace parts |
| open | the last event of every key, in key ranges | rewritten when the open Delta has grown (`compaction_due`) |
| open Delta | the last event of the keys that changed since then | rewritten by every commit |

Each closed part belongs to a *set*. Adding a part keeps the set; removing one begins a new set. A view that names a set and its newest part
therefore shows exactly one Snapshot, whatever other parts are registered.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.files import DataFile, Directory
from compactor.core.model.position import Position

FOREVER = 2**63 - 1
"""`__end_us` of an open row: microseconds since 1970, later than every possible time."""

OPEN = "open"
"""The value of the partition column `history_day` for open parts."""

ROWS = "history_rows"
"""Suffix of the catalog table with the stored events."""

TIER = 8
"""Number of parts of about the same size that are merged into one."""

_SMALLEST = 1000


@dataclass(frozen=True)
class HistoryPart(Directory):
    """A directory of stored events, sorted by key."""

    id: str
    """The value of the partition column `history_part`: the commit id and a name."""
    path: str
    day: str
    """The day on which its events ended, as `d2026-11-20`, or `OPEN`."""
    rows: int
    files: tuple[DataFile, ...]
    last: Position | None
    """The greatest Position at which one of its events ended; for an open part, at which one began."""
    low: tuple[Any, ...] | None = None
    """The least key of an open part's range; None for an open beginning."""
    high: tuple[Any, ...] | None = None
    """The first key after an open part's range; None for an open end."""


@dataclass(frozen=True)
class Truncated:
    """A truncate of the source table. Later runs need it for late events that happened before it."""

    position: Position
    time: int
    """The source's time, in microseconds since 1970."""


@dataclass(frozen=True)
class History:
    """The history of a table as of a Snapshot."""

    set: str
    """The value of the partition column `history_set` for closed parts."""
    closed: tuple[HistoryPart, ...]
    open_id: str
    """The value of the partition column `history_set` for open parts."""
    open: tuple[HistoryPart, ...]
    """The open parts. Their key ranges cover the key space."""
    delta: HistoryPart | None
    truncates: tuple[Truncated, ...] = ()
    unavailable_columns: tuple[str, ...] = ()
    """Columns without a value in some event."""
    moves: bool = False
    """Whether the key of some row changed."""
    last: Position | None = None
    since: str | None = None
    """When the history was switched on for a table with rows, ISO 8601. Earlier versions are unknown. None: the history is complete."""
    rules: str = ""
    """The settings that decide what makes a version (`rules`), as long as all commits had the same; "" after they changed."""

    @property
    def parts(self) -> tuple[HistoryPart, ...]:
        return (*self.closed, *self.open, *((self.delta,) if self.delta else ()))

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def compaction_due(open_rows: int, delta_rows: int, changes: int) -> bool:
    """Return whether to merge the open Delta into the open parts now.

    Each commit writes the Delta; each compaction writes the open rows. With C changes per commit, N open rows, and a compaction whenever the Delta
    has D rows, a commit writes about D/2 + N·C/D rows. The minimum is at D = sqrt(2CN) (docs/design/history.md).
    """
    return delta_rows * delta_rows >= 2 * max(changes, 1) * open_rows


def to_merge(parts: Iterable[HistoryPart]) -> tuple[HistoryPart, ...]:
    """Return the closed parts to merge: those of the same day and about the same size, if there are at least `TIER` of them.

    A row of a day with n commits is thereby rewritten about log(n) / log(`TIER`) times, and the day ends with few parts.
    """
    tiers: dict[tuple[str, int], list[HistoryPart]] = {}
    for part in parts:
        tier = int(math.log(max(part.rows, _SMALLEST) / _SMALLEST, TIER))
        tiers.setdefault((part.day, tier), []).append(part)
    return tuple(part for tier in tiers.values() if len(tier) >= TIER for part in tier)


def rules(track: Sequence[str]) -> str:
    """Return the settings that decide what makes a version, as text."""
    return f"track {', '.join(track) or 'all'}"


def values(history: History) -> list[tuple[tuple[str, str, str], HistoryPart]]:
    """Return every part with its values of the partition columns (history_set, history_day, history_part)."""
    partitions = [((history.set, part.day, part.id), part) for part in history.closed]
    partitions += [((history.open_id, OPEN, part.id), part) for part in history.open]
    return partitions + ([((history.delta.id, OPEN, history.delta.id), history.delta)] if history.delta else [])


def brought_back(history: History | None, commit: str) -> History | None:
    """Return the history for the Snapshot that restores it. It begins a new set, because later versions added parts to the old one."""
    return dataclasses.replace(history, set=f"{commit}.closed") if history else None
