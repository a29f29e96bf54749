"""What the tasks make of a command line's end, and of Airflow ending them; with a program that does as it is told in place of the CLI."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import Refused, SchemaRefused, Unavailable
from compactor.core.results.record import TableReport
from compactor.flows.read import arrived
from compactor.flows.run import failure
from tests.airflow.conftest import PROGRAM, Company, dag_file, states

pytestmark = pytest.mark.airflow

CHECKED = {"verify": {"found": [{"table": "student", "name": "files", "ok": True, "detail": "2 files"}]}}
RUN_AT = datetime(2024, 3, 5, 4, 10, tzinfo=timezone.utc)


@pytest.fixture
def answers(company: Company) -> Path:
    """The file that tells the program what to do; the company has one table."""
    found = company.folder / "answers.json"
    landed(company, RUN_AT)
    company.config.write_text(
        f"airflow: {{command: [{sys.executable}, {PROGRAM}, {found}]}}\ndefaults: {{retries: 3}}\ntables: {{student: {{key: [id]}}}}\n",
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


_days = itertools.count(1)


def hourly(company: Company) -> Any:
    """A run of the group's DAG that no other test has; in a run that exists already, tables are run again one by one."""
    moment = RUN_AT + timedelta(days=next(_days))
    return company.dag("compact_hourly").test(logical_date=moment, run_after=moment)


COMMITTED = TableReport("student", "committed", 3, ("commit 3",), 1, {"read": 10, "applied": 9}, rows=9)


def test_a_run_is_the_same_command_line_as_a_persons(company: Company, answers: Path) -> None:
    """With the run's id as its label; the report is what the task returns, and goes with the asset's event."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    answer(answers, run=reported(COMMITTED))
    run = hourly(company)
    assert set(states(run).values()) == {"success"}
    words, config = ["student", "--output", "json"], ["--config", str(company.config)]
    assert asked(answers) == [["run", "--parallel", "4", *words, "--label", run.run_id, *config], ["verify", "--files-only", *words, *config]]
    with create_session() as session:
        event = session.query(AssetEvent).filter_by(source_run_id=run.run_id, source_dag_id="compact_hourly").one()
        kept = {"outcome": "committed", "version": 3, "operations": ["commit 3"], "files": 1, "rows": 9, "counts": {"read": 10, "applied": 9}}
        assert event.extra == {"hour": f"{run.logical_date - timedelta(hours=1):%Y-%m-%dT%H}", **kept}


@pytest.mark.parametrize(
    ("told", "job", "tries"),
    [
        (reported(failure("student", SchemaRefused("a column became text"))), "success", 1),
        (reported(failure("student", Unavailable("the metastore does not answer"))), "success", 4),
        ({"output": "", "errors": "compactor: compactor.yaml:3: unknown key", "code": 1}, "failed", 1),
        ({"output": "", "errors": "compactor: the embedded metastore is in use", "code": 75}, "failed", 4),
        ({"output": "", "errors": "Killed", "code": 137}, "failed", 4),
    ],
    ids=["refused", "unavailable", "wrong configuration", "busy", "killed"],
)
def test_only_what_may_help_is_tried_again(company: Company, answers: Path, told: dict[str, Any], job: str, tries: int) -> None:
    """`retries: 3` makes four tries; of a refusal one. A job with reports is not repeated: the table's own task runs the table again."""
    answer(answers, run=told)
    run = hourly(company)
    table = "failed" if job == "success" else "upstream_failed"
    assert states(run) == {"wait": "success", "find_work": "success", "run": job, "tables.student": table}
    first, again = ["run", "--parallel"], ["run", "student"] if job == "success" else ["run", "--parallel"]
    assert [words[:2] for words in asked(answers)] == [first, *[again] * (tries - 1)]


