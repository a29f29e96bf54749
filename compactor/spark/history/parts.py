"""The stored parts of a history: read them as rows of `history.Versions`, look up keys, write new parts, and check what was written.

What one pass wrote is checked without a Spark job, if it made at most one closed and one other part: the pass counts, and so do the footers.
Anything else is read back.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog.history_views import state_types
from compactor.core.model import times
from compactor.core.model.errors import CheckFailed
from compactor.core.model.files import DataFile
from compactor.core.model.history import OPEN as OPEN_DAY
from compactor.core.model.history import History, HistoryPart
from compactor.core.model.layout import Layout, join, relative
from compactor.core.model.position import Position, latest
from compactor.core.model.schema import Schema
from compactor.core.model.snapshot import Erased, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.ports import Storage
from compactor.spark import measured
from compactor.spark.columns import FROM, POSITION
from compactor.spark.history import versions as history
from compactor.spark.history.versions import MOVED_TO, Versions
from compactor.spark.keys import least_key, range_index
from compactor.spark.measured import Numbers
from compactor.spark.rows import erase, position
from compactor.spark.sql import query, quoted
from compactor.spark.tables import defaults, table_writer

_PART = "regexp_extract(_metadata.file_path, '(history_part=[a-z0-9-]+)/[^/]+$', 1)"

DAY = f"concat('d', date_format(timestamp_micros(greatest({times.BEGIN}L, least(__end_us, {times.END - 1}L))), 'yyyy-MM-dd'))"
"""SQL: the part of an event that has ended. Days sort as text from the year 1 to 9999; what ended outside of it is with the nearest one."""
DELTA_PART = "delta"
"""The part of last events that changed since the open parts were written."""
OPEN_PART = "open-00000"
"""The part of all last events, where one key range holds them."""
_INVALID = "__begun_us IS NULL OR (__shown AND NOT coalesce(__start_us <= __end_us, false))"
"""SQL: whether a stored event has no time, or is a version that ends before it begins."""
_NAMING = (FROM, MOVED_TO, "__previous_key")
"""Columns of an event that name another key."""
FILE_ROWS_MAX = 5_000_000
"""The number of stored events that one task sorts and writes, about."""


@dataclass(frozen=True)
class Parts:
    """The parts of a history as DataFrames."""

    spark: SparkSession
    layout: Layout
    """The paths of the table."""
    versions: Versions
    """The rules of the history; rows are read in its columns."""
    stored: Schema
    """The schema that the parts were written with."""

    def rows(self, parts: Sequence[HistoryPart]) -> DataFrame:
        """Read stored events, with `__path` (of their file)."""
        old = {field.name: field.type for field in self.stored.fields}
        kinds = [(name, old.get(name, kind)) for name, kind in self.versions.stored]
        files = table_writer.parquet(self.spark, kinds, {self.layout.inside(part.path): part.size for part in parts})
        state = [name for name, _ in state_types(position.ddl(self.versions.order))]
        schema, order = self.versions.schema, self.versions.order
        payload = table_writer.payload(schema, old).items()
        values = [f"{defaults.shown_by_position(schema, name, order, value)} AS {quoted(name)}" for name, value in payload]
        return files.selectExpr(*values, *state, f"{'_metadata.file_path' if parts else 'CAST(NULL AS STRING)'} AS __path")

    def last(self, stored: History, keys: DataFrame | None = None, closed: Sequence[HistoryPart] = ()) -> DataFrame:
        """Return the last event of these keys (with `__first`), or of every key, and all events of the parts `closed`, ready to be worked on."""
        key = self.versions.keys
        mine, first = (f" JOIN {{keys}} USING ({key})", ("__first",)) if keys is not None else ("", ())
        frames = {"open": self.rows(stored.open if keys is None else self.owners(stored.open, keys))}
        newer = f" LEFT ANTI JOIN {{newer}} USING ({key})" if stored.delta else ""
        texts = [f"{self._loaded(history.OPEN, *first)} FROM {{open}}{mine}{newer}"]
        if stored.delta is not None:
            frames["newer"] = self.rows([stored.delta])
            texts.append(f"{self._loaded(history.DELTA, *first)} FROM {{newer}}{mine}")
        if closed:
            frames["closed"] = self.rows(closed)
            texts.append(f"{self._loaded(history.CLOSED, *first)} FROM {{closed}}{mine}")
        return query("history stored", "\nUNION ALL\n".join(texts), **frames, **({"keys": keys} if keys is not None else {}))

    def ended(self, closed: Sequence[HistoryPart], keys: DataFrame) -> DataFrame:
        """Return the events of these keys in closed parts that ended at the first new event (`__first`) or later, ready to be worked on."""
        since = f"{self.versions.event('__end_position')} >= __first"
        text = f"{self._loaded(history.CLOSED, '__first')} FROM {{closed}} JOIN {{keys}} USING ({self.versions.keys}) WHERE {since}"
        return query("history closed", text, closed=self.rows(closed), keys=keys)

    def _loaded(self, origin: int, *more: str) -> str:
        # above the join: what is computed below it is computed for every row of the file
        part = "concat('history/', regexp_extract(__path, 'history/([^/]+/history_part=[a-z0-9-]+)/[^/]+$', 1)) AS __part"
        return f"SELECT {self.versions.columns(f'{origin} AS __origin', part, f'{self.versions.digest()} AS __digest', *more)}\n"

    def owners(self, parts: Sequence[HistoryPart], keys: DataFrame) -> Sequence[HistoryPart]:
        """Return the open parts whose key ranges have these keys. One Spark job, if there are several parts."""
        if len(parts) < 2:
            return parts
        index = range_index([part.high for part in parts], self.versions.schema)
        owners = {row[0] for row in keys.selectExpr(f"{index} AS i").distinct().collect()}
        return [part for at, part in enumerate(parts) if at in owners]


@dataclass(frozen=True)
class Writer:
    """Write the parts of one commit and read them back."""

    parts: Parts
    storage: Storage
    """Lists the files that were written."""
    commit: str
    """The name of the commit; its parts lie in a folder of this name."""
    table: str

    @property
    def directory(self) -> str:
        """Return the folder of the parts."""
        return self.parts.layout.history(self.commit)

    def write(self, rows: DataFrame, about: int) -> None:
        """Write rows with `history_part`: `d` and the day they ended, or `delta`. `about` is the approximate number of rows."""
        self._write(rows.repartitionByRange(1 + about // FILE_ROWS_MAX, "history_part", *self._keys))

    def write_open(self, rows: DataFrame, segments: int) -> None:
        """Write the last events of all keys, in `segments` key ranges."""
        rows = rows.drop("history_part")
        spread = rows.repartitionByRange(segments, *self._keys) if segments > 1 else rows.repartition(1)
        self._write(spread.selectExpr("*", "concat('open-', lpad(spark_partition_id(), 5, '0')) AS history_part"))

    def _write(self, rows: DataFrame) -> None:
        rows = self._sorted(rows)
        rows.write.mode("append").partitionBy("history_part").options(**measured.parquet_options(rows.schema)).parquet(self.directory)

    def _sorted(self, rows: DataFrame) -> DataFrame:
        versions = self.parts.versions
        columns = [defaults.in_file(versions.schema, name, versions.order, POSITION) for name, _ in versions.stored]
        return rows.selectExpr(*columns, "history_part").sortWithinPartitions("history_part", *self._keys, POSITION)

    @property
    def _keys(self) -> list[str]:
        return [quoted(name) for name in self.parts.versions.schema.key]

    def write_once(self, rows: DataFrame, aggregates: Mapping[str, str]) -> Numbers | None:
        """Write all rows of this commit, with `history_part`, in one pass and one task. One Spark job.

        Returns what the pass counted: `aggregates` (name → SQL) of the rows, and the numbers that `written` compares with the files. None if Spark
        saw before that there are no rows.
        """
        ends = {"open": "__end_position IS NULL", "closed": "__end_position IS NOT NULL"}
        numbers = {"invalid": f"count_if({_INVALID})", **aggregates}
        for name, which in ends.items():
            numbers[f"{name}_rows"] = f"count_if({which})"
            numbers[f"{name}_last"] = f"max(CASE WHEN {which} THEN coalesce(__end_position, _position) END)"
        counted = measured.observe(rows, "history", numbers)
        return measured.write_parquet(self._sorted(counted), self.directory, "history_part").numbers("history")

    def written(self, counted: Numbers | None = None, unique: bool = False) -> list[HistoryPart]:
        """Return the parts of this commit, in the order of their names, without empty ones.

        `counted` is what `write_once` returned, if it wrote all of them. Unless the caller knows that no event is there twice (`unique`), or if there
        are several closed parts, they are read back by a Spark job. Raises CheckFailed if other rows are in the files than were written, if a version
        ends before it begins, or, where parts are read back, if an event occurs twice or a key has two last events.
        """
        files = table_writer.files_by_folder(self.storage, self.directory)
        several = len({_kind(part) for part in files}) < len(files)
        if counted is None or several or not unique:
            parts = self._read_back(files)
            if counted is not None:
                self._check_complete(sum(part.rows for part in parts), counted["open_rows"] + counted["closed_rows"])
            return parts
        rows = {part: counted[f"{_kind(part)}_rows"] for part in files}
        if counted["invalid"]:
            raise self._failed("", "a version ends before it begins")
        self._check_complete(sum(rows.values()), counted["open_rows"] + counted["closed_rows"])
        order, parts = self.parts.versions.order, []
        for part, group in sorted(files.items()):
            path = join(self.directory, part)
            there = table_writer.count_rows(self.parts.spark, {join(path, file.name): file.size for file in group})
            self._check_complete(sum(there.values()), rows[part])
            last = position.from_json(counted[f"{_kind(part)}_last"], order)
            parts.append(self._part(part, rows[part], group, last, None))
        return [part for part in parts if part.rows]

    def _failed(self, part: str, problem: str) -> CheckFailed:
        where = join(self.directory, part).rstrip("/")
        return CheckFailed(f"table {self.table}: staged history in {where}: {problem}. Nothing was committed.")

    def _check_complete(self, rows: int, expected: int) -> None:
        table_writer.check_complete(rows, expected, "history", self.directory.rstrip("/"), self.table)

    def _part(self, part: str, rows: int, files: Sequence[DataFile], last: Position | None, low: tuple[Any, ...] | None) -> HistoryPart:
        name = part.partition("=")[2]
        path = relative(join(self.directory, part), self.parts.layout.root)
        return HistoryPart(f"{self.commit}.{name}", path, OPEN_DAY if _kind(part) == "open" else name, rows, tuple(files), last, low)

    def _read_back(self, files: Mapping[str, Sequence[DataFile]]) -> list[HistoryPart]:
        if not files:
            return []
        schema = self.parts.versions.schema
        needed = {*schema.key, POSITION, "__shown", "__start_us", "__begun_us", "__end_us", "__end_position"}
        kinds = [(name, kind) for name, kind in self.parts.versions.stored if name in needed]
        sizes = {join(self.directory, part): sum(file.size for file in group) for part, group in files.items()}
        written = table_writer.parquet(self.parts.spark, kinds, sizes).selectExpr("*", f"{_PART} AS __part")
        text = _BY_PART.format(keys=self.parts.versions.keys, least=least_key(schema))
        out = []
        for row in sorted(query("history written", text, stored=written).collect(), key=lambda row: str(row["__part"])):
            part = row["__part"]
            if row.twice or row.open > 1 or row.invalid:
                problem = "an event occurs twice" if row.twice else "a key has two last events" if row.open > 1 else "a version ends before it begins"
                raise self._failed(part, problem)
            low = tuple(json.loads(row.least))
            out.append(self._part(part, row.rows, files[part], position.from_row(row.last), low))
        return out


def _kind(part: str) -> str:
    """Return whether a part has `open` or `closed` events, by its folder."""
    return "open" if part.partition("=")[2].startswith((DELTA_PART, "open-")) else "closed"


def assembled(kept: History, written: Sequence[HistoryPart], removed: Sequence[HistoryPart], compact: bool, commit: str) -> History:
    """Return the history with the parts that a commit wrote instead of those that were removed. `compact`: open parts were written, and no Delta."""
    closed = tuple(dataclasses.replace(part, low=None) for part in written if part.day != OPEN_DAY)
    gone = {part.id for part in removed}
    made = dataclasses.replace(
        kept,
        closed=(*(part for part in kept.closed if part.id not in gone), *closed),
        set=f"{commit}.closed" if removed else kept.set,
        delta=next((dataclasses.replace(part, low=None) for part in written if part.id.endswith(".delta")), None),
        last=latest([kept.last, *(part.last for part in written)]),
    )
    if not compact:
        return made
    opened = [part for part in written if ".open-" in part.id]
    lows: list[tuple[Any, ...] | None] = [None, *(part.low for part in opened[1:])]
    tiled = [dataclasses.replace(part, low=low, high=high) for part, low, high in zip(opened, lows, [*lows[1:], None])]
    return dataclasses.replace(made, open=tuple(tiled), open_id=f"{commit}.open", delta=None)


_BY_PART = f"""
SELECT __part, sum(__rows) AS rows, max(__rows - __events) AS twice, max(__open) AS open, sum(__invalid) AS invalid,
  max(__last) AS last, {{least}} AS least
