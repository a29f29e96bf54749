"""Runs of the DAGs over the capture, in a real Airflow: after each hour the views equal PostgreSQL's rows, whatever went wrong in between."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import FORM, SPARK_PYTHON, Company, states
from tests.capture import config, landing

pytestmark = pytest.mark.airflow

FULL = os.environ.get("COMPACTOR_TESTS") == "full"
TABLES = ("enrollment", "student", "toast_def", "audit_log", "trunc_solo") if FULL else ("enrollment", "student")


@pytest.fixture
def school(company: Company) -> Company:
    """Tables of the capture of which no record may be put aside."""
    text = config.config_text(FORM, TABLES, table_extra={"quarantine": "0"})
    company.config.write_text(f"airflow:\n  command: [{SPARK_PYTHON}, -m, compactor]\n{text}", encoding="utf-8")
    return company


@contextmanager
def another_run(school: Company) -> Iterator[None]:
    """A run of all tables by hand, beside what happens meanwhile."""
    command = [SPARK_PYTHON, "-m", "compactor", "run", "--config", str(school.config), "--wait", "300"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield
        said, _ = running.communicate(timeout=400)
        assert running.returncode == 0, said
    finally:
        running.kill()


def reports(run: Any) -> dict[str, dict[str, Any]]:
    """What the tasks of the tables returned, by table."""
    found = [instance for instance in run.get_task_instances() if instance.task_id.startswith("tables.") and instance.state == "success"]
    return {instance.task_id.removeprefix("tables."): instance.xcom_pull(task_ids=instance.task_id) for instance in found}


def expected(landed: Iterable[Path]) -> dict[str, str]:
    """Task of each table → its state after a run into which these files came: a table without a file has no work."""
    busy = {path.parents[2].name for path in landed}
    return {f"tables.{name}": "success" if name in busy else "skipped" for name in TABLES}


def of_tables(run: Any) -> dict[str, str]:
    """Task of each table → its state."""
    return {name: state for name, state in states(run).items() if name.startswith("tables.")}


def broken(school: Company, hour: int) -> Path:
    """A file of the table `student` that holds no change."""
    path = landing.folder(school.folder, "student", hour) / "broken.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no change\n", encoding="utf-8")
    return path


def test_hour_by_hour_with_mishaps(school: Company) -> None:
    """In hour 01 the file of one table comes too late, and a broken one lies in its place; then that is repaired, and the run of the hour is
    cleared while somebody runs the same tables by hand. The others are right all the time, and this one at the end.
    """
    school.land([0], TABLES)
    run = school.hourly(0)
    assert set(states(run).values()) == {"success"}
    assert {report["outcome"] for report in reports(run).values()} == {"committed"}
    assert not FULL or school.differing(0, TABLES) == []

    landed = school.land([1], [name for name in TABLES if name != "student"])
    wrong = broken(school, 1)
    run = school.hourly(1)
    assert of_tables(run) == {**expected(landed), "tables.student": "failed"}
    assert states(run)["run"] == "success"
    assert reports(run)["enrollment"]["outcome"] == "committed"

    wrong.unlink()
    school.land([1], ["student"])
    with another_run(school):
        run = school.hourly(1)
    found = states(run)
    assert found["tables.enrollment"] == "skipped"
    # whichever of the two came first has committed it, and only once
    assert set(found.values()) <= {"success", "skipped"}
    after = reports(run)
    assert "student" not in after or (after["student"]["outcome"] in ("committed", "idle") and after["student"]["version"] == 2)
    assert school.differing(1, TABLES) == []


if FULL:

    def test_nine_hours(school: Company) -> None:
        """Each hour's views equal PostgreSQL's; one table's file of hour 03 comes in hour 05. At the end all is verified in full.

        Only the tables with a file in the hour run. In hour 06 nothing lands, and no job is started.
        """
        late = ["toast_def"]
        for hour in landing.HOURS:
            landed = school.land([hour], [name for name in TABLES if hour != 3 or name not in late])
            if hour == 5:
                landed += school.land([3], late)
            run = school.hourly(hour)
            assert of_tables(run) == expected(landed)
            assert states(run)["run"] == ("success" if landed else "skipped")
            assert school.differing(hour, [name for name in TABLES if hour not in (3, 4) or name not in late]) == []
        found = states(school.dag("maintenance").test())
        assert (found["compact_hourly"], found["verify_hourly"], found["all_succeeded"]) == ("success", "success", "success")
        # every version is younger than `grace`
        assert (found["anything_to_delete"], found["vacuum"]) == ("skipped", "skipped")
