"""The page: first whether everything is all right and what to do if not, then figures of all tables, then each table. `page.html.j2` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.core.model import times
from compactor.core.model.errors import Refused
from compactor.core.results.phrases import without_table
from compactor.core.results.timeline import Problem, Timeline, duration, last_run, problems
from compactor.report import charts, panels

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent
_SIGNS = {"bad": "✕ act", "warn": "! look", "ok": "✓ fine"}
"""Kind of a state → its sign and word, the most urgent first."""


def page(tables: Sequence[Timeline], now: float, title: str, past: bool = False, folders: Sequence[str] = ()) -> str:
    """Return the page as HTML. `now`: the moment it shows, in epoch seconds; `past`: whether that is an earlier moment.

    `folders`: a line for each landed folder that no table takes. Raises Refused without Jinja2.
    """
    listed = problems(tables, now, folders)
    states = {table.table: "ok" for table in tables}
    for problem in listed:
        if problem.table and states[problem.table] != "bad":
            states[problem.table] = "bad" if problem.urgent else "warn"
    kind, headline = _verdict(len(tables), listed)

    def since(moment: str | None) -> str:
        return "–" if moment is None else panels.age(now - times.to_seconds(moment))

    last = max((each for table in tables if (each := last_run(table)) is not None), default=None)
    return _template("page.html.j2").render(
        tables=sorted(tables, key=lambda each: ([*_SIGNS].index(states[each.table]), each.table)),
        states=states,
        signs=_SIGNS,
        problems=listed,
        kind=kind,
        headline=headline,
        title=title,
        now=now,
        past=past,
        last=last,
        since=since,
        tiles=_tiles(tables, now),
        over_time=panels.of_all(tables),
        versions=max((len(table.versions) for table in tables), default=0),
        first=min((table.versions[0].time for table in tables if table.versions), default=None),
    )


def bytes_plot(tables: Sequence[Timeline]) -> str:
    """Return the page's chart of bytes as an SVG file of its own; "" before the first commit. Raises Refused without Jinja2."""
    over_time = panels.of_all(tables)
    return _template("plot.svg.j2").render(panel=over_time[0]) if over_time else ""


def _template(name: str) -> jinja2.Template:
    try:
        import jinja2
    except ImportError:
        raise Refused("the report needs Jinja2, which the extra `report` installs") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    formats = {"age": panels.age, "moment": panels.moment, "number": panels.number, "share": panels.share, "size": panels.size}
    environment.filters.update(formats, duration=duration, utc=times.from_seconds, without_table=without_table)
    environment.globals.update(charts=charts, events=panels.EVENTS, panels_of=panels.of_table)
    return environment.get_template(name)


def _verdict(count: int, problems: Sequence[Problem]) -> tuple[str, str]:
    """Return the kind of the page's state, and a sentence about it."""
    urgent = {problem.table for problem in problems if problem.urgent and problem.table}
    others = {problem.table for problem in problems if problem.table} - urgent
    look = f"{len(others)} of {count} tables {'deserves' if len(others) == 1 else 'deserve'} a look"
    if any(problem.urgent for problem in problems):
        act = f"{len(urgent)} of {count} tables {'needs' if len(urgent) == 1 else 'need'} you" if urgent else "Nothing runs"
        return "bad", act + (f"; {look}" if others else "")
    if others:
        return "warn", f"Data flow; {look}"
    fine = f"All {count} tables are fine" if count > 1 else "The table is fine"
    return ("warn", f"{fine}; no table takes some of the landed files") if problems else ("ok", fine)


def _tiles(tables: Sequence[Timeline], now: float) -> list[tuple[str, str]]:
    newest = [version for table in tables if (version := table.newest) is not None]
    ages = [now - times.to_seconds(version.source_time) for version in newest if version.source_time is not None]
    versions = [version for table in tables for version in table.versions if version.written is not None and version.rewriting is not None]
    written, rewriting = sum(version.written or 0 for version in versions), sum(version.rewriting or 0 for version in versions)
    ratio = f", {rewriting / written:.1f} times as much" if written and rewriting > written else ""
    hours = [hours for table in tables if (hours := table.vcpu_hours) is not None]
    return [
        (panels.age(max(ages, default=None)), "age of the newest change in the stalest table"),
        (panels.number(sum(version.rows or 0 for version in newest)), f"rows in {len(newest)} tables"),
        (panels.size(sum(version.stored or 0 for version in newest)), "stored in base and Delta"),
        (panels.size(written), f"written; rewriting: {panels.size(rewriting)}{ratio}"),
        (panels.number(sum(len(table.quarantine) for table in tables)), "files in quarantine"),
        (f"{sum(hours):.2f}" if hours else "–", "vCPU-hours of EMR jobs"),
    ]
