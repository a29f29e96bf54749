"""Tasks of a table that runs on EMR: deferred while the job runs, resumed with its report, ended with it. The runner is a list of answers; what a
real one asks of EMR is in tests/runners and tests/engines."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from compactor.app.app import App
from compactor.core.model.errors import CompactorError, Refused, Unavailable
from compactor.core.results.record import TableReport
from compactor.core.results.reports import Ended
from compactor.flows.run import failure
from compactor.ports import Submitted
from tests.airflow.conftest import dag_file

pytestmark = pytest.mark.airflow

COMMITTED = TableReport("student", "committed", 3, ("commit 3",), 1, {"read": 10, "applied": 9}, rows=9)
TEXT = """
warehouse: s3://lake/w
catalog: {type: glue}
emr: {job: s3://code/jobs/1, logs: s3://logs/jobs, application: 00a, role: "arn:aws:iam::123456789012:role/job", cluster: j-1}
airflow: {groups: {big: {}}}
tables:
  student: {key: [id], runner: emr-serverless}
  ledger: {key: [id], group: big, runner: emr-steps}
  grade: {key: [id], runner: emr-serverless}
  note: {key: [id]}
"""


class Jobs:
    """A runner of one job, for all who ask."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[str], str, list[str]]] = []
        self.looks: list[Any] = []
        self.ended_with: Ended | CompactorError = Ended(0, json.dumps([COMMITTED.to_json()]), "")
        self.stopped: list[str] = []
        self.pages: list[dict[str, str]] = []
        self.idle: set[str] = set()
        self.until = 4e9

    def of(self, tables: list[str], attempt: str = "") -> Any:
        """What App gives."""
        jobs = self

        class One:
            def submit(self, arguments: list[str]) -> Submitted:
                jobs.sent.append((list(tables), attempt, list(arguments)))
                return Submitted("job-1", "s3://logs/jobs/reports/x", jobs.until)

            def ended(self, submitted: Submitted) -> bool:
                found = jobs.looks.pop(0)
                if isinstance(found, CompactorError):
                    raise found
                return found if isinstance(found, bool) else found(submitted)

            def usage(self, submitted: Submitted) -> None:
                raise Refused("not allowed to GetJobRun")

            def result(self, submitted: Submitted, told: Any) -> Ended:
                told("a line of the job's log")
                if isinstance(jobs.ended_with, CompactorError):
                    raise jobs.ended_with
                return jobs.ended_with

            def links(self, submitted: Submitted) -> dict[str, str]:
                return jobs.pages.pop(0) if jobs.pages else {"Spark UI": "https://ui", "Log": "https://log"}

            def stop(self, submitted: Submitted) -> None:
                jobs.stopped.append(submitted.job)

        return One()


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The company is on EMR."""
    (tmp_path / "compactor.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("COMPACTOR_CONFIG", str(tmp_path / "compactor.yaml"))
    found = Jobs()
    monkeypatch.setattr(App, "remote_runner", lambda self, names, attempt="", *more: None if names == ["note"] else found.of(names, attempt))
    monkeypatch.setattr(App, "submitted_runner", lambda self, submitted: found.of([]))
    monkeypatch.setattr(App, "idle", lambda self, names: [TableReport(name, "idle", 2) for name in names if name in found.idle])
    monkeypatch.setattr("compactor.flows.publish.notices.recovered", lambda tables, where: [])
    return found


class Instance:
    """As much of a task instance as these tasks use."""

    dag_id, run_id, task_id, map_index, max_tries, id = "compact_hourly", "r", "run", -1, 5, "uuid"

    def __init__(self, try_number: int = 1, **xcoms: Any) -> None:
        self.try_number, self.xcoms = try_number, xcoms

    def xcom_pull(self, task_ids: str, key: str = "") -> Any:
        """What a task, or this one under a key, has left."""
        return self.xcoms.get(key or task_ids)

    def xcom_push(self, key: str, value: Any) -> None:
        """Leave a value."""
        self.xcoms[key] = value


def context(try_number: int = 1, **xcoms: Any) -> dict[str, Any]:
    """What Airflow gives to a task."""
    return {"run_id": "r", "ti": Instance(try_number, **xcoms)}


def deferred(task: Any, given: Any = None) -> Any:
    """A task's deferral: of its execution in a context, or by a call."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as found:
        given() if callable(given) else task.execute(given or context(find_work={"run": ["student"]}))
    return found.value


def event(trigger: Any) -> dict[str, Any]:
    """What a trigger tells, made again as the triggerer makes it."""

    async def first() -> Any:
        return (await anext(type(trigger)(**{**trigger.serialize()[1], "poll": 0.01}).run())).payload

    return dict(asyncio.run(first()))


def group_job() -> Any:
    """The task that runs the tables of the group `hourly` on EMR."""
    return dag_file("compact_hourly").compact_hourly.get_task("run")


def test_a_group_gives_back_its_slot_while_its_job_runs(jobs: Jobs) -> None:
    """One job with the tables that have work; then the reports are what the task returns. The links are there meanwhile and afterwards."""
    task, given = group_job(), context(find_work={"run": ["student", "grade"]})
    left = deferred(task, given)
    assert jobs.sent == [
        (["student", "grade"], "compact_hourly/r/run/-1/1/uuid", ["run", "--parallel", "4", "student", "grade", "--output", "json", "--label", "r"])
    ]
    links = {link.name: link.get_link(task, ti_key=None) for link in task.operator_extra_links}
    assert links == {"Spark UI": "https://ui", "EMR console": "", "Log": "https://log"}
    assert (left.method_name, left.trigger.tables) == ("resume", ["student", "grade"])
    jobs.looks = [False, False, True]
    told = event(left.trigger)
    assert (told["problem"], jobs.looks) == (None, [])
    failed = failure("grade", Refused("no"))
    jobs.ended_with = Ended(1, json.dumps([COMMITTED.to_json(), failed.to_json()]), "")
    reports = task.resume(given, told)
    assert {name: report["outcome"] for name, report in reports.items()} == {"student": "committed", "grade": "failed"}
    assert task.links == {"Spark UI": "https://ui", "Log": "https://log"}


def test_sparks_ui_is_linked_as_soon_as_the_job_runs(jobs: Jobs) -> None:
    """A job that waits has none. The task is called once for it, and then only when the job has ended, whether it could show the page or not."""
    task, given, waits = group_job(), context(find_work={"run": ["student"]}), {"Log": "https://log"}
    jobs.pages = [waits, waits, {**waits, "Spark UI": "https://ui"}, {**waits, "Spark UI": "https://ui"}]
    jobs.looks = [False, False]
    told = event(deferred(task, given).trigger)
    assert (told["active"], task.links) == (True, waits)
    again = deferred(task, lambda: task.resume(given, told))
    assert (task.links["Spark UI"], again.trigger.until_ui) == ("https://ui", False)
    jobs.looks = [False, True]
    told = event(again.trigger)
    assert (told["active"], told["problem"]) == (False, None)
    assert task.resume(given, told)["student"]["outcome"] == "committed"
    jobs.pages, jobs.looks = [waits, {"Spark UI": "https://ui"}, waits], [False]
    told = event(deferred(task, given).trigger)
    assert not deferred(task, lambda: task.resume(given, told)).trigger.until_ui


def test_a_retry_of_the_job_leaves_out_what_is_done(jobs: Jobs) -> None:
    """The tables without work by then have a report too; without any table there is no job."""
    jobs.idle = {"student"}
    given = context(2, find_work={"run": ["student", "grade"]})
    deferred(task := group_job(), given)
    assert jobs.sent[0][0] == ["grade"]
    jobs.ended_with = Ended(0, json.dumps([{**COMMITTED.to_json(), "table": "grade"}]), "")
    reports = task.resume(given, {"submitted": asdict(Submitted("j", "s3://r", 4e9)), "tables": ["grade"], "problem": None, "active": False})
    assert {name: report["outcome"] for name, report in reports.items()} == {"student": "idle", "grade": "committed"}
    jobs.idle = {"student", "grade"}
    assert {name: report["outcome"] for name, report in group_job().execute(given).items()} == {"student": "idle", "grade": "idle"}
    assert len(jobs.sent) == 1


def test_names_that_are_too_long_for_a_step_are_left_out(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's configuration has these tables and no others, so it runs them without names."""
    monkeypatch.setattr("compactor.airflow.command.ARGUMENT_CHARS_MAX", 10)
    deferred(group_job(), context(find_work={"run": ["student", "grade"]}))
    assert jobs.sent == [(["student", "grade"], "compact_hourly/r/run/-1/1/uuid", ["run", "--parallel", "4", "--output", "json", "--label", "r"])]


def test_a_table_is_run_alone_from_its_second_attempt_on(jobs: Jobs) -> None:
    """If it still has work; or when the job has no report of it."""
    task, report = dag_file("compact_hourly").compact_hourly.get_task("tables.student"), failure("student", Unavailable("busy")).to_json()
    with pytest.raises(SystemExit, match="student: busy"):
        task.execute(context(run={"student": report}))
    assert jobs.sent == []
    deferred(task, context(2, run={"student": report}))
    deferred(task, context(run={}))
    assert [(tables, words[:2]) for tables, _, words in jobs.sent] == [(["student"], ["run", "student"])] * 2


@pytest.mark.parametrize(
    ("look", "ended", "again"),
    [
        (Unavailable("still RUNNING when its time was over"), Unavailable("ended without a report"), True),
        (False, Unavailable("ended without a report"), True),
        (False, Ended(75, "", "compactor: busy"), True),
        (False, Ended(1, "", "compactor: emr: of another version"), False),
        (False, Ended(1, "", "compactor: unexpected OSError: disk"), True),
    ],
)
def test_only_what_may_help_is_tried_again(jobs: Jobs, look: Any, ended: Any, again: bool) -> None:
    """As on this machine. The reason for which a job was cancelled is told with its end."""
    from airflow.sdk.exceptions import AirflowFailException

    from compactor.airflow.command import TryAgain

    task, given = group_job(), context(find_work={"run": ["student"]})
    trigger = deferred(task, given).trigger
    jobs.looks, jobs.ended_with = [look, True], ended
    with pytest.raises(TryAgain if again else AirflowFailException, match="" if look is False else "still RUNNING .*; ended without a report"):
        task.resume(given, event(trigger))


@pytest.mark.parametrize(
    "changed", [None, TEXT[:60], TEXT.replace("  student: {key: [id], runner: emr-serverless}\n", ""), TEXT.replace("00a", "00b")]
)
def test_a_job_is_awaited_whatever_becomes_of_the_configuration(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str | None
) -> None:
    """The file is gone or half-written for a moment, its table is removed, or the next jobs go elsewhere; or credentials expire. The job runs on."""
    monkeypatch.setattr("compactor.airflow.opened._apps", {})
    task, given, file = group_job(), context(find_work={"run": ["student"]}), tmp_path / "compactor.yaml"
    trigger = deferred(task, given).trigger
    assert (trigger.submitted["runner"], trigger.submitted["emr"]["application"]) == ("emr-serverless", "00a")

    def look(_: Any) -> bool:
        file.unlink(missing_ok=True)
        if changed is not None and len(jobs.looks) > 1:
            file.write_text(changed, encoding="utf-8")
        return False

    jobs.looks = [look, Refused("the credentials have expired"), Unavailable("throttled"), True]
    restored = threading.Timer(0.3, lambda: file.write_text(TEXT if changed in (None, TEXT[:60]) else changed, encoding="utf-8"))
    restored.start()
    assert event(trigger)["problem"] == "throttled"
    restored.join()
    assert jobs.looks == []


def test_a_job_that_cannot_be_seen_is_left_when_its_time_is_over(jobs: Jobs) -> None:
    """Its report may be there all the same."""
    jobs.until, jobs.looks = time.time() - 1, [Refused("not allowed to GetJobRun")]
    task, given = group_job(), context(find_work={"run": ["student"]})
    told = event(deferred(task, given).trigger)
    assert told["problem"] == "not allowed to GetJobRun"
    assert task.resume(given, told)["student"]["outcome"] == "committed"


def test_a_task_that_cannot_read_its_jobs_report_now_reads_it_in_the_next_attempt(jobs: Jobs, tmp_path: Path) -> None:
    """The tables are committed: somebody who repairs the configuration need do nothing else."""
    from compactor.airflow.command import TryAgain

    task, given = group_job(), context(find_work={"run": ["student"]})
    told = {"submitted": deferred(task, given).trigger.submitted, "tables": ["student"], "problem": None, "active": False}
    (tmp_path / "compactor.yaml").write_text(TEXT[:60], encoding="utf-8")
    with pytest.raises(TryAgain, match=r"compactor\.yaml"):
        task.resume(given, told)


def test_a_job_is_looked_for_where_it_was_sent(tmp_path: Path) -> None:
    """Whatever the configuration has by now: another application, no such table."""
    file = tmp_path / "compactor.yaml"
    file.write_text(TEXT, encoding="utf-8")
    emr = {"job": "s3://code/jobs/0", "application": "00b", "role": "arn:aws:iam::123456789012:role/old", "logs": "s3://logs/old"}
    with App.open(file) as app:
        runner: Any = app.submitted_runner(Submitted("job-1", "s3://logs/old/reports/x", 4e9, 60.0, "emr-serverless", emr))
    assert (runner._jobs._application, runner._sending.logs) == ("00b", "s3://logs/old")


def test_a_run_that_was_deleted_and_made_again_has_jobs_of_its_own() -> None:
    """A job is found again by the attempt's name, so that one that Airflow starts twice is one job."""
    from compactor.airflow.command import attempt_of

    first, again, other = (context() for _ in range(3))
    other["ti"].id = "another uuid"
    assert attempt_of(first) == attempt_of(again) != attempt_of(other)


def test_a_task_that_a_person_ends_takes_its_job_along(jobs: Jobs) -> None:
    """Cleared or marked while it is deferred."""
    trigger = deferred(group_job()).trigger
    assert trigger.serialize()[0] == "compactor.airflow.triggers.JobTrigger"
    asyncio.run(trigger.on_kill())
    assert jobs.stopped == ["job-1"]


def test_tables_with_another_runner_have_a_job_of_their_own(jobs: Jobs) -> None:
    """What only reads files stays on the worker, as for a table that says nothing."""
    from compactor.config.settings import load

    settings = load(group_job().config)
    assert {name: settings.tables[name].runner for name in settings.names} == {
        "student": "emr-serverless", "ledger": "emr-steps", "grade": "emr-serverless", "note": "local",
    }  # fmt: skip
    assert {task.task_id: task.members for task in dag_file("compact_hourly").compact_hourly.tasks if task.task_id.startswith("run")} == {
        "run": ["student", "grade"], "run_note": ["note"],
    }  # fmt: skip
    maintenance = {task.task_id: task.members for task in dag_file("maintenance").maintenance.tasks if task.task_id.startswith("verify")}
    assert maintenance == {"verify_hourly": ["student", "grade"], "verify.note": ["note"], "verify_big": ["ledger"]}


def test_what_is_sent_survives_airflows_database(jobs: Jobs) -> None:
    """A trigger is stored between its deferral and its run."""
    from airflow.serialization.serialized_objects import BaseSerialization

    given = deferred(group_job()).trigger.serialize()[1]
    assert BaseSerialization.deserialize(BaseSerialization.serialize(given)) == given
    assert Submitted(**given["submitted"]).emr["cluster"] == "j-1"


class EarlierRun(Instance):
    """A task instance with an earlier run of its DAG that is still active."""

    def __init__(self, taken: dict[str, list[str]] | None, states: dict[str, str | None]) -> None:
        super().__init__()
        self.taken, self.states = taken, states

    def get_previous_dagrun(self, state: str) -> Any:
        """The earlier run, if there is one."""
        assert state == "running"
        return None if self.taken is None else type("Run", (), {"run_id": "earlier"})

    def xcom_pull(self, task_ids: str, key: str = "", run_id: str = "r") -> Any:
        """What its look found."""
        assert (task_ids, run_id) == ("find_work", "earlier")
        return self.taken

    def get_task_states(self, dag_id: str, run_ids: list[str], task_ids: list[str]) -> dict[str, Any]:
        """The states of its tasks."""
        return {run_ids[0]: {task: self.states.get(task) for task in task_ids}}


@pytest.mark.parametrize(
    ("taken", "state", "left_out"),
    [
        (None, None, False),
        ({"run": []}, None, False),
        ({"run": ["student"]}, None, True),
        ({"run": ["student"]}, "up_for_retry", True),
        ({"run": ["student"]}, "deferred", True),
        ({"run": ["student"]}, "success", False),
        ({"run": ["student"]}, "failed", False),
    ],
)
def test_a_table_is_left_to_the_earlier_run_that_works_on_it(jobs: Jobs, taken: Any, state: str | None, left_out: bool) -> None:
    """As long as its task there has not ended; so a slow table does not stop the next run of its group."""
    from airflow.sdk.exceptions import DownstreamTasksSkipped

    jobs.idle = {"note"}
    sent: list[tuple[str, str]] = []

    class Events:
        def add(self, asset: Any, extra: dict[str, Any]) -> None:
            hash(frozenset(extra.items()))  # as Airflow 3.0 does
            sent.append((asset.name, extra["outcome"]))

    task = dag_file("compact_hourly").compact_hourly.get_task("find_work")
    ti = EarlierRun(taken, {"tables.student": state})
    run = type("Run", (), {"logical_date": datetime(2024, 3, 5, 4, 10, tzinfo=timezone.utc), "run_after": None})
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        task.execute({"ti": ti, "dag_run": run, "outlet_events": {task.alias: Events()}})
    assert ti.xcoms["return_value"] == {"run": ["grade"] if left_out else ["student", "grade"], "run_note": []}
    assert set(skipped.value.tasks) == {"run_note", "tables.note", *(["tables.student"] if left_out else [])}
    assert sent == [("default.note", "idle")]
