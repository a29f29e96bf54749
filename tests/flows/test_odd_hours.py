"""Folders of years that no source has: what reads hours reads theirs too."""

from __future__ import annotations

import pytest

from compactor.core.model import times
from compactor.flows.read.status import plan, status
from compactor.flows.read.timeline import timelines
from compactor.flows.record import _since, last_run
from compactor.flows.run_tables import run_tables
from compactor.flows.table import Table
from compactor.flows.write.state import _greatest
from compactor.report.page import page
from tests.oracle.lake import Lake, table
from tests.oracle.model import line


@pytest.mark.parametrize("year", ["0999", "0001", "9999"])
def test_a_folder_of_an_odd_year_stops_nothing(year: str) -> None:
    """It is planned, ingested, recorded and shown."""
    lake = Lake(table())
    lake.deliver(f"increment_{year}030502/a.json", [line("c", [1], [1], {"a": 1})])
    opened = Table(lake.env(), lake.spec)
    assert len(plan(opened).landing.new) == 1
    (report,) = run_tables(lake.env(), [lake.spec])
    assert (report.outcome, report.newest_folder) == ("committed", f"{year}-03-05T02:00")
    assert last_run(opened) is not None
    assert status(opened).version == 1
    lake.deliver("increment_2024030502/a.json", [line("c", [2], [2], {"a": 1})])
    run_tables(lake.env(), [lake.spec])
    now = times.to_seconds(lake.env().now())
    assert "<svg" in page(timelines(lake.env(), [lake.spec], now, 50), now, "school")


def test_a_moment_that_cannot_be_read_has_no_age() -> None:
    """The record of the run counts more."""
    assert (_since("999-01-01T00:00", 0.0), _since("1970-01-01T00:00:01Z", 3.0), _since(None, 3.0)) == (None, 2.0, None)


def test_source_times_are_compared_as_times() -> None:
    """As texts a whole second would be greater than one with a fraction."""
    second, later = "2026-11-20T14:00:00Z", "2026-11-20T14:00:00.900000Z"
    assert (_greatest([later, second, None]), _greatest([second, later]), _greatest([None])) == (later, later, None)
