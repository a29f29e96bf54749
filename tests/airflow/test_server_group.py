"""A group of fifty tables in an Airflow as it is run: one job for the five with work, one of them broken, 45 idle, each visible; a slow table that stops
nobody; a table that is cleared alone.

Minutes long, so it belongs to the full size (`make test-airflow-server`).
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import FORM, PROGRAM, ROOT, SPARK_PYTHON, Company
from tests.airflow.server import Server, serving
from tests.capture import config, landing

pytestmark = pytest.mark.airflow

TABLES = [f"t{number:02}" for number in range(50)]
BUSY, BROKEN = TABLES[3:43:10], "t49"


def file(table: str, hour: int, company: Company, text: str) -> None:
    """A landed file."""
    path = company.folder / table / f"incremental/increment_20240305{hour:02}/part-0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def land(company: Company, hour: int, tables: list[str]) -> None:
    """The hour of the capture's table `student`, as if it were these tables'."""
    landing.land(company.folder / "capture", FORM, hours=[hour], only=["student"])
    for path in (company.folder / "capture/student/incremental").rglob("*.json"):
        for table in tables:
            file(table, hour, company, path.read_text(encoding="utf-8"))
    shutil.rmtree(company.folder / "capture")


if os.environ.get("COMPACTOR_TESTS") == "full":

    @pytest.fixture(autouse=True)
    def patient() -> None:
        """Every wait has an end of its own, and all of them together last longer than any other test."""
        faulthandler.cancel_dump_traceback_later()

    @pytest.fixture
    def lake(tmp_path: Path) -> Company:
        """Fifty tables in one group that nobody runs by a clock, and a group of two with a program in place of the command line."""
        made = Company(tmp_path)
        one = {**config.table_config(FORM, "student"), "quarantine": {"max_rows": 0}}
        by_hand: dict[str, Any] = {"command": [SPARK_PYTHON, "-m", "compactor"], "groups": {"hourly": {"schedule": None, "wait": "0s"}}}
        by_hand |= dict.fromkeys(("maintenance", "schemas", "quarantine"))
        said = {"warehouse": ".", "catalog": {"database": "school"}, "airflow": by_hand, "defaults": {"retries": 2, "retry_delay": "5s"}}
        made.config.write_text(json.dumps({**said, "tables": dict.fromkeys(TABLES, one)}), encoding="utf-8")
        shutil.copytree(ROOT / "dags", tmp_path / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        return made

    def command_lines(company: Company, answers: Path) -> None:
        """From now on a program that does what `answers` tells takes the place of the command line."""
        text = json.loads(company.config.read_text(encoding="utf-8"))
        text["airflow"]["command"] = [sys.executable, str(PROGRAM), str(answers)]
        company.config.write_text(json.dumps(text), encoding="utf-8")

    def states(server: Server, run: str) -> dict[str, str]:
        """Task → state."""
        return server.tasks("compact_hourly", run)

    def show(title: str, found: dict[str, str]) -> None:
        """The squares of the grid, for people who run this by hand (`-s`)."""
        tables = [state for name, state in found.items() if name.startswith("tables.")]
        print(f"\n{title}: find_work {found['find_work']}, run {found['run']}; tables: { ({state: tables.count(state) for state in {*tables}}) }")

    def test_fifty_tables(lake: Company) -> None:
        """One job, five commits at the end, 45 idle, one planted failure; then one that is slow beside the next run."""
        land(lake, 0, [*BUSY, BROKEN])
        file(BROKEN, 1, lake, "no change\n")
        home = lake.folder / "airflow"
        home.mkdir()
        with serving(home, lake.folder / "dags", lake.config) as server:
            server.until("the DAG", lambda: "compact_hourly" in {dag["dag_id"] for dag in server.ask("GET", "/api/v2/dags")["dags"]})
            assert server.ask("GET", "/api/v2/importErrors")["import_errors"] == []
            run = server.trigger("compact_hourly", logical_date="2024-03-05T02:10:00Z")
            found = server.ended("compact_hourly", run)
            show("one planted failure", found)
            assert {name: state for name, state in found.items() if state != "skipped"} == {
                "find_work": "success", "run": "success", **{f"tables.{name}": "success" for name in BUSY}, f"tables.{BROKEN}": "failed",
            }  # fmt: skip
            assert sum(state == "skipped" for state in found.values()) == 45
            reports = server.returned("compact_hourly", run, "run")
            assert {name: report["outcome"] for name, report in reports.items()} == {**dict.fromkeys(BUSY, "committed"), BROKEN: "failed"}
            print(reports[BROKEN]["error"])
            events = server.ask("GET", "/api/v2/assets/events?limit=100")["asset_events"]
            assert sorted(event["extra"]["outcome"] for event in events) == ["committed"] * 4 + ["idle"] * 45

            # repaired, and only its own square cleared: the task runs this table alone
            shutil.rmtree(lake.folder / BROKEN / "incremental/increment_2024030501")
            body = {"dry_run": False, "dag_run_id": run, "task_ids": [f"tables.{BROKEN}"], "only_failed": False, "reset_dag_runs": True}
            server.ask("POST", "/api/v2/dags/compact_hourly/clearTaskInstances", body)
            server.until("the cleared table", lambda: states(server, run)[f"tables.{BROKEN}"] == "success")
            assert server.returned("compact_hourly", run, f"tables.{BROKEN}")["outcome"] == "committed"
            assert server.ended("compact_hourly", run)["run"] == "success"

            # a slow table keeps its run open; the next run leaves it out and runs the others
            answers = lake.folder / "answers.json"
            reported = {name: {**report, "outcome": "committed", "error": None, "exit_code": 0} for name, report in reports.items()}
            told = {"verify": {"found": []}, f"run {BROKEN}": {"found": [reported[BROKEN]]}}
            answers.write_text(json.dumps({**told, "run": {"found": [reported[BUSY[0]]], "seconds": 90}}), encoding="utf-8")
            command_lines(lake, answers)
            land(lake, 2, [BUSY[0]])
            slow = server.trigger("compact_hourly", logical_date="2024-03-05T03:10:00Z")
            server.until("the slow job", lambda: answers.with_suffix(".asked").exists())
            answers.write_text(json.dumps({**told, "run": {"found": [reported[BUSY[1]]]}}), encoding="utf-8")
            land(lake, 2, [BUSY[1]])
            quick = server.trigger("compact_hourly", logical_date="2024-03-05T04:10:00Z")
            found = server.ended("compact_hourly", quick)
            show("beside a slow table", found)
            assert server.state("compact_hourly", slow) == "running"
            assert {name for name, state in found.items() if state == "success"} == {"find_work", "run", f"tables.{BUSY[1]}"}
            assert found[f"tables.{BUSY[0]}"] == "skipped"
            found = server.ended("compact_hourly", slow)
            show("the slow one", found)
            assert found[f"tables.{BUSY[0]}"] == "success"
            asked = [json.loads(line) for line in answers.with_suffix(".asked").read_text(encoding="utf-8").splitlines()]
            assert [words[3] for words in asked if words[0] == "run"] == [BUSY[0], BUSY[1]]
