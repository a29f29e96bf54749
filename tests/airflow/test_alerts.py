"""Who is told, by Airflow, of tables that need somebody: tasks that failed for good, and runs that are not done by their deadline."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import SchemaRefused, Unavailable
from compactor.core.results.record import TableReport
from compactor.flows.publish import notices as flow
from compactor.flows.run import failure
from tests.airflow.conftest import PROGRAM, Company, dag_file, states
from tests.airflow.test_tasks import CHECKED, RUN_AT

pytestmark = pytest.mark.airflow

LISTENER = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + '\\n')"
AT = RUN_AT - timedelta(days=1)
"""A run of its own in Airflow's database."""
DONE = TableReport("student", "committed", 3, ("commit 3",), 1, {"read": 10, "applied": 9}, rows=9)


@pytest.fixture
def told(company: Company) -> Path:
    """Where alerts go; one of the tables has nobody to be told."""
    found = company.folder / "told"
    said = {
        "airflow": {"command": [sys.executable, str(PROGRAM), str(company.folder / "answers.json")]},
        # Airflow knows one address of an asset, and other tests have tables of these names
        "catalog": {"database": "alerts"},
        "defaults": {"retries": 1},
        "tables": {
            "student": {"key": ["id"], "notify": [{"command": [sys.executable, "-c", LISTENER, str(found)]}]},
            "ledger": {"key": ["id"], "notify": [{"command": ["/nowhere/to/be/found"]}, "log"]},
            "quiet": {"key": ["id"]},
        },
    }
    company.config.write_text(json.dumps(said), encoding="utf-8")
    return found


def messages(told: Path) -> list[dict[str, Any]]:
    """The alerts so far."""
    return [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()] if told.exists() else []


