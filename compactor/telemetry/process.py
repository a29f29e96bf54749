"""CPU time of this process and its children, most of all of the JVM. Linux only; elsewhere it is unknown."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def cpu_seconds() -> float | None:
    """Return the CPU seconds of this process and of all its descendants so far, or None if the system does not report them."""
    try:
        ticks = float(os.sysconf("SC_CLK_TCK"))
        stats = [each for name in os.listdir("/proc") if name.isdigit() and (each := _stat(Path("/proc", name, "stat"))) is not None]
    except (OSError, ValueError, AttributeError):
        return None
    children: dict[int, list[int]] = {}
    used = {}
    for process, parent, count in stats:
        children.setdefault(parent, []).append(process)
        used[process] = count
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0)
        waiting += children.get(process, [])
    return total / ticks if total else None


def _stat(path: Path) -> tuple[int, int, int] | None:
    """Return (process, parent, ticks of itself and of its ended children)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        head, _, rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")
        fields = rest.split()
        return int(head.split()[0]), int(fields[1]), sum(int(value) for value in fields[11:15])
    return None
