"""Infer the key of a table from a sample of its rows: the fewest columns whose values identify a row in every sampled file.

A file is looked at by itself, because rows without an operation are upserts: the same key comes again in the next file. A sample can refute a key
and never prove one, so each proposal has a reason that names the evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from compactor.core.results.phrases import counted

ROWS_MIN = 5
"""Rows that one file needs before its columns are candidates for the key."""

ROWS_SURE = 20
"""Rows that a likely key needs before `init` writes it into the file. With fewer rows it is a commented line."""

_ROWS_MAX = 5_000
_COLUMNS_MAX, _TOGETHER_MAX = 12, 3
_TIME = re.compile(
    r"(?:^|_)(?:at|on|date|time|timestamp|ts|ts_ms|ts_us|lsn|scn|seq|sequence|offset|version|updated|created|modified)(?:$|_)|(?:date|time)$",
    re.IGNORECASE,
)
"""Columns that order or date the changes of a row rather than identify it."""

_LIKE_A_KEY = re.compile(r"(id|code|no|nr|number|key)$", re.IGNORECASE)


@dataclass(frozen=True)
class ProposedKey:
    """A key that the sample does not refute."""

    columns: tuple[str, ...]
    reason: str
    """The evidence: how many rows were compared, and what else could be the key."""
    likely: bool
    """Whether names and number of rows make it likely enough to be used without an answer."""


@dataclass
class RowSample:
    """Rows of one source table: those that it inserted file by file, because only these show the key."""

    files: list[list[dict[str, Any]]] = field(default_factory=list)
    """The rows of each sampled file. A value is None where it is null or cannot be part of a key. Rows that a snapshot read count as a file of their
    own: a snapshot that goes on beside the stream reads rows that the stream has inserted."""
    changed: list[dict[str, Any]] = field(default_factory=list)
    gone: list[dict[str, Any]] = field(default_factory=list)
    """What is known of deleted rows. Their keys may be inserted again."""
    old: tuple[str, ...] = ()
    """The columns that the images of deleted rows have: most sources send the key only."""
    _current: dict[bool, list[dict[str, Any]]] = field(default_factory=dict)

    def next_file(self) -> None:
        self._current = {}

    def add(self, row: Mapping[str, Any], read: bool = False) -> None:
        """Add an inserted row. `read`: a snapshot read it."""
        if read not in self._current:
            self._current[read] = []
            self.files.append(self._current[read])
        if len(self._current[read]) < _ROWS_MAX:
            self._current[read].append(_comparable(row))

    def update(self, row: Mapping[str, Any]) -> None:
        if len(self.changed) < _ROWS_MAX:
            self.changed.append(_comparable(row))

    def remove(self, row: Mapping[str, Any], image: bool = False) -> None:
        """Add what is known of a deleted row. `image`: it has the columns that the source sends of such rows."""
        self.gone.append(_comparable(row))
        if image:
            self.old = max(self.old, tuple(name for name, value in row.items() if value is not None and value != ""), key=len)

    @property
    def rows(self) -> int:
        return sum(map(len, self.files))

    def is_never_null(self, column: str) -> bool:
        return all(row.get(column) is not None for rows in self.files for row in rows)

    def is_unique(self, columns: Sequence[str]) -> bool:
        """Return whether the columns are never null and identify a row in each file. At least one file needs ROWS_MIN rows."""
        keys = [[tuple(row.get(name) for name in columns) for row in rows] for rows in self.files]
        unique = all(len({*each}) == len(each) and not any(None in key for key in each) for each in keys)
        return unique and any(len(each) >= ROWS_MIN for each in keys)


def _comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    # structs, arrays and fractions cannot be part of a key
    return {name: None if value == "" or isinstance(value, (dict, list, float)) else value for name, value in row.items()}


def candidates(sample: RowSample, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify a row alone, in order."""
    return tuple(name for name in columns if not name.startswith("__") and sample.is_unique([name]))


def propose(sample: RowSample, columns: Sequence[str], table: str) -> ProposedKey | None:
    """Return the most likely key, or None if the sample shows none. `table`: the table's name, which key columns often begin with."""
    alone = candidates(sample, columns)
    lasting = [name for name in alone if not _TIME.search(name)]
    named = [name for name in alone if is_named_like_a_key(name, table)]
    files = sum(bool(rows) for rows in sample.files)
    evidence = f"{sample.rows:,} sampled rows" + (f" ({files} files, each by itself)" if files != 1 else "")
    # a source that sends whole rows has values in all columns that are never null
    sends_keys = any(name not in sample.old and sample.is_never_null(name) for name in columns)
    if sample.old and sends_keys and sample.is_unique(sample.old):
        return ProposedKey(sample.old, f"the columns that deleted rows still have, unique in {evidence}", sample.rows >= ROWS_SURE)
    if named or lasting:
        chosen = (named or lasting)[0]
        others = [name for name in alone if name != chosen]
        also = f"; so is {', '.join(others[:5])}" if others else "; no other column is"
        likely = sample.rows >= ROWS_SURE and (bool(named) or (len(lasting) == 1 and chosen == columns[0]))
        return ProposedKey((chosen,), f"never null and unique in {evidence}{also}", likely)
    usable = [name for name in columns if not name.startswith("__") and not _TIME.search(name)][:_COLUMNS_MAX]
    for size in range(2, _TOGETHER_MAX + 1):
        if together := [names for names in combinations(usable, size) if sample.is_unique(names)]:
            best = max(together, key=lambda names: sum(bool(_LIKE_A_KEY.search(name)) for name in names))
            return ProposedKey(best, f"unique together in {evidence}; no single column is", False)
    return None


