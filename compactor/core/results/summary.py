"""What a screen of many tables shows: what needs somebody is shown, the rest is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from compactor.core.reconcile.report import DIFFERENT
from compactor.core.results.checks import Check
from compactor.core.results.phrases import counted
from compactor.core.results.record import TableReport
from compactor.core.results.reports import TablePlan, TableStatus

FEW = 10
"""Up to so many tables every one is shown."""


class OfTable(Protocol):
    """A result that belongs to a table."""

    @property
    def table(self) -> str:
        """Return the table's name."""


_T = TypeVar("_T", bound=OfTable)


def parted(items: Sequence[_T], needs_somebody: Callable[[_T], bool], whole: bool) -> tuple[list[_T], list[_T]]:
    """Return what to show and what to count. Of few tables everything is shown; of many what needs somebody, with `whole` the others after it."""
    if len({item.table for item in items}) <= FEW:
        return [*items], []
    needing, others = [item for item in items if needs_somebody(item)], [item for item in items if not needs_somebody(item)]
    return ([*needing, *others], []) if whole else (needing, others)


def reports(items: Sequence[TableReport], whole: bool) -> tuple[list[TableReport], str]:
    shown, rest = parted(items, _report_needs_somebody, whole)
    counts = Counter(f"{item.outcome}{' with a note' if item.notes else ''}" for item in rest)
    return shown, ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())


def plans(items: Sequence[TablePlan], whole: bool) -> tuple[list[TablePlan], str]:
    shown, rest = parted(items, lambda item: bool(item.problems or item.remarks), whole)
    busy, files = [item for item in rest if item.steps != ("nothing to do",)], sum(len(item.landing.new) for item in rest)
    working = f"{len(busy):,} with work, {counted(files, 'new file')}" if busy else ""
    idle = f"{len(rest) - len(busy):,} with nothing to do" if len(rest) > len(busy) else ""
    return shown, "; ".join(part for part in (working, idle) if part)


FAILED, LATE, WAITING, IDLE = STATES = ("failed", "late", "waiting", "idle")
"""States of a table, the most urgent first."""


def state(item: TableStatus) -> str:
    """Return the state of a table: `failed` (its last run, or a rule of `checks:`), `late`, `waiting` (files wait for a run), or `idle`."""
    if (item.last_run is not None and item.last_run.failures) or item.blocked:
        return FAILED
    return LATE if item.late else WAITING if item.waiting_files or item.pending_archive else IDLE


def statuses(items: Sequence[TableStatus], whole: bool) -> tuple[list[TableStatus], str]:
    """Return the tables to show, the most urgent first, and a line about the others."""
    items = sorted(items, key=lambda item: STATES.index(state(item))) if len(items) > FEW else items
    shown, rest = parted(items, _status_needs_somebody, whole)
    counts = Counter(state(item) for item in rest)
    files = f", {counted(sum(item.waiting_files for item in rest), 'file')}" if counts[WAITING] else ""
    return shown, "; ".join(f"{counts[each]:,} {each}{files if each == WAITING else ''}" for each in STATES if counts[each])


def _status_needs_somebody(item: TableStatus) -> bool:
    differs = item.last_comparison is not None and item.last_comparison.outcome == DIFFERENT
    return state(item) in (FAILED, LATE) or differs or bool(item.quarantined or item.unusable_files)


def checks(items: Sequence[Check], whole: bool) -> tuple[list[Check], str]:
    shown, rest = parted(items, lambda item: not item.ok, whole)
    clean = len({item.table for item in items} - {item.table for item in shown})
    return shown, f"{counted(len(rest), 'check')} passed; {counted(clean, 'table')} without a failed one" if rest else ""


def _report_needs_somebody(item: TableReport) -> bool:
    remarkable = item.notes or item.ties or item.unresolved or item.files_quarantined
    return item.outcome not in ("idle", "committed", "resumed") or (item.outcome != "idle" and bool(remarkable))
