"""What the tasks make of a command line's end, and of Airflow ending them; with a program that does as it is told in place of the CLI."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import Refused, SchemaRefused, Unavailable
from compactor.core.results.reports import TableReport
from compactor.flows.run import failure
from tests.airflow.conftest import PROGRAM, Company, dag_file, states

pytestmark = pytest.mark.airflow

CHECKED = {"verify": {"found": [{"table": "student", "name": "files", "ok": True, "detail": "2 files"}]}}
RUN_AT = datetime(2024, 3, 5, 4, 10, tzinfo=timezone.utc)


@pytest.fixture
def answers(company: Company) -> Path:
    """The file that tells the program what to do; the company has one table."""
    found = company.folder / "answers.json"
    company.config.write_text(
        f"airflow: {{command: [{sys.executable}, {PROGRAM}, {found}]}}\n"
        "defaults: {retries: 3, retry_delay: 0s}\n"
        "tables: {student: {key: [id]}}\n",
        encoding="utf-8",
    )
    return found


def answer(answers: Path, **told: Any) -> None:
    answers.write_text(json.dumps({**CHECKED, **told}), encoding="utf-8")


def reported(report: TableReport) -> dict[str, Any]:
    """What `compactor run` answers with this report."""
    return {"found": [report.to_json()], "code": report.exit_code, "errors": "a line of the log"}


def asked(answers: Path) -> list[list[str]]:
    """The command lines there were."""
    return [json.loads(line) for line in answers.with_suffix(".asked").read_text(encoding="utf-8").splitlines()]


COMMITTED = TableReport("student", "committed", 3, ("commit 3",), 1, {"read": 10, "applied": 9}, rows=9)


def test_a_run_is_the_same_command_line_as_a_persons(company: Company, answers: Path) -> None:
    """With the run's id as its label; the report is what the task returns, and goes with the asset's event."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    answer(answers, run=reported(COMMITTED))
    run = company.dag("compact_hourly").test(logical_date=RUN_AT, run_after=RUN_AT)
    assert set(states(run).values()) == {"success"}
    words, config = ["student", "--output", "json"], ["--config", str(company.config)]
    assert asked(answers) == [["run", *words, "--label", run.run_id, *config], ["verify", "--files-only", *words, *config]]
    with create_session() as session:
        event = session.query(AssetEvent).filter_by(source_run_id=run.run_id, source_dag_id="compact_hourly").one()
        kept = {"outcome": "committed", "version": 3, "operations": ["commit 3"], "files": 1, "rows": 9, "counts": {"read": 10, "applied": 9}}
        assert event.extra == {"hour": "2024-03-05T03", **kept}


@pytest.mark.parametrize(
    ("told", "tries"),
    [
        (reported(failure("student", SchemaRefused("a column became text"))), 1),
        (reported(failure("student", Unavailable("the metastore does not answer"))), 4),
        ({"output": "", "errors": "compactor: compactor.yaml:3: unknown key", "code": 1}, 1),
        ({"output": "", "errors": "compactor: the embedded metastore is in use", "code": 75}, 4),
        ({"output": "", "errors": "Killed", "code": 137}, 4),
    ],
    ids=["refused", "unavailable", "wrong configuration", "busy", "killed"],
)
def test_only_what_may_help_is_tried_again(company: Company, answers: Path, told: dict[str, Any], tries: int) -> None:
    """`retries: 3` makes four tries; of a refusal one. What follows does not run."""
    answer(answers, run=told)
    run = company.dag("compact_hourly").test(logical_date=RUN_AT, run_after=RUN_AT)
    assert states(run) == {"student.wait": "success", "student.run": "failed", "student.verify": "upstream_failed"}
    assert [words[0] for words in asked(answers)] == ["run"] * tries


def test_a_check_that_fails_fails_the_task(company: Company, answers: Path) -> None:
    """And no asset event tells consumers that all is well."""
    wrong = {"found": [{"table": "student", "name": "files", "ok": False, "detail": "a file is missing"}], "code": 1}
    answer(answers, run=reported(COMMITTED), verify=wrong)
    run = company.dag("compact_hourly").test(logical_date=RUN_AT, run_after=RUN_AT)
    assert states(run)["student.verify"] == "failed"


def test_one_table_does_not_stop_another(company: Company, answers: Path) -> None:
    """Each has its own tasks."""
    answer(answers, run=reported(COMMITTED), **{"run student": reported(failure("student", SchemaRefused("no")))})
    company.config.write_text(company.config.read_text(encoding="utf-8").replace("{student: ", "{ledger: {key: [id]}, student: "), encoding="utf-8")
    found = states(company.dag("compact_hourly").test(logical_date=RUN_AT, run_after=RUN_AT))
    assert {name: state for name, state in found.items() if name.startswith("ledger.")} == {
        f"ledger.{name}": "success" for name in ("wait", "run", "verify")
    }
    assert (found["student.run"], found["student.verify"]) == ("failed", "upstream_failed")


