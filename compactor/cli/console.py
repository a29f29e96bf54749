"""Output of the command line: reports for people and programs, progress on stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from compactor.cli import grid
from compactor.cli.grid import coloured, console, moment, print_message, size, table, warned
from compactor.core.model.errors import UNEXPECTED, see
from compactor.core.model.snapshot import Snapshot
from compactor.core.reconcile.report import EQUAL
from compactor.core.results import summary
from compactor.core.results.checks import REMARKS, Check
from compactor.core.results.explained import COLUMNS, FRAMES, PASSES, SHORT, Explained
from compactor.core.results.phrases import counted, visible, without_table
from compactor.core.results.record import RunRecord, TableReport
from compactor.core.results.reports import Progress as ProgressCallback
from compactor.core.results.reports import TablePlan, TableStatus
from compactor.core.sources.proposal import Proposal
from compactor.flows import logs
from compactor.flows.land.ingest import Ingested
from compactor.flows.read.quarantine import QuarantinedFile

log = logging.getLogger(__name__)

_LATE_MAX = 10
"""Late tables whose reason `status` shows."""


def as_json(value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # half a character, such as a record may have in a name, has no UTF-8
    print(re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text))


def clear(about: str) -> None:
    """Clear the terminal, and print the time in UTC and `about`. In a file or a pipe, pictures follow each other."""
    out = console()
    if sys.stdout.isatty():
        out.clear()
    out.print(f"{time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime())}, {about}", style="dim", soft_wrap=True)


# ---- reports ---------------------------------------------------------------------------------------------------------


def reports(reports: Sequence[TableReport], whole: bool = True) -> None:
    """Print one line a table, then notes, then all errors in full. Unless `whole`, of many tables only those that need somebody."""
    reports, rest = summary.reports(reports, whole)
    columns = ("table", "outcome", "version", "action", "files", "events", "rows changed", "late", "max rows", "bytes written", "seconds")
    rows = [
        (
            *(item.table, coloured(item.outcome), item.version, ", ".join(item.operations), item.files, item.counts.get("read", 0)),
            *(item.counts.get("applied", 0), item.counts.get("late", 0), item.rows, size(item.bytes_written), f"{item.seconds:.1f}"),
        )
        for item in reports
    ]
    if rows or not rest:
        table(columns, rows, right=columns[2:3] + columns[4:], optional=("version", "max rows", "late", "bytes written", "events"))
    grid.rest(rest)
    out = console()
    for item in reports:
        for note in (*item.notes, *_remarks(item)):
            out.print(f"{item.table}: {visible(note)}", soft_wrap=True)
    print_errors([item for item in reports if item.error])


def _remarks(item: TableReport) -> Iterator[str]:
    if item.ties:
        yield f"{item.ties:,} changes had equal values in all order columns; the last one in file order won"
    if item.unresolved:
        yield f"{item.unresolved:,} values were not sent by the source and are in no event of their rows so far; they are null"


def print_errors(errors: Sequence[TableReport]) -> None:
    """Print the errors in these reports on stderr, and for each kind of error once where it is explained."""
    if not errors:
        return
    out = console(sys.stderr)
    done = ("was" if len(errors) == 1 else "were") + " stopped" if {error.outcome for error in errors} == {"stopped"} else "failed"
    out.print(f"\n{counted(len(errors), 'table')} {done}:", style="bold red")
    for error in errors:
        text = visible(without_table(error.table, error.error or ""))
        out.print(f"  {error.table} ({error.outcome}, {error.error_id or UNEXPECTED}): {text}", soft_wrap=True)
    for each in dict.fromkeys(error.error_id or UNEXPECTED for error in errors):
        out.print(see(each), soft_wrap=True)


def statuses(statuses: Sequence[TableStatus], wide: bool = False, folders: Sequence[str] = ()) -> None:
    """Print the state of tables, of many only those that need somebody, and lines about landed `folders`. Times are UTC."""
    statuses, rest = summary.statuses(statuses, wide)
    columns = (
        *("table", "version", "newest folder", "committed (UTC)", "max rows", "segments", "size", "delta rows"),
        *("read strategy", "waiting", "waiting since", "quarantine", "whole to"),
    )
    rows = [
        (
            *(item.table, item.version, moment(item.newest_folder)[:16], moment(item.committed)[:16]),
            # with a Delta only a query can count the rows exactly
            *(item.rows, item.segments, size(item.bytes), item.delta_rows, _read_strategy(item), _waiting(item)),
            *(moment(item.oldest_waiting)[:16], warned(item.quarantined), moment(item.whole_to)[:16] or "not known"),
        )
        for item in statuses
    ]
    optional = ("read strategy", "segments", "delta rows", "whole to", "newest folder", "waiting since", "version", "size")
    if rows:
        table(columns, rows, ("version", "max rows", "segments", "size", "delta rows", "quarantine"), optional, wide)
    grid.rest(rest)
    for line in folders:
        print_message(line)
    late = [item.table for item in statuses if item.late]
    named = late if wide else late[:_LATE_MAX]
    for item in statuses:
        if wide and item.whole_note:
            print_message(
                f"{item.table}: hours {f'from {moment(item.whole_to)[:16]} on ' if item.whole_to else ''}not known to be whole: {item.whole_note}"
            )
        if wide and item.compaction:
            print_message(f"{item.table}: {item.compaction}")
        if item.table in named:
            print_message(f"{item.table}: {item.late}")
        if item.unusable_files:
            print_message(f"{item.table}: {item.unusable_files}")
        if item.blocked:
            print_message(item.blocked)
    if len(late) > len(named):
        print_message(f"and {counted(len(late) - len(named), 'more table')} like these (--verbose shows all)")
    for item in statuses:
        failing(item.last_run)
        last = item.last_comparison
        if last is not None and last.comparison is not None and (wide or last.outcome != EQUAL):
            comparison = last.comparison
            text = f"{item.table}: compared with {comparison.source} at {moment(last.ended)} (version {last.version}): {last.outcome}"
            console().print(f"{text}; {comparison.summary}", soft_wrap=True)


def failing(last: RunRecord | None) -> None:
    """Print that the last run of a table failed, and since when its runs fail."""
    if last is None or not last.failures:
        return
    times = f"failed {last.failures:,} times since {moment(last.failing_since)}, last" if last.failures > 1 else "failed"
    text = visible(without_table(last.table, last.error or ""))
    console().print(f"{last.table}: {times} at {moment(last.ended)} ({last.error_class}): {text}\n{see(last.error_id or UNEXPECTED)}", soft_wrap=True)


def _read_strategy(item: TableStatus) -> str:
    share = 100 * item.delta_estimate // max(item.delta_limit, 1)
    return item.read_strategy if item.read_strategy == "base-only" else f"{item.read_strategy} ({share} % of the limit)"


def _waiting(item: TableStatus) -> str:
    landed = f"{counted(item.waiting_files, 'file')}, {size(item.waiting_bytes)}" if item.waiting_files else ""
    left = f"{item.pending_archive} to archive" if item.pending_archive else ""
    return ", ".join(part for part in (landed, left) if part) or "nothing"


def plans(plans: Sequence[TablePlan], verbose: bool = False) -> None:
    """Print what a run would do, and problems. `verbose`: also passed checks, and of many tables those without problems."""
    out = console()
    shown, rest = summary.plans(plans, verbose)
    for item in shown:
        version = "nothing committed yet" if item.version is None else f"version {item.version}"
        out.print(f"{item.table} ({version})" if item.table else "landed folders", style="bold")
        for step in item.steps:
            out.print(f"  {visible(step)}", soft_wrap=True)
        for check in item.checks:
            if not check.ok:
                out.print(f"  problem: {visible(check.detail)}", style="red", soft_wrap=True)
            elif verbose or check.name in REMARKS:
                out.print(f"  {check.name}: {visible(check.detail)}", soft_wrap=True)
        if item.table and not item.problems and not verbose and item.checks:
            out.print(f"  the configuration fits the files ({', '.join(check.name for check in item.checks)})", style="dim", soft_wrap=True)
    grid.rest(rest)


def explained(made: Explained) -> None:
    """Print the steps of a batch, its passes with their SQL, and where the numbers of a report come from."""
    out = console()
    what = f"version {made.version}" if made.committed else f"would make version {made.version}"
    out.print(
        f"{made.table}: {counted(made.files, 'file')}, {made.size:,} bytes, {counted(made.read, 'event')}; {what}", style="bold", soft_wrap=True
    )
    for step, why in made.steps:
        out.print(f"  {step}: {visible(why)}", soft_wrap=True)
    for each in made.passes:
        out.print(f"\npass {each.name}: {PASSES.get(each.name, '')}", style="bold", soft_wrap=True)
        meanings = {f"{{{name}}}": meaning for name, meaning in FRAMES.items()} | {f"{name}(": meaning for name, meaning in SHORT.items()} | COLUMNS
        for name, meaning in meanings.items():
            if name in each.sql:
                out.print(f"  {name.replace('(', '(..)')}: {meaning}", style="dim", soft_wrap=True)
        out.print(visible(each.sql, keep="\n"), soft_wrap=True, highlight=False, markup=False)
    out.print("\nnumbers of the report", style="bold")
    for name, source in made.numbers:
        out.print(f"  {name}: {source}", soft_wrap=True)


def checks(checks: Sequence[Check], whole: bool = True) -> None:
    """Print the results of verify. Unless `whole`, of many tables only what failed."""
    shown, rest = summary.checks(checks, whole)
    rows = [(item.table, item.name, coloured("ok" if item.ok else "FAILED"), item.detail) for item in shown]
    if rows:
        table(("table", "check", "result", "details"), rows)
    grid.rest(rest)


def snapshots(snapshots: Sequence[Snapshot], last: RunRecord | None = None, wide: bool = False) -> None:
    """Print a table's Snapshots, and that its last run failed. Times are UTC."""
    columns = ("version", "time (UTC)", "action", "newest folder", "files", "events", "rows changed", "late", "max rows", "size", "run")
    rows = [
        (
            *(item.version, moment(item.time), f"{item.operation} (expired)" if item.expired else item.operation),
            *(moment(item.hour)[:16], len(item.inputs)),
            *(item.counts.get("read", 0), item.counts.get("applied", 0), item.counts.get("late", 0)),
            *(None if item.expired else item.rows, None if item.expired else size(item.size), item.run),
        )
        for item in snapshots
    ]
    optional = ("run", "newest folder", "size", "late", "max rows")
    table(columns, rows, ("version", "files", "events", "rows changed", "late", "max rows", "size"), optional, wide, "nothing committed yet")
    failing(last)


