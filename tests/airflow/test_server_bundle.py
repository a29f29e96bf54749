"""DAGs and compactor.yaml in a Git repository, which Airflow gets as a DAG bundle: a run keeps the version it began with, the next has the new one.

Minutes long, so it belongs to the full size (`make test-airflow-server`).
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import pytest

from compactor.core.results.record import TableReport
from tests.airflow.conftest import PROGRAM, ROOT, Company
from tests.airflow.server import serving

pytestmark = pytest.mark.airflow

HOURLY = "compact_hourly"


def git(folder: Path, *words: str) -> str:
    """Run git as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit(repository: Path, company: Company, tables: Sequence[str]) -> str:
    """Commit a configuration with these tables. Returns the version."""
    command = [sys.executable, str(PROGRAM), str(company.folder / "answers.json")]
    groups = {"hourly": {"schedule": None, "wait": "3h"}}
    text = {
        "warehouse": str(company.folder / "warehouse"),
        "catalog": {"database": "school"},
        "airflow": {"command": command, "groups": groups, "maintenance": None},
        "tables": {name: {"key": ["id"]} for name in tables},
    }
    (repository / "dags/compactor.yaml").write_text(json.dumps(text), encoding="utf-8")
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", f"{len(tables)} tables")
    return git(repository, "rev-parse", "HEAD")


if os.environ.get("COMPACTOR_TESTS") == "full":

    def test_a_run_keeps_its_version_of_the_configuration(tmp_path: Path) -> None:
        """While a run waits in the triggerer, a table is added. The run ends with one table, the next has two."""
        faulthandler.cancel_dump_traceback_later()
        company = Company(tmp_path)
        repository, home = tmp_path / "repository", tmp_path / "airflow"
        home.mkdir()
        shutil.copytree(ROOT / "dags", repository / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        git(repository, "init", "--quiet", "--initial-branch", "main")
        done = {name: [TableReport(name, "committed", 1, ("commit 1",), 1, {"read": 1, "applied": 1}, rows=1).to_json()] for name in "ab"}
        answers = {"run": {"found": done["a"] + done["b"]}, "run a": {"found": done["a"]}, "verify": {"found": []}}
        (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        first = commit(repository, company, "a")
        bundle = {
            "name": "lake",
            "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
            "kwargs": {"repo_url": str(repository), "tracking_ref": "main", "subdir": "dags", "refresh_interval": 5},
        }
        variables = {
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(tmp_path / "bundles"),
            "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
            # the configuration is beside the DAGs
            "COMPACTOR_CONFIG": "",
        }
        landing = tmp_path / "warehouse"
        with serving(home, repository / "dags", Path(), variables) as server:
            server.until("the DAG", lambda: HOURLY in {dag["dag_id"] for dag in server.ask("GET", "/api/v2/dags")["dags"]})
            assert server.ask("GET", "/api/v2/importErrors")["import_errors"] == []
            # the hour of a run by hand is the last full one
            run = server.trigger(HOURLY)
            server.until("deferred", lambda: server.tasks(HOURLY, run)["wait"] == "deferred")
            second = commit(repository, company, "ab")
            server.until("the new version", lambda: "tables.b" in str(server.ask("GET", f"/api/v2/dags/{HOURLY}/tasks")))
            hours = [datetime.now(timezone.utc) + timedelta(hours=each) for each in (-2, -1, 0)]
            for name, hour in product("ab", hours):
                folder = landing / name / hour.strftime("incremental/increment_%Y%m%d%H")
                folder.mkdir(parents=True)
                (folder / "part-0.json").write_text('{"id": 1}\n', encoding="utf-8")
            found = server.ended(HOURLY, run)
            assert {name: state for name, state in found.items() if name.startswith("tables.")} == {"tables.a": "success"}, found
            again = server.trigger(HOURLY)
            found = server.ended(HOURLY, again)
            assert {name: state for name, state in found.items() if name.startswith("tables.")} == {"tables.a": "success", "tables.b": "success"}, (
                found
            )
            versions = [server.ask("GET", f"/api/v2/dags/{HOURLY}/dagRuns/{each}")["bundle_version"] for each in (run, again)]
            assert versions == [first, second]
        asked = [json.loads(line) for line in (tmp_path / "answers.asked").read_text(encoding="utf-8").splitlines()]
        configs = {words[words.index("--config") + 1] for words in asked}
        assert configs == {str(tmp_path / f"bundles/lake/versions/{version}/dags/compactor.yaml") for version in (first, second)}
