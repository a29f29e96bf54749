"""The files of the list engine: `row_state=*/part-*.json`, each a JSON array of a few rows, sorted by key.

{"id": 1, "a": 5, "_version": 3, "_at": [..], "_gone": null}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.core.formats import checksum
from compactor.core.model.errors import CheckFailed
from compactor.core.model.files import LIVE, DataFile, Delta, Segment
from compactor.core.model.layout import relative
from compactor.core.model.position import Position, earliest, event_part, latest
from compactor.core.model.schema import Schema
from compactor.core.model.spec import TableSpec
from compactor.ports import Storage
from tests.oracle.model import Key, Row, cast

_ROWS_PER_FILE = 8
_PADDING = "." * 100
"""Makes rows large beside the rest of a file, so that few of them make several Segments that are worth compacting."""

Range = tuple[Key | None, Key | None, Sequence["State"]]
"""The first key, the key after the last one, and the rows between them."""


@dataclass(frozen=True)
class State:
    """A stored row: the newest values of its key with their Position, and the Position of its newest delete."""

    key: Key
    version: int
    values: Row
    at: Position | None
    gone: Position | None

    @property
    def position(self) -> Position:
        """The Position of the newest event."""
        newest = latest([self.at, self.gone])
        assert newest is not None
        return newest

    @property
    def content(self) -> tuple[object, ...]:
        """What it says, whoever delivered it."""
        return self.values, *(at and event_part(at) for at in (self.at, self.gone))

    @property
    def deleted(self) -> bool:
        """Whether the delete is newer than the values."""
        return self.position == self.gone


def read(storage: Storage, spec: TableSpec, part: Segment | Delta, schema: Schema) -> list[State]:
    """The rows of a Segment or Delta, with the columns of `schema`."""
    states = []
    for file in part.files:
        for raw in json.loads(storage.read(f"{spec.layout.inside(part.path)}/{file.name}")):
            row = {field.name: cast(raw.get(field.name), field.type) for field in schema.fields}
            values = {name: value for name, value in row.items() if name not in schema.key and value is not None}
            at, gone = (raw[name] and tuple(raw[name]) for name in ("_at", "_gone"))
            states.append(State(tuple(row[name] for name in schema.key), raw["_version"], values, at, gone))
    return states


def write(storage: Storage, directory: str, schema: Schema, states: Iterable[State]) -> tuple[DataFile, ...]:
    """Write rows into a new directory, deleted ones into files of their own. Raises CheckFailed if they are not all there then."""
    ranked = sorted(states, key=lambda state: state.key)
    for name, deleted in ((LIVE, False), ("deleted", True)):
        alike = [_plain(state, schema) for state in ranked if state.deleted == deleted]
        for start in range(0, len(alike), _ROWS_PER_FILE):
            data = json.dumps(alike[start : start + _ROWS_PER_FILE]).encode()
            storage.write(f"{directory}/row_state={name}/part-{start // _ROWS_PER_FILE:05d}.json", data)
    # a vacuum may have taken the files of a process that slept
    contents = {info.path: storage.read(info.path) for info in storage.list(directory)}
    if (count := sum(len(json.loads(data)) for data in contents.values())) != len(ranked):
        raise CheckFailed(f"{directory}: expected {len(ranked)} rows, found {count}")
    return tuple(DataFile(relative(path, directory), len(data), checksum.of(data)) for path, data in contents.items())


def write_base(storage: Storage, spec: TableSpec, schema: Schema, commit: str, states: Sequence[State], through: int) -> tuple[Segment, ...]:
    """A whole base; none of no rows."""
    return write_segments(storage, spec, schema, commit, [(None, None, states)], through) if states else ()


def write_segments(storage: Storage, spec: TableSpec, schema: Schema, commit: str, ranges: Sequence[Range], through: int) -> tuple[Segment, ...]:
    """Segments of about the target size that tile each range. A range without rows still has one, of no files."""
    out = []
    for run, (low, high, states) in enumerate(ranges):
        ranked = sorted(states, key=lambda state: state.key)
        size = sum(len(json.dumps(_plain(state, schema))) for state in ranked)
        step = -(-len(ranked) // max(1, min(len(ranked), round(size / spec.target_file_bytes)))) or 1
        parts = [ranked[start : start + step] for start in range(0, len(ranked), step)] or [[]]
        for at, part in enumerate(parts):
            directory = f"{spec.layout.base(commit)}/segment={run}-{at:05d}"
            first, last = low if at == 0 else part[0].key, high if at == len(parts) - 1 else parts[at + 1][0].key
            files, bounds = write(storage, directory, schema, part), bounds_of([state.position for state in part])
            name, path = f"{commit}.{run}-{at:05d}", relative(directory, spec.layout.root)
            out.append(Segment(name, path, len(part), tombstones(part), files, first, last, *bounds, through))
    return tuple(out)


def owner(segments: Sequence[Segment], key: Key) -> Segment:
    """The Segment whose range has the key."""
    return next(segment for segment in segments if segment.high is None or key < tuple(segment.high))


def tombstones(states: Iterable[State]) -> int:
    """The number of deleted rows."""
    return sum(state.deleted for state in states)


def bounds_of(positions: Sequence[Position]) -> tuple[Position | None, Position | None]:
    """The least and the greatest Position."""
    return earliest(positions), latest(positions)


def _plain(state: State, schema: Schema) -> dict[str, Any]:
    row = {**state.values, **dict(zip(schema.key, state.key))}
    columns = {name: row.get(name) for name in schema.names}
    return {**columns, "_version": state.version, "_at": state.at, "_gone": state.gone, "_padding": _PADDING}
