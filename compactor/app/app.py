"""The App: what commands do with a configuration. The command line, Airflow and Python programs call it.

with App.open("compactor.yaml") as app:
    reports = app.run()

Spark starts when something first needs it: what reads only files never starts a JVM, so it answers in a second. A flow that needs only its table
is called with `app.table(name)`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from compactor.app.local_sql import LocalSql, either, possible, query_of_files
from compactor.app.metrics import send
from compactor.app.query import AS_JSON, Rows, as_of_views, check_names, check_tables, micros, row_texts, with_sql_errors
from compactor.app.reconcile import Reconcile
from compactor.app.registry import SchemaReport, Synced, schema_report, sync
from compactor.app.runners import Runners
from compactor.app.spark import check_reader, coordinates, s3_packages, spark_reads
from compactor.app.versions import Versions
from compactor.config.values import absolute
from compactor.core.catalog import dbt, statements
from compactor.core.model.errors import CompactorError, Refused
from compactor.core.model.layout import join
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.folders import Discovery
from compactor.core.planning.landing import Landing
from compactor.core.results.checks import UNTAKEN, Check
from compactor.core.results.explained import Explained
from compactor.core.results.record import TableReport
from compactor.core.results.reports import Progress, TableFile, TablePlan, TableStatus, silent, table_files
from compactor.core.schema.schema_history import Step, steps
from compactor.duckdb.session import UnknownTable
from compactor.flows import logs
from compactor.flows.land.ingest import Ingest, Ingested
from compactor.flows.read import quarantine
from compactor.flows.read.explain import explain
from compactor.flows.read.quarantine import QuarantinedFile
from compactor.flows.read.status import plan, statuses
from compactor.flows.read.timeline import timelines
from compactor.flows.read.verify import verify
from compactor.flows.read.visible import kept, visible
from compactor.flows.record import remember_idle
from compactor.flows.run import failed_early
from compactor.flows.run_tables import idle_tables, run_tables
from compactor.flows.table import Table, listed
from compactor.flows.verbs import discard_table, replay_table
from compactor.flows.write.restore import named
from compactor.report.page import bytes_plot, page

if TYPE_CHECKING:
    from compactor.core.results.timeline import Timeline
    from compactor.core.sources.proposal import TableProposal

log = logging.getLogger(__name__)

AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
"""Engines of `App.sql`."""

PARALLEL = max(2, min(4, os.cpu_count() or 2))
"""Tables at a time. A small table's run is mostly sequential, so a second table fills the gaps."""

BRIEF_MAX = 16 << 20
"""Bytes to read up to which a run gets a JVM that compiles quickly: compiling well would take longer than it gains."""


