"""Which steps a batch needs beside the reducer, decided once from its survey. A pure function.

`compactor explain` prints the flags with their reasons.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.core.model.inputs import work
from compactor.core.model.position import Position, at_or_below, earliest, event_part, latest
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary
from compactor.core.results.phrases import counted


@dataclass(frozen=True)
class Plan:
    """The steps of one batch."""

    whole: bool
    """Whether all stored rows are resolved with the batch, for a new base."""
    small: bool
    """Whether one task computes everything that is written. Exchanging few rows between tasks costs more than it gains."""
    late: bool
    """Whether some change or truncate may be no newer than the stored rows. Events compare by their place at the source."""
    partial: tuple[str, ...]
    """The columns with a clock of their own: some change, or a row of the base that may be read, has no value for them."""
    moves: bool
    """Whether some change may be one of a key."""
    tombstones: bool
    """Whether some state may be a tombstone, or wait for one."""
    barrier: Position | None
    """The newest truncate, or beginning of an epoch that replaces: rows at or below it are gone. None with shards."""
    barriers: tuple[tuple[str, Position], ...]
    """(shard, its newest truncate): rows of the shard at or below it are gone."""
    behind: bool
    """Whether some change may be older than a purged tombstone of its key."""
    reasons: tuple[tuple[str, str], ...]
    """(step, why) of each step that is planned, in the order in which they run."""


def plan(spec: TableSpec, parent: Snapshot | None, summary: BatchSummary, whole: bool) -> Plan:
    """Return the plan of a batch on top of `parent`. `whole` is the caller's choice (`compaction.whole_base`)."""
    files = work(summary.inputs)
    merged = (parent.size if whole else parent.delta.size if parent.delta else 0) if parent else 0
    small = spec.in_one_task(files, merged)
    late = _late(parent, summary)
    behind = _behind(spec, parent, summary)
    beside = whole and parent is not None and parent.delta is not None
    partial = _partial(spec, parent, summary, late or behind or beside or (spec.soft and bool(summary.deletes)))
    barrier = None if spec.shard else latest([summary.truncate, parent.truncated_to if parent else None])
    barriers = summary.barriers(parent.shards_truncated_to if parent else ())
    # without key an update removes a row, too
    removals = summary.deletes or summary.moves or (spec.keyless and summary.changes > summary.inserts)
    tombstones = bool(removals or (parent and (parent.tombstones or parent.unavailable_columns)) or spec.source.full_loads)
    sizes = f"{files:,} bytes of files (1 MB more for each) and {merged:,} stored ones are merged"
    reasons = [
        ("new base", "all stored rows are merged with the changes") if whole else ("new Delta", "the changes are few against the rows of the base"),
        ("one task" if small else "exchange by key", f"{sizes}; one task takes {spec.small_batch:,} of either"),
    ]
    if late and not whole:
        reasons.append(("look up the base", "some changes are at or below the newest stored Position, so they may be late"))
    elif partial and not whole:
        reasons.append(("look up the base", "stored rows may have the values that some changes lack"))
    if partial:
        reasons.append(("clocks of columns", f"some events or stored rows have no value for {', '.join(partial)}"))
    if summary.moves:
        reasons.append(("key changes", f"{counted(summary.moves, 'change')} may be one of a key. A key change leaves a tombstone under the old key"))
    if barrier is not None:
        reasons.append(("barrier", f"a truncate, or an epoch that replaces, at {list(barrier)}: what is at or below it is gone"))
    for shard, bound in barriers:
        reasons.append(("barrier", f"a truncate of {shard} at {list(bound)}: its rows at or below it are gone"))
    if behind:
        reasons.append(("beyond retention", "some changes are older than tombstones that were purged: without a stored row they are set aside"))
    if spec.keyless:
        reasons.append(("removals", "the table has no key: each removal takes one row of equal content"))
    return Plan(whole, small, late, partial, summary.moves > 0, tombstones, barrier, barriers, behind, tuple(reasons))


def _late(parent: Snapshot | None, summary: BatchSummary) -> bool:
    truncates = [summary.truncate, *(bound for _, bound in summary.shard_truncates)]
    first, stored = earliest([summary.first, *truncates]), parent.position_max if parent else None
    if first is None or stored is None:
        return False
    return at_or_below(event_part(first), event_part(stored)) if summary.order else at_or_below(first, stored)


def _partial(spec: TableSpec, parent: Snapshot | None, summary: BatchSummary, meets: bool) -> tuple[str, ...]:
    """`meets`: a late change may meet a stored row, or a row of the Delta that of the base."""
    stored = parent.unavailable_columns if parent else ()
    # a value that came late is in the Delta, at the Position that its row has in the base, too
    needed = not spec.keyless and (summary.unavailable_columns or (stored and meets))
    return tuple(sorted({*summary.unavailable_columns, *stored})) if needed else ()


def _behind(spec: TableSpec, parent: Snapshot | None, summary: BatchSummary) -> bool:
    if parent is None or parent.purged_to is None or spec.beyond_retention == "apply":
        return False
    bounds = dict(parent.purged_offsets)
    within = any(offset <= bounds.get(partition, -1) for partition, offset in summary.least_offsets)
    first, purged = summary.first, parent.purged_to
    if spec.keyless and first is not None:
        # an event that is sent again may lie in another file
        first, purged = event_part(first), event_part(purged)
    return within or at_or_below(first, purged)
