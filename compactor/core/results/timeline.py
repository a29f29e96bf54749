"""Timeline: what Snapshots and run records show of a table up to a moment, as plain values for the report page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from compactor.core.model.edit import SAME_ROWS
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.record import RunRecord
from compactor.core.schema.schema_history import Step


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

    @property
    def stored(self) -> int | None:
        """Return the bytes of base and Delta: what a rewrite of the table would have written."""
        return None if self.base_bytes is None or self.delta_bytes is None else self.base_bytes + self.delta_bytes

    @property
    def rewriting(self) -> int | None:
        """Return the bytes that rewriting the table would have written here. Compaction belongs to our way of writing only."""
        return 0 if self.operation in SAME_ROWS else self.stored


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
    quarantine: tuple[Input, ...] = ()
    """Files that are in quarantine, or have records there."""
    changes: tuple[Step, ...] = ()
    """The versions that changed columns, newest first."""
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


def version_of(snapshot: Snapshot, record: RunRecord | None) -> Version:
    """Return the Version of a Snapshot. An expired one has no sizes: the record of its run may have them."""
    delta = snapshot.delta.size if snapshot.delta else 0
    version = Version(
        snapshot.version,
        snapshot.time,
        snapshot.operation,
        snapshot.run,
        snapshot.counts,
        snapshot.source_time,
        snapshot.hour,
        len(snapshot.inputs),
        snapshot.size - delta,
        delta,
        snapshot.rows,
        snapshot.bytes_written,
    )
    if not snapshot.expired:
        return version
    if record is None or len(record.operations) != 1:
        return replace(version, base_bytes=None, delta_bytes=None, rows=None, written=None)
    return replace(
        version,
        files=record.files,
        base_bytes=record.bytes_stored - record.delta_bytes,
        delta_bytes=record.delta_bytes,
        rows=record.rows,
        written=record.bytes_written,
    )


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
