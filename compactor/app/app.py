"""The composition root: the only module that names adapters. A command line, a scheduler's task and a test all begin here.

    with App.open("compactor.yaml") as app:
        reports = app.run()

Spark starts when something first needs it: what reads only files never starts a JVM (H31).
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compactor.app.as_of import as_of_views, micros
from compactor.app.lifecycle import Lifecycle
from compactor.app.query import AS_JSON, Rows, in_words, texts
from compactor.app.runner import Sender
from compactor.app.schema import Announced, Checked, Foreseen, Synced, announce, checked, foreseen, notify, registered_key, sync
from compactor.app.spark import avro_package, check_reader, coordinates, opened, s3_packages
from compactor.config.settings import Settings, load
from compactor.config.values import absolute
from compactor.core.model.errors import CompactorError, Refused, RegistryRefused
from compactor.core.model.layout import join
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Alert
from compactor.core.results.reports import Check, Progress, TablePlan, TableReport, TableStatus, silent
from compactor.core.schema.schema_history import Step, steps
from compactor.flows.land.ingest import Ingest, Ingested
from compactor.flows.read.quarantine import QuarantinedFile
from compactor.flows.table import Table
from compactor.ports import Registry, Storage
from compactor.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PARALLEL = max(2, min(4, os.cpu_count() or 2))
"""Tables at a time: most of a small table's run is one task after another, so a second table fills the gaps."""


