"""What compactor uses of Spark that is not public, each with the reason why nothing public does it.

No other module names `_jvm`, `_jdf` or `_jsparkSession`, apart from those that start and stop the JVM (`session`, `gateway`).
`tests/spark/test_private.py` fails when Spark changes one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession


def jvm(spark: SparkSession) -> Any:
    """Return the JVM, for the public classes of its libraries. PySpark has no public way to a class."""
    return spark._jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration with the settings of the session. A client of our own would need the cluster's credentials again."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def parquet_converter(spark: SparkSession) -> Any:
    """Return what converts the schema of a Parquet footer to Spark's types. `read.parquet(..).schema` takes 20 times as long."""
    conf = spark._jsparkSession.sessionState().conf()
    return jvm(spark).org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter(conf)


def activate_default_session() -> None:
    """Make the default session that of this thread, if it has none.

    PySpark's functions (`F.expr`) parse with the settings of the thread's session, and only builders, which change settings, set it publicly.
    """
    context = SparkContext._active_spark_context
    sessions: Any = context._jvm.SparkSession if context is not None and context._jvm is not None else None
    if sessions is not None and sessions.getActiveSession().isEmpty() and sessions.getDefaultSession().isDefined():
        sessions.setActiveSession(sessions.getDefaultSession().get())


def metadata_column(rows: DataFrame, name: str) -> Column:
    """Return Spark's own column `_metadata` of rows that have one of that name. PySpark has `DataFrame.metadataColumn` from 4.0 on."""
    return Column(rows._jdf.metadataColumn(name))


def file_index(rows: DataFrame) -> Any:
    """Return Spark's list of the files that `rows` reads. `DataFrame.inputFiles` has no sizes."""
    return rows._jdf.queryExecution().analyzed().collectLeaves().head().relation().location()


def json_schema(spark: SparkSession, texts: DataFrame, options: Mapping[str, str]) -> str:
    """Infer the type of a column of JSON texts, as JSON. `DataFrameReader.json` of PySpark takes an RDD, whose rows go through Python."""
    reader = spark._jsparkSession.read()
    for name, value in options.items():
        reader = reader.option(name, value)
    strings = getattr(texts._jdf, "as")(jvm(spark).org.apache.spark.sql.Encoders.STRING())
    return str(reader.json(strings).schema().json())


def register_constant(spark: SparkSession, name: str, value: bytes) -> None:
    """Register a function of this session that gives these bytes. Plans show its name only, and so do logs, event logs and Spark's pages.

    The function is a map without entries: any argument gives its default. Spark computes the calls of such functions in its tasks, never beforehand.
    A public UDF is Python or a class in a jar; a literal or a variable is in every plan.
    """
    java = jvm(spark)
    sql = java.org.apache.spark.sql

    def always(given: Any) -> Any:
        return java.scala.collection.immutable.HashMap().withDefaultValue(given)

    none, binary, number = java.scala.Option.apply(None), *map(sql.types.DataType.fromDDL, ("binary", "int"))
    argument, untyped = java.PythonUtils.toSeq([sql.catalyst.expressions.Literal(0, number)]), java.PythonUtils.toSeq([])
    call = sql.catalyst.expressions.ScalaUDF(always(value), binary, argument, untyped, none, java.scala.Option.apply(name), False, True)
    functions: Any = spark._jsparkSession.sessionState().functionRegistry()
    functions.createOrReplaceTempFunction(name, always(call), "scala_udf")


def keep_with_lineage(rows: DataFrame) -> DataFrame:
    """Return the rows as an RDD that the executors keep as soon as something needs it, and compute again when one is lost.

    `DataFrame.persist` keeps the plan too, which Spark looks through again at every step. A checkpoint has no lineage.
    """
    kept = rows.localCheckpoint(eager=False)
    # without its mark as a checkpoint, the RDD is one that is kept and knows its lineage
    getattr(_plan(kept).rdd(), "checkpointData_$eq")(jvm(kept.sparkSession).scala.Option.apply(None))
    return kept


def free(rows: DataFrame) -> None:
    """Free rows that `keep_with_lineage` returned."""
    if _plan(rows).nodeName() == "LogicalRDD":
        _plan(rows).rdd().unpersist(False)


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.logicalPlan()


def metrics(rows: DataFrame) -> Mapping[str, str]:
    """Return what `DataFrame.observe` attached to rows that were computed: label → the text of its one column.

    `Observation` waits for an event that Spark's listener bus may drop.
    """
    return _texts(rows._jdf.queryExecution().observedMetrics())


def write_parquet(rows: DataFrame, directory: str, folders: list[str], options: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
    """Write rows into a new directory, with folders for the values of the columns `folders`.

    Return the number of rows of the committed tasks, and the `metrics` of the pass.

    This is what `rows.write.options(..).partitionBy(..).parquet(..)` does, which does not return its pass.
    """
    session, java = rows.sparkSession._jsparkSession, jvm(rows.sparkSession)
    sql, none, seq = java.org.apache.spark.sql, java.scala.Option.apply(None), java.PythonUtils.toSeq
    given = java.PythonUtils.toScalaMap(dict(options))
    source = sql.execution.datasources.DataSource(session, "parquet", seq([directory]), none, seq(folders), none, given, none)
    command = source.planForWriting(sql.SaveMode.ErrorIfExists, _plan(rows))
    execution = session.sessionState().executePlan(command, sql.execution.CommandExecutionMode.ALL())
    collector = getattr(getattr(sql.execution, "CollectMetricsExec$"), "MODULE$")
    plan = execution.commandExecuted().commandPhysicalPlan()
    return int(plan.metrics().apply("numOutputRows").value()), _texts(collector.collect(plan))


def _texts(rows: Any) -> dict[str, str]:
    labels, out = rows.keysIterator(), {}
    while labels.hasNext():
        label = labels.next()
        out[str(label)] = str(rows.apply(label).getString(0))
    return out
