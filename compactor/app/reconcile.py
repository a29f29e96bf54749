"""The part of the App that compares a table with its source."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from compactor.app.base import AppBase
from compactor.app.query import with_sql_errors
from compactor.app.spark import check_reader
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.spec import TableSpec
from compactor.core.reconcile.canonical import Columns, pair_columns
from compactor.core.reconcile.repair import signal_data
from compactor.core.reconcile.report import KINDS, TOO_MANY, ReconcileReport, RepairReport, RowDifference
from compactor.core.reconcile.side import Key, Rows
from compactor.core.results.record import TableReport
from compactor.flows.land import repair as repairs
from compactor.flows.read.reconcile import DEFAULT, Lake, Options, current_rows, reconcile, shown
from compactor.flows.record import remember_comparison
from compactor.reconcile.source import open_source

_PAUSE = 2.0
"""Seconds between two looks at the lake's position."""


def source_table(spec: TableSpec) -> str:
    """Return the name of a table in its source: `source_table:`, else the end of the topic, else the table's own name."""
    if spec.source_table and "*" not in spec.source_table:
        return spec.source_table
    parts = (spec.topic or "").split(".")
    return ".".join(parts[-2:]) if len(parts) >= 3 else spec.name


def _select(source: Any, columns: Columns, spec: TableSpec, where: str | None) -> None:
    """Choose the columns and rows of the source that the table should have: of a table with `delete_when` only those that are no deletes."""
    if where is not None or spec.delete_when is None:
        source.select(columns, where or "")
        return
    try:
        source.select(columns, f"NOT coalesce(({spec.delete_when}), false)")
    except Refused as error:
        raise Refused(
            f"table {spec.name}: the source does not understand `delete_when: {spec.delete_when}`, which is Spark's SQL. {error}. "
            "Set --where to a condition, in the source's SQL, on the rows that are not deleted."
        ) from None


@dataclass(frozen=True)
class _Opened:
    """A table and its source, ready to be compared."""

    source: Any
    lake: Lake
    pause: Callable[[], bool]

    def compare(self, options: Options) -> ReconcileReport:
        report = reconcile(self.source, self.lake, options, self.pause, time.monotonic)
        remember_comparison(self.lake.table, report)
        return report

    def repairable(self, differences: Sequence[RowDifference], where: str) -> list[RowDifference]:
        """Return the differences without rows of the lake that the source has outside of the condition `where`: they are no rows to delete."""
        extra = [tuple(item.key.values()) for item in differences if item.kind == "extra"]
        self.source.select(self.lake.columns, "")
        there = current_rows(self.source, extra, None, self.pause)
        self.source.select(self.lake.columns, where)
        return [item for item in differences if tuple(item.key.values()) not in there]

    def signal(self, keys: list[Key], table: str) -> str:
        """Write Debezium's signal for these keys into its signal table. Return the signal's id."""
        label = f"compactor-{self.lake.table.env.nonce()}"
        self.source.signal(table, label, signal_data(self.source.collection, self.source.side.condition(keys)))
        return label


class Reconcile(AppBase):
    """Compare tables with their sources, and repair them."""

    run: Callable[..., list[TableReport]]

    def reconcile(self, name: str, url: str, options: Options = DEFAULT) -> ReconcileReport:
        """Compare a table with its source and name the rows and columns that differ."""
        with self._opened(name, url, options) as opened:
            return opened.compare(options)

    def repair(self, name: str, url: str, options: Options = DEFAULT, run: bool = False, signal: str | None = None) -> RepairReport:
        """Compare a table with its source, repair the first `options.limit` rows that differ, and compare again.

        `run`: repair; else dry run. `signal`: Debezium's signal table, by which the connector reads the rows again. Without it the rows are landed,
        and this runs the table. Raises Refused for tables that cannot be repaired in this way.
        """
        with self._opened(name, url, options) as opened:
            if signal is None:
                repairs.check(opened.lake.table, shown(opened.lake.table))
            before = opened.compare(options)
            if before.outcome == TOO_MANY:
                raise Refused(f"table {name}: too many rows differ to repair each: first let the lake come further (--at now), or rebuild the table.")
            kinds = KINDS if signal is None else opened.source.signal_repairs
            chosen = [item for item in before.differences if item.proof and item.kind in kinds and item.rows[0] <= 1]
            chosen = opened.repairable(chosen, options.where) if options.where else chosen
            keys, deletes = [tuple(item.key.values()) for item in chosen], sum(item.kind == "extra" for item in chosen)
            written, after = "", None
            if run and keys:
                written = self._land(opened, keys) if signal is None else opened.signal(keys, signal)
                after = opened.compare(dataclasses.replace(options, at=None if signal is None else "now"))
            left_null = opened.lake.columns.left_out if signal is None and any(item.kind == "missing" for item in chosen) else ()
            return RepairReport(before, after, len(keys) - deletes, deletes, before.different - len(keys), written, left_null)

    def _land(self, opened: _Opened, keys: list[Key]) -> str:
        def read() -> Rows:
            return current_rows(opened.source, keys, opened.lake.reached(), opened.pause)

        table = opened.lake.table
        path = repairs.land(table, opened.lake.columns, keys, opened.lake.rows(keys), read)
        while True:
            (report,) = self.run([table.name])
            if repairs.ingested(table, path):
                return path
            # another run may have begun before the file was there, or may commit first each time
            if report.outcome == "failed" or not opened.pause():
                raise Unavailable(f"{report.error or 'No run has ingested the rows yet'}. They are landed in {path}; the next run ingests them.")

    @contextmanager
    def _opened(self, name: str, url: str, options: Options) -> Iterator[_Opened]:
        check_reader(self.settings, "run it on EMR")
        (spec,) = self.specs([name])
        if spec.keyless:
            raise Refused(f"table {name} has no key: only tables with a key can be compared.")
        if spec.shard:
            raise Refused(f"table {name} has rows of several sources ({{{spec.shard}}} in `increments`): it cannot be compared with one of them.")
        with open_source(url, options.source_table or source_table(spec), options.parallel, options.timeout) as source:
            self._start(frozenset())
            table = self.runtime.table(spec)
            schema = shown(table).schema
            columns = pair_columns(schema, source.columns())
            if len(columns.key) < len(schema.key):
                missing = [f"{name} ({reason})" for name, reason in columns.skipped[: len(schema.key) - len(columns.key)]]
                raise Refused(f"table {name}: the key cannot be compared with the source's: {', '.join(missing)}. Check --source-table.")
            _select(source, columns, spec, options.where)
            deadline = time.monotonic() + options.wait
            yield _Opened(source, Lake(table, columns, source.log, self._query), lambda: self._pause(deadline))

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        return with_sql_errors(lambda: [tuple(row) for row in self.runtime.spark().sql(text).collect()])

    def _pause(self, deadline: float) -> bool:
        """Wait a moment, so that runs can bring the lake forward. Return False after the deadline."""
        if time.monotonic() >= deadline:
            return False
        self._release_metastore()
        time.sleep(min(_PAUSE, max(0.0, deadline - time.monotonic())))
        return True
