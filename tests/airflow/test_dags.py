"""The files of `dags/`: what Airflow makes of them, and that reading them costs no more than reading the configuration."""

from __future__ import annotations

import builtins
import os
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import ROOT, Company, dag_file

pytestmark = pytest.mark.airflow

FILES = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))
EXPECTED = {
    "backfill": {"backfill"},
    "compact_hourly": {"compact_hourly", "compact_big.ones"},
    "maintenance": {"maintenance"},
    "quarantine_alert": {"quarantine_alert"},
    # no table of the configuration below declares a schema
    "sync_schemas": set(),
}

TABLES = """
warehouse: lake
airflow:
  groups:
    big.ones: {schedule: 40 */6 * * *, wait: 1h, at_once: 2, queue: large, executor_config: {pod_template_file: pods/large.yaml, cpu: 1024, tags: [{key: team, value: data}], spot: true}}
    by_hand: {schedule: none}
defaults: {pool: compactor}
tables:
  student: {key: [id]}
  ledger: {key: [id], group: big.ones, pool: large, retries: 2, timeout: 6h, view: ledger_now}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with two groups that have tables."""
    path = tmp_path / "compactor.yaml"
    path.write_text(TABLES, encoding="utf-8")
    monkeypatch.setenv("COMPACTOR_CONFIG", str(path))
    return path


def dags(name: str) -> dict[str, Any]:
    """The DAGs of a file, by id."""
    from airflow.sdk import DAG

    return {key: value for key, value in vars(dag_file(name)).items() if isinstance(value, DAG)}


def test_these_are_the_files() -> None:
    """A new one is to be looked at here."""
    assert sorted(EXPECTED) == FILES


