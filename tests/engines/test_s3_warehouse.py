"""The main job on an S3 server, through the command line: nothing but the warehouse's location is another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.core.s3 import S3Settings
from compactor.storage.s3 import S3Storage
from tests.capture import config, landing, truth
from tests.parts.s3 import CREDENTIALS, s3_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

FORM, TABLES = "debezium_json_value", ["enrollment", "trunc_solo"]


def test_a_warehouse_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Increments land in a bucket, run after run; the views are PostgreSQL's rows; nothing is left in landing; a second run does nothing."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with s3_server(tmp_path / "s3.log") as server:
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
        file = tmp_path / "compactor.yaml"
        file.write_text(config.config_text(FORM, TABLES) + "\ns3: {path_style: true}\n", encoding="utf-8")

        def compactor(*words: str) -> str:
            environment = {**os.environ, "COMPACTOR_WAREHOUSE": "s3://lake/w"}
            command = [sys.executable, "-m", "compactor", *words, "--config", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
            assert 0 == done.returncode, done.stderr
            return done.stdout

        for hours in ([0, 1, 2, 3, 4], [5, 6, 7, 8]):
            deliver(store, tmp_path / f"landing-{hours[0]}", hours)
            reports = json.loads(compactor("run", "--output", "json"))
            # not every table has changes in every hour
            assert "committed" in {report["outcome"] for report in reports} <= {"committed", "idle"}
            for table in TABLES:
                rows = json.loads(compactor("sql", f"select * from {table}", "--output", "json"), parse_float=Decimal)
                found = truth.differences(rows, truth.truth(hours[-1])[table], FORM)
                assert [] == truth.unexpected(found, FORM, hours[-1])
        assert [] == [info.path for table in TABLES for info in store.list(f"s3://lake/w/{table}/incremental")]
        assert [report["outcome"] for report in json.loads(compactor("run", "--output", "json"))] == ["idle"] * len(TABLES)
        compactor("verify")
        assert "enrollment" in compactor("status")


def deliver(store: S3Storage, folder: Path, hours: list[int]) -> None:
    """What a sink does: the increments of these hours as objects."""
    landing.land(folder, FORM, only=TABLES, hours=hours)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.write(f"s3://lake/w/{path.relative_to(folder).as_posix()}", path.read_bytes())
