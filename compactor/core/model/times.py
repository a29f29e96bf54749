"""Times as text: ISO 8601 with `Z`, as Snapshots, reports and notices store them. A text without a zone is UTC."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

BEGIN, END = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The microseconds since 1970 at which the years 1 and 10000 begin. Texts of this module name the moments between them."""


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name. UTC needs no zone database."""
    return timezone.utc if name == "UTC" else ZoneInfo(name)


def parse(text: str) -> datetime:
    """Return the time that an ISO 8601 text names, with its zone. Raises ValueError for any other text.

    >>> parse("2026-11-20T14:00:00Z") == parse("2026-11-20 14:00")
    True
    """
    # Python 3.9 and 3.10 do not read Z
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def to_seconds(text: str) -> float:
    """Return a text as epoch seconds. Raises ValueError.

    >>> to_seconds("1970-01-01T00:00:01.500Z")
    1.5
    """
    return parse(text).timestamp()


def to_micros(text: str) -> int:
    """Return a text as microseconds since 1970. Raises ValueError.

    >>> to_micros("1970-01-01T00:00:00.000001")
    1
    """
    return (parse(text) - EPOCH) // timedelta(microseconds=1)


def from_seconds(seconds: float, timespec: str = "seconds") -> str:
    """Return epoch seconds as text in UTC. `timespec` is that of `datetime.isoformat`.

    >>> from_seconds(1.5), from_seconds(1.5, "milliseconds")
    ('1970-01-01T00:00:01Z', '1970-01-01T00:00:01.500Z')
    """
    return _text(datetime.fromtimestamp(seconds, timezone.utc), timespec)


def from_micros(micros: int) -> str:
    """Return microseconds since 1970 as text in UTC.

    >>> from_micros(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return _text(moment(micros), "auto")


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def _text(time: datetime, timespec: str) -> str:
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")
