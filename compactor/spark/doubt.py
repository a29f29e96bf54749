"""Whether what a store told Spark of files can be so. An answer that is cut off among its headers is no error to Spark, but a file without content.

S3A takes a HEAD without Content-Length for an object of 0 bytes, and such a GET for the object's end (hadoop-aws 3.3 with AWS SDK 1 over Apache's
HttpClient, which takes the end of a connection for the end of the headers). Rows are missing then, and nothing says so. Seen for each format by
cutting each answer:

- While Spark lists: text, CSV, Avro and Parquet files lose all their rows. `listed` compares Spark's sizes with ours, of landed and of stored
  files.
- While it reads text, CSV and Avro: their rows are missing from one reading and there in the next. `once` has them read once for all the work on
  them, and counts them with a reading of its own.
- While it reads Parquet: an error, for the footer tells what there must be. What makes one reading fail is tried again before a file is blamed.
- Listings of directories, and bodies that are cut: S3A notices, and asks again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import DataFrame

from compactor.core.errors import Doubt
from compactor.spark.files import RawFrame

T = TypeVar("T")

TRIES = 3
_WAIT_SECONDS = 0.5


def remote(location: str) -> bool:
    """Whether answers can be lost on the way from there."""
    return location.startswith("s3://")


def again(attempt: Callable[[], T]) -> T:
    """What `attempt` gives, tried up to `TRIES` times while it is in Doubt."""
    for waited in range(1, TRIES):
        try:
            return attempt()
        except Doubt:
            time.sleep(_WAIT_SECONDS * waited)
    return attempt()


def listed(opened: Callable[[], DataFrame], size: int, what: str, told: Callable[[], int] | None = None) -> DataFrame:
    """Rows of files, which Spark lists now. Raises Doubt unless the files are of `size` bytes in all to it.

    `told` asks the store once more, where files may have been written over since `size` was listed.
    """
    rows = opened()
    found = _size(rows)
    if found != size and (told is None or found != told()):
        raise Doubt(
            f"{what}: expected {size:,} bytes, as listed, and the store told Spark of {found:,}. Nothing was committed. Run again. If it stays so, "
            "somebody changed files there (compactor verify), or something between Spark and the store leaves out answers' Content-Length"
        )
    return rows


def once(raw: RawFrame, hold: Callable[[DataFrame], DataFrame]) -> RawFrame:
    """The frame with rows that are read now and kept by `hold`, where they come from far. Raises Doubt when another reading counts other rows."""
    if not any(remote(path) for path in raw.paths):
        return raw
    rows = hold(raw.rows)
    held, counted = _counts(rows), _counts(raw.rows)
    for path in sorted({*held, *counted}):
        first, second = held.get(path, 0), counted.get(path, 0)
        if first != second:
            raise Doubt(
                f"{path}: Spark read {first:,} rows of it and then {second:,}; expected as many each time. The store's answer was cut off, or the "
                "file was written over. Nothing was committed. Run again"
            )
    return dataclasses.replace(raw, rows=rows)


def _size(rows: DataFrame) -> int:
    """Bytes of the files that are to be read, as Spark listed them."""
    return int(rows._jdf.queryExecution().analyzed().collectLeaves().head().relation().location().sizeInBytes())


def _counts(rows: DataFrame) -> dict[str, int]:
    return {row["_file"]: row["count"] for row in rows.groupBy("_file").count().collect()}
