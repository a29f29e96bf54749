"""Charts as SVG, drawn by hand: bars and lines over time. Colours come from the page's style, so that they follow light and dark.

Each chart has a text for those who do not see it, and each mark a title that shows its figures. What a chart shows is also in a table of the page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from html import escape

from compactor.report.html import Html

WIDTH, HEIGHT = 480, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 20


@dataclass(frozen=True)
class Mark:
    """A value at a time."""

    at: float
    """Epoch seconds."""
    values: tuple[float, ...]
    """One value a series, from the bottom of a stack to its top."""
    title: str
    """What a pointer shows."""


@dataclass(frozen=True)
class _Frame:
    """The area that marks are drawn in."""

    first: float
    last: float
    top: float

    def x(self, at: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - self.first) / max(self.last - self.first, 1.0)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / (self.top or 1.0)


def bars(marks: Sequence[Mark], series: Sequence[str], label: str, axis: Callable[[float], str], side_by_side: bool = False) -> Html:
    """Draw a bar for each mark: its values stacked, or side by side. `series`: style classes; `axis` writes values of the axis."""
    highest = max((max(mark.values) if side_by_side else sum(mark.values) for mark in marks), default=0.0)
    # half a bar's room at both ends
    room = (marks[-1].at - marks[0].at) / max(len(marks) - 1, 1) / 2 if marks else 0.0
    frame = _Frame(marks[0].at - room, marks[-1].at + room, _nice(highest)) if len(marks) > 1 else _frame(marks, highest)
    gaps = [frame.x(after.at) - frame.x(before.at) for before, after in itertools.pairwise(marks)]
    width = min(24.0, max(1.5, 0.7 * sorted(gaps)[len(gaps) // 2])) if gaps else 24.0
    parts = []
    for mark in marks:
        rects, below, thin = [], 0.0, width / len(mark.values)
        for number, (name, value) in enumerate(zip(series, mark.values)):
            if value > 0:
                left = frame.x(mark.at) - width / 2 + (number * thin if side_by_side else 0)
                top, bottom = frame.y(below + value), frame.y(below)
                # something that happened is never too small to see
                height = max(bottom - top, 1.0)
                rects.append(_rect(left, bottom - height, thin if side_by_side else width, height, name))
            below += 0 if side_by_side else value
        if rects:
            parts.append(f"<g><title>{escape(mark.title)}</title>{''.join(rects)}</g>")
    return _svg("".join(parts), frame, label, axis)


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    label: str,
    axis: Callable[[float], str],
    top: Callable[[float], float] | None = None,
) -> Html:
    """Draw a line for each series, (style class, [(epoch seconds, value)]). `top` rounds the highest value up, for the axis."""
    points = [point for _, several in series for point in several]
    frame = _frame([Mark(at, (value,), "") for at, value in points], 0.0)
    frame = replace(frame, top=(top or _nice)(max((value for _, value in points), default=0.0)))
    parts = []
    for name, several in series:
        path = " ".join(f"{'L' if number else 'M'}{frame.x(at):.1f} {frame.y(value):.1f}" for number, (at, value) in enumerate(several))
        parts.append(f'<path class="line {name}" d="{path}"/>')
    return _svg("".join(parts), frame, label, axis)


def _frame(marks: Sequence[Mark], highest: float) -> _Frame:
    if not marks:
        return _Frame(0.0, 1.0, 1.0)
    first, last = min(mark.at for mark in marks), max(mark.at for mark in marks)
    return _Frame(first - 1800, last + 1800, _nice(highest)) if first == last else _Frame(first, last, _nice(highest))


def _rect(x: float, y: float, width: float, height: float, name: str) -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _svg(inside: str, frame: _Frame, label: str, axis: Callable[[float], str]) -> Html:
    grid = []
    for value in (0.0, frame.top / 2, frame.top):
        y = frame.y(value)
        rule = f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
        grid.append(f'{rule}<text x="{_LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{escape(axis(value))}</text>')
    for at, text in _ticks(frame.first, frame.last):
        anchor = "end" if frame.x(at) > WIDTH - 40 else "middle"
        grid.append(f'<text x="{min(frame.x(at), WIDTH - _RIGHT):.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{text}</text>')
    rules = f'<g class="axis" aria-hidden="true">{"".join(grid)}</g>'
    return Html(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{rules}{inside}</svg>')


def _nice(value: float) -> float:
    """Return the next round number.

    >>> [_nice(each) for each in (0, 3, 7.2, 22, 410)]
    [1.0, 3.0, 8.0, 25.0, 500.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if step * power >= value)


_DURATIONS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 2 * 86400, 4 * 86400, 8 * 86400, 14 * 86400, 30 * 86400)


def nice_duration(seconds: float) -> float:
    """Return the next round duration.

    >>> [nice_duration(each) / 3600 for each in (4200, 50 * 3600)]
    [2.0, 96.0]
    """
    return next((float(each) for each in _DURATIONS if each >= seconds), _nice(seconds / 86400) * 86400)


_STEPS = (300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400, 365 * 86400)


def _ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Return round times between two, at most six, with their texts."""
    step = next((each for each in _STEPS if (last - first) / each <= 6), _STEPS[-1])
    result, at = [], math.ceil(first / step) * step
    while at <= last:
        moment = datetime.fromtimestamp(at, timezone.utc)
        midnight = moment.hour == moment.minute == 0
        result.append((float(at), moment.strftime("%b %-d") if step >= 86400 or midnight else moment.strftime("%H:%M")))
        at += step
    return result


_HEAD = 42
"""Height of title and legend of a chart in a file of its own."""

_STYLE = """
text{font:10.5px system-ui,sans-serif;fill:#575d68}.title{font-size:12px;font-weight:600;fill:#1b1d21}.page{fill:#fff}
.grid{stroke:#e2e3e6;stroke-width:1}.a{fill:#0072b2}.c{fill:#8a8f98}
@media(prefers-color-scheme:dark){text{fill:#a4abb6}.title{fill:#e9eaec}.page{fill:#1b1e23}.grid{stroke:#2d3138}.a{fill:#56b4e9}.c{fill:#868d98}}
"""


def alone(title: str, legend: Sequence[tuple[str, str]], chart: Html) -> str:
    """Return a chart as an SVG file of its own, with title and legend (style class, text)."""
    texts = "".join(
        f'<rect class="{name}" x="{x}" y="24" width="9" height="9"/><text x="{x + 14}" y="32">{escape(text)}</text>'
        for x, (name, text) in zip((10, WIDTH // 4), legend)
    )
    inside = chart.replace("<svg ", f'<svg y="{_HEAD}" width="{WIDTH}" height="{HEIGHT}" ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + _HEAD}"><style>{_STYLE}</style>'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT + _HEAD}"/><text class="title" x="10" y="16">{escape(title)}</text>'
        f"{texts}{inside}</svg>\n"
    )
