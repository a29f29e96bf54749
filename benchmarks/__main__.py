"""`python -m benchmarks`: what a commit costs on tables of different sizes, and what reading through the view costs.

Beside every commit stands the naive recipe (`write_mode: copy-on-write`: union, newest row per key, write everything) on the same table, and beside
every read a bare scan of the base and the naive recipe's view (row_number over everything).
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Shown

from benchmarks.program import options, scratch, session
from benchmarks.table import DATABASE, Table, warm_up
from benchmarks.usage import Cost, measured, median
from compactor.core.catalog import views


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    parser = options(__doc__)
    parser.add_argument("--rows", default="1000000,10000000", help="sizes of the base, separated by commas")
    parser.add_argument("--changes", type=int, default=10_000, help="changes in a commit")
    parser.add_argument("--repeat", type=int, default=3, help="commits and reads of each kind; the median is told")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    given = parser.parse_args(arguments)
    sizes = [int(size) for size in given.rows.split(",")]
    with scratch(given) as root, session(root) as spark:
        found = report(spark, root, sizes, given.changes, given.repeat)
    if given.output == "json":
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


def report(spark: SparkSession, root: Path, sizes: Sequence[int], changes: int, repeat: int) -> dict[str, Any]:
    """Everything measured, as plain JSON values."""
    _say("warming up")
    measure(spark, root, warm_up(sizes), min(changes, 1_000), 2)
    found = []
    for rows in sizes:
        _say(f"{rows:,} rows")
        found.append(measure(spark, root, rows, changes, repeat))
    return {
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0], "spark": pyspark.__version__, "python": platform.python_version()},
        "changes": changes,
        "repeat": repeat,
        "sizes": found,
        "ratios": _ratios(found),
    }


def measure(spark: SparkSession, root: Path, rows: int, changes: int, repeat: int) -> dict[str, Any]:
    """One size: first load, commits, reads, and last the naive commits, which destroy the Delta that was read."""
    table = Table(spark, root, rows)
    load = _told("load", table.load())
    commits = [_told("commit", table.change(changes)) for _ in range(repeat)]
    reads = read(spark, table, repeat)
    naive = [_told("naive commit", table.change(changes, "copy-on-write")) for _ in range(repeat)]
    costs = {"load": load, "commit": median(commits), "naive commit": median(naive)}
    return {"rows": rows, **{name: dataclasses.asdict(cost) for name, cost in costs.items()}, "reads": reads}


def read(spark: SparkSession, table: Table, repeat: int) -> dict[str, dict[str, float]]:
    """Median seconds of each query through each way to read."""
    snapshot = table.snapshot()
    sources = {
        "bare base": f"(SELECT * FROM {DATABASE}.{views.table_name(table.spec, 'base', 1)} WHERE base_version = '{snapshot.base_id}' AND row_state = 'live')",
        "view": f"{DATABASE}.{table.spec.view}",
        "row_number view": f"({views.reference_text(table.spec, snapshot)})",
    }
    queries = {
        "count": "SELECT count(*) FROM {0} x",
        "point lookup": f"SELECT * FROM {{0}} x WHERE id = {table.rows // 3}",
        "aggregate": "SELECT region, sum(amount) FROM {0} x GROUP BY region",
    }
    found: dict[str, dict[str, float]] = {}
    for name, query in queries.items():
        for source, text in sources.items():
            times = [measured(partial(_ask, spark, query.format(text)))[1].seconds for _ in range(repeat + 1)]
            # the first time includes planning and code made for this query
            found.setdefault(name, {})[source] = round(statistics.median(times[1:]), 3)
    return found


def _ask(spark: SparkSession, statement: str) -> object:
    return spark.sql(statement).collect()


def show(found: dict[str, Any]) -> None:
    """As tables for people."""
    out, machine = Console(), found["machine"]
    out.print(f"{machine['cores']} cores, load {machine['load']:.1f}, Spark {machine['spark']}; median of {found['repeat']}")
    costs = Shown("rows", "work", "seconds", "CPU seconds", "bytes written", title=f"Commits of {found['changes']:,} changes")
    reads = Shown("rows", "query", *next(iter(found["sizes"][0]["reads"].values())), title="Reading, seconds")
    for size in found["sizes"]:
        for work in ("load", "commit", "naive commit"):
            cost = size[work]
            costs.add_row(f"{size['rows']:,}", work, f"{cost['seconds']:.2f}", f"{cost['cpu_seconds']:.2f}", f"{cost['bytes_written']:,}")
        for query, times in size["reads"].items():
            reads.add_row(f"{size['rows']:,}", query, *(f"{seconds:.3f}" for seconds in times.values()))
    for work, ratio in found["ratios"].items():
        costs.add_row("ratio", work, *(f"{ratio[name]:.2f}" for name in ("seconds", "cpu_seconds", "bytes_written")))
    out.print(costs, reads)


def _ratios(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The last size's cost over the first's: 1 = the size of the base does not matter."""
    first, last = found[0], found[-1]
    names = ("seconds", "cpu_seconds", "bytes_written")
    return {work: {name: round(last[work][name] / max(first[work][name], 1e-9), 2) for name in names} for work in ("commit", "naive commit")}


def _told(work: str, cost: Cost) -> Cost:
    _say(f"  {work}: {cost.seconds:.2f} s, {cost.cpu_seconds:.2f} CPU s, {cost.bytes_written:,} bytes")
    return cost


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
