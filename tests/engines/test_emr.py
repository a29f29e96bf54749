"""The EMR paths from end to end: what a runner submitted to (moto's) EMR is taken from there and really run by spark-submit, from the packaged zip,
with exactly the submitted arguments, by a Python that has nothing but PySpark and boto3; then the tables are compared with PostgreSQL's rows.

Only EMR's own part is stood in for: Spark's settings say what its connector for s3:// would be.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyspark
import pytest
import yaml

from compactor.app.app import App
from compactor.app.packaging.job_zip import package, write
from compactor.core.results.reports import Ended
from compactor.core.settings.s3 import S3Settings, s3a_properties
from compactor.ports import Submitted
from compactor.storage.s3.storage import S3Storage
from tests.capture import config, truth
from tests.engines.test_s3_warehouse import FORM, read_elsewhere
from tests.engines.test_s3_warehouse import deliver as land
from tests.oracle.sizes import FULL
from tests.parts.s3 import CREDENTIALS, Server, s3_server

pytestmark = [pytest.mark.engines, pytest.mark.spark]

PYTHON = os.environ.get("COMPACTOR_CLUSTER_PYTHON", sys.executable)
"""The cluster's: EMR 7 has 3.9."""

ABSENT = ("pydantic", "pydantic_core", "yaml", "fastavro", "requests", "typer", "rich", "airflow", "pandas", "pyarrow")
TABLES = ("enrollment", "trunc_solo")
"""The first runs on EMR Serverless, the second on a cluster."""

