"""Arrived: whether anything of an hour has landed, absorbed already or not; whether readers see all of it; and how often files land."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from compactor.core.model import times
from compactor.core.model.layout import join, relative
from compactor.core.model.snapshot import Snapshot
from compactor.core.planning.landing import Landing
from compactor.core.results import timeline
from compactor.core.sources import increment, whole_hours
from compactor.flows.publish.shown import recall
from compactor.flows.table import Table

_FOLDERS_MIN = 6
"""Hours that show how often files land. With fewer, the times of commits do."""
_COMMITS = 12
"""Snapshots that are read for the times of commits."""


def arrived(table: Table, hour: datetime) -> bool:
    """Whether a data file of this hour (UTC) lies in landing, archive or quarantine. Always True where folders name no hours.

    It lists the hour's own folder; all of landing where folders hold less than an hour. That a file is there does not mean that all are.
    """
    place = increment.hour_place(table.spec.pattern, hour, table.spec.hours_in)
    if place is None:
        return True
    directory, prefix = place
    layout = table.layout
    for root in (table.spec.landing, layout.archived(""), layout.quarantined("")):
        for info in table.storage.list(join(root, directory)):
            path = relative(info.path, root)
            landed = increment.landed(table.spec.pattern, path, table.spec.hours_in, table.spec.source.load_files)
            if landed is not None and (landed.hour or "").startswith(prefix) and not increment.ignored(path, table.spec.ignore):
                return True
    return False


def waits(table: Table, hour: datetime, waiting: Iterable[str]) -> bool:
    """Whether the folder for files of this hour (UTC) is among those whose files wait. `waiting`: the hours that these folders name, in UTC."""
    place = increment.hour_place(table.spec.pattern, hour, table.spec.hours_in)
    return place is not None and any(name.startswith(place[1]) for name in waiting)


def whole(table: Table, hour: datetime) -> str | None:
    """Return None if readers see everything of an hour (UTC) and before, else the reason. Asks no catalog: it reads what the last run left.

    Every change that the source made before the end of the hour is in the version that the view shows (docs/semantics.md#whole-hours).
    """
    newest = table.newest()
    if newest is None:
        return "nothing is committed yet"
    if not whole_hours.covers(newest.watermark, (hour + timedelta(hours=1)).isoformat()):
        return whole_hours.note(newest.watermark, table.spec.streams)
    return None if recall(table, newest) is not None else f"version {newest.version} is not published yet"


def silent(table: Table, snapshot: Snapshot | None, landing: Landing) -> str | None:
    """Return that nothing has landed for much longer than usual, as a sentence (`timeline.silent`); None if that is not so or not known.

    `landing`: what waits in landing. It counts as arrived.
    """
    now = table.env.clock()
    if snapshot is None or landing.new or landing.waiting or now - times.to_seconds(snapshot.time) <= timeline.QUIET_SECONDS_MIN:
        return None
    return timeline.silent(arrivals(table, snapshot), now)


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
