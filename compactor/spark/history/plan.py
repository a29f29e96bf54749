"""How a commit writes the history, decided on the driver from what the batch's summary and the stored history say; and the source's time of each
event, which begins and ends versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.core.model import times
from compactor.core.model.errors import InputRefused
from compactor.core.model.history import History, HistoryPart, compaction_due, to_merge
from compactor.core.model.inputs import path_of, work
from compactor.core.model.position import Position, event_part, latest, payload_column, sort_key
from compactor.core.model.schema import called
from compactor.core.model.spec import TableSpec
from compactor.spark.columns import TIME
from compactor.spark.history.parts import FILE_ROWS_MAX
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position
from compactor.spark.sql import literal

_DAY_US = 86_400_000_000

TIMELESS = {"timeless": "count_if(__time_us IS NULL)", "file": "min(CASE WHEN __time_us IS NULL THEN _position.file END)"}
"""Aggregates of stored events: how many have no time, and the first file with one. Stored events of earlier runs all have a time."""


@dataclass(frozen=True)
class Plan:
    """How the history of one batch is written."""

    batch: SparkBatch
    linked: bool
    """Whether stored rows may add an old or a new key to a change (`Resolution.linked`)."""

    @property
    def stored(self) -> History | None:
        """Return the history that the batch continues."""
        return self.batch.parent.history if self.batch.parent else None

    @property
    def whole(self) -> bool:
        """Whether everything is written anew: the history begins, a column has changed its type, or old rows read another default."""
        return self.stored is None or bool(self.batch.summary.evolved.retyped) or self.other_defaults

    @property
    def other_defaults(self) -> bool:
        """Whether stored events may read another default than before, so that other columns of them differ from the event before."""
        evolved, parent = self.batch.summary.evolved, self.batch.parent
        return parent is not None and self.stored is not None and evolved.schema.defaults_moved(parent.schema, parent.position_max)

    @property
    def small(self) -> bool:
        """Whether one task computes what is written, because all of it is small."""
        delta = self.stored.delta if self.stored else None
        return self.batch.spec.in_one_task(work(self.batch.summary.inputs), delta.size if delta else 0)

    @property
    def why_steps(self) -> str:
        """Return why the batch is worked on in steps; "" if one pass looks up, computes and writes.

        For that every event comes after all stored ones and carries all values, and no key changes.
        """
        summary, stored, batch = self.batch.summary, self.stored, self.batch
        if summary.moves or self.linked:
            return "some change may be one of a key"
        if summary.truncates or summary.truncate:
            return "there is a truncate, or an epoch that replaces"
        if summary.unavailable_columns or (stored and stored.unavailable_columns):
            return "some event does not carry all values"
        if stored is None:
            return "" if batch.parent is None and self.one_pass(()) else "the history begins"
        # the counts of the table's pass do not show which events below a truncate repeat each other
        truncated_to = batch.parent.truncated_to if batch.parent else None
        newest = latest([stored.last, truncated_to, *(one.position for one in stored.truncates)])
        if summary.first is None or newest is None or reaches(newest, summary.first, summary.order):
            return "some event may come before stored ones"
        if self.whole:
            return "all stored events are written anew"
        return "" if self.one_pass(to_merge(stored.closed)) else "several tasks write"

    @property
    def compact(self) -> bool:
        """Whether all last events are written, without a Delta."""
        stored, changes = self.stored, self.batch.summary.changes
        if self.whole or stored is None or not stored.open:
            return True
        return compaction_due(sum(part.rows for part in stored.open), (stored.delta.rows if stored.delta else 0) + changes, changes)

    @property
    def segments(self) -> int:
        """Return the number of key ranges of the last events that a compaction writes."""
        stored, parent = self.stored, self.batch.parent
        size = sum(part.size for part in stored.open) if stored else 0
        size = size or (parent.size if parent else 0) + 100 * self.batch.summary.changes
        return max(1, round(size / max(self.batch.spec.target_file_bytes, 1)))

    def one_pass(self, removed: Iterable[HistoryPart]) -> bool:
        """Whether one task writes all parts, `removed` among them. Otherwise Spark samples the rows for their key ranges before it writes them."""
        return (self.segments == 1 if self.compact else self.small) and self.about(removed) <= FILE_ROWS_MAX

    def about(self, removed: Iterable[HistoryPart]) -> int:
        """Return about how many closed rows are written."""
        return 2 * self.batch.summary.changes + sum(part.rows for part in removed)


def event(at: Position | None, order: position.Order) -> Position | None:
    """Return what identifies an event at its source (`rows/position.event`)."""
    return at if at is None or position.by_file(order) else event_part(at)


def reaches(last: Position | None, first: Position, order: position.Order) -> bool:
    """Whether a part whose last event ended at `last` holds something that an event at `first` may change. `first`: a Position or its event part."""
    least = first if position.by_file(order) or len(first) == len(order) + 1 else event_part(first)
    return last is not None and sort_key(event(last, order) or ()) >= sort_key(least)


def check_times(spec: TableSpec, timeless: int, file: str | None) -> None:
    """Raise InputRefused if some changes have no time. `file` is the first with one."""
    if timeless:
        first = path_of(str(file))
        raise InputRefused(
            f"table {spec.name}: {timeless} changes, the first ones in {first}, have no time, and neither have their folders; a history "
            "needs one. Set `order_by:` with a timestamp first, have the connector add the source's time (Debezium: `__ts_ms`; AWS DMS: "
            "`TimestampColumnName`), or leave `history` out."
        )


def event_time(batch: SparkBatch) -> str:
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
