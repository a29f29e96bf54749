"""How far a version has come in the source's log, and how PostgreSQL and MySQL write positions there.

A position is one number here, so that two of them can be compared: PostgreSQL's LSN; the number of MySQL's binlog file, and the byte in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compactor.core.model.position import Order, Position


@dataclass(frozen=True)
class SourceLog:
    """The positions in the log of a source: two numbers each.

    >>> POSTGRES_LOG.parse("1/10"), POSTGRES_LOG.parse("now"), MYSQL_LOG.text(MYSQL_LOG.parse("mysql-bin.000012:4711"))
    (4294967312, None, '000012:4711')
    """

    example: str
    """A position as this source writes it, for messages."""
    pattern: str
    """Regular expression with a group for each of the two numbers."""
    base: int
    """The base in which they are written."""
    unit: int
    """More than the second number can be."""
    form: str
    """The format of both."""
    end: Callable[[Mapping[str, int]], int | None]
    """Returns up to where a version with these order columns has the log."""

    def parse(self, text: str) -> int | None:
        """Return a position that somebody has written, or None for other text."""
        match = re.fullmatch(self.pattern, text)
        return int(match[1], self.base) * self.unit + int(match[2], self.base) if match else None

    def text(self, position: int | None) -> str:
        """Return a position as the source writes it; "unknown" for None."""
        return "unknown" if position is None else self.form.format(*divmod(position, self.unit))

    def reached(self, order: Order, position: Position | None) -> int | None:
        """Return up to where a version has the source's log, or None if its order columns are no positions in such a log."""
        return self.end({name: value for (name, _), value in zip(order, (position or ())[1:]) if isinstance(value, int)})


def _lsn(values: Mapping[str, int]) -> int | None:
    # The stream comes in the order of commits. An event whose last commit before it is C proves that everything committed up to C came before it; an
    # event that was written at L belongs to a later commit than everything committed before L.
    return max((values[name] - less for name, less in (("commit_lsn", 0), ("lsn", 1), ("change_lsn", 1)) if name in values), default=None)


def _place(values: Mapping[str, int]) -> int | None:
    # An event that begins at a byte comes after every transaction that ends there or before.
    return values["file_number"] * MYSQL_LOG.unit + values["pos"] if {"file_number", "pos"} <= values.keys() else None


POSTGRES_LOG = SourceLog("0/16B3748", r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", 16, 1 << 32, "{:X}/{:X}", _lsn)
MYSQL_LOG = SourceLog("binlog.000012:4711", r"(?:.*[^0-9])?([0-9]{1,10}):([0-9]{1,15})", 10, 1 << 50, "{:06d}:{}", _place)
"""Binlog files and bytes in them. GTIDs have no order, so they are not used. The name before the file's number is the server's own."""
