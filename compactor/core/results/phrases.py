"""Phrases that several messages use."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, for messages.

    >>> counted(1, "file"), counted(1200, "file"), counted(2, "entry")
    ('1 file', '1,200 files', '2 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
