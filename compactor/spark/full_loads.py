"""Full loads (`envelope: full-load`) become Changes: the rows that each load adds, changes or lacks, compared with the load before it.

The first load of a batch is compared with the rows that the parent shows. The rows of one key lie side by side, in the order of the loads:

| in the load before | in this one | Change |
|---|---|---|
| absent | present | `c`: its row |
| present | present, and a column differs | `u`: its row |
| present | present, and all columns are equal | none: the row counts as a duplicate |
| present | absent | `d`, at the load's hour, as if from its first file |

So what is resolved, written to history and to the feed is in proportion to the differences.

A late load goes to its place in the history in the same way. The rows before it are those that the history has as of the absorbed load before it. The
rows after it are those as of the absorbed load after it, which restores what the late load had otherwise. Loads that come in any order make the same
history.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from compactor.core.model import types
from compactor.core.model.errors import CheckFailed, InputRefused
from compactor.core.model.history import History
from compactor.core.model.inputs import Input
from compactor.core.model.layout import join
from compactor.core.model.position import at_or_below, latest
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.batch import BatchSummary
from compactor.core.sources.full_loads import gaps, newest_hour, other_file
from compactor.ports import Entries
from compactor.spark import measured
from compactor.spark.columns import FILE, OP, ORIGIN, POSITION, TIME
from compactor.spark.decode.flat import hour_micros
from compactor.spark.history.parts import Parts
from compactor.spark.history.versions import Versions
from compactor.spark.input.inputs import Inputs
from compactor.spark.keys import row_key
from compactor.spark.rows import position, survey
from compactor.spark.rows.reduce import EVENT, union
from compactor.spark.sql import cited, literal, named, null, quoted
from compactor.spark.tables.compare import comparable
from compactor.spark.tables.table_reader import TableReader

_TWICE = "2"
"""Beside the operations of Changes: a row whose key its load had already."""


@dataclass(frozen=True)
class _Series:
    hours: Sequence[str]
    """Their hours. After late loads also the hour of the next load, which is absorbed."""
    before: DataFrame | None = None
    """The rows that the table had before the first of them. None: it had none."""
    after: DataFrame | None = None
    """The rows of the next load. None: the loads are not late."""
    stored_keys: DataFrame | None = None
    """The keys for which the next load made events already."""

    @property
    def count(self) -> int:
        """The number of loads that are compared for the first time."""
        return len(self.hours) - (self.after is not None)


@dataclass(frozen=True)
class FullLoads:
    """The full loads of a batch."""

    opened: Inputs
    parent: Snapshot | None
    summary: BatchSummary
    version: int
    entries: Entries

    def changes(self, rows: DataFrame) -> tuple[DataFrame, BatchSummary]:
        """Return the Changes that lead from the parent's rows through all loads, and the summary of them. `rows`: all rows of all loads as Changes.

        A load older than the newest one absorbed changes the history only, if it has a place there. Else its rows count as late. Raises
        CheckFailed when a load lacks too many of the rows before it, InputRefused when two loads have one hour or when files come to a load that
        was absorbed.
        """
        epoch, files = self.opened.spec.epoch, self._first_files()
        counts = {row["hour"]: row["count"] for row in rows.groupBy(named("_position.o1", "hour")).count().collect()}
        hours: list[str] = []
        # deletes lie before the first row of a load
        bounds = [(epoch, hour, item.name, 0, -1) for hour, item in files.items()]
        parts, taken, written, made = [], 0, 0, 0
        for series in self._series([*files]):
            changes = self.opened.materialize(self._compared(rows, series, files))
            events = {(row[OP], row["__load"]): row["count"] for row in changes.groupBy(OP, "__load").count().collect()}
            if any(op == _TWICE for op, _ in events):
                self._set_aside(changes)
            self._check_gone(series, files, counts, {at: n for (op, at), n in events.items() if op == "d"})
            parts.append(changes.drop("__load"))
            hours += series.hours[:1] if events else []
            if series.after is not None:
                # what is restored lies at the hour of the next load, which may have changed nothing itself
                bounds.append((epoch, series.hours[-1], files[series.hours[0]].name, 0, -1))
            taken += sum(counts.get(hour, 0) for hour in series.hours[: series.count])
            written += sum(events.values())
            made += sum(n for (op, at), n in events.items() if op == "d" or at > series.count)
        measured.release(rows)
        return (union(parts) if parts else rows.where("false")), dataclasses.replace(
            self.summary,
            read=self.summary.read + made,
            changes=written,
            first=(epoch, min(hours), None, None, None) if hours else None,
            last=latest([self.summary.last, *bounds]),
            unchanged=taken + made - written,
            late=sum(counts.values()) - taken,
        )

    def _first_files(self) -> dict[str, Input]:
        """Return the first file of each load that can be used, by the load's hour, in order."""
        files: dict[str, Input] = {}
        for item in sorted(self.opened.inputs, key=lambda item: (str(item.hour), item.path)):
            if self.opened.places[item] not in self.opened.unreadable and files.setdefault(str(item.hour), item).folder != item.folder:
                raise self._of_one_hour(files[str(item.hour)], item)
        return files

    def _of_one_hour(self, first: Input, item: Input) -> InputRefused:
        return InputRefused(
            f"table {self.opened.spec.name}: {first.folder} and {item.folder} are both of the hour {item.hour} UTC, and full loads come in the order "
            "of their hours. Move one of them into the folder of another hour."
        )

    def _series(self, hours: Sequence[str]) -> list[_Series]:
        """Return the loads after the newest one absorbed, and those that are late and have a place in the history."""
        spec, parent, schema, newest = self.opened.spec, self.parent, self.summary.evolved.schema, newest_hour(self.parent)
        late = [hour for hour in hours if newest is not None and hour <= newest]
        series = []
        if fresh := [hour for hour in hours if hour not in late]:
            series.append(_Series(fresh, TableReader(self.opened.spark, spec.layout, parent, schema).live(soft=False) if parent else None))
        absorbed = tuple(self.entries()) if parent else ()
        self._check_delivery(absorbed)
        if parent is None or parent.history is None or self.summary.evolved.retyped:
            return series
        # nobody knows what was before the history began, nor deletes that were purged
        since = max(parent.history.since[:16] if parent.history.since else "", str(parent.purged_to[1]) if parent.purged_to is not None else "")
        for before, between, after in gaps((hour for hour in late if hour > since), absorbed):
            events = self._events(parent, parent.history, before)
            stored_keys = events.where(f"_position.o1 = {literal(after)}").select(*self._keys)
            series.append(_Series([*between, after], _as_of(events, before) if before else None, _as_of(events, after), stored_keys))
        return series

    def _check_delivery(self, absorbed: Sequence[Input]) -> None:
        """Raise InputRefused for files that come to a load after it was absorbed: alone they would look like a table that has lost its other rows.

        Also for a load with the hour of an absorbed one, which a new `hours_in` may give it: it would be late.
        """
        spec, inputs = self.opened.spec, self.opened.inputs
        folders = {item.hour: item for item in absorbed if not item.unabsorbed}
        for item in inputs:
            if (first := folders.get(item.hour, item)).folder != item.folder:
                raise self._of_one_hour(first, item)
        if there := other_file(absorbed, inputs):
            path = next(item.path for item in inputs if item.folder == there.folder)
            raise InputRefused(
                f"table {spec.name}: {join(spec.landing, path)}: the full load in {there.folder} was ingested already, without this file "
                f"({there.path}). If the load was not complete then, put all of it into the folder of a later hour, and let `complete:` or a longer "
                "`settle` decide when a load is complete. Else remove the file; from quarantine, replay others by name."
            )

    def _events(self, parent: Snapshot, history: History, hour: str | None) -> DataFrame:
        """Return each key's last stored event at that hour, and those after it: each holds from `_position` to `__end_position`."""
        spec, bound = self.opened.spec, (self.opened.spec.epoch, hour) if hour else None
        versions = Versions(self.summary.evolved.schema, self.summary.order, self.version, ())
        parts = Parts(self.opened.spark, spec.layout, versions, parent.schema)
        closed = [part for part in history.closed if part.last is None or not at_or_below(part.last[:2], bound)]
        return parts.last(history, closed=closed)

    @property
    def _keys(self) -> list[str]:
        return [quoted(name) for name in self.summary.evolved.schema.key]

    def _compared(self, rows: DataFrame, series: _Series, files: Mapping[str, Input]) -> DataFrame:
        """Return Changes as `conform` makes them, with `__load`: the number of their load, from 1."""
        schema, count = self.summary.evolved.schema, series.count
        payload = [field for field in schema.fields if field.name not in schema.key]
        content = ", ".join(f"{comparable(quoted(field.name), field.type)} AS c{at}" for at, field in enumerate(payload)) or "1 AS c0"
        hours = f"array({', '.join(literal(hour) for hour in series.hours)})"
        both = rows.selectExpr("*", f"CAST(array_position({hours}, _position.o1) AS INT) AS __load").where(f"__load BETWEEN 1 AND {count}")
        for at, stored in ((0, series.before), (count + 1, series.after)):
            if stored is not None:
                both = both.unionByName(stored.selectExpr(*[quoted(name) for name in schema.names], f"{at} AS __load"), allowMissingColumns=True)
        along = f"(PARTITION BY {', '.join(self._keys)} ORDER BY __load, _position)"
        last = f"lag(struct(__load AS at, __content AS content)) OVER {along} AS __last"
        side = both.selectExpr("*", f"struct({content}) AS __content").selectExpr("*", last, f"lead(__load) OVER {along} AS __next")
        own = (
            f"CASE WHEN __load = 0 THEN NULL WHEN __last.at = __load THEN '{_TWICE}' "
            "WHEN __last IS NULL OR __last.at < __load - 1 THEN 'c' WHEN NOT (__last.content <=> __content) THEN 'u' END"
        )
        gone = f"CASE WHEN __load < {len(series.hours)} AND (__next IS NULL OR __next > __load + 1) THEN 'd' END"
        inline = f"inline(array(named_struct('op', {own}, 'at', __load), named_struct('op', {gone}, 'at', __load + 1))) AS (_op, __at)"
        events = side.drop(OP).selectExpr("*", inline).where("_op IS NOT NULL")
        # no row of a file stands for a delete, nor for what the next load restores
        made, hour = f"(_op = 'd' OR __at > {count})", f"get({hours}, __at - 1)"
        file = f"get(array({', '.join(literal(files[each if each in files else series.hours[0]].name) for each in series.hours)}), __at - 1)"
        place = f"named_struct('epoch', {self.opened.spec.epoch}, 'o1', {hour}, 'file', {file}, 'block', 0L, 'row', -1L)"
        given = {
            POSITION: f"CASE WHEN {made} THEN CAST({place} AS {position.ddl(self.summary.order)}) ELSE _position END",
            FILE: f"CASE WHEN {made} THEN {file} ELSE _file END",
            ORIGIN: f"{EVENT}",
            TIME: hour_micros(hour),
            **{field.name: f"CASE WHEN _op <> 'd' THEN {quoted(field.name)} ELSE {null(types.parse(field.type))} END" for field in payload},
        }
        columns = [f"{given[name]} AS {quoted(name)}" if name in given else quoted(name) for name in rows.columns]
        changes = events.selectExpr(*columns, "__at AS __load")
        if series.stored_keys is None:
            return changes
        stored = series.stored_keys.selectExpr(*self._keys, f"{count + 1} AS __load")
        return changes.join(stored, [*schema.key, "__load"], "left_anti").select(*changes.columns)

    def _set_aside(self, changes: DataFrame) -> None:
        key = row_key(self.summary.evolved.schema)
        why = f"concat('has the key ', {cited(key)}, ' of another row of its full load: `key` does not identify the rows of this table')"
        rows = changes.where(f"_op = '{_TWICE}'").selectExpr("*", "_position.block AS _block", "_position.row AS _row")
        self.opened.set_aside(survey.list_unusable(rows, why, "to_json(struct(*))", self.opened.raws, self.opened.spec))

    def _check_gone(self, series: _Series, files: Mapping[str, Input], counts: Mapping[str, int], gone: Mapping[int, int]) -> None:
        """Raise CheckFailed when a load lacks too many of the rows before it. `counts`: rows by hour; `gone`: rows by the number of the load."""
        spec = self.opened.spec
        for at, hour in enumerate(series.hours[: series.count], 1):
            lost = gone.get(at, 0)
            if not lost or spec.max_gone >= 1.0:
                continue
            before = counts.get(series.hours[at - 2], 0) if at > 1 else series.before.count() if series.before is not None else 0
            if lost > spec.max_gone * before:
                raise CheckFailed(
                    f"table {spec.name}: the full load in {files[hour].folder} lacks {lost:,} of the {before:,} rows before it; `max_gone: "
                    f"{spec.max_gone:.0%}` allows fewer. Nothing was committed, the files stay in landing. If the load is not complete, remove its "
                    "folder or have it written again. If the rows are really gone, raise the limit for one run."
                )


def _as_of(events: DataFrame, hour: str) -> DataFrame:
    """Return the rows that a history has at an hour, its load included."""
    text = literal(hour)
    return events.where(f"_op = 'u' AND NOT coalesce(_position.o1 > {text}, false) AND (__end_position IS NULL OR __end_position.o1 > {text})")
