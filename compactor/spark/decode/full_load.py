"""Full loads: plain rows without operation. The hour of a row's folder is its place in the order and its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import functions as F

from compactor.core.model.inputs import Input
from compactor.core.model.spec import TableSpec
from compactor.core.sources.full_loads import HOUR
from compactor.spark.columns import BEFORE, FILE, OP, SOURCE, TIME
from compactor.spark.decode.frame import Frame
from compactor.spark.decode.order import FULL_LOADS


def settle(frame: Frame, spec: TableSpec, inputs: Sequence[Input]) -> Frame:
    """Return a frame of plain rows with the hour of each row's folder as order and time."""
    assert frame.images is not None
    hours = frame.rows.sparkSession.createDataFrame([(item.name, item.hour) for item in inputs], "_file STRING, _hour STRING")
    keep = [name for name in frame.rows.columns if name not in (OP, SOURCE, TIME, BEFORE)]
    rows = frame.rows.join(F.broadcast(hours), [FILE], "left").selectExpr(
        *keep,
        "CASE WHEN false THEN _after END AS _before",
        "CASE WHEN _op IS NOT NULL THEN 'r' END AS _op",
        "struct(_hour AS hour) AS _source",
        f"{micros('_hour')} AS _time",
    )
    # a full load carries all values, so no text of a plain row is a placeholder
    return dataclasses.replace(frame, rows=rows, absent=(), order_names=FULL_LOADS)


def order(spec: TableSpec, frames: Sequence[Frame] = ()) -> tuple[str, ...]:
    """Return the order column of full loads, whatever the files hold."""
    return (HOUR,)


def micros(hour: str) -> str:
    """SQL: the hour of a folder as microseconds since 1970."""
    return f"unix_micros(to_timestamp({hour}, \"yyyy-MM-dd'T'HH:mm\"))"
