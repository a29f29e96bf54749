"""Check that stored whole numbers stay the same numbers when fractions make doubles of them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.schema.evolution import Evolved
from compactor.spark.decode import conversions
from compactor.spark.rows import survey
from compactor.spark.rows.reduce import union
from compactor.spark.sql import named, quoted
from compactor.spark.tables.table_reader import TableReader


def check(spark: SparkSession, spec: TableSpec, parent: Snapshot, evolved: Evolved) -> None:
    """Raise SchemaRefused if a stored value would be another number. A Spark job runs only if whole numbers become doubles."""
    tests = {}
    for name in evolved.retyped:
        old, new = (types.parse(schema.field(name).type) for schema in (parent.schema, evolved.schema))
        test = conversions.is_inexact(quoted(name), old, new)
        if test:
            tests[name] = test
    if not tests:
        return
    reader = TableReader(spark, spec.layout, parent, parent.schema)
    delta = reader.delta()
    rows = union([reader.rows(parent.segments), *([delta] if delta is not None else [])])
    samples = [named(f"max(CASE WHEN {test} THEN to_json(struct({quoted(name)} AS v)) END)", name) for name, test in tests.items()]
    row = rows.agg(*samples).collect()[0]
    for name in tests:
        if row[name] is not None:
            shown = row[name] if spec.quotes_records else survey.HIDDEN
            raise SchemaRefused(
                f"table {spec.name}, column {evolved.schema.field(name).source}: the new data has fractions, and as a double a stored value such as "
                f"{shown} would be another number. The increments stay in landing. Declare a decimal in `types:`, or repair the producer.",
                evolved.decisions,
            )
