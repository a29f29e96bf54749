"""Timeline: what Snapshots and run records show of a table up to a moment, as plain values for the report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.core.model.edit import SAME_ROWS
from compactor.core.results.record import RunRecord


@dataclass(frozen=True)
class Version:
    """One Snapshot."""

    number: int
    time: str
    """When it was committed, ISO 8601."""
    operation: str
    """The verb: `commit`, `compact`, `restore`, ..."""
    label: str
    """The scheduler's name of the run."""
    events: Mapping[str, int]
    source_time: str | None
    """The newest source time in the table, ISO 8601."""
    folder: str | None
    """The newest landing hour in the table."""
    files: int
    base_bytes: int | None
    """Bytes of the base; None for an expired version without a run record."""
    delta_bytes: int | None
    """Bytes of the Delta; None as above."""
    rows: int | None
    """Live rows, at most; None as above."""
    written: int | None
    """Bytes written for it; None as above."""
    columns: tuple[tuple[str, str], ...]
    """(name, type) of the columns that the view shows."""

    @property
    def stored(self) -> int | None:
        """Return the bytes of base and Delta: what a rewrite of the table would have written."""
        return None if self.base_bytes is None or self.delta_bytes is None else self.base_bytes + self.delta_bytes

    @property
    def rewriting(self) -> int | None:
        """Return the bytes that rewriting the table would have written here. Compaction belongs to our way of writing only."""
        return 0 if self.operation in SAME_ROWS else self.stored


@dataclass(frozen=True)
class Quarantined:
    """A file in quarantine."""

    path: str
    """Path below the landing root."""
    hour: str | None
    """The hour of its folder."""
    records: int | None
    """Number of its records in quarantine; None for the whole file."""
    reason: str
    """Why it cannot be used."""


@dataclass(frozen=True)
class SchemaChange:
    """A version that changed columns."""

    version: int
    time: str
    """When it was committed."""
    sentences: tuple[str, ...]
    """What changed."""


@dataclass(frozen=True)
class Timeline:
    """A table up to a moment."""

    table: str
    view: str
    """`database.view`."""
    versions: tuple[Version, ...] = ()
    """The newest versions, oldest first."""
    runs: tuple[RunRecord, ...] = ()
    """The newest run records, oldest first."""
    quarantine: tuple[Quarantined, ...] = ()
    changes: tuple[SchemaChange, ...] = ()
    """Changes of the columns, newest first."""
    delta_estimate: int = 0
    """Bytes that Spark's planner expects for the Delta."""
    delta_limit: int = 1
    """Bytes up to which readers get a broadcast join."""
    arrivals: tuple[float, ...] = ()
    """When files landed, in epoch seconds, as far as that is known (`flows/read/arrivals.py`)."""
    idle: str | None = None
    """When a run last found no work, ISO 8601; None if unknown."""
    problem: str | None = None
    """Why the table could not be read; None if it could."""

    @property
    def newest(self) -> Version | None:
        """Return the newest version, or None."""
        return self.versions[-1] if self.versions else None

    @property
    def _last_run(self) -> RunRecord | None:
        return next((run for run in reversed(self.runs) if run.shows_state), None)

    @property
    def compared(self) -> RunRecord | None:
        """Return the record of the last comparison with the source, if it is among the runs."""
        return next((run for run in reversed(self.runs) if run.comparison is not None), None)

    @property
    def last_outcome(self) -> str | None:
        """Return the outcome of the last run that is known."""
        run = self._last_run
        if self.idle is not None and (run is None or self.idle >= run.started):
            return "idle"
        return run.outcome if run else None

    @property
    def failure(self) -> RunRecord | None:
        """Return the record of the last run if it failed and no later run succeeded."""
        run = self._last_run
        if run is None or run.outcome != "failed":
            return None
        healed = self.idle is not None and self.idle > run.ended
        later = self.newest is not None and self.newest.time > run.ended
        return None if healed or later else run

    @property
    def delta_share(self) -> float | None:
        """Return the Delta's share of the table's bytes, 0 to 1; None if unknown."""
        newest = self.newest
        return None if newest is None or not newest.stored else (newest.delta_bytes or 0) / newest.stored

    @property
    def debt(self) -> float:
        """Return how full the Delta is: 1 is where readers get a slower join."""
        return self.delta_estimate / max(self.delta_limit, 1)

    @property
    def vcpu_hours(self) -> float | None:
        """Return the vCPU-hours of the runs on EMR; None if none are known."""
        hours = [run.job.vcpu_hours for run in self.runs if run.job]
        return sum(hours) if hours else None


