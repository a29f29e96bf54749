"""What `compactor init` writes, run: the capture's tables without a line written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from compactor.app.app import App
from compactor.cli import main as cli
from tests.capture import landing
from tests.capture.test_hours import differing
from tests.registry.test_tables import folder
from tests.spark.conftest import FAST

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("app_on_one_spark")]

TABLES = ("student", "enrollment", "audit_log")


def test_a_proposed_configuration_gives_the_right_tables(tmp_path: Path) -> None:
    """Kafka records in hourly folders, a registry beside them: proposed, run as it stands, equal to PostgreSQL's own dump."""
    folder(tmp_path / "schemas")
    form = "debezium_json_kafka"
    landing.land(tmp_path / "lake", form, only=TABLES)
    file = tmp_path / "compactor.yaml"
    words = ["init", "--from", str(tmp_path / "lake"), "--registry", str(tmp_path / "schemas"), "--config", str(file)]
    assert CliRunner().invoke(cli.app, words).exit_code == 0
    with App.open(file, conf=dict(FAST)) as app:
        reports = app.run()
        assert [report.error for report in reports] == [None] * len(TABLES)
        assert differing(app, reports, form, 8) == []
