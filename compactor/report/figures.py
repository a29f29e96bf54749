"""Figures as people read them."""

from __future__ import annotations

from compactor.core.results import phrases
from compactor.core.results.attention import duration


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
