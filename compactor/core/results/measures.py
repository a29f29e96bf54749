"""Measures: the one list of figures about tables and runs. Alarms, dashboards and every sink are made from it.

A measure of a run has a value only after a run that did something; a measure of a table after every run, also an idle one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactor.core.model import times
from compactor.core.results.record import RunRecord, TableReport
from compactor.core.results.reports import TableStatus

COUNT, SECONDS, BYTES, PERCENT, NUMBER, TIME = "Count", "Seconds", "Bytes", "Percent", "None", "Time"
"""Units as CloudWatch names them; TIME is a moment in epoch seconds, which CloudWatch does not have."""

SUM, MAXIMUM = "Sum", "Maximum"


@dataclass(frozen=True)
class Measure:
    name: str
    unit: str
    """One of the units above."""
    statistic: str
    """How values of several tables become one: SUM or MAXIMUM."""
    text: str
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
EVENTS_READ = Measure("EventsRead", COUNT, SUM, "Events read in the run")
EVENTS_APPLIED = Measure("EventsApplied", COUNT, SUM, "Events that changed a row")
EVENTS_LATE = Measure("EventsLate", COUNT, SUM, "Events that came after a newer event of the same key had been ingested")
EVENTS_DUPLICATE = Measure("EventsDuplicate", COUNT, SUM, "Events that had been ingested before")
READ_BYTES = Measure("ReadBytes", BYTES, SUM, "Bytes of the landed files that the run read")
WRITTEN_BYTES = Measure("WrittenBytes", BYTES, SUM, "Bytes written to base, Delta, history and feed")
REWRITE_BYTES = Measure("RewriteBytes", BYTES, SUM, "Bytes that the run would have written if each commit rewrote the whole table")
VCPU_HOURS = Measure("VcpuHours", NUMBER, SUM, "vCPU-hours of the EMR job, as billed")
MEMORY_GB_HOURS = Measure("MemoryGbHours", NUMBER, SUM, "Memory-hours of the EMR job in GB, as billed")
SOURCE_TIME = Measure("SourceTimestampSeconds", TIME, MAXIMUM, "Source time of the newest change in the table; it stays true when runs stop")
RUN_TIME = Measure("RunTimestampSeconds", TIME, MAXIMUM, "When the table was last looked at")

MEASURES = (
    *(FAILED_RUNS, FRESHNESS, LANDING_LAG, BACKLOG, QUARANTINED, DELTA_SHARE),
    *(RUN_SECONDS, EVENTS_READ, EVENTS_APPLIED, EVENTS_LATE, EVENTS_DUPLICATE, READ_BYTES, WRITTEN_BYTES, REWRITE_BYTES),
    *(VCPU_HOURS, MEMORY_GB_HOURS, SOURCE_TIME, RUN_TIME),
)
"""All measures, in the order of dashboards and documents."""


@dataclass(frozen=True)
class TableMeasures:
    """The values of one table after a run. What is unknown has no value: a table without source time has no freshness."""

    table: str
    values: Mapping[Measure, float]
    """In the order of MEASURES."""
    record: RunRecord | None = None
    """The run's record; None for an idle run."""


def of_table(status: TableStatus | None, report: TableReport, now: float) -> TableMeasures:
    """Measure a table after a run. `status`: None if it could not be read; `now`: epoch seconds."""
    values: dict[Measure, float | None] = {FAILED_RUNS: float(report.outcome in ("failed", "blocked")), RUN_TIME: now}
    if status is not None:
        source = times.to_seconds(status.source_time) if status.source_time else None
        values |= {
            FRESHNESS: None if source is None else max(0.0, now - source),
            LANDING_LAG: _age(status.newest_folder, now),
            BACKLOG: _age(status.oldest_waiting, now) or 0.0,
            QUARANTINED: status.quarantined,
            DELTA_SHARE: 100 * status.delta_bytes / status.bytes if status.bytes else None,
            SOURCE_TIME: source,
        }
    record = report if isinstance(report, RunRecord) else None
    if record is not None:
        values |= {
            RUN_SECONDS: record.seconds,
            **{measure: record.counts.get(name, 0) for name, measure in _EVENTS.items()},
            READ_BYTES: record.bytes_read,
            WRITTEN_BYTES: record.bytes_written,
            REWRITE_BYTES: record.bytes_rewriting,
            VCPU_HOURS: record.job.vcpu_hours if record.job else None,
            MEMORY_GB_HOURS: record.job.memory_gb_hours if record.job else None,
        }
    return TableMeasures(report.table, {each: float(value) for each in MEASURES if (value := values.get(each)) is not None}, record)


_EVENTS = {"read": EVENTS_READ, "applied": EVENTS_APPLIED, "late": EVENTS_LATE, "duplicate": EVENTS_DUPLICATE}
"""Outcome of events → measure of their number."""


def _age(moment: str | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - times.to_seconds(moment))


def for_cloudwatch(tables: Sequence[TableMeasures]) -> list[tuple[Measure, str | None, float]]:
    """Return what CloudWatch gets: a total of each measure (table None), and the values of single tables where the list says so."""
    values: dict[Measure, dict[str, float]] = {}
    for each in tables:
        for measure, value in each.values.items():
            if measure.unit != TIME:
                values.setdefault(measure, {})[each.table] = value
    totals = [(measure, None, (sum if measure.statistic == SUM else max)(several.values())) for measure, several in values.items()]
    return [*totals, *((measure, table, value) for measure, several in values.items() if measure.by_table for table, value in several.items())]
