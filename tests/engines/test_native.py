"""Spark with Iceberg's own runtime, and Trino's Iceberg connector on a Hive metastore, read the Iceberg table over our files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import pins
from compactor.app import App
from compactor.core.settings.s3 import S3Settings
from compactor.storage.s3.storage import S3Storage
from tests.capture import config, truth
from tests.engines.test_s3_warehouse import FORM, deliver
from tests.oracle.sizes import FULL
from tests.parts.metastore import metastore
from tests.parts.s3 import CREDENTIALS, s3_server
from tests.parts.trino import new_java, trino

pytestmark = [pytest.mark.engines, pytest.mark.spark]

READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.jars.packages", sys.argv[1]).config("spark.sql.session.timeZone", "UTC").getOrCreate()
rows = spark.read.format("iceberg").load(sys.argv[2])
for row in rows.orderBy("id").toJSON().collect():
    print("row " + row)
print("row", rows.where("a = 7").count(), *(rows.where(f"a = {value}").rdd.getNumPartitions() for value in (7, 999)))
"""


if FULL:  # the runtime comes from Maven

    def test_spark_with_icebergs_runtime_shows_what_the_views_show(tmp_path: Path) -> None:
        """By path, after changes, a compaction and more changes, nested types included."""
        (tmp_path / "compactor.yaml").write_text(
            f"warehouse: {tmp_path}\ntables:\n  t: {{key: [id], order_by: [seq], parquet: standard, iceberg: [base, current], read_optimized: true}}\n"
        )
        for hour, (ids, more) in enumerate(((range(50), []), (range(40, 60), ["--compact"]), (range(4, 62, 6), []))):
            folder = tmp_path / f"t/incremental/increment_202601010{hour}"
            folder.mkdir(parents=True)
            rows = [{"id": at, "seq": hour, "a": at + hour, "list": [at, 1], "s": {"x": f"v{at}", "l": [{"y": at}]}} for at in ids]
            (folder / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
            command = [sys.executable, "-m", "compactor", "run", *more, "--config", str(tmp_path / "compactor.yaml")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
            assert done.returncode == 0, done.stderr
        with App.open(tmp_path / "compactor.yaml") as app:
            views = {view: [json.loads(row) for row in app.sql(f"select * from {view} order by id", engine="spark")] for view in ("t_ro", "t")}
        for view, folder, files in (("t_ro", "_iceberg", "1 1 0"), ("t", "_iceberg_current", "1 1 0")):
            read = [sys.executable, "-c", READ, pins.SYSTEMS["iceberg-cow"].jars, f"file://{tmp_path}/t/{folder}"]
            output = subprocess.run(read, capture_output=True, text=True, timeout=900, check=True).stdout
            shown = [line[4:] for line in output.splitlines() if line.startswith("row ")]
            assert [json.loads(line) for line in shown[:-1]] == views[view]
            # by the bounds of `a`, no file has a 999
            assert shown[-1] == files
        assert views["t"] != views["t_ro"]

    def test_trinos_iceberg_connector_shows_what_the_views_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the metastore's pointer, with files in S3, after a compaction and after more changes without one; PostgreSQL's rows."""
        new_java()
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        tables = ["student", "enrollment", "trunc_solo", "num_edge", "time_edge"]
        with s3_server(tmp_path / "s3.log") as server, metastore(tmp_path, s3=server.url) as uri, trino(tmp_path, uri, server.url, True) as engine:
            server.bucket("lake")
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
            monkeypatch.setenv("COMPACTOR_WAREHOUSE", "s3://lake/w")
            store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
            extra = {"s3": {"path_style": True}, "catalog": {"database": "school", "uri": uri}}
            native = {"iceberg": ["base", "current"], "read_optimized": True, "parquet": "standard", "write_mode": "merge-on-read"}
            file = tmp_path / "compactor.yaml"
            file.write_text(config.config_text(FORM, tables, extra=extra, table_extra=native), encoding="utf-8")
            for hours, more in (([0, 1, 2, 3, 4], ["--compact"]), ([5, 6, 7, 8], [])):
                deliver(store, tmp_path / f"landing-{hours[0]}", hours, tables)
                command = [sys.executable, "-m", "compactor", "run", *more, "--config", str(file)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
                assert done.returncode == 0, done.stderr
                for table in tables:
                    for view, name in ((f"{table}_ro", f"{table}_iceberg"), (table, f"{table}_iceberg_current")):
                        # Iceberg's timestamps have a time zone, Hive's none
                        seen, rows = (
                            [json.loads(json.dumps(row).replace(' UTC"', '"')) for row in engine.rows(f"SELECT * FROM {place}")]
                            for place in (f"hive.school.{view}", f"iceberg.school.{name}")
                        )
                        assert rows, name
                        assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, seen)), name
                    assert [] == truth.unexpected(truth.differences(rows, truth.truth(hours[-1])[table], FORM), FORM, hours[-1])
