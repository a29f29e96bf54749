"""PostgreSQL's dumps of each captured hour as full copies: the table is the newest dump, its history as of an hour the dump of that hour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.app.app import App
from compactor.core.model.errors import Refused
from tests.capture import config, landing, truth
from tests.oracle.sizes import FULL
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

TABLES = tuple(name for name, key in config.keys().items() if key) if FULL else ("student", "evolve")
GROUPS: list[list[int]] = [[hour] for hour in landing.HOURS] if FULL else [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
"""The hours that each run gets."""

CHECKED = landing.HOURS if FULL else (0, 2, 4, 7)


def dump(table: truth.TableTruth) -> list[dict[str, Any]]:
    """Rows under the names of the view, as PostgreSQL's text of each value."""
    return [{config.stored_name(name): row[name] for name, _ in table.columns} for row in table.rows]


def in_order(rows: list[dict[str, Any]], columns: list[str]) -> list[dict[str, Any]]:
    """These columns only: one that was dropped stays, and is null."""
    return sorted(({name: row.get(name) for name in columns} for row in rows), key=json.dumps)


def test_every_hour_is_postgresqls_dump(tmp_path: Path) -> None:
    """Rows that are gone go, a TRUNCATE too; columns come and go; hours that were absorbed in one run are all there in the history."""
    said = {"envelope": "full-load", "format": "json", "complete": "_SUCCESS", "history": True, "max_gone": 1}
    tables = {name: {**said, "key": [*config.keys()[name]], "increments": f"{name}/incremental/hour_%Y%m%d%H"} for name in TABLES}
    text = json.dumps({"warehouse": ".", "catalog": {"database": "school"}, "tables": tables})
    (tmp_path / "compactor.yaml").write_text(text, encoding="utf-8")
    wrong = []
    with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:

        def compare(name: str, hour: int, as_of: str | None) -> None:
            wanted = truth.truth(hour)[name]
            columns = [config.stored_name(column) for column, _ in wanted.columns]
            # an empty dump in JSON has no columns: the table, and with it the history, begins with its first row
            begun, found = app.table(name).newest() is not None, list[dict[str, Any]]()
            try:
                found = [json.loads(row) for row in app.sql(f"SELECT * FROM `{name}`", as_of=as_of, engine="spark")] if begun else []
            except Refused as error:
                if "its history begins" not in str(error):
                    raise
            if in_order(dump(wanted), columns) != in_order(found, columns):
                wrong.append((name, hour, as_of))

        for group in GROUPS:
            for name, hour in ((name, hour) for name in TABLES for hour in group if name in truth.truth(hour)):
                folder = tmp_path / name / f"incremental/hour_20240305{hour:02}"
                folder.mkdir(parents=True)
                rows = [dict(row) for row in truth.truth(hour)[name].rows]
                (folder / "dump.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
                (folder / "_SUCCESS").touch()
            assert [] == [report.error for report in app.run(parallel=2) if report.error]
            for name in TABLES:
                if name in truth.truth(group[-1]):
                    compare(name, group[-1], None)
        for hour in CHECKED:
            for name in TABLES:
                if name in truth.truth(hour):
                    compare(name, hour, f"2024-03-05T{hour:02}:00:00Z")
        assert [] == wrong
        gone = list(app.sql("SELECT id FROM student_history WHERE __is_deleted", engine="spark"))
        assert [] != gone
        assert [] == [check for check in app.verify(TABLES[:1]) if not check.ok]
