"""Tasks of a table that runs on EMR: deferred while the job runs, resumed with its report, ended with it. The runner is a list of answers; what a
real one asks of EMR is in tests/runners and tests/engines."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from compactor.app.app import App
from compactor.core.model.errors import CompactorError, Refused, Unavailable
from compactor.core.results.reports import Ended, TableReport
from compactor.ports import Submitted
from tests.airflow.conftest import dag_file

pytestmark = pytest.mark.airflow

COMMITTED = TableReport("student", "committed", 3, ("commit 3",), 1, {"read": 10, "applied": 9}, rows=9)
TEXT = """
warehouse: s3://lake/w
catalog: {type: glue}
emr: {job: s3://code/jobs/1, plans: s3://code/plans, logs: s3://logs/jobs, application: 00a, role: "arn:aws:iam::123456789012:role/job", cluster: j-1}
airflow: {groups: {big: {runner: emr-steps}}}
tables:
  student: {key: [id], runner: emr-serverless}
  ledger: {key: [id], group: big}
  note: {key: [id]}
"""


class Jobs:
    """A runner of one job, for all who ask."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, list[str]]] = []
        self.looks: list[bool | CompactorError] = []
        self.ended_with: Ended | CompactorError = Ended(0, json.dumps([COMMITTED.to_json()]), "")
        self.stopped: list[str] = []
        self.idle: set[str] = set()

    def of(self, table: str, attempt: str = "") -> Any:
        """What App gives."""
        jobs = self

        class One:
            def submit(self, arguments: list[str]) -> Submitted:
                jobs.sent.append((table, attempt, list(arguments)))
                return Submitted("job-1", "s3://logs/jobs/reports/x", 4e9)

            def ended(self, submitted: Submitted) -> bool:
                found = jobs.looks.pop(0)
                if isinstance(found, CompactorError):
                    raise found
                return found

            def usage(self, submitted: Submitted) -> None:
                return None

            def result(self, submitted: Submitted, told: Any) -> Ended:
                told("a line of the job's log")
                if isinstance(jobs.ended_with, CompactorError):
                    raise jobs.ended_with
                return jobs.ended_with

            def stop(self, submitted: Submitted) -> None:
                jobs.stopped.append(submitted.job)

        return One()


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The company is on EMR."""
    (tmp_path / "compactor.yaml").write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("COMPACTOR_CONFIG", str(tmp_path / "compactor.yaml"))
    found = Jobs()
    monkeypatch.setattr(App, "remote_runner", lambda self, table, attempt="": None if table == "note" else found.of(table, attempt))
    monkeypatch.setattr(App, "idle", lambda self, names: [TableReport(name, "idle", 2) for name in names if name in found.idle])
    return found


class Instance:
    """As much of a task instance as names a try."""

    dag_id, run_id, task_id, map_index, try_number = "compact_hourly", "r", "student.run", -1, 2


CONTEXT = {"run_id": "r", "ti": Instance()}


def deferred(task: Any) -> Any:
    """A task's deferral."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as found:
        task.execute(CONTEXT)
    return found.value


def event(trigger: Any) -> dict[str, Any]:
    """What a trigger tells, made again as the triggerer makes it."""

    async def first() -> Any:
        return (await anext(type(trigger)(**{**trigger.serialize()[1], "poll": 0.01}).run())).payload

    return dict(asyncio.run(first()))


def test_a_run_gives_back_its_slot_while_its_job_runs(jobs: Jobs) -> None:
    """The same words as on this machine; then the report is what the task returns."""
    task = dag_file("compact_hourly").compact_hourly.get_task("student.run")
    left = deferred(task)
    assert jobs.sent == [("student", "compact_hourly/r/student.run/-1/2", ["run", "student", "--output", "json", "--label", "r"])]
    assert left.method_name == "resume"
    jobs.looks = [False, False, True]
    told = event(left.trigger)
    assert (told["problem"], jobs.looks) == (None, [])
    assert task.resume(CONTEXT, told)["outcome"] == "committed"


def test_a_table_without_work_needs_no_job(jobs: Jobs) -> None:
    """The task ends with its report; the run that compacts is submitted anyway."""
    jobs.idle = {"student"}
    report = dag_file("compact_hourly").compact_hourly.get_task("student.run").execute(CONTEXT)
    assert (report["outcome"], report["version"], jobs.sent) == ("idle", 2, [])


@pytest.mark.parametrize(
    ("look", "ended", "again"),
    [
        (Unavailable("still RUNNING when its time was over"), None, True),
        (Refused("not allowed to GetJobRun"), None, False),
        (True, Unavailable("ended without a report"), True),
        (True, Ended(75, "", "compactor: busy"), True),
        (True, Ended(1, "", "compactor: emr: of another version"), False),
        (True, Ended(1, "", "compactor: unexpected OSError: disk"), True),
    ],
)
def test_only_what_may_help_is_tried_again(jobs: Jobs, look: Any, ended: Any, again: bool) -> None:
    """As on this machine."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    task = dag_file("compact_hourly").compact_hourly.get_task("student.run")
    trigger = deferred(task).trigger
    jobs.looks, jobs.ended_with = [look], ended
    with pytest.raises(AirflowException if again else AirflowFailException) as failed:
        task.resume(CONTEXT, event(trigger))
    assert isinstance(failed.value, AirflowFailException) is not again


def test_a_task_that_a_person_ends_takes_its_job_along(jobs: Jobs) -> None:
    """Cleared or marked while it is deferred."""
    trigger = deferred(dag_file("compact_hourly").compact_hourly.get_task("student.run")).trigger
    assert trigger.serialize()[0] == "compactor.airflow.triggers.JobTrigger"
    asyncio.run(trigger.on_kill())
    assert jobs.stopped == ["job-1"]


def test_the_runner_is_the_tables_or_its_groups(jobs: Jobs) -> None:
    """What only reads files stays on the worker, as for a table that says nothing."""
    from compactor.config.settings import load

    settings = load(dag_file("compact_hourly").compact_hourly.get_task("student.run").config)
    assert {name: settings.runner_of(name) for name in settings.names} == {"student": "emr-serverless", "ledger": "emr-steps", "note": "local"}
    files = {"compact_hourly": ("student.verify", False), "compact_big": ("ledger.run", True)}
    for dag, (name, spark) in files.items():
        assert vars(dag_file("compact_hourly"))[dag].get_task(name).spark is spark
    assert dag_file("maintenance").maintenance.get_task("verify_student").spark


def test_what_is_sent_survives_airflows_database(jobs: Jobs) -> None:
    """A trigger is stored between its deferral and its run."""
    from airflow.serialization.serialized_objects import BaseSerialization

    given = deferred(dag_file("compact_hourly").compact_hourly.get_task("student.run")).trigger.serialize()[1]
    assert BaseSerialization.deserialize(BaseSerialization.serialize(given)) == given
    assert given["submitted"] == asdict(Submitted("job-1", "s3://logs/jobs/reports/x", 4e9))