class App(Versions, Runners, Reconcile):
    """A configuration and everything that can be done with it. Close it, or use it as a context manager: that stops Spark."""

    _local_sql: LocalSql | None = None

    def close(self) -> None:
        """Stop Spark and DuckDB if they were started. The App can be used again; it starts them again when needed."""
        with self._lock:
            self._local_sql = None
        super().close()

    # ---- bring tables up to date ----

    def run(
        self, names: Sequence[str] = (), progress: Progress = silent, parallel: int = PARALLEL, label: str = "", compact: bool = False
    ) -> list[TableReport]:
        """Bring tables up to date and return one report a table, also for a table that failed. Without names, `discover:` adds tables first.

        Raises only errors that concern all tables, such as a missing Java or a metastore in use. `parallel`: tables at a time; `label`: a name
        for the run, kept in its Snapshots; `compact`: compaction is due now, whatever `compact_every`, `compact_window` and `compact_budget` are.
        """
        if self.settings.discover and not names:
            self.add_tables()
        requested, specs, failed = self.specs(names), [], {}
        for spec in requested:
            try:
                with_schema = self.with_schema(spec)
                specs.append(with_schema.compacting_now if compact else with_schema)
            except CompactorError as error:
                failed[spec.name] = failed_early(self.runtime.table(spec, files_only=True, label=label), error)
                progress(spec.name, "done", 1.0)
        env, start = self.runtime.environment(), lambda busy, size: self._start_for(busy, False, size <= BRIEF_MAX)
        done = {report.table: report for report in run_tables(env, specs, progress, parallel, label, start)}
        reports = [failed.get(spec.name) or done[spec.name] for spec in requested]
        send(self, requested, reports)
        return reports

    def add_tables(self, top: str | None = None, dry_run: bool = False) -> list[TableProposal]:
        """Make a table of each folder that fits `discover:`, or lies in `top`, if its key is certain. Return those that wait, too. Starts no JVM."""
        from compactor.app import init

        entries = [Discovery(join(absolute(top, os.getcwd()), "{table}"))] if top else self.settings.discoveries
        return init.look_for_tables(self, entries) if dry_run else init.add_tables(self, entries)

    def folders(self, samples: bool = False) -> list[str]:
        """Return a line for each landed folder that no table takes. Starts no JVM.

        `samples`: whether to read files of those that fit `discover:`, to see which tables they become.
        """
        from compactor.app.init import untaken

        return untaken(self, samples)

    def repeat(self, run: Callable[[], None], seconds: float) -> None:
        """Call `run`, which calls `App.run`, every `seconds` until Ctrl-C or SIGTERM. Spark stays started. Call this in the main thread."""
        self.runtime.environment(files_only=True).stop.repeat(run, seconds)

    def idle(self, names: Sequence[str] | None = None) -> list[TableReport]:
        """Return the reports of those tables (default: all) for which a run has nothing to do, and send their metrics, as a run does.

        What cannot be found out is left out. Starts no JVM.
        """
        requested, specs = self.specs() if names is None else [self.settings.spec(name) for name in names], []
        for spec in requested:
            with contextlib.suppress(CompactorError):
                specs.append(self.with_schema(spec))
        reports = [report for report in idle_tables(self.runtime.environment(), specs).values() if report.outcome == "idle"]
        idle = {report.table for report in reports}
        remember_idle(self.runtime.environment(), requested, reports)
        send(self, [spec for spec in specs if spec.name in idle], reports)
        return reports

    def replay(self, name: str, paths: Sequence[str] = (), progress: Progress = silent, label: str = "") -> TableReport:
        """Read files from quarantine again: these paths, or all."""
        return replay_table(self.started(name, label, progress), paths)

    def discard(self, name: str, paths: Sequence[str], progress: Progress = silent, label: str = "", records: bool = False) -> TableReport:
        """Give files in quarantine up: delete them, and remember that they had no events. `records`: the invalid records of partly ingested files."""
        return discard_table(self.started(name, label, progress), paths, records)

    def ingest(self, names: Sequence[str] = (), max_records: int = 500_000, skip_lost: bool = False) -> list[Ingested]:
        """Write the records of the tables' Kafka topics into landing. Default: all tables that have a topic.

        `max_records`: most records in a file; `skip_lost`: continue after records that Kafka no longer has.
        """
        from compactor.spark.input.topics import KafkaTopics

        specs = [spec for spec in self.specs(names) if spec.topic or names]
        if not specs:
            raise Refused(f"ingest: no table has a `topic:` in {self.settings.file}")
        without = [spec.name for spec in specs if not spec.topic]
        if without:
            raise Refused(f"ingest: {', '.join(without)} has no `topic:` in {self.settings.file}")
        self._start(frozenset([*coordinates("spark-sql-kafka-0-10"), *s3_packages(self.settings)]))
        topics = KafkaTopics(self.runtime.spark(), self.runtime.storage, self.settings.kafka_properties())
        staging = join(self.settings.warehouse_dir, "_ingest")
        return Ingest(self.runtime.environment(files_only=True), topics, specs, staging, max_records, skip_lost).all_there_is()

    # ---- look at tables ----

    def status(self, names: Sequence[str] = ()) -> list[TableStatus]:
        """Return the state of each table. Starts no JVM."""
        return statuses([self.runtime.table(spec, files_only=True) for spec in self.specs(names)])

    def plan(self, names: Sequence[str] = (), samples: bool = True) -> list[TablePlan]:
        """Return what a run would do, and where the configuration contradicts the files. Changes nothing, starts no JVM.

        `samples`: whether to read a few files of landing; without them only their names are looked at.
        """
        specs = [self.with_schema(spec) if samples else spec for spec in self.specs(names)]
        return [plan(self.runtime.table(spec, files_only=True), self.specs(), samples) for spec in specs]

    def explain(self, name: str) -> Explained:
        """Return how what waits in landing becomes a version, or how the newest version became one: passes, reasons, SQL. Writes nothing."""
        return explain(self.table(name))

    def plan_of_folders(self, samples: bool = True) -> list[TablePlan]:
        """Return a plan of table "" with the landed folders that no table takes, and those that the next run makes tables of; none without any."""
        checks = tuple(Check("", UNTAKEN, True, line) for line in self.folders(samples))
        return [TablePlan("", None, Landing(()), (), checks)] if checks else []

    def log(self, name: str, limit: int = 0) -> list[Snapshot]:
        """Return a table's `limit` newest Snapshots (0 for all), newest first. Starts no JVM."""
        return [*islice(self.table(name).history(), limit or None)]

    def report(self, names: Sequence[str] = (), at: str | None = None, versions: int = 50) -> str:
        """Return an HTML page about tables. `at`: the page of that moment (ISO 8601, UTC unless it has a zone). `versions`: newest versions a table.

        It is made from Snapshots and run records, and for now and all tables it names landed folders that no table takes. Starts no JVM.
        """
        now = self.runtime.environment(files_only=True).clock() if at is None else micros(at) / 1e6
        title = self.settings.metrics.deployment or self.settings.file.parent.name or "compactor"
        return page(self._timelines(names, now, versions), now, title, at is not None, () if names or at is not None else self.folders())

    def _timelines(self, names: Sequence[str], now: float, versions: int = 50) -> list[Timeline]:
        return timelines(self.runtime.environment(files_only=True), self.specs(names), now, versions)

    def write_report(self, out: str, names: Sequence[str] = (), at: str | None = None, versions: int = 50) -> str:
        """Write the page of `report` to a file or into a folder, local or in S3. Return its location."""
        text = self.report(names, at, versions)
        place = absolute(out, os.getcwd())
        place = place if place.endswith((".html", ".htm")) else join(place, "index.html")
        self.runtime.storage.write(place, text.encode())
        return place

    def write_plot(self, out: str) -> str:
        """Write the plot of bytes on the page of `report` as an SVG file. Return its location."""
        place = absolute(out, os.getcwd())
        plot = bytes_plot(self._timelines((), self.runtime.environment(files_only=True).clock()))
        self.runtime.storage.write(place, plot.encode())
        return place

    def verify(self, names: Sequence[str] = (), files_only: bool = False, deep: bool = False) -> list[Check]:
        """Check that files, ledger, counts and views agree. `files_only`: only checks without a JVM; `deep`: read every kept file."""
        specs = self.specs(names)
        if not files_only:
            check_reader(self.settings, "`compactor verify --files-only` compares files and ledger")
            specs = [self.with_schema(spec) for spec in specs]
            self._start_for(specs, archived=True)
        checks: list[Check] = []
        for spec in specs:
            table = self.runtime.table(spec, files_only)
            with logs.phase(table, "verifying") as phase:
                checks += verify(table, deep)
                if not files_only:
                    phase.did("verified")
        return checks

    def quarantined(self, names: Sequence[str] = ()) -> list[QuarantinedFile]:
        """Return the files in quarantine. Starts no JVM."""
        tables = [self.runtime.table(spec, files_only=True) for spec in self.specs(names)]
        return [file for table in tables for file in quarantine.with_reasons(table, quarantine.waiting(listed(table), table.newest()))]

    def sql(self, text: str, as_of: str | None = None, engine: str = AUTO) -> Rows:
        """Run a statement in the configured database and return its rows. A statement without a result returns no columns and no rows.

        `as_of` (ISO 8601; UTC unless it has a zone): read the tables as of that source time. Reading a table without history fails.
        `engine`: DUCKDB reads the configured tables and needs no JVM, SPARK reads and changes everything in the catalog. AUTO takes DuckDB for
        queries of these tables that mean the same in both.
        """
        check_tables(self.specs(), text)
        moment = micros(as_of) if as_of is not None else None
        if moment is not None:
            check_names(self.specs(), text, engine != DUCKDB)
        if engine == SPARK or (engine == AUTO and not possible(text)):
            return self._spark_sql(text, moment)
        text = text.strip().rstrip(";")
        if engine == AUTO and spark_reads(self.settings):
            return either(self._local(), text, moment, lambda: self._spark_sql(text, moment))
        try:
            return self._local().rows(text, moment)
        except UnknownTable as error:
            hint = f"expected a view of {self.settings.file} that has rows; --engine spark reads every table of the catalog"
            raise Refused(f"{error}: {hint}") from error

    def sql_words(self, text: str) -> list[str]:
        """Return names that may go on a statement typed so far: all tables, and the columns of those that it mentions. Starts no JVM."""
        return self._local().words(text)

    def files(self, name: str, as_of: str | None = None) -> tuple[Snapshot, list[TableFile]]:
        """Return a version of a table (its number or a time; default: the one that readers see) and its Parquet files. Starts no JVM."""
        table = self.table(name)
        snapshot = self._kept(table, as_of)
        return snapshot, table_files(table.spec, snapshot)

    def files_sql(self, name: str, as_of: str | None = None) -> str:
        """Return the rows of a version as a query over its files, for DuckDB without compactor."""
        table = self.table(name)
        return query_of_files(table, self._kept(table, as_of))

    def _kept(self, table: Table, as_of: str | None) -> Snapshot:
        snapshot = named(table, as_of)
        return kept(table, snapshot.version if snapshot else None)

    def _local(self) -> LocalSql:
        with self._lock:
            if self._local_sql is None:
                self._local_sql = LocalSql(self)
            return self._local_sql

    def _spark_sql(self, text: str, moment: int | None) -> Rows:
        check_reader(self.settings, "query it with Athena, or run this on EMR")
        spark = self.runtime.spark()
        database = self.settings.catalog.database
        if not with_sql_errors(lambda: spark.catalog.databaseExists(database)):
            raise Refused(f"the database {database} does not exist yet; `compactor run` creates it")

        def since(spec: TableSpec) -> str | None:
            snapshot = visible(self.table(spec.name))
            return snapshot.history.since if snapshot is not None and snapshot.history is not None else None

        def answer() -> Rows:
            spark.sql(f"USE `{database}`")
            mentioned = [spec for spec in self.specs() if spec.view.lower() in text.lower()] if moment is not None else []
            with as_of_views(spark, mentioned, moment, since):
                frame = spark.sql(statements.for_spark(text.strip().rstrip(";")))
            if not frame.columns:
                return Rows([])
            return Rows(frame.columns, row_texts(frame.selectExpr(AS_JSON)))

        return with_sql_errors(answer)

    # ---- schemas ----

    def publish(self, names: Sequence[str] = (), dry_run: bool = False, accept: bool = False) -> list[Synced]:
        """Create or alter the tables and views in the catalog, so that they show the newest versions; with `dry_run` only return the statements.

        A version that `checks:` have blocked is audited again; `accept`: show it whatever they say. Raises CheckFailed if a rule does not hold.
        """
        return [sync(self.runtime.table(self.with_schema(spec)), dry_run, accept) for spec in self.specs(names)]

    def schema_history(self, name: str) -> list[Step]:
        """Return the Snapshots that changed a table's schema, newest first. Starts no JVM."""
        return steps(self.log(name))

    def dbt(self, names: Sequence[str] = ()) -> str:
        """Return sources.yml for dbt with the views of those tables that have rows. Starts no JVM."""
        newest = ((spec, self.runtime.table(spec, files_only=True).newest()) for spec in self.specs(names))
        return dbt.sources([(spec, snapshot) for spec, snapshot in newest if snapshot is not None])

    def schema(self, names: Sequence[str] = (), next_schema: str | None = None, notify: bool = False) -> list[SchemaReport]:
        """Return what the declared schemas of tables change (default: all tables with one). Starts no JVM, registers nothing.

        `next_schema`: an Avro schema that is to come, for registry and table, instead of the declared one; `notify`: send notices before a run
        uses the schema.
        """
        specs = [spec for spec in self.specs(names) if names or spec.subject or spec.avro_schema]
        specs = [self.with_schema(spec) if next_schema is None or spec.registered_key else spec for spec in specs]
        registry = self.registry() if any(spec.subject for spec in specs) else None
        return [schema_report(self.runtime.table(spec, files_only=True), registry, next_schema, notify) for spec in specs]