def test_a_retry_that_succeeds_ends_with_a_verified_table(company: Company, answers: Path) -> None:
    """Only the failed table is run again."""
    answer(answers, run=reported(failure("student", Unavailable("busy"))), **{"run student": reported(COMMITTED)})
    run = hourly(company)
    assert set(states(run).values()) == {"success"}
    assert [words[:2] for words in asked(answers)] == [["run", "--parallel"], ["run", "student"], ["verify", "--files-only"]]


def test_a_check_that_fails_fails_the_task(company: Company, answers: Path) -> None:
    """And no asset event tells consumers that all is well."""
    wrong = {"found": [{"table": "student", "name": "files", "ok": False, "detail": "a file is missing"}], "code": 1}
    answer(answers, run=reported(COMMITTED), verify=wrong)
    run = hourly(company)
    assert states(run)["tables.student"] == "failed"


def several(company: Company, names: list[str], landed_for: list[str]) -> None:
    """The company has these tables, and files landed for some."""
    tables = ", ".join(f"{name}: {{key: [id]}}" for name in names)
    text = company.config.read_text(encoding="utf-8")
    company.config.write_text(text.partition("tables:")[0] + f"tables: {{{tables}}}\n", encoding="utf-8")
    shutil.rmtree(company.folder / "warehouse")
    for name in landed_for:
        landed(company, RUN_AT, table=name)


def test_a_group_is_one_job_and_each_table_shows_its_own_end(company: Company, answers: Path) -> None:
    """Fifty tables: one command for the five that have work, four are green, one is red with its error, and 45 are skipped without a process. Every
    table that is up to date has an asset event."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    names = [f"t{number:02}" for number in range(50)]
    several(company, names, busy := ["t03", "t11", "t20", "t21", "t49"])
    reports = [TableReport(name, "committed", 1, ("commit 1",), 1, {"read": 1, "applied": 1}, rows=1) for name in busy[:4]]
    reports.append(failure("t49", SchemaRefused("table t49, column age: text")))
    answer(answers, run={"found": [report.to_json() for report in reports], "code": 1, "errors": ""})
    run = hourly(company)
    found = states(run)
    assert {found.pop(name) for name in ("wait", "find_work", "run")} == {"success"}
    expected = {f"tables.{name}": "success" if name in busy[:4] else "failed" if name == "t49" else "skipped" for name in names}
    assert found == expected
    commands = [words[: words.index("--output")] for words in asked(answers)]
    assert commands[0] == ["run", "--parallel", "4", *busy]
    assert sorted(commands[1:]) == [["verify", "--files-only", name] for name in busy[:4]]
    with create_session() as session:
        events = session.query(AssetEvent).filter_by(source_run_id=run.run_id, source_dag_id="compact_hourly")
        by_asset = {event.name: event.extra["outcome"] for event in events}
    assert by_asset == {f"default.{name}": "committed" if name in busy else "idle" for name in names if name != "t49"}


def test_a_group_without_work_starts_nothing(company: Company, answers: Path) -> None:
    """All is skipped but the look, which is a success."""
    several(company, ["a", "b"], [])
    answer(answers)
    found = states(hourly(company))
    assert found == {"wait": "success", "find_work": "success", "run": "skipped", "tables.a": "skipped", "tables.b": "skipped"}
    assert not answers.with_suffix(".asked").exists()


@pytest.mark.parametrize("many", [False, True])
def test_a_job_in_which_most_tables_must_wait_is_repeated_as_one(company: Company, answers: Path, many: bool) -> None:
    """Four or more probably have the same cause; its last attempt passes on what became of each. Fewer are retried one by one."""
    names = ["a", "b", "c", "d"] if many else ["a", "b"]
    several(company, names, names)
    company.config.write_text(company.config.read_text(encoding="utf-8").replace("retries: 3", "retries: 1"), encoding="utf-8")
    away = {name: failure(name, Unavailable("the store is away")) for name in names}
    answer(
        answers, run={"found": [report.to_json() for report in away.values()], "code": 75}, **{f"run {name}": reported(away[name]) for name in names}
    )
    found = states(hourly(company))
    assert found == {"wait": "success", "find_work": "success", "run": "success", **{f"tables.{name}": "failed" for name in names}}
    commands = [words[1] for words in asked(answers)]
    assert commands.count("--parallel") == (2 if many else 1)
    assert sorted(word for word in commands if word != "--parallel") == names


def test_what_must_be_tried_later_prints_no_frames(company: Company, answers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The error's own words once, and no stack."""
    answer(answers, run=reported(failure("student", Unavailable("the metastore is away"))))
    hourly(company)
    said = "".join(capfd.readouterr())
    assert "student: the metastore is away" in said
    assert "Traceback" not in said


