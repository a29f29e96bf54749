"""Full copies (`envelope: full-load`) → Changes: what each copy has that the one before it had not, had otherwise, or has lost.

The first copy of a batch is held against the rows that the parent shows. Of a key the rows of all these lie side by side, in the order of the copies:

| in the copy before | in this one | Change |
|---|---|---|
| not there | there | `c`: its row |
| there, and a column differs | there | `u`: its row |
| there, and all columns are equal | there | none: the row counts as a duplicate |
| there | not there | `d`, at the copy's hour, as if from its first file |

So what is resolved, written to history and told by the feed is in proportion to the differences.

A copy that comes late goes to its place in the history in the same way: before it lie the rows that the history has as of the copy before; after it
those as of the next copy absorbed, which brings back what it had otherwise. Whatever order copies come in, it is the same history.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.history import History
from compactor.core.model.layout import Layout
from compactor.core.model.position import Position, at_or_below, latest
from compactor.core.model.snapshot import Input, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import BatchSummary
from compactor.core.sources.full_loads import gaps, newest_hour
from compactor.core.sources.quarantine import Unusable
from compactor.spark.decode.full_load import micros
from compactor.spark.full_loads.rows import check_records
from compactor.spark.history.parts import Parts
from compactor.spark.history.versions import Versions
from compactor.spark.input.inputs import Inputs
from compactor.spark.keys import key_text
from compactor.spark.rows import position
from compactor.spark.rows.resolve import EVENT, union
from compactor.spark.sql import literal, named, null, quoted
from compactor.spark.tables.compare import comparable
from compactor.spark.tables.table_reader import TableReader

_TWICE = "2"
"""Beside the operations of Changes: a row of a key that its copy had already."""


@dataclasses.dataclass(frozen=True)
class _Copy:
    """A copy: `number` counts from 1 in the order of hours, `file` is its first; `rows` that were read from it."""

    number: int
    hour: str
    folder: str
    file: str
    rows: int


@dataclasses.dataclass(frozen=True)
class _Stretch:
    """Copies one after the other, and the rows `before` them (None: there are none).

    Those that come late are followed by one that is absorbed, of the hour `then`: it has the rows `after`, and what it brought of the keys in `known`
    is stored already.
    """

    copies: Sequence[_Copy]
    before: DataFrame | None
    then: str | None = None
    after: DataFrame | None = None
    known: DataFrame | None = None

    @property
    def end(self) -> int:
        """The number of the last copy, the absorbed one included."""
        return len(self.copies) + (self.then is not None)


@dataclasses.dataclass(frozen=True)
class Differences:
    """The Changes that lead from the parent's rows through the copies of a batch. `known`: as the Engine's `read` has `copies`."""

    spark: SparkSession
    opened: Inputs
    parent: Snapshot | None
    summary: BatchSummary
    version: int
    known: Sequence[str] = ()

    def of(self, rows: DataFrame) -> tuple[DataFrame, BatchSummary]:
        """The Changes of `rows`, which are all rows of all copies as Changes, and the facts about them.

        A copy that is older than the newest one absorbed changes the history only, where it has a place there; otherwise its rows are late, and
        nothing more. Raises NotWhole for a copy with two rows of one key, CheckFailed when a copy lacks more of the rows before it than
        `checks: {max_gone: ..}` allows, InputRefused when two copies are of one hour.
        """
        spec = self.opened.spec
        counts = {row["hour"]: row["count"] for row in rows.groupBy(named("_position.o1", "hour")).count().collect()}
        found = _copies([item for item in self.opened.inputs if self.opened.places[item] not in self.opened.unreadable], counts, spec)
        stretches = self._stretches(found)
        parts, first, taken, written, made = [], [], 0, 0, 0
        for stretch in stretches:
            changes = self.opened.materialize(self._changes(rows, stretch))
            grouped = changes.groupBy("_op", "__copy_at").agg(named("count(1)", "n"), named(self._key_text, "k")).collect()
            told = {(row["_op"], row["__copy_at"]): row for row in grouped}
            self._check_keys(stretch, {at: (row.n, row.k) for (op, at), row in told.items() if op == _TWICE})
            _check_gone(spec, stretch, {at: row.n for (op, at), row in told.items() if op == "d"})
            parts.append(changes.drop("__copy_at"))
            first += [stretch.copies[0].hour] if told else []
            taken += sum(copy.rows for copy in stretch.copies)
            written += sum(row.n for row in told.values())
            made += sum(row.n for (op, at), row in told.items() if op == "d" or at > len(stretch.copies))
        rows.unpersist()
        last: Position | None = (spec.epoch, found[-1].hour, None, None, None) if found else None
        return (union(parts) if parts else rows.where("false")), dataclasses.replace(
            self.summary,
            read=self.summary.read + made,
            changes=written,
            first=(spec.epoch, min(first), None, None, None) if first else None,
            last=latest([self.summary.last, last]),
            unchanged=taken + made - written,
            late=sum(counts.values()) - taken,
        )

    def _stretches(self, found: Sequence[_Copy]) -> list[_Stretch]:
        """The copies after the newest one absorbed, and those that come late and have a place in the history."""
        spec, parent = self.opened.spec, self.parent
        newest = newest_hour(parent)
        fresh = _numbered([copy for copy in found if newest is None or copy.hour > newest])
        out = []
        if fresh:
            schema = self.summary.evolved.schema
            stored = TableReader(self.spark, Layout(spec.root, spec.landing), parent, schema).live(soft=False) if parent else None
            out.append(_Stretch(fresh, stored))
        history = parent.history if parent and self.known and not self.summary.evolved.retyped else None
        if parent is None or history is None:
            return out
        # what was before the history began, and deletes that were purged, nobody knows any more
        since = [history.since[:16]] if history.since else []
        since += [str(parent.purged_to[1])] if parent.purged_to is not None else []
        by_hour = {copy.hour: copy for copy in found if newest is not None and copy.hour <= newest and all(copy.hour > known for known in since)}
        for gap in gaps(by_hour, self.known):
            events = self._events(history, gap.before)
            told = events.where(f"_position.o1 = {literal(gap.after)}").select(*self._keys)
            copies = _numbered([by_hour[hour] for hour in gap.late])
            out.append(_Stretch(copies, _as_of(events, gap.before) if gap.before else None, gap.after, _as_of(events, gap.after), told))
        return out

    def _events(self, history: History, hour: str | None) -> DataFrame:
        """The stored events that were the last of their key at that hour, and those after them: each holds from `_position` to `__end_position`."""
        assert self.parent is not None
        spec, schema = self.opened.spec, self.summary.evolved.schema
        versions = Versions(schema, self.summary.order, self.version, ())
        parts = Parts(self.spark, Layout(spec.root, spec.landing), versions, self.parent.schema)
        bound = (spec.epoch, hour) if hour else None
        closed = parts.rows([part for part in history.closed if part.last is None or not at_or_below(part.last[:2], bound)])
        opened = parts.rows(history.open)
        if history.delta:
            delta = parts.rows([history.delta])
            opened = opened.join(delta.select(*self._keys), list(schema.key), "left_anti").unionByName(delta)
        return closed.unionByName(opened)

    @property
    def _keys(self) -> list[str]:
        return [quoted(name) for name in self.summary.evolved.schema.key]

    @property
    def _key_text(self) -> str:
        """SQL: one of the keys of a group."""
        schema = self.summary.evolved.schema
        return f"min({key_text(self._keys, [schema.field(name).type for name in schema.key])})"

    def _changes(self, rows: DataFrame, stretch: _Stretch) -> DataFrame:
        """Changes as `conform` makes them, with `__copy_at`: the number of their copy."""
        schema = self.summary.evolved.schema
        payload = [field for field in schema.fields if field.name not in schema.key]
        content = ", ".join(f"{comparable(quoted(field.name), field.type)} AS c{at}" for at, field in enumerate(payload)) or "1 AS c0"
        kinds = "__copy_at INT, __copy_hour STRING, __copy_first STRING"
        numbers = [(copy.number, copy.hour, copy.file) for copy in stretch.copies]
        numbers += [(stretch.end, stretch.then, stretch.copies[0].file)] if stretch.then is not None else []
        table = F.broadcast(self.spark.createDataFrame(numbers, kinds))
        both = rows.withColumn("__copy_hour", F.expr("_position.o1")).join(table.drop("__copy_first"), ["__copy_hour"], "inner").drop("__copy_hour")
        for at, found in ((0, stretch.before), (stretch.end, stretch.after)):
            if found is not None:
                both = both.unionByName(found.selectExpr(*[quoted(name) for name in schema.names], f"{at} AS __copy_at"), allowMissingColumns=True)
        along = f"(PARTITION BY {', '.join(self._keys)} ORDER BY __copy_at)"
        side = both.selectExpr("*", f"struct({content}) AS __copy_content").selectExpr(
            "*",
            f"lag(struct(__copy_at AS at, __copy_content AS content)) OVER {along} AS __copy_before",
            f"lead(__copy_at) OVER {along} AS __copy_next",
        )
        own = (
            f"CASE WHEN __copy_at = 0 THEN NULL WHEN __copy_before.at = __copy_at THEN named_struct('op', '{_TWICE}', 'at', __copy_at) "
            "WHEN __copy_before IS NULL OR __copy_before.at < __copy_at - 1 THEN named_struct('op', 'c', 'at', __copy_at) "
            "WHEN NOT (__copy_before.content <=> __copy_content) THEN named_struct('op', 'u', 'at', __copy_at) END"
        )
        absent = f"__copy_at < {stretch.end} AND (__copy_next IS NULL OR __copy_next > __copy_at + 1)"
        ended = f"CASE WHEN {absent} THEN named_struct('op', 'd', 'at', __copy_at + 1) END"
        told = side.drop("_op").selectExpr("*", f"explode(filter(array({own}, {ended}), _e -> _e IS NOT NULL)) AS __copy_event")
        placed = told.drop("__copy_at").selectExpr("*", "__copy_event.op AS _op", "__copy_event.at AS __copy_at").join(table, ["__copy_at"], "inner")
        place = f"named_struct('epoch', {self.opened.spec.epoch}, 'o1', __copy_hour, 'file', __copy_first, 'block', 0L, 'row', -1L)"
        # no row of a file stands for a delete, nor for what a copy that is absorbed has as before
        made = f"(_op = 'd' OR __copy_at > {len(stretch.copies)})"
        lost = f"CAST({place} AS {position.ddl(self.summary.order)})"
        given = {
            "_position": f"CASE WHEN {made} THEN {lost} ELSE _position END",
            "_file": f"CASE WHEN {made} THEN __copy_first ELSE _file END",
            "_origin": f"{EVENT}",
            "_time": micros("__copy_hour"),
            **{field.name: f"CASE WHEN _op <> 'd' THEN {quoted(field.name)} ELSE {null(types.parse(field.type))} END" for field in payload},
        }
        columns = [f"{given[name]} AS {quoted(name)}" if name in given else quoted(name) for name in rows.columns]
        told = placed.selectExpr(*columns, "__copy_at")
        if stretch.known is None:
            return told
        stored = stretch.known.selectExpr(*self._keys, f"{stretch.end} AS __copy_at")
        return told.join(stored, [*schema.key, "__copy_at"], "left_anti").select(*told.columns)

    def _check_keys(self, stretch: _Stretch, twice: Mapping[int, tuple[int, str]]) -> None:
        """Raises NotWhole for copies (number → how many rows too many, one of their keys) that have a key twice."""
        reasons = []
        for copy in stretch.copies:
            if copy.number in twice:
                rows, key = twice[copy.number]
                more = f" ({rows:,} such rows in all)" if rows > 1 else ""
                reason = f"the full copy has a second row with the key {key}{more}: it is no copy of a table with this `key`"
                reasons.append(Unusable(copy.file, reason))
        check_records(self.opened, reasons)


def _copies(inputs: Sequence[Input], counts: Mapping[str, int], spec: TableSpec) -> list[_Copy]:
    folders: dict[str, tuple[str, str]] = {}
    for item in sorted(inputs, key=lambda item: item.path):
        hour = str(item.hour)
        folder, _ = folders.setdefault(hour, (item.folder, item.path))
        if folder != item.folder:
            raise InputRefused(
                f"table {spec.name}: {folder} and {item.folder} are both of the hour {hour} UTC, and full copies come in the order of their hours. "
                "Move one of them into a folder of its own hour."
            )
    return _numbered([_Copy(0, hour, folder, file, counts.get(hour, 0)) for hour, (folder, file) in sorted(folders.items())])


def _numbered(copies: Sequence[_Copy]) -> list[_Copy]:
    return [dataclasses.replace(copy, number=number) for number, copy in enumerate(copies, 1)]


def _as_of(events: DataFrame, hour: str) -> DataFrame:
    """The rows that a history has at an hour, its copy included."""
    text = literal(hour)
    return events.where(f"_op = 'u' AND NOT coalesce(_position.o1 > {text}, false) AND (__end_position IS NULL OR __end_position.o1 > {text})")


def _check_gone(spec: TableSpec, stretch: _Stretch, gone: Mapping[int, int]) -> None:
    if spec.max_gone >= 1.0:
        return
    for copy in stretch.copies:
        lost = gone.get(copy.number, 0)
        before = stretch.copies[copy.number - 2].rows if copy.number > 1 else stretch.before.count() if stretch.before is not None and lost else 0
        if lost > spec.max_gone * before:
            raise CheckFailed(
                f"table {spec.name}: the full copy in {copy.folder} lacks {lost:,} of the {before:,} rows there were before it, `checks: {{max_gone: "
                f"{spec.max_gone:g}}}` allows fewer. Nothing was committed, the copies stay in landing. Is the copy not whole, remove its folder or "
                "have it written again; if those rows are really gone, raise the limit for one run."
            )
