"""`python -m benchmarks.parts`: what each part of the view costs on a table of many Segments where only recent keys change.

Sources: the base bare, with the condition on tombstones, the view as it would be if it compared every Segment with the Delta, and the view, which
reads Segments that own no row of the Delta bare. The sources take turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.program import options, scratch, session
from benchmarks.table import DATABASE, Table
from benchmarks.usage import Cost, measured
from compactor.core.catalog import views
from compactor.core.model.snapshot import Snapshot

QUERIES = {
    "aggregate": "SELECT region, sum(amount) FROM ({0}) x GROUP BY region",
    "every column": "SELECT max(xxhash64(*)) FROM ({0}) x",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the table, ask, and print the figures as JSON."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000, help="rows of the base")
    parser.add_argument("--segments", type=int, default=20, help="about how many Segments the base gets")
    parser.add_argument("--changes", type=int, default=10_000, help="changes of a commit")
    parser.add_argument("--commits", type=int, default=3, help="commits after the first load")
    parser.add_argument("--recent", type=int, default=20, help="the changed keys are the last of so many parts of the table")
    parser.add_argument("--repeat", type=int, default=5, help="reads of each kind")
    given = parser.parse_args(arguments)
    with scratch(given) as root, session(root) as spark:
        # a row is 41 bytes of Parquet
        table = Table(spark, root, given.rows, target_file_bytes=max(1, 41 * given.rows // given.segments))
        table.load()
        for _ in range(given.commits):
            table.change(given.changes, first=given.rows - given.rows // given.recent)
        found = report(spark, table, given.repeat)
    print(json.dumps({**vars(given), **found}, indent=2))
    return 0


def report(spark: SparkSession, table: Table, repeat: int) -> dict[str, Any]:
    """Median and least seconds, and median CPU seconds, of each query on each source; the times of planning; the sizes of the texts."""
    snapshot = table.snapshot()
    texts = sources(table, snapshot)
    found: dict[str, Any] = {}
    for name, query in QUERIES.items():
        costs: dict[str, list[Cost]] = {source: [] for source in texts}
        for number in range(repeat + 1):
            for source, text in texts.items():
                _, cost = measured(partial(_ask, spark, query.format(text)))
                # the first time includes code that is generated for the query
                costs[source] += [cost] if number else []
        found[name] = {source: _figures(each) for source, each in costs.items()}
    plans = {
        source: [measured(partial(_plan, spark, QUERIES["aggregate"].format(text)))[1].seconds for _ in range(repeat)]
        for source, text in texts.items()
    }
    return {
        "load": os.getloadavg()[0],
        "segments": len(snapshot.segments),
        "compared": len(views.compared(snapshot) or snapshot.segments),
        "delta_rows": snapshot.delta.rows if snapshot.delta else 0,
        "seconds": found,
        "planning": {source: round(statistics.median(each), 3) for source, each in plans.items()},
        "characters": {source: len(text) for source, text in texts.items()},
    }


def sources(table: Table, snapshot: Snapshot) -> dict[str, str]:
    """Return name → query."""
    spec, schema, delta = table.spec, snapshot.schema, snapshot.delta
    assert delta is not None
    shown = ", ".join(f"b.{field.name}" for field in schema.payload)
    base = f"{DATABASE}.{views.table_name(spec, 'base', schema.generation)}"
    bare = f"SELECT {shown} FROM {base} b WHERE b.base_version = '{snapshot.base_id}'"
    whole = dataclasses.replace(snapshot, delta=dataclasses.replace(delta, untouched=()))
    return {
        "bare base": bare,
        "base without tombstones": f"{bare} AND b.row_state = 'live'",
        "view, all compared": views.view_text(spec, whole),
        "view": views.view_text(spec, snapshot),
    }


def _ask(spark: SparkSession, statement: str) -> object:
    return spark.sql(statement).collect()


def _plan(spark: SparkSession, statement: str) -> object:
    return spark.sql(statement)._jdf.queryExecution().executedPlan()


def _figures(costs: Sequence[Cost]) -> dict[str, float]:
    seconds = [cost.seconds for cost in costs]
    cpu = statistics.median(cost.cpu_seconds for cost in costs)
    return {"median": round(statistics.median(seconds), 3), "least": round(min(seconds), 3), "cpu": round(cpu, 3)}


if __name__ == "__main__":
    sys.exit(main())
