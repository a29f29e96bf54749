"""What `compactor init` writes, run: the capture's tables without a line written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from compactor.app.app import App
from compactor.cli import main as cli
from compactor.core.schema import parquet_footer
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

        # and the footers that Spark writes are read without it
        spark = app.runtime.spark()
        frame = spark.sql("SELECT 'c' AS op, named_struct('id', 1L, 'tags', array('x'), 'm', map('a', 1)) AS after, array(named_struct('a', 1)) AS l")
        frame.coalesce(1).write.parquet(str(tmp_path / "p"))
        (path,) = (tmp_path / "p").glob("*.parquet")
        data = path.read_bytes()
        found = {name: [*members] for name, members in parquet_footer.columns(data).items()}
        assert found == {"op": [], "after": ["id", "tags", "m"], "l": ["array"]}
        for cut in range(0, len(data), 7):
            with pytest.raises(ValueError, match="Parquet"):
                parquet_footer.columns(data[:cut])
        for at in range(len(data) - 300, len(data)):
            # a footer of other bytes is read or refused, never anything else
            try:
                parquet_footer.columns(data[:at] + b"\xff" + data[at + 1 :])
            except ValueError:
                continue
