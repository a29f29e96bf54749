"""One side of a comparison, the lake or the source: it answers by SQL, whatever system runs it, about all rows, a part of them, or some keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.errors import Refused
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.dialects import Dialect

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
        if not self.width:
            return Part(of.low, of.high, label)
        high = int(label) + self.width
        return Part(int(label), high if of.high is None else min(high, of.high), of.prefix)


Key = tuple[str, ...]
"""The canonical texts of the key columns."""

Query = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement and returns its rows."""


@dataclass(frozen=True)
class Row:
    """A row as both sides write it."""

    digest: str
    """The MD5 of the canonical texts: rows are equal if their digests are."""
    mark: str = ""
    """What changes whenever the row is written, where the side has such a thing (PostgreSQL: `xmin`; the lake: the version that stored it)."""
    values: tuple[str | None, ...] = ()
    """The canonical texts of the compared columns; () where only digests were read."""
    own: tuple[str | None, ...] = ()
    """The texts that this side has instead of the canonical ones (`Dialect.own_text`), one for each of `values`."""


Rows = dict[Key, tuple[Row, ...]]
"""Key → its rows, in the order of their digests. Keys without rows are left out."""


class Side:
    """The rows of a relation. `relation`: what follows FROM; `mark`: an expression for `Row.mark`; `where`: a condition on the rows that count."""

    def __init__(self, sql: Dialect, relation: str, columns: Columns, query: Query, mark: str = "''", where: str = "") -> None:
        self._sql, self._relation, self._columns, self._query, self._mark = sql, relation, columns, query, mark
        self._counted = f"({where}) AND " if where else ""
        self._own = {at: text for at, pair in enumerate(columns.pairs) if (text := sql.own_text(pair))}

    def bounds(self) -> tuple[int, int] | None:
        """Return the least and the greatest value of the first key column if both sides have whole numbers there, else None; None without rows.

        Raises Refused for a row of the source without value in it: no range has such a row.
        """
        if not self._columns.ranged:
            return None
        name = self._sql.name(self._columns.key[0])
        if not self._sql.lake and self._query(f"SELECT 1 FROM {self._relation} WHERE {self._counted}{name} IS NULL LIMIT 1"):
            raise Refused(f"a row of the source has null in the key column {self._columns.key[0].source}: correct it, and compare again")
        ((low, high),) = self._query(f"SELECT min({name}), max({name}) FROM {self._relation} WHERE {self._counted}1 = 1")
        return None if low is None else (int(low), int(high))

    def checksums(self, part: Part, split: Split) -> dict[str, Checksum]:
        """Return the checksums of the parts into which `split` divides the rows of `part`; parts without rows are left out."""
        # the difference of two of MySQL's unsigned numbers would not be negative, that of decimals is
        by_range = f"cast(k as decimal(38, 0)) - mod(cast(k as decimal(38, 0)) - ({part.low}), {split.width})"
        label = by_range if split.width else f"substr({self._digest(self._columns.key)}, 1, {split.digits})"
        number = self._sql.number.format(f"substr({self._digest(self._columns.pairs)}, 1, 15)")
        rows = self._query(
            f"SELECT label, count(*), sum(n) FROM (SELECT {label} AS label, {number} AS n FROM ({self._texts([part])}) r) d GROUP BY label"
        )
        # a number may come as decimal
        return {str(int(label)) if split.width else str(label): (int(count), int(total)) for label, count, total in rows}

    def digests(self, parts: Sequence[Part]) -> Rows:
        """Return the rows of some parts, without values."""
        return self._rows(self._texts(parts), len(self._columns.key))

    def rows(self, keys: Sequence[Key]) -> Rows:
        return self._rows(self._select(self.condition(keys), self._own), len(self._columns.pairs), self._own)

    def condition(self, keys: Sequence[Key]) -> str:
        """Return the SQL condition for the rows with these keys."""
        left = _tuple(map(self._sql.operand, self._columns.key))
        right = ", ".join(_tuple(map(self._sql.value, self._columns.key, key)) for key in keys)
        return f"{left} IN ({right})"

    def _rows(self, texts: str, width: int, own: Mapping[int, str] | None = None) -> Rows:
        """Return the rows of a statement, with their values if `own` is not None."""
        names = ", ".join([*(f"c{at}" for at in range(width)), *(f"o{at}" for at in own or ())])
        rows: dict[Key, list[Row]] = defaultdict(list)
        for digest, mark, *read in self._query(f"SELECT {self._digest(self._columns.pairs)}, m, {names} FROM ({texts}) r"):
            texts_of = dict(zip(own or (), read[width:]))
            values = (tuple(read[:width]), tuple(map(texts_of.get, range(width)))) if own is not None else ()
            rows[tuple(read[: len(self._columns.key)])].append(Row(digest, str(mark), *values))
        return {key: tuple(sorted(each, key=lambda row: (row.digest, row.mark))) for key, each in rows.items()}

    def _texts(self, parts: Sequence[Part]) -> str:
        first = self._sql.name(self._columns.key[0])
        return self._select(" OR ".join(f"({self._condition(first, part)})" for part in parts))

    def _select(self, condition: str, own: Mapping[int, str] | None = None) -> str:
        canonical = (f"{self._sql.text(pair)} AS c{at}" for at, pair in enumerate(self._columns.pairs))
        texts = ", ".join([*canonical, *(f"{text} AS o{at}" for at, text in (own or {}).items())])
        first = self._sql.name(self._columns.key[0])
        return f"SELECT {texts}, {first} AS k, {self._mark} AS m FROM {self._relation} WHERE {self._counted}({condition})"

    def _condition(self, first: str, part: Part) -> str:
        conditions = [f"{first} >= {part.low}"] if part.low is not None else []
        conditions += [f"{first} < {part.high}"] if part.high is not None else []
        if part.prefix:
            digest = self._digest(self._columns.key, [self._sql.text(pair) for pair in self._columns.key])
            conditions.append(f"substr({digest}, 1, {len(part.prefix)}) = '{part.prefix}'")
        return " AND ".join(conditions) or "1 = 1"

    def _digest(self, pairs: Sequence[Pair], texts: Sequence[str] = ()) -> str:
        """Return an expression for the digest of texts, by default the columns of `_texts`. No two rows have the same text: each value has its length
        before it, `-` stands for null."""
        texts = texts or [f"c{at}" for at in range(len(pairs))]
        joined = " || ".join(f"coalesce(char_length({text}) || ':' || {text}, '-')" for text in texts)
        return self._sql.digest.format(joined)


def _tuple(values: Iterable[str]) -> str:
    """Return a SQL tuple, or its only value."""
    first, *more = values
    return f"({', '.join([first, *more])})" if more else first
