"""A real Airflow on SQLite, in a folder that goes when the tests end; and a company: a configuration, a landing area, and its DAGs.

Airflow's environment has no PySpark. The runner starts the project's own Python, which COMPACTOR_PYTHON names (`make test-airflow`).
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.capture import config, landing, truth

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FORM = "debezium_json_value"
SPARK_PYTHON = os.environ.get("COMPACTOR_PYTHON", sys.executable)

if importlib.util.find_spec("airflow") is None:
    # The fast tests run without it, and leave these out by marker; `make test-airflow` has it.
    collect_ignore_glob = ["test_alerts*", "test_connection*", "test_dag*", "test_tasks*", "test_vacuum*"]
else:
    _home = tempfile.mkdtemp(prefix="compactor-airflow-")
    atexit.register(shutil.rmtree, _home, ignore_errors=True)
    os.environ.update(
        AIRFLOW_HOME=_home,
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
        AIRFLOW__CORE__UNIT_TEST_MODE="False",
        AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY="0",
        # the DAG of the test before, with its assets, would be valid for half a minute
        AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL="0",
        PYTHONPATH=str(ROOT),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import airflow.sdk  # noqa: F401 - everything that warns while it is loaded


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Airflow warns of its own past; what our modules cause is an error as everywhere."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("airflow"):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings(r"error:::compactor\..*"))


@pytest.fixture(scope="session")
def database() -> None:
    """Airflow's own, with its tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from airflow.utils.db import initdb

        initdb()


def dag_file(name: str) -> ModuleType:
    """A file of `dags/`, read as Airflow does."""
    spec = importlib.util.spec_from_file_location(f"dag_file_{name}", ROOT / "dags" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The runner's program in tests that are not about Spark: `program.py ANSWERS` says and does what the file ANSWERS tells.
PROGRAM = HERE / "program.py"


@dataclass
class Company:
    """A warehouse with the capture's tables, run by Airflow."""

    folder: Path

    @property
    def config(self) -> Path:
        """Its configuration."""
        return self.folder / "compactor.yaml"

    def land(self, hours: Sequence[int], tables: Sequence[str] | None = None) -> list[Path]:
        """Let the sink write."""
        return landing.land(self.folder, FORM, hours=hours, only=tables)

    def dag(self, file: str, name: str = "") -> Any:
        """A DAG of a file of `dags/`."""
        return vars(dag_file(file))[name or file]

    def hourly(self, hour: int) -> Any:
        """The run of `compact_hourly` that brings in an hour of the capture. The same hour again clears all its tasks."""
        moment = datetime(2024, 3, 5, hour + 1, 10, tzinfo=timezone.utc)
        return self.dag("compact_hourly").test(logical_date=moment, run_after=moment)

    def differing(self, hour: int, tables: Sequence[str]) -> list[str]:
        """Where views differ from PostgreSQL's rows at the end of an hour."""
        shown = subprocess.run([SPARK_PYTHON, HERE / "views.py", self.config, *tables], capture_output=True, text=True, check=False, timeout=300)
        assert shown.returncode == 0, shown.stderr
        rows = json.loads(shown.stdout, parse_float=Decimal)
        dump = truth.truth(hour)
        found = [one for name in tables for one in truth.unexpected(truth.differences(rows[name], dump[name], FORM), FORM, hour)]
        return [str(one) for one in found]


def states(run: Any) -> dict[str, str]:
    """Task → state of a run."""
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}


@pytest.fixture
def company(tmp_path: Path, database: None, monkeypatch: pytest.MonkeyPatch) -> Company:
    """Two tables, nothing landed, in an Airflow that knows no asset: of two addresses with one name it takes the second for inactive."""
    from airflow.models.asset import AssetActive
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(AssetActive))
    made = Company(tmp_path)
    text = config.config_text(FORM, ["enrollment", "student"])
    made.config.write_text(f"airflow:\n  command: [{SPARK_PYTHON}, -m, compactor]\n{text}", encoding="utf-8")
    monkeypatch.setenv("COMPACTOR_CONFIG", str(made.config))
    return made
