"""Charts: where bars and lines lie and what the axes say. `chart.svg.j2` draws them; colours come from the page's style.

Each mark has a title that shows its figures. What a chart shows is also in a table of the page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

WIDTH, HEIGHT = 480, 150
LEFT, RIGHT, _TOP, _BOTTOM = 46, 8, 8, 20


@dataclass(frozen=True)
class Mark:
    """A value at a time."""

    at: float
    """Epoch seconds."""
    values: tuple[float, ...]
    """One value a series, from the bottom of a stack to its top."""
    title: str


@dataclass(frozen=True)
class Chart:
    """A drawn chart. Coordinates are rounded to tenths of a pixel."""

    rules: tuple[tuple[float, str], ...]
    """(y, text) of the horizontal lines."""
    ticks: tuple[tuple[float, str], ...]
    """(x, text) of the times below."""
    bars: tuple[tuple[str, tuple[tuple[str, float, float, float, float], ...]], ...] = ()
    """(title, its rectangles) for each mark; a rectangle is style class, x, y, width and height."""
    paths: tuple[tuple[str, str], ...] = ()
    """(style class, SVG path) of each line."""


class _Frame:
    """The area that marks are drawn in, from one moment to another and from 0 to `top`."""

    def __init__(self, moments: Sequence[float], top: float, room: float = 0.0) -> None:
        first, last = min(moments, default=0.0) - room, max(moments, default=1.0) + room
        self.first, self.last = (first - 1800, last + 1800) if first == last else (first, last)
        self.top = top

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self.first) / max(self.last - self.first, 1.0)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / (self.top or 1.0)

    def chart(self, axis: Callable[[float], str], **drawn: tuple[object, ...]) -> Chart:
        rules = tuple((round(self.y(value), 1), axis(value)) for value in (0.0, self.top / 2, self.top))
        ticks = tuple((round(min(self.x(at), WIDTH - RIGHT), 1), text) for at, text in _ticks(self.first, self.last))
        return Chart(rules, ticks, **drawn)  # type: ignore[arg-type]


def bars(marks: Sequence[Mark], series: Sequence[str], axis: Callable[[float], str], side_by_side: bool = False) -> Chart:
    """Draw a bar for each mark: its values stacked, or side by side. `series`: style classes; `axis` writes values of the axis."""
    highest = max((max(mark.values) if side_by_side else sum(mark.values) for mark in marks), default=0.0)
    moments = [mark.at for mark in marks]
    # half a bar's room at both ends
    frame = _Frame(moments, _nice(highest), (moments[-1] - moments[0]) / (len(moments) - 1) / 2 if len(moments) > 1 else 0.0)
    gaps = sorted(frame.x(after) - frame.x(before) for before, after in itertools.pairwise(moments))
    width = min(24.0, max(1.5, 0.7 * gaps[len(gaps) // 2])) if gaps else 24.0
    drawn = []
    for mark in marks:
        rects, below, thin = [], 0.0, width / len(mark.values) if side_by_side else width
        for number, (name, value) in enumerate(zip(series, mark.values)):
            if value > 0:
                left = frame.x(mark.at) - width / 2 + (number * thin if side_by_side else 0)
                # something that happened is never too small to see
                height = max(frame.y(below) - frame.y(below + value), 1.0)
                rects.append((name, round(left, 1), round(frame.y(below) - height, 1), round(thin, 1), round(height, 1)))
            below += 0 if side_by_side else value
        if rects:
            drawn.append((mark.title, tuple(rects)))
    return frame.chart(axis, bars=tuple(drawn))


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]], axis: Callable[[float], str], top: Callable[[float], float] | None = None
) -> Chart:
    """Draw a line for each series, (style class, [(epoch seconds, value)]). `top` rounds the highest value up, for the axis."""
    points = [point for _, several in series for point in several]
    frame = _Frame([at for at, _ in points], (top or _nice)(max((value for _, value in points), default=0.0)))
    paths = [(name, "M" + "L".join(f"{frame.x(at):.1f} {frame.y(value):.1f}" for at, value in several)) for name, several in series if several]
    return frame.chart(axis, paths=tuple(paths))


def _nice(value: float) -> float:
    """Return the next round number.

    >>> [_nice(each) for each in (0, 3, 7.2, 22, 410)]
    [1.0, 3.0, 8.0, 25.0, 500.0]
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if step * power >= value)


_DAY = 86400
_DURATIONS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, *(days * _DAY for days in (1, 2, 4, 8, 14, 30)))


def nice_duration(seconds: float) -> float:
    """Return the next round duration.

    >>> [nice_duration(each) / 3600 for each in (4200, 50 * 3600)]
    [2.0, 96.0]
    """
    return next((float(each) for each in _DURATIONS if each >= seconds), _nice(seconds / _DAY) * _DAY)


_STEPS = (300, 900, 1800, 3600, 10800, 21600, 43200, *(days * _DAY for days in (1, 2, 7, 14, 30, 90, 365)))


_YEAR_1, _YEAR_9999 = (datetime(year, 1, 1, tzinfo=timezone.utc).timestamp() for year in (1, 9999))


def _ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Return round times between two, at most six, with their texts."""
    step = next((each for each in _STEPS if (last - first) / each <= 6), math.ceil((last - first) / 6 / _STEPS[-1]) * _STEPS[-1])
    # a folder of the year 1 makes an axis that begins before it
    rounds = range(math.ceil(max(first, _YEAR_1) / step) * step, math.floor(min(last, _YEAR_9999)) + 1, step)
    moments = [datetime.fromtimestamp(at, timezone.utc) for at in rounds]
    days = [step >= _DAY or moment.hour == moment.minute == 0 for moment in moments]
    return [(moment.timestamp(), moment.strftime("%b %-d" if day else "%H:%M")) for moment, day in zip(moments, days)]
