"""Two kinds of plots as SVG, without a library. All scales are logarithmic: the systems differ by powers of ten."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

WIDTH, LEFT, LINE = 860, 170, 26
COLORS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#57606a")
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f } .title { font-weight: 600; font-size: 15px } .note { fill: #57606a }
  .page { fill: #ffffff } .grid { stroke: #d0d7de } .bar { fill: #8c959f } .ours { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .note { fill: #9198a1 } .page { fill: #0d1117 } .grid { stroke: #30363d } .bar { fill: #6e7681 } .ours { fill: #4493f8 }
  }"""

Points = Sequence[tuple[float, float]]


def number(value: float) -> str:
    """Return a number in three digits, with k, M, G, T or P."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def bars(title: str, values: Sequence[tuple[str, float]]) -> str:
    """Return a bar for each (name, value); those of compactor have a colour."""
    low, high = _decades([value for _, value in values])
    height = 50 + LINE * len(values) + 10
    parts = _grid(low, high, LEFT, WIDTH - 80, 40, height - 10)
    for row, (name, value) in enumerate(values):
        y = 46 + LINE * row
        width = max(1.0, (WIDTH - 80 - LEFT) * (math.log10(max(value, 10**low)) - low) / (high - low))
        kind = "ours" if name.startswith("compactor") else "bar"
        parts.append(f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="18" rx="2"/>')
        parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 14}">{number(value)}</text>')
    return _page(title, height, parts)


def lines(title: str, x_title: str, curves: Mapping[str, Points], dots: Mapping[str, Points]) -> str:
    """Return curves with their names, and dots in the curves' colours."""
    height, bottom, right = 420, 360, WIDTH - 200
    every = [point for points in (*curves.values(), *dots.values()) for point in points]
    (x0, x1), (y0, y1) = _decades([x for x, _ in every]), _decades([y for _, y in every])

    def place(x: float, y: float) -> tuple[float, float]:
        return 80 + (right - 80) * (math.log10(x) - x0) / (x1 - x0), bottom - (bottom - 50) * (math.log10(y) - y0) / (y1 - y0)

    parts = []
    for power in range(x0, x1 + 1):
        at = place(10.0**power, 10.0**y0)[0]
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="50" x2="{at:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="note" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{number(10.0**power)}</text>')
    for power in range(y0, y1 + 1):
        at = place(10.0**x0, 10.0**power)[1]
        parts.append(f'<line class="grid" x1="80" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>')
        parts.append(f'<text class="note" x="72" y="{at + 4:.1f}" text-anchor="end">{number(10.0**power)}</text>')
    parts.append(f'<text class="note" x="{(80 + right) / 2}" y="{bottom + 42}" text-anchor="middle">{html.escape(x_title)}</text>')
    for (name, points), color in zip(curves.items(), COLORS):
        places = [place(*point) for point in points]
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
        parts.append(f'<text x="{places[-1][0] + 8:.1f}" y="{places[-1][1] + 4:.1f}" style="fill:{color}">{html.escape(name)}</text>')
        for x, y in (place(*point) for point in dots.get(name, ())):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>')
    return _page(title, height, parts)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    positive = [value for value in values if value > 0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return low, max(high, low + 1)


def _grid(low: int, high: int, left: float, right: float, top: float, bottom: float) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        at = left + (right - left) * (power - low) / (high - low)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="note" x="{at + 3:.1f}" y="{top + 2}">{number(10.0**power)}</text>')
    return parts


def _page(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">'
    body = f'<rect class="page" width="{WIDTH}" height="{height}"/>\n<text class="title" x="16" y="26">{html.escape(title)}</text>'
    return "\n".join([head, f"<style>{STYLE}\n</style>", body, *parts, "</svg>", ""])
