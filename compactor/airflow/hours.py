"""Which hour a run of Airflow's stands for, and ranges of hours. Hours are datetimes in UTC; no Airflow in here."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from compactor.core.model import times

HOUR = timedelta(hours=1)
KEY_FORMAT = "%Y-%m-%dT%H"
"""How an hour is written in partition keys, parameters and the extras of asset events."""


HOUR_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}(:\d{2}.*)?$"
"""What forms accept; `read_hour` is stricter."""


def hour_of(partition_key: str | None, logical_date: datetime | None, run_after: datetime | None) -> datetime:
    """The hour that a run brings in: its partition key, else the last full hour before its logical date, or before it was to start.

    Never the data interval: what that is depends on the timetable, the version of Airflow, and how the run was started.

    >>> hour_of(None, datetime(2026, 11, 20, 14, 10, tzinfo=timezone.utc), None)
    datetime.datetime(2026, 11, 20, 13, 0, tzinfo=datetime.timezone.utc)
    """
    if partition_key:
        return read_hour(partition_key)
    moment = logical_date or run_after
    if moment is None:
        raise ValueError("expected a run with a partition key, a logical date or a time to start, found none of them")
    return floor(moment) - HOUR


def read_hour(text: str) -> datetime:
    """`2026-11-20T14`, or a whole ISO time of which the hour counts; UTC unless it says otherwise. Raises ValueError with a sentence."""
    said = text.strip()
    try:
        # Python 3.10 does not read an hour alone.
        moment = datetime.strptime(said, KEY_FORMAT) if len(said) == 13 else times.parse(said)
    except ValueError:
        raise ValueError(f"expected an hour such as 2026-11-20T14, found {text!r}") from None
    return floor(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))


def floor(moment: datetime) -> datetime:
    """The beginning of a moment's hour, in UTC."""
    return moment.astimezone(timezone.utc).replace(minute=0, second=0, microsecond=0)


def written(hour: datetime) -> str:
    """An hour as text."""
    return hour.strftime(KEY_FORMAT)


def hours_between(first: datetime, last: datetime) -> list[datetime]:
    """Every hour from the first to the last, both included. Raises ValueError when the last comes first."""
    if last < first:
        raise ValueError(f"expected a last hour from {written(first)} on, found {written(last)}")
    return [first + HOUR * number for number in range(int((last - first) / HOUR) + 1)]
