"""The parts of a history in storage: reading them as rows of `history.Versions`, look-ups, writing, and reading back what was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from compactor.core.catalog.history_views import state_types
from compactor.core.model.errors import CheckFailed
from compactor.core.model.history import OPEN as OPEN_DAY
from compactor.core.model.history import History, HistoryPart
from compactor.core.model.layout import Layout, join, relative
from compactor.core.model.schema import Schema
from compactor.ports import Storage
from compactor.spark.history import versions as history
from compactor.spark.history.versions import Versions
from compactor.spark.rows import position
from compactor.spark.rows.conform import key_text
from compactor.spark.sql import named, quoted
from compactor.spark.tables import table_writer

_PART = "regexp_extract(_metadata.file_path, '(history_part=[a-z0-9-]+)/[^/]+$', 1)"

FILE_ROWS_MAX = 5_000_000
"""A task sorts and writes about so many stored events."""


@dataclass(frozen=True)
class Parts:
    """A history's parts, read in the columns of `versions`; `stored` is the schema they were written with."""

    spark: SparkSession
    layout: Layout
    versions: Versions
    stored: Schema

    def rows(self, parts: Sequence[HistoryPart], wanted: DataFrame | None = None) -> DataFrame:
        """Stored events of these keys (with their other columns), or of every key; with `__part`."""
        old = {field.name: field.type for field in self.stored.fields}
        kinds = [(name, old.get(name, kind)) for name, kind in self.versions.stored]
        found = table_writer.parquet(self.spark, kinds, {self.layout.inside(part.path): part.size for part in parts})
        path = "_metadata.file_path" if parts else "''"
        state = [name for name, _ in state_types(position.ddl(self.versions.order))]
        rows = found.selectExpr(*table_writer.payload(self.versions.schema, old), *state, f"{path} AS __path")
        if wanted is not None:
            # before anything is worked out for a row: below a join that would be done for every row
            rows = rows.join(wanted, list(self.versions.schema.key), "inner")
        part = "concat('history/', regexp_extract(__path, 'history/([^/]+/history_part=[a-z0-9-]+)/[^/]+$', 1))"
        return rows.selectExpr("*", f"{part} AS __part").drop("__path")

    def loaded(self, rows: DataFrame, origin: int) -> DataFrame:
        """Rows to work on."""
        return rows.selectExpr("*", f"{origin} AS __origin", f"{self.versions.told()} AS __was")

    def open(self, known: History, wanted: DataFrame | None) -> DataFrame:
        """The last event of these keys (with `__first`), or of every key."""
        base = self.rows(known.open if wanted is None else self._owners(known.open, wanted), wanted)
        if known.delta is None:
            return self.loaded(base, history.OPEN)
        delta = self.rows([known.delta], wanted)
        base = base.join(delta.select(*self.versions.keys), list(self.versions.schema.key), "left_anti")
        return self.loaded(base, history.OPEN).unionByName(self.loaded(delta, history.DELTA))

    def _owners(self, parts: Sequence[HistoryPart], wanted: DataFrame) -> Sequence[HistoryPart]:
        if len(parts) < 2:
            return parts
        schema = self.versions.schema
        cases = " ".join(
            f"WHEN {table_writer.key_struct(schema)} < {table_writer.bound(part.high, schema)} THEN {at}"
            for at, part in enumerate(parts)
            if part.high is not None
        )
        owners = {row[0] for row in wanted.selectExpr(f"CASE {cases} ELSE {len(parts) - 1} END AS i").distinct().collect()}
        return [part for at, part in enumerate(parts) if at in owners]


@dataclass(frozen=True)
class Writer:
    """Writes the parts of one commit and reads them back."""

    spark: SparkSession
    storage: Storage
    layout: Layout
    versions: Versions
    commit: str
    table: str

    def write(self, rows: DataFrame, about: int) -> None:
        """Rows with `part` (the day they ended, or `delta`), about so many."""
        self._write(rows.repartitionByRange(1 + about // FILE_ROWS_MAX, "history_part", *self.versions.keys))

    def write_open(self, rows: DataFrame, segments: int) -> None:
        """The last events of all keys, in so many key ranges."""
        spread = rows.repartitionByRange(segments, *self.versions.keys) if segments > 1 else rows.repartition(1)
        self._write(spread.selectExpr("*", "concat('open-', lpad(spark_partition_id(), 5, '0')) AS history_part"))

    def _write(self, rows: DataFrame) -> None:
        columns = [quoted(name) for name, _ in self.versions.stored]
        directory = self.layout.history(self.commit)
        ordered = rows.selectExpr(*columns, "history_part").sortWithinPartitions("history_part", *self.versions.keys, "_position")
        ordered.write.mode("append").partitionBy("history_part").parquet(directory)

    def written(self) -> list[HistoryPart]:
        """The parts of this commit in order of their names, those that hold no row left out.

        Raises CheckFailed for an event that is there twice, a key with two last events, an interval that ends before it begins.
        """
        directory = self.layout.history(self.commit)
        files: dict[str, list[tuple[str, int]]] = {}
        for info in self.storage.list(directory):
            inside, _, name = info.path[len(directory.rstrip("/")) + 1 :].rpartition("/")
            if not name.startswith(("_", ".")):
                files.setdefault(inside, []).append((name, info.size))
        if not files:
            return []
        schema = self.versions.schema
        wanted = {*schema.key, "_position", "__shown", "__start_us", "__begun_us", "__end_us", "__end_position"}
        kinds = [(name, kind) for name, kind in self.versions.stored if name in wanted]
        sizes = {join(directory, part): sum(size for _, size in held) for part, held in files.items()}
        rows = table_writer.parquet(self.spark, kinds, sizes).selectExpr("*", f"{_PART} AS __d")
        wrong = "__begun_us IS NULL OR (__shown AND NOT coalesce(__start_us <= __end_us, false))"
        by_key = rows.groupBy("__d", *self.versions.keys).agg(
            named("count(1)", "__n"),
            named("size(collect_set(_position))", "__u"),
            named("count_if(__shown)", "__s"),
            named("count_if(__end_position IS NULL)", "__o"),
            named(f"count_if({wrong})", "__w"),
            named("max(coalesce(__end_position, _position))", "__last"),
        )
        least = [f"min({table_writer.key_struct(schema)}).{quoted(name)}" for name in schema.key]
        found = by_key.groupBy("__d").agg(
            named("sum(__n)", "rows"),
            named("sum(__s)", "shown"),
            named("max(__n - __u)", "twice"),
            named("max(__o)", "open"),
            named("sum(__w)", "wrong"),
            named("max(__last)", "last"),
            named(key_text(least, [schema.field(name).type for name in schema.key]), "least"),
        )
        out = []
        for row in sorted(found.collect(), key=lambda row: str(row["__d"])):
            if row.twice or row.open > 1 or row.wrong:
                what = "an event is there twice" if row.twice else "a key has two last events" if row.open > 1 else "a version ends before it begins"
                raise CheckFailed(f"table {self.table}: staged history in {directory}/{row['__d']}: {what}. Nothing was committed.")
            path = relative(join(directory, row["__d"]), self.layout.root)
            name = row["__d"].partition("=")[2]
            day = OPEN_DAY if name == "delta" or name.startswith("open-") else name
            low = tuple(json.loads(row.least))
            held = tuple(files[row["__d"]])
            out.append(HistoryPart(f"{self.commit}.{name}", path, day, row.rows, row.shown, held, position.from_row(row.last), low))
        return out
