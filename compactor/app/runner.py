"""What an App has its command lines run by: on this machine, or sent to EMR with everything resolved."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from compactor.config.settings import Settings
from compactor.config.values import absolute
from compactor.core.model.errors import Refused
from compactor.core.model.spec import TableSpec
from compactor.core.settings.job_config import JobConfig
from compactor.core.settings.s3 import S3Settings
from compactor.ports import Registry, RemoteRunner, Runner


class Sender(ABC):
    """The part of an App that starts command lines."""

    settings: Settings

    @abstractmethod
    def specs(self, names: Sequence[str] = ()) -> list[TableSpec]:
        """These tables, or all."""

    @abstractmethod
    def _with_schema(self, spec: TableSpec) -> TableSpec:
        """The spec with the newest schema of its subject."""

    @abstractmethod
    def _registry(self) -> Registry:
        """The schema registry."""

    def runner(self) -> Runner:
        """What starts a command line on this machine. One for each command line."""
        from compactor.runners.local import LocalRunner

        program, *more = self.settings.airflow.command or (sys.executable, "-m", "compactor")
        folder = str(self.settings.file.parent)
        return LocalRunner((absolute(program, folder) if "/" in program else program, *more), ("--config", str(self.settings.file)))

    def remote_runner(self, name: str, attempt: str = "") -> RemoteRunner | None:
        """What sends a command line of a table that runs on EMR; None for one that does not. `attempt`: see `EmrRunner`."""
        kind, said, table = self.settings.runner_of(name), self.settings.emr, self.settings.tables[name]
        if kind == "local":
            return None
        try:
            from compactor.aws.client import ClientConfig
            from compactor.runners.emr import EmrRunner, Jobs, Sending
            from compactor.runners.emr_serverless import ServerlessJobs
            from compactor.runners.emr_steps import ClusterSteps
            from compactor.storage.s3.storage import S3Storage
        except ImportError:
            raise Refused(f"table {name}: {kind} needs boto3: pip install boto3") from None
        reach = ClientConfig(said.region)
        jobs: Jobs = (
            ServerlessJobs(str(said.application), str(said.role), reach) if kind == "emr-serverless" else ClusterSteps(str(said.cluster), reach)
        )
        conf = tuple({**said.spark, **table.spark}.items())
        sending = Sending(str(said.job), str(said.plans), str(said.logs), conf, table.timeout)
        return EmrRunner(
            jobs, sending, S3Storage(sending.plans, self.settings.s3_settings), lambda: self.job_config([name], schemas=True).written(), attempt
        )

    def job_config(self, names: Sequence[str] | None = None, schemas: bool = False) -> JobConfig:
        """What a Runtime must know; for a cluster with these tables. `schemas`: asks the registry for theirs. Starts no JVM."""
        said = self.settings
        specs = tuple(self._with_schema(spec) if schemas else spec for spec in self.specs(names)) if names is not None else ()
        return JobConfig(
            specs,
            said.warehouse_dir,
            said.catalog.type,
            said.catalog.uri,
            said.catalog.catalog_id,
            said.catalog.region,
            S3Settings(**said.s3_said),
            tuple(sorted(self._named_by_id(specs).items())) if schemas else (),
            said.measured,
        )

    def _named_by_id(self, specs: Sequence[TableSpec]) -> dict[int, str]:
        """The schemas that Kafka records of these tables may name: id → text."""
        found: dict[int, str] = {}
        if not (self.settings.registry.url or self.settings.registry.folder):
            return found
        registry = self._registry()
        for subject in dict.fromkeys(subject for spec in specs if spec.container == "kafka" for subject in _subjects(registry, spec)):
            for number in registry.versions(subject):
                version = registry.version(subject, number)
                if version.id is not None:
                    found[version.id] = version.text
        return found


def _subjects(registry: Registry, spec: TableSpec) -> Iterator[str]:
    """The subjects of a table's topic; of one that says neither subject nor topic, all of them."""
    value = spec.subject or (f"{spec.topic}-value" if spec.topic else None)
    if value is None:
        yield from registry.subjects()
        return
    yield value
    if value.endswith("-value"):
        yield f"{value[: -len('-value')]}-key"
