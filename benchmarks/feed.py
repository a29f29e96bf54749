"""`python -m benchmarks.feed`: what the change feed costs a commit, beside a commit without one and the naive way: the difference of all rows.

Also what it costs to read one version's changes: from the feed, and by comparing two versions. With `--delta` the same changes are merged into a Delta
table, with and without its Change Data Feed; its jars (io.delta:delta-spark_2.12) are fetched from Maven then.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.program import options, scratch, session
from benchmarks.table import Table, change_query, load_query, warm_up
from benchmarks.usage import Cost, measured, median
from compactor.spark.tables import feed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = options(__doc__)
    parser.add_argument("--rows", default="1000000,10000000", help="sizes of the base, separated by commas")
    parser.add_argument("--changes", type=int, default=10_000, help="changes in a commit")
    parser.add_argument("--repeat", type=int, default=3, help="commits and reads of each kind; the median is told")
    parser.add_argument("--delta", metavar="VERSION", help="beside Delta of this version, such as 3.3.2")
    given = parser.parse_args(arguments)
    conf = (("spark.jars.packages", f"io.delta:delta-spark_2.12:{given.delta}"), *_DELTA) if given.delta else ()
    sizes = [int(rows) for rows in given.rows.split(",")]
    with scratch(given) as root, session(root, conf=conf) as spark:
        measure(spark, root, warm_up(sizes), min(1_000, given.changes), 1, bool(given.delta))
        found = [measure(spark, root, rows, given.changes, given.repeat, bool(given.delta)) for rows in sizes]
    print(json.dumps({"changes": given.changes, "repeat": given.repeat, "sizes": found}, indent=2))
    return 0


def measure(spark: SparkSession, root: Path, rows: int, changes: int, repeat: int, delta: bool = False) -> dict[str, Any]:
    """One size: the same commits with and without a feed; then the last version's changes, read and found again."""
    costs: dict[str, Cost] = {}
    for mode in ("off", "net"):
        table = Table(spark, root / mode, rows, name=f"t{rows}_{mode}", feed=mode)
        costs[f"load, feed {mode}"] = table.load()
        costs[f"commit, feed {mode}"] = median([table.change(changes) for _ in range(repeat)])
    newest = table.snapshot()
    before = table.version(newest.version - 1)

    def looked_at(find: Callable[[], DataFrame]) -> Cost:
        return median([measured(lambda: find().write.format("noop").mode("overwrite").save())[1] for _ in range(repeat)])

    costs["read, from the feed"] = looked_at(lambda: feed.read(spark, table.spec, newest))
    costs["read, difference of all rows"] = looked_at(lambda: feed.difference(spark, table.spec, before, newest))
    for mode in ("off", "on") if delta else ():
        costs |= _delta(spark, root / f"delta_{rows}_{mode}", rows, changes, repeat, mode)
    part = newest.feed.part if newest.feed else None
    told = {name: dataclasses.asdict(cost) for name, cost in costs.items()}
    print(json.dumps({"rows": rows, **told}), file=sys.stderr, flush=True)
    return {"rows": rows, "feed_bytes": part.size if part else 0, "feed_rows": part.rows if part else 0, **told}


_DELTA = (
    ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
    ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)


def _delta(spark: SparkSession, place: Path, rows: int, changes: int, repeat: int, mode: str) -> dict[str, Cost]:
    """The same load and the same changes, the newest of each key merged, in a Delta table with its Change Data Feed on or off."""

    def load() -> None:
        spark.sql(load_query(rows)).drop("op").write.format("delta").option("delta.enableChangeDataFeed", str(mode == "on").lower()).save(str(place))

    def merge(hour: int) -> None:
        newest = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY seq DESC) AS n FROM ({change_query(rows, changes, hour)})"
        columns = ("id", "seq", "name", "email", "region", "amount", "changed_at", "token")
        spark.sql(
            f"MERGE INTO delta.`{place}` t USING (SELECT * FROM ({newest}) WHERE n = 1) s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in columns)} "
            f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{name}' for name in columns)})"
        )

    costs = {f"Delta load, feed {mode}": measured(load, (place,))[1]}
    costs[f"Delta merge, feed {mode}"] = median([measured(partial(merge, hour), (place,))[1] for hour in range(1, repeat + 1)])
    if mode == "on":

        def read() -> None:
            feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", repeat).load(str(place))
            feed.write.format("noop").mode("overwrite").save()

        costs["Delta read, its feed"] = median([measured(read)[1] for _ in range(repeat)])
    return costs


if __name__ == "__main__":
    sys.exit(main())
