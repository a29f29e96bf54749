"""The result of comparing a table with its source."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.core.reconcile.canonical import Columns
from compactor.core.reconcile.side import Key, Row
from compactor.core.results.plain import Plain
from compactor.core.results.record import Comparison

KINDS = ("missing", "extra", "changed", "repeated")
"""How the rows of a key differ."""

EQUAL, DIFFERENT, UNPROVEN, TOO_MANY = "equal", "different", "unproven", "too many"


@dataclass(frozen=True)
class Cell:
    """A column of a row that differs."""

    column: str
    source: str | None
    """The canonical text; None for null."""
    lake: str | None


@dataclass(frozen=True)
class RowDifference:
    """A key whose rows differ."""

    key: dict[str, str]
    """Key column → canonical text."""
    kind: str
    """`missing` in the lake, `extra` in the lake, `changed`, or `repeated` (other numbers of rows)."""
    rows: tuple[int, int]
    """Rows with this key: (source, lake)."""
    cells: tuple[Cell, ...]
    """The columns that differ, if each side has one row."""
    proof: str
    """Why it is no delay: the positions that were compared. "" if the lake has not come that far."""

    def without_values(self) -> RowDifference:
        return dataclasses.replace(self, cells=tuple(Cell(cell.column, None, None) for cell in self.cells))


@dataclass(frozen=True)
class ReconcileReport(Comparison, Plain):
    """What `compactor reconcile` has compared and found."""

    also = ("exit_code",)

    table: str
    outcome: str
    """`equal`; `different`; `unproven` (rows differ, and the lake has not reached the source's position); `too many` (not looked at one by one)."""
    version: int
    """The version of the lake that the checksums are about."""
    lake_rows: int
    """Compared rows of the lake."""
    columns: tuple[str, ...]
    parts: int
    """Number of key ranges whose checksums were compared."""
    suspects: int
    """Keys whose rows differed at first."""
    differences: tuple[RowDifference, ...]
    """The keys whose rows differ, at most as many as were asked for."""
    seconds: float

    @property
    def comparison(self) -> Comparison:
        """Return the part without keys and values of rows, which is recorded."""
        return Comparison(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Comparison)})

    @property
    def exit_code(self) -> int:
        """Return 0 if nothing differs, 75 if only time can show it, else 1."""
        return {EQUAL: 0, UNPROVEN: 75}.get(self.outcome, 1)


@dataclass(frozen=True)
class RepairReport(Plain):
    """What `compactor reconcile --repair` has done, or would do."""

    also = ("exit_code",)

    before: ReconcileReport
    after: ReconcileReport | None
    """The comparison after the repair; None if nothing was repaired."""
    rows: int
    """Keys that get the source's row."""
    deletes: int
    """Keys that only the lake has."""
    left: int
    """Keys that differ and are not repaired: beyond the limit, without proof, or of a kind that the signal does not repair."""
    written: str
    """The file in landing, or the id of the signal; "" if nothing was written."""
    left_null: tuple[str, ...] = ()
    """Columns of the table that are not compared, so that they are null in rows that only the source had."""

    @property
    def exit_code(self) -> int:
        """Return that of the last comparison."""
        return (self.after or self.before).exit_code


def difference(columns: Columns, key: Key, source: Sequence[Row], lake: Sequence[Row], proof: str) -> RowDifference:
    kind = "missing" if not lake else "extra" if not source else "changed" if len(source) == len(lake) else "repeated"
    cells: tuple[Cell, ...] = ()
    if len(source) == len(lake) == 1:
        triples = zip(columns.names, source[0].values, lake[0].values)
        cells = tuple(Cell(name, theirs, ours) for name, theirs, ours in triples if theirs != ours)
    return RowDifference({pair.name: text for pair, text in zip(columns.key, key)}, kind, (len(source), len(lake)), cells, proof)


def tally(differences: Sequence[RowDifference]) -> tuple[dict[str, int], dict[str, int]]:
    """Return (kind → rows, column → changed rows), the most frequent first."""
    kinds = Counter(each.kind for each in differences)
    cells = Counter(cell.column for each in differences for cell in each.cells)
    return dict(kinds.most_common()), dict(cells.most_common())
