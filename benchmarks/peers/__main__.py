"""`python -m benchmarks.peers`: load, hourly changes, read and compaction, in compactor and in other systems.

All read the same landed Parquet files. Each runs in a process of its own, where a small table comes first. The final tables are compared with an
answer that DuckDB computes from the landed files; a difference is an error. `--save` puts the figures into benchmarks/results/peers.json, in place
of earlier ones of the same system and size, and writes docs/performance.md from it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import page
from benchmarks.peers.landed import land
from benchmarks.peers.pins import SYSTEMS
from benchmarks.program import options, scratch, today

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return 1 if a system failed."""
    parser = options(__doc__, saves=True)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--changes", type=int, default=10_000, help="changes an hour")
    parser.add_argument("--hours", type=int, default=3, help="hours after the load")
    parser.add_argument("--systems", default="all", help=f"names separated by commas; all: {', '.join(SYSTEMS)}")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    given = parser.parse_args(arguments)
    names = list(SYSTEMS) if given.systems == "all" else given.systems.split(",")
    if unknown := set(names) - set(SYSTEMS):
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    results, failed = [], []
    with scratch(given) as root:
        landed = land(root / "landed", given.rows, given.changes, given.hours)
        warm = land(root / "warm", max(1, min(50_000, given.rows // 2)), min(1_000, given.changes), 2)
        for name in names:
            print(f"{name}, {given.rows:,} rows, {given.changes:,} changes", file=sys.stderr, flush=True)
            (root / name).mkdir()
            try:
                measured = _measured(name, root / name, warm, landed)
            except subprocess.CalledProcessError as error:
                print(f"{name} failed: exit code {error.returncode}", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            results.append({"system": name, "rows": given.rows, "changes": given.changes, **measured})
            if given.save:
                save(results[-1:])
    if given.output == "json":
        print(json.dumps(results, indent=2))
    else:
        print("\n".join(page.systems_table(results)))
    return 1 if failed else 0


def save(results: Sequence[dict[str, Any]]) -> None:
    """Keep results, and write the page."""
    kept = {(each["rows"], each["changes"], each["system"]): each for each in [*page.stored(), *results]}
    ordered = sorted(kept.values(), key=lambda each: (each["rows"], each["changes"], list(SYSTEMS).index(each["system"])))
    page.RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, ordered)) + "\n]\n", encoding="utf-8")
    page.write()


def _measured(name: str, home: Path, warm: Path, landed: Path) -> dict[str, Any]:
    """Run the worker of one system and remove its folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    python = str(ROOT / "build" / "peers" / "bin" / "python") if SYSTEMS[name].module == "duck" else sys.executable
    command = [python, "-m", "benchmarks.peers.worker", name, str(home), str(warm), str(landed)]
    try:
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=home)
    finally:
        shutil.rmtree(home)
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    return {"date": today(), "machine": machine, **json.loads(run.stdout)}


if __name__ == "__main__":
    sys.exit(main())
