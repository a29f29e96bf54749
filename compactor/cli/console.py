"""What the command line shows: tables for people, JSON for programs, progress on stderr. No decisions here."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from compactor.app.schema import Checked, Foreseen, Synced
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.reports import Check, TablePlan, TableReport, TableStatus
from compactor.core.results.reports import Progress as Told
from compactor.core.schema.schema_history import Step
from compactor.core.sources.proposal import Proposal
from compactor.flows.land.ingest import Ingested
from compactor.flows.read.quarantine import QuarantinedFile

PLAIN_WIDTH = 250
"""Columns of a table that goes to a file or a pipe: nothing is cut for want of a terminal."""


def console(stream: TextIO | None = None) -> Console:
    """A console that never marks up what it is given."""
    stream = stream or sys.stdout
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=None if stream.isatty() else PLAIN_WIDTH)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """A table on stdout. A column named in `right` holds numbers."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*("" if cell is None else f"{cell:,}" if type(cell) is int else str(cell) for cell in row))
    console().print(shown)


def as_json(value: Any) -> None:
    """A JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def moment(text: str | None) -> str:
    """An ISO time to the second, as people read it."""
    return "" if text is None else text[:19].replace("T", " ")


# ---- reports ---------------------------------------------------------------------------------------------------------


def reports(found: Sequence[TableReport]) -> None:
    """What a run did, then everything that went wrong, in full."""
    columns = ("table", "outcome", "version", "did", "files", "events", "applied", "late", "rows ≤", "written", "seconds")
    rows = [
        (
            *(item.table, item.outcome, item.version, ", ".join(item.operations), item.files, item.counts.get("read", 0)),
            *(item.counts.get("applied", 0), item.counts.get("late", 0), item.rows, item.bytes_written, f"{item.seconds:.1f}"),
        )
        for item in found
    ]
    table(columns, rows, right=columns[2:3] + columns[4:])
    out = console()
    for item in found:
        for note in (*item.notes, *_remarks(item)):
            out.print(f"{item.table}: {note}", soft_wrap=True)
    complain([(item.table, item.outcome, item.error) for item in found if item.error])


def _remarks(item: TableReport) -> Iterator[str]:
    if item.ties:
        yield f"{item.ties:,} changes tied on every order column; the last in file order won"
    if item.unresolved:
        yield f"{item.unresolved:,} values were not sent by the source and nothing earlier tells them: null"


def complain(errors: Sequence[tuple[str, str, str | None]]) -> None:
    """Errors of tables, (table, outcome, text), on stderr."""
    if not errors:
        return
    out = console(sys.stderr)
    out.print(f"\n{len(errors)} table{'s' if len(errors) > 1 else ''} not done:", style="bold red")
    for name, outcome, text in errors:
        out.print(f"  {name} ({outcome}): {text}", soft_wrap=True)


def statuses(found: Sequence[TableStatus]) -> None:
    """Where tables stand."""
    columns = ("table", "version", "hour", "committed", "rows", "segments", "bytes", "delta rows", "join", "waiting", "quarantine", "publish")
    rows = [
        (
            *(item.table, item.version, moment(item.hour)[:16], moment(item.committed)),
            # With a Delta the number of live rows is known only to a query.
            f"≤ {item.rows:,}" if item.delta_rows else item.rows,
            *(item.segments, item.bytes, item.delta_rows, _join(item), _waiting(item), item.quarantined, item.publish),
        )
        for item in found
    ]
    table(columns, rows, right=("version", "rows", "segments", "bytes", "delta rows", "quarantine"))


def _join(item: TableStatus) -> str:
    share = 100 * item.delta_estimate // max(item.delta_limit, 1)
    return item.regime if item.regime == "none" else f"{item.regime} ({share} % of the limit)"


def _waiting(item: TableStatus) -> str:
    landed = f"{item.waiting_files} files, {item.waiting_bytes:,} bytes" if item.waiting_files else ""
    since = f" since {moment(item.oldest_waiting)[:16]}" if item.oldest_waiting else ""
    left = f"{item.pending_archive} to archive" if item.pending_archive else ""
    return ", ".join(part for part in (landed + since, left) if part) or "nothing"


def plans(found: Sequence[TablePlan]) -> None:
    """What a run would do."""
    out = console()
    for item in found:
        version = "nothing committed yet" if item.version is None else f"version {item.version}"
        out.print(f"{item.table} ({version})", style="bold")
        for step in item.steps:
            out.print(f"  {step}", soft_wrap=True)


def checks(found: Sequence[Check]) -> None:
    """What was verified."""
    table(("table", "check", "", "found"), [(item.table, item.name, "ok" if item.ok else "FAILED", item.detail) for item in found])


def snapshots(found: Sequence[Snapshot]) -> None:
    """A table's Snapshots."""
    columns = ("version", "time", "operation", "hour", "files", "events", "applied", "late", "rows", "bytes", "publish", "run")
    rows = [
        (
            *(item.version, moment(item.time), item.operation, moment(item.hour)[:16], len(item.inputs)),
            *(item.counts.get("read", 0), item.counts.get("applied", 0), item.counts.get("late", 0)),
            *(None if item.expired else item.rows, None if item.expired else item.size, "expired" if item.expired else item.publish, item.run),
        )
        for item in found
    ]
    table(columns, rows, right=("version", "files", "events", "applied", "late", "rows", "bytes"))


