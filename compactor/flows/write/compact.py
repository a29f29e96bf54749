"""Compact: rewrite the Segments whose share of the Delta is worth it, while commits go on.

A compaction that loses the race to commits is applied to the newest version, because the Delta wins over the base. One that loses it to a
restore, a rebuild, a truncate or another compaction of the same Segments is thrown away (garbage for vacuum).
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack

from compactor.core.model.edit import ContinuesState, Edit, HasSegments
from compactor.core.model.errors import Conflict
from compactor.core.model.files import Segment
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.results.batch import Staged
from compactor.core.results.phrases import counted
from compactor.flows import logs
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import state

log = logging.getLogger(__name__)


class Spending:
    """The bytes that the compactions of one run rewrite. Tables that are compacted at the same time share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent = 0

    def take(self, spec: TableSpec, targets: Sequence[Segment], whole: bool) -> tuple[tuple[Segment, ...], str | None]:
        """Spend the budget on the first of these Segments. Return them, and why the others wait, if any do."""
        with self._lock:
            chosen = compaction.affordable(targets, spec.compact_budget, self._spent, whole)
            self._spent += sum(segment.size for segment in chosen)
            if len(chosen) == len(targets):
                return chosen, None
            rest = targets[len(chosen) :]
            left = f"{counted(len(rest), 'segment')} ({sum(segment.size for segment in rest):,} bytes)"
            rewritten = f"{self._spent:,} of {spec.compact_budget:,} bytes (`compact_budget`)"
            return chosen, f"compaction of {left} waits for the next run: this one rewrites {rewritten}"


def due(table: Table, snapshot: Snapshot) -> bool:
    """Return whether to look for Segments worth compacting now."""
    spec, now = table.spec, table.env.clock()
    return compaction.needed(spec, snapshot, now) and compaction.waits(spec, snapshot, now) is None


def worth(table: Table, snapshot: Snapshot, shares: dict[str, int]) -> tuple[Segment, ...]:
    return compaction.targets(snapshot, shares, snapshot.brought, compaction.takes_every(table.spec, snapshot), bool(table.spec.iceberg))


def compact(table: Table, newest: Snapshot, spending: Spending) -> tuple[Snapshot | None, str | None]:
    """Compact the newest version, with what `spending` leaves of the run's budget.

    Return the new Snapshot, or None if nothing is worth it or the result was thrown away; and why what is worth it waits.
    """
    table.step("compact", 0.5)
    work: list[_Compaction] = []

    def planned(parent: Snapshot | None, scratch: ExitStack) -> Edit | None:
        if parent is None:
            return None
        if not work:
            work.append(_Compaction(table, parent, spending))
        return work[0].edit(parent)

    try:
        made = transact(table, planned, newest=newest)
    except Conflict as error:
        # it was optional: the next run that finds it due does it again
        log.info("%s: compaction thrown away: %s", table.name, error)
        return None, f"the compaction was thrown away, the next run tries again: {error}"
    return made, work[0].waiting if work else None


def with_values(table: Table, snapshot: Snapshot) -> Snapshot:
    """Return the Snapshot to show: a compacted one where `delete: soft` would show deleted rows without their last values."""
    hidden = compaction.hides_values(table.spec, snapshot)
    return (compact(table, snapshot, Spending())[0] if hidden else None) or snapshot


class _Compaction:
    """Segments compacted once, from the version `read`."""

    def __init__(self, table: Table, read: Snapshot, spending: Spending) -> None:
        self.table, self.read = table, read
        self.commit = table.next_commit(read)
        shares = table.engine().shares(table.spec, read)
        self.targets, self.waiting = spending.take(table.spec, worth(table, read, shares), compaction.takes_every(table.spec, read))
        # their rows are those of `read` already
        self.unchanged = {(segment.id, segment.low, segment.high) for segment in read.segments if not shares.get(segment.id, 0)}
        self.staged: Staged | None = None
        self.purge_through = state.purge_through(table, read) if self.targets else 0
        if self.targets:
            with logs.phase(table, "compacting") as phase:
                self.staged = table.engine().compact(table.spec, read, self.targets, self.commit, self.purge_through)
                rows = sum(segment.rows for segment in self.staged.segments)
                sentence = f"compacted {counted(len(self.targets), 'segment')} into {len(self.staged.segments):,}, {counted(rows, 'row')},"
                phase.did(sentence, segments=len(self.targets), rows=rows, bytes=sum(segment.size for segment in self.staged.segments))

    def edit(self, parent: Snapshot) -> Edit | None:
        """Return the result as an Edit of `parent`: `read` itself, or a later version."""
        if self.staged is None:
            return None
        if any(parent.schema.defaults.get(name) != self.read.schema.defaults[name] for segment in self.staged.segments for name in segment.defaults):
            raise Conflict(f"table {self.table.name}: a commit changed a default that the compaction stored")
        replaced = tuple(segment.id for segment in self.targets)
        placed = _placed(parent.segments, set(replaced), self.staged.segments, self.read.version)
        # another compaction may have given one the range of its neighbour
        unchanged = {segment.id for segment in parent.segments if (segment.id, segment.low, segment.high) in self.unchanged}
        through = self.read.version
        segments = [
            dataclasses.replace(each, compacted_through=max(each.compacted_through, through)) if each.id in unchanged else each for each in placed
        ]
        same_delta = parent.delta is not None and self.read.delta is not None and parent.delta.id == self.read.delta.id
        everything = all(segment.compacted_through >= self.read.version for segment in segments)
        made = dataclasses.replace(
            parent.state,
            base_id=self.commit,
            segments=tuple(segments),
            # every row of this Delta is in the base now: readers need not look at it any more
            delta=None if same_delta and everything else parent.delta,
            compacted_at=self.table.env.now(),
            base_source_time=self.read.source_time,
        )
        made = state.with_purge(self.table, made, self.read, self.staged, self.purge_through)
        written = tuple((segment.path, file) for segment in self.staged.segments for file in segment.files)
        return Edit("compact", self.commit, made, requires=(ContinuesState(self.read), HasSegments(replaced)), files=written)


def _placed(segments: Sequence[Segment], replaced: set[str], made: Sequence[Segment], through: int) -> list[Segment]:
    """Return `segments` with `made` in place of those that it replaces. A range whose rows were all purged goes to its neighbour.

    `through`: the version up to which `made` contains all changes, and with it a range that the neighbour gets. Keys are never compared here: bounds
    are only matched.
    """
    new = {segment.low: segment for segment in made}
    out: list[Segment] = []
    for segment in segments:
        if segment.id not in replaced:
            out.append(segment)
            continue
        low = segment.low
        # one old segment may have become several, each beginning where the one before it ends
        while low in new:
            out.append(new.pop(low))
            low = out[-1].high
    lows = [None, *(segment.low for segment in out[1:])]
    return [_over(segment, low, high, through) for segment, low, high in zip(out, lows, [*lows[1:], None])]


def _over(segment: Segment, low: tuple[str, ...] | None, high: tuple[str, ...] | None, through: int) -> Segment:
    """Return a Segment that covers this range. What it gets contains the changes up to `through`."""
    if (segment.low, segment.high) == (low, high):
        return segment
    return dataclasses.replace(segment, low=low, high=high, compacted_through=min(segment.compacted_through, through))