def version_of(raw: Mapping[str, Any], record: RunRecord | None) -> Version:
    """Return the Version of a Snapshot's JSON object. An expired Snapshot has no sizes: the record of its run may have them.

    It reads the object itself, because a page shows thousands of Snapshots and needs a tenth of each.
    """
    writer, delta, expired = str(raw["writer"]), raw["delta"], bool(raw["expired"])
    sizes = [(part["path"], sum(file["size"] for file in part["files"])) for part in (*raw["segments"], *([delta] if delta else []))]
    live = sum(part["rows"] - part["tombstones"] for part in (*raw["segments"], *([delta] if delta else [])))
    history = raw["history"] or {"closed": [], "open": [], "delta": None}
    # a file of the history is [name, bytes]
    stored = (*history["closed"], *history["open"], *([history["delta"]] if history["delta"] else []))
    others = [(part["path"], sum(size for _, size in part["files"])) for part in stored]
    part = raw["feed"]["part"] if raw["feed"] else None
    others += [(part["path"], sum(file["size"] for file in part["files"]))] if part else []
    base, of_delta = sum(size for path, size in sizes if not delta or path != delta["path"]), sizes[-1][1] if delta else 0
    run = record if expired and record is not None and len(record.operations) == 1 else None
    return Version(
        raw["version"],
        raw["time"],
        raw["operation"],
        raw["run"],
        raw["counts"],
        raw["source_time"],
        raw["hour"],
        len(raw["inputs"]) if not expired else run.files if run else 0,
        base if not expired else run.bytes_stored - run.delta_bytes if run else None,
        of_delta if not expired else run.delta_bytes if run else None,
        live if not expired else run.rows if run else None,
        sum(size for path, size in (*sizes, *others) if writer in path) if not expired else run.bytes_written if run else None,
        tuple((field["name"], field["type"]) for field in raw["schema"]["fields"] if field["visible"]),
    )


def schema_changes(versions: Sequence[Version]) -> tuple[SchemaChange, ...]:
    """Return the versions that changed columns, newest first. `versions`: oldest first. A stub without columns has those of the version after it."""
    changes: list[SchemaChange] = []
    columns = [version.columns for version in versions]
    for at in reversed(range(len(versions) - 1)):
        columns[at] = columns[at] or columns[at + 1]
    for after, earlier, later in zip(versions[1:], columns, columns[1:]):
        # the columns of the newest versions of a past moment may be unknown
        if earlier == later or not later:
            continue
        old, new = dict(earlier), dict(later)
        sentences = [f"added {name} {kind}" for name, kind in new.items() if name not in old]
        sentences += [f"removed {name} {kind}" for name, kind in old.items() if name not in new]
        sentences += [f"{name}: {old[name]} became {kind}" for name, kind in new.items() if name in old and old[name] != kind]
        changes.append(SchemaChange(after.number, after.time, tuple(sentences or ["changed the order of columns"])))
    return tuple(reversed(changes))


@dataclass(frozen=True)
class Problem:
    """Something that a person should do about a table."""

    table: str
    """The table's name; "" for all tables."""
    urgent: bool
    """Whether the table does not move on without a person."""
    text: str
    """What is wrong, in a sentence."""
    commands: tuple[str, ...] = field(default=())
    """Commands that show more or repair it."""
