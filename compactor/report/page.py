"""The page: first whether everything is all right and what to do if not, then figures of all tables, then each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compactor.core.model import times
from compactor.core.results import attention
from compactor.core.results.timeline import Problem, Timeline
from compactor.report import charts, detail
from compactor.report.charts import Mark
from compactor.report.html import Html, age, join, moment, number, share, size, tag

HERE = Path(__file__).parent
_SIGNS = {"ok": "✓ fine", "warn": "! look", "bad": "✕ act"}
_PROBLEMS_SHOWN = 25


def page(tables: Sequence[Timeline], now: float, title: str, past: bool = False) -> str:
    """Return the page as HTML. `now`: the moment it shows, in epoch seconds; `past`: whether that is an earlier moment."""
    problems = attention.problems(tables, now)
    states = _states(tables, problems)
    order = {"bad": 0, "warn": 1, "ok": 2}
    ordered = sorted(tables, key=lambda each: (order[states[each.table]], each.table))
    body = [
        tag("header", _verdict(tables, problems, now, title, past)),
        _problems(problems),
        tag("main", _tiles(tables, now), _over_time(tables), _overview(ordered, states, now), *_details(ordered, states, now)),
        tag("footer", tag("p", f"Made by compactor report from Snapshots and run records only, as of {_written(now)}. Times are UTC. {_EXPLAINED}")),
        tag("script", Html((HERE / "script.js").read_text(encoding="utf-8"))),
    ]
    head = [
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">'),
        # nothing is loaded, whatever a table's name or an error's text may contain
        Html("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"),
        tag("title", f"{title}: tables"),
        tag("style", Html((HERE / "style.css").read_text(encoding="utf-8"))),
    ]
    return f'<!doctype html>\n<html lang="en"><head>{join(*head)}</head><body>{join(*body)}</body></html>\n'


_EXPLAINED = (
    "“Rewriting” is what a tool would have written that rewrites the whole table in each commit. Rows are an upper bound while a table has a Delta."
)


def _written(now: float) -> str:
    return moment(times.from_seconds(now))


def _states(tables: Sequence[Timeline], problems: Sequence[Problem]) -> dict[str, str]:
    states = {table.table: "ok" for table in tables}
    for problem in problems:
        if problem.table and states[problem.table] != "bad":
            states[problem.table] = "bad" if problem.urgent else "warn"
    return states


def _verdict(tables: Sequence[Timeline], problems: Sequence[Problem], now: float, title: str, past: bool) -> Html:
    kind = "bad" if any(problem.urgent for problem in problems) else "warn" if problems else "ok"
    count, urgent = len(tables), {problem.table for problem in problems if problem.urgent and problem.table}
    others = {problem.table for problem in problems if problem.table} - urgent
    every = f"all {count} tables are" if count > 1 else "the table is"
    was = " (as it was then)" if past else ""
    look = f"{len(others)} of {count} tables {'deserves' if len(others) == 1 else 'deserve'} a look"
    act = f"{len(urgent)} of {count} tables {'needs' if len(urgent) == 1 else 'need'} you" if urgent else "Nothing runs"
    texts = {"ok": f"{every[0].upper()}{every[1:]} fine", "warn": f"Data flow; {look}", "bad": act + (f"; {look}" if others else "")}
    last = max((each for table in tables if (each := attention.last_run(table)) is not None), default=None)
    since = f"last run {age(now - last)} before" if last is not None else "no run is known"
    below = f"{title}, {_written(now)} UTC{was}; {since}"
    icon = {"ok": "✓", "warn": "!", "bad": "✕"}[kind]
    inside = tag("div", tag("h1", texts[kind]), tag("p", below, class_="soft"))
    return tag("div", tag("span", icon, class_="icon", aria_hidden="true"), inside, class_=f"verdict {kind}")


def _problems(problems: Sequence[Problem]) -> Html:
    if not problems:
        return Html("")
    items = []
    for problem in problems[:_PROBLEMS_SHOWN]:
        link = join(tag("a", tag("b", problem.table), href=f"#{detail.anchor(problem.table)}"), ": ") if problem.table else Html("")
        commands = [tag("code", command) for command in problem.commands]
        do = tag("div", tag("span", "Do:", class_="soft"), *commands, class_="do")
        items.append(tag("li", tag("div", link, problem.text), do, class_="bad" if problem.urgent else None))
    if len(problems) > _PROBLEMS_SHOWN:
        items.append(tag("li", f"and {len(problems) - _PROBLEMS_SHOWN} more, in the table below"))
    return tag("ul", *items, class_="problems", aria_label="What to do")


def _tiles(tables: Sequence[Timeline], now: float) -> Html:
    newest = [version for table in tables if (version := table.newest) is not None]
    ages = [now - times.to_seconds(version.source_time) for version in newest if version.source_time is not None]
    versions = [version for table in tables for version in table.versions if version.written is not None and version.rewriting is not None]
    written, rewriting = sum(version.written or 0 for version in versions), sum(version.rewriting or 0 for version in versions)
    ratio = f"rewriting: {size(rewriting)}" + (f", {rewriting / written:.1f} times as much" if written and rewriting > written else "")
    files = sum(len(table.quarantine) for table in tables)
    hours = [hours for table in tables if (hours := table.vcpu_hours) is not None]
    tiles = [
        (age(max(ages)) if ages else "–", "age of the newest change in the stalest table"),
        (number(sum(version.rows or 0 for version in newest)), f"rows in {len(newest)} tables"),
        (size(sum(version.stored or 0 for version in newest)), "stored in base and Delta"),
        (size(written), f"written; {ratio}"),
        (number(files), "files in quarantine"),
        (f"{sum(hours):.2f}" if hours else "–", "vCPU-hours of EMR jobs"),
    ]
    return tag("div", *(tag("div", tag("b", value), tag("span", text), class_="tile") for value, text in tiles), class_="tiles")


def _over_time(tables: Sequence[Timeline]) -> Html:
    """Draw all tables together: bytes written beside rewriting, and events, by hour or by day."""
    slots = _slots(tables)
    return tag("div", _written_panel(slots), _events_panel(slots), class_="grid2") if slots else Html("")


@dataclass(frozen=True)
class _Slots:
    """What all tables did in each hour, or in each day."""

    by: str
    """What the slots are, for people."""
    step: float
    """Seconds of a slot."""
    written: dict[float, list[float]]
    """Begin of a slot (epoch seconds) → bytes written, and those that rewriting would have written."""
    events: dict[float, list[float]]
    """Begin of a slot → events by `detail.EVENTS`."""


def _slots(tables: Sequence[Timeline]) -> _Slots | None:
    """Return None before the first commit."""
    versions = [version for table in tables for version in table.versions if version.operation not in _BOOKKEEPING]
    if not versions:
        return None
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
        _add(events.setdefault(slot, [0.0] * 3), [version.events.get(name, 0) for name in detail.EVENTS])
    return _Slots(f"by {unit} of {'landing' if landed else 'commit'}", step, written, events)


_BOOKKEEPING = ("vacuum", "pin", "daily")


def _add(sums: list[float], values: Sequence[float]) -> None:
    for index, value in enumerate(values):
        sums[index] += value


def _written_chart(slots: _Slots) -> tuple[float, float, Html]:
    """Return the bytes written, those that rewriting would have written, and the chart of both."""
    marks = [
        Mark(at + slots.step / 2, tuple(both), f"{_written(at)}: {size(both[0])} written, rewriting {size(both[1])}")
        for at, both in sorted(slots.written.items())
    ]
    ours, other = (sum(mark.values[index] for mark in marks) for index in range(2))
    label = f"Bytes {slots.by}: {size(ours)} written; rewriting the tables would have written {size(other)}"
    return ours, other, charts.bars(marks, "ac", label, size, side_by_side=True)


def _written_panel(slots: _Slots) -> Html:
    ours, other, chart = _written_chart(slots)
    key = [("a", f"written {size(ours)}"), ("c", f"rewriting every table in each commit {size(other)}")]
    return detail.panel(f"Bytes written, {slots.by}", key, chart)


def bytes_plot(tables: Sequence[Timeline]) -> str:
    """Return the page's chart of bytes as an SVG file of its own; "" before the first commit."""
    slots = _slots(tables)
    if slots is None:
        return ""
    ours, other, chart = _written_chart(slots)
    legend = [("a", f"{size(ours)} written"), ("c", f"rewriting the tables would have written {size(other)}")]
    return charts.alone(f"Bytes {slots.by}", legend, chart)


