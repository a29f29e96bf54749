"""`python -m benchmarks.debezium`: what a commit of Debezium's JSON costs, beside plain Spark's `from_json` with the schema given, dedupe and write.

The records are as a connector without `schemas.enable` sends them: before, after, source, op. Of ten changes eight update, one deletes, one inserts.
Prints the figures as JSON. `--save` also puts them into benchmarks/results/debezium.json, and writes docs/performance.md again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.peers import page
from benchmarks.program import options, scratch, session, told
from benchmarks.table import Table, hour_text
from benchmarks.usage import Cost, measured, median

_COLUMNS = "id: BIGINT, name: STRING, email: STRING, region: INT, amount: STRING, changed_at: BIGINT, token: BIGINT"
_SCHEMA = f"before STRUCT<{_COLUMNS}>, after STRUCT<{_COLUMNS}>, source STRUCT<lsn: BIGINT, sequence: STRING>, op STRING, ts_ms BIGINT"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = options(__doc__, saves=True)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the table")
    parser.add_argument("--changes", type=int, default=10_000, help="changes in a commit")
    parser.add_argument("--repeat", type=int, default=5, help="commits; the median is printed")
    given = parser.parse_args(arguments)
    with scratch(given) as root, session(root, master="local[2]") as spark:
        # a table that is not measured first: a cold JVM would be charged to it
        _measured(spark, root / "warm", max(1, given.rows // 10), max(1, given.changes // 10), 3)
        result = _measured(spark, root / "customer", given.rows, given.changes, given.repeat)
    return told(given, page.DEBEZIUM, {"rows": given.rows, "changes": given.changes, **result})


def _measured(spark: SparkSession, root: Path, rows: int, changes: int, repeat: int) -> dict[str, Any]:
    table = Table(spark, root.parent, rows, name=root.name, envelope="debezium", format="json", order_by=(), write_mode="merge-on-read")
    _land(table, 0, ({"before": None, "after": _row(key, 0), "op": "r"} for key in range(rows)))
    table.run()
    ours, plain = list[Cost](), list[Cost]()
    for hour in range(1, repeat + 1):
        folder = _land(table, hour, _changes(rows, changes, hour))
        # by turns, so that neither finds the warmer JVM
        plain.append(measured(partial(_plain, spark, folder, root / f"plain-{hour}"))[1])
        ours.append(measured(table.run)[1])
    medians = {"compactor": median(ours), "plain": median(plain)}
    return {name: {"seconds": round(cost.seconds, 2), "cpu_seconds": round(cost.cpu_seconds, 2)} for name, cost in medians.items()}


def _plain(spark: SparkSession, folder: Path, out: Path) -> None:
    """Parse with the schema given, dedupe by key, write."""
    event = f"SELECT inline(array(from_json(value, '{_SCHEMA}'))) FROM text.`{folder}`"
    newest = f"SELECT *, row_number() OVER (PARTITION BY coalesce(after.id, before.id) ORDER BY source.lsn DESC) AS n FROM ({event})"
    spark.sql(f"SELECT after.*, op, source.lsn FROM ({newest}) WHERE n = 1").write.parquet(str(out))


def _row(key: int, seq: int) -> dict[str, Any]:
    number = key * 37 + seq
    return {
        "id": key,
        "name": f"customer {key}",
        "email": f"c{key % 5000}@example.org",
        "region": key % 200,
        "amount": f"{number % 100_000 / 100:.2f}",
        "changed_at": 1_700_000_000_000_000 + key % 31_536_000 * 1_000_000,
        "token": number * 2_654_435_761 % 2**62,
    }


def _changes(rows: int, changes: int, hour: int) -> Iterator[dict[str, Any]]:
    # the same changes every time
    keys = random.Random(hour)
    for number in range(changes):
        seq = rows * hour + number
        key = keys.randrange(rows)
        if number % 10 == 9:
            yield {"before": None, "after": _row(rows * (hour + 1) + number, seq), "op": "c"}
        elif number % 10 == 8:
            yield {"before": _row(key, 0), "after": None, "op": "d"}
        else:
            yield {"before": _row(key, 0), "after": _row(key, seq), "op": "u"}


def _land(table: Table, hour: int, events: Iterator[dict[str, Any]]) -> Path:
    """Write events as lines, each with the source block of PostgreSQL's connector, and return the folder."""
    folder = Path(table.spec.landing) / f"increment_{hour_text(hour)}"
    folder.mkdir(parents=True)
    with (folder / "part-0.json").open("w", encoding="utf-8") as stream:
        for number, event in enumerate(events):
            lsn, millis = 1_000_000_000 * (hour + 1) + number, 1_700_000_000_000 + 3_600_000 * hour
            source = {"connector": "postgresql", "ts_ms": millis, "snapshot": "false", "db": "shop", "schema": "public", "table": "customer"}
            source |= {"txId": 700 + number, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
            stream.write(json.dumps({**event, "source": source, "ts_ms": millis}) + "\n")
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