def snapshot_json(item: Snapshot) -> dict[str, Any]:
    """A Snapshot as programs want it: without its segments' ranges and files, which the Snapshot's own file has."""
    plain = ("table", "version", "parent", "uuid", "operation", "time", "run", "writer", "hour", "source_time", "counts", "ties")
    found = {name: getattr(item, name) for name in (*plain, "unresolved", "rows", "publish", "expired", "restored")}
    delta = {"rows": item.delta.rows, "tombstones": item.delta.tombstones, "bytes": item.delta.size} if item.delta else None
    inputs = [{"path": entry.path, "size": entry.size, "rows": entry.rows} for entry in item.inputs]
    columns = [{"name": field.name, "type": field.type} for field in item.schema.fields]
    more = {"bytes": item.size, "segments": len(item.segments), "delta": delta, "inputs": inputs, "columns": columns}
    return {**found, **more}


def proposed(found: Proposal, file: str) -> None:
    """Print what `init` wrote: a line per table, the keys to set, what was left out."""
    rows = []
    for item in found.tables:
        key = ", ".join(item.settings["key"]) or "none" if item.complete else "?"
        rows.append((item.name, key, " ".join(str(item.settings[name]) for name in ("envelope", "container") if name in item.settings), item.source))
    table(["table", "key", "envelope", "from"], rows)
    out = console()
    for source, reason in found.left_out:
        out.print(f"left out {source}: {reason}", soft_wrap=True)
    keyless = [item.name for item in found.tables if not item.complete]
    out.print(f"\n{file}: {len(found.tables)} tables" + (f"; set `key:` for {', '.join(keyless)}" if keyless else ""), soft_wrap=True)


def synced(found: Sequence[Synced]) -> None:
    """Statements, as they could be run; per table what they bring about."""
    out = console()
    for item in found:
        done = f"{len(item.statements)} statements" + ("" if item.applied else " to be run") if item.statements else "nothing to do"
        out.print(f"-- {item.table}: {item.state}, {done}", style="bold", soft_wrap=True)
        for statement in item.statements:
            out.print(f"{statement};\n", soft_wrap=True)


def schema_steps(found: Sequence[Step]) -> None:
    """The Snapshots that changed a schema."""
    out = console()
    for item in found:
        registry = f", {item.registered[0]} version {item.registered[1]}" if item.registered else ""
        out.print(f"version {item.version}, {moment(item.time)}{registry}", style="bold", soft_wrap=True)
        for change in item.changes:
            out.print(f"  {change.sentence}", soft_wrap=True)


def schema_foreseen(found: Foreseen) -> None:
    """What a declared schema changes."""
    out = console()
    known = [f"{said[0]} version {said[1]}" if said else "an unknown version" for said in (found.before, found.after)]
    out.print(f"{found.table}: from {known[0]} to {known[1]}", style="bold", soft_wrap=True)
    for change in found.registry:
        out.print(f"  {change.sentence}", soft_wrap=True)
    out.print("what a run would do:" if found.decisions else "no stored column is concerned", style="bold")
    for decision in found.decisions:
        out.print(f"  {decision.sentence}", soft_wrap=True)


def schema_checked(found: Checked) -> None:
    """Whether a schema may come next."""
    out = console()
    said = "may not follow" if found.problems else "may follow"
    out.print(f"{found.table}: the schema {said} in {found.subject}, whose level is {found.level}", style="bold", soft_wrap=True)
    for problem in found.problems:
        out.print(f"  {problem}", soft_wrap=True)
    out.print("what a run would do:" if found.decisions else "no stored column is concerned", style="bold")
    for decision in found.decisions:
        out.print(f"  {decision.sentence}", soft_wrap=True)


def held(found: Sequence[QuarantinedFile]) -> None:
    """What waits in quarantine."""
    rows = [(item.table, item.path, item.hour or "", "the file" if item.records is None else item.records, item.reason) for item in found]
    table(("table", "path", "hour", "records", "reason"), rows, right=("records",))


