"""Run: resume, commit, publish, archive, compact if due - for one table."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from compactor.core.model.edit import SAME_ROWS
from compactor.core.model.errors import UNEXPECTED, CompactorError, Conflict, Stopped, TryLater
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning import compaction
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.core.schema.schema_history import became_text, differences
from compactor.flows.land import discover
from compactor.flows.publish import archive, audit, shown
from compactor.flows.publish.landing import sync_landing
from compactor.flows.publish.publish import publish
from compactor.flows.publish.sync import resume
from compactor.flows.read.check import missing
from compactor.flows.record import Recorder
from compactor.flows.table import Table, listed
from compactor.flows.transact import ATTEMPTS, days_end, freeze
from compactor.flows.write import commit, rebuild
from compactor.flows.write.compact import Spending, compact, due, with_values

log = logging.getLogger(__name__)

_INGESTING = ("commit", "replay", "reabsorb")
"""Operations whose inputs are new. A rebuild counts old events again; a restore and an adoption do not read their inputs."""

Ingest = Callable[[Optional[Snapshot]], Optional[Snapshot]]
"""Ingests into the newest Snapshot, which it is given as far as it is known; returns the new one."""


def look_at(table: Table) -> TableReport | int:
    """Return the report of a run that has nothing to do, or about how many bytes a run has to read. Raises what landing is refused for."""
    current = table.newest()
    written = 0 if current is None else current.bytes_written
    if current is not None:
        state = shown.recall(table, current)
        if state is None or archive.unfinished(listed(table), current.pending):
            return written
        if days_end(table, current):
            return written
        if state.compacted < current.version and due(table, current):
            return sum(segment.size for segment in current.segments)
    landing = discover.landing(table, current)
    if landing.new:
        return written + landing.size
    return report_of(table, current, current, (), False, (*landing.notes, *_not_compacted(table, current, ())))


def failure(table: str, error: Exception) -> TableReport:
    """Return the report of a table that could not be brought up to date. An unexpected error is logged, and fails this table only."""
    if not isinstance(error, CompactorError):
        kind = type(error).__name__
        log.error("table %s: unexpected %s", table, kind, exc_info=error)
        return TableReport(table, "failed", error=f"unexpected {kind}: {error}", error_class=kind, error_id=UNEXPECTED, exit_code=1)
    outcome = "stopped" if isinstance(error, Stopped) else "later" if isinstance(error, TryLater) else "failed"
    return TableReport(table, outcome, error=str(error), error_class=type(error).__name__, error_id=error.id, exit_code=error.exit_code)


@dataclass
class Committed:
    """A table after the first part of its run."""

    table: Table
    before: Snapshot | None
    current: Snapshot | None = None
    resumed: bool = False
    made: list[Snapshot] = field(default_factory=list)
    compaction_due: bool = False
    """Whether to look for Segments worth compacting."""
    seconds: float = 0.0


def run_table(table: Table) -> TableReport:
    """Run one table. Any step may have been done by an earlier, interrupted run; the rest is done now."""
    return finish_table(commit_table(table), Spending())


def commit_table(table: Table) -> Committed:
    """Finish an interrupted run, and ingest, publish and archive what has landed: the first part of a run."""
    began = time.monotonic()
    table.step("discover", 0.0)
    before = current = table.newest()
    step = Committed(table, before)
    if current is not None:
        shows = with_values(table, current)
        step.made += [shows] if shows.version > current.version else []
        current, step.resumed = resume(table, shows)

    def ingest() -> Snapshot | None:
        return ingested(table, current, lambda newest: commit.commit(table, newest), step.made)

    committed = first = ingest()
    while committed:
        step.made.append(committed)
        current = committed
        publish_and_archive(table, current)
        full = len(committed.inputs) >= commit.FILES_MAX
        committed = ingest() if full else None
    if not step.made and current is not None and (frozen := freeze(table, current)):
        step.made.append(frozen)
        current = frozen
        publish_and_archive(table, current)
    if not first and table.superseded_since(current) and (newest := table.newest()) is not None:
        # another run ingested what we found; if it has died since, its work is finished here
        current, step.resumed = resume(table, newest)
    step.current, step.compaction_due = current, current is not None and due(table, current)
    step.seconds = time.monotonic() - began
    return step


def finish_table(step: Committed, spending: Spending) -> TableReport:
    """Compact if due, and bring the landing table up to date: the second part of a run. `spending`: that of all tables of the run."""
    table, current, made, worthless, waiting = step.table, step.current, step.made, False, None
    if current is not None and step.compaction_due and not (made and table.env.stop.requested):
        compacted, waiting = compact(table, current, spending)
        worthless = compacted is None and waiting is None
        if compacted:
            made.append(compacted)
            current = compacted
            publish_and_archive(table, current)
    notes: tuple[str, ...] = ()
    if current is not None:
        waiting = waiting or compaction.waits(table.spec, current, table.env.clock())
        blocked = audit.blocked(table, current)
        if blocked is not None:
            return blocked_report(report_of(table, step.before, current, made, step.resumed, _noted(waiting)), blocked)
        folders, notes = _shown_landing(table, current) if made or step.resumed or table.spec.live_view else ([], ())
        notes = (*notes, *shown.remember(table, current, folders, compacted=worthless))
        notes = notes if waiting else (*notes, *_not_compacted(table, current, made))
    return report_of(table, step.before, current, made, step.resumed, (*notes, *_noted(waiting)))


def _not_compacted(table: Table, current: Snapshot | None, made: Sequence[Snapshot]) -> tuple[str, ...]:
    if current is None or not table.spec.compact_now or any(snapshot.operation == "compact" for snapshot in made):
        return ()
    return (compaction.nothing_worth(table.spec, current),)


def _noted(sentence: str | None) -> tuple[str, ...]:
    return () if sentence is None else (sentence,)


def blocked_report(report: TableReport, reason: str) -> TableReport:
    return dataclasses.replace(report, outcome="blocked", error=reason, error_class="CheckFailed", error_id=audit.Blocked.id, exit_code=1)


def failed_early(table: Table, error: CompactorError) -> TableReport:
    """Return the report of a run that failed before it looked at its table, and write its run record."""
    return Recorder(table, "run").recorded(failure(table.name, error))


def ingested(table: Table, newest: Snapshot | None, ingest: Ingest, made: list[Snapshot]) -> Snapshot | None:
    """Ingest. If numbers become text, first read the table's raw files again, and add the version that this makes to `made`."""
    for _ in range(ATTEMPTS):
        try:
            committed = ingest(newest)
        except commit.BecomesText as change:
            newest = rebuild.as_text(table, change.columns)
            if newest is not None:
                made.append(newest)
                publish_and_archive(table, newest)
        else:
            return committed and _adopted_as_text(table, newest, committed, made)
    # each time somebody rebuilt the table from files that hold numbers only
    raise Conflict(f"table {table.name}: its numbers were read again as text {ATTEMPTS} times, and other writers undid it. Run again.")


