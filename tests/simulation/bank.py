"""The workload: a bank whose accounts come in couples, and the files in which a sink delivers its transactions.

A couple is two rows that were opened with 100 each. A transaction moves an amount between the accounts of one couple: two events of one commit
position in one file. So in every committed version, whatever it has absorbed and in whatever order, both accounts of a couple are there with
200 together, or neither is. Beside transfers the bank closes and opens couples, truncates, adds a column and changes a type.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.model import line

START = 100


@dataclass(frozen=True)
class Delivery:
    """A file that the sink writes."""

    path: str
    """Path below the landing root; a second delivery of the same path replaces the file."""
    lines: tuple[str, ...]
    """One event a line."""
    damaged: bool = False
    """Whether nobody can open the file."""

    @property
    def data(self) -> bytes:
        """The content."""
        return "\n".join(self.lines).encode() + (b"\xff" if self.damaged else b"")


@dataclass
class Bank:
    """The source. Every method returns the events of one transaction."""

    couples: int
    """How many couples of accounts there are at most."""
    dice: random.Random
    """Decides amounts."""
    types_change: bool = False
    """Whether the column `b` becomes text; then each transaction has it, or the new type would be another column."""
    balances: dict[int, int] = field(default_factory=dict)
    """Couple → what its first account holds; the second one has the rest of 200."""
    seq: int = 0
    """The position of the newest transaction."""

    def open(self, couple: int) -> list[str]:
        """Open both accounts, or transfer when they are open."""
        if couple in self.balances:
            return self.transfer(couple)
        self.balances[couple] = START
        return self._both("c", couple)

    def transfer(self, couple: int) -> list[str]:
        """Move an amount between the two."""
        if couple not in self.balances:
            return self.open(couple)
        self.balances[couple] = self.dice.randrange(2 * START)
        return self._both("u", couple)

    def close(self, couple: int) -> list[str]:
        """Delete both accounts."""
        if self.balances.pop(couple, None) is None:
            return self.open(couple)
        self.seq += 1
        return [line("d", [2 * couple + side], [self.seq]) for side in (0, 1)]

    def truncate(self) -> list[str]:
        """Empty the table, and open one couple again."""
        self.balances.clear()
        self.seq += 1
        return [line("t", [], [self.seq]), *self.open(0)]

    def any(self) -> list[str]:
        """A transaction of any kind."""
        couple, draw = self.dice.randrange(self.couples), self.dice.random()
        if draw < 0.05:
            return self.truncate()
        if self.types_change:
            return self.transfer(couple)
        if draw < 0.15:
            return self.close(couple)
        return self.transfer(couple)

    def _both(self, op: str, couple: int) -> list[str]:
        self.seq += 1
        events = []
        for side in (0, 1):
            balance = self.balances[couple] if side == 0 else 2 * START - self.balances[couple]
            text = f"n{self.seq}" if self.types_change and self.seq > 12 else self.seq
            values: dict[str, Any] = {"a": balance, "b": text}
            if self.seq % 5 == 0:
                values["c"] = self.seq
            events.append(line(op, [2 * couple + side], [self.seq], values))
        return events


def deliveries(dice: random.Random, bank: Bank, files: int) -> list[Delivery]:
    """Return the files of a sink, the first one opening all couples: in order, late, repeated, replaced and damaged."""
    made = [Delivery(_path(0, 0), tuple(event for couple in range(bank.couples) for event in bank.open(couple)))]
    for number in range(1, files):
        lines = tuple(event for _ in range(dice.choice((1, 1, 2, 3))) for event in bank.any())
        made.append(Delivery(_path(dice.randrange(3), number), lines))
    if dice.random() < 0.3:
        at = dice.randrange(1, max(2, files - 1))
        made[at : at + 2] = reversed(made[at : at + 2])
    extra = dice.random()
    again = made[dice.randrange(len(made))]
    place = dice.randrange(made.index(again) + 1, len(made) + 1)
    if extra < 0.2:
        made.insert(place, Delivery(_path(2, files), again.lines))
    elif extra < 0.35 and not bank.types_change:
        # numbers that become text are read again from the archive, which lacks what was written over before it was archived
        made.append(Delivery(again.path, (*again.lines, *bank.any())))
    elif extra < 0.45:
        made.insert(place, Delivery(_path(1, files), again.lines, damaged=True))
    elif extra < 0.55:
        made.insert(place, Delivery(_path(1, files), (again.lines[0], "{oops", *again.lines[1:])))
    return made


def _path(hour: int, number: int) -> str:
    return f"increment_20260101{hour:02d}/{number:04d}.json"


def unbalanced(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return how the rows that a reader has contradict the bank, None if they do not."""
    balances = {row["id"]: row["a"] for row in rows}
    for account, balance in balances.items():
        other = balances.get(account ^ 1)
        if other is None or balance + other != 2 * START:
            return f"accounts {account} and {account ^ 1} hold {balance} and {other}, expected {2 * START} together"
    return None
