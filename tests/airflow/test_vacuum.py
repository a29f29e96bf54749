"""The DAG `maintenance` with `vacuum: auto` deletes without a question, but nothing of a table whose verification did not pass."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import pytest

from compactor.core.model.errors import Refused
from compactor.core.results.record import TableReport
from compactor.flows.run import failure
from tests.airflow.conftest import PROGRAM, Company, states
from tests.airflow.test_tasks import RUN_AT, SWEPT, asked

pytestmark = pytest.mark.airflow

AT = RUN_AT - timedelta(days=2)
"""Runs of their own in Airflow's database."""
DONE = TableReport("a", "committed", 3, ("compact 3",), rows=9)


def check(table: str, ok: bool) -> dict[str, Any]:
    """A check of `compactor verify`."""
    return {"table": table, "name": "view equals full recompute", "ok": ok, "detail": "" if ok else "2 rows differ"}


def maintained(company: Company, mode: str, minutes: int, **told: Any) -> tuple[Any, list[list[str]]]:
    """A run of `maintenance` for the tables a, b and c, each with files that nothing needs; and the command lines that vacuum."""
    answers = company.folder / "answers.json"
    said = {
        "airflow": {"command": [sys.executable, str(PROGRAM), str(answers)], "vacuum": mode},
        "defaults": {"retries": 0},
        "catalog": {"database": "vacuumed"},
        "tables": {name: {"key": ["id"]} for name in "abc"},
    }
    company.config.write_text(json.dumps(said), encoding="utf-8")
    dry_runs = {f"versions vacuum {name}": {"found": [{**SWEPT, "table": name}]} for name in "abc"}
    reports = {"found": [DONE.to_json()]}
    answers.write_text(json.dumps({"run": reports, **dry_runs, "versions vacuum --run": {"found": []}, **told}), encoding="utf-8")
    moment = AT + timedelta(minutes=minutes)
    run = company.dag("maintenance").test(logical_date=moment, run_after=moment)
    return run, [words[1:4] for words in asked(answers) if words[:3] == ["versions", "vacuum", "--run"]]


def test_a_table_that_is_not_verified_keeps_its_files(company: Company) -> None:
    """Here b is wrong, and of c the command could find out nothing. Both are red; a is vacuumed, and nobody is asked."""
    wrong = {"found": [check("a", True), check("b", True), check("b", False)], "code": 1}
    run, deleted = maintained(company, "auto", 1, verify=wrong)
    assert deleted == [["vacuum", "--run", "a"]]
    assert states(run) == {
        "compact_hourly": "success", "verify_hourly": "failed", "vacuum_dry_run": "success", "anything_to_delete": "success", "vacuum": "success",
        "all_succeeded": "upstream_failed",
    }  # fmt: skip
    assert run.state == "failed"


def test_what_cannot_be_verified_is_not_deleted(company: Company) -> None:
    """A command that was killed proves nothing."""
    run, deleted = maintained(company, "auto", 2, verify={"output": "", "code": 137})
    assert deleted == []
    assert (states(run)["anything_to_delete"], states(run)["vacuum"], run.state) == ("skipped", "skipped", "failed")


def test_a_failed_compaction_fails_the_run_and_holds_back_no_other_table(company: Company) -> None:
    """The tables are verified and vacuumed all the same; the failure is not hidden by what succeeds after it."""
    failed = {"found": [failure("a", Refused("no")).to_json()], "code": 1}
    run, deleted = maintained(company, "auto", 3, run=failed, verify={"found": [check(name, True) for name in "abc"]})
    assert sorted(deleted) == [["vacuum", "--run", name] for name in "abc"]
    assert (states(run)["compact_hourly"], states(run)["verify_hourly"], states(run)["all_succeeded"]) == ("failed", "success", "upstream_failed")
    assert run.state == "failed"
    assert "approve_deletion" not in states(run)
