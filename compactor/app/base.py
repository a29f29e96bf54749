"""The common part of the App: settings, runtime, tables, schemas, and the Spark session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from compactor.app import registry as registries
from compactor.app.notify import notify
from compactor.app.spark import avro_package, coordinates, open_session, s3_packages
from compactor.config.settings import Settings, load
from compactor.config.values import is_s3
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec
from compactor.core.parallel import in_parallel
from compactor.core.results.reports import Progress
from compactor.core.settings.job_config import JobConfig
from compactor.duckdb import sample
from compactor.flows.table import Table
from compactor.ports import Registry
from compactor.runtime import Runtime
from compactor.storage.routed import any_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from compactor.registry.confluent import ConfluentRegistry
    from compactor.registry.files import FileRegistry

_AppT = TypeVar("_AppT", bound="AppBase")


def use_aws_session(session: Any, region: str | None) -> None:
    """Use this boto3 session for every AWS client that this process creates from now on. `region` comes before the environment's."""
    from compactor.aws import client

    client.make_session, client.session_region = (lambda: session), region


def read_settings(path: str | Path, connect: Callable[[Settings], None] | None = None) -> tuple[Settings, Mapping[str, str]]:
    """Read a configuration with the tables in `discovered:`. Return it with the files of these tables that are in S3, by location.

    `connect` provides the credentials with which these are read.
    """
    settings = load(path)
    if connect is not None:
        connect(settings)
    folder = settings.discovered_dir
    if not is_s3(folder):
        return settings, {}
    storage = any_storage(settings.s3_keys)
    places = [info.path for info in storage.list(folder) if info.path.endswith(".yaml")]
    more = dict(zip(places, (data.decode() for data in in_parallel(storage.read, places)), strict=True))
    return (load(path, more=more) if more else settings), more


