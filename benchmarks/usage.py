"""What work costs: wall seconds, CPU seconds of this process and everything below it, bytes on disk."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
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
    return sum(sum(map(int, fields[11:15])) for _, fields in _family()) / _TICKS


def bytes_read() -> int:
    """Bytes that read calls have given this process and its descendants, whether from disk or from the page cache."""
    read = 0
    for process, _ in _family():
        with suppress(OSError):
            read += int((process / "io").read_text().split()[1])
    return read


def peak_memory() -> int:
    """The most bytes of memory that this process and its descendants ever used, all together."""
    texts = [(process / "status").read_text() for process, _ in _family()]
    return sum(int(line.split()[1]) << 10 for text in texts for line in text.splitlines() if line.startswith("VmHWM:"))


def _family() -> list[tuple[Path, list[str]]]:
    """Return this process and its descendants: the folder in /proc, and the fields of `stat` behind the program's name."""
    fields: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # the program's name stands in parentheses and may hold anything
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()

    def ours(pid: int) -> bool:
        while pid in fields and pid != os.getpid():
            pid = int(fields[pid][1])
        return pid == os.getpid()

    return [(Path("/proc") / str(pid), each) for pid, each in fields.items() if ours(pid)]


def _files(directories: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_size for directory in directories for path in directory.rglob("*.parquet")}