def _events_panel(slots: _Slots) -> Html:
    marks = []
    for at, several in sorted(slots.events.items()):
        counts = ", ".join(f"{number(value)} {name}" for name, value in zip(detail.EVENTS, several))
        marks.append(Mark(at + slots.step / 2, tuple(several), f"{_written(at)}: {counts}"))
    sums = [sum(mark.values[index] for mark in marks) for index in range(3)]
    texts = [f"{name} {number(value)}" for name, value in zip(detail.EVENTS, sums)]
    return detail.panel(f"Events, {slots.by}", [*zip("abc", texts)], charts.bars(marks, "abc", f"Events {slots.by}: {', '.join(texts)}", number))


def _state(kind: str) -> Html:
    return tag("span", _SIGNS[kind], class_=f"state {kind}")


def _meter(part: float | None) -> Html:
    if part is None:
        return Html("–")
    inside = tag("i", style=f"width:{min(100.0, 100 * part):.0f}%", class_="over" if part > 1 else None)
    return join(tag("span", inside, class_="meter", aria_hidden="true"), share(part))


_COLUMNS = (
    "table",
    "state",
    "newest change",
    "newest folder",
    "last run",
    "rows",
    "stored",
    "Delta share",
    "compaction debt",
    "quarantine",
    "vCPU-hours",
)


