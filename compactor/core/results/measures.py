"""Measures: a few numbers after each run, for alarms (terraform/monitoring.tf).

FailedRuns         count     tables whose run failed
FreshnessSeconds   seconds   since the source time of the newest change in the table; for each table, and for all
BacklogSeconds     seconds   since the beginning of the oldest hour that waits in landing; 0 without any
QuarantinedFiles   count     files that are in quarantine, or have records there
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compactor.core.model import times

COUNT, SECONDS = "Count", "Seconds"


@dataclass(frozen=True)
class Measure:
    """One number at one time."""

    name: str
    """Its name, from the table above."""
    value: float
    """Its value."""
    unit: str
    """COUNT or SECONDS."""
    table: str | None = None
    """The table's name; None for a number about all tables."""


@dataclass(frozen=True)
class TableProgress:
    """How far a table is, for the measures."""

    table: str
    """The table's name."""
    source_time: str | None
    """The newest source time in the table, ISO 8601; None if unknown."""
    oldest_waiting: str | None
    """The oldest hour that waits in landing, ISO 8601; None without any."""
    quarantined: int
    """Files that are in quarantine, or have records there."""


def measures(failed: int, tables: Sequence[TableProgress], now: float) -> Iterator[Measure]:
    """Yield the numbers after a run of these tables. `now`: epoch seconds. A table without source time has no freshness."""
    yield Measure("FailedRuns", failed, COUNT)
    for each in tables:
        if each.source_time is not None:
            age = max(0.0, now - times.to_seconds(each.source_time))
            yield Measure("FreshnessSeconds", age, SECONDS)
            yield Measure("FreshnessSeconds", age, SECONDS, each.table)
        yield Measure("BacklogSeconds", max(0.0, now - times.to_seconds(each.oldest_waiting)) if each.oldest_waiting else 0.0, SECONDS)
        yield Measure("QuarantinedFiles", each.quarantined, COUNT)
