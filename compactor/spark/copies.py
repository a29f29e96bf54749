"""Full copies (`envelope: snapshot`) → Changes: what each copy has that the one before it had not, had otherwise, or has lost.

The first copy of a batch is held against the rows that the parent shows. Of a key the rows of all these lie side by side, in the order of the copies:

| in the copy before | in this one | Change |
|---|---|---|
| not there | there | `c`: its row |
| there, and a column differs | there | `u`: its row |
| there, and all columns are equal | there | none: the row counts as a duplicate |
| there | not there | `d`, at the copy's hour, as if from its first file |

So that what is resolved, written to history and told by the feed is in proportion to the differences. A copy of which anything cannot be used is set
aside whole: a row left out would look like a deleted one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compactor.core import types
from compactor.core.copies import newest_hour
from compactor.core.errors import CheckFailed, InputRefused
from compactor.core.layout import Layout
from compactor.core.position import Position, latest
from compactor.core.quarantine import Unusable
from compactor.core.snapshot import Input, Snapshot
from compactor.core.spec import TableSpec
from compactor.ports import Facts
from compactor.spark import position, store
from compactor.spark.compare import comparable
from compactor.spark.conform import key_text
from compactor.spark.decode.frame import Frame
from compactor.spark.files import Why
from compactor.spark.inputs import Inputs
from compactor.spark.resolve import EVENT
from compactor.spark.sql import named, null, quoted
from compactor.spark.stored import Stored

_TWICE = "2"
"""Beside the operations of Changes: a row of a key that its copy had already."""


class NotWhole(Exception):
    """Files (location → why) that cannot be used, because something of the copy they belong to cannot."""

    def __init__(self, files: Mapping[str, Why]) -> None:
        super().__init__(f"{len(files)} files of copies that are not whole")
        self.files = dict(files)


def check_files(opened: Inputs) -> None:
    """Raises NotWhole for the others of a copy of which a file cannot be opened."""
    _set_aside(opened, {item.path: opened.broken[place] for item, place in opened.places.items() if place in opened.broken})


def check_records(opened: Inputs, unusable: Sequence[Unusable]) -> None:
    """Raises NotWhole for the files of copies of which records cannot be used."""
    first: dict[str, Why] = {}
    for item in unusable:
        first.setdefault(item.path, Why(f"record {item.record}: {item.reason}" if item.record else item.reason))
    _set_aside(opened, first)


def _set_aside(opened: Inputs, why: Mapping[str, Why]) -> None:
    folders: dict[str, tuple[str, Why]] = {}
    for item in opened.inputs:
        # where one file is broken for good, waiting for the end of another would help nothing
        if item.path in why and (item.folder not in folders or not why[item.path].unfinished):
            folders[item.folder] = (item.path, why[item.path])
    found = {}
    for item, place in opened.places.items():
        if item.folder in folders and place not in opened.broken:
            path, reason = folders[item.folder]
            found[place] = why.get(item.path) or Why(f"belongs to a full copy that is not whole: {path}: {reason.text}", reason.unfinished)
    if found:
        raise NotWhole(found)


def settled(spark: SparkSession, frame: Frame, inputs: Sequence[Input]) -> Frame:
    """A frame of plain rows with the hour of each row's folder as its place in the order, and as its time."""
    assert frame.images is not None
    hours = spark.createDataFrame([(item.path, item.hour) for item in inputs], "_file STRING, _hour STRING")
    keep = [name for name in frame.rows.columns if name not in ("_op", "_source", "_time", "_before")]
    rows = frame.rows.join(F.broadcast(hours), ["_file"], "left").selectExpr(
        *keep,
        f"{null(frame.images)} AS _before",
        "CASE WHEN _op IS NOT NULL THEN 'r' END AS _op",
        "struct(_hour AS hour) AS _source",
        f"{_micros('_hour')} AS _time",
    )
    # every value is one: no text of a plain row stands for something that was not sent
    return dataclasses.replace(frame, rows=rows, absent=())


