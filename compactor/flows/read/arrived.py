"""Arrived: whether anything of an hour has landed, absorbed already or not; and whether readers see all of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from compactor.core.model.layout import join, relative
from compactor.core.sources import increment, whole_hours
from compactor.flows.publish.shown import recall
from compactor.flows.table import Table


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
