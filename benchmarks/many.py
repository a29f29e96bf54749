"""`python -m benchmarks.many`: many tables in one run, beside plain Spark on the same files; few tables with work among many; runs without work.

- **many**: six large and 59 small tables with 1,000 changes each, brought up to date by one `App.run`. Beside it, plain Spark reads, dedupes and writes
  the changes of each table, in the same warm session.
- **few**: 50 of 500 tables have work; beside it, the same 50 tables alone.
- **idle**: `compactor run` with nothing to do, and `compactor status`, in processes of their own.

Prints the figures as JSON. `--save` also puts them into benchmarks/results/many.json, and writes docs/performance.md again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.peers import page
from benchmarks.peers.landed import land, newest
from benchmarks.peers.plain import NAMES
from benchmarks.program import options, scratch, told
from benchmarks.table import hour_text
from benchmarks.usage import Cost, measured, peak_memory
from compactor.app import App

HOURS = 3
"""Hours of changes. The first is not measured: what a JVM compiles once is not charged to the tables that happen to come first."""

_LITTLE = 100
"""Rows of a table without work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = options(__doc__, saves=True)
    parser.add_argument("--large", type=int, default=6, help="large tables")
    parser.add_argument("--large-rows", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=59, help="small tables")
    parser.add_argument("--small-rows", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=1_000, help="changes an hour in each table with work")
    parser.add_argument("--tables", type=int, default=500, help="tables of which few have work")
    parser.add_argument("--busy", type=int, default=50, help="those that have work")
    given = parser.parse_args(arguments)
    with scratch(given) as home:
        sizes = {f"large_{n}": given.large_rows for n in range(given.large)} | {f"small_{n}": given.small_rows for n in range(given.small)}
        found = {"many": many(home / "many", sizes, given.changes)}
        busy = {f"busy_{n}": given.small_rows for n in range(given.busy)}
        found["few"] = few(home / "few", busy, given.tables - given.busy, given.changes)
    sizes_asked = {name: value for name, value in vars(given).items() if isinstance(value, int) and name != "save"}
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    return told(given, page.MANY, {"machine": machine, "sizes": sizes_asked, **found})


def many(home: Path, sizes: Mapping[str, int], changes: int) -> dict[str, Any]:
    """Measure a run of tables of these sizes (name → rows), plain Spark on the same files, and a run with nothing to do."""
    config = _made(home, sizes, changes)
    with App.open(config) as app:
        costs = [_run(app, home, sizes, hour) for hour in range(HOURS + 1)]
        spark = app.runtime.spark()
        plain = [_noted("plain Spark", measured(partial(_plain, spark, home, sizes, hour))[1]) for hour in range(1, HOURS + 1)]
        peak = peak_memory()
    idle, status = command(config, "run"), command(config, "status")
    return {
        "load": vars(costs[0]),
        "run": _least(costs[2:]),
        "plain": _least(plain[1:]),
        "peak_bytes": peak,
        "idle": vars(idle),
        "status": vars(status),
    }


def few(home: Path, busy: Mapping[str, int], others: int, changes: int) -> dict[str, Any]:
    """Measure runs of tables with work (name → rows) among others without, and alone."""
    config = _made(home, {**busy, **{f"other_{n}": _LITTLE for n in range(others)}}, changes)
    alone = _made(home / "alone", busy, changes)
    found = {}
    for kind, path in (("among", config), ("alone", alone)):
        with App.open(path) as app:
            found[kind] = _least([_run(app, path.parent, busy, hour) for hour in range(HOURS + 1)][2:])
    return found


def _made(home: Path, sizes: Mapping[str, int], changes: int) -> Path:
    """Write a configuration and the hours of its tables, land hour 0 of all, and return the configuration's path."""
    for name, rows in sizes.items():
        land(_hours(home, name), rows, changes, HOURS if rows > _LITTLE else 0)
        _stage(home, name, 0)
    return configured(home, str(home), [*sizes])


def configured(home: Path, warehouse: str, names: Sequence[str]) -> Path:
    """Write the configuration of tables with these names into a folder, and return its path."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "compactor.yaml"
    tables = "".join(f"  {name}: {{}}\n" for name in names)
    defaults = "defaults: {key: [id], order_by: [seq], format: parquet}\n"
    path.write_text(f"warehouse: {warehouse}\ncatalog: {{database: bench}}\n{defaults}tables:\n{tables}", encoding="utf-8")
    return path


def _hours(home: Path, name: str) -> Path:
    return home / "hours" / name


def _stage(home: Path, name: str, hour: int) -> None:
    """Link the files of an hour into the landing folder: a run moves them to the archive."""
    shutil.copytree(_hours(home, name) / str(hour), home / name / "incremental" / f"increment_{hour_text(hour)}", copy_function=os.link)


def _run(app: App, home: Path, names: Mapping[str, int], hour: int) -> Cost:
    for name in names if hour else ():
        _stage(home, name, hour)
    reports, cost = measured(app.run)
    if failed := [report for report in reports if report.error is not None]:
        raise RuntimeError(f"{failed[0].table}: {failed[0].error}")
    if (made := sum(report.outcome == "committed" for report in reports)) != len(names if hour else reports):
        raise RuntimeError(f"hour {hour}: {made} tables were committed")
    return _noted(f"hour {hour} of {len(names)} of {len(reports)} tables", cost)


def _plain(spark: SparkSession, home: Path, names: Mapping[str, int], hour: int) -> None:
    for name in names:
        spark.sql(newest(f"parquet.`{_hours(home, name) / str(hour)}`", f"{NAMES}, op")).write.parquet(str(home / "plain" / str(hour) / name))


def command(config: Path, *command: str) -> Cost:
    words = [sys.executable, "-m", "compactor", *command, "--config", str(config)]
    return _noted(f"compactor {' '.join(command)}", measured(partial(subprocess.run, words, check=True, capture_output=True))[1])


def _least(costs: Sequence[Cost]) -> dict[str, Any]:
    return vars(min(costs, key=lambda cost: cost.cpu_seconds))


def _noted(what: str, cost: Cost) -> Cost:
    print(f"  {what}: {cost.seconds:.1f} s, {cost.cpu_seconds:.1f} CPU s", file=sys.stderr, flush=True)
    return cost


if __name__ == "__main__":
    sys.exit(main())
