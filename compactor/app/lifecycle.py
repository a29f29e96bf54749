"""What an App does to a table's versions and files: vacuum, restore, rebuild, pins, the ledger. Apart from `app/app.py` only for its length."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from compactor.config.settings import Settings
from compactor.config.values import absolute, is_s3
from compactor.core.model.errors import Refused
from compactor.core.model.inputs import Input
from compactor.core.model.snapshot import Pin, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.reports import AdoptReport, Progress, RebuildReport, TableReport, VacuumReport, silent
from compactor.flows.table import Table
from compactor.runtime import Runtime


class Lifecycle(ABC):
    """The part of an App that looks after versions."""

    settings: Settings
    runtime: Runtime

    @abstractmethod
    def specs(self, names: Sequence[str] = ()) -> list[TableSpec]:
        """These tables, or all."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """One table, for flows that read files only."""

    @abstractmethod
    def _with_schema(self, spec: TableSpec) -> TableSpec:
        """The spec with the newest schema of its subject."""

    @abstractmethod
    def _need(self, specs: Sequence[TableSpec], archived: bool) -> None:
        """Start Spark with what these tables need."""

    @abstractmethod
    def _let_others_in(self) -> None:
        """End Spark when it holds an embedded metastore."""

    def vacuum(self, names: Sequence[str] = (), dry: bool = True, label: str = "") -> list[VacuumReport]:
        """Delete what no kept Snapshot names, or tell what would go: then no JVM starts, and what the catalog shows is not known."""
        from compactor.flows.keep.vacuum import vacuum

        return [vacuum(self.runtime.table(spec, files_only=dry), dry, label) for spec in self.specs(names)]

    def restore(
        self,
        name: str,
        version: int | None = None,
        as_of: str | None = None,
        reabsorb: bool = False,
        progress: Progress = silent,
        label: str = "",
    ) -> list[TableReport]:
        """Bring back a version, or the newest of a time (ISO 8601), or neither; then take again what was undone, if asked."""
        from compactor.flows.run import reabsorb_table
        from compactor.flows.write import restore

        (spec,) = self.specs([name])
        if version is not None and as_of is not None:
            raise Refused("expected a version or a time, found both")
        done = []
        if version is not None or as_of is not None:
            files = self.table(name)
            target = restore.at_version(files, version) if version is not None else restore.as_of(files, as_of or "")
            done.append(restore.restore(self.runtime.table(spec), target, label))
        elif not reabsorb:
            raise Refused("expected a version or a time to go back to, found neither")
        if reabsorb:
            spec = self._with_schema(spec)
            self._need([spec], archived=True)
            done.append(reabsorb_table(self.runtime.table(spec), progress, label))
        return done

    def changes(
        self, name: str, start: int, to: int | None = None, wait: Callable[[], object] | None = None
    ) -> Iterator[tuple[Snapshot, Iterator[str]]]:
        """What changed after version `start` up to `to`, or the newest: Snapshots with their changes as JSON objects, in order.

        With `wait` it goes on with what is committed later; Spark is ended before each call of it where it would keep runs from the metastore.
        """
        from compactor.flows.read.changes import changes

        table = self.table(name)

        def pause() -> None:
            self._let_others_in()
            if wait is not None:
                wait()

        for snapshot in changes(table, start, to, pause if wait else None):
            yield snapshot, table.engine().read_feed(table.spec, snapshot)

    def rebuild(
        self,
        name: str,
        as_of: str | None = None,
        accept: bool = False,
        dry: bool = False,
        progress: Progress = silent,
        label: str = "",
    ) -> RebuildReport:
        """Build a table again out of its raw files, or the version that `as_of` names (a number, or a time in ISO 8601)."""
        from compactor.flows.run import rebuild_table
        from compactor.flows.write import restore

        spec = self._with_schema(self.specs([name])[0])
        target = restore.named(self.table(name), as_of)
        self._need([spec], archived=True)
        return rebuild_table(self.runtime.table(spec), target, accept, dry, progress, label)

    def adopt(
        self,
        name: str,
        path: str,
        order_by: Sequence[str] = (),
        through: str | None = None,
        dry: bool = False,
        progress: Progress = silent,
        label: str = "",
    ) -> AdoptReport:
        """Make the plain Parquet files below `path` (local, or S3) the first version of a table. Raises Refused for one whose runner is not local."""
        from compactor.flows.write.adopt import adopt

        spec = self._with_schema(self.specs([name])[0])
        kind = self.settings.runner_of(name)
        if kind != "local":
            raise Refused(
                f"table {name}: adopting runs on this machine, and its runner is {kind}. Say `runner: local` for as long as it takes, on a "
                "machine that reaches the table's storage and catalog (a cluster's first node does)."
            )
        if is_s3(path) and not self.settings.uses_s3:
            raise Refused(
                f"table {name}: {path} is in S3, and no part of {self.settings.file} is: copy it to this machine, or move the warehouse there"
            )
        self._need([spec], archived=False)
        return adopt(self.runtime.table(spec), absolute(path, os.getcwd()), order_by, through, dry, progress, label)

    def inputs(self, name: str) -> list[Input]:
        """A table's ledger, oldest entry first. Starts no JVM."""
        from compactor.flows.read.log import inputs

        return inputs(self.table(name))

    def pins(self, name: str) -> tuple[Pin, ...]:
        """The pins of a table. Starts no JVM."""
        from compactor.flows.keep.pin import pins

        return pins(self.table(name))

    def pin(self, name: str, version: int, pin_name: str = "", label: str = "") -> Pin:
        """Keep a version until it is unpinned. Starts no JVM."""
        from compactor.flows.keep.pin import pin

        return pin(self.table(name), version, pin_name, label)

    def unpin(self, name: str, pin_name: str, label: str = "") -> None:
        """Remove a pin. Starts no JVM."""
        from compactor.flows.keep.pin import unpin

        unpin(self.table(name), pin_name, label)
