"""The first run of a table that `discover:` has made."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.app import App
from compactor.flows.record import last_run
from tests.parts.one_spark import app_on_one_spark
from tests.test_fleet import ENTRY, HOUR, landed, record, written

__all__ = ["app_on_one_spark"]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")]


@pytest.mark.slow
def test_the_first_run_keeps_why_the_table_was_made(tmp_path: Path) -> None:
    """In its report and in its run record, which is there when nobody has read the report; later runs do not repeat it."""
    config = written(tmp_path, f"discover: [{ENTRY}]\ncatalog: {{database: fleet}}\ndefaults: {{archive: keep}}\n")
    landed(tmp_path / "topics/pg.shop.orders" / HOUR, record(1, "id"))
    with App.open(config) as app:
        for run in ("first", "second"):
            (report,) = app.run()
            assert report.outcome == "committed", report.error
            stored = last_run(app.table("shop_orders"))
            assert stored is not None
            assert stored.notes == report.notes
            assert [note.partition(" landed; ")[2].partition(" (")[0] for note in report.notes if note.startswith("new table: ")] == (
                ["key id by the keys of the Kafka records"] if run == "first" else []
            )
            landed(tmp_path / "topics/pg.shop.orders" / HOUR.replace("part-0", "part-1"), record(2, "id"))
