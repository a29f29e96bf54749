"""Views with defaults of every type in the engines that read them: Spark, Hive 2.3.9 and Trino 435, each through the text that is published for it."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog import history_views, views
from compactor.core.catalog.dialect import PRESTO
from tests.engines.test_readers import published
from tests.oracle.sizes import FULL
from tests.parts.hive import hive
from tests.parts.metastore import metastore
from tests.parts.trino import trino
from tests.spark.added_defaults import DEFAULTS, OLDER, land

pytestmark = [pytest.mark.engines, pytest.mark.spark]


def number(value: Any) -> Any:
    """Numbers as decimals and days as text, whatever a client makes of them."""
    if isinstance(value, date):
        return value.isoformat()
    plain = isinstance(value, (bool, type(None), str))
    return value if plain else Decimal(str(value))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The columns with defaults."""
    texts = {name: Decimal(row[name]) for name in ("d", "n") if row[name] is not None}
    # of Hive a day is its number
    days = {"a": (date(1970, 1, 1) + timedelta(row["a"])).isoformat()} if isinstance(row["a"], int) else {}
    return {name: number(value) for name, value in {**{name: row[name] for name in DEFAULTS}, **texts, **days}.items()}


if FULL:  # Trino and Hive come from Maven

    def test_older_rows_show_the_default_of_every_type_in_every_engine(tmp_path: Path) -> None:
        """The view and its history, in Hive's dialect through all engines, and in Presto's through Trino."""
        expected = {1: {name: number(value) for name, value in OLDER.items()}, 3: dict.fromkeys(DEFAULTS)}
        expected[2] = expected[1]
        with metastore(tmp_path) as uri:
            with published(tmp_path, uri, op=None, history=True) as (lake, spec):
                land(lake, spec)
                snapshot, database = lake.snapshot(spec), spec.database
                answers = {("spark", name): lake.rows(spec, name) for name in ("t", "t_history")}
            assert snapshot.history is not None
            columns = {view.name: {column.name: column.type for column in view.columns if column.name in ("id", *DEFAULTS)} for view in (
                views.view(spec, snapshot), history_views.view(spec, snapshot, snapshot.history),
            )}  # fmt: skip
            with hive(tmp_path, uri) as engine:
                answers |= {("hive", name): rows for name, rows in engine.tables(database, columns).items()}
            with trino(tmp_path, uri) as server:
                answers |= {("trino", name): server.rows(f'SELECT * FROM hive."{database}"."{name}"') for name in columns}
                texts = {"t": views.view_text(spec, snapshot, PRESTO), "t_history": history_views.view_text(spec, snapshot, snapshot.history, PRESTO)}
                answers |= {("athena's form", name): server.rows(text) for name, text in texts.items()}
        for asked, rows in answers.items():
            assert {row["id"]: shown(row) for row in rows} == expected, asked
