"""One system in one process: a small table first, then the table that is measured. Prints the measurement as JSON.

    python -m benchmarks.peers.worker SYSTEM HOME WARM-UP LANDED

HOME is an empty folder; the other two are folders of benchmarks.peers.landed.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.landed import differences
from benchmarks.peers.pins import SYSTEMS
from benchmarks.peers.system import System
from benchmarks.usage import Cost, measured

READS = 3
NOT_TABLE = ("archive", "incremental")
"""Folders with raw files, which compactor keeps below the table: they are moved there, not written."""


def measure(system: System, name: str, table: Path, landed: Path) -> dict[str, Any]:
    """Load the table, commit each hour, read it, compact it; compare it before and after. Raises RuntimeError if it differs from the answer."""
    hours = sorted((path for path in landed.iterdir()), key=lambda path: int(path.name))
    costs = []
    for hour in hours:
        system.stage(table, hour)
        work = system.load if hour is hours[0] else system.commit
        costs.append(_cost(lambda work=work, hour=hour: work(table, hour), table))
        print(f"  {name}, hour {hour.name}: {costs[-1]}", file=sys.stderr, flush=True)
    result: dict[str, Any] = {"load": _plain(costs[0]), "commits": [_plain(cost) for cost in costs[1:]]}
    _compare(system, name, table, landed)
    reads = [measured(lambda: system.read(table))[1] for _ in range(READS + 1)]
    # the first includes planning and code that is generated for this query
    result["read"] = {key: statistics.median(getattr(cost, key) for cost in reads[1:]) for key in ("seconds", "cpu_seconds")}
    if system.compacts:
        result["compact"] = _plain(_cost(lambda: system.compact(table), table))
        _compare(system, name, table, landed)
    return result


def _compare(system: System, name: str, table: Path, landed: Path) -> None:
    if not SYSTEMS[name].is_table:
        return
    final = table.with_name(f"{table.name}-rows-{os.urandom(4).hex()}")
    system.export(table, final)
    if rows := differences(landed, final):
        raise RuntimeError(f"{name}: the table differs from the right answer:\n" + "\n".join(rows))


def _cost(work: Any, table: Path) -> Cost:
    before = _sizes(table)
    _, cost = measured(work)
    return dataclasses.replace(cost, bytes_written=sum(size for path, size in _sizes(table).items() if before.get(path) != size))


def _sizes(table: Path) -> dict[Path, int]:
    """Return the table's files. Hadoop's checksums of local files are left out."""
    files = (path for path in table.rglob("*") if path.suffix != ".crc" and path.relative_to(table).parts[0] not in NOT_TABLE)
    return {path: path.stat().st_size for path in files if path.is_file()}


def _plain(cost: Cost) -> dict[str, float]:
    return {"seconds": round(cost.seconds, 2), "cpu_seconds": round(cost.cpu_seconds, 2), "bytes_written": cost.bytes_written}


def main(name: str, home: str, warm: str, landed: str) -> None:
    """Measure one system."""
    # what a JVM prints must not come between the lines of JSON
    output = os.dup(1)
    os.dup2(2, 1)
    system: System = importlib.import_module(f"benchmarks.peers.{SYSTEMS[name].module}").open_system(name, Path(home))
    database = Path(home) / "bench.db"
    try:
        measure(system, name, database / "warm", Path(warm))
        result = measure(system, name, database / "customer", Path(landed))
    finally:
        system.close()
    with os.fdopen(output, "w") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
