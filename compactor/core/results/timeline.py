"""Timeline: what Snapshots and run records show of a table up to a moment, as plain values for the report page; and which tables need a person, why,
and which command helps. All of it follows from the tables' past, nothing from names or schedules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compactor.core.model import times
from compactor.core.model.edit import SAME_ROWS
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.reconcile.report import DIFFERENT
from compactor.core.results.phrases import minute, without_table
from compactor.core.results.record import RunRecord
from compactor.core.schema.schema_history import Step

SILENT_SECONDS = 86400.0
"""Without any run for so long the scheduler is likely to have stopped."""
QUIET_SECONDS_MIN = 3600.0
"""No table counts as silent sooner."""
_QUIET_FACTOR, _GAPS_MIN = 4.0, 4


@dataclass(frozen=True)
class Version:
    number: int
    time: str
    """When it was committed, ISO 8601."""
    operation: str
    events: Mapping[str, int]
    source_time: str | None
    folder: str | None
    files: int = 0
    base_bytes: int | None = None
    """Bytes of the base; None, as the numbers below, for an expired version without a run record."""
    delta_bytes: int | None = None
    rows: int | None = None
    """Live rows, at most."""
    written: int | None = None
    """Bytes written for it."""

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
    table: str
    view: str
    """`database.view`."""
    versions: tuple[Version, ...] = ()
    """The newest versions, oldest first."""
    runs: tuple[RunRecord, ...] = ()
    """The newest run records, oldest first."""
    quarantine: tuple[Input, ...] = ()
    changes: tuple[Step, ...] = ()
    """The versions that changed columns, newest first."""
    delta_estimate: int = 0
    delta_limit: int = 1
    arrivals: tuple[float, ...] = ()
    """When files landed, in epoch seconds, as far as that is known (`flows/read/arrived.py`)."""
    idle: str | None = None
    """When a run last found no work, ISO 8601; None if unknown."""
    problem: str | None = None
    """Why the table could not be read; None if it could."""

    @property
    def newest(self) -> Version | None:
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
    version = Version(snapshot.version, snapshot.time, snapshot.operation, snapshot.counts, snapshot.source_time, snapshot.hour)
    if not snapshot.expired:
        delta = snapshot.delta.size if snapshot.delta else 0
        sizes = (len(snapshot.inputs), snapshot.size - delta, delta, snapshot.rows, snapshot.bytes_written)
    elif record is not None and len(record.operations) == 1:
        sizes = (record.files, record.bytes_stored - record.delta_bytes, record.delta_bytes, record.rows, record.bytes_written)
    else:
        return version
    files, base, delta, rows, written = sizes
    return replace(version, files=files, base_bytes=base, delta_bytes=delta, rows=rows, written=written)


@dataclass(frozen=True)
class Problem:
    """Something that a person should do about a table."""

    table: str
    """The table's name; "" for all tables."""
    urgent: bool
    """Whether the table does not move on without a person."""
    text: str
    commands: tuple[str, ...] = field(default=())


def problems(tables: Sequence[Timeline], now: float, folders: Sequence[str] = ()) -> list[Problem]:
    """Return what needs a person, the most urgent first. `now`: epoch seconds; `folders`: a line for each landed folder that no table takes."""
    every = [problem for table in tables for problem in _of(table, now)]
    every += [Problem("", False, f"{line[0].upper()}{line[1:]}.", ("compactor check",)) for line in folders]
    last = max((moment for table in tables if (moment := last_run(table)) is not None), default=None)
    if last is not None and now - last > SILENT_SECONDS:
        text = f"No run since {times.from_seconds(last)}. Check that the scheduler starts `compactor run`."
        every.insert(0, Problem("", True, text, ("compactor plan", "compactor run")))
    return sorted(every, key=lambda each: (not each.urgent, each.table != ""))


def _of(table: Timeline, now: float) -> Iterator[Problem]:
    name = table.table
    if table.problem is not None:
        yield Problem(name, True, f"The table cannot be read: {table.problem}", (f"compactor verify {name} --files-only",))
        return
    failure = table.failure
    if failure is not None:
        reason = without_table(failure.table, failure.error or "")
        text = f"The last run failed at {minute(failure.ended)}: {failure.error_class}: {reason}"
        yield Problem(name, True, text, (f"compactor plan {name}", f"compactor run {name}"))
    elif not table.versions and last_run(table) is None:
        yield Problem(name, False, "No run has looked at the table yet.", (f"compactor plan {name}", f"compactor run {name}"))
    if table.quarantine:
        files = len(table.quarantine)
        text = f"{files} file{'s' if files > 1 else ''} in quarantine; all other events are in the table."
        yield Problem(name, False, text, (f"compactor quarantine {name}", f"compactor quarantine {name} --replay"))
    if table.debt > 1:
        text = f"The Delta is {table.debt:.1f} times as large as a fast join allows, so readers are slower. Compaction is behind."
        yield Problem(name, False, text, (f"compactor run --compact {name}",))
    compared = table.compared
    if compared is not None and compared.comparison is not None and compared.outcome == DIFFERENT:
        summary = compared.comparison.summary
        text = f"The table is not equal to its source: {summary}, compared at {minute(compared.ended)}."
        yield Problem(name, True, text, (f"compactor reconcile {name} --source URL", f"compactor verify {name}"))
    quiet = silent(table.arrivals, now)
    if quiet is not None and failure is None:
        yield Problem(name, False, f"{quiet[0].upper()}{quiet[1:]}. Check the source and its sink.", (f"compactor plan {name}",))


def last_run(table: Timeline) -> float | None:
    """Return when a run last looked at the table, in epoch seconds; None if unknown."""
    run = next((run.ended for run in reversed(table.runs) if run.comparison is None), None)
    moments = [table.idle, run, table.newest.time if table.newest else None]
    return max((times.to_seconds(moment) for moment in moments if moment is not None), default=None)


def silent(arrivals: Sequence[float], now: float) -> str | None:
    """Return that nothing has landed for much longer than usual, as a sentence; None if that is not so or not known.

    `arrivals`: when files of a table landed, in epoch seconds: the hours of their folders, or the times of the commits that took them. `now`: in
    epoch seconds. The longest pause so far, such as a weekend, is usual too.
    """
    moments = sorted({*arrivals})
    gaps = sorted(after - before for before, after in zip(moments, moments[1:]))
    if len(gaps) < _GAPS_MIN:
        return None
    usual = gaps[len(gaps) // 2]
    if now - moments[-1] <= max(_QUIET_FACTOR * usual, 1.5 * gaps[-1], QUIET_SECONDS_MIN):
        return None
    last = minute(times.from_seconds(moments[-1]))
    unit = {60.0: "minute", 3600.0: "hour", 86400.0: "day"}.get(round(usual / 60) * 60.0) or duration(usual)
    return f"no file since {last}; before, one arrived every {unit}"


def duration(seconds: float) -> str:
    """Return a duration for people, in one unit, or two for days.

    >>> [duration(each) for each in (12, 90, 3 * 3600, 30 * 3600)]
    ['12 s', '1.5 min', '3 h', '1 d 6 h']
    """
    for size, unit in ((1.0, "s"), (60.0, "min"), (3600.0, "h")):
        following = {"s": 60.0, "min": 3600.0, "h": 86400.0}[unit]
        if seconds < following:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}" if size > 1 and seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    days, hours = int(seconds // 86400), int(seconds % 86400 // 3600)
    return f"{days} d {hours} h" if hours and days < 10 else f"{days} d"
