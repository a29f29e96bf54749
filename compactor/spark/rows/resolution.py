"""Resolution: resolve a batch with the stored rows to one row for each key, and count what became of every event.

In: a SparkBatch (Changes). Out: `outcomes` (every state of every key, ranked) and `heads` (the rows that stay), both in the columns of
`rows/precedence.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog.feed import ALL
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.inputs import work
from compactor.core.model.layout import Layout
from compactor.core.model.position import at_or_below, earliest, event_part, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.results.batch import BatchSummary
from compactor.core.sources.quarantine import BEYOND_RETENTION, LISTED_MAX, Limits
from compactor.spark import failures, measured
from compactor.spark.columns import BEHIND, FILE, POSITION
from compactor.spark.measured import Numbers, Pass
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import keyless, position, survey
from compactor.spark.rows.invalid import record_place
from compactor.spark.rows.precedence import DELTA, EVENT, MOVED, Resolver, union
from compactor.spark.sql import DIGEST, literal, named
from compactor.spark.tables.segments import Placement, placement
from compactor.spark.tables.table_reader import TableReader

_MAX_ROUNDS = 16
"""The number of key changes of one row that are followed within one run. Values behind a longer chain stay unavailable and are counted."""


_EVENT_OUTCOMES = ("applied", "duplicate", "late", "superseded")
"""The values of OUTCOME."""

OUTCOMES = {
    **{outcome: f"count_if(_origin = {EVENT} AND _outcome = '{outcome}')" for outcome in _EVENT_OUTCOMES},
    "ties": f"count_if(_origin = {EVENT} AND _tie)",
}
"""Aggregates of states: the number of events by outcome, and of ties."""


@failures.translated
@dataclass(frozen=True)
class Resolution:
    """A batch resolved with the stored rows. Spark caches its rows until `close`."""

    batch: SparkBatch
    """The batch, without the changes that were set aside as beyond retention."""
    whole: bool
    """Whether the batch was resolved with the whole base, for a new base."""
    resolver: Resolver
    """The rules that were applied."""
    outcomes: DataFrame
    """Every state of every key, with OUTCOME and TIE."""
    heads: DataFrame
    """The rows that stay: one per key."""
    placed: Placement | None
    """The Segments that the rows have been placed in, for a new base."""
    events: DataFrame
    """The events as states, with those at or below the barrier."""
    gone: str
    """SQL: whether a state is at or below the barrier."""
    numbers: Numbers | None = None
    """The numbers of events by outcome. None: the pass that writes the rows computes them."""
    linked: DataFrame | None = None
    """The Changes without truncates, with the old and new keys that stored rows add to key changes. None if none were looked up."""
    event_outcomes: DataFrame | None = None
    """Key, POSITION and EVENT_OUTCOME of each event, for `feed: all`."""
    own: tuple[DataFrame, ...] = ()
    """The cached rows that `close` frees."""

    @property
    def session(self) -> SparkSession:
        """Return the session of the batch."""
        return self.batch.session

    @property
    def summary(self) -> BatchSummary:
        """Return the counts and bounds of the batch."""
        return self.batch.summary

    @property
    def spec(self) -> TableSpec:
        """Return the table."""
        return self.batch.spec

    @property
    def parent(self) -> Snapshot | None:
        """Return the version that the batch continues."""
        return self.batch.parent

    @property
    def version(self) -> int:
        """Return the version that is being made."""
        return self.batch.version

    @property
    def changes(self) -> DataFrame:
        """Return the Changes of the batch."""
        return self.batch.changes

    @property
    def schema(self) -> Schema:
        """Return the stored columns."""
        return self.resolver.schema

    @property
    def order(self) -> position.Order:
        """Return the order columns."""
        return self.resolver.order

    @property
    def partial(self) -> tuple[str, ...]:
        """Return the columns that may have a register of their own in some row."""
        return tuple(sorted({*self.summary.unavailable_columns, *(self.parent.unavailable_columns if self.parent else ())}))

    @property
    def one_task(self) -> bool:
        """Return whether one task computes what is written, because all of it is small."""
        return _one_task(self.batch, self.whole)

    @property
    def layout(self) -> Layout:
        """Return the paths of the table."""
        return Layout(self.spec.root, self.spec.landing)

    def counts(self, done: Pass | None = None) -> tuple[dict[str, int], int]:
        """Return the number of events by outcome (the keys are `snapshot.COUNTS`), and the number of ties.

        `done` is the pass that wrote the heads, if it computed the outcomes. Raises CheckFailed unless the sum is the number of events read.
        """
        numbers = self.numbers or (done.numbers("events") if done is not None else None)
        counts = self._by_outcome(numbers) if numbers is not None else {}
        if sum(counts.values()) != self.summary.read:
            # Spark counts twice what it computes twice
            numbers = measured.compute(self.outcomes, OUTCOMES)
            counts = self._by_outcome(numbers)
        if sum(counts.values()) != self.summary.read:
            raise CheckFailed(
                f"table {self.spec.name}: read {self.summary.read} events, but the outcomes {counts} add up to {sum(counts.values())}. "
                "Nothing was committed."
            )
        return counts, numbers["ties"] if numbers is not None else 0

    def _by_outcome(self, numbers: Numbers) -> dict[str, int]:
        counts = {**dict.fromkeys(COUNTS, 0), **{name: numbers[name] for name in _EVENT_OUTCOMES}}
        # truncates themselves are applied; they supersede all states at or below the barrier
        if at_or_below(self.summary.first, self.resolver.barrier):
            counts["superseded"] += self.events.where(f"_origin = {EVENT} AND ({self.gone})").count()
        counts["applied"] += self.summary.truncates
        counts["duplicate"] += self.summary.unchanged
        counts["late"] += self.summary.late
        counts["ignored"] = self.summary.ignored
        counts["quarantined"], counts["beyond_retention"] = self.summary.quarantined, self.summary.beyond_retention
        return counts

    def close(self) -> None:
        """Free the cached rows."""
        for rows in self.own:
            measured.release(rows)


def segments(batch: SparkBatch) -> int:
    """Return the number of Segments of a base that is written with this batch."""
    size = (batch.parent.size if batch.parent else 0) + compaction.estimated_bytes(batch.summary.evolved.schema, batch.summary.changes)
    return compaction.segment_count(size, size, batch.spec)


def resolve(batch: SparkBatch, whole: bool, several_passes: bool = False) -> Resolution:
    """Resolve a batch with the parent's Delta, and with the whole base or only the base rows that the batch may change.

    Changes that may be older than a purged tombstone are set aside, and the rest is resolved again (H12). The rows are computed by the pass that
    writes them; with `several_passes` they are computed here, once for all.
    """
    made, aside = _resolved(batch, whole, several_passes=several_passes)
    if aside is None:
        return made
    made.close()
    remaining = _without(batch, aside)
    made, _ = _resolved(remaining, whole, judge=False, several_passes=several_passes)
    return dataclasses.replace(made, own=(*made.own, remaining.changes))


def _resolved(batch: SparkBatch, whole: bool, judge: bool = True, several_passes: bool = False) -> tuple[Resolution, DataFrame | None]:
    """Return the resolution, and the keys whose changes are beyond retention (None if there are none)."""
    spec, summary, parent = batch.spec, batch.summary, batch.parent
    barrier = latest([summary.truncate, parent.truncated_to if parent else None])
    resolver = Resolver(summary.evolved.schema, summary.order, batch.version, spec.keyless, barrier, parent is None, _tombstones(batch))
    stored = TableReader(batch.session, Layout(spec.root, spec.landing), parent, resolver.schema) if parent else None
    partial = _partial_columns(batch)
    own: list[DataFrame] = []
    linked = None
    behind = _behind(batch)
    changes = batch.changes.where("_op <> 't'").selectExpr("*", f"{behind or 'false'} AS {BEHIND}")
    if stored and partial and _other_half_may_be_stored(batch):
        linked = changes = measured.materialize(stored.link_key_changes(changes))
        own.append(linked)
    events = resolver.states(changes, linked is not None or summary.moves > 0)
    frames = [events]
    if stored:
        base = stored.base(summary.truncate) if whole else _compared(stored, batch, events, bool(partial), behind is not None)
        if base is not None and _one_task(batch, whole) and stored.snapshot.size > spec.small_batch:
            # the look-up stays on all cores
            base = base.repartition(1)
        frames += [frame for frame in (base, stored.delta()) if frame is not None]
    gone = f"_position <= {position.fixed(barrier, summary.order)}" if barrier else "false"
    states = union(frames).where(f"NOT ({gone})")
    if partial:
        states = _with_fills(resolver, states, stored, partial)
    if _one_task(batch, whole):
        states = states.coalesce(1)
    placed = None
    if whole and not several_passes:
        placed = placement(states, resolver.schema, [(None, None, segments(batch))], summary.changes + (parent.rows if parent else 0))
        # removals of a keyless table are matched across all ranges: they are placed after that
        if len(placed.ranges) > 1 and not spec.keyless:
            states, resolver = placed.place(states, resolver.schema), dataclasses.replace(resolver, placed=True)
    outcomes, numbers = resolver.outcomes(states, partial), None
    if several_passes or behind or spec.feed == ALL:
        outcomes, numbers = measured.materialize_and_measure(outcomes, OUTCOMES)
        own.append(outcomes)
    else:
        outcomes = measured.observe(outcomes, "events", OUTCOMES)
    heads = resolver.heads(outcomes)
    if spec.keyless:
        heads = keyless.match_removals(heads, resolver.schema, batch.version)
    if placed is not None and not resolver.placed:
        heads = placed.place(heads, resolver.schema)
    aside = _beyond_retention(batch, heads, outcomes) if judge and behind else None
    event_outcomes = None
    if spec.feed == ALL and aside is None:
        events_only = outcomes.where(f"_origin = {EVENT}")
        event_outcomes = measured.materialize(events_only.selectExpr(*resolver.keys, POSITION, "_outcome AS _event_outcome"))
        own.append(event_outcomes)
    return Resolution(batch, whole, resolver, outcomes, heads, placed, events, gone, numbers, linked, event_outcomes, tuple(own)), aside


def _one_task(batch: SparkBatch, whole: bool) -> bool:
    """Whether the batch and what is resolved with it are so small that one task does it, without exchanging rows."""
    parent, limit = batch.parent, batch.spec.small_batch
    return work(batch.summary.inputs) <= limit and (parent is None or (parent.size if whole else parent.delta.size if parent.delta else 0) <= limit)


def _without(batch: SparkBatch, keys: DataFrame) -> SparkBatch:
    """Return the batch without the changes of these keys; they count as beyond retention."""
    key = list(batch.summary.evolved.schema.key)
    rows = batch.changes.where("_op <> 't'").join(keys, key, "left_semi")
    rows = rows.selectExpr("*", *record_place(batch.spec))
    counts = {row[FILE]: row["count"] for row in rows.groupBy(FILE).count().collect()}
    set_aside = survey.list_unusable(rows, literal(BEYOND_RETENTION), "to_json(struct(*))", batch.raws, batch.spec)
    inputs = tuple(dataclasses.replace(item, quarantined=item.quarantined + counts.get(item.name, 0)) for item in batch.summary.inputs)
    unusable = (*batch.summary.unusable, *set_aside)[:LISTED_MAX]
    summary = dataclasses.replace(batch.summary, inputs=inputs, beyond_retention=sum(counts.values()), unusable=unusable)
    _check_limits(batch.spec, summary)
    return dataclasses.replace(batch, summary=summary, changes=measured.materialize(batch.changes.join(keys, key, "left_anti")))


def _compared(stored: TableReader, batch: SparkBatch, events: DataFrame, partial: bool, behind: bool) -> DataFrame | None:
    if batch.spec.keyless:
        return stored.rows_for_removals(events)
    return stored.rows_to_compare(events, batch.summary.first, partial, batch.spec.soft, behind)


def _late(batch: SparkBatch) -> bool:
    """Whether the batch may hold a change or truncate that is no newer than the stored rows. Events compare by their place at the source."""
    first, stored = earliest([batch.summary.first, batch.summary.truncate]), batch.parent.position_max if batch.parent else None
    if first is None or stored is None:
        return False
    return at_or_below(event_part(first), event_part(stored)) if batch.summary.order else at_or_below(first, stored)


def _other_half_may_be_stored(batch: SparkBatch) -> bool:
    """Whether the batch has a create without all values, or a delete that a stored row without all values may wait for."""
    if batch.spec.keyless:
        return False
    arrived = "_op = 'c' AND size(_missing) > 0 AND _from IS NULL"
    left = "_op = 'd'" if batch.parent and batch.parent.unavailable_columns and _late(batch) else "false"
    return not batch.changes.where(f"_link IS NOT NULL AND (({arrived}) OR {left})").isEmpty()


def _partial_columns(batch: SparkBatch) -> tuple[str, ...]:
    """Return the columns that need a register of their own: some change, or a stored row that a late change meets, has no value for them."""
    if batch.spec.keyless:
        return ()
    stored = batch.parent.unavailable_columns if batch.parent else ()
    needed = batch.summary.unavailable_columns or (stored and _late(batch))
    return tuple(sorted({*batch.summary.unavailable_columns, *stored})) if needed else ()


def _with_fills(resolver: Resolver, states: DataFrame, stored: TableReader | None, partial: Sequence[str]) -> DataFrame:
    """Return the states with the values that key changes carry along. Each round follows one step of a chain, until a round adds nothing (H10)."""
    if states.where(MOVED).isEmpty():
        return states
    result, digest = states, None
    for _ in range(_MAX_ROUNDS):
        fills = measured.materialize(resolver.fills(result, partial))
        before, digest = digest, fills.agg(named(DIGEST, "s")).collect()[0].s
        if digest == before:
            break
        base = stored.rows_with_keys_of(fills) if stored else None
        frames = [states, fills]
        if base is not None:
            frames.append(base.join(states.select(*resolver.keys).distinct(), list(resolver.schema.key), "left_anti"))
        result = union(frames)
    return result


def _tombstones(batch: SparkBatch) -> bool:
    """Whether some state of the batch, or of what is stored, may be a tombstone."""
    stored = batch.parent.tombstones if batch.parent else 0
    return bool(batch.summary.deletes or batch.summary.moves or stored or batch.spec.source.full_loads)


def _behind(batch: SparkBatch) -> str | None:
    """SQL for BEHIND on Changes. None if it is false for all changes of the batch, or if such changes are applied."""
    parent, summary = batch.parent, batch.summary
    if parent is None or batch.spec.beyond_retention == "apply":
        return None
    bounds = dict(parent.purged_offsets)
    within = any(offset <= bounds.get(partition, -1) for partition, offset in summary.least_offsets)
    return position.behind(parent.purged_to, parent.purged_offsets, summary.order) if within or at_or_below(summary.first, parent.purged_to) else None


def _beyond_retention(batch: SparkBatch, heads: DataFrame, outcomes: DataFrame) -> DataFrame | None:
    """Return the keys of changes that are older than purged tombstones and have no stored row, or None if there are none (H12).

    A purged delete may have ended such a row. Raises InputRefused under `beyond_retention: refuse`.
    """
    key = list(batch.summary.evolved.schema.key)
    older = heads.where(f"_origin = {EVENT} AND {BEHIND}").select(*key)
    keys = measured.materialize(older.join(outcomes.where(f"_origin >= {DELTA}").select(*key), key, "left_anti"))
    if keys.isEmpty():
        return None
    if batch.spec.beyond_retention == "refuse":
        raise InputRefused(
            f"table {batch.spec.name}: the changes of {keys.count()} keys are older than tombstones that were purged (`tombstone_retention`), so the "
            "table cannot know whether the rows were deleted since. The changes stay in landing. Set `beyond_retention: apply` to insert them, or "
            "remove the files."
        )
    return keys


def _check_limits(spec: TableSpec, summary: BatchSummary) -> None:
    """Raise InputRefused if, with the changes beyond retention, more of the input cannot be used than `quarantine:` allows."""
    files = sum(bool(item.reason) for item in summary.inputs)
    limits = Limits(spec.quarantine_rows, spec.quarantine_share)
    problem = limits.problem(summary.unusable, summary.quarantined + summary.beyond_retention, summary.read, files, len(summary.inputs))
    if problem:
        raise InputRefused(f"table {spec.name}: {spec.landing}: {problem}")
