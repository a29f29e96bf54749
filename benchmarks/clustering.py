"""`python -m benchmarks.clustering`: what a filtered aggregate reads from files sorted by key, by `cluster_by:`, and from one folder a value.

Three tables with the same rows; the columns of the filters have nothing to do with the key. `folders` is what `partition_by:` would write
(docs/design/view.md): each Segment of the first table has a folder for each value of `region`, registered as a partition.
The sources take turns, so that a busy machine slows all of them alike. Bytes are those of the read calls, without what opening a view reads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.program import options, scratch, session
from benchmarks.table import DATABASE, Table
from benchmarks.usage import bytes_read, measured
from compactor.core.catalog import views
from compactor.core.schema import clustering
from compactor.duckdb import queries
from compactor.duckdb.session import connect
from compactor.storage.local import LocalStorage

FILTERS = {"region": "region = 7", "token": "token BETWEEN 0 AND 184467440737095516", "key": "id = 1234567"}
"""One of 200 values; a hundredth of the values of a hash; a row by its key."""

FOLDERS = "folders"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the tables, ask, and print the figures as JSON."""
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000, help="rows of a table")
    parser.add_argument("--segments", type=int, default=2, help="about how many Segments a table gets")
    parser.add_argument("--row-group", type=int, default=clustering.ROW_GROUP_BYTES, help="bytes of a row group of clustered files")
    parser.add_argument("--repeat", type=int, default=3, help="reads of each kind")
    parser.add_argument("--without-folders", action="store_true", help="do not measure folders")
    given = parser.parse_args(arguments)
    usual, clustering.ROW_GROUP_BYTES = clustering.ROW_GROUP_BYTES, given.row_group
    try:
        with scratch(given) as root, session(root, parquet="standard") as spark:
            found = report(spark, root, given)
    finally:
        clustering.ROW_GROUP_BYTES = usual
    print(json.dumps({**vars(given), "load": os.getloadavg()[0], **found}, indent=2))
    return 0


def report(spark: SparkSession, root: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Return the cost of loading each table, its size, and the cost of each query in each engine."""
    # a row is 41 bytes of Parquet
    size = max(1, 41 * given.rows // given.segments)
    tables, loads = {}, {}
    for name, columns in (("by key", ()), ("by region", ("region",)), ("by token", ("token",))):
        tables[name] = Table(spark, root, given.rows, name.replace(" ", "_"), target_file_bytes=size, cluster_by=columns)
        loads[name] = round(tables[name].load().cpu_seconds, 1)
    texts = {name: views.view_text(table.spec, table.snapshot()) for name, table in tables.items()}
    if not given.without_folders:
        texts[FOLDERS] = folders(spark, root, tables["by key"])
    engines = {"spark": partial(_spark_reads, spark, texts), "duckdb": partial(_duckdb_reads, tables)}
    return {
        "load_cpu": loads,
        "bytes": {name: table.snapshot().size for name, table in tables.items()},
        "files": {name: sum(len(segment.files) for segment in table.snapshot().segments) for name, table in tables.items()},
        **{engine: {name: _figures(reads(condition), given.repeat) for name, condition in FILTERS.items()} for engine, reads in engines.items()},
    }


def folders(spark: SparkSession, root: Path, table: Table) -> str:
    """Write the Segments of a table with a folder for each region. Return a query of them, in which `part` is the folder."""
    name, place = f"{DATABASE}.folders", root / "folders"
    base = f"{DATABASE}.{views.table_name(table.spec, 'base', 1)}"
    rows = spark.sql(f"SELECT *, CAST(region AS STRING) AS part FROM {base}").drop("base_version", "row_state")
    rows.repartition("segment").sortWithinPartitions("segment", "part", "id").write.partitionBy("segment", "part").parquet(str(place))
    columns = ", ".join(f"{field} {kind}" for field, kind in rows.drop("segment", "part").dtypes)
    spark.sql(f"CREATE EXTERNAL TABLE {name} ({columns}) PARTITIONED BY (segment STRING, part STRING) STORED AS PARQUET LOCATION '{place}'")
    spark.sql(f"MSCK REPAIR TABLE {name}")
    return f"SELECT * FROM {name} WHERE row_state = 'live'"


def _spark_reads(spark: SparkSession, texts: dict[str, str], condition: str) -> dict[str, Callable[[], object]]:
    def ask(text: str, condition: str) -> object:
        return spark.sql(f"SELECT count(*), sum(amount), max(email) FROM ({text}) x WHERE {condition}").collect()

    reads: dict[str, Callable[[], object]] = {name: partial(ask, text, condition) for name, text in texts.items() if name != FOLDERS}
    # only a filter on the folder's column skips folders
    pruned = condition.replace("region = 7", "part = '7'")
    return {**reads, **({FOLDERS: partial(ask, texts[FOLDERS], pruned)} if pruned != condition and FOLDERS in texts else {})}


def _duckdb_reads(tables: dict[str, Table], condition: str) -> dict[str, Callable[[], object]]:
    def ask(connection: Any, text: str) -> object:
        return connection.execute(f"SELECT count(*), sum(amount), max(email) FROM ({text}) x WHERE {condition}").fetchall()

    reads: dict[str, Callable[[], object]] = {}
    for name, table in tables.items():
        # a connection keeps what it has read
        connection = connect(LocalStorage(), False)
        connection.execute("SET enable_external_file_cache = false")
        reads[name] = partial(ask, connection, queries.rows(connection, table.spec, table.snapshot()).text)
    return reads


def _figures(reads: dict[str, Callable[[], object]], repeat: int) -> dict[str, dict[str, float]]:
    """Return the median CPU seconds and the least bytes of each source."""
    cpu: dict[str, list[float]] = {name: [] for name in reads}
    read: dict[str, list[int]] = {name: [] for name in reads}
    for number in range(repeat + 1):
        for name, ask in reads.items():
            before = bytes_read()
            _, cost = measured(ask)
            # the first time includes code that is generated for the query
            cpu[name] += [cost.cpu_seconds] if number else []
            read[name] += [bytes_read() - before] if number else []
    return {name: {"cpu": round(statistics.median(cpu[name]), 3), "mb": round(min(read[name]) / 1e6, 2)} for name in reads}


if __name__ == "__main__":
    sys.exit(main())