# ---- waiting ---------------------------------------------------------------------------------------------------------


def task(company: Company, wait: float) -> Any:
    """The task `student.wait` of a company that waits so long for an hour."""
    found = company.dag("compact_hourly").get_task("student.wait")
    found.wait = wait
    return found


class Run:
    """As much of a DAG run as tells its hour."""

    partition_key = None
    run_after = None

    def __init__(self, hour: datetime) -> None:
        self.logical_date = hour + timedelta(hours=1, minutes=1)


def landed(company: Company, hour: datetime, where: str = "incremental", name: str = "part.json") -> None:
    """A file of an hour."""
    path = company.folder / "warehouse/student" / where / hour.strftime("increment_%Y%m%d%H") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n", encoding="utf-8")


NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize(
    ("where", "name", "waits"),
    [
        ("incremental", "part.json", False),
        ("archive", "part.json", False),
        ("incremental", "part.json.tmp", True),
        ("incremental", "_SUCCESS", True),
        (None, None, True),
    ],
    ids=["landed", "absorbed already", "half a file", "a marker", "nothing"],
)
def test_waiting_ends_when_something_of_the_hour_is_there(company: Company, answers: Path, where: str | None, name: str | None, waits: bool) -> None:
    """Otherwise the task gives back its slot till the grace is over."""
    from airflow.sdk.exceptions import TaskDeferred

    if where and name:
        landed(company, NOW, where, name)
    landed(company, NOW - timedelta(hours=1))
    waiting = task(company, wait=3600.0)
    if not waits:
        assert waiting.execute({"dag_run": Run(NOW)}) == f"{NOW:%Y-%m-%dT%H}"
        return
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({"dag_run": Run(NOW)})
    path, given = deferred.value.trigger.serialize()
    assert path == "compactor.airflow.triggers.HourTrigger"
    assert given["until"] == (NOW + timedelta(hours=2)).timestamp()


def test_an_hour_whose_grace_is_over_is_not_waited_for(company: Company, answers: Path) -> None:
    """An empty hour of the past: a backfill, a cleared task."""
    past = datetime(2024, 3, 5, 3, tzinfo=timezone.utc)
    assert task(company, wait=1200.0).execute({"dag_run": Run(past)}) == "2024-03-05T03"


def test_the_trigger_sees_a_file_come_and_knows_when_to_give_up(company: Company, answers: Path) -> None:
    """It tells which; serialized and made again it does the same."""
    from compactor.airflow.triggers import HourTrigger

    async def told(until: float, meanwhile: bool) -> Any:
        trigger = HourTrigger(str(company.config), "student", f"{NOW:%Y-%m-%dT%H}", until, poll=0.05)
        again = HourTrigger(**trigger.serialize()[1])
        event = asyncio.create_task(anext(again.run()))
        await asyncio.sleep(0.3)
        assert not event.done()
        if meanwhile:
            landed(company, NOW)
        return (await event).payload["message"]

    assert asyncio.run(told(time.time() + 1.0, False)) == f"no file of {NOW:%Y-%m-%dT%H} has landed in time; continuing without it"
    assert asyncio.run(told(time.time() + 60.0, True)) == f"{NOW:%Y-%m-%dT%H} has landed"


def test_the_trigger_goes_on_when_the_store_fails(company: Company, answers: Path) -> None:
    """The run will meet the trouble and name it; a broken configuration must not keep a task waiting for ever either."""
    from compactor.airflow.triggers import HourTrigger

    company.config.write_text("tables: {}\n", encoding="utf-8")
    trigger = HourTrigger(str(company.config), "student", "2024-03-05T03", time.time() + 0.3, poll=0.05)

    async def first() -> Any:
        return (await anext(trigger.run())).payload["message"]

    assert asyncio.run(first()).startswith("no file of 2024-03-05T03")


# ---- backfill and quarantine -----------------------------------------------------------------------------------------


def backfill(company: Company, **params: Any) -> Any:
    return dag_file("backfill").backfill.test(run_conf=params, logical_date=None)


def planned(hours: list[str]) -> dict[str, Any]:
    return {"found": [{"table": "student", "steps": ["read 2 new files"], "landing": {"new": [{"hour": f"{hour}:00"} for hour in hours]}}]}


