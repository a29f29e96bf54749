"""Measures: the one list of figures about tables and runs. Alarms, dashboards and every sink are made from it.

A measure of a run has a value only after a run that did something; a measure of a table after every run, also an idle one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.measures.record import RunRecord
from compactor.core.model import times
from compactor.core.results.reports import TableStatus

COUNT, SECONDS, BYTES, PERCENT, NUMBER, TIME = "Count", "Seconds", "Bytes", "Percent", "None", "Time"
"""Units as CloudWatch names them; TIME is a moment in epoch seconds, which CloudWatch does not have."""

SUM, MAXIMUM = "Sum", "Maximum"


@dataclass(frozen=True)
class Measure:
    """One figure."""

    name: str
    """Name in CloudWatch."""
    unit: str
    """One of the units above."""
    statistic: str
    """How values of several tables become one: SUM or MAXIMUM."""
    text: str
    """What it measures."""
    by_table: bool = False
    """Whether CloudWatch also gets it for each table. Each such metric has a price of its own there."""

    @property
    def prometheus(self) -> str:
        """Return the name in Prometheus, such as `compactor_freshness_seconds`.

        >>> FRESHNESS.prometheus
        'compactor_freshness_seconds'
        """
        return "compactor_" + re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()


FAILED_RUNS = Measure("FailedRuns", COUNT, SUM, "Runs that failed; 0 if the table's last run did not")
FRESHNESS = Measure("FreshnessSeconds", SECONDS, MAXIMUM, "Time since the source time of the newest change in the table", by_table=True)
LANDING_LAG = Measure("LandingLagSeconds", SECONDS, MAXIMUM, "Time since the beginning of the newest ingested folder's hour")
BACKLOG = Measure("BacklogSeconds", SECONDS, MAXIMUM, "Time since the beginning of the oldest hour that waits in landing; 0 without any")
QUARANTINED = Measure("QuarantinedFiles", COUNT, MAXIMUM, "Files that are in quarantine, or have records there")
DELTA_SHARE = Measure("DeltaSharePercent", PERCENT, MAXIMUM, "Bytes of the Delta as a share of the table's bytes")
RUN_SECONDS = Measure("RunSeconds", SECONDS, MAXIMUM, "Duration of the run")
CPU_SECONDS = Measure("CpuSeconds", SECONDS, SUM, "CPU time of the process and its JVM in the run; without executors on a cluster")
EVENTS_READ = Measure("EventsRead", COUNT, SUM, "Events read in the run")
EVENTS_APPLIED = Measure("EventsApplied", COUNT, SUM, "Events that changed a row")
EVENTS_LATE = Measure("EventsLate", COUNT, SUM, "Events that came after a newer event of the same key had been ingested")
EVENTS_DUPLICATE = Measure("EventsDuplicate", COUNT, SUM, "Events that had been ingested before")
READ_BYTES = Measure("ReadBytes", BYTES, SUM, "Bytes of the landed files that the run read")
WRITTEN_BYTES = Measure("WrittenBytes", BYTES, SUM, "Bytes written to base, Delta, history and feed")
REWRITE_BYTES = Measure("RewriteBytes", BYTES, SUM, "Bytes that the run would have written if each commit rewrote the whole table")
VCPU_HOURS = Measure("VcpuHours", NUMBER, SUM, "vCPU-hours of the EMR job, as billed")
MEMORY_GB_HOURS = Measure("MemoryGbHours", NUMBER, SUM, "Memory-hours of the EMR job in GB, as billed")
COST = Measure("EstimatedCost", NUMBER, SUM, "Estimated cost of the EMR job, by the price table in the configuration")
SOURCE_TIME = Measure("SourceTimestampSeconds", TIME, MAXIMUM, "Source time of the newest change in the table; it stays true when runs stop")
RUN_TIME = Measure("RunTimestampSeconds", TIME, MAXIMUM, "When the table was last looked at")

MEASURES = (
    *(FAILED_RUNS, FRESHNESS, LANDING_LAG, BACKLOG, QUARANTINED, DELTA_SHARE),
    *(RUN_SECONDS, CPU_SECONDS, EVENTS_READ, EVENTS_APPLIED, EVENTS_LATE, EVENTS_DUPLICATE, READ_BYTES, WRITTEN_BYTES, REWRITE_BYTES),
    *(VCPU_HOURS, MEMORY_GB_HOURS, COST, SOURCE_TIME, RUN_TIME),
)
"""All measures, in the order of dashboards and documents."""


@dataclass(frozen=True)
class Value:
    """The value of a measure."""

    measure: Measure
    """The measure."""
    value: float
    """Its value."""
    table: str | None = None
    """The table's name; None for a value about all tables."""


