"""Attention: which tables need a person, why, and which command helps. All of it follows from the tables' past, nothing from names or schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compactor.core.model import times
from compactor.core.reconcile.report import DIFFERENT
from compactor.core.results.phrases import minute, without_table
from compactor.core.results.timeline import Problem, Timeline

SILENT_SECONDS = 86400.0
"""Without any run for so long the scheduler is likely to have stopped."""

QUIET_SECONDS_MIN = 3600.0
"""No table counts as silent sooner."""

_QUIET_FACTOR, _GAPS_MIN = 4.0, 4


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
