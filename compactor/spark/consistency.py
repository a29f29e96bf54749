"""Checks of Spark's view of the store against ours: S3A reads a truncated response as an empty file and reports no error.

S3A takes a HEAD without Content-Length for an object of 0 bytes, and such a GET for the end of the object (hadoop-aws 3.3 with AWS SDK 1, whose HTTP
client takes the end of a connection for the end of the headers). Rows are missing then. docs/design/spark.md has what each format does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader

from compactor.core.model.errors import InconsistentRead
from compactor.ports import Storage
from compactor.spark.jvm.private import file_index

T = TypeVar("T")

TRIES = 3
_WAIT_SECONDS = 0.5

_MISSING = re.compile(r"FileNotFoundException|No such file or directory|PATH_NOT_FOUND|[Pp]ath does not exist")


class ConsistentReads:
    """Reads files through Spark and raises InconsistentRead when Spark's view of them contradicts ours.

    - `open` compares the locations that Spark reads, and the bytes that it lists there, with ours. It guards the listing, for every format.
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

    def open(self, reader: DataFrameReader, locations: Sequence[str]) -> DataFrame:
        """Return the rows of exactly these `locations` if Spark lists the bytes there that we expect. `reader` knows format and options.

        Reads up to `TRIES` times. Locations without an expected size (local copies) are not checked. Several locations are one of `together`.
        """
        patterns = [*locations] if len(locations) == 1 else [_pattern(location) for location in locations]
        if len(locations) == 1:
            # of several locations this makes Spark read some twice
            reader = reader.option("__globPaths__", "false")
        if not all(location in self._sizes for location in locations):
            return reader.load(patterns)

        def attempt() -> DataFrame:
            try:
                rows = reader.load(patterns)
            except AnalysisException as error:
                # a landed file that is missing was archived by another run
                if self._storage is not None or not _MISSING.search(str(error)):
                    raise
                gone = str(error).splitlines()[0]
                raise InconsistentRead(
                    f"{self._where}a directory of the table is gone: {gone} Nothing was committed. Somebody deletes files there: "
                    "compactor verify names what is missing, compactor rebuild makes the table again from its raw files"
                ) from error
            listed, expected = int(file_index(rows).sizeInBytes()), sum(self._sizes[location] for location in locations)
            self._check_locations(rows, locations)
            if listed != expected and listed != self._bytes_now(locations):
                more = f" and {len(locations) - 1} more" if len(locations) > 1 else ""
                raise InconsistentRead(
                    f"{self._where}{locations[0]}{more}: expected {expected:,} bytes, Spark lists {listed:,}. Nothing was committed. Run again. "
                    "If it happens again, either files there were changed (compactor verify), or a proxy in front of the store drops Content-Length"
                )
            return rows

        return retried(attempt)

    def _check_locations(self, rows: DataFrame, locations: Sequence[str]) -> None:
        """Raise InconsistentRead if Spark reads other locations than these."""
        # one call for all: each path would be some calls of its own. No path has a NUL
        listed = {bare(path) for path in str(file_index(rows).rootPaths().mkString("\0")).split("\0")}
        expected = {bare(location) for location in locations}
        if listed != expected:
            missing, other = [*sorted(expected - listed), "none"][0], [*sorted(listed - expected), "none"][0]
            raise InconsistentRead(
                f"{self._where}expected Spark to read {len(expected):,} locations, found {len(listed):,}; missing: {missing}, instead: {other}"
            )

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


_GLOB = re.compile(r"[{}\[\]*?\\]")


def together(locations: Sequence[str]) -> list[list[str]]:
    """Divide locations into those that can be read together, and each of the others.

    Spark takes the locations for patterns, and Hadoop takes a name with a colon for a URI once it has divided a pattern into names.
    """
    alone = [location for location in locations if _GLOB.search(location) and ":" in location.rpartition("://")[2]]
    separate = set(alone)
    others = [location for location in locations if location not in separate]
    return [each for each in (others, *([location] for location in alone)) if each]


def _pattern(location: str) -> str:
    """Return the pattern that fits this location only (org.apache.hadoop.fs.GlobPattern)."""
    return _GLOB.sub(r"\\\g<0>", location)


def bare(location: str) -> str:
    """Return a location without scheme: Hadoop writes `file:/x` for `/x`."""
    return re.sub(r"^([a-z0-9]+:)?/*", "", location).rstrip("/")


def _rows_by_file(rows: DataFrame) -> dict[str, int]:
    return {row["_file"]: row["count"] for row in rows.groupBy("_file").count().collect()}