ROLE = "arn:aws:iam::123456789012:role/compactor-job"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With the lake, and buckets for code and logs."""
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3") / "log") as running:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", running.url)
        patch.setenv("COMPACTOR_WAREHOUSE", "s3://lake/w")
        for bucket in ("lake", "code", "logs"):
            running.bucket(bucket)
        yield running


@pytest.fixture(scope="module")
def spark_conf(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What EMR's Spark is told by EMR: a connector for s3://; and not to be large."""
    folder = tmp_path_factory.mktemp("spark-conf")
    (folder / "reader.yaml").write_text("s3: {path_style: true}\ntables: {t: {key: [id]}}\n", encoding="utf-8")
    with App.open(folder / "reader.yaml") as app:
        # where Spark has put the jars of its connector
        jars = [jar.removeprefix("file://") for jar in app.runtime.spark().conf.get("spark.jars", "").split(",") if jar]  # type: ignore[union-attr]
    settings = {
        **s3a_properties(S3Settings(endpoint=server.url, path_style=True, region="us-east-1"), int(pyspark.__version__[0]) - 2),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def company(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables: one runs on EMR Serverless, the other on a cluster."""
    serverless = boto3.client("emr-serverless", region_name="us-east-1")
    application = serverless.create_application(name="c", releaseLabel="emr-7.13.0", type="SPARK")["applicationId"]
    cluster = boto3.client("emr", region_name="us-east-1").run_job_flow(
        Name="c", ReleaseLabel="emr-7.13.0", Instances={"MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": True}
    )["JobFlowId"]
    emr = {
        "job": "s3://code/jobs/1",
        "logs": "s3://logs/jobs",
        "application": application,
        "role": ROLE,
        "cluster": cluster,
    }
    spark = {"spark.sql.shuffle.partitions": "3", "spark.app.name": "a name with blanks"}
    extra = {"s3": {"path_style": True}, "defaults": {"runner": "emr-serverless", "spark": spark}, "emr": emr}
    said = yaml.safe_load(config.config_text(FORM, TABLES, extra=extra))
    said["catalog"]["type"] = "glue"
    said["tables"][TABLES[1]]["runner"] = "emr-steps"
    file = tmp_path_factory.mktemp("company") / "compactor.yaml"
    file.write_text(json.dumps(said), encoding="utf-8")
    write(package(), S3Storage("s3://code/jobs", S3Settings(path_style=True).within(os.environ)), "s3://code/jobs/1")
    return file


def submitted_to_serverless(job: str, application: str) -> list[str]:
    """What EMR Serverless makes of a job run: the words after spark-submit."""
    driver = boto3.client("emr-serverless", region_name="us-east-1").get_job_run(applicationId=application, jobRunId=job)["jobRun"]["jobDriver"]
    spark = driver["sparkSubmit"]
    return [*shlex.split(spark["sparkSubmitParameters"]), spark["entryPoint"], *spark["entryPointArguments"]]


def submitted_to_cluster(job: str, cluster: str) -> list[str]:
    """The same of a step."""
    step = boto3.client("emr", region_name="us-east-1").describe_step(ClusterId=cluster, StepId=job)["Step"]
    command, *words = step["Config"]["Args"]
    assert command == "spark-submit"
    return list(words)


def run_there(words: list[str], spark_conf: Path, folder: Path) -> int:
    """What the cluster does: spark-submit with these words, in a Python with nothing of the edge's."""
    for name in ABSENT:
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is not on a cluster')\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COMPACTOR_")}
    environment = {**kept, "SPARK_CONF_DIR": str(spark_conf), "PYSPARK_PYTHON": PYTHON, "PYTHONPATH": str(folder)}
    spark_submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    done = subprocess.run([spark_submit, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False)
    print(done.stdout[-3000:], done.stderr[-6000:])
    return done.returncode


def without_runners(file: Path) -> Path:
    """The same configuration for a reader on this machine."""
    said = json.loads(file.read_text(encoding="utf-8"))
    for settings in (said["defaults"], *said["tables"].values()):
        settings.pop("runner", None)
    plain = file.with_name("plain.yaml")
    plain.write_text(json.dumps(said), encoding="utf-8")
    return plain


def test_what_was_submitted_brings_the_tables_up_to_date(company: Path, server: Server, spark_conf: Path, tmp_path: Path) -> None:
    """On both; the report is the command line's own, its log is told, and a run with nothing new is idle."""
    store = S3Storage("s3://lake/w", S3Settings(path_style=True).within(os.environ))
    land(store, tmp_path / "landing", [0, 1], TABLES)
    with App.open(company) as app:
        settings = app.settings
        assert [settings.tables[name].runner for name in TABLES] == ["emr-serverless", "emr-steps"]

        def brought(table: str, attempt: str, *words: str) -> tuple[Submitted, Ended]:
            runner = app.remote_runner([table], attempt)
            assert runner is not None
            job = runner.submit([*(words or ("run",)), table, "--output", "json", "--label", "a label"])
            on_cluster = settings.tables[table].runner == "emr-steps"
            emr = settings.emr
            sent = submitted_to_cluster(job.job, str(emr.cluster)) if on_cluster else submitted_to_serverless(job.job, str(emr.application))
            folder = tmp_path / f"{table}-{attempt}"
            folder.mkdir()
            code = run_there(sent, spark_conf, folder)
            told: list[str] = []
            ended = runner.result(job, told.append)
            assert code == ended.code
            assert "compactor.zip" in told[0], "the modules are the zip's"
            return job, ended

        for table in TABLES:
            _, ended = brought(table, "1")
            (report,) = json.loads(ended.output)
            assert (ended.code, report["table"], report["outcome"]) == (0, table, "committed"), ended.errors
            assert app.log(table)[0].run == "a label"
        assert all(check.ok for check in app.verify(files_only=True))
        if FULL:
            (again,) = json.loads(brought(TABLES[0], "2")[1].output)
            assert again["outcome"] == "idle"
            for table in TABLES:
                built = json.loads(brought(table, "3", "rebuild")[1].output)
                assert (built["outcome"], built["difference"]["changed"]) == ("published", 0)
    for table, rows in read_elsewhere(without_runners(company), tmp_path / "reader").items():
        assert [] == truth.unexpected(truth.differences(rows, truth.truth(1)[table], FORM), FORM, 1)
