"""The part of the App for a table's versions: vacuum, restore, rebuild, adopt, changes, pins, and the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from compactor.app.base import AppBase
from compactor.config.values import absolute, is_s3
from compactor.core.erasure.keys import key_values
from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.results.record import TableReport
from compactor.core.results.reports import AdoptReport, ErasureReport, Progress, RebuildReport, ReencryptReport, VacuumReport, silent
from compactor.flows.keep.erase import Request, erase
from compactor.flows.keep.raw_files import reencrypt
from compactor.flows.keep.vacuum import vacuum, vacuum_if_due
from compactor.flows.read.visible import changes
from compactor.flows.verbs import adopt_table, go_on_table, reabsorb_table, rebuild_table, restore_table
from compactor.flows.write.adopt import check as check_adopted
from compactor.flows.write.restore import named


class Versions(AppBase):
    """Keep, restore, rebuild and delete versions of tables."""

    def vacuum(self, names: Sequence[str] = (), dry: bool = True, label: str = "") -> list[VacuumReport]:
        """Delete what no kept Snapshot references. No JVM starts if nothing may go.

        `dry`: only report it; then no JVM starts at all, and the version that the catalog shows is unknown.
        """
        if dry:
            return [vacuum(self.runtime.table(spec, files_only=True), True) for spec in self.specs(names)]
        return [vacuum_if_due(self.runtime.table(spec, label=label)) for spec in self.specs(names)]

    def reencrypt(self, names: Sequence[str] = ()) -> list[ReencryptReport]:
        """Encrypt raw files again that have another key than the table's `archive_kms_key`. Default: all tables that have one. Starts no JVM."""
        return [reencrypt(self.runtime.table(spec, files_only=True)) for spec in self.specs(names) if names or spec.archive_kms_key]

    def restore(
        self, name: str, as_of: str | None = None, reabsorb: bool = False, progress: Progress = silent, label: str = "", accept_loss: bool = False
    ) -> list[TableReport]:
        """Make an older version the newest one.

        `as_of`: its number, or a time (ISO 8601) for the newest version of that time. `reabsorb`: afterwards ingest the files again whose changes
        were undone; it may be used without a version. `accept_loss`: go on from the version with this number, the newest one that is there, although
        newer ones were committed and somebody deleted them.
        """
        (spec,) = self.specs([name])
        if accept_loss:
            if as_of is None or not as_of.isdecimal() or reabsorb:
                raise Refused("expected the number of a version beside --accept-loss, and no --reabsorb")
            return [go_on_table(self.runtime.table(spec, label=label), int(as_of))]
        target = named(self.table(name), as_of)
        done = [restore_table(self.runtime.table(spec, label=label), target)] if target is not None else []
        if target is None and not reabsorb:
            raise Refused("expected a version or a time to restore, got neither")
        if reabsorb:
            done.append(reabsorb_table(self.started(name, label, progress)))
        return done

    def changes(
        self, name: str, start: int, to: int | None = None, wait: Callable[[], object] | None = None
    ) -> Iterator[tuple[Snapshot, Iterator[str]]]:
        """Return the changes after version `start` up to `to` (default: the newest): each Snapshot with its changes as JSON objects, in order.

        With `wait` the iterator continues with later commits, and calls `wait` between two looks. Spark is stopped before each wait if it uses an
        embedded metastore, so that runs can open it.
        """
        table = self.table(name)

        def pause() -> None:
            self._release_metastore()
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
        fewer: bool = False,
    ) -> RebuildReport:
        """Rebuild a table from its raw files. `as_of`: rebuild an older version instead (a number, or a time in ISO 8601).

        `accept`: publish even if the rows differ; `fewer`: even if far fewer rows are left; `dry`: build and compare only.
        """
        target = named(self.table(name), as_of)
        return rebuild_table(self.started(name, label, progress), target, accept, dry, fewer)

    def adopt(self, name: str, path: str, through: str, dry: bool = False, progress: Progress = silent, label: str = "") -> AdoptReport:
        """Make the plain Parquet files below `path` (local or S3) version 1 of a table. Raises Refused if the table's runner is not local."""
        spec = self.with_schema(self.specs([name])[0])
        self.check_local(name, "adopt")
        if is_s3(path) and not self.settings.uses_s3:
            raise Refused(
                f"table {name}: {path} is in S3, but {self.settings.file} uses no S3. Copy the files to this machine, or move the warehouse to S3."
            )
        path = absolute(path, os.getcwd())
        check_adopted(self.runtime.table(spec, files_only=True), path, through)
        self._start_for([spec], archived=False)
        return adopt_table(self.runtime.table(spec, label=label, progress=progress), path, through, dry)

    def erase(
        self, name: str, keys: Sequence[str] = (), now: bool = False, delete_files: bool = False, leave_landing: bool = False, label: str = ""
    ) -> ErasureReport:
        """Erase keys from everything that a table stores, or finish an earlier erase if no key is named.

        A key is the text of its value, or a JSON object (column → value). `now`: do not wait for readers of older versions; `delete_files`: delete
        raw files that cannot be rewritten; `leave_landing`: go on although files lie in landing. Raises Refused for what cannot be erased.
        """
        spec = self.with_schema(self.specs([name])[0])
        self.check_local(name, "erase")
        request = Request(tuple(key_values(text, spec.row_key, name) for text in keys), now, delete_files, leave_landing)
        self._start_for([spec], archived=True)
        return erase(self.runtime.table(spec, label=label), request)
