"""`python -m benchmarks.feed`: what the change feed costs a commit, beside a commit without one and the naive way: the difference of all rows.

Also what it costs to read one version's changes: from the feed, and by comparing two versions.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.table import Table
from benchmarks.usage import Cost, measured
from compactor.spark import feed
from compactor.spark.session import SessionSettings, close_session, open_session


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000", help="sizes of the base, separated by commas")
    parser.add_argument("--changes", type=int, default=10_000, help="changes in a commit")
    parser.add_argument("--repeat", type=int, default=3, help="commits and reads of each kind; the median is told")
    parser.add_argument("--dir", help="where to put the tables; default a temporary directory")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="compactor-bench-", dir=given.dir) as directory:
        root = Path(directory)
        spark = open_session(SessionSettings(None, str(root / "metastore"), str(root / "warehouse")))
        try:
            measure(spark, root, 50_000, 1_000, 1)
            found = [measure(spark, root, int(rows), given.changes, given.repeat) for rows in given.rows.split(",")]
        finally:
            close_session(spark)
    print(json.dumps({"changes": given.changes, "repeat": given.repeat, "sizes": found}, indent=2))
    return 0


def measure(spark: SparkSession, root: Path, rows: int, changes: int, repeat: int) -> dict[str, Any]:
    """One size: the same commits with and without a feed; then the last version's changes, read and found again."""
    costs: dict[str, Cost] = {}
    for mode in ("off", "net"):
        table = Table(spark, root / mode, rows, name=f"t{rows}_{mode}", feed=mode)
        costs[f"load, feed {mode}"] = table.load()
        costs[f"commit, feed {mode}"] = _median([table.change(changes) for _ in range(repeat)])
    newest = table.snapshot()
    before = table.version(newest.version - 1)

    def looked_at(find: Callable[[], DataFrame]) -> Cost:
        return _median([measured(lambda: find().write.format("noop").mode("overwrite").save())[1] for _ in range(repeat)])

    costs["read, from the feed"] = looked_at(lambda: feed.read(spark, table.spec, newest))
    costs["read, difference of all rows"] = looked_at(lambda: feed.difference(spark, table.spec, before, newest))
    part = newest.feed.part if newest.feed else None
    told = {name: dataclasses.asdict(cost) for name, cost in costs.items()}
    print(json.dumps({"rows": rows, **told}), file=sys.stderr, flush=True)
    return {"rows": rows, "feed_bytes": part.size if part else 0, "feed_rows": part.rows if part else 0, **told}


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
        round(statistics.median(cost.bytes_written for cost in costs)),
    )


if __name__ == "__main__":
    sys.exit(main())
