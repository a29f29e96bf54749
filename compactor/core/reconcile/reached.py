"""How far a version has come in the source's log, and what PostgreSQL's LSNs look like."""

from __future__ import annotations

import re

from compactor.core.model.position import Order, Position

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def parse_lsn(text: str) -> int | None:
    """Return PostgreSQL's `0/44CF6F8` as a number, or None for other text.

    >>> parse_lsn("1/10"), parse_lsn("now")
    (4294967312, None)
    """
    match = _LSN.fullmatch(text)
    return (int(match[1], 16) << 32) + int(match[2], 16) if match else None


def lsn_text(number: int | None) -> str:
    """Return a number as PostgreSQL writes an LSN; "unknown" for None."""
    return "unknown" if number is None else f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def position_lsn(order: Order, position: Position | None) -> int | None:
    """Return up to where a version has the source's log, or None if its order columns are no LSNs.

    The stream comes in the order of commits. An event whose last commit before it is C proves that everything committed up to C came before it; an
    event that was written at L belongs to a later commit than everything committed before L.

    >>> position_lsn((("commit_lsn", "bigint"), ("lsn", "bigint")), (0, 100, 160, "f", 0, 0))
    159
    """
    if position is None:
        return None
    values = dict(zip((name for name, _ in order), position[1:]))
    commit = values.get("commit_lsn")
    written = [values.get(name) for name in ("lsn", "change_lsn")]
    ends = [value for value in (commit,) if isinstance(value, int)] + [value - 1 for value in written if isinstance(value, int)]
    return max(ends, default=None)
