"""Runtime: creates the ports from a JobConfig, on an operator's machine and on a cluster. The only module that chooses adapters.

Spark starts on first use, so commands that only read files never start a JVM.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from compactor.core.model.errors import Refused
from compactor.core.model.layout import join
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.results.reports import Progress, Tasks, silent
from compactor.core.settings.aws import ClientConfig
from compactor.core.settings.job_config import JobConfig
from compactor.core.sources.source_profile import ReadSample
from compactor.flows import logs
from compactor.flows.environment import Environment, no_sample
from compactor.flows.stop import Stop
from compactor.flows.table import Table
from compactor.ports import Catalog, Engine, Storage
from compactor.storage.local import LocalStorage
from compactor.storage.routed import RoutedStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Schemas = Callable[[int], str]
"""Return the text of the registered schema with an id."""

Notify = Callable[[Target, Message], None]


class Runtime:
    """The ports of one process. `close` ends the JVM that it started; later use starts another one."""

    def __init__(
        self, config: JobConfig, open_session: Callable[[], SparkSession], schemas: Schemas | None, notify: Notify, sampled: ReadSample = no_sample
    ) -> None:
        """Keep what the ports are made of. `sampled`: a cluster has no DuckDB for it."""
        self.config = config
        self.tables: tuple[TableSpec, ...] = ()
        """Every configured table, where the configuration is known whole."""
        self.storage = RoutedStorage(LocalStorage(), self._s3)
        self._open_session, self._schemas, self._notify, self._sampled = open_session, schemas, notify, sampled
        self._lock = threading.RLock()
        self._made: dict[str, Any] = {}
        self._stop = Stop(self._cancel)

    def environment(self, files_only: bool = False) -> Environment:
        """Return the ports for the flows. Engine and catalog start Spark on first use."""
        return Environment(
            self.storage,
            self._engine,
            self._catalog,
            notify=self._notify,
            files_only=files_only,
            catalog_name=self._catalog_name,
            program=_program(),
            stop=self._stop,
            tasks=self._tasks,
            share=self._share,
            read_sample=self._sampled,
            tables=self.tables,
        )

    def table(self, spec: TableSpec, files_only: bool = False, label: str = "", progress: Progress = silent) -> Table:
        """Return a table in this environment, for a run with this label."""
        return Table(self.environment(files_only), spec, label, progress)

    def spark(self) -> SparkSession:
        """Return the Spark session, started at the first call. Where its JVM has ended, another one is started."""
        session: SparkSession = self._once("spark", self._open_session)
        return session

    @property
    def started(self) -> bool:
        return "spark" in self._made

    def _cancel(self) -> None:
        # not `spark()`, which starts another JVM where this one has ended
        session: SparkSession | None = self._made.get("spark")
        if session is not None:
            session.sparkContext.cancelAllJobs()

    def check_commits(self) -> None:
        """Raise Refused if the store has no conditional puts, which commits need. Called before anything is computed."""
        home = self.config.warehouse
        if home.startswith("s3://"):
            from compactor.storage.s3.storage import S3Storage

            store = self.storage.at(home)
            assert isinstance(store, S3Storage)  # noqa: S101 - `_s3` returns nothing else
            # below the warehouse, where we have write permission
            store.conditional_puts(join(home, "x"))

    def close(self) -> None:
        """Stop Spark if it was started, and drop all adapters."""
        with self._lock:
            spark = self._made.pop("spark", None)
            self._made.clear()
        if spark is not None:
            from compactor.spark.session import close_session

            close_session(spark)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        # several tables run at the same time
        with self._lock:
            if self.started:
                from compactor.spark.gateway import jvm_has_ended

                if jvm_has_ended():
                    log.warning("Spark's JVM has ended; starting another one")
                    self.close()
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def _share(self, name: str) -> None:
        """Put the Spark jobs of this thread into their own pool. Pools share the cores evenly, so a large table does not hold back small ones."""
        if self.started:
            # where the JVM is ending, the table's next call says so
            with contextlib.suppress(Exception):
                self.spark().sparkContext.setLocalProperty("spark.scheduler.pool", name)

    def _engine(self) -> Engine:
        from compactor.spark.engine import SparkEngine

        engine: Engine = self._once("engine", lambda: SparkEngine(self.spark(), self.storage, self._schemas))
        self._join_group()
        return engine

    def _join_group(self) -> None:
        """Put the Spark jobs of this thread into the group of its phase, so that their tasks can be counted."""
        from compactor.spark.progress import join_group

        context = logs.current()
        if "table" in context:
            join_group(self.spark(), context.get(logs.GROUP, context["table"]), f"{context['table']}: {context.get('phase', 'running')}")

    def _tasks(self, group: str) -> Tasks | None:
        from compactor.spark.progress import tasks

        session: SparkSession | None = self._made.get("spark")
        return tasks(session, group) if session is not None else None

    def _catalog(self) -> Catalog:
        if self.config.catalog == "glue":
            from compactor.catalog.glue.catalog import GlueCatalog

            client = ClientConfig(self.config.catalog_region)
            glue: Catalog = self._once("catalog", lambda: GlueCatalog(client, self.config.catalog_id or None))
            return glue
        from compactor.catalog.hive import HiveCatalog

        catalog: Catalog = self._once("catalog", lambda: HiveCatalog(self.spark()))
        return catalog

    def _catalog_name(self) -> str:
        config = self.config
        folder = config.metastore_dir
        # an embedded metastore that was deleted and made again shows nothing
        made = str(os.stat(folder).st_ino) if folder and os.path.isdir(folder) else None
        return json.dumps([config.catalog, config.metastore_uri, config.catalog_id, config.catalog_region, folder, made])

    def _s3(self, location: str) -> Storage:
        try:
            from compactor.storage.s3.storage import S3Storage
        except ImportError:
            raise Refused(f"{location} is in S3, which needs boto3: pip install boto3") from None
        home = self.config.warehouse if self.config.warehouse.startswith("s3://") else location
        keys = {spec.root: spec.archive_kms_key for spec in self.config.specs if spec.archive_kms_key}
        return S3Storage(home, self.config.s3, keys)


def _program() -> str:
    try:
        return importlib.metadata.version("cdc-compactor")
    except importlib.metadata.PackageNotFoundError:
        # a zip on a cluster has no metadata
        return "unknown"


def with_catalog(table: Table, catalog: Catalog, applied: bool) -> Table:
    """Return the table with a catalog that records statements. `applied`: it also carries them out."""
    name = table.env.catalog_name if applied else None
    return dataclasses.replace(table, env=dataclasses.replace(table.env, catalog=lambda: catalog, catalog_name=name, dry=not applied))
