"""A table to measure: flat Parquet increments made with spark.range, run by the real flows."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from benchmarks.usage import Cost, measured
from compactor.catalog.hive import HiveCatalog
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows import table as flows_table
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.spark.engine import SparkEngine
from compactor.storage.local import LocalStorage

DATABASE = "bench"
FIRST_HOUR = dt.datetime(2024, 3, 5, tzinfo=dt.timezone.utc)
"""The first increment's; each one after is of the next hour."""

_ROW = """
    {id} AS id, CAST({seq} AS BIGINT) AS seq, {op} AS op,
    concat('customer ', {id}) AS name, concat('c', {id} % 5000, '@example.org') AS email,
    CAST({id} % 200 AS INT) AS region, CAST(({id} * 37 + {seq}) % 100000 / 100 AS DECIMAL(12,2)) AS amount,
    timestamp_seconds(1700000000 + {id} % 31536000) AS changed_at, xxhash64({id}, {seq}) AS token
"""


_TABLE: dict[str, Any] = {"key": ("id",), "order_by": ("seq",), "write_mode": "merge-on-read"}


def hour_text(hour: int) -> str:
    """The hour of increment `hour` as its folder names it."""
    return f"{FIRST_HOUR + dt.timedelta(hours=hour):%Y%m%d%H}"


def load_query(rows: int) -> str:
    """Every row once."""
    return f"SELECT {_ROW.format(id='id', seq='id', op=repr('c'))} FROM range({rows})"


def change_query(rows: int, changes: int, hour: int, first: int = 0) -> str:
    """The changes of an hour: of ten eight update, one deletes, one inserts; keys all over the table, or from `first` on."""
    seq = rows * (hour + 1)
    key = f"CASE WHEN id % 10 = 9 THEN {seq} + id ELSE {first} + pmod(xxhash64(id, {hour}), {rows - first}) END"
    op = "CASE id % 10 WHEN 8 THEN 'd' WHEN 9 THEN 'c' ELSE 'u' END"
    return f"SELECT {_ROW.format(id='k', seq='s', op='o')} FROM (SELECT {key} AS k, {seq} + id AS s, {op} AS o FROM range({changes}))"


def warm_up(sizes: Sequence[int]) -> int:
    """Rows of a table that is measured first and not told: a cold JVM would be charged to whatever comes first."""
    return min(50_000, min(sizes) // 2)


class Table:
    """`load` it, `change` it, look at its `snapshot`."""

    def __init__(self, spark: SparkSession, root: Path, rows: int, name: str = "", **settings: Any) -> None:
        """`settings` of its TableSpec over ours."""
        self.spark, self.rows, self._hour = spark, rows, 0
        # the port speaks of batches, this engine of its own
        engine: Any = SparkEngine(spark, LocalStorage())
        storage, catalog = LocalStorage(), HiveCatalog(spark)
        self._world = Environment(storage, lambda: engine, lambda: catalog)
        name = name or f"t{rows}"
        self.root = root / name
        landing = str(self.root / "incremental")
        self.spec = TableSpec(name, str(self.root), landing, "increment_%Y%m%d%H", DATABASE, name, DATABASE, **{**_TABLE, **settings})

    def load(self) -> Cost:
        """The first increment: every row once."""
        self._land(load_query(self.rows), max(1, self.rows // 1_000_000))
        return self._run(self.spec)

    def change(self, changes: int, write_mode: Literal["merge-on-read", "copy-on-write"] = "merge-on-read", first: int = 0) -> Cost:
        """One more increment, keys all over the table or from `first` on: of ten changes eight update, one deletes, one inserts."""
        self._land(change_query(self.rows, changes, self._hour, first), 1)
        return self._run(dataclasses.replace(self.spec, write_mode=write_mode))

    def snapshot(self) -> Snapshot:
        """The newest."""
        found = flows_table.Table(self._world, self.spec).newest()
        if found is None:
            raise RuntimeError(f"{self.spec.name} was not loaded")
        return found

    def version(self, number: int) -> Snapshot:
        """An older one."""
        found = flows_table.Table(self._world, self.spec).snapshot(number)
        if found is None:
            raise RuntimeError(f"{self.spec.name} has no version {number}")
        return found

    def _land(self, query: str, files: int) -> None:
        folder = Path(self.spec.landing) / f"increment_{hour_text(self._hour)}"
        self.spark.sql(query).coalesce(files).write.parquet(str(folder))
        self._hour += 1

    def run(self, **settings: Any) -> None:
        """Run on what has landed, with `settings` of its TableSpec changed."""
        run_table(flows_table.Table(self._world, dataclasses.replace(self.spec, **settings)))

    def _run(self, spec: TableSpec) -> Cost:
        _, cost = measured(lambda: run_table(flows_table.Table(self._world, spec)), (self.root / "base", self.root / "delta", self.root / "feed"))
        return cost
