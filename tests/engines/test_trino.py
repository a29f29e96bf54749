"""A new Trino reads the views of a warehouse in S3 from a shared metastore, without a setting for views."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.core.settings.s3 import S3Settings
from compactor.storage.s3.storage import S3Storage
from tests.capture import config, truth
from tests.engines.test_s3_warehouse import FORM, deliver
from tests.oracle.sizes import FULL
from tests.parts.metastore import metastore
from tests.parts.s3 import CREDENTIALS, s3_server
from tests.parts.trino import trino

pytestmark = [pytest.mark.engines, pytest.mark.spark]

TABLES = ["student", "enrollment", "trunc_solo", "num_edge"]


if FULL:  # Trino comes from Maven

    def test_a_new_trino_shows_the_rows_of_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """View and history, with a Delta; a condition on the key gives the same rows."""
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with s3_server(tmp_path / "s3.log") as server, metastore(tmp_path, s3=server.url) as uri:
            server.bucket("lake")
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            monkeypatch.setenv("COMPACTOR_WAREHOUSE", "s3://lake/w")
            store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
            file = tmp_path / "compactor.yaml"
            extra = {"s3": {"path_style": True}, "catalog": {"database": "school", "uri": uri}}
            file.write_text(config.config_text(FORM, TABLES, extra=extra, table_extra={"history": True}), encoding="utf-8")
            for hours in ([0, 1, 2, 3, 4], [5, 6, 7, 8]):
                deliver(store, tmp_path / f"landing-{hours[0]}", hours, TABLES)
                command = [sys.executable, "-m", "compactor", "run", "--config", str(file)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
                assert done.returncode == 0, done.stderr
            with trino(tmp_path, uri, s3=server.url) as engine:
                for table in TABLES:
                    rows = engine.rows(f"SELECT * FROM hive.school.{table}")
                    assert [] == truth.unexpected(truth.differences(rows, truth.truth(8)[table], FORM), FORM, 8)
                    some = engine.rows(f"SELECT * FROM hive.school.{table} WHERE id IN (1, 3, 5)")
                    assert sorted(map(json.dumps, some)) == sorted(json.dumps(row) for row in rows if row["id"] in (1, 3, 5))
                    open_ = engine.rows(f"SELECT count(*) AS n FROM hive.school.{table}_history WHERE __end_time IS NULL")
                    assert open_ == [{"n": len(rows)}]
