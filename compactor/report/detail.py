"""The page's part about one table: commits, freshness, sizes, bytes written, schema changes, quarantine, runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.core.model import times
from compactor.core.results.attention import duration
from compactor.core.results.phrases import without_table
from compactor.core.results.record import RunRecord
from compactor.core.results.timeline import Timeline, Version
from compactor.report import charts
from compactor.report.charts import Mark
from compactor.report.html import Html, age, join, moment, number, safe, size, tag

EVENTS = ("applied", "late", "duplicate")
_RUNS_SHOWN, _FILES_SHOWN = 12, 20


def table(timeline: Timeline, state: Html, now: float) -> Html:
    """Return the part about a table, closed at first. `state`: the word and sign of its state."""
    newest = timeline.newest
    head = [tag("b", timeline.table), state, tag("span", timeline.view, class_="soft")]
    if newest is not None:
        head.append(tag("span", f"version {newest.number}, {number(newest.rows)} rows, {size(newest.stored)}", class_="soft"))
    return tag(
        "details",
        tag("summary", *head),
        tag("div", *_inside(timeline, now), class_="inside"),
        class_="table",
        id=anchor(timeline.table),
        data_table=timeline.table,
    )


def anchor(name: str) -> str:
    """Return the id of a table's part."""
    return f"table-{name}"


def _inside(timeline: Timeline, now: float) -> list[Html]:
    if timeline.problem is not None:
        return [tag("p", timeline.problem)]
    if not timeline.versions:
        return [tag("p", "No version is committed yet.", class_="soft"), *_runs(timeline.runs)]
    versions = timeline.versions
    panels = [_commits(versions), _freshness(versions, now), _sizes(versions), _written(versions)]
    return [
        tag("div", *panels, class_="grid2"),
        *_quarantine(timeline),
        *_schema(timeline),
        *_runs(timeline.runs),
        tag("details", tag("summary", f"The {len(versions)} newest versions as a table"), _versions(versions)),
    ]


def panel(title: str, key: Sequence[tuple[str, str]], picture: Html) -> Html:
    """Return a chart with its title and its key: (style class, text)."""
    entries = [tag("span", tag("i", class_=name), text) for name, text in key]
    return tag("div", tag("h3", title), tag("div", *entries, class_="key"), picture, class_="panel")


def _seconds(version: Version) -> float:
    return times.to_seconds(version.time)


def _commits(versions: Sequence[Version]) -> Html:
    marks = []
    for version in versions:
        values = tuple(float(version.events.get(name, 0)) for name in EVENTS)
        counts = ", ".join(f"{number(value)} {name}" for name, value in zip(EVENTS, values))
        marks.append(Mark(_seconds(version), values, f"version {version.number}, {version.operation}, {moment(version.time)}: {counts}"))
    sums = [sum(mark.values[index] for mark in marks) for index in range(3)]
    label = "Events of each commit: " + ", ".join(f"{number(value)} {name}" for name, value in zip(EVENTS, sums))
    key = [(style, f"{name} {number(value)}") for style, name, value in zip("abc", EVENTS, sums)]
    return panel("Events of each commit", key, charts.bars(marks, "abc", label, number))


def _freshness(versions: Sequence[Version], now: float) -> Html:
    """Draw the age of the newest change that readers see: it grows until the next commit."""
    points: list[tuple[float, float]] = []
    dated = [version for version in versions if version.source_time is not None]
    for version, following in zip(dated, [*dated[1:], None]):
        begin, source = _seconds(version), times.to_seconds(str(version.source_time))
        end = _seconds(following) if following is not None else max(now, begin)
        points += [(begin, max(0.0, begin - source)), (end, max(0.0, end - source))]
    highest = max((value for _, value in points), default=0.0)
    at_commit = [value for _, value in points[::2]]
    best = f", {duration(min(at_commit))} at best" if at_commit else ""
    label = f"Age of the newest change that readers see, at most {duration(highest)}{best}"
    return panel(
        "Freshness: age of the newest change that readers see",
        [("d", f"at most {duration(highest)}{best}")],
        charts.lines([("d", points)], label, duration, charts.nice_duration),
    )


def _sizes(versions: Sequence[Version]) -> Html:
    sized = [version for version in versions if version.stored is not None]
    marks = [
        Mark(
            _seconds(version),
            (float(version.base_bytes or 0), float(version.delta_bytes or 0)),
            f"version {version.number}: base {size(version.base_bytes)}, Delta {size(version.delta_bytes)}",
        )
        for version in sized
    ]
    base, delta = (sized[-1].base_bytes, sized[-1].delta_bytes) if sized else (None, None)
    label = f"Bytes of base and Delta; now {size(base)} and {size(delta)}"
    return panel("Size", [("a", f"base {size(base)}"), ("b", f"Delta {size(delta)}")], charts.bars(marks, "ab", label, size))


