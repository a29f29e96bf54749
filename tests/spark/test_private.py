"""Spark's private parts (`spark/jvm/private.py`): they do what they did when compactor began to use them, and nothing else uses others."""

from __future__ import annotations

import ast
import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compactor.spark.input.files import METADATA
from compactor.spark.jvm import private

pytestmark = pytest.mark.spark

PACKAGE = Path(__file__).parents[2] / "compactor"
PRIVATE = {"_jvm", "_jdf", "_jsparkSession", "_jsc", "_sc", "_jschema", "_jreader", "_active_spark_context", "_instantiatedSession", "_gateway"}
MODULES = ("spark/jvm/private.py", "spark/session.py", "spark/gateway.py", "catalog/hive.py", "catalog/hive_client.py")
"""The modules that may: one for Spark, those that start and stop its JVM, and the client of the Hive metastore, an adapter of its own."""


def test_no_other_module_uses_private_parts() -> None:
    """Attributes by which PySpark's classes hold their Java objects."""
    used = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE
    }
    assert used <= {*MODULES}


def test_hadoop_gets_the_settings_of_the_session(spark: SparkSession) -> None:
    """Credentials and endpoints are among them."""
    spark.conf.set("compactor.test", "here")
    try:
        assert private.hadoop_configuration(spark).get("compactor.test") == "here"
    finally:
        spark.conf.unset("compactor.test")


def test_the_schema_of_a_footer_becomes_the_types_of_spark(spark: SparkSession) -> None:
    """As `read.parquet` gives them."""
    message = private.jvm(spark).org.apache.parquet.schema.MessageTypeParser.parseMessageType("message m { optional int64 a; }")
    assert private.parquet_converter(spark).convert(message).simpleString() == "struct<a:bigint>"


def test_a_thread_without_session_gets_the_default_one(spark: SparkSession) -> None:
    """So that what it parses is parsed with its settings."""
    active: list[SparkSession | None] = []

    def work() -> None:
        private.activate_default_session()
        active.append(SparkSession.getActiveSession())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert active != [None]


def test_the_list_and_the_column_of_files_are_there_beside_a_column_of_that_name(spark: SparkSession, tmp_path: Path) -> None:
    """Sizes and locations as Spark listed them."""
    spark.sql(f"SELECT 1 AS {METADATA}").write.parquet(str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("*.parquet")
    rows = spark.read.parquet(str(tmp_path / "t"))
    index = private.file_index(rows)
    assert index.sizeInBytes() == file.stat().st_size
    assert index.rootPaths().mkString(",") == f"file:{tmp_path}/t"
    (row,) = rows.select(private.metadata_column(rows, METADATA).alias("file")).collect()
    assert row.file.file_name == file.name


def test_the_type_of_json_texts_is_inferred(spark: SparkSession) -> None:
    """With the options of the reader."""
    texts = spark.sql("""SELECT '{"a": 1, "b": null}' AS text""")
    fields = json.loads(private.json_schema(spark, texts, {"dropFieldIfAllNull": "true"}))["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [("a", "long")]


def test_a_constant_is_in_results_and_in_no_plan(spark: SparkSession) -> None:
    """Plans are logged, and shown by Spark's pages."""
    private.register_constant(spark, "compactor_test_constant", b"secret")
    rows = spark.range(1).selectExpr("compactor_test_constant() AS value")
    plans = spark.sql("EXPLAIN EXTENDED SELECT compactor_test_constant() AS value").collect()[0][0]
    assert bytes(rows.collect()[0].value) == b"secret"
    assert "secret" not in plans
    assert b"secret".hex().upper() not in plans


def test_kept_rows_have_no_plan_and_their_lineage(spark: SparkSession) -> None:
    """They are computed when something needs them, and freed."""
    kept = private.keep_with_lineage(spark.range(3).selectExpr("id + 1 AS n"))
    assert [row.n for row in kept.collect()] == [1, 2, 3]
    private.free(kept)
    assert [row.n for row in kept.collect()] == [1, 2, 3]


def test_a_pass_returns_what_was_observed(spark: SparkSession, tmp_path: Path) -> None:
    """Of rows that are kept, and of rows that are written into folders."""
    from pyspark.sql import functions as F

    rows = spark.range(3).selectExpr("id", "'x' AS folder").observe("numbers", F.expr("string(count(1))").alias("n"))
    rows.collect()
    assert private.metrics(rows.localCheckpoint()) == {}
    assert private.write_parquet(rows, str(tmp_path / "t"), ["folder"], {"compression": "none"}) == (3, {"numbers": "3"})
    assert {path.parent.name for path in (tmp_path / "t").rglob("*.parquet")} == {"folder=x"}
