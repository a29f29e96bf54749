"""Count the rows of a version that no reader sees yet and that break audit rules."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from compactor.core.catalog import views
from compactor.core.catalog.ddl import quoted
from compactor.core.model.policy import Rule
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import audit as rules
from compactor.core.planning.audit import Measured
from compactor.spark import failures
from compactor.spark.input.files import reason
from compactor.spark.tables.table_reader import TableReader


def audit(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, measured: Sequence[Rule]) -> Measured:
    """Count offending rows. The version is read from its files, as the catalog does not have it."""
    # temporary views of its own: the name of the view means the new version here, and the shown one everywhere else
    session = spark.newSession()
    schema = snapshot.schema
    deleted = [f"_gone IS NOT NULL AS {quoted(views.DELETED)}"] if spec.soft else []
    shown = [f"{quoted(field.name)} AS {quoted(schema.view_name(field))}" for field in schema.payload]
    rows = TableReader(session, spec.layout, snapshot, schema).live(spec.soft).selectExpr(*shown, *deleted)
    rows.createOrReplaceTempView(quoted(spec.view))
    return Measured(rows.count(), tuple(_offending(session, spec, rule) for rule in measured))


def _offending(session: SparkSession, spec: TableSpec, rule: Rule) -> tuple[int, str] | str:
    try:
        rows = session.sql(rules.query(rule, quoted(spec.view)))
        number = rows.count()
        example = rows.selectExpr("to_json(struct(*)) AS row").first() if number else None
    except Exception as error:
        failures.raise_environment_error(error)
        return reason(error)
    return number, example.row if example else ""
