"""Resolution: a batch and what is stored, resolved to one row per key; what became of every event."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog.feed import ALL
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.layout import Layout
from compactor.core.model.position import at_or_below, event_part, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary
from compactor.core.sources.quarantine import BEYOND_RETENTION, LISTED_MAX
from compactor.spark.reading import SparkBatch, record_place
from compactor.spark.rows import keyless, position, survey
from compactor.spark.rows.resolve import EVENT, MOVED, Resolver, union
from compactor.spark.sql import literal, named, quoted
from compactor.spark.tables import table_writer
from compactor.spark.tables.table_reader import Stored

_MAX_ROUNDS = 16
"""Key changes of one row followed within one run. A longer chain leaves its unavailable values unknown, and counted."""


@dataclass(frozen=True)
class Resolution:
    """A batch resolved with what is stored. Spark's cache holds its rows until `close`."""

    batch: SparkBatch
    """The batch, without the changes that were set aside as beyond retention."""
    whole: bool
    """Whether it was resolved with the whole base, for a new base."""
    resolver: Resolver
    """What it was resolved by."""
    outcomes: DataFrame
    """Every state of every key, with `_outcome` and `_tie`."""
    heads: DataFrame
    """The rows that stay: one per key."""
    counts: dict[str, int]
    """What became of every event, by `snapshot.COUNTS`."""
    ties: int
    """Events whose order columns were all equal to another's of the same key."""
    linked: DataFrame | None = None
    """The changes without truncates, with what stored rows tell of key changes; None when they tell nothing."""
    event_outcomes: DataFrame | None = None
    """Key, `_position` and `_event_outcome` of each event, for `feed: all`."""
    own: tuple[DataFrame, ...] = ()
    """Cached rows that only this Resolution needs."""

    @property
    def summary(self) -> BatchSummary:
        """The facts about the batch."""
        return self.batch.summary

    @property
    def spec(self) -> TableSpec:
        """The table."""
        return self.batch.spec

    @property
    def parent(self) -> Snapshot | None:
        """The version that it continues."""
        return self.batch.parent

    @property
    def version(self) -> int:
        """The version that is being made."""
        return self.batch.version

    @property
    def changes(self) -> DataFrame:
        """The changes of the batch."""
        return self.batch.changes

    @property
    def schema(self) -> Schema:
        """The stored columns."""
        return self.resolver.schema

    @property
    def order(self) -> position.Order:
        """The Position columns."""
        return self.resolver.order

    @property
    def layout(self) -> Layout:
        """The paths of the table."""
        return Layout(self.spec.root, self.spec.landing)

    def close(self) -> None:
        """Let the cache go."""
        for rows in self.own:
            rows.unpersist()


def resolve(spark: SparkSession, batch: SparkBatch, whole: bool) -> Resolution:
    """Resolve a batch with the parent's Delta and either the whole base or the base rows that must be compared.

    Changes that may be older than a purged tombstone are set aside, and the others resolved again (H12).
    """
    made, aside = _resolved(spark, batch, whole)
    if aside is None:
        return made
    made.close()
    remaining = _without(batch, aside)
    made, _ = _resolved(spark, remaining, whole, judge=False)
    return dataclasses.replace(made, own=(*made.own, remaining.changes))


def _resolved(spark: SparkSession, batch: SparkBatch, whole: bool, judge: bool = True) -> tuple[Resolution, DataFrame | None]:
    """The resolution, and the keys whose changes are beyond retention."""
    spec, summary, parent = batch.spec, batch.summary, batch.parent
    resolver = Resolver(summary.evolved.schema, summary.order, batch.version, spec.keyless)
    stored = Stored(spark, Layout(spec.root, spec.landing), parent, resolver.schema) if parent else None
    partial = _partial(batch)
    own: list[DataFrame] = []
    linked = None
    changes = batch.changes.where("_op <> 't'")
    if stored and partial and _other_half_may_be_stored(batch):
        linked = changes = table_writer.held(stored.relinked(changes))
        own.append(linked)
    events = resolver.states(changes)
    frames = [events]
    if stored:
        base = stored.base(summary.truncate) if whole else _compared(stored, batch, events, bool(partial))
        frames += [frame for frame in (base, stored.delta()) if frame is not None]
    barrier = latest([summary.truncate, parent.truncated_to if parent else None])
    gone = f"_position <= {position.fixed(barrier, summary.order)}" if barrier else "false"
    states = union(frames).where(f"NOT ({gone})")
    if partial:
        states = _moved(resolver, states, stored, partial)
    outcomes = table_writer.held(resolver.outcomes(states, partial))
    own.append(outcomes)
    counts, ties = _counts(batch, outcomes, events, gone)
    heads = resolver.heads(outcomes)
    if spec.keyless:
        heads = keyless.matched(heads, resolver.schema, batch.version)
    aside = _beyond_retention(batch, heads) if judge else None
    event_outcomes = None
    if spec.feed == ALL and aside is None:
        told = outcomes.where(f"_source = {EVENT}")
        event_outcomes = table_writer.held(told.selectExpr(*resolver.keys, "_position", "_outcome AS _event_outcome"))
        own.append(event_outcomes)
    return Resolution(batch, whole, resolver, outcomes, heads, counts, ties, linked, event_outcomes, tuple(own)), aside


