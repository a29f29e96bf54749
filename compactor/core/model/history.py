"""History: which files hold the versions of a table's rows, and when they are put together. Pure values.

Every event of a key is one stored row; a version that readers see is a run of events without a change of the tracked columns. Rows lie in *parts*:

| part | holds | how it changes |
|---|---|---|
| closed, by day | events that a later event of the key followed, by the day they ended | appended to; late events replace the parts they touch |
| open | the last event of every key, in key ranges | rewritten when the open Delta has grown (`fold_due`) |
| open Delta | the last event of the keys that changed since | written anew by every commit |

A closed part belongs to a *set*. Appending keeps the set and taking a part out of it begins another, so that a view which names a set and the
newest part it knows shows one Snapshot, whatever is registered meanwhile (docs/design/history.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.position import Position

FOREVER = 2**63 - 1
"""`__end_us` of an open row: microseconds since 1970 that no time reaches."""

OPEN = "open"
"""Where a closed part has its day."""

ROWS = "history_rows"
"""What the table of stored events is called, after the table's name."""

TIER = 8
"""So many parts of about the same size become one."""

_SMALLEST = 1000


@dataclass(frozen=True)
class HistoryPart:
    """A directory of stored events, sorted by key. `day`: `d2026-11-20`, or `OPEN`; `shown` of its rows are versions that readers see.

    `low` and `high` bound the keys of an open part (None: open end), as in a Segment. `last` is the greatest Position at which a row of it ended;
    of an open part at which one began. `files`: (name, bytes).
    """

    id: str
    path: str
    day: str
    rows: int
    shown: int
    files: tuple[tuple[str, int], ...]
    last: Position | None
    low: tuple[Any, ...] | None = None
    high: tuple[Any, ...] | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(size for _, size in self.files)


@dataclass(frozen=True)
class Truncated:
    """A truncate: its Position and the source's time, microseconds since 1970. An event that comes late may lie before it."""

    position: Position
    time: int


@dataclass(frozen=True)
class History:
    """The history that a Snapshot names. `set` and `open_id` are the partition values under which closed and open parts are registered.

    `unavailable_columns`: columns that some event did not tell; `moves`: whether a key changed. `last`: the greatest Position of all. `since`: when it was
    switched on for a table that had rows already (ISO 8601): what was before is not known.
    """

    set: str
    closed: tuple[HistoryPart, ...]
    open_id: str
    open: tuple[HistoryPart, ...]
    delta: HistoryPart | None
    truncates: tuple[Truncated, ...] = ()
    unavailable_columns: tuple[str, ...] = ()
    moves: bool = False
    last: Position | None = None
    since: str | None = None

    @property
    def parts(self) -> tuple[HistoryPart, ...]:
        """All of them."""
        return (*self.closed, *self.open, *((self.delta,) if self.delta else ()))

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.size for part in self.parts)

    def written_by(self, commit: str) -> int:
        """Bytes of the parts that a commit wrote."""
        return sum(part.size for part in self.parts if part.id.startswith(f"{commit}."))

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> History:
        """The inverse of `dataclasses.asdict`, by way of JSON."""
        values = dict(raw)
        values["closed"] = tuple(_part(part) for part in raw["closed"])
        values["open"] = tuple(_part(part) for part in raw["open"])
        values["delta"] = _part(raw["delta"]) if raw["delta"] else None
        values["truncates"] = tuple(Truncated(tuple(one["position"]), one["time"]) for one in raw["truncates"])
        values["unavailable_columns"] = tuple(raw["unavailable_columns"])
        values["last"] = _tuple(raw["last"])
        return cls(**values)


def _tuple(value: Any) -> tuple[Any, ...] | None:
    return tuple(value) if value is not None else None


def _part(raw: dict[str, Any]) -> HistoryPart:
    bounds = {name: _tuple(raw[name]) for name in ("last", "low", "high")}
    return HistoryPart(**{**raw, **bounds, "files": tuple((name, size) for name, size in raw["files"])})


def compaction_due(open_rows: int, delta_rows: int, changes: int) -> bool:
    """Whether the open Delta goes into the open parts now.

    Each commit writes the Delta, each fold the open rows: with C changes a commit, N open rows and a fold whenever the Delta has D rows a commit
    writes about D/2 + N·C/D rows, which is least for D = sqrt(2CN) (docs/design/history.md).
    """
    return delta_rows * delta_rows >= 2 * max(changes, 1) * open_rows


def to_merge(parts: Iterable[HistoryPart]) -> tuple[HistoryPart, ...]:
    """Closed parts to write together: those of a day that are of about the same size, once there are `TIER` of them.

    So a day of n commits is rewritten about log(n) / log(`TIER`) times in all, and has few parts in the end.
    """
    tiers: dict[tuple[str, int], list[HistoryPart]] = {}
    for part in parts:
        tier = int(math.log(max(part.rows, _SMALLEST) / _SMALLEST, TIER))
        tiers.setdefault((part.day, tier), []).append(part)
    return tuple(part for tier in tiers.values() if len(tier) >= TIER for part in tier)


def tracked(columns: Sequence[str], track: Sequence[str], track_except: Sequence[str]) -> tuple[str, ...]:
    """The columns whose changes make a version, in the source's spelling: those named, or all but those named."""
    return tuple(name for name in columns if (name in track if track else name not in track_except))


def values(history: History) -> list[tuple[tuple[str, str, str], HistoryPart]]:
    """Every part with the values of its partition."""
    found = [((history.set, part.day, part.id), part) for part in history.closed]
    found += [((history.open_id, OPEN, part.id), part) for part in history.open]
    return found + ([((history.delta.id, OPEN, history.delta.id), history.delta)] if history.delta else [])


def brought_back(history: History | None, commit: str) -> History | None:
    """The history of a restored Snapshot: a set of its own, as the old one has gone on without it."""
    return dataclasses.replace(history, set=f"{commit}.closed") if history else None
