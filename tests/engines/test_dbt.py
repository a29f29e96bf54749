"""`compactor schema --dbt`: dbt itself reads sources.yml, and its tests and its freshness mean what the configuration means."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from compactor.app import App
from tests.parts.dbt import dbt

pytestmark = [pytest.mark.engines, pytest.mark.spark, pytest.mark.own_spark]

CONFIG = """warehouse: {home}
catalog: {{database: school}}
defaults: {{order_by: [seq], archive: keep}}
tables:
  student:
    key: [id]
    partitions: 1
    checks: {{unique: [mail, [town, "no"]], null_share: {{town: 0, mail: 50%}}, accepted: {{state: [active, left], level: [1, 2]}}}}
  grade: {{key: [student, course], history: true}}
"""
ROWS = {
    "student": [
        {"id": at, "mail": f"{at}@x" if at else None, "town": "Ulm", "no": at, "state": "active", "level": 1, "a b": "{{ no }}", "seq": at}
        for at in range(3)
    ],
    "grade": [{"student": at, "course": "x", "grade": 1, "seq": at} for at in range(3)],
}


def test_dbt_reads_the_sources_and_its_tests_pass(tmp_path: Path) -> None:
    """All of them on the rows as they are, and those of a key and of `accepted` fail on rows that break them."""
    config = tmp_path / "compactor.yaml"
    config.write_text(CONFIG.format(home=tmp_path / "warehouse"), encoding="utf-8")
    for name, rows in ROWS.items():
        folder = tmp_path / "warehouse" / name / "incremental" / "increment_2026112014"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    project = empty_project(tmp_path)
    with App.open(config) as app:
        assert [report.outcome for report in app.run()] == ["committed"] * 2
        views = {name: app.files_sql(name) for name in ROWS}
        text = app.dbt()
    (project / "models" / "sources.yml").write_text(text, encoding="utf-8")
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute("CREATE SCHEMA school")
        for name, query in views.items():
            connection.execute(f"CREATE TABLE school.{name} AS {query}")
    called(project, "parse", "--warn-error")
    results = statuses(project)
    assert {*results.values()} == {"pass"}
    assert len(results) == 10, "id 2, mail 1, town 1, town and no 1, state 1, level 1, student 1, course 1, both 1; grade's history none"
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute("INSERT INTO school.grade SELECT * FROM school.grade LIMIT 1")
        connection.execute("UPDATE school.student SET state = 'gone' WHERE id = 1")
    failed = [name for name, status in statuses(project).items() if status == "fail"]
    assert len(failed) == 2
    assert "accepted_values" in " ".join(failed)
    called(project, "source", "freshness", check=False)
    sources = json.loads((project / "target" / "sources.json").read_text(encoding="utf-8"))["results"]
    assert [each["status"] for each in sources] == [], "rows without source time show no freshness"


def test_freshness_is_that_of_the_whole_hour(tmp_path: Path) -> None:
    """A whole hour of long ago is an error where `fresh` is set, and a warning elsewhere."""
    from compactor.core.catalog import dbt as sources
    from compactor.core.model.inputs import Watermark
    from compactor.core.model.policy import FRESH, Rule
    from tests.oracle.lake import table
    from tests.report import synthetic

    (snapshot,) = synthetic.snapshots(1)
    snapshot = dataclasses.replace(snapshot, watermark=Watermark((), "2026-11-20T14:00:00Z"))
    specs = [dataclasses.replace(table(), name=name, view=name, rules=rules) for name, rules in {"a": (Rule(FRESH, (), 21600.0),), "b": ()}.items()]
    project = empty_project(tmp_path)
    (project / "models" / "sources.yml").write_text(sources.sources([(spec, snapshot) for spec in specs]), encoding="utf-8")
    called(project, "source", "freshness", check=False)
    results = json.loads((project / "target" / "sources.json").read_text(encoding="utf-8"))["results"]
    assert {each["unique_id"].rpartition(".")[2]: each["status"] for each in results} == {"a": "error", "b": "warn"}
    assert {each["max_loaded_at"][:19] for each in results} == {"2026-11-20T14:00:00"}


def empty_project(home: Path) -> Path:
    """A project whose database is the file p.duckdb."""
    project = home / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n", encoding="utf-8")
    (project / "profiles.yml").write_text(f"p: {{target: t, outputs: {{t: {{type: duckdb, path: {home / 'p.duckdb'}}}}}}}\n", encoding="utf-8")
    return project


def called(project: Path, *words: str, check: bool = True) -> None:
    """dbt, in a project."""
    command = [str(dbt()), *words, "--project-dir", str(project), "--profiles-dir", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"})
    assert not check or done.returncode == 0, done.stdout + done.stderr


def statuses(project: Path) -> dict[str, Any]:
    """The tests of a project: name → status."""
    called(project, "test", check=False)
    results = json.loads((project / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return {each["unique_id"]: each["status"] for each in results}
