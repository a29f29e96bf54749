"""`python -m benchmarks.history`: what an hour of history costs as it grows, beside the naive recipe.

The naive recipe reads every event that ever came and takes `lead` over them, key by key; each hour it writes the whole history again. The reads are
as of an hour ago: through the view, whose parts of earlier days are left out, and over what the naive recipe wrote.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.program import options, scratch, session
from benchmarks.table import DATABASE, FIRST_HOUR, Table, hour_text
from benchmarks.usage import measured
from compactor.core.catalog import history_views

NAIVE = """
SELECT *, hour AS start_hour, lead(hour) OVER (PARTITION BY id ORDER BY seq) AS end_hour
FROM (SELECT *, regexp_extract(input_file_name(), 'increment_([0-9]{{10}})', 1) AS hour FROM parquet.`{events}`)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell, as JSON."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table")
    parser.add_argument("--changes", type=int, default=5_000, help="changes an hour")
    parser.add_argument("--hours", type=int, default=12, help="hours after the load")
    parser.add_argument("--naive-every", type=int, default=4, help="hours between two measurements of the naive recipe")
    given = parser.parse_args(arguments)
    with scratch(given) as root, session(root) as spark:
        found = measure(spark, root, given.rows, given.changes, given.hours, given.naive_every)
    print(json.dumps(found, indent=2))
    return 0


def measure(spark: SparkSession, root: Path, rows: int, changes: int, hours: int, naive_every: int) -> dict[str, Any]:
    """One table, hour by hour."""
    table = Table(spark, root, rows)
    table.spec = dataclasses.replace(table.spec, history=True)
    parts = (table.root / "history",)
    _, load = measured(table.load, parts)
    out: list[dict[str, Any]] = []
    for hour in range(1, hours + 1):
        _, cost = measured(partial(table.change, changes), parts)
        held = table.snapshot().history
        told = {"hour": hour, **dataclasses.asdict(cost), "stored_bytes": held.size if held else 0}
        if hour % naive_every == 0 or hour == hours:
            _, naive = measured(partial(_naive, spark, table, root / "naive"), (root / "naive",))
            told["naive"] = dataclasses.asdict(naive)
        print(told, file=sys.stderr, flush=True)
        out.append(told)
    return {
        "rows": rows,
        "changes": changes,
        "load": dataclasses.asdict(load),
        "hours": out,
        "as of an hour ago, seconds": _reads(spark, table, root, hours),
    }


def _naive(spark: SparkSession, table: Table, target: Path) -> None:
    spark.sql(NAIVE.format(events=f"{table.root}/archive/*")).write.mode("overwrite").parquet(str(target))


def _reads(spark: SparkSession, table: Table, root: Path, hours: int) -> dict[str, float]:
    moment = (int(FIRST_HOUR.timestamp()) + (hours - 1) * 3600) * 1_000_000
    as_of = history_views.as_of_text(table.spec, ["region", "amount"], moment)
    hour = hour_text(hours - 1)
    naive = (
        f"SELECT region, amount FROM parquet.`{root}/naive` WHERE op <> 'd' AND start_hour <= '{hour}' AND (end_hour IS NULL OR end_hour > '{hour}')"
    )
    texts = {"view": as_of, "naive": naive, "the table now": f"SELECT region, amount FROM {DATABASE}.{table.spec.view}"}
    found = {}
    for name, text in texts.items():
        query = f"SELECT region, sum(amount) FROM ({text}) x GROUP BY region"
        times = [measured(lambda query=query: spark.sql(query).collect())[1].seconds for _ in range(4)]  # type: ignore[misc]
        # the first time includes planning and code made for this query
        found[name] = round(statistics.median(times[1:]), 3)
    return found


if __name__ == "__main__":
    sys.exit(main())