def snapshot_json(item: Snapshot) -> dict[str, Any]:
    """Return a Snapshot as plain JSON values, without the files and key ranges of its segments."""
    plain = ("table", "version", "parent", "uuid", "operation", "time", "run", "writer", "hour", "source_time", "counts", "ties")
    values = {name: getattr(item, name) for name in (*plain, "unresolved", "rows", "expired", "restored")}
    delta = {"rows": item.delta.rows, "tombstones": item.delta.tombstones, "bytes": item.delta.size} if item.delta else None
    inputs = [{"path": entry.path, "size": entry.size, "rows": entry.rows} for entry in item.inputs]
    columns = [{"name": field.name, "type": field.type} for field in item.schema.fields]
    more = {"bytes": item.size, "segments": len(item.segments), "delta": delta, "inputs": inputs, "columns": columns}
    return {**values, **more}


def proposed(proposal: Proposal, file: str) -> None:
    """Print what `init` wrote: a line per table, the keys to set, what was left out."""
    rows = []
    for item in proposal.tables:
        guessed = " (inferred, verify it)" if item.key_from.startswith("inferred") else ""
        key = (", ".join(item.settings["key"]) or "none") + guessed if "key" in item.settings else "?"
        rows.append((item.name, key, " ".join(str(item.settings[name]) for name in ("envelope", "container") if name in item.settings), item.source))
    table(["table", "key", "envelope", "from"], rows)
    out = console()
    for source, reason in proposal.left_out:
        out.print(f"left out {source}: {reason}", soft_wrap=True)
    todo = proposal.todo or "next: `compactor plan`, `compactor run`"
    out.print(f"\n{file}: {counted(len(proposal.tables), 'table')}; {todo}", soft_wrap=True)