# ---- waiting ---------------------------------------------------------------------------------------------------------


def task(company: Company, wait: float) -> Any:
    """The task `wait` of a company that waits so long for an hour."""
    found = company.dag("compact_hourly").get_task("wait")
    found.wait = wait
    return found


class Run:
    """As much of a DAG run as tells its hour."""

    partition_key = None
    run_after = None

    def __init__(self, hour: datetime) -> None:
        self.logical_date = hour + timedelta(hours=1, minutes=1)


def landed(company: Company, hour: datetime, where: str = "incremental", name: str = "part.json", table: str = "student") -> None:
    """A file of an hour."""
    path = company.folder / "warehouse" / table / where / hour.strftime("increment_%Y%m%d%H") / name
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
        trigger = HourTrigger(str(company.config), ["student"], f"{NOW:%Y-%m-%dT%H}", until, poll=0.05)
        again = HourTrigger(**trigger.serialize()[1])
        event = asyncio.create_task(anext(again.run()))
        await asyncio.sleep(0.3)
        assert not event.done()
        if meanwhile:
            landed(company, NOW)
        return (await event).payload["missing"]

    assert asyncio.run(told(time.time() + 1.0, False)) == ["student"]
    assert asyncio.run(told(time.time() + 60.0, True)) == []


def test_the_trigger_goes_on_when_the_store_fails(company: Company, answers: Path) -> None:
    """The run will meet the trouble and name it; a broken configuration must not keep a task waiting for ever either."""
    from compactor.airflow.triggers import HourTrigger

    company.config.write_text("tables: {}\n", encoding="utf-8")
    trigger = HourTrigger(str(company.config), ["student"], "2024-03-05T03", time.time() + 0.3, poll=0.05)

    async def first() -> Any:
        return (await anext(trigger.run())).payload

    assert asyncio.run(first()) == {"hour": "2024-03-05T03", "missing": ["student"]}


