"""The history of the list engine: every event again on every commit, played back (`tests.oracle.history`), written as the parts that the protocol has.

The source's time of an event is its `seq`, in microseconds. Closed versions lie by day, open ones in one part; a row that no reader sees keeps all events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compactor.core.model.files import DataFile
from compactor.core.model.history import FOREVER, OPEN, History, HistoryPart
from compactor.core.model.layout import relative
from compactor.core.model.position import latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased
from compactor.core.model.spec import TableSpec
from compactor.ports import Storage
from tests.oracle import erased_keys
from tests.oracle.history import Version, versions
from tests.oracle.model import Change


def written(storage: Storage, spec: TableSpec, schema: Schema, known: History | None, fresh: Sequence[Change], commit: str) -> History:
    """The history with these events."""
    events = [*_kept(storage, spec, known), *fresh]
    tracked = [name for name in schema.names if not spec.track or name in spec.track]
    found = versions(events, lambda event: event.position[1], tracked)
    closed = [_row(one, schema) for one in found if one.end is not None]
    opened = [_row(one, schema) for one in found if one.end is None]
    keeper = {**dict.fromkeys(schema.names), "__shown": False, "_events": [(event.op, event.key, event.values, event.position) for event in events]}
    parts = [_part(storage, spec, commit, "d1970-01-01", "d1970-01-01", closed)] if closed else []
    last = latest([event.position for event in events])
    whole = _part(storage, spec, commit, "open-00000", OPEN, [keeper, *opened])
    return History(f"{commit}.closed", tuple(parts), f"{commit}.open", (whole,), None, last=last)


def without(storage: Storage, spec: TableSpec, schema: Schema, known: History, erased: Erased, commit: str) -> tuple[History, int]:
    """The history with the events of other keys only."""
    events = _kept(storage, spec, known)
    kept = [event for event in events if not erased_keys.gone(erased, event.key)]
    return written(storage, spec, schema, None, kept, commit), len(events) - len(kept)


def _part(storage: Storage, spec: TableSpec, commit: str, name: str, day: str, rows: Sequence[dict[str, Any]]) -> HistoryPart:
    layout = spec.layout
    directory = f"{layout.history(commit)}/history_part={name}"
    data = json.dumps(rows).encode()
    storage.write(f"{directory}/part-00000.json", data)
    return HistoryPart(f"{commit}.{name}", relative(directory, layout.root), day, len(rows), (DataFile("part-00000.json", len(data)),), None)


def _kept(storage: Storage, spec: TableSpec, known: History | None) -> list[Change]:
    if known is None:
        return []
    place = spec.layout.inside(known.open[0].path)
    rows = json.loads(storage.read(f"{place}/{known.open[0].files[0].name}"))
    return [Change(op, tuple(key), values, tuple(position)) for op, key, values, position in rows[0]["_events"]]


def _row(one: Version, schema: Schema) -> dict[str, Any]:
    told = {**dict.fromkeys(schema.names), **dict(one.values), **dict(zip(schema.key, one.key))}
    end = FOREVER if one.end is None else one.end
    computed = {"__start_us": one.start, "__end_us": end, "__is_deleted": one.deleted, "__previous_key": None}
    return {**told, "__shown": True, "_version": 0, **computed, "__start_position": one.began, "__end_position": one.ended}
