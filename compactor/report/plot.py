"""One plot of the page as a file of its own: bytes written by hour or day, beside what rewriting the tables would have written."""

from __future__ import annotations

import re

_PLOT = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)" role="img" aria-label="(Bytes [^"]*)">(.*?)</svg>', re.DOTALL)
_HEAD = 42
"""Height of title and legend."""
_STYLE = """
text{font:10.5px system-ui,sans-serif;fill:#575d68}.title{font-size:12px;font-weight:600;fill:#1b1d21}.page{fill:#fff}
.grid{stroke:#e2e3e6;stroke-width:1}.a{fill:#0072b2}.c{fill:#8a8f98}
@media(prefers-color-scheme:dark){text{fill:#a4abb6}.title{fill:#e9eaec}.page{fill:#1b1e23}.grid{stroke:#2d3138}.a{fill:#56b4e9}.c{fill:#868d98}}
"""


def bytes_written(page: str) -> str:
    """Return the plot of bytes of a page that `page` made, as an SVG file; "" if the page has none, because nothing is committed yet."""
    match = _PLOT.search(page)
    if match is None:
        return ""
    width, height, label, inside = int(match[1]), int(match[2]), match[3], match[4]
    title, _, sums = label.partition(": ")
    ours, _, rewriting = sums.partition("; ")
    legend = "".join(
        f'<rect class="{name}" x="{x}" y="24" width="9" height="9"/><text x="{x + 14}" y="32">{text}</text>'
        for name, x, text in (("a", 10, ours), ("c", width // 4, rewriting))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + _HEAD}" role="img" aria-label="{label}"><style>{_STYLE}</style>'
        f'<rect class="page" width="{width}" height="{height + _HEAD}"/><text class="title" x="10" y="16">{title}</text>{legend}'
        f'<g transform="translate(0 {_HEAD})">{inside}</g></svg>\n'
    )
