"""What a Snapshot already holds, as states: its Delta, its base, and the base rows that a batch must be compared with (H8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.layout import Layout
from compactor.core.model.position import Position, at_or_below, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Segment, Snapshot
from compactor.spark.rows import keyless, position
from compactor.spark.rows.conform import key_text
from compactor.spark.rows.resolve import BASE, DELTA, LINK, union
from compactor.spark.sql import named, quoted
from compactor.spark.tables import table_writer


@dataclass(frozen=True)
class Stored:
    """The stored rows of one Snapshot, read in `schema` (the Snapshot's own, or its successor after a schema change)."""

    spark: SparkSession
    layout: Layout
    snapshot: Snapshot
    schema: Schema

    def rows(self, segments: Sequence[Segment]) -> DataFrame:
        """The rows of these segments."""
        directories = {self.layout.inside(segment.path): segment.size for segment in segments}
        found = table_writer.read(self.spark, self.schema, self.snapshot.order, directories, self.snapshot.schema)
        return found.selectExpr("*", f"{BASE} AS _source")

    def base(self, barrier: Position | None) -> DataFrame:
        """The rows of all segments that do not lie wholly at or below a truncate."""
        return self.rows([segment for segment in self.snapshot.segments if not at_or_below(segment.position_max, barrier)])

    def delta(self) -> DataFrame | None:
        """The Delta without the rows that a fold has already put into the base (H16); None when there is none."""
        delta, segments = self.snapshot.delta, self.snapshot.segments
        if delta is None:
            return None
        rows = table_writer.read(self.spark, self.schema, self.snapshot.order, {self.layout.inside(delta.path): delta.size}, self.snapshot.schema)
        rows = rows.selectExpr("*", f"{DELTA} AS _source")
        through = [segment.compacted_through for segment in segments]
        if not through:
            return rows
        if len(set(through)) == 1:
            return rows.where(f"_version > {through[0]}")
        table = ", ".join(f"{value}L" for value in through)
        return rows.where(f"_version > get(array({table}), {table_writer.segment_index(segments, self.schema)})")

    def live(self, soft: bool) -> DataFrame:
        """What the view shows: the newest row of each key that is not deleted; with `soft` deleted ones too."""
        base, delta, keys = self.rows(self.snapshot.segments), self.delta(), list(self.schema.key)
        rows = base if delta is None else base.join(delta.select(*keys), keys, "left_anti").unionByName(delta)
        return rows if soft else rows.where("_op = 'u'")

    def compared_with(self, events: DataFrame, first: Position | None, partial: bool, soft: bool) -> DataFrame | None:
        """The base rows that events must be compared with: all their keys when values may be missing, else the keys of late ones.

        With `soft`, those of deletes too: their rows go on being shown.
        """
        if partial:
            return self.of_keys(events)
        bound = latest([segment.position_max for segment in self.snapshot.segments])
        wanted = [f"_position <= {position.fixed(bound, self.snapshot.order)}"] if bound is not None and at_or_below(first, bound) else []
        wanted += ["_op = 'd'"] if soft else []
        return self.of_keys(events.where(" OR ".join(wanted))) if wanted else None

    def of_keys(self, wanted: DataFrame) -> DataFrame | None:
        """Base rows of the keys in `wanted`, out of the segments that own them."""
        keys = wanted.select(*[quoted(name) for name in self.schema.key]).distinct()
        segments = self.snapshot.segments
        if len(segments) > 1:
            index = table_writer.segment_index(segments, self.schema)
            owners = {row[0] for row in keys.selectExpr(f"{index} AS i").distinct().collect()}
            segments = tuple(segment for at, segment in enumerate(segments) if at in owners)
        return self.rows(segments).join(keys, list(self.schema.key), "left_semi") if segments else None

    def relinked(self, changes: DataFrame) -> DataFrame:
        """Changes with `_from` and `_to` of key changes whose other half was absorbed by an earlier run (H10).

        The halves know each other by transaction and LSN only, so this looks at the marks of all stored rows: it is asked for when a create
        lacks values, or a late delete meets a table that does.
        """
        kinds = [self.schema.field(name).type for name in self.schema.key]
        key = key_text([quoted(name) for name in self.schema.key], kinds)
        delta, base = self.delta(), self.base(None) if self.snapshot.segments else None
        rows = union([frame for frame in (base, delta) if frame is not None])
        left = _halves(rows.where(f"_op = 'd' AND startswith(_moved_to, '{LINK}')"), "_moved_to", key, "_left")
        arrived = _halves(rows.where(f"_op = 'u' AND startswith(_from, '{LINK}')"), "_from", key, "_arrived")
        joined = changes.join(left, ["_link"], "left").join(arrived, ["_link"], "left")
        came = f"CASE WHEN _op = 'c' AND size(_missing) > 0 AND _left <> {key} THEN _left END"
        went = f"CASE WHEN _op = 'd' AND _arrived <> {key} THEN _arrived END"
        keep = [quoted(name) for name in changes.columns if name not in ("_from", "_to")]
        return joined.selectExpr(*keep, f"coalesce(_from, {came}) AS _from", f"{went} AS _to")

    def of_content(self, events: DataFrame) -> DataFrame | None:
        """For keyless tables: base rows that a removal may take away or an identity may be, and removals that wait in the base."""
        segments = self.snapshot.segments
        if not segments:
            return None
        rows, key = self.rows(segments), list(self.schema.key)
        wanted = [rows.join(events.select(*key).distinct(), key, "left_semi")]
        content = keyless.content(self.schema)
        removals = events.where(f"_from = '{keyless.REMOVAL}'").selectExpr(f"{content} AS _c").distinct()
        live = rows.selectExpr("*", f"{content} AS _c").where("_op = 'u'")
        wanted.append(live.join(removals, ["_c"], "left_semi").drop("_c"))
        if any(segment.tombstones for segment in segments):
            wanted.append(rows.where(keyless.waiting()))
        return union(wanted).dropDuplicates(key)


def _halves(rows: DataFrame, mark: str, key: str, name: str) -> DataFrame:
    """(link, key) of the rows that wait for the other half of their key change, where just one key does."""
    found = rows.selectExpr(f"substring({mark}, {len(LINK) + 1}) AS _link", f"{key} AS _key").groupBy("_link")
    return found.agg(named("min(_key)", name), named("count(DISTINCT _key)", "_n")).where("_n = 1").drop("_n")
