"""The systems that are measured, with their versions and settings: the only place where these are written.

`python -m benchmarks.peers.pins` prints what `make bench-peers` installs into build/peers.
"""

from __future__ import annotations

from dataclasses import dataclass

CORES = 2
MEMORY = "4g"
"""Of every JVM's heap."""

PIP = ("deltalake==1.6.6", "pypaimon==2.1.0", "duckdb>=1.5")
"""What is in build/peers, an environment of its own: pypaimon needs an older pyarrow than the project."""


@dataclass(frozen=True)
class Pin:
    """One system."""

    version: str
    """The version that is measured; empty: that of this checkout."""
    settings: str
    """What is set beside the defaults, as its documentation describes it."""
    module: str
    """Module in benchmarks.peers whose `open_system` makes it."""
    jars: str = ""
    """Maven coordinates, separated by commas."""
    is_table: bool = True
    """Whether it keeps a table, which is compared with the right answer."""


_DELTA = ("tables", "io.delta:delta-spark_2.12:3.3.3")
_HUDI = ("tables", "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0")
_ICEBERG = ("tables", "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0")

SYSTEMS = {
    "compactor": Pin("", "`key: [id]`, `order_by: [seq]`; all else default", "ours"),
    "compactor-history": Pin("", "the same with `history: true`", "ours"),
    "compactor-ro": Pin(
        "", "the same with `read_optimized: true`; read = the view of the base alone, which is as old as the last compaction", "ours"
    ),
    "compactor-standard": Pin("", "the same with `parquet: standard`", "ours"),
    "naive": Pin("", "union of table and changes, newest row per key (`row_number`), write everything", "plain"),
    "limits": Pin(
        "",
        "no table: load = dedupe, range partition, sort, write; commit = read, dedupe and write the changes alone; compaction = scan and write; "
        "read = bare scan",
        "plain",
        is_table=False,
    ),
    "paimon": Pin(
        "0.9.0",
        "primary key, `bucket = 2`, `sequence.field = seq`, `rowkind.field`; `INSERT INTO` of the changes as they are",
        "tables",
        "org.apache.paimon:paimon-spark-3.5:0.9.0",
    ),
    "pypaimon": Pin(PIP[1].partition("==")[2], "Paimon's Python implementation, with the same settings of the table", "duck"),
    "delta": Pin("3.3.3", "`MERGE` of the newest row per key; `delta.enableDeletionVectors = false`", *_DELTA),
    "delta-dv": Pin("3.3.3", "the same with `delta.enableDeletionVectors = true`", *_DELTA),
    "hudi-cow": Pin("1.2.0", "`COPY_ON_WRITE`, not partitioned, ordering field `seq`; `bulk_insert`, then `upsert`, Kryo", *_HUDI),
    "hudi-mor": Pin("1.2.0", "the same with `MERGE_ON_READ`", *_HUDI),
    "iceberg-cow": Pin("1.12.0", "Hadoop catalog, format 2; `MERGE` of the newest row per key; `write.merge.mode = copy-on-write`", *_ICEBERG),
    "iceberg-mor": Pin("1.12.0", "the same with `write.merge.mode = merge-on-read`", *_ICEBERG),
    "delta-rs": Pin(PIP[0].partition("==")[2], "`write_deltalake`, then `merge`; DuckDB takes the newest row per key", "duck"),
    "duckdb": Pin("", "the naive recipe in SQL over Parquet files, `threads = 2`", "duck"),
}
"""Name → Pin, in the order of the page."""

NOT_MEASURED = {
    "Paimon 1.x and 2.x on Spark": "the registry that this machine reaches has paimon-spark for Spark 3.5 only as 0.9.0",
}
"""System → why it is not in the table."""

if __name__ == "__main__":
    print(*PIP)
