"""Spark with Iceberg's own runtime reads the Iceberg table over our files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import pins
from compactor.app import App
from tests.oracle.sizes import FULL

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

    def test_spark_with_icebergs_runtime_shows_what_ro_shows(tmp_path: Path) -> None:
        """By path, after changes and a compaction, nested types included."""
        (tmp_path / "compactor.yaml").write_text(
            f"warehouse: {tmp_path}\ntables:\n  t: {{key: [id], order_by: [seq], parquet: standard, iceberg: base, read_optimized: true}}\n"
        )
        for hour, ids in enumerate((range(50), range(40, 60))):
            folder = tmp_path / f"t/incremental/increment_202601010{hour}"
            folder.mkdir(parents=True)
            rows = [{"id": at, "seq": hour, "a": at + hour, "list": [at, 1], "s": {"x": f"v{at}", "l": [{"y": at}]}} for at in ids]
            (folder / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
            done = subprocess.run(
                [sys.executable, "-m", "compactor", "run", "--compact", "--config", str(tmp_path / "compactor.yaml")],
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        with App.open(tmp_path / "compactor.yaml") as app:
            expected = sorted((json.loads(row) for row in app.sql("select * from t_ro")), key=lambda row: row["id"])
        runtime = pins.SYSTEMS["iceberg-cow"].jars
        read = [sys.executable, "-c", READ, runtime, f"file://{tmp_path}/t/_iceberg"]
        shown = [
            line[4:]
            for line in subprocess.run(read, capture_output=True, text=True, timeout=900, check=True).stdout.splitlines()
            if line.startswith("row ")
        ]
        assert len(expected) == 60
        assert [json.loads(line) for line in shown[:-1]] == expected
        # by the bounds of `a`, no file has a 999
        assert shown[-1] == "1 1 0"