@dataclass(frozen=True)
class TableMeasures:
    """The values of one table after a run, and the record of the run."""

    table: str
    """The table's name."""
    values: tuple[Value, ...]
    """At most one value a measure."""
    record: RunRecord | None = None
    """The run's record; None for an idle run."""


@dataclass(frozen=True)
class Measured:
    """What sinks get after a run."""

    now: float
    """When it was measured, in epoch seconds."""
    tables: tuple[TableMeasures, ...]
    """The values of each table."""
    events: tuple[dict[str, Any], ...] = ()
    """OpenLineage events; () if no sink takes them."""


def of_table(table: str, status: TableStatus | None, outcome: str, record: RunRecord | None, now: float) -> Iterator[Value]:
    """Yield the values of one table after a run. What is unknown has no value: a table without source time has no freshness.

    `status`: None if it could not be read; `now`: epoch seconds.
    """
    values: list[tuple[Measure, float | None]] = [(FAILED_RUNS, float(outcome in ("failed", "blocked")))]
    if status is not None:
        source = times.to_seconds(status.source_time) if status.source_time else None
        values += [
            (FRESHNESS, None if source is None else max(0.0, now - source)),
            (LANDING_LAG, _age(status.newest_folder, now)),
            (BACKLOG, _age(status.oldest_waiting, now) or 0.0),
            (QUARANTINED, status.quarantined),
            (DELTA_SHARE, 100 * status.delta_bytes / status.bytes if status.bytes else None),
            (SOURCE_TIME, source),
        ]
    if record is not None:
        events = record.events
        values += [
            (RUN_SECONDS, record.seconds),
            (CPU_SECONDS, record.cpu_seconds),
            (EVENTS_READ, events.get("read", 0)),
            (EVENTS_APPLIED, events.get("applied", 0)),
            (EVENTS_LATE, events.get("late", 0)),
            (EVENTS_DUPLICATE, events.get("duplicate", 0)),
            (READ_BYTES, record.bytes_read),
            (WRITTEN_BYTES, record.bytes_written),
            (REWRITE_BYTES, record.bytes_rewriting),
            *_of_job(record),
        ]
    for measure, value in (*values, (RUN_TIME, now)):
        if value is not None:
            yield Value(measure, float(value), table)


def of_job(record: RunRecord) -> tuple[Value, ...]:
    """Return the values that are known only after the EMR job has ended."""
    return tuple(Value(measure, value, record.table) for measure, value in _of_job(record) if value is not None)


def _of_job(record: RunRecord) -> list[tuple[Measure, float | None]]:
    job = record.job
    return [(VCPU_HOURS, job.vcpu_hours), (MEMORY_GB_HOURS, job.memory_gb_hours), (COST, job.cost)] if job else []


def _age(moment: str | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - times.to_seconds(moment))


def totals(values: Iterable[Value]) -> list[Value]:
    """Return one value for each measure over all tables: their sum or their maximum."""
    by_measure: dict[Measure, list[float]] = {}
    for each in values:
        by_measure.setdefault(each.measure, []).append(each.value)
    return [Value(measure, sum(several) if measure.statistic == SUM else max(several)) for measure, several in by_measure.items()]


def for_cloudwatch(tables: Sequence[TableMeasures]) -> list[Value]:
    """Return what CloudWatch gets: a total of each measure, and the values of single tables where the list says so."""
    values = [value for each in tables for value in each.values if value.measure.unit != TIME]
    return [*totals(values), *(value for value in values if value.measure.by_table)]
