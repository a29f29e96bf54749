"""The DAGs in an Airflow as it is run: its own processes, a backfill and a clear by REST, a consumer that an asset starts, runs beside each other.

Minutes long, so it belongs to the full size (`make test-airflow-server`).
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sys
import urllib.error
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.airflow.conftest import FORM, ROOT, SPARK_PYTHON, Company
from tests.airflow.server import Server, serving
from tests.airflow.test_alerts import LISTENER, messages
from tests.capture import config, landing

pytestmark = pytest.mark.airflow

TABLES = ("student",)
"""One: each run starts a JVM, and they have the metastore one after another. `test_dags_run` has more."""
CONSUMER = '''
"""Reads what the tables' assets say."""

import json
from pathlib import Path

from airflow.sdk import Asset, dag, task


@dag(schedule=Asset(name="school.student", uri="{uri}"))
def report():
    @task
    def read(triggering_asset_events=None):
        told = {asset.name: [dict(event.extra) for event in events] for asset, events in triggering_asset_events.items()}
        with Path("{told}").open("a", encoding="utf-8") as out:
            out.write(json.dumps(told) + "\\n")

    read()


report()
'''

if os.environ.get("COMPACTOR_TESTS") == "full":

    @pytest.fixture
    def school(tmp_path: Path) -> Company:
        """Two tables of the capture that nobody runs by a clock, and the embedded metastore, which one process has at a time."""
        made = Company(tmp_path)
        by_hand = {"command": [SPARK_PYTHON, "-m", "compactor"], "groups": {"hourly": {"schedule": None, "wait": "3h"}}}
        by_hand |= {"maintenance": None}
        alerts = {"deadline": "20s", "notify": {"command": [sys.executable, "-c", LISTENER, str(tmp_path / "alerts")]}}
        said = {"airflow": by_hand, "defaults": {"pool": "compactor", "retries": 5, "quarantine": "0", **alerts}}
        made.config.write_text(config.config_text(FORM, TABLES, extra=said), encoding="utf-8")
        dags = tmp_path / "dags"
        shutil.copytree(ROOT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
        (dags / "report.py").write_text(
            CONSUMER.replace("{told}", str(tmp_path / "told.jsonl")).replace("{uri}", (tmp_path / "student").as_uri()), encoding="utf-8"
        )
        return made

    @pytest.fixture
    def airflow(school: Company) -> Server:
        """All its DAGs are there."""
        home = school.folder / "airflow"
        home.mkdir()
        with serving(home, school.folder / "dags", school.config) as server:
            wanted = {"backfill", "compact_hourly", "maintenance", "quarantine_alert", "report"}
            server.until("the DAGs", lambda: wanted <= {dag["dag_id"] for dag in server.ask("GET", "/api/v2/dags")["dags"]})
            assert server.ask("GET", "/api/v2/importErrors")["import_errors"] == []
            # two, so that runs meet, though only one at a time has the embedded metastore
            server.ask("POST", "/api/v2/pools", {"name": "compactor", "slots": 2})
            yield server

    @pytest.fixture(autouse=True)
    def patient() -> None:
        """Every wait has an end of its own, and all of them together last longer than any other test."""
        faulthandler.cancel_dump_traceback_later()

    def versions(server: Server, dag: str, run: str) -> dict[str, tuple[str, int]]:
        """What the runs of the tables reported: outcome and version."""
        found = {}
        for at, table in enumerate(TABLES):
            if dag != "backfill" and server.tasks(dag, run)[f"tables.{table}"] == "skipped":
                continue
            told = server.returned(dag, run, "run", at) if dag == "backfill" else server.returned(dag, run, f"tables.{table}")
            found[told["table"]] = (told["outcome"], told["version"])
        return found

    def succeeded(server: Server, dag: str, run: str) -> dict[str, str]:
        """The tasks of a run in which none failed."""
        found = server.ended(dag, run)
        assert server.state(dag, run) == "success", found
        assert {*found.values()} <= {"success", "skipped"}, found
        return found

    def test_a_day_by_hand(school: Company, airflow: Server) -> None:
        """A backfill by form; wrong ones are refused; an hourly run that waits for its hour beyond its deadline, its consumer; that run cleared; two at once."""
        school.land([0, 1], TABLES)
        for wrong in ({"tables": ["nobody"]}, {"from_hour": "yesterday"}, {"dry_run": "perhaps"}):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                airflow.trigger("backfill", wrong)
        hours = {"tables": list(TABLES), "from_hour": "2024-03-05T00", "to_hour": "2024-03-05T01", "complete": True}
        planned = succeeded(airflow, "backfill", airflow.trigger("backfill", hours))
        assert (planned["skip_if_dry_run"], planned["plan[0]"]) == ("skipped", "success")
        assert not (school.folder / "student/_compactor").exists()
        run = airflow.trigger("backfill", {**hours, "dry_run": False})
        succeeded(airflow, "backfill", run)
        assert versions(airflow, "backfill", run) == dict.fromkeys(TABLES, ("committed", 1))

        # the hour of a run by hand is the last full one: nothing of it has landed, so the tasks wait in the triggerer, until something has
        school.land([2], TABLES)
        run = airflow.trigger("compact_hourly")
        airflow.until("deferred", lambda: airflow.tasks("compact_hourly", run)["wait"] == "deferred")
        # of another hour something waits, and the deadline passes
        airflow.until("the alerts", lambda: {one["table"] for one in messages(school.folder / "alerts")} == {*TABLES})
        late = messages(school.folder / "alerts")
        assert {(one["event"], one["where"]["dag"], one["where"]["run"]) for one in late} == {("table_late", "compact_hourly", run)}, late
        began = airflow.ask("GET", f"/api/v2/dags/compact_hourly/dagRuns/{run}")["run_after"]
        hour = datetime.fromisoformat(began).astimezone(timezone.utc) - timedelta(hours=1)
        for table in TABLES:
            folder = landing.folder(school.folder, table, 2)
            folder.rename(folder.with_name(hour.strftime("increment_%Y%m%d%H")))
        succeeded(airflow, "compact_hourly", run)
        assert versions(airflow, "compact_hourly", run) == dict.fromkeys(TABLES, ("committed", 2))

        told = school.folder / "told.jsonl"
        airflow.until("the consumer", told.exists)
        heard = told.read_text(encoding="utf-8")
        assert heard.count('"version": 2') == 1, heard
        assert hour.strftime('"hour": "%Y-%m-%dT%H"') in heard, heard

        # cleared as in the UI: all its tasks run again, and nothing is taken twice
        body = {"dry_run": False, "dag_run_id": run, "only_failed": False, "reset_dag_runs": True}
        airflow.ask("POST", "/api/v2/dags/compact_hourly/clearTaskInstances", body)
        assert succeeded(airflow, "compact_hourly", run)["tables.student"] == "skipped"

        # three at once, and two tasks that want the metastore: what one of them takes, the others do not
        school.land([3], TABLES)
        runs = [("backfill", airflow.trigger("backfill", {"tables": list(TABLES), "dry_run": False})) for _ in range(2)]
        runs += [("compact_hourly", airflow.trigger("compact_hourly", logical_date=began))]
        for dag, each in runs:
            succeeded(airflow, dag, each)
        found = [versions(airflow, dag, each) for dag, each in runs]
        for table in TABLES:
            assert {each[table][1] for each in found if table in each} == {3}
            assert [each[table][0] for each in found if table in each].count("committed") == 1
        # all that the backfill, the hourly run and one of the three have absorbed
        assert school.differing(3, TABLES) == []
