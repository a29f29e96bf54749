"""Checks of Spark's view of the store against ours: S3A reads a truncated response as an empty file and reports no error.

S3A takes a HEAD without Content-Length for an object of 0 bytes, and such a GET for the end of the object (hadoop-aws 3.3 with AWS SDK 1, whose HTTP
client takes the end of a connection for the end of the headers). Rows are missing then. docs/design/cut-answers.md has what each format does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame

from compactor.core.model.errors import InconsistentRead
from compactor.ports import Storage

T = TypeVar("T")

TRIES = 3
_WAIT_SECONDS = 0.5

_MISSING = re.compile(r"FileNotFoundException|No such file or directory|PATH_NOT_FOUND|[Pp]ath does not exist")


class ConsistentReads:
    """Reads files through Spark and raises InconsistentRead when Spark's view of them contradicts ours.

    - `open` compares the bytes that Spark lists with ours. It guards the listing, for every format.
    - `materialize` compares the rows of two readings. It guards the tasks that read text, CSV and Avro; Parquet says in its footer how long it is.
    - `confirmed` has files that cannot be read tried once more, before somebody blames them.
    - `again_if_empty` is for files that the driver reads itself.
    """

    def __init__(self, sizes: Mapping[str, int], table: str = "", storage: Storage | None = None) -> None:
        """Check reads of the files or directories `sizes`, location → bytes as listed or written.

        `table` is named in errors. `storage` is asked again for landed files, which a sink may overwrite; stored files never change, so their
        readers pass None.
        """
        self._sizes, self._storage = sizes, storage
        self._where = f"table {table}: " if table else ""
        self._remote = any(self.remote(location) for location in sizes)
        self._failed: set[str] = set()

    @staticmethod
    def remote(location: str) -> bool:
        """Return whether responses can be truncated on the way from this location."""
        return location.startswith("s3://")

    def open(self, read: Callable[[], DataFrame], locations: Sequence[str]) -> DataFrame:
        """Return the rows of `read`, which has Spark list `locations`, if Spark lists as many bytes there as we expect.

        Reads up to `TRIES` times. Locations without an expected size (local copies) are not checked.
        """
        if not all(location in self._sizes for location in locations):
            return read()

        def attempt() -> DataFrame:
            rows = read()
            listed, expected = _listed_bytes(rows), sum(self._sizes[location] for location in locations)
            if listed != expected and listed != self._bytes_now(locations):
                more = f" and {len(locations) - 1} more" if len(locations) > 1 else ""
                raise InconsistentRead(
                    f"{self._where}{locations[0]}{more}: expected {expected:,} bytes, Spark lists {listed:,}. Nothing was committed. Run again. "
                    "If it happens again, either files there were changed (compactor verify), or a proxy in front of the store drops Content-Length"
                )
            return rows

        return retried(attempt)

    def materialize(self, rows: DataFrame, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return `keep(rows)`, which computes remote rows once for all later work, if a second reading has as many rows of each `_file`.

        Returns rows of local files as they are. Reads up to `TRIES` times.
        """
        if not self._remote:
            return rows

        def attempt() -> DataFrame:
            kept = keep(rows)
            once, twice = _rows_by_file(kept), _rows_by_file(rows)
            for path in sorted({*once, *twice}):
                first, second = once.get(path, 0), twice.get(path, 0)
                if first != second:
                    raise InconsistentRead(
                        f"{self._where}{path}: Spark read {first:,} rows and then {second:,}, expected the same number twice. A response was "
                        "truncated, or the file was overwritten. Nothing was committed. Run again"
                    )
            return kept

        return retried(attempt)

    def confirmed(self, failures: Mapping[str, str]) -> bool:
        """Return whether `failures` (location, or another name → reason) are final; False asks the caller to read once more.

        A remote read that fails for the first time may be due to a truncated response. Raises InconsistentRead for a file that is missing for Spark
        and is in the store. A file that is missing in the store too was archived by another run.
        """
        if not self._remote:
            return True
        new = set(failures) - self._failed
        self._failed |= new
        if new:
            return False
        for location, reason in failures.items():
            if location in self._sizes and _MISSING.search(reason) and self._storage is not None and self._storage.stat(location) is not None:
                raise InconsistentRead(f"{self._where}{location} is in the store, and Spark does not find it ({reason}). Run again")
        return True

    @staticmethod
    def again_if_empty(read: Callable[[], T]) -> T:
        """Return what `read` returns, from a second call if the first returned nothing: a truncated response looks like an empty file."""
        return read() or read()

    def _bytes_now(self, locations: Sequence[str]) -> int | None:
        """Return the bytes that the store has at the locations now, None if they cannot have changed."""
        if self._storage is None:
            return None
        heads = [self._storage.stat(location) for location in locations]
        return sum(head.size for head in heads if head is not None)


def retried(attempt: Callable[[], T]) -> T:
    """Return what `attempt` returns. An InconsistentRead is tried again, up to `TRIES` times."""
    for number in range(1, TRIES):
        try:
            return attempt()
        except InconsistentRead:
            time.sleep(_WAIT_SECONDS * number)
    return attempt()


def _listed_bytes(rows: DataFrame) -> int:
    """Return the bytes of the files to read, as Spark listed them."""
    return int(rows._jdf.queryExecution().analyzed().collectLeaves().head().relation().location().sizeInBytes())


def _rows_by_file(rows: DataFrame) -> dict[str, int]:
    return {row["_file"]: row["count"] for row in rows.groupBy("_file").count().collect()}