def test_maintenance_runs_no_table_that_only_people_run(written: Path) -> None:
    """It compacts, and so ingests, tables whose group has a schedule; it verifies every table."""
    written.write_text(TABLES + "  attic: {key: [id], group: by_hand}\n", encoding="utf-8")
    (dag,) = dags("maintenance").values()
    of_groups = {task: dag.get_task(task).members for task in dag.task_ids if task.startswith(("compact_", "verify_"))}
    assert of_groups == {
        "compact_hourly": ["student"], "compact_big.ones": ["ledger"],
        "verify_hourly": ["student"], "verify_big.ones": ["ledger"], "verify_by_hand": ["attic"],
    }  # fmt: skip
    assert dag.get_task("compact_big.ones").words == ("run", "--compact", "--parallel", "2")


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_a_thin_declaration(name: str) -> None:
    """Sixty lines at most, no logic, and what its docstring says is what the UI shows."""
    text = (ROOT / "dags" / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "def " not in text
    assert "airflow" in text
    assert "dag" in text


@pytest.mark.parametrize("name", FILES)
def test_a_file_makes_its_dags(written: Path, name: str) -> None:
    """One for each group that has tables, no import error, and a copy through Airflow's database is the same."""
    from airflow.serialization.serialized_objects import DagSerialization

    found = dags(name)
    assert set(found) == EXPECTED[name]
    for dag in found.values():
        assert dag.doc_md == dag_file(name).__doc__
        assert dag.catchup is False
        assert "compactor" in dag.tags
        assert set(DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids) == set(dag.task_ids)


@pytest.mark.parametrize("name", FILES)
def test_reading_a_file_reads_the_configuration_and_nothing_else(written: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other file is opened, no directory listed, nobody called, no PySpark imported."""
    dag_file(name)  # modules are loaded
    opened: list[str] = []
    real = builtins.open

    def watched(file: Any, *more: Any, **named: Any) -> Any:
        opened.append(str(file))
        return real(file, *more, **named)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("I/O beside the configuration")

    monkeypatch.setattr(builtins, "open", watched)
    monkeypatch.setattr("io.open", watched)
    for place in ("listdir", "scandir", "walk"):
        monkeypatch.setattr(os, place, refused)
    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr("subprocess.Popen", refused)
    dag_file(name)
    own = {str(ROOT / "dags" / f"{name}.py"), str(written)}
    assert {path for path in opened if "__pycache__" not in path} <= own
    assert str(written) in opened
    assert not [module for module in sys.modules if module.split(".")[0] == "pyspark"]


def test_tables_keys_arrive_at_their_tasks(written: Path) -> None:
    """Group, pool, retries, time-out, asset, queue and settings of the executor."""
    dag = dags("compact_hourly")["compact_big.ones"]
    wait, work, run, table = (dag.get_task(name) for name in ("wait", "find_work", "run", "tables.ledger"))
    for task in (run, table):
        assert (task.owner, task.pool, task.retries, task.execution_timeout) == ("compactor", "large", 2, timedelta(hours=6))
        assert task.retry_exponential_backoff == 2
    executor = {"cpu": 1024, "tags": [{"key": "team", "value": "data"}], "spot": True, "pod_template_file": f"{written.parent}/pods/large.yaml"}
    for task in (wait, work, run, table):
        assert (task.queue, task.executor_config) == ("large", executor)
    assert (wait.pool, wait.wait, run.words) == ("default_pool", 3600.0, ("run", "--parallel", "2"))
    assert [(asset.name, asset.uri) for asset in table.outlets] == [("default.ledger_now", f"file://{written.parent}/lake/ledger")]
    # its time limit would end tasks that are retried, and nobody would be alerted
    assert (dag.max_active_runs, dag.dagrun_timeout) == (2, None)
    assert {task.task_id: set(task.downstream_task_ids) for task in dag.tasks} == {
        "wait": {"find_work"},
        "find_work": {"run"},
        "run": {"tables.ledger"},
        "tables.ledger": set(),
    }
    assert dags("compact_hourly")["compact_hourly"].get_task("run").pool == "compactor"


def test_a_table_that_needs_other_machines_has_a_job_of_its_own(written: Path) -> None:
    """Another time limit, pool, runner, or settings of Spark; the others share one."""
    more = "  note: {key: [id], timeout: 12h}\n  mark: {key: [id]}\n  list: {key: [id], timeout: 12h}\n"
    written.write_text(TABLES + more, encoding="utf-8")
    dag = dags("compact_hourly")["compact_hourly"]
    jobs = {task.task_id: set(task.downstream_task_ids) for task in dag.tasks if task.task_id.startswith("run")}
    assert jobs == {"run": {"tables.student", "tables.mark"}, "run_note": {"tables.note", "tables.list"}}
    assert dag.get_task("run_note").execution_timeout == timedelta(hours=12)


def test_no_two_jobs_of_maintenance_have_one_name(written: Path) -> None:
    """A group may be called like another one with one of its tables."""
    groups = TABLES.replace("    by_hand: {schedule: none}\n", "    hourly_orders: {}\n")
    written.write_text(groups + "  orders: {key: [id], pool: large}\n  note: {key: [id], group: hourly_orders}\n", encoding="utf-8")
    (dag,) = dags("maintenance").values()
    of_jobs = {task: dag.get_task(task).members for task in dag.task_ids if task.startswith("verify")}
    assert of_jobs == {"verify_hourly": ["student"], "verify.orders": ["orders"], "verify_hourly_orders": ["note"], "verify_big.ones": ["ledger"]}


def test_a_backfill_gives_every_table_its_time(written: Path) -> None:
    """Its tasks are mapped, and all have the time limit of the slowest table."""
    (dag,) = dags("backfill").values()
    assert {dag.get_task(name).execution_timeout for name in ("rebuild", "run", "reprocess")} == {timedelta(hours=6)}


def test_a_group_that_waits_for_nothing_has_no_such_task(written: Path) -> None:
    """`wait: 0s`."""
    written.write_text(TABLES.replace("wait: 1h", "wait: 0s"), encoding="utf-8")
    assert "wait" not in dags("compact_hourly")["compact_big.ones"].task_ids


def test_without_a_table_a_group_looks_for_the_first(written: Path) -> None:
    """`find_work` adds those of `discover:`."""
    written.write_text("warehouse: lake\ndiscover: [{from: 'lake/topics/{table}'}]\n", encoding="utf-8")
    (dag,) = dags("compact_hourly").values()
    assert (dag.dag_id, set(dag.task_ids)) == ("compact_hourly", {"find_work", "wait"})


def test_schemas_are_watched_where_a_table_declares_one(written: Path) -> None:
    """Otherwise the DAG would run every 15 minutes for nothing."""
    written.write_text(TABLES.replace("ledger: {key", "ledger: {schema: ledger.avsc, key"), encoding="utf-8")
    (written.parent / "ledger.avsc").write_text('{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}', encoding="utf-8")
    (dag,) = dags("sync_schemas").values()
    # a question is open for hours: the runs after it go on looking; and a table that cannot be looked at hides no other
    assert (dag.max_active_runs, dag.get_task("any_table_blocked").trigger_rule) == (2, "all_done")


def test_two_configurations_can_share_an_airflow(written: Path) -> None:
    """Their DAGs differ by a prefix, and each knows its own."""
    written.write_text(TABLES.replace("airflow:\n", "airflow:\n  prefix: school_\n"), encoding="utf-8")
    assert {key for name in FILES for key in dags(name)} == {f"school_{name}" for names in EXPECTED.values() for name in names}
    assert dags("backfill")["school_backfill"].dag_id == "school_backfill"
    # Airflow takes one address for the name of an asset
    (asset,) = dags("compact_hourly")["school_compact_hourly"].get_task("tables.student").outlets
    assert asset.name == "school_default.student"


def test_a_wrong_configuration_is_an_import_error_with_the_place(written: Path) -> None:
    """Airflow shows it in red at its top: file, line, table, key."""
    from airflow.dag_processing.dagbag import DagBag

    written.write_text(TABLES.replace("pool: large", "pol: large"), encoding="utf-8")
    bag = DagBag(str(ROOT / "dags" / "compact_hourly.py"))
    (error,) = bag.import_errors.values()
    assert f"{written}:10: table ledger, key pol: unknown key; did you mean pool?" in error


def test_the_whole_folder_is_found_by_airflow(written: Path) -> None:
    """Its rule of thumb for which files hold DAGs finds all of them."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"))
    assert bag.import_errors == {}
    assert set(bag.dag_ids) == set().union(*EXPECTED.values())


def test_the_environment_has_one_pyspark_at_most() -> None:
    """pyspark-client, which Airflow's Spark provider brings, installs over PySpark in the same folder."""
    from importlib.metadata import distributions

    assert "pyspark-client" not in {found.metadata["Name"] for found in distributions()}


def test_the_company_of_these_tests_has_its_configuration(company: Company) -> None:
    """The fixture that the others rely on."""
    assert set(dags("compact_hourly")["compact_hourly"].task_group.children["tables"].children) == {"tables.enrollment", "tables.student"}
