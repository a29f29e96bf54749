"""A source database with a connector: what it really holds, and the events it sends. What a table must become, known without any replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.oracle.model import Key, Row, line

KINDS = ("insert", "update", "partial", "delete", "move", "move_partial", "move_in_two", "snapshot", "truncate")
PLAIN = ("insert", "update", "delete", "snapshot", "truncate")
"""Statements that leave no value out and change no key, as the list engine takes them."""


@dataclass
class Source:
    """Rows by key, and every event so far as a line of a file. Keys are 0..`keys`-1, shown as `composite` asks."""

    keys: int = 6
    composite: bool = False
    rows: dict[int, Row] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    seq: int = 0

    def key(self, number: int) -> Key:
        """The key that the table has for a row."""
        return (number % 3, f"k{number}") if self.composite else (number,)

    def step(self, kind: str, pick: int, value: int) -> None:
        """One statement; one that does not fit (an insert when every key is taken) becomes one that does."""
        free = [key for key in range(self.keys) if key not in self.rows]
        if kind == "truncate":
            self.rows.clear()
            self._send("t", ())
        elif kind == "insert" or not self.rows or (kind.startswith("move") and not free):
            self._insert(free, pick, value)
        elif kind.startswith("move"):
            self._move(kind, sorted(self.rows)[pick % len(self.rows)], free[value % len(free)], value)
        else:
            self._change(kind, sorted(self.rows)[pick % len(self.rows)], value)

    def _insert(self, free: list[int], pick: int, value: int) -> None:
        if not free:
            return self._change("update", pick % self.keys, value)
        number = free[pick % len(free)]
        self.rows[number] = {"a": value, "b": f"b{value}", "c": None if value % 3 else f"c{value}"}
        return self._send("c", self.key(number), dict(self.rows[number]))

    def _change(self, kind: str, number: int, value: int) -> None:
        row = self.rows[number]
        if kind == "delete":
            del self.rows[number]
            return self._send("d", self.key(number))
        if kind == "snapshot":
            return self._send("r", self.key(number), dict(row))
        row["a"] = value
        if kind == "update":
            row["b"] = f"b{value}" if value % 2 else None
        missing = _unavailable(value) if kind == "partial" else ()
        return self._send("u", self.key(number), {name: row[name] for name in row if name not in missing}, missing)

    def _move(self, kind: str, number: int, target: int, value: int) -> None:
        row = self.rows.pop(number)
        self.rows[target] = {**row, "a": value}
        missing = () if kind == "move" else _unavailable(value)
        if kind == "move_in_two":
            self._send("d", self.key(number))
        told = {name: held for name, held in self.rows[target].items() if name not in missing}
        self._send("c" if kind == "move_in_two" else "u", self.key(target), told, missing, self.key(number))

    def _send(self, op: str, key: Key, values: Row | None = None, missing: tuple[str, ...] = (), left: Key | None = None) -> None:
        self.seq += 10
        self.lines.append(line(op, key, [self.seq], values, missing, left))

    def table(self) -> dict[Key, dict[str, Any]]:
        """What a reader of the source sees: rows by key, nulls left out."""
        return {self.key(number): {name: held for name, held in row.items() if held is not None} for number, row in self.rows.items()}


def _unavailable(value: int) -> tuple[str, ...]:
    return (("b",), ("c",), ("b", "c"))[value % 3]