def hourly(company: Company, report: TableReport) -> dict[str, str]:
    """States of an hour's run in which every table ends with this report."""
    names = ("student", "ledger", "quiet")
    reports = {name: {**report.to_json(), "table": name} for name in names}
    answers = {**CHECKED, "run": {"found": [*reports.values()], "code": report.exit_code, "errors": ""}}
    answers |= {f"run {name}": {"found": [reports[name]], "code": report.exit_code, "errors": ""} for name in names}
    for name in names:
        folder = company.folder / f"warehouse/{name}/incremental/increment_2024030602"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "part-0.json").write_text('{"id": 1}\n', encoding="utf-8")
    (company.folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    found: dict[str, str] = states(company.dag("compact_hourly").test(logical_date=AT, run_after=AT))
    return found


def test_a_failed_task_is_told_once_with_the_words_of_the_command(company: Company, told: Path) -> None:
    """When it is not tried again; what did not run because of it is not told, nor is a run that succeeds. A target that fails stops nothing."""
    assert set(hourly(company, DONE).values()) == {"success"}
    assert messages(told) == []
    for error, reason in (
        (SchemaRefused("table student: column age changed"), "column age changed"),
        (Unavailable("the metastore is away"), "the metastore is away"),
    ):
        told.unlink(missing_ok=True)
        found = hourly(company, failure("student", error))
        assert (found["run"], found["tables.student"], found["tables.ledger"]) == ("success", "failed", "failed")
        (one,) = messages(told)
        assert (one["event"], one["table"], one["where"]["task"], one["where"]["dag"]) == (
            "run_failed",
            "student",
            "tables.student",
            "compact_hourly",
        )
        assert one["reason"] == reason
        assert one["text"].startswith(f"table student has failed: {reason}\n")


def test_a_table_that_succeeds_after_its_alert_is_told_once(company: Company, told: Path) -> None:
    """By the task that a person clears, by the next run, or because what failed is not there any more; not by another DAG."""
    from compactor.airflow.opened import open_app

    answers, where = company.folder / "answers.json", {"dag": "compact_hourly"}
    hourly(company, failure("student", SchemaRefused("table student: column age changed")))
    assert [one["event"] for one in messages(told)] == ["run_failed"]
    with open_app(str(company.config)) as app:
        assert flow.recovered([app.table(name) for name in ("student", "ledger")], {"dag": "maintenance"}) == []
    # the program commits nothing, so the same run again finds the same files
    assert set(hourly(company, DONE).values()) == {"success"}
    failed, recovered = messages(told)
    assert (recovered["event"], recovered["table"], recovered["where"]["task"]) == ("run_recovered", "student", "tables.student")
    assert recovered["text"].startswith(f"table student has recovered: up to date; its first failure was reported at {failed['time']}\n")
    assert set(hourly(company, DONE).values()) == {"success"}
    assert len(messages(told)) == 2

    # a file that failed is taken away: the table has no work, so none of its tasks runs
    hourly(company, failure("student", SchemaRefused("table student: column age changed")))
    shutil.rmtree(company.folder / "warehouse/student/incremental")
    answers.write_text(json.dumps(CHECKED), encoding="utf-8")
    for name in ("ledger", "quiet"):
        shutil.rmtree(company.folder / f"warehouse/{name}/incremental")
    assert states(company.dag("compact_hourly").test(logical_date=AT, run_after=AT))["tables.student"] == "skipped"
    assert [one["event"] for one in messages(told)] == ["run_failed", "run_recovered"] * 2
    with open_app(str(company.config)) as app:
        # also the table whose targets were not reached is done with
        assert flow.recovered([app.table(name) for name in ("student", "ledger", "quiet")], where) == []


@pytest.mark.parametrize(("dag", "task"), [("maintenance", "vacuum_dry_run"), ("backfill", "run"), ("compact_hourly", "tables.student")])
def test_a_task_whose_worker_is_lost_is_told(company: Company, told: Path, dag: str, task: str) -> None:
    """Airflow then calls with the task of the DAG file, and without an error: of a mapped task it has only what is declared."""
    from compactor.airflow.alerts import failed

    class Instance:
        dag_id, task_id, map_index = dag, task, 0

        def xcom_pull(self, task_ids: str, **_: Any) -> Any:
            return ["student"]

    failed({"task": vars(dag_file(dag))[dag].get_task(task), "ti": Instance(), "run_id": "r"})
    (one,) = messages(told)
    assert (one["table"], one["reason"], one["where"]["task"]) == ("student", "its worker was lost: killed, or never started", task)


def test_a_deadline_that_is_missed_tells_of_tables_whose_files_wait(company: Company, told: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One whose files are in is not late, whatever holds up its run."""
    from compactor.airflow.alerts import late

    context = {"dag_run": {"dag_id": "compact_hourly", "dag_run_id": "scheduled__x"}}
    asyncio.run(late(str(company.config), ["student"], "0:50:00", context))
    assert messages(told) == []
    for hour in ("03", "04"):
        folder = company.folder / f"warehouse/student/incremental/increment_20240305{hour}"
        folder.mkdir(parents=True)
        (folder / "part-0.json").write_text('{"id": 1}\n', encoding="utf-8")
    asyncio.run(late(str(company.config), ["student", "ledger"], "0:50:00", context))
    (one,) = messages(told)
    assert one["reason"] == (
        "0:50:00 after the run was to start 2 files wait in landing, the oldest of 2024-03-05T03:00; no version is shown"
    )  # fmt: skip
    assert one["where"] == {"dag": "compact_hourly", "run": "scheduled__x"}
    company.config.write_text("tables: {}\n", encoding="utf-8")
    asyncio.run(late(str(company.config), ["student"], "0:50:00"))
    assert "could not send the alert about a missed deadline" in caplog.text


def test_what_stops_a_whole_group_is_one_message(company: Company, told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that does not exist, found by the first task; with the names of all tables. Another connection sends the message."""
    said = json.loads(company.config.read_text(encoding="utf-8"))
    said["tables"] |= {name: {**said["tables"]["student"]} for name in ("a", "b", "c")}
    said["airflow"] |= {"conn_ids": {"SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO": "nowhere"}}
    said["registry"] = {"url": "https://registry.example"}
    company.config.write_text(json.dumps(said), encoding="utf-8")
    moment = AT - timedelta(minutes=1)
    found = states(company.dag("compact_hourly").test(logical_date=moment, run_after=moment))
    assert (found["find_work"], found["run"], found["tables.student"]) == ("failed", "upstream_failed", "upstream_failed")
    (one,) = messages(told)
    assert (one["event"], one["where"]["task"], one["where"]["tables"]) == ("run_failed", "find_work", "student, a, b, c")
    assert one["reason"].startswith("key airflow.conn_ids: Airflow has no connection nowhere")


def test_what_waits_in_quarantine_is_told_table_by_table(company: Company, told: Path) -> None:
    """The task itself, which is of no table, is not told as a failed one."""
    held = {"table": "student", "path": "increment_2024030503/part.json", "records": 2, "reason": "no such operation"}
    others = [{**held, "path": f"{n}.json", "records": None} for n in range(12)]
    (company.folder / "answers.json").write_text(json.dumps({"quarantine": {"found": [held, *others, {**held, "table": "quiet"}]}}), encoding="utf-8")
    assert states(company.dag("quarantine_alert").test(logical_date=AT, run_after=AT)) == {"check_quarantine": "failed", "check_landing": "success"}
    (one,) = messages(told)
    assert (one["event"], one["table"]) == ("quarantined", "student")
    assert one["reason"].startswith("increment_2024030503/part.json: 2 records: no such operation; 0.json: the file: ")
    assert one["reason"].endswith("; and 3 more")


def test_airflow_knows_the_deadlines(company: Company, told: Path) -> None:
    """One for the tables of each; it survives being stored, with what is to be called."""
    from airflow.serialization.serialized_objects import DagSerialization

    said = json.loads(company.config.read_text(encoding="utf-8"))
    for name in ("student", "ledger"):
        said["tables"][name]["deadline"] = "50min"
    company.config.write_text(json.dumps(said), encoding="utf-8")
    dag = dag_file("compact_hourly").compact_hourly
    (alert,) = dag.deadline
    assert (alert.interval, alert.callback.path) == (timedelta(minutes=50), "compactor.airflow.alerts.late")
    assert alert.callback.kwargs == {"config": str(company.config), "tables": ["student", "ledger"], "deadline": "0:50:00"}
    assert DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag)))).deadline
    company.config.write_text(company.config.read_text(encoding="utf-8").replace('"50min"', "null"), encoding="utf-8")
    assert dag_file("compact_hourly").compact_hourly.deadline is None