def _without(batch: SparkBatch, keys: DataFrame) -> SparkBatch:
    """The batch without the changes of these keys, which count as beyond retention."""
    key = list(batch.summary.evolved.schema.key)
    rows = batch.changes.where("_op <> 't'").join(keys, key, "left_semi")
    rows = rows.selectExpr("*", *record_place(batch.spec))
    counts = {row["_file"]: row["count"] for row in rows.groupBy("_file").count().collect()}
    told = survey.unusable(rows, literal(BEYOND_RETENTION), "to_json(struct(*))")
    inputs = tuple(dataclasses.replace(item, quarantined=item.quarantined + counts.get(item.path, 0)) for item in batch.summary.inputs)
    unusable = (*batch.summary.unusable, *told)[:LISTED_MAX]
    summary = dataclasses.replace(batch.summary, inputs=inputs, beyond_retention=sum(counts.values()), unusable=unusable)
    return dataclasses.replace(batch, summary=summary, changes=table_writer.held(batch.changes.join(keys, key, "left_anti")))


def _compared(stored: Stored, batch: SparkBatch, events: DataFrame, partial: bool) -> DataFrame | None:
    if batch.spec.keyless:
        return stored.of_content(events)
    return stored.compared_with(events, batch.summary.first, partial, batch.spec.soft)


def _late(batch: SparkBatch) -> bool:
    """Whether a change may be no newer than what is stored; of one place at the source, whichever file told it first."""
    first, stored = batch.summary.first, batch.parent.position_max if batch.parent else None
    if first is None or stored is None:
        return False
    return at_or_below(event_part(first), event_part(stored)) if batch.summary.order else at_or_below(first, stored)


def _other_half_may_be_stored(batch: SparkBatch) -> bool:
    """Whether a create without its values, or a delete that a row without values waits for, is in the batch."""
    if batch.spec.keyless:
        return False
    arrived = "_op = 'c' AND size(_missing) > 0 AND _from IS NULL"
    left = "_op = 'd'" if batch.parent and batch.parent.partial and _late(batch) else "false"
    return not batch.changes.where(f"_link IS NOT NULL AND (({arrived}) OR {left})").isEmpty()


def _partial(batch: SparkBatch) -> tuple[str, ...]:
    """The columns that need registers of their own: changes that do not tell them, or late changes that meet rows which do not."""
    if batch.spec.keyless:
        return ()
    stored = batch.parent.partial if batch.parent else ()
    needed = batch.summary.partial or (stored and _late(batch))
    return tuple(sorted({*batch.summary.partial, *stored})) if needed else ()


def _moved(resolver: Resolver, states: DataFrame, stored: Stored | None, partial: Sequence[str]) -> DataFrame:
    """The states with what key changes carry along, one step of a chain a round, until a round tells nothing new (H10)."""
    if states.where(MOVED).isEmpty():
        return states
    found, told = states, None
    for _ in range(_MAX_ROUNDS):
        fills = table_writer.held(resolver.fills(found, partial))
        before, told = told, fills.agg(named("bit_xor(xxhash64(to_json(struct(*))))", "s")).collect()[0].s
        if told == before:
            break
        base = stored.of_keys(fills) if stored else None
        frames = [states, fills]
        if base is not None:
            frames.append(base.join(states.select(*resolver.keys).distinct(), list(resolver.schema.key), "left_anti"))
        found = union(frames)
    return found


def _beyond_retention(batch: SparkBatch, heads: DataFrame) -> DataFrame | None:
    """H12: a change older than purged tombstones, with no stored row, may be one that a purged delete had ended. The keys of such changes.

    Raises InputRefused under `beyond_retention: refuse`.
    """
    purged = batch.parent.purged_to if batch.parent else None
    if purged is None or batch.spec.beyond_retention == "apply" or not at_or_below(batch.summary.first, purged):
        return None
    found = heads.where(f"_source = {EVENT} AND _position <= {position.fixed(purged, batch.summary.order)}")
    keys = table_writer.held(found.select(*[quoted(name) for name in batch.summary.evolved.schema.key]))
    if keys.isEmpty():
        return None
    if batch.spec.beyond_retention == "refuse":
        raise InputRefused(
            f"table {batch.spec.name}: the changes of {keys.count()} keys are older than tombstones that were purged (tombstone_retention); whether "
            "they were deleted since cannot be known. They stay in landing. Say `beyond_retention: apply` to insert them, or remove the files."
        )
    return keys


def _counts(batch: SparkBatch, outcomes: DataFrame, events: DataFrame, gone: str) -> tuple[dict[str, int], int]:
    """What became of every event, and how many ties there were. Raises CheckFailed unless the sum is what was read."""
    grouped = outcomes.where(f"_source = {EVENT}").groupBy("_outcome")
    rows = grouped.agg(named("count(1)", "n"), named("count_if(_tie)", "t")).collect()
    counts = dict.fromkeys(COUNTS, 0)
    counts.update({row["_outcome"]: row.n for row in rows})
    # truncates themselves are applied; what lies at or below the barrier is superseded by it
    counts["superseded"] += 0 if gone == "false" else events.where(f"_source = {EVENT} AND ({gone})").count()
    counts["applied"] += batch.summary.truncates
    counts["duplicate"] += batch.summary.unchanged
    counts["late"] += batch.summary.late
    counts["ignored"] = batch.summary.ignored
    counts["quarantined"], counts["beyond_retention"] = batch.summary.quarantined, batch.summary.beyond_retention
    if sum(counts.values()) != batch.summary.read:
        raise CheckFailed(
            f"table {batch.spec.name}: {batch.summary.read} events read, but {counts} add up to {sum(counts.values())}. Nothing was committed."
        )
    return counts, sum(row.t for row in rows)
