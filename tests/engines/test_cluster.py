"""The main job on a Spark cluster: executors apart from the driver, killed while they work; S3; a shared metastore. By the command line, and by
spark-submit with the packaged job."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.app.app import App
from compactor.app.packaging.job_zip import package, write
from compactor.app.spark import fetch_properties, s3_packages
from compactor.core.settings.s3 import S3Settings, s3a_properties
from compactor.storage.local import LocalStorage
from compactor.storage.s3.storage import S3Storage
from tests.capture import config, truth
from tests.engines.test_s3_warehouse import FORM, deliver
from tests.oracle.sizes import FULL
from tests.parts.cluster import Cluster, cluster
from tests.parts.metastore import SPARK_HOME, metastore
from tests.parts.s3 import CREDENTIALS, s3_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

WAREHOUSE = "s3://lake/w"
TABLES = ["student", *(["audit_log", "ledger", "enrollment", "toast_def", "trunc_solo"] if FULL else [])]
"""Of the demo. audit_log has no key, the others have a history."""
STEPS = [[0, 1, 2, 3], [4], [5], [7], [8]] if FULL else [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
"""Which hours each run gets."""
KILLS = 1_000 if FULL else 1
"""Executors that die in a run, at most."""
TRIES = 5
"""Runs after which everything that has landed must be in the tables. Spark gives up a task whose executor has died four times."""


@dataclass(frozen=True)
class Place:
    """The servers, the cluster, and the configuration that names them."""

    folder: Path
    cluster: Cluster
    store: S3Storage

    @property
    def config(self) -> Path:
        """What the command line is told."""
        return self.folder / "compactor.yaml"

    def compactor(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, on the cluster."""
        return self._done([sys.executable, "-m", "compactor", *words, "--config", str(self.config)])

    def submitted(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same by spark-submit with the job, on a Spark whose settings are the cluster's."""
        job, plan = self.folder / "job", self.folder / "plan.json"
        with App.open(self.config) as app:
            plan.write_bytes(app.job_config().written())
            s3 = S3Settings(path_style=True, region="us-east-1", endpoint=os.environ["AWS_ENDPOINT_URL_S3"])
            settings = {**s3a_properties(s3), **fetch_properties([*s3_packages(app.settings)])}
        write(package(), LocalStorage(), str(job))
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        options += ["--master", self.cluster.url, "--deploy-mode", "client", "--driver-memory", "1g", "--py-files", str(job / "compactor.zip")]
        return self._done([str(SPARK_HOME / "bin/spark-submit"), *options, str(job / "main.py"), "--job-config", str(plan), *words])

    def _done(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.cluster.environment}
        return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment, cwd=self.folder)

    def check(self, hour: int) -> None:
        """The tables show PostgreSQL's rows at the end of this hour."""
        with App.open(self.config) as app:
            for table in TABLES:
                rows = [json.loads(row, parse_float=Decimal) for row in app.sql(f"select * from {table}", engine="duckdb")]
                assert [] == truth.unexpected(truth.differences(rows, truth.truth(hour)[table], FORM), FORM, hour)

    @contextmanager
    def killing(self, draw: random.Random, most: int) -> Iterator[list[int]]:
        """Meanwhile executors die, one after the other; tells which."""
        over, killed = threading.Event(), []

        def kill() -> None:
            while len(killed) < most and not over.wait(draw.uniform(2.0, 30.0 if FULL else 5.0)):
                running = self.cluster.executors()
                if running:
                    killed.append(draw.choice(running))
                    self.cluster.kill(killed[-1])

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield killed
        finally:
            over.set()
            killer.join()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """All of it, with nothing landed."""
    for name, value in {**CREDENTIALS, "COMPACTOR_DRIVER_MEMORY": "1g"}.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        server = stack.enter_context(s3_server(tmp_path / "s3.log"))
        server.bucket("lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        uri = stack.enter_context(metastore(tmp_path, "postgres", s3=server.url))
        # for JVMs of a minute and jobs of a few rows
        quick = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        quick |= {f"spark.{side}.extraJavaOptions": "-XX:TieredStopAtLevel=1" for side in ("driver", "executor")}
        running = stack.enter_context(cluster(tmp_path, conf={"spark.speculation": "true", **quick}))
        extra = {"s3": {"path_style": True}, "defaults": {"change_feed": True}}
        text = config.config_text(FORM, TABLES, warehouse=WAREHOUSE, extra=extra)
        text = text.replace('"database": "school"', f'"database": "school", "uri": "{uri}"').replace('"key": ["', '"history": true, "key": ["')
        (tmp_path / "compactor.yaml").write_text(text, encoding="utf-8")
        yield Place(tmp_path, running, S3Storage(WAREHOUSE, S3Settings(path_style=True).within(os.environ)))


@pytest.mark.parametrize("seed", range(3) if FULL else [0])
def test_the_main_job_on_a_cluster_whose_executors_die(place: Place, seed: int) -> None:
    """Runs and compactions, with history and feed: after each the views are PostgreSQL's rows. A run that fails of too many deaths commits nothing
    wrong, and the next one goes on. In the end every check holds, and nothing is left in landing."""
    draw, killed, outcomes = random.Random(seed), 0, []
    for step, hours in enumerate(STEPS):
        deliver(place.store, place.folder / f"landing-{step}", hours, TABLES)
        for attempt in range(TRIES):
            run = place.submitted if (step + attempt) % 2 else place.compactor
            # the last try is left alone, and the first run of the sample
            with place.killing(draw, KILLS if attempt < TRIES - 1 and (FULL or step) else 0) as dead:
                done = run("run", "--output", "json", *(["--compact"] if step % 2 else []))
            killed += len(dead)
            assert done.returncode in (0, 75), done.stdout + done.stderr
            assert "unexpected" not in done.stderr, done.stderr
            # spark-submit says before how it fetches jars
            reports: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[\n") :])
            outcomes += [report["outcome"] for report in reports]
            if done.returncode == 0:
                break
        assert done.returncode == 0, done.stdout + done.stderr
        place.check(hours[-1])
    verified = place.compactor("verify", *(["--deep"] if FULL else []))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert [] == [info.path for table in TABLES for info in place.store.list(f"{WAREHOUSE}/{table}/incremental") if "/_compactor/" not in info.path]
    assert killed >= len(STEPS) - 1
    print(f"{killed} executors killed; { ({name: outcomes.count(name) for name in sorted({*outcomes})}) }")