def _overview(tables: Sequence[Timeline], states: dict[str, str], now: float) -> Html:
    rows = []
    for table in tables:
        newest = table.newest
        source = now - times.to_seconds(newest.source_time) if newest and newest.source_time else None
        folder = now - times.to_seconds(newest.folder) if newest and newest.folder else None
        cells = (
            *(tag("a", table.table, href=f"#{detail.anchor(table.table)}"), _SIGNS[states[table.table]], age(source), age(folder)),
            *(table.last_outcome or "–", number(newest.rows) if newest else "–", size(newest.stored) if newest else "–"),
            *(_meter(table.delta_share), _meter(table.debt if newest else None), number(len(table.quarantine)) if table.quarantine else "–"),
            "–" if table.vcpu_hours is None else f"{table.vcpu_hours:.2f}",
        )
        styles = ("name", f"state {states[table.table]}", "num", "num", None, *["num"] * 6)
        tds = [tag("td", cell, class_=style, data_label=name) for cell, style, name in zip(cells, styles, _COLUMNS)]
        rows.append(tag("tr", *tds, data_table=table.table))
    right = _COLUMNS[2:4] + _COLUMNS[5:]
    head = tag("tr", *(tag("th", name, scope="col", class_="num" if name in right else None) for name in _COLUMNS))
    search = Html('<input type="search" hidden placeholder="Filter tables" aria-label="Filter tables">')
    explained = "Newest change and newest folder: how long ago, in the source's time and in landing's. Debt of 100 %: readers get a slower join."
    return join(
        tag("h2", "All tables"),
        search,
        tag("table", tag("thead", head), tag("tbody", *rows), class_="cards"),
        tag("p", f"{explained} {_period(tables)}", class_="soft"),
    )


def _period(tables: Sequence[Timeline]) -> str:
    counts = [len(table.versions) for table in tables]
    first = min((table.versions[0].time for table in tables if table.versions), default=None)
    return f"Sums and charts are of the newest {max(counts, default=0)} versions of each table, since {moment(first)}." if first else ""


def _details(tables: Sequence[Timeline], states: dict[str, str], now: float) -> list[Html]:
    return [tag("h2", "Each table"), *(detail.table(table, _state(states[table.table]), now) for table in tables)]
