"""Parts: which rows of a table one checksum is about, and how a part with different checksums is divided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Checksum = tuple[int, int]
"""(number of rows, sum of their digests)."""

NOTHING: Checksum = (0, 0)


@dataclass(frozen=True)
class Part:
    """Rows by a range of the first key column (for whole numbers) and by the first digits of the digest of the key."""

    low: int | None = None
    """The least value of the first key column; None for no bound."""
    high: int | None = None
    """The value after the greatest one; None for no bound."""
    prefix: str = ""
    """The first hexadecimal digits of the MD5 of the key's canonical text."""

    def divided(self) -> Split:
        """Return how to divide the part: into 16 ranges as long as it has several values of the column, else by the next digit."""
        if self.low is not None and self.high is not None and self.high - self.low > 1:
            return Split(self.low, -(-(self.high - self.low) // 16))
        return Split(digits=len(self.prefix) + 1)


@dataclass(frozen=True)
class Split:
    """How rows are numbered by parts: by ranges of a width, or by a number of digits."""

    origin: int = 0
    """Where the first range begins."""
    width: int = 0
    """Values in a range; 0 to divide by digits."""
    digits: int = 0
    """Length of the prefix, where parts are divided by digits."""

    def part(self, label: str, of: Part) -> Part:
        """Return the part with this label below `of`."""
        if self.width:
            low = self.origin + int(label) * self.width
            high = low + self.width
            return Part(low, high if of.high is None else min(high, of.high), of.prefix)
        return Part(of.low, of.high, label)


def differing(left: Mapping[str, Checksum], right: Mapping[str, Checksum]) -> list[str]:
    """Return the labels whose checksums differ. A part without rows has no entry.

    >>> differing({"0": (2, 5), "1": (1, 9)}, {"0": (2, 5), "2": (1, 3)})
    ['1', '2']
    """
    return sorted(label for label in {*left, *right} if left.get(label, NOTHING) != right.get(label, NOTHING))