def _written(versions: Sequence[Version]) -> Html:
    """Draw the sums of bytes: what was written, and what rewriting the table in each commit would have written."""
    ours, other = 0.0, 0.0
    points: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for version in versions:
        if version.written is None or version.rewriting is None:
            continue
        ours, other = ours + version.written, other + version.rewriting
        points[0].append((_seconds(version), ours))
        points[1].append((_seconds(version), other))
    label = f"Bytes written: {size(ours)}; rewriting the table in each commit would have written {size(other)}"
    key = [("a", f"written {size(ours)}"), ("c", f"rewriting {size(other)}")]
    return panel("Bytes written, summed up", key, charts.lines([("c", points[1]), ("a", points[0])], label, size))


def _quarantine(timeline: Timeline) -> list[Html]:
    if not timeline.quarantine:
        return []
    name = timeline.table
    shown = timeline.quarantine[:_FILES_SHOWN]
    rows = [(item.path, item.hour or "–", "whole file" if item.records is None else number(item.records), item.reason) for item in shown]
    more = [tag("p", f"and {len(timeline.quarantine) - len(shown)} more", class_="soft")] if len(timeline.quarantine) > len(shown) else []
    commands = join("See the records: ", tag("code", f"compactor quarantine show {name}"), " Repair or correct the setting, then: ")
    return [
        tag("h3", f"Quarantine: {len(timeline.quarantine)} files"),
        tag("p", commands, tag("code", f"compactor quarantine replay {name}")),
        grid(("file", "folder time", "records", "reason"), rows, right=("records",)),
        *more,
    ]


def _schema(timeline: Timeline) -> list[Html]:
    if not timeline.changes:
        return []
    rows = [(number(change.version), moment(change.time), "; ".join(change.sentences)) for change in timeline.changes]
    return [tag("h3", "Changes of the columns"), grid(("version", "time (UTC)", "change"), rows)]


def _runs(runs: Sequence[RunRecord]) -> list[Html]:
    if not runs:
        return []
    rows = []
    for run in reversed(runs[-_RUNS_SHOWN:]):
        longest = sorted(run.phases, key=lambda phase: -phase.seconds)[:2]
        phases = ", ".join(f"{phase.name} {duration(phase.seconds)}" for phase in longest)
        hours = "–" if run.job is None else f"{run.job.vcpu_hours:.2f}"
        what = f"{run.error_class}: {without_table(run.table, run.error)}" if run.error else ", ".join(run.operations) or run.outcome
        if run.comparison is not None:
            what = f"compared with {run.comparison.source}: {run.comparison.summary}"
        rows.append((moment(run.started), run.outcome, what, duration(run.seconds), phases, age(run.source_lag_seconds), hours))
    columns = ("began (UTC)", "outcome", "made", "took", "longest phases", "source lag", "vCPU-hours")
    return [tag("h3", "Runs that did something"), grid(columns, rows, right=("took", "source lag", "vCPU-hours"))]


def _versions(versions: Sequence[Version]) -> Html:
    columns = ("version", "committed (UTC)", "action", "newest change", "files", *EVENTS, "rows", "base", "Delta", "written", "rewriting")
    rows = [
        (
            *(number(version.number), moment(version.time), version.operation, moment(version.source_time), number(version.files)),
            *(number(version.events.get(name, 0)) for name in EVENTS),
            *(number(version.rows), size(version.base_bytes), size(version.delta_bytes), size(version.written), size(version.rewriting)),
        )
        for version in reversed(versions)
    ]
    return grid(columns, rows, right=columns[4:])


def grid(columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[str] = ()) -> Html:
    """Return a table that scrolls sideways where there is no room. Columns in `right` contain numbers."""
    style = ["num" if name in right else None for name in columns]
    head = tag("tr", *(tag("th", name, class_=kind, scope="col") for name, kind in zip(columns, style)))
    # a page has 200,000 cells: they are put together without `tag`
    begins = ['<td class="num">' if kind else "<td>" for kind in style]
    body = "".join(f"<tr>{''.join([f'{begin}{safe(cell)}</td>' for begin, cell in zip(begins, row)])}</tr>" for row in rows)
    return tag("div", tag("table", tag("thead", head), tag("tbody", Html(body))), class_="wide", tabindex="0", role="group", aria_label="table")
