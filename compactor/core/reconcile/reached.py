"""How far a version has come in the source's log, and how PostgreSQL and MySQL write positions there.

A position is one number here, so that two of them can be compared: PostgreSQL's LSN; the number of MySQL's binlog file, and the byte in it.
"""

from __future__ import annotations

import re
from typing import Protocol

from compactor.core.model.position import Order, Position

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_BINLOG = re.compile(r"(?:.*[^0-9])?([0-9]{1,10}):([0-9]{1,15})")
_FILE = 1 << 50
"""More bytes than a binlog file can have."""


class SourceLog(Protocol):
    """The positions in the log of a source."""

    example: str
    """A position as this source writes it, for messages."""

    def parse(self, text: str) -> int | None:
        """Return a position that somebody has written, or None for other text."""

    def text(self, position: int | None) -> str:
        """Return a position as the source writes it; "unknown" for None."""

    def reached(self, order: Order, position: Position | None) -> int | None:
        """Return up to where a version has the source's log, or None if its order columns are no positions in such a log."""


class PostgresLog:
    """LSNs.

    >>> PostgresLog().parse("1/10"), PostgresLog().parse("now")
    (4294967312, None)

    The stream comes in the order of commits. An event whose last commit before it is C proves that everything committed up to C came before it; an
    event that was written at L belongs to a later commit than everything committed before L.

    >>> PostgresLog().reached((("commit_lsn", "bigint"), ("lsn", "bigint")), (0, 100, 160, "f", 0, 0))
    159
    """

    example = "0/16B3748"

    def parse(self, text: str) -> int | None:
        """See SourceLog."""
        match = _LSN.fullmatch(text)
        return (int(match[1], 16) << 32) + int(match[2], 16) if match else None

    def text(self, position: int | None) -> str:
        """See SourceLog."""
        return "unknown" if position is None else f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"

    def reached(self, order: Order, position: Position | None) -> int | None:
        """See SourceLog."""
        values = _numbers(order, position)
        ends = [values[name] - less for name, less in (("commit_lsn", 0), ("lsn", 1), ("change_lsn", 1)) if name in values]
        return max(ends, default=None)


class MysqlLog:
    """Binlog files and bytes in them. GTIDs have no order, so they are not used. An event that begins at a byte comes after every transaction that
    ends there or before. The name before the file's number is the server's own and no part of a position.

    >>> MysqlLog().text(MysqlLog().parse("mysql-bin.000012:4711"))
    '000012:4711'
    >>> MysqlLog().text(MysqlLog().reached((("file_number", "bigint"), ("pos", "bigint")), (0, 3, 900, 0)))
    '000003:900'
    """

    example = "binlog.000012:4711"

    def parse(self, text: str) -> int | None:
        """See SourceLog."""
        match = _BINLOG.fullmatch(text)
        return int(match[1]) * _FILE + int(match[2]) if match else None

    def text(self, position: int | None) -> str:
        """See SourceLog."""
        return "unknown" if position is None else f"{position // _FILE:06d}:{position % _FILE}"

    def reached(self, order: Order, position: Position | None) -> int | None:
        """See SourceLog."""
        values = _numbers(order, position)
        return values["file_number"] * _FILE + values["pos"] if {"file_number", "pos"} <= values.keys() else None


def _numbers(order: Order, position: Position | None) -> dict[str, int]:
    return {name: value for (name, _), value in zip(order, (position or ())[1:]) if isinstance(value, int)}
