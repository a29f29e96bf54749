"""Sessions beside the main one: they have the same catalog, cache and settings, and a few settings of their own.

**Interpreting**, for small batches: Spark interprets expressions instead of compiling them. For each query Spark generates Java code, which is
compiled twice: by Janino, then by the JVM. For some thousand rows that takes longer than to interpret (docs/design/spark.md#few-jobs).

**By file**, for compaction: each file that is read is one task, whose rows keep their order, and are written into directories without a sort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot
from compactor.core.sources.increment import SUFFIXES

ROWS_MAX = 25_000
"""The number of rows, of the batch and the Delta together, up to which interpreting is cheaper."""
_ROW_BYTES, _JSON_ROW_BYTES = 40, 200
"""Bytes of a landed row, and of one in JSON that is not packed: about the least, because no row is read to decide."""
_JSON = tuple(suffix for suffix, kind in SUFFIXES.items() if kind == "json")

_INTERPRETING = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_BY_FILE = {
    # above the size of any file: none is divided, and no two share a task
    "spark.sql.files.maxPartitionBytes": str(1 << 50),
    "spark.sql.files.openCostInBytes": str(1 << 50),
}


class Sessions:
    """The main session, which compiles, and the others. They are made when they are first needed; nothing is stored in them."""

    def __init__(self, spark: SparkSession) -> None:
        self.compiling = spark
        self._others: dict[str, SparkSession] = {}

    def of(self, inputs: Sequence[Input], parent: Snapshot | None) -> SparkSession:
        """Return the session for a batch of these inputs on top of a version."""
        delta = parent.delta.rows if parent and parent.delta else 0
        rows = sum(item.size // (_JSON_ROW_BYTES if item.path.lower().endswith(_JSON) else _ROW_BYTES) for item in inputs)
        return self._other("interpreting", _INTERPRETING) if rows + delta <= ROWS_MAX else self.compiling

    @property
    def by_file(self) -> SparkSession:
        return self._other("by file", _BY_FILE)

    def _other(self, name: str, settings: Mapping[str, str]) -> SparkSession:
        # two threads may make one each
        if name not in self._others:
            made = self.compiling.newSession()
            for key, value in settings.items():
                made.conf.set(key, value)
            self._others[name] = made
        return self._others[name]
