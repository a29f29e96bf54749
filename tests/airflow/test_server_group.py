"""A group of fifty tables in an Airflow as it is run: one job for the five with work, one of them broken, 45 idle, each visible; a table that is cleared
alone; a slow table that stops nobody; a worker that is killed; jobs on EMR that are deferred and stay within their pool; and no secret in a log.

Minutes long, so it belongs to the full size (`make test-airflow-server`).
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import Unavailable
from compactor.core.results.record import TableReport
from compactor.flows.run import failure
from tests.airflow.conftest import FORM, PROGRAM, ROOT, SPARK_PYTHON, Company
from tests.airflow.emr import Emr, emr_serverless
from tests.airflow.pictures import picture
from tests.airflow.server import Server, serving
from tests.capture import config, landing
from tests.parts.s3 import CREDENTIALS, s3_server

pytestmark = pytest.mark.airflow

TABLES = [f"t{number:02}" for number in range(50)]
BUSY, BROKEN = TABLES[3:43:10], "t49"
HOURLY, FAR = "compact_hourly", "far_compact_hourly"
FAR_TABLES = ["a", "b", "c"]
SECRET = "T000/B000/of-the-chat"
"""The password of the connection `chat`."""
EXPANDED = f"localStorage.setItem('{HOURLY}/open-groups', '[\"tables\"]')"
"""Airflow's UI shows each table's square."""

FAR_DAG = '''
"""The DAG of another configuration, whose tables run on EMR."""

from compactor.airflow import dags

globals().update(dags.compact(dags.load("{config}")))
'''


def hide(folder: Path) -> str:
    """A script that shows `/lake` in place of a folder of this machine."""
    return f"""
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll({json.dumps(str(folder))}, "/lake");
    """


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

    def by_hand(**more: Any) -> dict[str, Any]:
        """The key `airflow` of a configuration whose DAGs nobody runs by a clock."""
        groups = {"hourly": {"schedule": None, "wait": "0s", "at_once": 3}}
        return {"groups": groups, "maintenance": None, **more}

    @pytest.fixture
    def lake(tmp_path: Path) -> Company:
        """Fifty tables in one group."""
        made = Company(tmp_path)
        one = {**config.table_config(FORM, "student"), "quarantine": "0"}
        said = {"warehouse": ".", "catalog": {"database": "school"}, "defaults": {"retries": 2}}
        said["airflow"] = by_hand(command=[SPARK_PYTHON, "-m", "compactor"])
        made.config.write_text(json.dumps({**said, "tables": dict.fromkeys(TABLES, one)}), encoding="utf-8")
        shutil.copytree(ROOT / "dags", tmp_path / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        return made

    def far(folder: Path) -> dict[str, Any]:
        """A configuration with tables on EMR. Its credentials are those of an Airflow connection; one job at a time has a place in its pool."""
        places = {"job": "s3://lake/jobs", "logs": "s3://lake/logs"}
        emr = {**places, "application": "00a", "role": "arn:aws:iam::123456789012:role/job"}
        command = [sys.executable, str(PROGRAM), str(folder / "far.json")]
        return {
            "warehouse": "s3://lake/w",
            "catalog": {"type": "glue", "database": "far"},
            "s3": {"path_style": True},
            "emr": emr,
            "airflow": by_hand(prefix="far_", command=command, aws_conn_id="aws_lake"),
            "defaults": {"runner": "emr-serverless", "pool": "emr", "retries": 3, "key": ["id"]},
            "tables": {name: {} for name in FAR_TABLES},
        }

    @pytest.fixture
    def elsewhere(lake: Company) -> Iterator[tuple[Emr, dict[str, str]]]:
        """S3 and EMR, and the variables of an Airflow that uses them. The job of several tables ends with "try again later" for each."""
        import boto3

        (lake.folder / "far.json").write_text('{"verify": {"found": []}}', encoding="utf-8")
        (lake.folder / "far.yaml").write_text(json.dumps(far(lake.folder)), encoding="utf-8")
        (lake.folder / "dags/far.py").write_text(FAR_DAG.replace("{config}", str(lake.folder / "far.yaml")), encoding="utf-8")
        with s3_server(lake.folder / "s3.log", SPARK_PYTHON) as s3:
            s3.bucket("lake")
            keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
            client = boto3.client("s3", endpoint_url=s3.url, **keys)

            def put(key: str, text: str) -> None:
                client.put_object(Bucket="lake", Key=key, Body=text.encode())

            def report(words: list[str]) -> None:
                names, where = [name for name in FAR_TABLES if name in words], words[words.index("--report") + 1].removeprefix("s3://lake/")
                done = lambda name: TableReport(name, "committed", 1, ("commit 1",), 1, {"read": 9, "applied": 9}, rows=9)  # noqa: E731
                reports = [failure(name, Unavailable("the metastore is away")) if "--parallel" in words else done(name) for name in names]
                put(f"{where}/log.txt", "".join(f"{name}: decoded 9 events from 1 file in 0.3 s\n" for name in names))
                put(
                    f"{where}/report.json",
                    json.dumps(
                        {"code": 75 if "--parallel" in words else 0, "output": json.dumps([each.to_json() for each in reports]), "errors": ""}
                    ),
                )

            for name in FAR_TABLES:
                put(f"w/{name}/incremental/increment_2024030501/part-0.json", '{"id": 1}\n')
            with emr_serverless(report) as emr:
                variables = {"AWS_ENDPOINT_URL": s3.url, "AWS_ENDPOINT_URL_EMR_SERVERLESS": emr.url, "AWS_EC2_METADATA_DISABLED": "true"}
                user = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}:{CREDENTIALS['AWS_SECRET_ACCESS_KEY']}"
                variables["AIRFLOW_CONN_AWS_LAKE"] = f"aws://{user}@/?region_name=us-east-1"
                variables["AIRFLOW_CONN_CHAT"] = json.dumps({"conn_type": "http", "host": "https://chat.example", "password": SECRET})
                # how long a worker may be silent before it counts as lost
                variables["AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"] = "40"
                yield emr, variables

    def command_lines(company: Company, answers: Path) -> None:
        """From now on a program that does what `answers` tells takes the place of the command line."""
        text = json.loads(company.config.read_text(encoding="utf-8"))
        text["airflow"] |= {"command": [sys.executable, str(PROGRAM), str(answers)], "conn_ids": {"CHAT_HOOK": "chat"}}
        text["defaults"]["notify"] = [{"webhook_env": "CHAT_HOOK"}]
        company.config.write_text(json.dumps(text), encoding="utf-8")

    def show(title: str, found: dict[str, str]) -> None:
        """The squares of the grid, for people who run this by hand (`-s`)."""
        tables = [state for name, state in found.items() if name.startswith("tables.")]
        print(f"\n{title}: find_work {found['find_work']}, run {found['run']}; tables: { ({state: tables.count(state) for state in {*tables}}) }")

    def test_fifty_tables(lake: Company, elsewhere: tuple[Emr, dict[str, str]]) -> None:
        """One Airflow for all of it, because it takes a minute to start."""
        emr, variables = elsewhere
        land(lake, 0, [*BUSY, BROKEN])
        file(BROKEN, 1, lake, "no change\n")
        home = lake.folder / "airflow"
        home.mkdir()
        with serving(home, lake.folder / "dags", lake.config, variables) as server:
            server.until("the DAGs", lambda: {HOURLY, FAR} <= {dag["dag_id"] for dag in server.ask("GET", "/api/v2/dags")["dags"]})
            assert server.ask("GET", "/api/v2/importErrors")["import_errors"] == []
            run = one_job(lake, server)
            repaired_and_cleared(lake, server, run)
            on_emr = trigger_on_emr(server)
            slow_and_killed(lake, server, server.returned(HOURLY, run, "run"))
            deferred_within_a_pool(server, on_emr, emr)

    def one_job(lake: Company, server: Server) -> str:
        """One job for five tables. While it runs, its log shows its phases. Four commits, one planted failure, 45 tables without work."""
        run = server.trigger(HOURLY, logical_date="2024-03-05T02:10:00Z")
        phases = server.until("a phase", lambda: [line for line in server.log(HOURLY, run, "run").splitlines() if ": decoded " in line])
        assert server.tasks(HOURLY, run)["run"] == "running"
        print("while it runs:", *phases, sep="\n")
        picture(f"{server.url}/dags/{HOURLY}/runs/{run}/tasks/run", "airflow-log", sees="decoded", before=EXPANDED, after=hide(lake.folder))
        found = server.ended(HOURLY, run)
        show("one planted failure", found)
        picture(f"{server.url}/dags/{HOURLY}/runs/{run}", "airflow-grid", sees=BROKEN, before=EXPANDED, size=(1200, 1260))
        assert {name: state for name, state in found.items() if state != "skipped"} == {
            "find_work": "success", "run": "success", **{f"tables.{name}": "success" for name in BUSY}, f"tables.{BROKEN}": "failed",
        }  # fmt: skip
        assert sum(state == "skipped" for state in found.values()) == 45
        reports = server.returned(HOURLY, run, "run")
        assert {name: report["outcome"] for name, report in reports.items()} == {**dict.fromkeys(BUSY, "committed"), BROKEN: "failed"}
        assert reports[BROKEN]["error"].removeprefix(f"table {BROKEN}: ") in server.log(HOURLY, run, f"tables.{BROKEN}")
        events = server.ask("GET", "/api/v2/assets/events?limit=100")["asset_events"]
        assert sorted(event["extra"]["outcome"] for event in events) == ["committed"] * 4 + ["idle"] * 45
        return run

    def repaired_and_cleared(lake: Company, server: Server, run: str) -> None:
        """Only the failed square is cleared: the task runs this table alone. Then the whole run is cleared: nothing is left to do."""
        shutil.rmtree(lake.folder / BROKEN / "incremental/increment_2024030501")
        server.clear(HOURLY, run, [f"tables.{BROKEN}"])
        server.until("the cleared table", lambda: server.tasks(HOURLY, run)[f"tables.{BROKEN}"] == "success")
        assert server.returned(HOURLY, run, f"tables.{BROKEN}")["outcome"] == "committed"
        assert server.ended(HOURLY, run)["run"] == "success"
        again = server.trigger(HOURLY, logical_date="2024-03-05T02:40:00Z")
        found = server.ended(HOURLY, again)
        server.clear(HOURLY, again)
        found = server.ended(HOURLY, again)
        show("cleared", found)
        assert {name: state for name, state in found.items() if state != "skipped"} == {"find_work": "success"}

    def slow_and_killed(lake: Company, server: Server, reports: dict[str, Any]) -> None:
        """A slow table keeps its run open; the next run leaves it out and runs the others. Then the slow one's worker is killed: it is run again."""
        answers = lake.folder / "answers.json"
        reported = {name: {**report, "outcome": "committed", "error": None, "exit_code": 0} for name, report in reports.items()}
        told = {"verify": {"found": []}}
        answers.write_text(json.dumps({**told, "run": {"seconds": 900}}), encoding="utf-8")
        command_lines(lake, answers)
        land(lake, 2, [BUSY[0]])
        slow = server.trigger(HOURLY, logical_date="2024-03-05T03:10:00Z")
        server.until("the slow job", lambda: answers.with_suffix(".asked").exists())
        answers.write_text(json.dumps({**told, "run": {"found": [reported[BUSY[1]]], "shows": ["CHAT_HOOK"]}}), encoding="utf-8")
        land(lake, 2, [BUSY[1]])
        quick = server.trigger(HOURLY, logical_date="2024-03-05T04:10:00Z")
        found = server.ended(HOURLY, quick)
        show("beside a slow table", found)
        assert server.state(HOURLY, slow) == "running"
        assert {name for name, state in found.items() if state == "success"} == {"find_work", "run", f"tables.{BUSY[1]}"}
        assert found[f"tables.{BUSY[0]}"] == "skipped"
        # the address of a connection, which is in the environment of the command
        assert SECRET in answers.with_suffix(".shown").read_text(encoding="utf-8")
        log = server.log(HOURLY, quick, "run")
        assert "the program's environment has ***" in log
        assert SECRET not in log

        answers.write_text(json.dumps({**told, "run": {"found": [reported[BUSY[0]]]}}), encoding="utf-8")
        kill_worker(server, str(answers))
        found = server.ended(HOURLY, slow)
        show("killed, and run again", found)
        assert (found["run"], found[f"tables.{BUSY[0]}"], server.attempt(HOURLY, slow, "run")) == ("success", "success", 2)
        asked = [json.loads(line) for line in answers.with_suffix(".asked").read_text(encoding="utf-8").splitlines()]
        assert [words[3] for words in asked if words[0] == "run"] == [BUSY[0], BUSY[1], BUSY[0]]

    def kill_worker(server: Server, command: str) -> None:
        """Kill the process that works on a command, with what it started, as a machine that stops."""
        import psutil

        scheduler = psutil.Process(next(process.pid for process in server.running if "scheduler" in process.args))

        def words(child: psutil.Process) -> list[str]:
            # some children end while they are looked at
            with suppress(psutil.Error):
                return list(child.cmdline())
            return []

        (process,) = [child for child in scheduler.children(recursive=True) if command in words(child)]
        ancestors = [process, *process.parents()]
        for each in reversed(ancestors[: ancestors.index(scheduler)]):
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def trigger_on_emr(server: Server) -> str:
        """The group's run is deferred while its job runs. Spark's UI is a link of the task as soon as the job has left the queue."""
        server.ask("POST", "/api/v2/pools", {"name": "emr", "slots": 1, "include_deferred": True})
        run = server.trigger(FAR, logical_date="2024-03-05T02:10:00Z")
        server.until("deferred", lambda: server.tasks(FAR, run)["run"] == "deferred")
        server.until("Spark's UI", lambda: server.links(FAR, run, "run").get("Spark UI"))
        assert server.tasks(FAR, run)["run"] in ("deferred", "scheduled", "queued", "running")
        assert "/s3/buckets/lake?prefix=logs/reports/" in server.links(FAR, run, "run")["Log"]
        return run

    def deferred_within_a_pool(server: Server, run: str, emr: Emr) -> None:
        """The three tables of the job must be tried again later. Each has a job of its own then, and there is one at a time."""
        found = server.ended(FAR, run)
        show("on EMR", found)
        assert {*found.values()} == {"success"}
        assert sorted(job.tags.get("compactor-table", "") for job in emr.jobs.values()) == ["", *FAR_TABLES]
        assert emr.together == 1
        assert "a: decoded 9 events from 1 file" in server.log(FAR, run, "tables.a", 2)