def _adopted_as_text(table: Table, before: Snapshot | None, committed: Snapshot, made: list[Snapshot]) -> Snapshot:
    """Read the raw files of an adopted table again if this commit made text of its numbers: 99 had become 99.0 beside 1.5.

    Not before the commit: its adopted rows are in no raw file, and become text as they are stored when they meet the first text.
    """
    texts = became_text(before.schema, committed.schema) if before else {}
    if not texts or table.adopted() is None:
        return committed
    try:
        rebuilt = rebuild.as_text(table, texts)
    except CompactorError as error:
        again = f"`compactor rebuild {table.name} --accept-differences` reads them again"
        table.notes.append(f"{', '.join(texts)}: earlier values are text as they were stored, such as 99.0 for 99; {again} ({error})")
        return committed
    made.append(committed)
    return rebuilt or committed


def _shown_landing(table: Table, current: Snapshot) -> tuple[list[str], tuple[str, ...]]:
    """Bring the landing table up to date. Return its folders, and notes. Only a live view that was asked for is worth failing for."""
    try:
        return sync_landing(table, current)
    except CompactorError as error:
        if table.spec.live_view:
            raise
        return [], (f"the table of landed files was not updated: {error}",)


def publish_and_archive(table: Table, snapshot: Snapshot) -> None:
    """Show a version unless its checks block it, and archive what it ingested."""
    table.step("publish", 0.85)
    with contextlib.suppress(audit.Blocked):
        # committed, and reported at the end of the run
        publish(table, snapshot)
    table.step("archive", 0.95)
    archive.archive(table, snapshot)


def report_of(
    table: Table, before: Snapshot | None, current: Snapshot | None, made: Sequence[Snapshot], resumed: bool, notes: tuple[str, ...]
) -> TableReport:
    """Return the report of a run from the versions that it made, and the newest ones before and after it."""
    outcome = "committed" if made else "resumed" if resumed else "idle"
    # a run looks at landing more than once, and a commit that another run's overtook was planned again
    notes = (*dict.fromkeys((*table.notes, *notes)),)
    if current is None:
        return TableReport(table.name, outcome, notes=(missing(table) or f"no file below {table.spec.landing} is ready to be ingested", *notes))
    if before is not None:
        notes = (*notes, *(change.sentence for change in differences(before.schema, current.schema) if change.kind != "comment"))
    elif table.spec.evidence:
        notes = (f"new table: {table.spec.evidence}", *notes)
    ingested = [snapshot for snapshot in made if snapshot.operation in _INGESTING]
    inputs = [item for snapshot in ingested for item in snapshot.inputs]
    counts = {name: sum(snapshot.counts.get(name, 0) for snapshot in ingested) for snapshot in ingested for name in snapshot.counts}
    unusable = sum(item.outcome == "quarantined" for item in inputs)
    records = counts.get("quarantined", 0) + counts.get("beyond_retention", 0)
    if unusable or records:
        what = " and ".join(counted(number, noun) for number, noun in ((unusable, "file"), (records, "record")) if number)
        notes = (*notes, f"{what} cannot be used and went to quarantine: compactor quarantine {table.name}")
    delta = current.delta
    return TableReport(
        table.name,
        outcome,
        current.version,
        tuple(f"{item.operation} {item.version}" for item in made),
        files=len(inputs),
        counts=counts,
        rows=current.rows,
        ties=sum(snapshot.ties for snapshot in ingested),
        unresolved=sum(snapshot.unresolved for snapshot in ingested),
        before=before.version if before else None,
        bytes_read=sum(item.size for item in inputs),
        bytes_written=sum(item.bytes_written for item in made),
        # compactions and days belong to our way of writing only
        bytes_rewriting=sum(snapshot.size for snapshot in made if snapshot.operation not in SAME_ROWS),
        bytes_stored=current.size,
        delta_rows=delta.rows if delta else 0,
        delta_bytes=delta.size if delta else 0,
        source_time=current.source_time,
        newest_folder=current.hour,
        files_quarantined=sum(item.in_quarantine for item in inputs),
        archived=len(inputs) if table.spec.archive == "move" else 0,
        notes=notes,
    )
