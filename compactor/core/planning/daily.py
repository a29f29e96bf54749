"""Frozen days: which version a table had at the end of each day (docs/design/history.md#frozen-days).

A day is a fact of the Snapshot, like a pin. When a version is made after a midnight, its parent was the newest version before it. So each version
adds the days that ended between its parent's time and its own, whatever the verb; no older Snapshot is looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from compactor.core.model import times
from compactor.core.model.policy import Daily
from compactor.core.model.snapshot import Day, Days

_ONE = timedelta(days=1)


def ended(setting: Daily, since: datetime, until: datetime) -> Iterator[str]:
    """Yield the days that ended after `since`, up to `until`, oldest first; of many the `keep` newest.

    >>> [*ended(Daily(), times.parse("2026-11-20T23:00Z"), times.parse("2026-11-22T00:00Z"))]
    ['2026-11-20', '2026-11-21']
    """
    zone = times.zone_of(setting.time_zone)
    first, last = since.astimezone(zone).date(), until.astimezone(zone).date()
    day = max(first, last - setting.keep * _ONE)
    while datetime.combine(day + _ONE, datetime.min.time(), zone) <= until:
        yield day.isoformat()
        day += _ONE


def after(days: Days | None, setting: Daily, last: Day | None, since: datetime, until: datetime) -> Days:
    """Return the days of a version made at `until` on top of one made at `since`, which had `days`.

    `last`: version and form that readers saw at their end; its day does not matter. None: they saw none, and no day is added.
    """
    newest = days[-1].day if days else ""
    added = (dataclasses.replace(last, day=day) for day in ended(setting, since, until) if day > newest) if last else ()
    every = (*(days or ()), *added)
    return (*(given_up(every[: -setting.keep]) or ()), *every[-setting.keep :])


def shown(days: Days | None) -> Days:
    """Return the days that readers see, oldest first."""
    return tuple(day for day in days or () if day.shown)


def given_up(days: Days | None) -> Days | None:
    return tuple(dataclasses.replace(day, shown=False) for day in days) if days is not None else None


def unused(day: str, time: datetime) -> bool:
    """Return whether no version after one of this time can freeze a day: it ended long before, in every zone."""
    return date.fromisoformat(day) < time.date() - 2 * _ONE
