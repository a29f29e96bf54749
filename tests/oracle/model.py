"""The model: a table is what is left when all its events are played back in the order of their Positions. Nothing else.

No increments, no stored state, no merging: this is the plainest way to say what every engine has to arrive at, in whatever order and
however often files come. Late events, redelivered ones and key changes need no rule of their own here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.model.position import Position, event_part, sort_key
from compactor.core.sources.quarantine import Unusable

Key = tuple[Any, ...]
Row = dict[str, Any]
"""Values by column; a column that is not there is null, one that nobody has told is UNKNOWN."""

UNKNOWN = "(unknown)"


@dataclass(frozen=True)
class Change:
    """One event: op c, u, r, d or t; the key; what it tells; its full Position.

    A column neither in `values` nor in `missing` is told to be null. `left` is the key the row had before. `defaults` are
    those of the columns that its writer has beyond the first ones.
    """

    op: str
    key: Key
    values: Row
    position: Position
    missing: frozenset[str] = frozenset()
    left: Key | None = None
    defaults: tuple[tuple[str, Any], ...] = ()

    @property
    def event(self) -> Position:
        """What names the event at its source."""
        return event_part(self.position)

    @property
    def content(self) -> str:
        """What it says, whoever delivered it."""
        told = [self.op == "d", self.op == "t", self.key, sorted(self.values.items()), sorted(self.missing), self.left]
        return json.dumps(told, default=str)


Added = dict[str, tuple[Position, Any]]
"""Columns that the source added: the Position at which it did, and the default that rows from before it got then."""


class Replay:
    """A table being played back. `ended` holds what deleted rows were: a connector may send a key change as delete and create.

    `gone` has the keys of deleted rows, with what they were; None for one that was never there.
    """

    def __init__(self, added: Added | None = None) -> None:
        self.rows: dict[Key, Row] = {}
        self.ended: dict[Key, Row] = {}
        self.gone: dict[Key, Row | None] = {}
        self._to_come = dict(added or {})

    def add_columns(self, until: Position | None = None) -> None:
        """Columns that the source added up to a Position (in all) come to the rows that were there before."""
        for name, (first, default) in [*self._to_come.items()]:
            if until is None or sort_key(first) <= sort_key(until):
                for row in (*self.rows.values(), *filter(None, self.gone.values())):
                    row[name] = default
                del self._to_come[name]

    def apply(self, change: Change) -> None:
        """Play the next event back."""
        self.add_columns(change.position)
        if change.op == "t":
            self.rows.clear()
            self.ended.clear()
            self.gone.clear()
        elif change.op == "d":
            self._end(change.key)
        else:
            places = [self.rows[change.key]] if change.key in self.rows else []
            if change.left is not None:
                self._end(change.left)
                taken = self.ended.get(change.left)
                places = [taken, *places] if taken is not None else places
            known = {name: _first_known(name, places) for name in change.missing}
            self.rows[change.key] = {name: value for name, value in {**known, **change.values}.items() if value is not None}
            self.gone.pop(change.key, None)

    def _end(self, key: Key) -> None:
        if key in self.rows:
            self.ended[key] = self.gone[key] = self.rows.pop(key)
        self.gone.setdefault(key, None)


def _first_known(name: str, places: Sequence[Row]) -> Any:
    return next((row.get(name) for row in places if row.get(name) != UNKNOWN), UNKNOWN)


def cast(value: Any, kind: str) -> Any:
    """A JSON value as a column's type holds it."""
    if value is None or kind not in ("string", "double"):
        return value
    if kind == "double":
        return float(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(row: Row) -> Row:
    """What readers see of a row: unknown is null."""
    return {name: value for name, value in row.items() if value != UNKNOWN}


def ordered(changes: Iterable[Change]) -> list[Change]:
    """Every event once, in order. Of several deliveries of one event the greatest Position counts: ties go by file, then row."""
    once: dict[tuple[Position, str], Change] = {}
    for change in changes:
        name = (change.event, change.content)
        known = once.get(name)
        if known is None or sort_key(change.position) > sort_key(known.position):
            once[name] = change
    return sorted(once.values(), key=lambda change: sort_key(change.position))


def added(changes: Iterable[Change]) -> Added:
    """The columns that came after the first ones, by the first event that has each."""
    out: Added = {}
    for change in sorted(changes, key=lambda change: sort_key(change.position)):
        for name, default in change.defaults:
            out.setdefault(name, (change.position, default))
    return out


DELETED = "_deleted"
"""Marks a row that `delete: soft` still shows."""


def replayed(changes: Iterable[Change], soft: bool = False) -> dict[Key, Row]:
    """The current rows, by key; with `soft` also the deleted ones, each as it last was."""
    told = [*changes]
    table = Replay(added(told))
    for change in ordered(told):
        table.apply(change)
    table.add_columns()
    gone = {key: {**shown(row or {}), DELETED: True} for key, row in table.gone.items() if soft}
    return {**{key: shown(row) for key, row in table.rows.items()}, **gone}


def parsed(lines: bytes, path: str, epoch: int = 0) -> list[Change]:
    """The events of a landed file, without what cannot be used."""
    try:
        return sorted_out(lines, path, epoch)[0]
    except UnicodeDecodeError:
        return []


def sorted_out(lines: bytes, path: str, epoch: int = 0) -> tuple[list[Change], list[Unusable]]:
    """A landed file of JSON lines, `{"op", "key": [..], "values": {..}, "position": [..], "missing": [..], "from": [..]}`: events, and the rest.

    Records with op `-` carry no row. A file that is no UTF-8 cannot be opened: raises UnicodeDecodeError.
    """
    changes, unusable = [], []
    for row, line in enumerate(lines.decode().splitlines()):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            if raw["op"] == "-":
                continue
            key, position = tuple(raw.get("key") or ()), (epoch, *raw["position"], path, 0, row)
            if raw["op"] not in ("c", "u", "r", "d", "t"):
                raise ValueError(f"unknown operation {raw['op']!r}")
            if raw["op"] != "t" and (not key or None in key):
                raise ValueError(f"expected a key, found {key}")
            if None in position:
                raise ValueError(f"expected order values, found {raw['position']}")
        except (ValueError, KeyError, TypeError) as error:
            unusable.append(Unusable(path, repr(error), row + 1, text=line))
            continue
        left = tuple(raw["from"]) if raw.get("from") else None
        defaults = tuple(sorted(raw.get("defaults", {}).items()))
        changes.append(Change(raw["op"], key, raw.get("values", {}), position, frozenset(raw.get("missing", ())), left, defaults))
    return changes, unusable


def line(
    op: str, key: Iterable[Any], position: Iterable[Any], values: Row | None = None, missing: Iterable[str] = (), left: Key | None = None
) -> str:
    """One line of a landed file."""
    raw: dict[str, Any] = {"op": op, "key": list(key), "position": list(position)}
    raw.update({"values": values} if values else {})
    raw.update({"missing": sorted(missing)} if missing else {})
    raw.update({"from": list(left)} if left else {})
    return json.dumps(raw)
