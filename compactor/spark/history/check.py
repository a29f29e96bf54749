"""Check a history for `verify`: its view against the table, and against the versions that all events make. Writes nothing.

The versions of all events are computed in one batch. Versions depend on the events alone, not on the runs in which they came, so they must be equal
to those that many runs have written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog import history_views, views
from compactor.core.model.history import FOREVER, OPEN, History, rules
from compactor.core.model.inputs import Input
from compactor.core.model.position import members
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.checks import Check
from compactor.spark.history.commit import begins_on, recomputed
from compactor.spark.history.parts import DAY, Parts
from compactor.spark.history.versions import Versions
from compactor.spark.rows.resolution import Resolution
from compactor.spark.sql import quoted
from compactor.spark.tables import compare

_OWN = (
    *((name, "bigint") for name in ("__start_us", "__end_us")),
    *((name, "timestamp") for name in ("__start_time", "__end_time")),
    *((name, "boolean") for name in ("__is_current", "__is_deleted")),
    *((name, "string") for name in ("__previous_key", "__end_day", "__from", "__to")),
)
"""Name and type of the columns that are compared beside the table's own. `__from` and `__to`: the places of the events in the source's order."""


def check(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, inputs: Sequence[Input], resolution: Resolution | None) -> list[Check]:
    """Compare the history view with the table, and with the versions of all events; if these cannot be computed, with the stored versions.

    `resolution`: all `inputs` resolved at once; None if some of them are gone.
    """
    assert snapshot.history is not None
    view = spark.table(f"{quoted(spec.database)}.{quoted(history_views.name(spec))}")
    why = _incomplete(spec, snapshot.history, snapshot, inputs, resolution)
    if resolution is not None and not why:
        with recomputed(resolution) as events:
            made = _compared(view, events, resolution.schema, spec, snapshot, "history equals full recompute", "equal")
    else:
        parts = Parts(spark, spec.layout, Versions(snapshot.schema, snapshot.order, snapshot.version, ()), snapshot.schema)
        events, equal = parts.last(snapshot.history, closed=snapshot.history.closed), f"equal; a full recompute is not possible: {why}"
        made = _compared(view, events, snapshot.schema, spec, snapshot, "history equals its files", equal)
    return [_current(spark, spec, snapshot, view), made]


def _current(spark: SparkSession, spec: TableSpec, snapshot: Snapshot, view: DataFrame) -> Check:
    columns = [(snapshot.schema.view_name(field), field.type) for field in snapshot.schema.payload]
    table = spark.table(f"{quoted(spec.database)}.{quoted(spec.view)}")
    live = table.where(f"NOT {quoted(views.DELETED)}") if spec.soft else table
    sides = compare.as_text(view.where("__is_current"), columns), compare.as_text(live, columns)
    return compare.compared(spec, "current versions equal the view", *sides, ("the history view", "the view"))


def _incomplete(spec: TableSpec, history: History, snapshot: Snapshot, inputs: Sequence[Input], resolution: Resolution | None) -> str:
    """Return why the history cannot be computed from the inputs, or ""."""
    if resolution is None:
        return "raw files are gone"
    if history.since or begins_on(resolution.batch.parent) is not None:
        return f"the history began with the rows that the table had at {history.since}"
    if history.rules != rules(spec.track):
        return "`track` was changed"
    if any(one.position[1] is None for one in history.truncates):
        return "the time at which an epoch replaced the rows is that of the run that noticed it"
    if snapshot.purged_to is not None and any(item.quarantined for item in inputs):
        return "changes older than purged tombstones were set aside"
    return ""


def _compared(view: DataFrame, events: DataFrame, schema: Schema, spec: TableSpec, snapshot: Snapshot, name: str, equal: str) -> Check:
    """Compare the view with stored events in the columns of `schema`, as it would show them."""
    day = f"CASE WHEN __end_us = {FOREVER} THEN '{OPEN}' ELSE {DAY} END AS history_day"
    rows = events.where("__shown").selectExpr("*", day).alias("__h")
    versions = rows.selectExpr(*history_views.shown("`__h`", spec, dataclasses.replace(snapshot, schema=schema)))
    shared = {schema.view_name(field) for field in schema.payload}
    columns = [(snapshot.schema.view_name(field), field.type) for field in snapshot.schema.payload if snapshot.schema.view_name(field) in shared]
    shown, again = (compare.as_text(_placed(rows, snapshot), [*columns, *_OWN]) for rows in (view, versions))
    return compare.compared(spec, name, shown, again, ("the history view", "its events"), equal)


def _placed(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Return versions with the places of their events as text. File and row may differ: the same event may come in several files."""
    places = [name for name, _ in members(snapshot.order)][: len(snapshot.order) + 1]

    def place(column: str, name: str) -> str:
        return f"to_json(struct({', '.join(f'{column}.{member}' for member in places)})) AS {name}"

    return rows.selectExpr("*", place("__start_position", "__from"), place("__end_position", "__to"))
