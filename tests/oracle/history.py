"""The history of a table, by the model: all events in the order of their Positions, one after the other, and what each ends and begins.

Nothing is stored between events but the open version of each key. Values are the model's (`tests.oracle.model`): unavailable ones, key changes and
deletes are played back there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from compactor.core.model.position import Position
from tests.oracle.model import Change, Key, Replay, Row, ordered, shown


@dataclass(frozen=True)
class Version:
    """A row as it was from `start` until before `end` (None: still); times are numbers, `began` and `ended` name the events."""

    key: Key
    values: tuple[tuple[str, object], ...]
    start: int
    end: int | None
    deleted: bool
    began: Position
    ended: Position | None
    previous: Key | None


@dataclass(frozen=True)
class _Open:
    values: Row
    start: int
    began: Position
    previous: Key | None


def versions(changes: Iterable[Change], time: Callable[[Change], int], tracked: Sequence[str] | None = None) -> list[Version]:
    """Every version that readers see, in the order of their ends."""
    table, open_rows, begun, out = Replay(), dict[Key, _Open](), dict[Key, int](), list[Version]()

    def told(row: Row) -> Row:
        return {name: value for name, value in row.items() if tracked is None or name in tracked}

    def close(key: Key, change: Change, deleted: bool) -> None:
        was = open_rows.pop(key, None)
        if was is not None:
            values = tuple(sorted(was.values.items()))
            out.append(Version(key, values, was.start, begun[key], deleted, was.began, change.event, was.previous))

    for change in ordered(changes):
        met = list(begun) if change.op == "t" else [change.key, *([change.left] if change.left is not None else [])]
        for key in met:
            # a version never begins before the one it follows, whatever the source's clock says
            begun[key] = max(begun.get(key, time(change)), time(change))
        table.apply(change)
        for key in met:
            if key not in table.rows:
                close(key, change, deleted=True)
        if change.op in ("t", "d"):
            continue
        row, was = shown(table.rows[change.key]), open_rows.get(change.key)
        if was is not None and change.left is None and told(was.values) == told(row):
            open_rows[change.key] = replace(was, values=row)
            continue
        close(change.key, change, deleted=False)
        open_rows[change.key] = _Open(row, begun[change.key], change.event, change.left)
    for key, was in open_rows.items():
        out.append(Version(key, tuple(sorted(was.values.items())), was.start, None, False, was.began, None, was.previous))
    return out


def as_of(found: Iterable[Version], time: int) -> dict[Key, Row]:
    """The rows at a time."""
    return {one.key: dict(one.values) for one in found if one.start <= time and (one.end is None or time < one.end)}
