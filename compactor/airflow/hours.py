"""The hour that a DAG run stands for, and ranges of hours. Hours are datetimes in UTC. Without Airflow."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from compactor.core.model import times

HOUR = timedelta(hours=1)
HOURS_MAX = 20 * 366 * 24
"""Hours of the longest range. A longer one is a mistyped year, and each hour is looked for in storage."""
KEY_FORMAT = "%Y-%m-%dT%H"
"""Format of an hour in partition keys, parameters and the extras of asset events."""


HOUR_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}(:\d{2}.*)?$"
"""Pattern of an hour in forms. `read_hour` is stricter."""


_BY_TIMETABLE = ("scheduled", "backfill")
"""Types of runs that a timetable makes. Its logical date may be the begin of an interval, an hour before the run."""


def hour_of(partition_key: str | None, logical_date: datetime | None, run_after: datetime | None, run_type: str | None = None) -> datetime:
    """Return the hour of a run: its partition key, otherwise the last full hour before its scheduled start, or before its logical date if somebody
    started it.

    The data interval is not used: it depends on the timetable, the version of Airflow, and how the run was started.

    >>> hour_of(None, datetime(2026, 11, 20, 14, 10, tzinfo=timezone.utc), None)
    datetime.datetime(2026, 11, 20, 13, 0, tzinfo=datetime.timezone.utc)
    """
    if partition_key:
        return read_hour(partition_key)
    moment = (run_after if run_type in _BY_TIMETABLE else None) or logical_date or run_after
    if moment is None:
        raise ValueError("expected a run with a partition key, a logical date or a scheduled start; found none of them")
    return floor(moment) - HOUR


def hour_of_run(run: Any) -> datetime:
    return hour_of(getattr(run, "partition_key", None), run.logical_date, run.run_after, getattr(run, "run_type", None))


def read_hour(text: str) -> datetime:
    """Read `2026-11-20T14`, or the hour of an ISO time. UTC unless the text has an offset. Raises ValueError with a message for the operator."""
    stripped = text.strip()
    try:
        # Python 3.10 does not read an hour alone.
        moment = datetime.strptime(stripped, KEY_FORMAT) if len(stripped) == 13 else times.parse(stripped)
        return floor(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))
    except (ValueError, OverflowError):
        raise ValueError(f"expected an hour such as 2026-11-20T14, found {text!r}") from None


def floor(moment: datetime) -> datetime:
    """Return the beginning of a moment's hour, in UTC."""
    return moment.astimezone(timezone.utc).replace(minute=0, second=0, microsecond=0)


def written(hour: datetime) -> str:
    """Return an hour as text."""
    return hour.strftime(KEY_FORMAT)


def hours_between(first: datetime, last: datetime) -> list[datetime]:
    """Return every hour from the first to the last, both included. Raises ValueError if the last comes before the first, or too long after it."""
    if last < first:
        raise ValueError(f"expected a last hour from {written(first)} on, found {written(last)}")
    count = int((last - first) / HOUR) + 1
    if count > HOURS_MAX:
        raise ValueError(f"expected at most 20 years of hours, found {written(first)} to {written(last)}")
    return [first + HOUR * number for number in range(count)]


def expected_hours(params: Any) -> list[str]:
    """Return the hours in the backfill form. Raises ValueError for an invalid range."""
    first, last = params["from_hour"], params["to_hour"]
    if first is None and last is not None:
        raise ValueError("`to_hour` needs `from_hour`, which is empty")
    if first is None:
        return []
    begin = read_hour(first)
    return [written(hour) for hour in hours_between(begin, begin if last is None else read_hour(last))]