def test_a_backfill_is_a_dry_run_unless_told_otherwise(company: Company, answers: Path) -> None:
    """It plans, says which hours are there, and runs nothing."""
    answer(answers, plan=planned(["2024-03-05T01"]), run=reported(COMMITTED))
    landed(company, datetime(2024, 3, 5, 2, tzinfo=timezone.utc), "archive")
    run = backfill(company, from_hour="2024-03-05T01", to_hour="2024-03-05T03")
    assert states(run)["skip_if_dry_run"] == "skipped"
    assert [words[0] for words in asked(answers)] == ["plan"]
    (plan,) = [instance for instance in run.get_task_instances() if instance.task_id == "plan"]
    told = plan.xcom_pull(task_ids="plan", map_indexes=0)
    assert (told["new"], told["ingested"], told["missing"]) == (["2024-03-05T01:00"], ["2024-03-05T02"], ["2024-03-05T03"])


def test_a_backfill_in_earnest_runs_the_tables(company: Company, answers: Path) -> None:
    """Those that the form names."""
    answer(answers, plan=planned(["2024-03-05T01"]), run=reported(COMMITTED))
    run = backfill(company, dry_run=False, tables=["student"])
    assert {task: state for task, state in states(run).items() if state != "skipped"}.keys() == {"choose_tables", "plan", "skip_if_dry_run", "run"}
    assert (states(run)["run"], states(run)["reprocess"]) == ("success", "skipped")
    assert [words[:2] for words in asked(answers)] == [["plan", "student"], ["run", "student"]]


def test_a_backfill_may_take_quarantine_again(company: Company, answers: Path) -> None:
    """When its form says so."""
    answer(answers, plan=planned([]), run=reported(COMMITTED), **{"quarantine replay": {"found": COMMITTED.to_json()}})
    run = backfill(company, dry_run=False, reprocess=True)
    assert {task for task, state in states(run).items() if state != "success"} == {"if_rebuild", "rebuild"}
    assert sorted(words[:3] for words in asked(answers)) == [
        ["plan", "student", "--output"],
        ["quarantine", "replay", "student"],
        ["run", "student", "--output"],
    ]


def test_a_backfill_may_rebuild_first(company: Company, answers: Path) -> None:
    """In order: a run may be refused until that is done. Rows that differ stop it unless they are accepted; what it was told is what the task says."""
    built = {"table": "student", "outcome": "published", "version": 7}
    answer(answers, plan=planned([]), run=reported(COMMITTED), rebuild={"found": built})
    run = backfill(company, dry_run=False, rebuild=True)
    assert {task: state for task, state in states(run).items() if task not in ("if_reprocess", "reprocess")} == dict.fromkeys(
        ("choose_tables", "plan", "skip_if_dry_run", "if_rebuild", "rebuild", "run"), "success"
    )
    assert [[word for word in words if word in ("plan", "rebuild", "run", "--accept-differences")] for words in asked(answers)] == [
        ["plan"], ["rebuild"], ["run"],
    ]  # fmt: skip
    answer(answers, plan=planned([]), run=reported(COMMITTED), rebuild={"output": "{}", "errors": "compactor: student: 2 rows are others", "code": 1})
    run = backfill(company, dry_run=False, rebuild=True, accept_differences=True)
    assert (states(run)["rebuild"], states(run)["run"]) == ("failed", "upstream_failed")
    assert [words[:2] for words in asked(answers) if "--accept-differences" in words] == [["rebuild", "--accept-differences"]]


@pytest.mark.parametrize(
    ("params", "failed"),
    [
        ({"accept_differences": True}, "choose_tables"),
        ({"from_hour": "2024-03-05T03", "to_hour": "2024-03-05T01"}, "choose_tables"),
        ({"to_hour": "2024-03-05T01"}, "choose_tables"),
        ({"from_hour": "2024-13-05T01"}, "choose_tables"),
        ({"from_hour": "2024-03-05T01", "to_hour": "2024-03-05T02", "complete": True}, "plan"),
    ],
    ids=["accepted what?", "backwards", "no beginning", "no month", "an hour that never landed"],
)
def test_a_backfill_that_makes_no_sense_runs_nothing(company: Company, answers: Path, params: dict[str, Any], failed: str) -> None:
    """It fails before anything is changed."""
    answer(answers, plan=planned(["2024-03-05T01"]), run=reported(COMMITTED))
    run = backfill(company, dry_run=False, **params)
    assert states(run)[failed] == "failed"
    assert not answers.with_suffix(".asked").exists() or "run" not in [words[0] for words in asked(answers)]


@pytest.mark.parametrize("params", [{"tables": ["studnet"]}, {"from_hour": "soon"}, {"dry_run": "perhaps"}, {"tables": "student"}])
def test_the_form_refuses_what_it_does_not_know(company: Company, answers: Path, params: dict[str, Any]) -> None:
    """In the UI and over REST: the same check."""
    from airflow.sdk.exceptions import ParamValidationError

    dag = dag_file("backfill").backfill
    with pytest.raises(ParamValidationError):
        dag.params.update(params)


