"""Write a history anew without the events of erased keys."""

from __future__ import annotations

import dataclasses

from pyspark.sql import SparkSession

from compactor.core.model.history import History
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.ports import Storage
from compactor.spark.columns import FROM
from compactor.spark.history.parts import DAY, Parts, Writer, assembled
from compactor.spark.history.versions import MOVED_TO, Versions
from compactor.spark.rows import erase
from compactor.spark.sql import quoted

_NAMING = (FROM, MOVED_TO, "__previous_key")
"""Columns of an event that name another key."""


def without(spark: SparkSession, storage: Storage, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
    """Write all parts anew without the events of erased keys. Return the new history, and the number of events left out.

    Raises Refused if a key was ever changed from or to an erased one, and not both are erased.
    """
    stored = snapshot.history
    assert stored is not None
    layout = spec.layout
    versions = Versions(snapshot.schema, snapshot.order, snapshot.version, ())
    parts = Parts(spark, layout, versions, snapshot.schema)
    columns = [quoted(name) for name, _ in versions.stored]
    ended, ended_gone = erase.stored_rows(parts.rows(stored.closed).selectExpr(*columns), snapshot.schema, erased, spec, _NAMING)
    last, last_gone = erase.stored_rows(parts.last(stored).selectExpr(*columns), snapshot.schema, erased, spec, _NAMING)
    writer = Writer(spark, storage, layout, versions, commit, spec.name)
    if stored.closed:
        writer.write(ended.selectExpr("*", f"{DAY} AS history_part"), sum(part.rows for part in stored.closed))
    writer.write_open(last, max(1, round(sum(part.size for part in stored.open) / max(spec.target_file_bytes, 1))))
    # a set of its own: nothing of the old one may be shown, whatever else is registered
    kept = dataclasses.replace(stored, closed=(), set=f"{commit}.closed")
    return assembled(kept, writer.written(), (), True, commit), ended_gone + last_gone
