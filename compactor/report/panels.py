"""Panels: the charts of one table (commits, freshness, size, bytes written) and of all tables together, each with its title and key; and figures as
people read them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core.model import times
from compactor.core.results import phrases
from compactor.core.results.timeline import Timeline, Version, duration
from compactor.report import charts
from compactor.report.charts import Chart, Mark

EVENTS = ("applied", "late", "duplicate")


def size(count: float | None) -> str:
    return "–" if count is None else phrases.size(count)


def number(value: float | None) -> str:
    """Return a whole number with separators.

    >>> number(12345), number(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


def age(seconds: float | None) -> str:
    return "–" if seconds is None else duration(max(0.0, seconds))


def moment(text: str | None) -> str:
    """Return an ISO time to the minute, UTC, or a dash if it is unknown."""
    return "–" if text is None else phrases.minute(text)


def share(part: float | None) -> str:
    """Return a share as percent.

    >>> [share(each) for each in (None, 0.004, 0.25)]
    ['–', '0.4 %', '25 %']
    """
    return "–" if part is None else f"{100 * part:.1f} %" if 0 < part < 0.01 else f"{100 * part:.0f} %"


@dataclass(frozen=True)
class Panel:
    """A chart with its title and its key."""

    title: str
    key: Sequence[tuple[str, str]]
    """(style class, text)."""
    chart: Chart


def of_table(timeline: Timeline, now: float) -> list[Panel]:
    """Return the panels of one table. `now`: epoch seconds."""
    versions = timeline.versions
    return [_commits(versions), _freshness(versions, now), _sizes(versions), _written(versions)]


def of_all(tables: Sequence[Timeline]) -> list[Panel]:
    """Return the panels of all tables together, by hour or by day: bytes written beside rewriting, and events. None before the first commit."""
    versions = [version for table in tables for version in table.versions if version.operation not in ("vacuum", "pin", "daily")]
    if not versions:
        return []
    # a demo or a backfill commits many hours within minutes: there the hours of landing are what happened
    landed = all(version.folder is not None for version in versions)
    moments = [times.to_seconds(str(version.folder) if landed else version.time) for version in versions]
    step, unit = (3600.0, "hour") if max(moments) - min(moments) <= 72 * 3600 else (86400.0, "day")
    written: dict[float, list[float]] = {}
    events: dict[float, list[float]] = {}
    for at, version in zip(moments, versions):
        slot = at // step * step
        if version.written is not None and version.rewriting is not None:
            _add(written.setdefault(slot, [0.0, 0.0]), (version.written, version.rewriting))
        _add(events.setdefault(slot, [0.0] * len(EVENTS)), _counts(version))
    by = f"by {unit} of {'landing' if landed else 'commit'}"
    begins = [(at + step / 2, _at(at), counts) for at, counts in sorted(events.items())]
    return [_bytes_by_slot(written, step, by), _events_panel(f"Events, {by}", begins)]


def _add(sums: list[float], values: Sequence[float]) -> None:
    for index, value in enumerate(values):
        sums[index] += value


def _bytes_by_slot(slots: dict[float, list[float]], step: float, by: str) -> Panel:
    marks = [Mark(at + step / 2, (*both,), f"{_at(at)}: {size(both[0])} written, rewriting {size(both[1])}") for at, both in sorted(slots.items())]
    ours, other = (size(sum(mark.values[index] for mark in marks)) for index in range(2))
    key = [("a", f"written {ours}"), ("c", f"rewriting every table in each commit {other}")]
    return Panel(f"Bytes written, {by}", key, charts.bars(marks, "ac", size, side_by_side=True))


def _events_panel(title: str, begins: Sequence[tuple[float, str, Sequence[float]]]) -> Panel:
    """Draw events by their outcome. `begins`: (epoch seconds, words, counts) for each mark."""
    marks = [Mark(at, (*counts,), f"{words}: {', '.join(_counted(counts))}") for at, words, counts in begins]
    sums = [sum(mark.values[index] for mark in marks) for index in range(len(EVENTS))]
    return Panel(title, [*zip("abc", _counted(sums))], charts.bars(marks, "abc", number))


def _counted(counts: Sequence[float]) -> list[str]:
    return [f"{name} {number(count)}" for name, count in zip(EVENTS, counts)]


def _commits(versions: Sequence[Version]) -> Panel:
    return _events_panel(
        "Events of each commit",
        [(times.to_seconds(each.time), f"version {each.number}, {each.operation}, {moment(each.time)}", _counts(each)) for each in versions],
    )


def _counts(version: Version) -> list[float]:
    return [float(version.events.get(name, 0)) for name in EVENTS]


def _freshness(versions: Sequence[Version], now: float) -> Panel:
    """Draw the age of the newest change that readers see: it grows until the next commit."""
    points: list[tuple[float, float]] = []
    dated = [(times.to_seconds(version.time), times.to_seconds(version.source_time)) for version in versions if version.source_time is not None]
    for (begin, source), (end, _) in zip(dated, [*dated[1:], (now, 0.0)]):
        points += [(begin, max(0.0, begin - source)), (max(end, begin), max(0.0, max(end, begin) - source))]
    ages = [value for _, value in points]
    text = f"at most {duration(max(ages, default=0.0))}" + (f", {duration(min(ages[::2]))} at best" if ages else "")
    chart = charts.lines([("d", points)], duration, charts.nice_duration)
    return Panel("Freshness: age of the newest change that readers see", [("d", text)], chart)


def _sizes(versions: Sequence[Version]) -> Panel:
    marks, base, delta = [], "–", "–"
    for version in versions:
        if version.stored is not None:
            base, delta = size(version.base_bytes), size(version.delta_bytes)
            values = (float(version.base_bytes or 0), float(version.delta_bytes or 0))
            marks.append(Mark(times.to_seconds(version.time), values, f"version {version.number}: base {base}, Delta {delta}"))
    return Panel("Size", [("a", f"base {base}"), ("b", f"Delta {delta}")], charts.bars(marks, "ab", size))


def _written(versions: Sequence[Version]) -> Panel:
    """Draw the sums of bytes: what was written, and what rewriting the table in each commit would have written."""
    sized = [version for version in versions if version.written is not None and version.rewriting is not None]
    moments = [times.to_seconds(version.time) for version in sized]
    ours = [*itertools.accumulate(float(version.written or 0) for version in sized)]
    other = [*itertools.accumulate(float(version.rewriting or 0) for version in sized)]
    key = [("a", f"written {size(sum(ours[-1:]))}"), ("c", f"rewriting {size(sum(other[-1:]))}")]
    return Panel("Bytes written, summed up", key, charts.lines([("c", [*zip(moments, other)]), ("a", [*zip(moments, ours)])], size))


def _at(seconds: float) -> str:
    return moment(times.from_seconds(seconds))