class App(Lifecycle, Sender):
    """Settings, and the ports made from them. Close it, or use it as a context manager: that ends the JVM it started."""

    def __init__(self, settings: Settings, *, verbose: bool = False, wait: float = 0.0, conf: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self._verbose = verbose
        self._wait = wait
        self._conf = dict(conf or {})
        self._lock = threading.RLock()
        self._packages: frozenset[str] = frozenset()
        self._asked: Any = None
        self.runtime = Runtime(self.job_config(), self._opened, self._schemas(), notify)

    @classmethod
    def open(cls, config_path: str | Path, verbose: bool = False, wait: float = 0.0, conf: Mapping[str, str] | None = None) -> App:
        """Read the configuration. `wait`: seconds to wait for an embedded metastore that is in use; `verbose`: let Spark talk;
        `conf`: Spark settings over our own."""
        return cls(load(config_path), verbose=verbose, wait=wait, conf=conf)

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End Spark, if it was started. The App can be used again: it starts another."""
        with self._lock:
            registry, self._asked = self._asked, None
            if registry is not None:
                registry.close()
            self.runtime.close()
            self._packages = frozenset()

    # the tables ---------------------------------------------------------------------------------------------------

    def specs(self, names: Sequence[str] = ()) -> list[TableSpec]:
        """These tables, or all. Raises ConfigError for an unknown one."""
        return [self.settings.spec(name) for name in dict.fromkeys(names or self.settings.names)]

    def run(
        self, names: Sequence[str] = (), progress: Progress = silent, parallel: int = PARALLEL, label: str = "", compact: bool = False
    ) -> list[TableReport]:
        """Bring tables up to date. Raises only what concerns all of them (no Java, metastore in use); reports tell the rest.

        `fold`: whatever `compaction:` says, Segments that are worth it are folded now.
        """
        from compactor.flows.run import failure, run_tables

        asked, specs, failed = self.specs(names), [], {}
        for spec in asked:
            try:
                found = self._with_schema(spec)
                specs.append(found.compacting_now if compact else found)
            except CompactorError as error:
                failed[spec.name] = failure(spec.name, error)
                progress(spec.name, "done", 1.0)
        self._need(specs, archived=False)
        done = {report.table: report for report in run_tables(self.runtime.environment(), specs, progress=progress, parallel=parallel, label=label)}
        reports = [failed.get(spec.name) or done[spec.name] for spec in asked]
        if self.settings.measured is not None:
            self._measure(asked, reports)
        return reports

    def _measure(self, specs: Sequence[TableSpec], reports: Sequence[TableReport]) -> None:
        from compactor.aws import metrics
        from compactor.aws.client import ClientConfig
        from compactor.flows.read.measure import measure

        namespace, deployment, region = self.settings.measured or ("", "", None)
        reach = ClientConfig(region, operation_seconds=20.0)
        measure(self.runtime.environment(files_only=True), specs, reports, lambda found: metrics.send(found, namespace, deployment, reach))

    def status(self, names: Sequence[str] = ()) -> list[TableStatus]:
        """Where tables stand. Starts no JVM."""
        from compactor.flows.read.status import status

        return [status(self.runtime.table(spec, files_only=True)) for spec in self.specs(names)]

    def alert(self, name: str, event: str, reason: str, where: Mapping[str, str]) -> None:
        """Tell the table's `notify:` targets that it needs somebody: `core.notice.Alert`. Starts no JVM."""
        from compactor.flows.publish.notices import notify_all

        table = self.table(name)
        notify_all(table, Alert(name, event, table.env.now(), reason, where), f"an alert ({event})")

    def lateness(self, names: Sequence[str], deadline: str) -> dict[str, str]:
        """Those of these tables of which files wait although the deadline of their run has passed, and why they are late. Starts no JVM."""
        from compactor.flows.read.status import lateness

        return lateness(self.status(names), deadline)

    def plan(self, names: Sequence[str] = ()) -> list[TablePlan]:
        """What a run would do. Changes nothing, starts no JVM."""
        from compactor.flows.read.plan import plan

        return [plan(self.runtime.table(spec, files_only=True)) for spec in self.specs(names)]

    def log(self, name: str) -> list[Snapshot]:
        """A table's Snapshots, newest first. Starts no JVM."""
        from compactor.flows.read.log import history

        return history(self.table(name))

    def verify(self, names: Sequence[str] = (), files_only: bool = False, deep: bool = False) -> list[Check]:
        """Whether what is stored, shown and recorded agrees; `files_only` leaves out what needs a JVM, `deep` reads every kept file."""
        from compactor.flows.read.verify import verify

        specs = self.specs(names)
        if not files_only:
            check_reader(self.settings, "verify --files-only compares what is stored and recorded")
            specs = [self._with_schema(spec) for spec in specs]
            self._need(specs, archived=True)
        return [check for spec in specs for check in verify(self.runtime.table(spec, files_only), deep)]

    def arrived(self, name: str, hour: datetime) -> bool:
        """Whether anything of an hour (UTC) has landed for a table, absorbed already or not. Starts no JVM."""
        from compactor.flows.read.arrived import arrived

        return arrived(self.table(name), hour)

    def quarantined(self, names: Sequence[str] = ()) -> list[QuarantinedFile]:
        """What waits in quarantine. Starts no JVM."""
        from compactor.flows.listed import listed
        from compactor.flows.read import quarantine

        tables = [self.runtime.table(spec, files_only=True) for spec in self.specs(names)]
        return [held for table in tables for held in quarantine.waiting(listed(table), table.newest())]

    def quarantine_reasons(self, name: str, paths: Sequence[str] = ()) -> list[tuple[QuarantinedFile, dict[str, Any]]]:
        """What of these inputs (all that wait) cannot be used, and why: the content of their reason files. Starts no JVM."""
        from compactor.flows.read import quarantine

        found = [held for held in self.quarantined([name]) if not paths or held.path in paths]
        return [(held, quarantine.reasons(self.table(name), held)) for held in found]

    def replay(self, name: str, paths: Sequence[str] = (), progress: Progress = silent, label: str = "") -> TableReport:
        """Take again what waits in quarantine, all or these paths."""
        from compactor.flows.run import replay_table

        spec = self._with_schema(self.specs([name])[0])
        self._need([spec], archived=True)
        return replay_table(self.runtime.table(spec), paths, progress=progress, label=label)

    def ingest(self, names: Sequence[str] = (), max_records: int = 500_000, skip_lost: bool = False) -> list[Ingested]:
        """Land what is in the tables' Kafka topics; without names, of all tables that have one."""
        from compactor.spark.input.topics import KafkaTopics

        specs = [spec for spec in self.specs(names) if spec.topic or names]
        if not specs or not all(spec.topic for spec in specs):
            without = ", ".join(spec.name for spec in specs if not spec.topic) or "no table"
            raise Refused(f"ingest: {without + ' has no' if specs else without + ' has a'} `topic:` in {self.settings.file}")
        self._start(frozenset([*coordinates("spark-sql-kafka-0-10"), *s3_packages(self.settings)]))
        topics = KafkaTopics(self.runtime.spark(), self.runtime.storage, str(self.settings.kafka.servers), self.settings.kafka_properties())
        staging = join(self.settings.warehouse_dir, "_ingest")
        return Ingest(self.runtime.storage, topics, specs, staging, max_records, skip_lost).all_there_is()

    def sync(self, names: Sequence[str] = (), dry_run: bool = False) -> list[Synced]:
        """Make the catalog hold what the tables say, or tell the statements that would."""
        return [sync(self.runtime.table(self._with_schema(spec)), dry_run) for spec in self.specs(names)]

    def schema_history(self, name: str) -> list[Step]:
        """The Snapshots that changed a table's schema, newest first. Starts no JVM."""
        return steps(self.log(name))

    def schema_diff(self, name: str) -> Foreseen:
        """What the newest declared schema differs in from the stored one, and what a run would do about it. Starts no JVM."""
        (spec,) = self.specs([name])
        return foreseen(self.runtime.table(self._with_schema(spec), files_only=True), self._registry() if spec.subject else None)

    def schema_check(self, name: str, text: str) -> Checked:
        """Whether an Avro schema may come next: for the registry, and for the table. Registers nothing, starts no JVM."""
        (spec,) = self.specs([name])
        return checked(self.runtime.table(self._with_schema(spec) if spec.registered_key else spec, files_only=True), self._registry(), text)

    def schema_notify(self, names: Sequence[str] = ()) -> list[Announced]:
        """Tell of declared schemas that change tables, before their first use; without names, of all tables with one. Starts no JVM."""
        specs = [self._with_schema(spec) for spec in self.specs(names) if names or spec.subject or spec.avro_schema]
        return [announce(self.runtime.table(spec, files_only=True)) for spec in specs]

    def sql(self, text: str, as_of: str | None = None) -> Rows:
        """Run a statement in the configured database. One without a result gives no columns and no rows.

        `as_of` (ISO 8601, UTC where it names no zone): the tables are as they were at that source time. A table without a history fails when read.
        """
        check_reader(self.settings, "ask Athena, or run it on EMR")
        spark = self.runtime.spark()
        database = self.settings.catalog.database
        moment = micros(as_of) if as_of is not None else None
        if not in_words(lambda: spark.catalog.databaseExists(database)):
            raise Refused(f"the database {database} does not exist yet; `compactor run` creates it")

        def answer() -> Rows:
            spark.sql(f"USE `{database}`")
            with as_of_views(spark, self.specs() if moment is not None else [], moment):
                found = spark.sql(text.strip().rstrip(";"))
            if not found.columns:
                return Rows([])
            return Rows(found.columns, texts(found.selectExpr(AS_JSON)))

        return in_words(answer)

    # the ports ----------------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """One table, for flows that read files only. Starts no JVM."""
        (spec,) = self.specs([name])
        return self.runtime.table(spec, files_only=True)

    def _with_schema(self, spec: TableSpec) -> TableSpec:
        """The spec with the newest schema of its subject. Raises RegistryRefused for an unknown one."""
        if spec.subject is None:
            return spec
        registry = self._registry()
        found = registry.latest(spec.subject)
        if found is None:
            near = difflib.get_close_matches(spec.subject, registry.subjects(), 1, 0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise RegistryRefused(f"table {spec.name}: {registry} has no subject {spec.subject}{hint}")
        key = registered_key(registry, spec) if spec.registered_key else spec.key
        return dataclasses.replace(spec, avro_schema=found.text, key=key, registered=(found.version, found.id))

    def _registry(self) -> Registry:
        with self._lock:
            if self._asked is None:
                self._asked = _registry(self.settings, self.runtime.storage)
            found: Registry = self._asked
            return found

    def _schemas(self) -> Callable[[int], str] | None:
        """What returns a schema's text by its id, if a registry is configured."""
        found = self.settings.registry
        return (lambda number: self._registry().by_id(number)) if found.url or found.folder else None

    def _need(self, specs: Sequence[TableSpec], archived: bool) -> None:
        """Start Spark with the packages that these tables need; start it again if it runs without."""
        self.runtime.check_commits()
        by_id = self._schemas() is not None and any(spec.container == "kafka" for spec in specs)
        avro = coordinates("spark-avro") if by_id else avro_package(self.runtime.storage, specs, archived)
        self._start(frozenset([*avro, *s3_packages(self.settings)]))

    def _start(self, packages: frozenset[str]) -> None:
        """Start Spark with these packages; start it again if it runs without."""
        with self._lock:
            if self.runtime.started and not packages <= self._packages:
                self.close()
            self._packages |= packages
            self.runtime.spark()

    def _let_others_in(self) -> None:
        """End Spark if it holds an embedded metastore, which one process has at a time."""
        if self.settings.metastore_dir is not None:
            self.close()

    def _opened(self) -> SparkSession:
        self._packages |= frozenset(s3_packages(self.settings))
        return opened(self.settings, self._packages, self._verbose, self._wait, self._conf)


def _registry(settings: Settings, storage: Storage) -> Registry:
    said = settings.registry
    here = str(settings.file.parent)
    if said.folder:
        from compactor.registry.files import FileRegistry

        return FileRegistry(storage, absolute(said.folder, here))
    from compactor.registry.confluent import ConfluentRegistry
    from compactor.registry.settings import RegistrySettings

    plain = {name: value for name, value in said.model_dump().items() if value and name not in ("url", "folder")}
    files = {name: absolute(value, here) for name, value in plain.items() if name.endswith("_file")}
    return ConfluentRegistry(RegistrySettings(urls=said.url, **{**plain, **files}))
