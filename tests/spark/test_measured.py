"""Rows that are computed once, on one machine and on a cluster (which `tests/engines/test_cluster.py` really has)."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from compactor.spark import measured

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("one_machine", [True, False])
def test_materialized_rows_are_computed_once_and_have_no_plan(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, one_machine: bool) -> None:
    """A step after it plans only itself: Spark looked through a cached plan so long that a commit with history took a driver's memory."""
    monkeypatch.setattr(measured, "_one_machine", lambda _: one_machine)
    rows = spark.range(100).selectExpr("id % 7 AS k", "reflect('java.util.UUID', 'randomUUID') AS u").where("k > 0")
    kept = measured.materialize(rows)
    step: Any = kept.where("k > 1")._jdf
    assert ["Filter", "LogicalRDD"] == [step.queryExecution().analyzed().apply(at).nodeName() for at in range(2)]
    assert kept.collect() == kept.collect()


def test_on_a_cluster_lost_rows_are_computed_again_and_released_ones_are_freed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor may die at any time, and takes its rows along."""
    monkeypatch.setattr(measured, "_one_machine", lambda _: False)
    context: Any = spark.sparkContext._jsc
    kept, numbers = measured.materialize_and_measure(spark.range(100).selectExpr("id % 7 AS k").distinct(), {"rows": "count(1)", "sum": "sum(k)"})
    (own,) = [number for number, rdd in context.getPersistentRDDs().items() if number == kept._jdf.logicalPlan().rdd().id()]  # type: ignore[operator]
    context.sc().env().blockManager().master().removeRdd(own, True)
    assert (numbers, sorted(row.k for row in kept.collect())) == ({"rows": 7, "sum": 21}, [*range(7)])
    measured.release(kept)
    assert own not in context.getPersistentRDDs()
