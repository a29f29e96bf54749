"""`python -m benchmarks.read`: one query each in a process of its own, by DuckDB and by Spark, and through `compactor.read`.

The table is landed as flat Parquet files, loaded and changed by `compactor run`: a base, and a Delta of `--changes` rows.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.program import options, scratch

CONFIG = "warehouse: .\ncatalog: {database: bench}\ntables:\n  customer: {key: [id], order_by: [seq], format: parquet, write_mode: merge-on-read}\n"
_ROW = (
    "{id} AS id, {seq} AS seq, {op} AS op, 'customer ' || {id} AS name, 'c' || ({id} % 5000) || '@example.org' AS email, "
    "CAST({id} % 200 AS INTEGER) AS region, CAST((({id} * 37 + {seq}) % 100000) / 100 AS DECIMAL(12,2)) AS amount, "
    "make_timestamptz((1700000000 + {id} % 31536000) * 1000000) AS changed_at"
)
QUERIES = {
    "first rows": "select * from customer limit 5",
    "point": "select * from customer where id = {0}",
    "count": "select count(*) as n from customer",
    "aggregate": "select region, sum(amount) as total from customer group by region order by region",
}
PYTHON = {
    "point, to_arrow": "Table.open('compactor.yaml', 'customer').to_arrow(filter='id = {0}')",
    "all rows, to_arrow": "Table.open('compactor.yaml', 'customer').to_arrow()",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the table, ask, and print medians as JSON."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the base")
    parser.add_argument("--changes", type=int, default=10_000, help="rows of the Delta")
    parser.add_argument("--repeat", type=int, default=3, help="processes for each query; the median is printed")
    given = parser.parse_args(arguments)
    with scratch(given) as folder:
        make(folder, given.rows, given.changes)
        found = {"rows": given.rows, "changes": given.changes, "cores": os.cpu_count(), "load": os.getloadavg()[0], "seconds": {}}
        for name, query in QUERIES.items():
            text = query.format(given.rows // 3)
            words = {engine: ("-m", "compactor", "sql", text, "--engine", engine, "--output", "json") for engine in ("duckdb", "spark")}
            results = {engine: _measured(folder, command, given.repeat) for engine, command in words.items()}
            assert _rows(results["duckdb"]) == _rows(results["spark"]) or "limit" in text, f"{name}: the engines differ"
            found["seconds"][name] = {engine: {key: each[key] for key in ("wall", "cpu")} for engine, each in results.items()}
        for name, code in PYTHON.items():
            result = _measured(folder, ("-c", f"from compactor.read import Table\n{code.format(given.rows // 3)}"), given.repeat)
            found["seconds"][name] = {"compactor.read": {key: result[key] for key in ("wall", "cpu")}}
    print(json.dumps(found, indent=2))
    return 0


def make(folder: Path, rows: int, changes: int) -> None:
    """Land and run two increments: every row once; then changes of every tenth kind all over the table."""
    import duckdb

    (folder / "compactor.yaml").write_text(CONFIG)
    everything = f"SELECT {_ROW.format(id='i', seq='i', op=repr('c'))} FROM range({rows}) AS r(i)"
    key, op = f"(i * 7919) % {rows}", "CASE WHEN i % 10 = 8 THEN 'd' ELSE 'u' END"
    later = f"SELECT {_ROW.format(id='k', seq='s', op='o')} FROM (SELECT {key} AS k, {rows} + i AS s, {op} AS o FROM range({changes}) AS r(i))"
    for hour, query in enumerate((everything, later)):
        landing = folder / "customer" / "incremental" / f"increment_20240305{hour:02d}"
        landing.mkdir(parents=True)
        duckdb.connect().execute(f"COPY ({query}) TO '{landing}/part-0.parquet' (FORMAT parquet)")
        subprocess.run([sys.executable, "-m", "compactor", "run"], cwd=folder, check=True, capture_output=True)


def _rows(result: dict[str, Any]) -> Any:
    return json.loads(result["output"])


def _measured(folder: Path, words: Sequence[str], repeat: int) -> dict[str, Any]:
    """Run a Python process several times. Return its output, and medians of wall and CPU seconds."""
    wall, cpu, output = [], [], ""
    # compiled modules are kept, as in an installation; the first process, which compiles them, is not counted
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for number in range(repeat + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        output = subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True, text=True, env=environment).stdout
        if number == 0:
            continue
        wall.append(time.monotonic() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"output": output, "wall": round(statistics.median(wall), 2), "cpu": round(statistics.median(cpu), 2)}


if __name__ == "__main__":
    sys.exit(main())
