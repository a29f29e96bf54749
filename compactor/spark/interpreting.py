"""A second session for small batches, in which Spark interprets expressions instead of compiling them.

For each query Spark generates Java code, which is compiled twice: by Janino, then by the JVM. The code of a commit holds numbers of this commit, so
that it is new each time. For some thousand rows all of that takes longer than to interpret the expressions (docs/design/spark.md#few-jobs).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Snapshot

ROWS_MAX = 10_000
"""The number of rows, of the batch and the Delta together, up to which interpreting is cheaper."""

_ROW_BYTES = 40
"""Bytes of a landed row, at least: no row is read to decide."""

_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Sessions:
    """The session that compiles, and one that interprets. Both have the same catalog, cache and settings."""

    def __init__(self, spark: SparkSession) -> None:
        self.compiling = spark
        self._interpreting: SparkSession | None = None

    def of(self, inputs: Sequence[Input], parent: Snapshot | None) -> SparkSession:
        """Return the session for a batch of these inputs on top of a version."""
        delta = parent.delta.rows if parent and parent.delta else 0
        return self.interpreting if sum(item.size for item in inputs) // _ROW_BYTES + delta <= ROWS_MAX else self.compiling

    @property
    def interpreting(self) -> SparkSession:
        """Return the session that interprets. Two threads may make one each: nothing is stored in it."""
        if self._interpreting is None:
            made = self.compiling.newSession()
            for name, value in _SETTINGS.items():
                made.conf.set(name, value)
            self._interpreting = made
        return self._interpreting
