"""One side of a comparison: the Protocol, and the side that answers by SQL, whatever system runs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from compactor.core.reconcile.canonical import Columns, Sql
from compactor.core.reconcile.parts import Checksum, Part, Split

Key = tuple[str, ...]
"""The canonical texts of the key columns."""

Query = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement and returns its rows."""


@dataclass(frozen=True)
class Row:
    """A row as both sides write it."""

    values: tuple[str | None, ...]
    """The canonical texts of the compared columns."""
    mark: str = ""
    """What changes whenever the row is written, where the side has such a thing (PostgreSQL: `xmin`; the lake: the version that stored it)."""


class Side(Protocol):
    """What a comparison asks of the lake, and of the source."""

    def bounds(self) -> tuple[int, int] | None:
        """Return the least and the greatest value of the first key column if both sides have whole numbers there, else None; None without rows."""

    def checksums(self, part: Part, split: Split) -> dict[str, Checksum]:
        """Return the checksums of the parts into which `split` divides the rows of `part`; parts without rows are left out."""

    def digests(self, parts: Sequence[Part]) -> dict[Key, tuple[str, ...]]:
        """Return key → the sorted digests of its rows, for the rows of some parts."""

    def rows(self, keys: Sequence[Key]) -> dict[Key, tuple[Row, ...]]:
        """Return key → its rows, in the order of their values. Keys without rows are left out."""


class SqlSide:
    """A side that runs SQL. `relation`: what follows FROM; `mark`: an expression for `Row.mark`; `where`: a condition on the rows that count."""

    def __init__(self, sql: Sql, relation: str, columns: Columns, query: Query, mark: str = "''", where: str = "") -> None:
        self._sql, self._relation, self._columns, self._query, self._mark = sql, relation, columns, query, mark
        self._counted = f"({where}) AND " if where else ""

    def bounds(self) -> tuple[int, int] | None:
        """See Side."""
        if not self._columns.ranged:
            return None
        name = self._sql.name(self._columns.key[0])
        ((low, high),) = self._query(f"SELECT min({name}), max({name}) FROM {self._relation} WHERE {self._counted}1 = 1")
        return None if low is None else (int(low), int(high))

    def checksums(self, part: Part, split: Split) -> dict[str, Checksum]:
        """See Side."""
        label = self._sql.piece("k", split.origin, split.width) if split.width else f"substr({self._key_digest()}, 1, {split.digits})"
        number = self._sql.number(f"substr({self._row_digest()}, 1, 15)")
        rows = self._query(
            f"SELECT label, count(*), sum(n) FROM (SELECT {label} AS label, {number} AS n FROM ({self._texts([part])}) r) d GROUP BY label"
        )
        # a piece may come as decimal
        return {str(int(label)) if split.width else str(label): (int(count), int(total)) for label, count, total in rows}

    def digests(self, parts: Sequence[Part]) -> dict[Key, tuple[str, ...]]:
        """See Side."""
        keys = [f"c{at}" for at in range(len(self._columns.key))]
        rows = self._query(f"SELECT {', '.join(keys)}, {self._row_digest()} FROM ({self._texts(parts)}) r")
        digests: dict[Key, list[str]] = defaultdict(list)
        for *key, digest in rows:
            digests[tuple(key)].append(digest)
        return {key: tuple(sorted(each)) for key, each in digests.items()}

    def rows(self, keys: Sequence[Key]) -> dict[Key, tuple[Row, ...]]:
        """See Side."""
        if not keys:
            return {}
        pairs = self._columns.key
        left = [self._sql.operand(pair) for pair in pairs]
        right = [[self._sql.value(pair, text) for pair, text in zip(pairs, key)] for key in keys]
        condition = f"{_tuple(left)} IN ({', '.join(_tuple(values) for values in right)})"
        rows: dict[Key, list[Row]] = defaultdict(list)
        for *values, mark in self._query(f"SELECT {self._text_columns()}, {self._mark} FROM {self._relation} WHERE {self._counted}{condition}"):
            rows[tuple(values[: len(pairs)])].append(Row(tuple(values), str(mark)))
        return {key: tuple(sorted(each, key=lambda row: [value or "" for value in row.values])) for key, each in rows.items()}

    def _text_columns(self) -> str:
        return ", ".join(f"{self._sql.text(pair)} AS c{at}" for at, pair in enumerate(self._columns.pairs))

    def _texts(self, parts: Sequence[Part]) -> str:
        first = self._columns.key[0]
        conditions = " OR ".join(f"({self._condition(part)})" for part in parts)
        return f"SELECT {self._text_columns()}, {self._sql.name(first)} AS k FROM {self._relation} WHERE {self._counted}({conditions})"

    def _condition(self, part: Part) -> str:
        first = self._sql.name(self._columns.key[0])
        conditions = [f"{first} >= {part.low}"] if part.low is not None else []
        conditions += [f"{first} < {part.high}"] if part.high is not None else []
        if part.prefix:
            texts = [self._sql.text(pair) for pair in self._columns.key]
            conditions.append(f"substr({self._sql.digest(self._joined(texts))}, 1, {len(part.prefix)}) = '{part.prefix}'")
        return " AND ".join(conditions) or "1 = 1"

    def _key_digest(self) -> str:
        return self._sql.digest(self._joined([f"c{at}" for at in range(len(self._columns.key))]))

    def _row_digest(self) -> str:
        return self._sql.digest(self._joined([f"c{at}" for at in range(len(self._columns.pairs))]))

    def _joined(self, texts: Iterable[str]) -> str:
        """Return an expression that joins texts so that no two rows have the same result: each with its length before it, `-` for null."""
        return " || ".join(f"coalesce({self._sql.characters(text)} || ':' || {text}, '-')" for text in texts)


def _tuple(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