def test_quarantine_alert_fails_while_something_waits(company: Company, answers: Path) -> None:
    """And says what."""
    held = {"table": "student", "path": "increment_2024030503/part.json", "records": 2, "reason": "no such operation"}
    for found, state in (([held], "failed"), ([], "success")):
        answer(answers, quarantine={"found": found})
        assert states(company.dag("quarantine_alert").test(logical_date=RUN_AT, run_after=RUN_AT)) == {"check_quarantine": state}
    assert asked(answers)[0][:2] == ["quarantine", "list"]


# ---- questions to a person ------------------------------------------------------------------------------------------

SWEPT = {
    "table": "student",
    "version": 3,
    "expired": [1],
    "swept": [{"table": "student", "path": "delta/x", "reason": "orphan", "files": 2, "bytes": 9, "goes": None}],
}
ANNOUNCED = {"table": "student", "refused": True, "changes": ["column a: int → string: refuse"]}


def asking(company: Company, name: str, yes: bool | None) -> dict[str, str]:
    """The states of a DAG's run in which a person says yes or no, or (None) must not be asked."""
    dag = company.dag(name)
    (question,) = [task for task in dag.tasks if task.task_id in ("approve_deletion", "confirm_repair")]

    def answered(context: Any) -> None:
        assert yes is not None, "nothing was to be asked"
        assert "student" in context["ti"].xcom_pull(task_ids=question.asked, key="text")
        if not yes:
            raise AirflowSkipException("a person said no")

    from airflow.sdk.exceptions import AirflowSkipException

    question.asked = next(iter(question.upstream_task_ids))
    question.execute = answered
    return states(dag.test(logical_date=RUN_AT, run_after=RUN_AT))


@pytest.mark.parametrize(
    ("found", "yes", "deleted"), [([SWEPT], True, True), ([SWEPT], False, False), ([{**SWEPT, "expired": [], "swept": []}], None, False)]
)
def test_vacuum_deletes_only_after_a_yes(company: Company, answers: Path, found: Any, yes: bool | None, deleted: bool) -> None:
    """Nothing to delete: nobody is asked. The fold and the full check of the table go on beside it, the check after a fold that failed too."""
    answer(answers, vacuum={"found": found}, run=reported(COMMITTED if yes else failure("student", Refused("no"))))
    ended = asking(company, "maintenance", yes)
    assert (ended["vacuum"], ended["verify_student"]) == ("success" if deleted else "skipped", "success")
    assert (["vacuum", "--run", "student"] in [words[:3] for words in asked(answers)]) is deleted
    assert [words[:3] for words in asked(answers) if "vacuum" not in words] == [["run", "--compact", "student"], ["verify", "--deep", "student"]]


@pytest.mark.parametrize(
    ("found", "yes", "ran"),
    [([ANNOUNCED], True, True), ([ANNOUNCED], False, False), ([{**ANNOUNCED, "refused": False}], None, False), ([], None, False)],
)
def test_a_table_that_stops_at_a_schema_runs_after_a_yes(company: Company, answers: Path, found: Any, yes: bool | None, ran: bool) -> None:
    """A change that is followed is only told."""
    text = company.config.read_text(encoding="utf-8").replace("key: [id]", "key: [id], schema: {subject: student-value}")
    company.config.write_text(text + "registry: {folder: schemas}\n", encoding="utf-8")
    answer(answers, schema={"found": found}, run=reported(COMMITTED))
    assert asking(company, "sync_schemas", yes)["run"] == ("success" if ran else "skipped")
    assert asked(answers)[0][:3] == ["schema", "notify", "student"]
    assert ("run" in [words[0] for words in asked(answers)]) is ran


# ---- ended by Airflow ------------------------------------------------------------------------------------------------


def test_a_killed_task_takes_its_command_along(company: Company, answers: Path, tmp_path: Path) -> None:
    """A worker's SIGTERM reaches the task's `on_kill`; here by a process that stands for the worker's."""
    answer(answers, run={**reported(COMMITTED), "seconds": 60})
    text = f"""
import signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.airflow.conftest import dag_file
task = dag_file("compact_hourly").compact_hourly.get_task("student.run")
signal.signal(signal.SIGTERM, lambda number, frame: task.on_kill())
try:
    task.execute({{"run_id": "r"}})
except Exception as error:
    print(type(error).__name__, flush=True)
"""
    worker = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env={**os.environ, "COMPACTOR_CONFIG": str(company.config)}
    )
    end = time.monotonic() + 60
    while not answers.with_suffix(".asked").exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=50)
    assert said.split()[-1] == "AirflowException"
    assert time.monotonic() - began < 40
    still = subprocess.run(["pgrep", "-f", str(answers)], capture_output=True, text=True, check=False).stdout.split()
    assert still == []