class AppBase:
    """Settings, and the ports made from them. Spark starts when something first needs it."""

    starting: Callable[[], AbstractContextManager[None]] = nullcontext
    """What surrounds the start of Spark, which takes 10 to 20 seconds. The command line shows it."""
    more: Mapping[str, str] = MappingProxyType({})
    """The files of discovered tables that are not on this machine, by location."""

    def __init__(self, settings: Settings, *, verbose: bool = False, wait: float = 0.0, conf: Mapping[str, str] | None = None) -> None:
        self.settings = settings
        self._verbose = verbose
        self._wait = wait
        self._conf = dict(conf or {})
        self._lock = threading.RLock()
        self._packages: frozenset[str] = frozenset()
        self._brief = False
        self._opened_registry: ConfluentRegistry | FileRegistry | None = None
        self.runtime = Runtime(self.job_config(), self._open_session, self._schemas(), notify, sample.read)
        self.runtime.tables = self.runtime.config.specs

    @classmethod
    def open(
        cls: type[_AppT],
        config_path: str | Path,
        verbose: bool = False,
        wait: float = 0.0,
        conf: Mapping[str, str] | None = None,
        connect: Callable[[Settings], None] | None = None,
    ) -> _AppT:
        """Read the configuration. Raises ConfigError.

        `wait`: seconds to wait for an embedded metastore that another process uses; `verbose`: show Spark's log; `conf`: Spark settings that
        override those of compactor; `connect`: see `read_settings`.
        """
        settings, more = read_settings(config_path, connect)
        app = cls(settings, verbose=verbose, wait=wait, conf=conf)
        app.more = more
        return app

    def read_again(self) -> None:
        """Read the configuration again, after tables were added to it. Spark stays started."""
        self.settings, self.more = read_settings(self.settings.file)
        self.runtime.config = self.job_config()
        self.runtime.tables = self.runtime.config.specs

    def __enter__(self: _AppT) -> _AppT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark if it was started. The App can be used again; it starts Spark again when needed."""
        with self._lock:
            registry, self._opened_registry = self._opened_registry, None
            if registry is not None:
                registry.close()
            self.runtime.close()
            self._packages, self._brief = frozenset(), False

    def specs(self, names: Sequence[str] = ()) -> list[TableSpec]:
        """Return the specs of these tables (default: all). Raises ConfigError for an unknown table."""
        return [self.settings.spec(name) for name in dict.fromkeys(names or self.settings.names)]

    def table(self, name: str, label: str = "") -> Table:
        """Return one table, for flows that read files only. Starts no JVM."""
        (spec,) = self.specs([name])
        return self.runtime.table(spec, files_only=True, label=label)

    def started(self, name: str, label: str, progress: Progress) -> Table:
        """Return one table with its newest schema, and with a started Spark that can read its archive."""
        spec = self.with_schema(self.specs([name])[0])
        self._start_for([spec], archived=True)
        return self.runtime.table(spec, label=label, progress=progress)

    def check_local(self, name: str, verb: str) -> None:
        """Raise Refused if the table's runner is not this machine. `verb`: the command that runs here only."""
        kind = self.settings.tables[name].runner
        if kind != "local":
            raise Refused(
                f"table {name}: `compactor {verb}` runs on this machine, but the table's runner is {kind}. Set `runner: local` while you {verb}, "
                "on a machine that reaches the table's storage and catalog, such as the first node of a cluster."
            )

    def job_config(self, names: Sequence[str] = (), schemas: bool = False) -> JobConfig:
        """Return what a Runtime needs, here or on a cluster, with the specs of these tables (default: all). Starts no JVM.

        `schemas`: ask the registry for the tables' newest schemas, and for every schema that their Kafka records may reference by id.
        """
        settings = self.settings
        specs = tuple(self.with_schema(spec) if schemas else spec for spec in self.specs(names))
        return JobConfig(
            specs,
            settings.warehouse_dir,
            settings.catalog.type,
            settings.catalog.uri,
            settings.catalog.catalog_id,
            settings.region,
            settings.metastore_dir,
            settings.s3_keys,
            tuple(sorted(registries.schemas_by_id(self.registry(), specs).items())) if schemas and self._has_registry else (),
        )

    def with_schema(self, spec: TableSpec) -> TableSpec:
        """Return the spec with the newest schema of its subject. Raises RegistryRefused if the registry has no such subject."""
        return spec if spec.subject is None else registries.with_newest_schema(self.registry(), spec)

    @property
    def _has_registry(self) -> bool:
        return bool(self.settings.registry.url)

    def registry(self) -> Registry:
        """Return the configured registry, opened at the first call."""
        with self._lock:
            if self._opened_registry is None:
                self._opened_registry = registries.open_registry(self.settings, self.runtime.storage)
            return self._opened_registry

    def _schemas(self) -> Callable[[int], str] | None:
        """Return a function from schema id to schema text, or None without a registry."""
        return (lambda number: self.registry().by_id(number)) if self._has_registry else None

    def _start_for(self, specs: Sequence[TableSpec], archived: bool, brief: bool | None = None) -> None:
        """Start Spark with the packages that these tables need. `archived`: their archives are read too.

        `brief`: whether there is little to do; None if that is not known.

        Raises Refused for a store without conditional puts.
        """
        self.runtime.check_commits()
        by_id = self._has_registry and any(spec.container == "kafka" for spec in specs)
        avro = coordinates("spark-avro") if by_id else avro_package(self.runtime.storage, specs, archived)
        self._start(frozenset([*avro, *s3_packages(self.settings)]), brief)

    def _start(self, packages: frozenset[str], brief: bool | None = None) -> None:
        """Start Spark with these packages. Restart it if it runs without them, or was started for little work and this is much."""
        with self._lock:
            if self.runtime.started and (not packages <= self._packages or (self._brief and brief is False)):
                self.close()
            self._packages |= packages
            if not self.runtime.started:
                self._brief = bool(brief)
            self.runtime.spark()

    def _release_metastore(self) -> None:
        """Stop Spark if it uses an embedded metastore, which only one process can open."""
        if self.settings.metastore_dir is not None:
            self.close()

    def _open_session(self) -> SparkSession:
        self._packages |= frozenset(s3_packages(self.settings))
        with self.starting():
            return open_session(self.settings, self._packages, self._verbose, self._wait, self._conf, self._brief)
