"""Arrivals: when files of a table landed, from what its newest Snapshot records. Nothing more is stored for it."""

from __future__ import annotations

import json

from compactor.core.model import times
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.landing import Landing
from compactor.core.results import attention
from compactor.core.sources import increment
from compactor.flows.table import Table

_FOLDERS_MIN = 6
"""Hours that show how often files land. With fewer, the times of commits do."""

_COMMITS = 12
"""Snapshots that are read for the times of commits."""


def silent(table: Table, snapshot: Snapshot | None, landing: Landing) -> str | None:
    """Return that nothing has landed for much longer than usual, as a sentence (`attention.silent`); None if that is not so or not known.

    `landing`: what waits in landing. It counts as arrived.
    """
    now = table.env.clock()
    if snapshot is None or landing.new or landing.waiting or now - times.to_seconds(snapshot.time) <= attention.QUIET_SECONDS_MIN:
        return None
    return attention.silent(arrivals(table, snapshot), now)


def arrivals(table: Table, snapshot: Snapshot, commits: tuple[float, ...] = ()) -> tuple[float, ...]:
    """Return when files landed, in epoch seconds: the hours of the newest ingested folders, or else the times of the newest commits.

    `commits`: these times, if the caller has read them.
    """
    spec = table.spec
    folders = {folder for file in snapshot.ledger for folder in file.folders}
    places = (increment.landed(spec.pattern, f"{folder}/", spec.hours_in) for folder in folders if folder)
    hours = {place.hour for place in places if place} | {item.hour for item in snapshot.inputs}
    moments = sorted(times.to_seconds(hour) for hour in hours if hour)
    return tuple(moments) if len(moments) >= _FOLDERS_MIN else commits or _commits(table, snapshot)


def _commits(table: Table, snapshot: Snapshot) -> tuple[float, ...]:
    """Return the times of the newest commits that took files, oldest first. An expired Snapshot still has its time and its counts."""
    moments, number = [], snapshot.version
    for version in range(number, max(0, number - _COMMITS), -1):
        try:
            raw = json.loads(table.storage.read(table.layout.snapshot(version)))
            if raw["counts"].get("read"):
                moments.append(times.to_seconds(raw["time"]))
        except (FileNotFoundError, ValueError, KeyError):
            # a damaged Snapshot is reported by `verify`
            break
    return tuple(reversed(moments))
