"""Arrived: an hour is there when a data file of it is, wherever a run has put it since."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone

import pytest

from compactor.flows.environment import Environment
from compactor.flows.read.arrived import arrived, waits
from compactor.flows.table import Table
from compactor.ports import Engine
from tests.oracle.lake import table
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage

HOUR = datetime(2026, 11, 20, 14, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("incremental/increment_2026112014/a.json", True),
        ("archive/increment_2026112014/a.json", True),
        ("quarantine/increment_2026112014/a.json", True),
        ("incremental/increment_2026112013/a.json", False),
        ("incremental/increment_20261120140/a.json", False),
        ("incremental/increment_2026112014/a.json.tmp", False),
        ("incremental/increment_2026112014/_SUCCESS", False),
        ("base/increment_2026112014/a.json", False),
        (None, False),
    ],
)
def test_where_a_file_of_the_hour_may_lie(path: str | None, there: bool) -> None:
    """Landing, archive, quarantine; half a file, a marker and other hours do not count."""
    assert found(path, "increment_%Y%m%d%H") is there


@pytest.mark.parametrize(
    ("pattern", "path", "there"),
    [
        ("%Y/%m/%d/%H%M", "incremental/2026/11/20/1445/a.json", True),
        ("%Y/%m/%d/%H%M", "incremental/2026/11/20/1345/a.json", False),
        ("change_%Y%m%d%H%M", "incremental/change_202611201400/a.json", True),
        ("%Y/%m/%d", "incremental/2026/11/20/a.json", True),
        ("%Y/%m/%d", "incremental/2026/11/19/a.json", False),
        ("", None, True),
    ],
)
def test_folders_of_other_lengths(pattern: str, path: str | None, there: bool) -> None:
    """Quarters of an hour count for their hour, a day for each of its hours; a flat folder has no hours to wait for."""
    assert found(path, pattern) is there


@pytest.mark.parametrize(
    ("pattern", "zone", "waiting", "hour", "expected"),
    [
        ("increment_%Y%m%d%H", "UTC", "2026-11-20T14:00", 14, True),
        ("increment_%Y%m%d%H", "UTC", "2026-11-20T14:00", 15, False),
        ("%Y/%m/%d", "UTC", "2026-11-20T00:00", 14, True),
        ("%Y/%m/%d", "UTC", "2026-11-19T00:00", 14, False),
        ("%Y/%m/%d/%H%M", "UTC", "2026-11-20T14:45", 14, True),
        # both hours between two and three o'clock of the day on which the clock goes back
        ("%Y%m%d%H", "Europe/Berlin", "2026-10-25T00:00", 0, True),
        ("%Y%m%d%H", "Europe/Berlin", "2026-10-25T00:00", 1, True),
        ("%Y%m%d%H", "Europe/Berlin", "2026-10-25T00:00", 2, False),
        ("", "UTC", "2026-11-20T14:00", 14, False),
    ],
)
def test_an_hour_waits_with_its_folder(pattern: str, zone: str, waiting: str, hour: int, expected: bool) -> None:
    """Which may have more hours than the one that it names."""
    spec = dataclasses.replace(table(), pattern=pattern, hours_in=zone)
    day = datetime.fromisoformat("2026-10-25T00:00+00:00" if zone != "UTC" else "2026-11-20T00:00+00:00")
    assert waits(Table(Environment(MemoryStorage(), _none, MemoryCatalog), spec), day.replace(hour=hour), [waiting]) is expected


def _none() -> Engine:
    raise AssertionError("looking starts no engine")


def found(path: str | None, pattern: str) -> bool:
    """Whether the hour has arrived where only this file lies."""
    storage = MemoryStorage()
    if path:
        storage.write(f"/lake/t/{path}", b"{}")
    return arrived(Table(Environment(storage, _none, MemoryCatalog, files_only=True), table(pattern=pattern)), HOUR)
