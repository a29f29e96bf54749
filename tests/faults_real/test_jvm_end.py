"""Spark's JVM ends in the middle of a run, as it does when a table's input is larger than memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.storage.local import LocalStorage

REPOSITORY = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONFIG = """
warehouse: lake
catalog: {database: d}
defaults: {envelope: flat, key: [id], order_by: [seq]}
tables:
  one: {increments: "landing/one/%Y%m%d%H"}
  two: {increments: "landing/two/%Y%m%d%H"}
  three: {increments: "landing/three/%Y%m%d%H"}
"""

RUN = """
import json, sys
from pyspark import SparkContext
from compactor.app.app import App
from compactor.demo import SPARK

killed = []

def progress(table, phase, done):
    # while two tables are at work; the other one waits
    if phase == "resolve" and not killed:
        killed.append(table)
        SparkContext._gateway.proc.kill()

with App.open(sys.argv[1], conf=SPARK) as app:
    reports = app.run(progress=progress, parallel=2)
    outcomes = [report.error or report.outcome for report in reports]
    rows = [json.loads([*app.sql(f"select count(*) as n from {name}", engine="spark")][0])["n"] for name in ("one", "two", "three")] if {*outcomes} == {"committed"} else []
print(json.dumps({"killed": len(killed), "outcomes": outcomes, "rows": rows}))
"""


def test_a_run_goes_on_in_another_jvm(tmp_path: Path) -> None:
    """The tables that were at work are done after the others: all of them are committed and published, no event is lost or doubled."""
    (tmp_path / "compactor.yaml").write_text(CONFIG, encoding="utf-8")
    for name in ("one", "two", "three"):
        lines = "".join(json.dumps({"id": number, "seq": 1}) + "\n" for number in range(5))
        LocalStorage().write(f"{tmp_path}/lake/landing/{name}/2024030510/a.json", lines.encode())
    command = [sys.executable, "-c", RUN, str(tmp_path / "compactor.yaml")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"killed": 1, "outcomes": ["committed"] * 3, "rows": [5] * 3}
