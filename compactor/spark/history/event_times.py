"""The source's time of each event, which begins and ends versions."""

from __future__ import annotations

from compactor.core.model import times
from compactor.core.model.errors import InputRefused
from compactor.core.model.inputs import path_of
from compactor.core.model.position import payload_column
from compactor.core.model.schema import called
from compactor.core.model.spec import TableSpec
from compactor.spark.columns import TIME
from compactor.spark.reading import SparkBatch
from compactor.spark.sql import literal

_DAY_US = 86_400_000_000

TIMELESS = {
    "timeless": "count_if(__time_us IS NULL)",
    "file": "min(CASE WHEN __time_us IS NULL THEN _position.file END)",
}
"""Aggregates of stored events: how many have no time, and the first file with one. Stored events of earlier runs all have a time."""


def check(spec: TableSpec, timeless: int, file: str | None) -> None:
    """Raise InputRefused if some changes have no time. `file` is the first with one."""
    if timeless:
        first = path_of(str(file))
        raise InputRefused(
            f"table {spec.name}: {timeless} changes, the first ones in {first}, have no time, and neither have their folders; a history "
            "needs one. Set `order_by:` with a timestamp first, have the connector add the source's time (Debezium: `__ts_ms`; AWS DMS: "
            "`TimestampColumnName`), or leave `history` out."
        )


def time(batch: SparkBatch) -> str:
    """SQL: the time of a change, from the first that has one: the source, a timestamp that orders the changes, the hour of the file's folder."""
    sources = [TIME, *ordered_by_time(batch)]
    hours = {item.name: item.hour for item in batch.summary.inputs if item.hour}
    if hours and batch.spec.source.plain_rows:
        pairs = ", ".join(f"{literal(name)}, {times.to_micros(hour)}L" for name, hour in hours.items())
        sources.append(f"try_element_at(map({pairs}), _file)")
    return f"coalesce({', '.join(sources)}, NULL)"


def ordered_by_time(batch: SparkBatch) -> list[str]:
    """SQL for microseconds since 1970 out of a Position, if the first order column is a time."""
    if not batch.summary.order:
        return []
    (name, kind), fields = batch.summary.order[0], batch.summary.evolved.schema.fields
    column = called(payload_column(name) or "", fields)
    by = column.type if column else None
    if by == "timestamp":
        return ["_position.o1"]
    if by == "date":
        return [f"try_multiply(_position.o1, {_DAY_US}L)"]
    if by == kind == "string":
        return ["CASE WHEN _position.o1 RLIKE '^[0-9]{4}-' THEN unix_micros(try_cast(_position.o1 AS TIMESTAMP)) END"]
    return []