def _micros(hour: str) -> str:
    return f"unix_micros(to_timestamp({hour}, \"yyyy-MM-dd'T'HH:mm\"))"


@dataclasses.dataclass(frozen=True)
class _Copy:
    """A copy of the batch: `number` counts from 1 in the order of hours, `file` is its first; `rows` that were read from it."""

    number: int
    hour: str
    folder: str
    file: str
    rows: int


def differences(spark: SparkSession, opened: Inputs, parent: Snapshot | None, facts: Facts, rows: DataFrame) -> tuple[DataFrame, Facts]:
    """The Changes that lead from the parent's rows through these copies (`rows`: all their rows, as Changes), and the facts about them.

    Copies no newer than the newest one known change nothing: their rows are late. Raises NotWhole for a copy with two rows of one key, CheckFailed
    when a copy lacks more of the rows before it than `checks: {max_gone: ..}` allows, InputRefused when two copies are of one hour.
    """
    spec, schema = opened.spec, facts.evolved.schema
    counts = {row["hour"]: row["count"] for row in rows.groupBy(named("_position.o1", "hour")).count().collect()}
    newest = newest_hour(parent)
    found = _copies(spec, [item for item in opened.inputs if opened.places[item] not in opened.broken], counts, newest)
    late = sum(number for hour, number in counts.items() if newest is not None and hour <= newest)
    if not found:
        return rows.where("false"), dataclasses.replace(facts, changes=0, first=None, late=late)
    stored = Stored(spark, Layout(spec.root, spec.landing), parent, schema).live(soft=False) if parent else None
    work = _Work(spark, spec, facts, found)
    changes = store.held(work.changes(rows, stored))
    grouped = changes.groupBy("_op", "__copy_at").agg(named("count(1)", "n"), named(work.key_text, "k")).collect()
    rows.unpersist()
    told = {(row["_op"], row["__copy_at"]): row for row in grouped}
    work.check_keys(opened, {at: (row.n, row.k) for (op, at), row in told.items() if op == _TWICE})
    gone = {at: row.n for (op, at), row in told.items() if op == "d"}
    _check_gone(spec, found, gone, stored)
    deletes, written = sum(gone.values()), sum(row.n for row in told.values())
    first: Position = (spec.epoch, found[0].hour, None, None, None)
    last: Position = (spec.epoch, found[-1].hour, None, None, None)
    return changes.drop("__copy_at"), dataclasses.replace(
        facts,
        read=facts.read + deletes,
        changes=written,
        first=first if written else None,
        last=latest([facts.last, last]),
        unchanged=sum(copy.rows for copy in found) + deletes - written,
        late=late,
    )


def _copies(spec: TableSpec, inputs: Sequence[Input], counts: Mapping[str, int], newest: str | None) -> list[_Copy]:
    folders: dict[str, tuple[str, str]] = {}
    for item in sorted(inputs, key=lambda item: item.path):
        hour = str(item.hour)
        folder, _ = folders.setdefault(hour, (item.folder, item.path))
        if folder != item.folder:
            raise InputRefused(
                f"table {spec.name}: {folder} and {item.folder} are both of the hour {hour} UTC, and full copies come in the order of their hours. "
                "Move one of them into a folder of its own hour."
            )
    newer = [(hour, *names) for hour, names in sorted(folders.items()) if newest is None or hour > newest]
    return [_Copy(number, hour, folder, file, counts.get(hour, 0)) for number, (hour, folder, file) in enumerate(newer, 1)]


def _check_gone(spec: TableSpec, found: Sequence[_Copy], gone: Mapping[int, int], stored: DataFrame | None) -> None:
    if spec.max_gone >= 1.0:
        return
    for copy in found:
        lost = gone.get(copy.number, 0)
        before = found[copy.number - 2].rows if copy.number > 1 else stored.count() if stored is not None and lost else 0
        if lost > spec.max_gone * before:
            raise CheckFailed(
                f"table {spec.name}: the full copy in {copy.folder} lacks {lost:,} of the {before:,} rows there were before it, `checks: {{max_gone: "
                f"{spec.max_gone:g}}}` allows fewer. Nothing was committed, the copies stay in landing. Is the copy not whole, remove its folder or "
                "have it written again; if those rows are really gone, raise the limit for one run."
            )


