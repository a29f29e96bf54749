"""TableReport: what one run did for one table. RunRecord: the same with when and how the run went, stored as `_compactor/runs/<time>-<id>.json`.

`docs/run-record.schema.json` is its JSON Schema, made from the fields and texts here. The newest record is also at `_compactor/last_run.json`, if
`shows_state`; that of the last comparison at `_compactor/last_comparison.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.core.model.errors import StateRefused
from compactor.core.model.snapshot import of_json
from compactor.core.results.plain import Plain

FORMAT = 1
"""Number of the stored form."""

FAILED = ("failed", "later")
"""Outcomes of runs that did not bring the table up to date."""

DAYS_KEPT = 90
"""Days after which vacuum deletes a record."""


@dataclass(frozen=True)
class Phase:
    """A phase of a run."""

    name: str
    """`discover`, `read`, `resolve`, `check`, `publish`, `archive` or `compact`."""
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """What `compactor reconcile` found. It has no keys and no values of rows."""

    source: str
    """The source's table, without password."""
    source_position: str
    """Where the source's log ended when the comparison began; `unknown` if that is unknown."""
    lake_position: str
    """Up to where the compared version has the source's log; `unknown` if that is unknown."""
    source_rows: int
    """Compared rows of the source."""
    different: int
    """Number of keys whose rows differ."""
    kinds: Mapping[str, int]
    """Number of these keys by kind: `missing`, `extra`, `changed`, `repeated`."""
    cells: Mapping[str, int]
    """Number of changed rows by the column in which they differ."""
    changing: int
    """Keys that changed in every look; they were not judged."""
    skipped: tuple[tuple[str, str], ...]
    """(column, reason) of the columns that were not compared."""

    @property
    def summary(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
        cells = ", ".join(f"{column} in {count:,}" for column, count in self.cells.items())
        return f"{self.different:,} rows differ" + (f" ({kinds}{f'; {cells}' if cells else ''})" if kinds else "")


@dataclass(frozen=True)
class JobUsage:
    """What an EMR job used: a table's share of it, by the seconds of its run."""

    id: str
    vcpu_hours: float
    """vCPU-hours, as billed."""
    memory_gb_hours: float
    """Memory-hours in GB, as billed."""

    def share(self, part: float) -> JobUsage:
        """Return a part (0 to 1) of it."""
        return JobUsage(self.id, round(self.vcpu_hours * part, 6), round(self.memory_gb_hours * part, 6))


@dataclass(frozen=True)
class TableReport(Plain):
    """What one run did for one table."""

    table: str
    outcome: str
    """`committed`, `resumed` (it only finished an earlier run), `blocked` (committed, and not shown because a rule of `checks:` does not hold),
    `idle`, `failed`, `later` (try again), or `stopped` (by Ctrl-C). Of a comparison: `equal`, `different`, `unproven` or `too many`."""
    version: int | None = None
    """The newest version after the run; null without one."""
    operations: tuple[str, ...] = ()
    """The Snapshots that the run made, such as `commit 3` and `compact 4`."""
    files: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of events by outcome. `read` is the sum of the others: `applied`, `superseded`, `duplicate`, `late`, `ignored`, .."""
    rows: int = 0
    """Live rows after the run, at most."""
    ties: int = 0
    """Events with the same key and the same order columns as another event."""
    unresolved: int = 0
    """Values of visible rows that no event contained."""
    before: int | None = None
    """The newest version before the run; null without one."""
    bytes_read: int = 0
    """Bytes of the landed files taken."""
    bytes_written: int = 0
    """Bytes written to base, Delta, history and feed."""
    bytes_rewriting: int = 0
    """Bytes that the run would have written if each commit rewrote the whole table."""
    bytes_stored: int = 0
    """Bytes of base and Delta after the run."""
    delta_rows: int = 0
    delta_bytes: int = 0
    source_time: str | None = None
    """The newest source time in the table, ISO 8601; null if unknown."""
    newest_folder: str | None = None
    """The hour of the newest ingested folder; null if folders name none."""
    files_quarantined: int = 0
    """Files of this run that went to quarantine, whole or with some records."""
    archived: int = 0
    """Raw files moved to the archive."""
    seconds: float = 0.0
    """Duration of the run, without waiting for other tables."""
    notes: tuple[str, ...] = ()
    error: str | None = None
    """Message of the error; null unless `failed`, `blocked`, `later` or `stopped`."""
    error_class: str | None = None
    """Class of the error; null without one."""
    error_id: str | None = None
    """Id of the error, a heading of docs/errors.md; null without one."""
    exit_code: int = 0
    """Exit code that the error asks for."""
    ended_on: str | None = None
    """A digest of the new files on which Spark's JVM ended; null unless it did."""


@dataclass(frozen=True)
class RunRecord(TableReport):
    """What one run did with one table, when and how. Idle runs have no record."""

    id: str = ""
    verb: str = "run"
    """`run`, `replay`, `discard`, `reabsorb`, `restore`, `rebuild`, `adopt` or `reconcile`."""
    started: str = ""
    """When the run began, ISO 8601, UTC."""
    ended: str = ""
    """When the run ended, ISO 8601, UTC."""
    label: str = ""
    """The scheduler's name of the run."""
    program: str = ""
    phases: tuple[Phase, ...] = ()
    source_lag_seconds: float | None = None
    """Time from the newest source time to the end of the run; null if unknown."""
    landing_lag_seconds: float | None = None
    """Time from the beginning of the hour of the newest folder to the end of the run; null if folders name none."""
    failures: int = 0
    """How often runs have failed one after another, this one included; 0 if it did not fail."""
    failing_since: str | None = None
    """When the first of these runs ended, ISO 8601; null if it did not fail."""
    job: JobUsage | None = None
    """What the EMR job used, as this table's share; null for any other run, and until the job's bill is known."""
    comparison: Comparison | None = None
    """What was found, if the verb is `reconcile`; null for any other."""
    format: int = FORMAT
    """The version of this JSON format."""

    @property
    def shows_state(self) -> bool:
        """Return whether the run shows the state of the table. A command that an operator's mistake or Ctrl-C ended does not, nor a comparison."""
        return self.comparison is None and self.outcome != "stopped" and (self.verb == "run" or self.outcome not in FAILED)

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], place: str = "") -> RunRecord:
        """Return the record of a JSON object. Raises StateRefused for another format; `place` is for the message."""
        try:
            if raw["format"] != FORMAT:
                raise StateRefused(f"run record {place}: expected format {FORMAT}, found {raw['format']!r}")
            return of_json(cls, dict(raw))
        except (TypeError, KeyError, ValueError) as error:
            raise _damaged(place, error) from error

    @classmethod
    def from_bytes(cls, data: bytes, place: str = "") -> RunRecord:
        """Return the record of a stored JSON text. Raises StateRefused for damaged text and for another format."""
        try:
            raw = json.loads(data)
        except ValueError as error:
            raise _damaged(place, error) from error
        return cls.from_json(raw, place)


def _damaged(place: str, error: Exception) -> StateRefused:
    return StateRefused(f"run record {place} cannot be read: {error}. Delete the file; the table does not need it.")