FROM (SELECT __part, {{keys}}, count(1) AS __rows, size(collect_set(_position)) AS __events,
  count_if(__end_position IS NULL) AS __open, count_if({_INVALID}) AS __invalid, max(coalesce(__end_position, _position)) AS __last
FROM {{{{stored}}}} GROUP BY __part, {{keys}})
GROUP BY __part"""
"""The query for one row for each part: `rows`, `twice` (events of one key that occur again), `open` (last events of one
key), `invalid` (versions that end before they begin), `last` (Position), `least` (smallest key as text).
"""


def without(spark: SparkSession, storage: Storage, spec: TableSpec, snapshot: Snapshot, erased: Erased, commit: str) -> tuple[History, int]:
    """Write all parts anew without the events of erased keys. Return the new history, and the number of events left out.

    Raises Refused if a key was ever changed from or to an erased one, and not both are erased.
    """
    stored = snapshot.history
    assert stored is not None
    parts = Parts(spark, spec.layout, Versions(snapshot.schema, snapshot.order, snapshot.version, ()), snapshot.schema)
    columns = [quoted(name) for name, _ in parts.versions.stored]
    ended, ended_gone = erase.stored_rows(parts.rows(stored.closed).selectExpr(*columns), snapshot.schema, erased, spec, _NAMING)
    last, last_gone = erase.stored_rows(parts.last(stored).selectExpr(*columns), snapshot.schema, erased, spec, _NAMING)
    writer = Writer(parts, storage, commit, spec.name)
    if stored.closed:
        writer.write(ended.selectExpr("*", f"{DAY} AS history_part"), sum(part.rows for part in stored.closed))
    writer.write_open(last, max(1, round(sum(part.size for part in stored.open) / max(spec.target_file_bytes, 1))))
    # a set of its own: nothing of the old one may be shown, whatever else is registered
    kept = dataclasses.replace(stored, closed=(), set=f"{commit}.closed")
    return assembled(kept, writer.written(), (), True, commit), ended_gone + last_gone
