"""What a deployment is watched by: a few numbers after each run, for alarms. Pure; terraform/monitoring.tf has alarms on them.

FailedRuns         count     tables whose run failed; 0 when none did
FreshnessSeconds   seconds   since the source's time of the newest absorbed change; of all tables, and of each
BacklogSeconds     seconds   since the beginning of the oldest hour that waits in landing; 0 when nothing does
QuarantinedFiles   count     files of which something waits in quarantine
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

COUNT, SECONDS = "Count", "Seconds"


@dataclass(frozen=True)
class Measure:
    """A number now. `table` is None for one that is about all tables."""

    name: str
    value: float
    unit: str
    table: str | None = None


@dataclass(frozen=True)
class Standing:
    """Where a table stands: ISO times (UTC without zone) or None."""

    table: str
    source_time: str | None
    oldest_waiting: str | None
    quarantined: int


def measures(failed: int, standings: Sequence[Standing], now: float) -> Iterator[Measure]:
    """The numbers after a run of these tables; `now` in epoch seconds. A table of which nothing is known has no freshness."""
    yield Measure("FailedRuns", failed, COUNT)
    for each in standings:
        if each.source_time is not None:
            age = max(0.0, now - _seconds(each.source_time))
            yield Measure("FreshnessSeconds", age, SECONDS)
            yield Measure("FreshnessSeconds", age, SECONDS, each.table)
        yield Measure("BacklogSeconds", max(0.0, now - _seconds(each.oldest_waiting)) if each.oldest_waiting else 0.0, SECONDS)
        yield Measure("QuarantinedFiles", each.quarantined, COUNT)


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
