"""Read a Snapshot as states: its Delta, its base, and the base rows that a batch must be compared with; and the places of
base rows that the Delta hides, for deletion vectors.

Out: the stored columns, `columns.STATE` and ORIGIN (BASE or DELTA).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.files import DELETED, LIVE, Delta, Segment
from compactor.core.model.layout import Layout
from compactor.core.model.position import Position, at_or_below, event_part, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Snapshot
from compactor.spark import keys as key_sql
from compactor.spark.columns import BEHIND, LINK, LINK_MARK, MOVED, ORIGIN
from compactor.spark.rows import keyless, position
from compactor.spark.rows.reduce import BASE, DELTA, NEWEST, union
from compactor.spark.sql import named, quoted
from compactor.spark.tables import table_writer


@dataclass(frozen=True)
class TableReader:
    """The stored rows of one Snapshot."""

    spark: SparkSession
    layout: Layout
    snapshot: Snapshot
    schema: Schema
    """The columns to read in: the Snapshot's own, or those of its successor after a schema change."""

    def rows(self, segments: Sequence[Segment], states: Sequence[str] = (LIVE, DELETED)) -> DataFrame:
        """Return the rows of these Segments that are in one of these states."""
        return self._read(segments, BASE, states)

    def _read(self, parts: Sequence[Segment | Delta], origin: int, states: Sequence[str] = (LIVE, DELETED)) -> DataFrame:
        folders = {self.layout.inside(folder.path): folder.size for part in parts for folder in part.folders if folder.state in states}
        rows = table_writer.read(self.spark, self.schema, self.snapshot.order, folders, self.snapshot.schema)
        return rows.selectExpr("*", f"{origin} AS {ORIGIN}")

    def base(self, barrier: Position | None) -> DataFrame:
        """Return the base rows, without Segments that lie wholly at or below a truncate at `barrier`."""
        return self.rows([segment for segment in self.snapshot.segments if not at_or_below(segment.position_max, barrier)])

    def delta(self) -> DataFrame | None:
        """Return the Delta without the rows that a compaction has put into the base, or None if there is no Delta."""
        delta, segments = self.snapshot.delta, self.snapshot.segments
        if delta is None:
            return None
        rows = self._read([delta], DELTA)
        through = [segment.compacted_through for segment in segments]
        if not through:
            return rows
        if len(set(through)) == 1:
            return rows.where(f"_version > {through[0]}")
        table = ", ".join(f"{value}L" for value in through)
        return rows.where(f"_version > get(array({table}), {self._owner})")

    @property
    def _owner(self) -> str:
        """SQL: the index of the Segment that owns a row's key."""
        return key_sql.segment_index(self.snapshot.segments, self.snapshot.schema, self.schema)

    def live(self, soft: bool) -> DataFrame:
        """Return the rows that the view shows: the newest of each key, without deleted ones unless `soft`."""
        delta, keys = self.delta(), list(self.schema.key)
        base = self.rows(self.snapshot.segments, (LIVE, DELETED) if soft else (LIVE,))
        if delta is None:
            return base
        return base.join(delta.select(*keys), keys, "left_anti").unionByName(delta if soft else delta.where("_gone IS NULL"))

    def hidden(self) -> dict[str, list[int]]:
        """Return path below the root of a base file → places of its rows with a key of the Delta, sorted: the deletion vectors of an Iceberg table.

        One pass over the key columns of the Segments that own keys of the Delta. It is computed anew for each version: a compaction can take rows out
        of a Delta without writing their Segment again, so that the rows of an earlier vector are not always hidden later.
        """
        delta, layout, key = self.snapshot.delta, self.layout, list(self.schema.key)
        segments = [segment for segment in self.snapshot.segments if delta and segment.id not in delta.untouched]
        folders = {layout.inside(folder.path): folder.size for segment in segments for folder in segment.folders if folder.state == LIVE}
        if delta is None or not folders:
            return {}
        columns = [(name, self.schema.field(name).type) for name in key]
        changed = table_writer.parquet(self.spark, columns, {layout.inside(folder.path): folder.size for folder in delta.folders})
        base = table_writer.parquet(self.spark, columns, folders).select(*map(quoted, key), "_metadata")
        # after the join, which nearly no row passes
        rows = base.join(changed, key, "left_semi").selectExpr("_metadata.file_path AS _path", "_metadata.row_index AS _at")
        # an address of Spark's may be encoded; the names below the root are plain
        places = rows.groupBy("_path").agg(named("sort_array(collect_list(_at))", "_places"))
        return {"/".join(row._path.rsplit("/", 5)[1:]): row._places for row in places.collect()}

    def rows_to_compare(self, events: DataFrame, first: Position | None, partial: bool, soft: bool, behind: bool) -> DataFrame | None:
        """Return the base rows that events must be compared with, or None if there are none to compare.

        These are the keys of late events, and with `behind` of those BEHIND a purge; with `partial` (some values are unavailable) the keys of all
        events; with `soft` also the keys of deletes, because their rows stay visible.
        """
        if partial:
            return self.rows_with_keys_of(events)
        bound = latest([segment.position_max for segment in self.snapshot.segments])
        order, conditions = self.snapshot.order, []
        # by their place at the source: an event that is delivered again may lie in a file of a later name
        if first is not None and bound is not None and at_or_below(event_part(first), event_part(bound)):
            conditions.append(f"{position.event(NEWEST, order)} <= {position.event(position.fixed(bound, order), order)}")
        conditions += [BEHIND] if behind else []
        conditions += ["_gone IS NOT NULL"] if soft else []
        return self.rows_with_keys_of(events.where(" OR ".join(conditions))) if conditions else None

    def rows_with_keys_of(self, rows: DataFrame) -> DataFrame | None:
        """Return the base rows with the keys of `rows`. Only the Segments that own these keys are read."""
        keys = rows.select(*[quoted(name) for name in self.schema.key]).distinct()
        segments = self.snapshot.segments
        if len(segments) > 1:
            owners = {row[0] for row in keys.selectExpr(f"{self._owner} AS i").distinct().collect()}
            segments = tuple(segment for at, segment in enumerate(segments) if at in owners)
        return self.rows(segments).join(keys, list(self.schema.key), "left_semi") if segments else None

    def link_key_changes(self, changes: DataFrame) -> DataFrame:
        """Return Changes with FROM and TO of key changes whose other half an earlier run absorbed.

        The halves share only transaction and LSN, so this reads the marks of all stored rows. Call it only if a create lacks values, or if a late
        delete meets a table with unavailable values.
        """
        delta, base = self.delta(), self.base(None) if self.snapshot.segments else None
        rows = union([frame for frame in (base, delta) if frame is not None])
        waiting = rows.where(f"startswith(_moved, '{LINK_MARK}')")
        halves = [f"substring({MOVED}, {len(LINK_MARK) + 1}) AS {LINK}", f"{key_sql.row_key(self.schema)} AS _key"]
        is_gone = "coalesce(_gone >= _at, _gone IS NOT NULL)"
        left, arrived = (waiting.where(test).selectExpr(*halves) for test in (is_gone, f"NOT {is_gone}"))
        return key_sql.link_key_changes(changes, self.schema, left, arrived)

    def rows_for_removals(self, events: DataFrame, first: Position | None) -> DataFrame | None:
        """Return base rows of a keyless table: those that removals may take, those with an identity of the batch, and removals that wait.

        For a batch with late events (`first`: its first) also those that took each other.
        """
        segments = self.snapshot.segments
        if not segments:
            return None
        rows, key = self.rows(segments), list(self.schema.key)
        frames = [rows.join(events.select(*key).distinct(), key, "left_semi")]
        content = f"{keyless.content_digest(self.schema, [field.name for field in keyless.changed_columns(self.schema)])} AS _content"
        waiting = [rows.where(keyless.is_waiting())] if any(segment.tombstones for segment in segments) else []
        removals = union([events.where(keyless.is_waiting()).selectExpr(content), *(each.selectExpr(content) for each in waiting)]).distinct()
        frames.append(rows.where("_gone IS NULL").selectExpr("*", content).join(removals, ["_content"], "left_semi").drop("_content"))
        if waiting and at_or_below(first, latest([segment.position_max for segment in segments])):
            matched = rows.where(keyless.is_matched()).selectExpr("*", content)
            frames.append(matched.join(events.selectExpr(content).distinct(), ["_content"], "left_semi").drop("_content"))
        return union([*frames, *waiting]).dropDuplicates(key)
