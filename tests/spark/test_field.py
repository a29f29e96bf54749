"""Other people's trouble: small inputs from public bug reports. Each is landed, run and queried, and gives the source's rows or a clear refusal.

tests/field/*/case.json: `config` is the table's block, `stages` the files landed before each run, `query` what is asked, `want` the rows. `refusal`
says that a refusal is right too, if it names the file, the record or the column: the table fails, or records go to quarantine with a reason.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from compactor.app import App
from compactor.core.results.record import TableReport
from compactor.flows.read import quarantine
from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

FIELD = Path(__file__).parents[1] / "field"
CASES = sorted(path.parent.name for path in FIELD.glob("*/case.json"))


def content(file: dict[str, Any]) -> bytes:
    """The bytes of a landed file."""
    if "text" in file:
        return str(file["text"]).encode()
    if "base64" in file:
        return base64.b64decode(file["base64"])
    if file["make"] == "two_level":
        return (FIELD / "tools" / "two_level.parquet").read_bytes()
    raise ValueError(f"unknown content: {file}")


def run_case(name: str, root: Path) -> tuple[dict[str, Any], list[TableReport], App]:
    """Land and run each stage of a case; return the case, the reports, and the App."""
    case = json.loads((FIELD / name / "case.json").read_text())
    config = {key: value for key, value in case["config"].items() if not key.startswith("_")}
    pattern = case["config"].get("_increments", "%Y-%m-%d-%H")
    config["increments"] = f"landing/{pattern}"
    (root / "compactor.yaml").write_text(yaml.safe_dump({"warehouse": "lake", "catalog": {"database": f"field_{name[:2]}"}, "tables": {"t": config}}))
    app, reports = App.open(str(root / "compactor.yaml")), []
    for number, stage in enumerate(case["stages"]):
        folder = f"2026/11/{20 + number}" if "%H" not in pattern else f"2026-11-20-{8 + number:02d}"
        for file in stage:
            path = root / "lake" / "landing" / folder / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(file))
        reports += app.run()
    return case, reports, app


def same(found: Any, want: Any) -> bool:
    """Whether two JSON values are equal; decimals and doubles are compared as numbers."""
    if isinstance(want, dict) and isinstance(found, dict):
        return set(found) == set(want) and all(same(found[key], want[key]) for key in want)
    if isinstance(want, list) and isinstance(found, list):
        return len(found) == len(want) and all(map(same, found, want))
    if isinstance(want, float) and isinstance(found, (int, float)):
        return math.isclose(found, want)
    return bool(found == want)


def refused(app: App, reports: Sequence[TableReport]) -> list[str]:
    """The reasons that people are told: errors of runs, and reasons in quarantine."""
    reasons = [str(report.error) for report in reports if report.error]
    for file in app.quarantined():
        reasons += [f"{file.path}: {each['reason']}" for each in quarantine.reasons(app.table("t"), file)["unusable"]]
    return reasons


@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_the_source_or_refused_by_name(name: str, tmp_path: Path) -> None:
    """Rows of the view in both engines, or a refusal where the case allows one."""
    case, reports, app = run_case(name, tmp_path)
    with app:
        reasons = refused(app, reports)
        if reasons and case.get("refusal"):
            assert all(any(word in reason for word in ("landing", "record", ".json", ".csv", ".parquet", ".avro")) for reason in reasons), reasons
            assert not any(word in reason for reason in reasons for word in ("Exception", "Py4J", "org.apache")), reasons
            if reports[-1].version is None:
                return
        for engine in ("duckdb", "spark"):
            query = case["query"].replace("{t}", "t")
            if engine == "spark":
                query = case.get("spark_query", query).replace("{t}", "t")
            found = [json.loads(row) for row in app.sql(query, engine=engine)]
            want = case["want"]
            for loose in [case["loose"]] if "loose" in case else []:
                found, want = ([{k: v for k, v in row.items() if k != loose} for row in rows] for rows in (found, want))
            if reasons and case.get("refusal"):
                assert all(any(same(row, each) for each in want) for row in found), (engine, found, reasons)
            else:
                assert same(found, want), (engine, found, reasons, [report.error for report in reports])
