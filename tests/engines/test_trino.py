"""A new Trino reads the views of a warehouse in S3 from a shared metastore, without the legacy translation of views."""

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
from tests.parts.trino import Trino, new_java, trino

pytestmark = [pytest.mark.engines, pytest.mark.spark]

TABLES = ["student", "enrollment", "trunc_solo", "num_edge", "time_edge"]


def compare(engine: Trino) -> None:
    """Compare what Trino shows of every view and history with PostgreSQL's rows, whole and with a condition on the key."""
    for table in TABLES:
        rows = engine.rows(f"SELECT * FROM hive.school.{table}")
        assert [] == truth.unexpected(truth.differences(rows, truth.truth(8)[table], FORM), FORM, 8)
        key = config.keys()[table][0]
        chosen = sorted({row[key] for row in rows})[::2]
        some = engine.rows(f"SELECT * FROM hive.school.{table} WHERE {key} IN ({', '.join(map(repr, chosen))})")
        assert sorted(map(json.dumps, some)) == sorted(json.dumps(row) for row in rows if row[key] in chosen)
        current = engine.rows(f"SELECT * FROM hive.school.{table}_history WHERE __end_time IS NULL")
        assert sorted(json.dumps({name: row[name] for name in rows[0]}) for row in current) == sorted(map(json.dumps, rows))


if FULL:  # Trino comes from Maven

    def test_a_new_trino_shows_the_rows_of_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Views and histories; timestamps to the microsecond; a condition on the key gives the same rows."""
        new_java()
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with s3_server(tmp_path / "s3.log") as server, metastore(tmp_path, s3=server.url) as uri:
            server.bucket("lake")
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            monkeypatch.setenv("COMPACTOR_WAREHOUSE", "s3://lake/w")
            store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
            file = tmp_path / "compactor.yaml"
            extra = {"s3": {"path_style": True}, "catalog": {"database": "school", "uri": uri}}
            file.write_text(
                config.config_text(FORM, TABLES, extra=extra, table_extra={"history": True, "write_mode": "merge-on-read"}), encoding="utf-8"
            )
            for hours in ([0, 1, 2, 3, 4], [5, 6, 7, 8]):
                deliver(store, tmp_path / f"landing-{hours[0]}", hours, TABLES)
                command = [sys.executable, "-m", "compactor", "run", "--config", str(file)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
                assert done.returncode == 0, done.stderr
            with trino(tmp_path, uri, s3=server.url) as engine:
                compare(engine)