def quarantined(files: Sequence[QuarantinedFile]) -> None:
    rows = [(item.table, item.path, item.hour or "", "the file" if item.records is None else item.records, item.reason) for item in files]
    table(("table", "path", "folder time", "records", "reason"), rows, right=("records",), empty="nothing is in quarantine")


def ingested(topics: Sequence[Ingested]) -> None:
    rows = [(item.table, item.topic, item.records, item.files, item.behind) for item in topics]
    table(("table", "topic", "records", "files", "behind"), rows, right=("records", "files", "behind"))


def reasons(files: Sequence[tuple[QuarantinedFile, dict[str, Any]]]) -> None:
    out = console()
    for item, content in files:
        out.print(f"{item.table}: {visible(item.path)}", style="bold")
        for entry in content["unusable"]:
            where = f"record {entry['record']}: " if "record" in entry else ""
            out.print(f"  {where}{visible(entry['reason'])}", soft_wrap=True)
            if entry.get("text"):
                out.print(f"    {visible(entry['text'])}", soft_wrap=True)
        more = content["records"] - len(content["unusable"])
        if more > 0:
            out.print(f"  and {more:,} more")
        there = visible(item.location or "nothing: the file no longer exists")
        out.print(f"  a replay reads {there}; put a repaired copy at {visible(item.repaired)}", soft_wrap=True)
        question, option = ("without events?", "") if item.records is None else ("nobody needs them?", " --records")
        out.print(f"  {question} compactor quarantine {item.table} {visible(item.path)} --discard{option}", soft_wrap=True)