@dataclass(frozen=True)
class RepeatedKey:
    """A key that several inserted rows have, although other columns identify these rows."""

    key: tuple[str, ...]
    values: int
    """Its different values."""
    rows: int
    unique: tuple[str, ...]
    """Columns that identify a row, each alone, or all of them together."""
    together: bool
    """Whether the columns of `unique` do so only together."""

    @property
    def sentence(self) -> str:
        unique = f"{', '.join(self.unique)}{' together' if self.together else ''}"
        return f"{', '.join(self.key)} has {counted(self.values, 'value')} in {self.rows:,} inserted rows; unique in the sample: {unique}"


def repeated(sample: RowSample, columns: Sequence[str], key: Sequence[str], table: str, order: Sequence[str] = ()) -> RepeatedKey | None:
    """Return how the key repeats in the file where it does most. None if it does not, or if no other columns identify the rows.

    Equal rows count once, because sources deliver again, and after each deleted row another one may have its key. Columns in `order`, and those that
    date a row, identify events, not rows.
    """

    def of(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in key)

    def remaining(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        deleted = Counter(map(of, sample.gone))
        for row in rows:
            if deleted[of(row)]:
                deleted[of(row)] -= 1
            elif None not in of(row):
                yield row

    distinct = [{tuple(item for item in row.items() if item[0] not in order): row for row in rows}.values() for rows in sample.files]
    files = [[*remaining(rows)] for rows in distinct]
    worst = max(files, key=lambda rows: len(rows) - len({*map(of, rows)}), default=[])
    values = len({*map(of, worst)})
    others, rest = [name for name in columns if name not in order], RowSample(files)
    guess = propose(rest, others, table) if values < len(worst) else None
    if guess is None:
        return None
    alone = tuple(name for name in candidates(rest, others) if not _TIME.search(name))
    return RepeatedKey(tuple(key), values, len(worst), alone[:5] or guess.columns, not alone and len(guess.columns) > 1)


def contradicted(sample: RowSample, columns: Sequence[str], key: Sequence[str], table: str) -> str:
    """Return why the key of the Kafka records does not identify the rows, "" if the sample does not refute it.

    A deleted row that has only its own key has nothing, or a filler, in the columns of another one.
    """

    def of(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in key)

    rows = [row for each in (*sample.files, sample.changed) for row in each]
    never_null = {name for name in columns if rows and sample.is_never_null(name)}
    # empty text counts as null, and may be the key of a row that has its other values
    cut = [row for row in sample.gone if any(row.get(name) is None for name in never_null - {*key})]
    if empty := next((name for name in key for row in cut if name in never_null and row.get(name) is None), ""):
        return f"a deleted row has no value in {empty}"
    keys = {*map(of, rows)}
    # what identifies a row alone: (column, value) → the row's key
    key_of = {(name, row[name]): of(row) for name in candidates(sample, columns) for row in rows if row.get(name) is not None}
    unmatched = [row for row in sample.gone if of(row) not in keys]
    # values of such deleted rows that identify another row: (column, the deleted row's key, the other row's). 0 and false may be fillers
    others = [
        (name, of(row), key_of[name, value])
        for row in unmatched
        for name, value in row.items()
        if value and key_of.get((name, value), of(row)) != of(row)
    ]
    has_filler = any(not its for _, deleted, other in others for its, value in zip(deleted, other) if its != value)
    if has_filler or (len(unmatched) == len(sample.gone) and any(name not in key for name, _, _ in others)):
        return f"a deleted row has another value in {', '.join(key)}"
    evidence = repeated(sample, columns, key, table)
    return evidence.sentence if evidence and not evidence.together else ""


def is_named_like_a_key(column: str, table: str) -> bool:
    """Return whether a column has a usual name of a key: id, uuid, or the table's name with one of them.

    >>> [is_named_like_a_key(name, "orders") for name in ("ID", "order_id", "orderId", "customer_id")]
    [True, True, True, False]
    """
    names = [table, table[:-1] if table.endswith("s") else table, f"{table[:-3]}y" if table.endswith("ies") else table]
    return any(re.fullmatch(rf"(?:{re.escape(name)}_?)?(?:id|uuid|guid|pk|key|no|nr|number|code)", column, re.IGNORECASE) for name in names)
