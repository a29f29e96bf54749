"""How a commit writes the history, decided on the driver from what the batch's summary and the stored history say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.core.model.history import History, HistoryPart, compaction_due, to_merge
from compactor.core.model.inputs import work
from compactor.core.model.position import Position, event_part, latest, sort_key
from compactor.spark.history.parts import FILE_ROWS_MAX
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import position


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
