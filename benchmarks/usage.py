"""What work costs: wall seconds, CPU seconds of this process and everything below it, bytes on disk."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_TICKS = os.sysconf("SC_CLK_TCK")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Cost:
    """Of one piece of work."""

    seconds: float
    cpu_seconds: float
    bytes_written: int = 0


def measured(work: Callable[[], _T], directories: Iterable[Path] = ()) -> tuple[_T, Cost]:
    """Do it; `directories` are looked at for files that were not there before."""
    watched = list(directories)
    before, cpu, began = _files(watched), cpu_seconds(), time.monotonic()
    done = work()
    seconds, spent = time.monotonic() - began, cpu_seconds() - cpu
    after = _files(watched)
    return done, Cost(seconds, spent, sum(size for path, size in after.items() if path not in before))


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
        round(statistics.median(cost.bytes_written for cost in costs)),
    )


def cpu_seconds() -> float:
    """Of this process and its descendants, the JVM among them, since they began."""
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # the program's name stands in parentheses and may hold anything
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    return sum(spent for pid, spent in times.items() if _below(pid, os.getpid(), parents))


def bytes_read() -> int:
    """Bytes that read calls have given this process and its descendants, whether from disk or from the page cache."""
    parents, read = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                read[int(entry.name)] = int((entry / "io").read_text().split()[1])
            except OSError:
                continue
    return sum(count for pid, count in read.items() if _below(pid, os.getpid(), parents))


def _below(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid and pid != top:
        pid = parents.get(pid, 0)
    return pid == top


def _files(directories: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_size for directory in directories for path in directory.rglob("*.parquet")}