def ingested(found: Sequence[Ingested]) -> None:
    """What was landed of each topic."""
    rows = [(item.table, item.topic, item.records, item.files, item.behind) for item in found]
    table(("table", "topic", "records", "files", "behind"), rows, right=("records", "files", "behind"))


def reasons(found: Sequence[tuple[QuarantinedFile, dict[str, Any]]]) -> None:
    """What cannot be used of each file, record by record."""
    out = console()
    for item, told in found:
        out.print(f"{item.table}: {item.path}", style="bold")
        for entry in told["unusable"]:
            where = f"record {entry['record']}: " if "record" in entry else ""
            out.print(f"  {where}{entry['reason']}", soft_wrap=True)
            if entry.get("text"):
                out.print(f"    {entry['text']}", soft_wrap=True)
        more = told["records"] - len(told["unusable"])
        if more > 0:
            out.print(f"  and {more:,} more")
        out.print(f"  a replay reads {item.location or 'nothing: the file is gone'}; a repaired copy belongs at {item.repaired}", soft_wrap=True)


# ---- rows of a query -------------------------------------------------------------------------------------------------


def cells(row: str) -> list[tuple[str, str | None]]:
    """A JSON object as (column, text) pairs: strings bare, null as None, everything else as it was written.

    Numbers never become Python's, so that no digit is lost; two columns of one name stay two.

    >>> cells('{"a":1.50,"a":null,"b":[1,"x"],"c":"y"}')
    [('a', '1.50'), ('a', None), ('b', '[1,"x"]'), ('c', 'y')]
    """
    decode = json.JSONDecoder().raw_decode
    found: list[tuple[str, str | None]] = []
    at = 1
    while row[at] != "}":
        at += row[at] == ","
        name, at = decode(row, at)
        value, end = decode(row, at + 1)
        found.append((name, value if isinstance(value, str) or value is None else row[at + 1 : end]))
        at = end
    return found


def rows_as_json(rows: Iterable[str]) -> None:
    """One array of objects, written as the rows come."""
    sys.stdout.write("[")
    before = "\n"
    for row in rows:
        sys.stdout.write(before + row)
        before = ",\n"
    sys.stdout.write("\n]\n" if before == ",\n" else "]\n")


def rows_as_csv(columns: Sequence[str], rows: Iterable[str]) -> None:
    """A header and a line each; null is empty, an empty string is quoted."""
    if not columns:
        return
    sys.stdout.write(",".join(map(_csv_cell, columns)) + "\n")
    for row in rows:
        sys.stdout.write(",".join(_csv_cell(cell) for _, cell in cells(row)) + "\n")


def _csv_cell(cell: str | None) -> str:
    # Python's csv writer writes null and "" alike.
    if cell is None:
        return ""
    quote = cell == "" or any(char in cell for char in ',"\r\n') or cell != cell.strip()
    return '"' + cell.replace('"', '""') + '"' if quote else cell


def rows_as_text(columns: Sequence[str], rows: Iterable[str]) -> int:
    """A table of all rows; gives back how many."""
    found = [[cell if cell is not None else "null" for _, cell in cells(row)] for row in rows]
    if columns:
        table(columns, found)
    return len(found)


def objects_as_text(rows: Iterable[str]) -> None:
    """A table of JSON objects that all have the same names."""
    found = [cells(row) for row in rows]
    table([name for name, _ in found[0]] if found else [], [[cell if cell is not None else "null" for _, cell in row] for row in found])


# ---- progress --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress(total: int, quiet: bool = False) -> Iterator[Told]:
    """A Progress for `total` tables: bars with an ETA on a terminal, else a line per table; nothing when quiet."""
    if quiet:
        yield lambda name, step, share: None
    elif sys.stderr.isatty():
        with _Bars() as bars:
            yield bars.told
    else:
        yield _Lines(total).told


class _Bars:
    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]:<8}"))
        self._progress = Progress(
            *columns, TimeElapsedColumn(), TextColumn("eta"), TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def told(self, name: str, step: str, share: float) -> None:
        """A step of a table. A table that is done makes room for the next."""
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=1.0, step=step)
            self._progress.update(self._tasks[name], completed=share, step=step, visible=step != "done")


class _Lines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def told(self, name: str, step: str, share: float) -> None:
        """Print when a table is done, and how long the others may take."""
        if step != "done":
            return
        with self._lock:
            self._done += 1
            spent = time.monotonic() - self._began
            left = spent / self._done * (self._total - self._done)
            more = f", about {left:.0f} s left" if self._done < self._total else ""
            print(f"[{self._done}/{self._total}] {name} done after {spent:.0f} s{more}", file=sys.stderr, flush=True)