@dataclasses.dataclass(frozen=True)
class _Work:
    spark: SparkSession
    spec: TableSpec
    facts: Facts
    copies: Sequence[_Copy]

    @property
    def keys(self) -> list[str]:
        return [quoted(name) for name in self.facts.evolved.schema.key]

    @property
    def key_text(self) -> str:
        """SQL: one of the keys of a group."""
        schema = self.facts.evolved.schema
        return f"min({key_text(self.keys, [schema.field(name).type for name in schema.key])})"

    def changes(self, rows: DataFrame, stored: DataFrame | None) -> DataFrame:
        """Changes as `conform` makes them, with `__copy_at`: the number of their copy."""
        schema = self.facts.evolved.schema
        payload = [field for field in schema.fields if field.name not in schema.key]
        content = ", ".join(f"{comparable(quoted(field.name), field.type)} AS c{at}" for at, field in enumerate(payload)) or "1 AS c0"
        kinds = "__copy_at INT, __copy_hour STRING, __copy_first STRING"
        table = F.broadcast(self.spark.createDataFrame([(copy.number, copy.hour, copy.file) for copy in self.copies], kinds))
        both = rows.withColumn("__copy_hour", F.expr("_position.o1")).join(table.drop("__copy_first"), ["__copy_hour"], "inner").drop("__copy_hour")
        if stored is not None:
            before = stored.selectExpr(*[quoted(name) for name in schema.names], "0 AS __copy_at")
            both = both.unionByName(before, allowMissingColumns=True)
        along = f"(PARTITION BY {', '.join(self.keys)} ORDER BY __copy_at)"
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
        absent = f"__copy_at < {len(self.copies)} AND (__copy_next IS NULL OR __copy_next > __copy_at + 1)"
        ended = f"CASE WHEN {absent} THEN named_struct('op', 'd', 'at', __copy_at + 1) END"
        told = side.drop("_op").selectExpr("*", f"explode(filter(array({own}, {ended}), _e -> _e IS NOT NULL)) AS __copy_event")
        placed = told.drop("__copy_at").selectExpr("*", "__copy_event.op AS _op", "__copy_event.at AS __copy_at").join(table, ["__copy_at"], "inner")
        place = f"named_struct('epoch', {self.spec.epoch}, 'o1', __copy_hour, 'file', __copy_first, 'block', 0L, 'row', -1L)"
        lost = f"CAST({place} AS {position.ddl(self.facts.order)})"
        given = {
            "_position": f"CASE WHEN _op = 'd' THEN {lost} ELSE _position END",
            "_file": "CASE WHEN _op = 'd' THEN __copy_first ELSE _file END",
            "_source": f"{EVENT}",
            "_time": _micros("__copy_hour"),
            **{field.name: f"CASE WHEN _op <> 'd' THEN {quoted(field.name)} ELSE {null(types.parse(field.type))} END" for field in payload},
        }
        columns = [f"{given[name]} AS {quoted(name)}" if name in given else quoted(name) for name in rows.columns]
        return placed.selectExpr(*columns, "__copy_at")

    def check_keys(self, opened: Inputs, twice: Mapping[int, tuple[int, str]]) -> None:
        """Raises NotWhole for copies (number → how many rows too many, one of their keys) that have a key twice."""
        reasons = []
        for copy in self.copies:
            if copy.number in twice:
                rows, key = twice[copy.number]
                more = f" ({rows:,} such rows in all)" if rows > 1 else ""
                reason = f"the full copy has a second row with the key {key}{more}: it is no copy of a table with this `key`"
                reasons.append(Unusable(copy.file, reason))
        check_records(opened, reasons)
