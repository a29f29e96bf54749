"""What the flows report: plain values that the command line prints and JSON carries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from compactor.core.planning.landing import Landing
from compactor.core.results.checks import Check, Difference

__all__ = [
    "AdoptReport",
    "Check",
    "Difference",
    "Progress",
    "RebuildReport",
    "Swept",
    "TablePlan",
    "TableReport",
    "TableStatus",
    "VacuumReport",
    "silent",
]

Progress = Callable[[str, str, float], None]
"""Called with (table, step, share done 0..1); steps are `discover`, `read`, `resolve`, `check`, `publish`, `archive`, `fold`, `done`."""


def silent(table: str, step: str, share: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class TableReport:
    """What one run did for one table.

    `outcome` is `committed`, `resumed` (only finished what an earlier run left), `idle`, `held`, `failed` or `later`. `operations` lists the
    Snapshots made, such as `commit 3` and `fold 4`. Bytes are what was written to base, Delta and feed. `error` is None unless failed or later.
    """

    table: str
    outcome: str
    version: int | None = None
    operations: tuple[str, ...] = ()
    files: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    ties: int = 0
    unresolved: int = 0
    bytes_written: int = 0
    archived: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: str | None = None
    error_class: str | None = None
    exit_code: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class TableStatus:
    """Where a table stands. `regime` says how readers join the Delta: `none`, `broadcast` or `sort-merge` (design.md section 8, E2).

    `quarantined` counts files of which something waits in quarantine. `delta_estimate` is what Spark's planner will take the Delta's size for, in
    bytes, against `delta_limit`. `feed`: `off`, `net` or `all`, as the newest Snapshot has it; `feed_from`: the oldest version it can be followed
    from. `history_since`: when the history was switched on for a table that had rows (`core/model/history.py`).
    """

    table: str
    version: int | None
    hour: str | None
    source_time: str | None
    committed: str | None
    rows: int
    segments: int
    bytes: int
    delta_rows: int
    delta_tombstones: int
    delta_estimate: int
    delta_limit: int
    regime: str
    waiting_files: int
    waiting_bytes: int
    oldest_waiting: str | None
    pending_archive: int
    quarantined: int
    publish: str
    feed: str = "off"
    feed_from: int | None = None
    history_events: int = 0
    history_bytes: int = 0
    history_since: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Swept:
    """A condemned unit or raw file: `path` below the table's root, `reason` `orphan`, `expired`, or `discarded` for a raw file.

    `goes`: the time from which it may go, None for now.
    """

    table: str
    path: str
    reason: str
    files: int
    bytes: int
    goes: str | None


@dataclass(frozen=True)
class VacuumReport:
    """What vacuum did, or (`dry`) would do. `expired`: the versions given up now; `kept`: version → why; `swept`: what is condemned."""

    table: str
    version: int | None
    dry: bool
    expired: tuple[int, ...] = ()
    kept: dict[int, str] = field(default_factory=dict)
    swept: tuple[Swept, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bytes_gone(self) -> int:
        """Bytes deleted now."""
        return sum(item.bytes for item in self.swept if item.goes is None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "bytes_gone": self.bytes_gone}


@dataclass(frozen=True)
class RebuildReport:
    """What a rebuild did. `outcome`: `published`; `equal` when nothing was published because it was a dry run; `differs` when it was not allowed to.

    `version` is the one made, or None; `against` the one that `difference` compares with. `files`, `bytes` were read, `undone` files left out.
    """

    table: str
    outcome: str
    version: int | None
    against: int
    files: int
    bytes: int
    rows: int
    difference: Difference
    undone: int = 0
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 when it was not allowed to publish."""
        return 1 if self.outcome == "differs" else 0

    @property
    def sentences(self) -> list[str]:
        """What was read, what differs, what became of it."""
        gap = self.difference
        found = [f"{self.files} files ({self.bytes:,} bytes) give {self.rows:,} rows"]
        if self.undone:
            found.append(f"{self.undone} files absorbed after version {self.against} are left out; --reabsorb of `compactor restore` takes them")
        if gap.unreadable:
            found.append(f"version {self.against} cannot be read: {gap.unreadable}")
        elif not gap:
            found.append(f"the same rows as version {self.against}")
        found += gap.columns
        if gap.missing or gap.added or gap.changed:
            told = f"{gap.missing:,} rows of version {self.against} are missing, {gap.added:,} are new, {gap.changed:,} are others"
            found.append(f"{told}; such as {', '.join(gap.samples)}")
        done = {
            "published": f"published as version {self.version}",
            "equal": "nothing was published (a dry run)",
            "differs": "nothing was published; --accept-differences publishes it",
        }
        return [*found, done[self.outcome], *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class AdoptReport:
    """What became of a base that others made. `outcome`: `adopted`, or `would be adopted` after a dry run; `version` the one made, or None.

    `files`, `bytes`, `rows` of the base at `path`; `columns`: (stored name, its column in the base, type); `order`: what Positions are made of.
    `absorbed` landed files entered the ledger unread, `waiting` are left for the next run. `notes`: what differs from the changes' columns.
    """

    table: str
    outcome: str
    version: int | None
    path: str
    files: int
    bytes: int
    rows: int
    order: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str, str], ...]
    absorbed: int
    waiting: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class TablePlan:
    """What a run would do, without doing it. `steps` are sentences; `landing` the files found."""

    table: str
    version: int | None
    landing: Landing
    steps: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Ended:
    """How a command line ended. `code`: its exit code, negative: the signal that ended it; `output`: stdout; `errors`: the last lines of stderr."""

    code: int
    output: str
    errors: str = ""
