"""The cost law, with constants from the measurements, and a simulation of many tables with it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Results = Sequence[dict[str, Any]]


def one(results: Results, system: str, rows: int, changes: int) -> dict[str, Any] | None:
    """Return the measurement of a system at a size, or None."""
    return next((each for each in results if (each["system"], each["rows"], each["changes"]) == (system, rows, changes)), None)


def commit(measurement: dict[str, Any], what: str) -> float:
    """Return the median of its commits: `cpu_seconds` or `bytes_written`."""
    return float(statistics.median(cost[what] for cost in measurement["commits"]))


@dataclass(frozen=True)
class Law:
    """The constants of the law, all of them measured."""

    fixed: float
    """CPU seconds of a commit without rows."""
    change: float
    """CPU seconds for a changed row in a commit."""
    rewritten: float
    """CPU seconds for a row in a compaction."""
    delta_bytes: float
    """Bytes of a changed row in a Delta."""
    base_bytes: float
    """Bytes of a row in a base."""
    naive: float
    """CPU seconds for a row of the table in a commit of the naive recipe."""

    def commit(self, changes: float, stored: float = 0) -> float:
        """Return the CPU seconds of a commit of `changes` rows on a Delta of `stored` rows, which it writes again as a compaction would."""
        return self.fixed + self.change * changes + self.rewritten * stored


def fitted(results: Results) -> Law | None:
    """Return the law through the measured points: the smallest and the largest commit, and the largest tables that were rewritten.

    None without commits of two sizes, and one of the naive recipe.
    """
    ours = sorted((each for each in results if each["system"] == "compactor"), key=lambda each: (each["changes"], each["rows"]))
    naive = [each for each in results if each["system"] == "naive"]
    if not naive or not ours or ours[0]["changes"] == ours[-1]["changes"]:
        return None
    few, many = ours[0], next(each for each in ours if each["changes"] == ours[-1]["changes"])
    slope = (commit(many, "cpu_seconds") - commit(few, "cpu_seconds")) / (many["changes"] - few["changes"])
    largest, rewritten = (max(same, key=lambda each: int(each["rows"])) for same in (ours, naive))
    return Law(
        fixed=commit(few, "cpu_seconds") - slope * few["changes"],
        change=slope,
        rewritten=largest["compact"]["cpu_seconds"] / largest["rows"],
        delta_bytes=many["commits"][0]["bytes_written"] / many["changes"],
        base_bytes=largest["load"]["bytes_written"] / largest["rows"],
        naive=commit(rewritten, "cpu_seconds") / rewritten["rows"],
    )


@dataclass(frozen=True)
class Day:
    """What all tables cost on an average day."""

    tables: int
    stored: float
    """Bytes of all tables."""
    cpu_seconds: float
    bytes_written: float
    naive_cpu_seconds: float
    naive_bytes_written: float


def sizes(tables: int, stored: float) -> list[float]:
    """Return the bytes of each table. They are lognormal: the largest tenth of 500 tables has two thirds of all bytes."""
    shares = [math.exp(1.7 * statistics.NormalDist().inv_cdf((number + 0.5) / tables)) for number in range(tables)]
    return [stored * share / sum(shares) for share in shares]


def simulated(law: Law, tables: int, stored: float, changing: float = 1e-4, hours: int = 30 * 24) -> Day:
    """Go through `hours` hours of `tables` tables of `stored` bytes together. Each hour changes the share `changing` of every table's rows."""
    cpu = written = naive_cpu = naive_bytes = 0.0
    for size in sizes(tables, stored):
        rows = size / law.base_bytes
        changes, interval, delta = rows * changing, math.sqrt(2 / changing), 0.0
        for _ in range(hours):
            cpu += law.commit(changes, delta)
            delta += changes
            written += law.delta_bytes * delta
            if delta >= interval * changes:
                cpu += law.rewritten * rows
                written += law.base_bytes * rows
                delta = 0.0
        naive_cpu += hours * law.naive * rows
        naive_bytes += hours * law.base_bytes * rows
    days = hours / 24
    return Day(tables, stored, cpu / days, written / days, naive_cpu / days, naive_bytes / days)


def days(law: Law) -> Iterator[Day]:
    """Yield simulated days, from one table of 200 GB to 500 tables of 100 TB."""
    for tables in (1, 5, 50, 500):
        yield simulated(law, tables, tables * 2e11)
