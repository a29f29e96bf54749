"""Figures as people read them."""

from __future__ import annotations

from compactor.core.results.attention import duration


def size(count: float | None) -> str:
    """Return a number of bytes for people.

    >>> [size(each) for each in (None, 0, 999, 1_500, 2_400_000, 35_000_000_000)]
    ['–', '0 B', '999 B', '1.5 kB', '2.4 MB', '35 GB']
    """
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.1f} {unit}".replace(".0 ", " ") if count < 10 and unit != "B" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.0f} PB"


def number(value: float | None) -> str:
    """Return a whole number with separators.

    >>> number(12345), number(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


def age(seconds: float | None) -> str:
    """Return an age, or a dash if it is unknown."""
    return "–" if seconds is None else duration(max(0.0, seconds))


def moment(text: str | None) -> str:
    """Return an ISO time to the minute, UTC.

    >>> moment("2024-03-05T03:10:00.123Z")
    '2024-03-05 03:10'
    """
    return "–" if text is None else text[:16].replace("T", " ")


def share(part: float | None) -> str:
    """Return a share as percent.

    >>> [share(each) for each in (None, 0.004, 0.25)]
    ['–', '0.4 %', '25 %']
    """
    return "–" if part is None else f"{100 * part:.1f} %" if 0 < part < 0.01 else f"{100 * part:.0f} %"
