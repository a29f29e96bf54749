"""Parts: which rows of a table one checksum is about, and how a part with different checksums is divided."""

from __future__ import annotations

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
            return Split(-(-(self.high - self.low) // 16))
        return Split(digits=len(self.prefix) + 1)


@dataclass(frozen=True)
class Split:
    """How a part is divided: into ranges of a width, labelled by their least value, or by a number of digits, which are the label."""

    width: int = 0
    """Values in a range; the first range begins where the part does. 0 to divide by digits."""
    digits: int = 0
    """Length of the prefix, where parts are divided by digits."""

    def part(self, label: str, of: Part) -> Part:
        """Return the part with this label below `of`."""
        if not self.width:
            return Part(of.low, of.high, label)
        high = int(label) + self.width
        return Part(int(label), high if of.high is None else min(high, of.high), of.prefix)