def test_a_reader_waits_until_the_hour_is_whole_and_fails_with_the_reason(
    company: Company, database: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Deferred until the time is over; then a retry looks again. The trigger ends as soon as every table has the hour."""
    from airflow.sdk.exceptions import TaskDeferred

    from compactor.airflow.command import TryAgain
    from compactor.airflow.group import WaitForWholeHourOperator
    from compactor.airflow.triggers import HourTrigger

    # Airflow's own logger writes past pytest
    monkeypatch.setattr(WaitForWholeHourOperator, "log", logging.getLogger("compactor.airflow.test"))
    waiting = WaitForWholeHourOperator(task_id="wait", config=str(company.config), tables=["student", "enrollment"], wait=3600.0)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({"dag_run": Run(NOW)})
    given = deferred.value.trigger.serialize()[1]
    assert (given["tables"], given["whole"]) == (["student", "enrollment"], True)

    past = datetime(2024, 3, 5, 3, tzinfo=timezone.utc)
    with pytest.raises(TryAgain, match="2024-03-05T03 is not whole in student, enrollment"):
        waiting.execute({"dag_run": Run(past)})
    assert "student: 2024-03-05T03 is not whole: nothing is committed yet" in caplog.text

    reasons = {"student": "partition t-1 has brought no change after 2024-03-05T03:10:00Z", "enrollment": None}
    monkeypatch.setattr(arrived, "whole", lambda table, hour: reasons[table.name] if hour == past else "another hour")
    with pytest.raises(TryAgain, match=r"is not whole in student$"):
        waiting.execute({"dag_run": Run(past)})

    async def ended() -> Any:
        made = HourTrigger(**{**given, "hour": "2024-03-05T03", "until": time.time() + 60.0, "poll": 0.05})
        coming = asyncio.create_task(anext(made.run()))
        await asyncio.sleep(0.3)
        assert not coming.done()
        reasons["student"] = None  # type: ignore[assignment]
        return (await coming).payload

    event = asyncio.run(ended())
    assert event == {"hour": "2024-03-05T03", "missing": []}
    assert waiting.resume({}, event) == waiting.execute({"dag_run": Run(past)}) == "2024-03-05T03"


def test_the_triggerer_reads_a_configuration_once(company: Company, answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often its triggers ask; again when the file or a variable that overrides it changes."""
    from compactor.airflow.opened import opened

    first = opened(str(company.config))
    assert opened(str(company.config)) is first
    company.config.write_text(company.config.read_text(encoding="utf-8") + "# a line more\n", encoding="utf-8")
    second = opened(str(company.config))
    assert second is not first
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", str(company.folder / "other"))
    assert opened(str(company.config)).settings.warehouse_dir == str(company.folder / "other")


def test_the_first_table_of_discover_is_added(company: Company, answers: Path) -> None:
    """Nobody has to run a command: the next time that Airflow reads the file there is a task for it. With nothing to add nothing is done."""
    company.config.write_text(
        f"{company.config.read_text().partition('tables:')[0]}discover: [{{from: '../topics/{{table}}', key: [id], order_by: [seq]}}]\n"
    )
    assert set(states(company.hourly(1)).values()) == {"success"}
    (company.folder / "topics" / "orders" / "2024-03-05-01").mkdir(parents=True)
    (company.folder / "topics" / "orders" / "2024-03-05-01" / "a.json").write_text('{"id": 1, "seq": 1}\n')
    assert set(states(company.hourly(2)).values()) == {"success"}
    assert set(company.dag("compact_hourly").task_ids) == {"wait", "find_work", "run", "tables.orders"}


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


@pytest.mark.parametrize(("param", "value", "then"), [("dry_run", False, "off"), ("rebuild", True, "on")])
def test_a_skipped_step_says_how_to_take_it(param: str, value: bool, then: str) -> None:
    """Whoever looks at a dry run wants to go on."""
    from airflow.sdk.exceptions import AirflowSkipException

    from compactor.airflow.operators import SkipUnlessOperator

    task = SkipUnlessOperator(task_id="skip", param=param, value=value, tables=["t"])
    with pytest.raises(AirflowSkipException, match=f"start again with `{param}` {then}"):
        task.execute({"params": {param: not value}})


def test_a_backfill_in_earnest_runs_the_tables(company: Company, answers: Path) -> None:
    """Those that the form names."""
    answer(answers, plan=planned(["2024-03-05T01"]), run=reported(COMMITTED))
    run = backfill(company, dry_run=False, tables=["student"])
    ran = {"choose_tables", "plan", "skip_if_dry_run", "run", "all_succeeded"}
    assert {task: state for task, state in states(run).items() if state != "skipped"}.keys() == ran
    assert (states(run)["run"], states(run)["reprocess"]) == ("success", "skipped")
    assert [words[:2] for words in asked(answers)] == [["plan", "--no-samples"], ["run", "student"]]


def test_a_backfill_of_a_table_that_fails_has_failed(company: Company, answers: Path) -> None:
    """Although its last task was skipped: who waits for the run, or lists failed runs, must see it."""
    answer(answers, plan=planned([]), run={"output": "[]", "errors": "compactor: student: column age: cannot be read", "code": 1})
    run = backfill(company, dry_run=False)
    assert (states(run)["run"], states(run)["reprocess"], run.state) == ("failed", "skipped", "failed")


def test_a_backfill_may_take_quarantine_again(company: Company, answers: Path) -> None:
    """When its form says so."""
    answer(answers, plan=planned([]), run=reported(COMMITTED), **{"quarantine --replay": {"found": COMMITTED.to_json()}})
    run = backfill(company, dry_run=False, reprocess=True)
    assert {task for task, state in states(run).items() if state != "success"} == {"if_rebuild", "rebuild"}
    # in this order: what waits in quarantine holds back no new file
    assert [words[:2] for words in asked(answers)] == [["plan", "--no-samples"], ["run", "student"], ["quarantine", "--replay"]]


def test_a_backfill_may_rebuild_first(company: Company, answers: Path) -> None:
    """In order: a run may be refused until that is done. Rows that differ stop it unless they are accepted; what it was told is what the task says."""
    built = {"table": "student", "outcome": "published", "version": 7}
    answer(answers, plan=planned([]), run=reported(COMMITTED), rebuild={"found": built})
    run = backfill(company, dry_run=False, rebuild=True)
    assert {task: state for task, state in states(run).items() if task not in ("if_reprocess", "reprocess")} == dict.fromkeys(
        ("choose_tables", "plan", "skip_if_dry_run", "if_rebuild", "rebuild", "run", "all_succeeded"), "success"
    )
    assert [[word for word in words if word in ("plan", "rebuild", "run", "--accept-differences")] for words in asked(answers)] == [
        ["plan"], ["rebuild"], ["run"],
    ]  # fmt: skip
    answer(answers, plan=planned([]), run=reported(COMMITTED), rebuild={"output": "{}", "errors": "compactor: student: 2 rows are others", "code": 1})
    run = backfill(company, dry_run=False, rebuild=True, accept_differences=True)
    assert (states(run)["rebuild"], states(run)["run"], run.state) == ("failed", "upstream_failed", "failed")
    assert [words[:2] for words in asked(answers) if "--accept-differences" in words] == [["rebuild", "--accept-differences"]]


@pytest.mark.parametrize(
    ("params", "failed"),
    [
        ({"accept_differences": True}, "choose_tables"),
        ({"from_hour": "2024-03-05T03", "to_hour": "2024-03-05T01"}, "choose_tables"),
        ({"to_hour": "2024-03-05T01"}, "choose_tables"),
        ({"from_hour": "2024-13-05T01"}, "choose_tables"),
        ({"from_hour": "0224-03-05T01", "to_hour": "2024-03-05T02"}, "choose_tables"),
        ({"table": ["student"]}, "choose_tables"),
        ({"from_hour": "2024-03-05T01", "to_hour": "2024-03-05T02", "complete": True}, "plan"),
    ],
    ids=["accepted what?", "backwards", "no beginning", "no month", "18 centuries", "no such field", "an hour that never landed"],
)
def test_a_backfill_that_makes_no_sense_runs_nothing(company: Company, answers: Path, params: dict[str, Any], failed: str) -> None:
    """It fails before anything is changed, and so does the run of the DAG."""
    answer(answers, plan=planned(["2024-03-05T01"]), run=reported(COMMITTED))
    run = backfill(company, dry_run=False, **params)
    assert (states(run)[failed], run.state) == ("failed", "failed")
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
        assert states(company.dag("quarantine_alert").test(logical_date=RUN_AT, run_after=RUN_AT)) == {
            "check_quarantine": state,
            "check_landing": "success",
        }
    assert ["quarantine", "--output"] in [words[:2] for words in asked(answers)]


@pytest.mark.parametrize("name", ["arrival of files", "folders of no table"])
def test_the_daily_look_fails_for_a_silent_table_and_for_folders_of_no_table(company: Company, answers: Path, name: str) -> None:
    """Not for what is wrong with the configuration."""
    remark = {"table": "student" if name == "arrival of files" else "", "name": name, "ok": True, "detail": "no file since 2024-03-05 07:00"}
    for checks, state in (([remark], "failed"), ([{**remark, "name": "envelope", "ok": False}], "success")):
        answer(answers, plan={"found": [{"table": remark["table"], "checks": checks}], "code": 1 - checks[0]["ok"]})
        run = company.dag("quarantine_alert").test(logical_date=RUN_AT, run_after=RUN_AT)
        assert states(run)["check_landing"] == state


# ---- questions to a person ------------------------------------------------------------------------------------------

SWEPT = {
    "table": "student",
    "version": 3,
    "expired": [1],
    "swept": [{"table": "student", "path": "delta/x", "reason": "orphan", "files": 2, "bytes": 9, "goes": None}],
}
ANNOUNCED = {"table": "student", "refused": True, "decisions": [{"decision": "column a: int → string: refuse"}]}


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
    answer(answers, **{"versions vacuum": {"found": found}}, run=reported(COMMITTED if yes else failure("student", Refused("no"))))
    ended = asking(company, "maintenance", yes)
    assert (ended["vacuum"], ended["verify_hourly"]) == ("success" if deleted else "skipped", "success")
    assert (["versions", "vacuum", "--run", "student"] in [words[:4] for words in asked(answers)]) is deleted
    assert [words[:2] for words in asked(answers) if "vacuum" not in words] == [["run", "--compact"], ["verify", "--deep"]]


@pytest.mark.parametrize(
    ("found", "yes", "ran"),
    [([ANNOUNCED], True, True), ([ANNOUNCED], False, False), ([{**ANNOUNCED, "refused": False}], None, False), ([], None, False)],
)
def test_a_table_that_stops_at_a_schema_runs_after_a_yes(company: Company, answers: Path, found: Any, yes: bool | None, ran: bool) -> None:
    """A change that is followed is only told."""
    text = company.config.read_text(encoding="utf-8").replace("key: [id]", "key: [id], schema: {subject: student-value}")
    company.config.write_text(text + "registry: {url: schemas}\n", encoding="utf-8")
    answer(answers, schema={"found": found}, run=reported(COMMITTED))
    assert asking(company, "sync_schemas", yes)["run"] == ("success" if ran else "skipped")
    assert asked(answers)[0][:3] == ["schema", "--notify", "student"]
    assert ("run" in [words[0] for words in asked(answers)]) is ran


@pytest.mark.parametrize("earlier", [None, "scheduled__1"])
def test_a_second_question_waits_for_the_answer_to_the_first(earlier: str | None) -> None:
    """The run that asked is active until somebody answers."""
    from airflow.sdk.exceptions import AirflowSkipException

    from compactor.airflow.operators import PrepareQuestionOperator

    class Instance:
        def get_previous_dagrun(self, state: str) -> Any:
            assert state == "running"
            return earlier and type("Run", (), {"run_id": earlier})

        def xcom_push(self, key: str, value: str) -> None:
            assert "student" in value

    results = [{"table": "student", "refused": True, "changes": ["column a: int → string: refuse"]}]
    task = PrepareQuestionOperator(task_id="ask", results=results, question="schemas", one_at_a_time=True)
    if earlier is None:
        assert task.execute({"ti": Instance()}) == ["student"]
        return
    with pytest.raises(AirflowSkipException, match="the run scheduled__1 still waits for an answer"):
        task.execute({"ti": Instance()})


# ---- ended by Airflow ------------------------------------------------------------------------------------------------


def test_a_killed_task_takes_its_command_along(company: Company, answers: Path, tmp_path: Path) -> None:
    """A worker's SIGTERM reaches the task's `on_kill`; here by a process that stands for the worker's."""
    answer(answers, run={**reported(COMMITTED), "seconds": 60})
    text = f"""
import signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.airflow.conftest import dag_file
task = dag_file("compact_hourly").compact_hourly.get_task("run")
signal.signal(signal.SIGTERM, lambda number, frame: task.on_kill())
try:
    task._run({{"run_id": "r"}}, ["student"])
except BaseException as error:
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
    assert said.split()[-1] == "TryAgain"
    assert time.monotonic() - began < 40
    still = subprocess.run(["pgrep", "-f", str(answers)], capture_output=True, text=True, check=False).stdout.split()
    assert still == []
