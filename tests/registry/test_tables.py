"""Tables whose types come from a registry: JSON without schemas, read as if it had them."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.app.app import App
from tests.capture import config, landing, truth
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

DATA = Path(__file__).parents[1] / "capture" / "data" / "registry"


def folder(root: Path) -> Path:
    """The captured registry as a folder of .avsc files."""
    root.mkdir()
    for entry in json.loads((DATA / "subjects.json").read_text()):
        shutil.copy(DATA / "schemas" / f"{entry['id']}.avsc", root / f"{entry['subject']}.v{entry['version']}.id{entry['id']}.avsc")
    return root


def test_a_subject_tells_the_types_that_json_does_not(tmp_path: Path) -> None:
    """Decimals, dates and bytes of records without schema are PostgreSQL's own; an unknown subject stops its table and no other."""
    folder(tmp_path / "schemas")
    form = "debezium_json_noschema_value"
    text = config.config_text(form, ["num_edge", "enrollment"], extra={"registry": {"url": "schemas"}})
    text = text.replace("num_edge: {", "num_edge: {schema: {subject: pga.public.num_edge-value}, ")
    (tmp_path / "compactor.yaml").write_text(text.replace("enrollment: {", "enrollment: {schema: {subject: pga.public.enrolment-value}, "))
    landing.land(tmp_path, form, only=["num_edge", "enrollment"])
    with App.open(tmp_path / "compactor.yaml", conf=dict(FAST)) as app:
        known, unknown = app.run()
        assert "did you mean pga.public.enrollment-value?" in str(unknown.error)
        assert known.outcome == "committed", known.error
        rows = [json.loads(row, parse_float=Decimal) for row in app.sql("SELECT * FROM `num_edge`", engine="spark")]
        described = [
            {row["col_name"]: row["data_type"] for row in map(json.loads, app.sql("DESCRIBE num_edge", engine=name))} for name in ("spark", "duckdb")
        ]
        kinds = described[0]
        assert described[1] == kinds
    assert any(kind.startswith("decimal") for kind in kinds.values())
    # what the stream itself loses is lost; what only lacked a type is not
    found = truth.unexpected(truth.differences(rows, truth.truth(8)["num_edge"], "debezium_json_value"), "debezium_json_value", 8)
    assert found == []
