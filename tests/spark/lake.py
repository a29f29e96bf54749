"""Lake: a warehouse in a folder, fed by hand and run by the real flows on the real engine."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from compactor.catalog.hive import HiveCatalog
from compactor.core.model.errors import CatalogRefused
from compactor.core.model.position import sort_key
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.record import TableReport
from compactor.duckdb import sample
from compactor.flows.environment import Environment
from compactor.flows.read import quarantine
from compactor.flows.read.verify import verify
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.flows.verbs import replay_table
from compactor.spark.engine import SparkEngine
from compactor.spark.input.kafka import Schemas
from compactor.spark.rows.position import from_row
from compactor.storage.local import LocalStorage
from tests.read import same_rows

_JSON = "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]'Z'\")) AS row"

Row = Mapping[str, Any]


class Lake:
    """`land` files, `run` tables, read `rows` of views."""

    def __init__(self, spark: SparkSession, root: Path, schemas: Schemas = None) -> None:
        self.spark, self.root = spark, root
        self.now = 1_700_000_000.0
        storage, engine, catalog = LocalStorage(), SparkEngine(spark, LocalStorage(), schemas), HiveCatalog(spark)
        self.env = Environment(storage, lambda: engine, lambda: catalog, clock=lambda: self.now, read_sample=sample.read)
        self.database = re.sub(r"\W", "_", root.name).lower()

    def spec(self, name: str = "t", **settings: Any) -> TableSpec:
        """A flat JSON table keyed by `id` and ordered by `seq`, unless `settings` say otherwise."""
        landing = str(self.root / name / "incremental")
        given = {"key": ("id",), "order_by": ("seq",), **settings}
        return TableSpec(name, str(self.root / name), landing, "increment_%Y%m%d%H", self.database, name, self.database, **given)

    def land(self, spec: TableSpec, hour: int, rows: Sequence[Row | str | None], file: str = "part-0.json") -> Path:
        """JSON lines in the folder of an hour; a text is written as it is."""
        path = Path(spec.landing) / f"increment_20240305{hour:02d}" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if file.endswith(".gz") else text.encode())
        return path

    def land_parquet(self, spec: TableSpec, hour: int, rows: Sequence[Row], ddl: str) -> Path:
        """One Parquet file in the folder of an hour."""
        folder = Path(spec.landing) / f"increment_20240305{hour:02d}"
        frame = self.spark.createDataFrame([tuple(row.values()) for row in rows], ddl)
        frame.coalesce(1).write.mode("append").parquet(str(folder))
        return max(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)

    def run(self, spec: TableSpec) -> TableReport:
        """One run; errors are raised. Every run comes a second after the last."""
        self.now += 1
        return run_table(Table(self.env, spec))

    def replay(self, spec: TableSpec, *paths: str) -> TableReport:
        """Take again what waits in quarantine."""
        self.now += 1
        return replay_table(Table(self.env, spec), paths)

    def rows(self, spec: TableSpec, view: str = "") -> list[dict[str, Any]]:
        """What the view shows, ordered by its columns. DuckDB shows the same."""
        table = self.spark.table(f"`{self.database}`.`{view or spec.view}`")
        found = [json.loads(row.row, parse_float=Decimal) for row in table.selectExpr(_JSON).collect()]
        self._check_duckdb(spec, view or spec.view, found)
        return sorted(found, key=lambda row: json.dumps(row, default=str))

    def _check_duckdb(self, spec: TableSpec, name: str, found: Sequence[dict[str, Any]]) -> None:
        try:
            shown = self.env.catalog().view(self.database, name)
        except CatalogRefused:
            # a table, such as the feed
            return
        version = same_rows.version_shown(shown) if shown is not None else 0
        if version:
            view = same_rows.defined(spec, Table(self.env, spec).committed(version), name)
            if view is not None:
                same_rows.check(view, found)

    def snapshot(self, spec: TableSpec) -> Snapshot:
        """The newest Snapshot."""
        found = Table(self.env, spec).newest()
        assert found is not None
        return found

    def problems(self, spec: TableSpec) -> list[str]:
        """What `verify` finds wrong, and rows outside of the Positions that the Snapshot gives their part."""
        return [*(f"{check.name}: {check.detail}" for check in verify(Table(self.env, spec)) if not check.ok), *self._outside(spec)]

    def _outside(self, spec: TableSpec) -> list[str]:
        layout, snapshot, outside = spec.layout, self.snapshot(spec), []
        for part in (*snapshot.segments, *([snapshot.delta] if snapshot.delta else [])):
            assert part.position_min is not None
            assert part.position_max is not None
            low, high = sort_key(part.position_min), sort_key(part.position_max)
            for file in part.files:
                rows = pq.read_table(f"{layout.inside(part.path)}/{file.name}", partitioning=None).to_pylist()
                places = (from_row((row.get("_gone") or row["_at"]).values()) for row in rows)
                outside += [f"{part.path}: {place}" for place in places if place and not low <= sort_key(place) <= high]
        return outside

    def unusable(self, spec: TableSpec) -> list[tuple[int, str]]:
        """The records in quarantine, in their order: number and reason."""
        table = Table(self.env, spec)
        waiting = quarantine.waiting(table, self.snapshot(spec))
        return sorted((each["record"], each["reason"]) for file in waiting for each in quarantine.reasons(table, file)["unusable"])

    def landed(self, spec: TableSpec) -> list[str]:
        """Files still in landing."""
        mark = Path(spec.layout.landing_owner())
        return sorted(path.name for path in Path(spec.landing).rglob("*") if path.is_file() and path != mark)

    def with_settings(self, spec: TableSpec, **settings: Any) -> TableSpec:
        """The same table, configured otherwise."""
        return dataclasses.replace(spec, **settings)
