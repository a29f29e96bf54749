"""Resolution: resolve a batch with the stored rows to one row for each key, and count what became of every event.

In: a SparkBatch (Changes). Out: a Resolution with the rows, in the columns of `rows/reduce.py`.

Where some state lacks a value, key changes carry values along: a create under a new key may lack those that its row had under the old key. What a key
change carries is a state of the new key with neither `_at` nor `_gone`: it gives single columns a value at the Position of the change, and is no row.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.position import Span, at_or_below, spanned
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import COUNTS
from compactor.core.model.spec import TableSpec
from compactor.core.planning import compaction
from compactor.core.planning.batch import Plan, plan
from compactor.core.results.batch import BatchSummary
from compactor.core.schema import shards
from compactor.core.sources.quarantine import BEYOND_RETENTION, LISTED_MAX, Limits
from compactor.spark import failures, measured
from compactor.spark.columns import BEHIND, FILE
from compactor.spark.keys import key_columns, key_types
from compactor.spark.measured import Numbers, Pass
from compactor.spark.reading import SparkBatch
from compactor.spark.rows import keyless, position, survey
from compactor.spark.rows.reduce import EVENT, HAS_NEW_KEY, MADE, MADE_OF_BATCH, OUTCOMES, Reducer, register, union
from compactor.spark.sql import DIGEST, listed, literal, named, null, query, quoted
from compactor.spark.tables import defaults
from compactor.spark.tables.segments import Placement, placement
from compactor.spark.tables.table_reader import TableReader

MAX_ROUNDS = 16
"""The number of key changes of one row that are followed within one run. Values behind a longer chain stay unavailable and are counted."""


@failures.translated
@dataclass(frozen=True)
class Resolution:
    """A batch resolved with the stored rows. Spark caches its rows until `close`."""

    batch: SparkBatch
    """The batch, without the changes that were set aside as beyond retention."""
    plan: Plan
    """The steps that were planned."""
    reducer: Reducer
    """The rule that was applied."""
    rows: DataFrame
    """One row for each key (`Reducer.rows`), without those that were set aside."""
    placed: Placement | None
    """The Segments that the rows have been placed in, for a new base."""
    numbers: Numbers | None = None
    """The numbers of events by outcome. None: the pass that writes the rows computes them."""
    linked: DataFrame | None = None
    """The Changes without truncates, with the old and new keys that stored rows add to key changes. None if none were looked up."""
    own: tuple[DataFrame, ...] = ()
    """The cached rows that `close` frees."""

    @property
    def summary(self) -> BatchSummary:
        return self.batch.summary

    @property
    def schema(self) -> Schema:
        return self.reducer.schema

    @property
    def order(self) -> position.Order:
        return self.reducer.order

    @property
    def partial(self) -> tuple[str, ...]:
        """Return the columns that may have a register of their own in some row."""
        parent = self.batch.parent
        return tuple(sorted({*self.summary.unavailable_columns, *(parent.unavailable_columns if parent else ())}))

    @property
    def span(self) -> Span:
        """Return Positions that no resolved row is below and above."""
        parent = self.batch.parent
        return spanned([(self.summary.first, self.summary.last), *([parent.span] if parent else [])])

    def counts(self, done: Pass | None = None) -> tuple[dict[str, int], int]:
        """Return the number of events by outcome (the keys are `snapshot.COUNTS`), and the number of ties.

        `done` is the pass that wrote the rows, if it computed the outcomes. Raises CheckFailed unless the sum is the number of events read.
        """
        numbers = self.numbers or (done.numbers("events") if done is not None else None)
        counts = self._by_outcome(numbers) if numbers is not None else {}
        if sum(counts.values()) != self.summary.read:
            # Spark counts twice what it computes twice
            numbers = measured.compute(self.rows, OUTCOMES)
            counts = self._by_outcome(numbers)
        if sum(counts.values()) != self.summary.read:
            raise CheckFailed(
                f"table {self.batch.spec.name}: read {self.summary.read} events, but the outcomes {counts} add up to {sum(counts.values())}. "
                "Nothing was committed."
            )
        return counts, numbers["ties"] if numbers is not None else 0

    def _by_outcome(self, numbers: Numbers) -> dict[str, int]:
        counts = {name: numbers.get(name, 0) for name in COUNTS}
        # truncates themselves are applied; they supersede all states at or below the barrier
        barrier = self.reducer.barrier
        if self.reducer.barriers or at_or_below(self.summary.first, barrier):
            bound = self.reducer.bound()
            counts["superseded"] += self.batch.changes.where(f"_op <> 't' AND _origin = {EVENT} AND _position <= {bound}").count()
        counts["applied"] += self.summary.truncates
        counts["duplicate"] += self.summary.unchanged
        counts["late"] += self.summary.late
        counts["ignored"] = self.summary.ignored
        counts["quarantined"], counts["beyond_retention"] = self.summary.quarantined, self.summary.beyond_retention
        return counts

    def close(self) -> None:
        for rows in self.own:
            measured.release(rows)


def segments(batch: SparkBatch) -> int:
    """Return the number of Segments of a base that is written with this batch."""
    size = (batch.parent.size if batch.parent else 0) + compaction.estimated_bytes(batch.summary.evolved.schema, batch.summary.changes)
    return compaction.segment_count(size, size, batch.spec)


def resolve(batch: SparkBatch, whole: bool, several_passes: bool = False) -> Resolution:
    """Resolve a batch with the parent's Delta, and with the whole base or only the base rows that the batch may change.

    The rows are computed by the pass that writes them; with `several_passes` they are computed here, once for all.
    """
    spec, summary, parent = batch.spec, batch.summary, batch.parent
    made = plan(spec, parent, summary, whole)
    schema, stored_rows = summary.evolved.schema, parent is not None
    reducer = Reducer(schema, summary.order, batch.version, spec.keyless, made.barrier, made.partial, stored_rows, made.tombstones)
    reducer = dataclasses.replace(reducer, shard=shards.stored(spec, schema), barriers=made.barriers)
    stored = TableReader(batch.session, spec.layout, parent, reducer.schema) if parent else None
    own: list[DataFrame] = []
    linked = None
    behind = position.behind(parent.purged_to, parent.purged_offsets, summary.order, spec.keyless) if parent and made.behind else "false"
    changes = (batch.changes.where("_op <> 't'") if summary.truncates else batch.changes).selectExpr("*", f"{behind} AS {BEHIND}")
    if stored and made.partial and _other_half_may_be_stored(batch, made.late):
        linked = changes = measured.materialize(stored.link_key_changes(changes))
        own.append(linked)
    events = reducer.states(changes, linked is not None or made.moves)
    states = _with_stored(batch, made, events, stored)
    if made.partial:
        states = _with_carried(reducer, states, stored)
    placed = None
    if whole and not several_passes:
        placed = placement(states, reducer.schema, [(None, None, segments(batch))], summary.changes + (parent.rows if parent else 0))
    if placed is not None and not spec.keyless:
        states, reducer = placed.place(states, reducer.schema), dataclasses.replace(reducer, placed=len(placed.ranges) > 1)
    elif made.small:
        states = states.coalesce(1)
    rows, numbers = reducer.rows(states), None
    if made.behind or several_passes:
        rows, numbers = measured.materialize_and_measure(rows, OUTCOMES)
        own.append(rows)
    else:
        rows = measured.observe(rows, "events", OUTCOMES)
    beyond = _beyond_retention(batch, rows) if made.behind else None
    if beyond is not None:
        # what they would do to other keys is not done either
        kept = _without(batch, beyond, behind)
        rest = resolve(kept, whole, several_passes)
        return dataclasses.replace(rest, own=(*own, kept.changes, *rest.own))
    if spec.keyless:
        # removals are matched across all ranges: rows are placed after that
        def keep(frame: DataFrame) -> DataFrame:
            own.append(measured.materialize(frame))
            return own[-1]

        rows = keyless.match_removals(rows, reducer.schema, reducer.order, batch.version, keep) if made.tombstones else rows
        rows = placed.place(rows, reducer.schema) if placed is not None else rows
    return Resolution(batch, made, reducer, rows, placed, numbers, linked, tuple(own))


def _with_stored(batch: SparkBatch, made: Plan, events: DataFrame, stored: TableReader | None) -> DataFrame:
    """Return the states of the batch and of the stored rows that it may change."""
    if stored is None:
        return events
    base: DataFrame | None
    if made.whole:
        base = stored.base(None if batch.spec.shard else batch.summary.truncate)
    elif batch.spec.keyless:
        base = stored.rows_for_removals(events, batch.summary.first) if made.tombstones else stored.rows_with_keys_of(events)
    else:
        base = stored.rows_to_compare(events, batch.summary.first, bool(made.partial), batch.spec.soft, made.behind)
    if base is not None and made.small and not batch.spec.in_one_task(stored.snapshot.size):
        # the look-up stays on all cores
        base = base.repartition(1)
    rows = [frame for frame in (base, stored.delta()) if frame is not None]
    schema = batch.summary.evolved.schema
    return union([events, *(defaults.without_later(frame, batch.spec, schema, made.partial, batch.summary.order) for frame in rows)])


def _without(batch: SparkBatch, keys: DataFrame, behind: str) -> SparkBatch:
    """Return the batch without the changes of these keys that are `behind` (SQL) a purge; they count as beyond retention.

    The removal of an update counts with the update.
    """
    key = list(batch.summary.evolved.schema.key)
    old = f"(_op <> 't' AND coalesce({behind}, false))"
    rows = batch.changes.where(f"{old} AND _origin = {EVENT}").join(keys, key, "left_semi")
    rows = rows.selectExpr("*", *position.record_place(batch.spec))
    counts = {row[FILE]: row["count"] for row in rows.groupBy(FILE).count().collect()}
    set_aside = survey.list_unusable(rows, literal(BEYOND_RETENTION), "to_json(struct(*))", batch.raws, batch.spec)
    inputs = tuple(dataclasses.replace(item, quarantined=item.quarantined + counts.get(item.name, 0)) for item in batch.summary.inputs)
    unusable = (*batch.summary.unusable, *set_aside)[:LISTED_MAX]
    beyond = batch.summary.beyond_retention + sum(counts.values())
    summary = dataclasses.replace(batch.summary, inputs=inputs, beyond_retention=beyond, unusable=unusable)
    _check_limits(batch.spec, summary)
    kept = batch.changes.where(f"NOT {old}").unionByName(batch.changes.where(old).join(keys, key, "left_anti"))
    return dataclasses.replace(batch, summary=summary, changes=measured.materialize(kept))


def _other_half_may_be_stored(batch: SparkBatch, late: bool) -> bool:
    """Whether the batch has a create without all values, or a delete that a stored row without all values may wait for."""
    if batch.spec.keyless:
        return False
    arrived = "_op = 'c' AND size(_missing) > 0 AND _from IS NULL"
    left = "_op = 'd'" if batch.parent and batch.parent.unavailable_columns and late else "false"
    return not batch.changes.where(f"_link IS NOT NULL AND (({arrived}) OR {left})").isEmpty()


_BEYOND = f"(_origin = {EVENT} AND {BEHIND})"
"""SQL: whether some changes of a reduced row are older than purged tombstones, without a stored row. A purged delete may have ended it."""


def _beyond_retention(batch: SparkBatch, rows: DataFrame) -> DataFrame | None:
    """Return the keys of rows that are `_BEYOND`, or None if there are none. Raises InputRefused under `beyond_retention: refuse`."""
    keys = rows.where(_BEYOND).select(*map(quoted, batch.summary.evolved.schema.key))
    count = keys.count()
    if not count:
        return None
    if batch.spec.beyond_retention == "refuse":
        raise InputRefused(
            f"table {batch.spec.name}: the changes of {count} keys are older than tombstones that were purged (`tombstone_retention`), so the "
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


def _with_carried(reducer: Reducer, states: DataFrame, stored: TableReader | None) -> DataFrame:
    """Return the states with those that key changes carry along. Each round follows one step of a chain, until a round adds nothing."""
    if states.where(HAS_NEW_KEY).isEmpty():
        return states
    result, digest = states, None
    for _ in range(MAX_ROUNDS):
        carried = measured.materialize(query("carry", _carried(reducer), states=result))
        before, digest = digest, carried.agg(named(DIGEST, "s")).collect()[0].s
        if digest == before:
            break
        base = stored.rows_with_keys_of(carried) if stored else None
        frames = [states, carried]
        if base is not None:
            frames.append(base.join(states.select(*reducer.keys).distinct(), list(reducer.schema.key), "left_anti"))
        result = union(frames)
    return result


def _carried(reducer: Reducer) -> str:
    """Return the query over `{states}` for what key changes carry.

    Every tombstone with a new key passes on what its row held at that moment, also if the old key has a row again since (a swap through a third key).
    Only keys that this batch touches are looked at.
    """
    schema, order, keys = reducer.schema, reducer.order, reducer.keys
    ddl = position.ddl(order)
    same = " AND ".join(f"s.{key} <=> m.{key}" for key in keys)
    after = " AND NOT coalesce({} <= {}, false)" if reducer.bounded else ""
    bound = f", max({reducer.bound('s.')}) AS _bound" if reducer.bounded else ""
    after_gone = after.format("_gone", reducer.bound()) if reducer.bounded else ""
    registers, values, entries = [], [], []
    for at, name in enumerate(reducer.partial):
        own = register(name, "s.", "s._at")
        registers.append(f"max_by({own.struct(f's.{quoted(name)}')}, CASE WHEN {own.at} < m._p THEN {own.rank(order, 's._origin')} END) AS _r{at}")
        has = f"coalesce(_r{at}.known AND (_floor IS NULL OR _r{at}.at >= _floor){after.format(f'_r{at}.at', '_bound')}, false)"
        values.append(f"CASE WHEN {has} THEN _r{at}.v END AS {quoted(name)}")
        entries.append(f"CASE WHEN {has} THEN struct({literal(name)}, struct(_p AS at, CAST(NULL AS BOOLEAN) AS known)) END")
    # deletes after the newest event of the row take nothing from it: one is the other half of the change
    lived = f"max(CASE WHEN s._at < m._p THEN s._at END) AS _lived, collect_set(s._gone) AS _deletes{bound}"
    # a newer row is stored under the old key: what was stored before it is not known any more
    place = position.event("coalesce(s._gone, s._at)", order)
    replaced = f"max(s._origin > {MADE} AND {place} > {position.event('m._p', order)}) AS _replaced"
    new_key = dict(zip(schema.key, key_columns("_to", key_types(schema))))
    rest = [f"{null(types.parse(schema.field(name).type))} AS {quoted(name)}" for name in schema.values if name not in reducer.partial]
    carried = f"array_compact(array({', '.join(entries)}))"
    return f"""
SELECT {", ".join(f"{value} AS {quoted(name)}" for name, value in new_key.items())},
  {listed([*values, *rest])},
  CAST(NULL AS BIGINT) AS _version, CAST(NULL AS {ddl}) AS _at, CAST(NULL AS {ddl}) AS _gone,
  CAST(map_from_entries({carried}) AS {position.own_ddl(order)}) AS _own,
  CAST(NULL AS STRING) AS _moved, CASE WHEN _replaced THEN {MADE_OF_BATCH} ELSE {MADE} END AS _origin, false AS _behind
FROM (SELECT *, array_max(filter(_deletes, _d -> _d < _lived)) AS _floor FROM (
  SELECT m._p, m._to, {lived}, {replaced},
    {listed(registers)}
  FROM {{states}} s JOIN (SELECT {", ".join(keys)}, _gone AS _p, _moved AS _to FROM {{states}} WHERE {HAS_NEW_KEY}{after_gone}) m ON {same}
  GROUP BY {", ".join(f"m.{key}" for key in keys)}, m._p, m._to
  HAVING max(s._origin <= {MADE})
))
WHERE size({carried}) > 0"""