# ---- progress --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(total: int, quiet: bool = False) -> Iterator[ProgressCallback]:
    """Return a progress callback for `total` tables: bars on a terminal unless `quiet`, else one line of the log a table."""
    if not sys.stderr.isatty():
        yield _Lines(total).update
    elif quiet:
        yield lambda name, step, share: None
    else:
        with _Bars(total) as bars:
            yield bars.update


SPARK = "Spark"
"""The bar of Spark's start, beside those of the tables."""


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Show that Spark starts: on a terminal beside the bars of the tables if there are any, else in the log."""
    if _Bars.current:
        _Bars.current.update(SPARK, "starting", 0.0)
        yield
        _Bars.current.update(SPARK, "done", 1.0)
    elif sys.stderr.isatty():
        columns = (TextColumn("Starting Spark"), SpinnerColumn("line"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            shown.add_task("Spark", total=None)
            yield
    else:
        began = time.monotonic()
        log.info("starting Spark")
        yield
        log.info("started Spark in %.1f s", time.monotonic() - began)


class _Bars:
    current: _Bars | None = None

    def __init__(self, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]:<8}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._total, self._done, self._began = total, 0, time.monotonic()
        # a table's own steps take too different times for an estimate; the tables that are done allow one
        self._all = self._progress.add_task(f"0 of {counted(total, 'table')}", total=total, step="")

    def __enter__(self) -> _Bars:
        self._progress.start()
        _Bars.current = self
        return self

    def __exit__(self, *_: object) -> None:
        _Bars.current = None
        self._progress.stop()

    def update(self, name: str, step: str, share: float) -> None:
        """Show a step of a table. The bar of a finished table disappears."""
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=1.0, step=step)
            self._progress.update(self._tasks[name], completed=share, step=step, visible=step != "done")
            if step == "done" and name != SPARK:
                self._done += 1
                left = _left(self._began, self._done, self._total)
                self._progress.update(self._all, completed=self._done, description=f"{self._done} of {counted(self._total, 'table')}{left}")


class _Lines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def update(self, name: str, step: str, share: float) -> None:
        """Log that a table is done, with an estimate for the others."""
        if step != "done":
            return
        with self._lock:
            self._done += 1
            spent, left = time.monotonic() - self._began, _left(self._began, self._done, self._total)
            fields = {logs.FIELDS: {"table": name, "done": self._done, "tables": self._total}}
            log.info("%s: done after %.0f s, %d of %s%s", name, spent, self._done, counted(self._total, "table"), left, extra=fields)


def _left(began: float, done: int, total: int) -> str:
    """Return an estimate for the tables that are not done, "" if all are. `began`: seconds of the monotonic clock."""
    return f", about {(time.monotonic() - began) / done * (total - done):.0f} s left" if done < total else ""
