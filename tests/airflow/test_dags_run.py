"""Runs of the DAGs over the capture, in a real Airflow: after each hour the views equal PostgreSQL's rows, whatever goes wrong in between."""

from __future__ import annotations

import pytest

from tests.airflow.conftest import Company

pytestmark = pytest.mark.airflow


def test_three_hours(company: Company) -> None:
    """Hour by hour."""
    for hour in range(3):
        company.land([hour])
        assert set(company.hourly(hour).values()) == {"success"}
        assert company.differing(hour, ["enrollment", "student"]) == []
