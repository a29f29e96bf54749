"""Frozen days in the engines that read them: Spark, Hive 2.3.9 and Trino 435, each through the text that is published for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog import daily_views
from compactor.core.catalog.dialect import PRESTO
from compactor.core.model.policy import Daily
from compactor.flows.publish import daily
from compactor.flows.table import Table
from tests.engines.test_readers import published
from tests.oracle.sizes import FULL
from tests.parts.hive import hive
from tests.parts.metastore import metastore
from tests.parts.trino import trino
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.test_daily import five_days

pytestmark = [pytest.mark.engines, pytest.mark.spark]


def by_day(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(day, id) → the other columns. A number that is text in this view is compared as number: Trino writes 15.0 as 1.5E1."""
    a = [row["a"] if str(row["a"]).startswith("text") else row["a"] and float(row["a"]) for row in rows]
    others = [(*(str(row[name]) for name in ("seq", "b", "dt_2")), row["tags"] and [*map(float, row["tags"])]) for row in rows]
    values = [(text, *rest) for text, rest in zip(a, others, strict=True)]
    return {(str(row["dt"]), int(row["id"])): value for row, value in zip(rows, values, strict=True)}


if FULL:  # Trino and Hive come from Maven

    def test_every_engine_shows_the_same_days(tmp_path: Path) -> None:
        """Whole numbers that become fractions and text, an added column, an array that later days have with other items; and one day alone."""
        with metastore(tmp_path) as uri:
            with published(tmp_path, uri, daily=Daily(keep=6), policy=TEXT_ALLOWED) as (lake, spec):
                assert [*five_days(lake, spec)] == [1, 2, 3, 4, 5]
                snapshot, table = lake.snapshot(spec), Table(lake.env, spec)
                forms, database = daily.forms(table, snapshot), spec.database
                right = by_day(lake.rows(spec, "t_daily"))
            assert len(forms) > 2
            days = sorted({day for day, _ in right})
            assert len(days) == 4
            kinds = {column.name: column.type for column in daily_views.view(spec, snapshot, forms).columns}
            with hive(tmp_path, uri) as engine:
                answers = {"hive": engine.tables(database, {"t_daily": kinds})["t_daily"]}
            with trino(tmp_path, uri) as server:
                name = f'hive."{database}"."t_daily"'
                answers["trino"] = server.rows(f"SELECT * FROM {name}")
                answers["athena's form"] = server.rows(daily_views.view_text(spec, snapshot, forms, PRESTO))
                one = by_day(server.rows(f"SELECT * FROM {name} WHERE dt = '{days[1]}'"))
        for asked, rows in answers.items():
            found = by_day(rows)
            wrong = {key: (found.get(key), right.get(key)) for key in {*found, *right} if found.get(key) != right.get(key)}
            assert wrong == {}, asked
        assert one == {key: row for key, row in right.items() if key[0] == days[1]}
