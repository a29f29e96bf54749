"""Table: one table and its environment, and everything that is read of its Snapshots; `listed` looks for many files at once."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from compactor.core.model.errors import NoRowsYet, StateRefused
from compactor.core.model.files import DataFile, FileInfo
from compactor.core.model.layout import Layout, commit_id
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.planning.retention import is_pending_deletion, possibly_kept
from compactor.core.results.reports import Progress, silent
from compactor.core.schema.adoption import OPERATION
from compactor.flows.environment import Environment
from compactor.ports import Catalog, Engine, Storage

_VERSION_MAX = 10**9
"""A greater number is no version: a run each second would take 30 years."""


@dataclass(frozen=True)
class Table:
    """An environment and a TableSpec, for one run. Every flow takes one of these."""

    env: Environment
    spec: TableSpec
    label: str = ""
    progress: Progress = silent

    @cached_property
    def layout(self) -> Layout:
        return self.spec.layout

    @cached_property
    def _columns_of(self) -> dict[int, Snapshot]:
        return {}

    @cached_property
    def owners(self) -> dict[str, str]:
        """The marks that were read: path → owner (`flows/owner.py`)."""
        return {}

    @cached_property
    def notes(self) -> list[str]:
        """Sentences that a run notices while it commits, for its report."""
        return []

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def storage(self) -> Storage:
        return self.env.storage

    def step(self, name: str, share: float) -> None:
        """Report that a step of the run begins; `share` of the run is done."""
        self.progress(self.name, name, share)

    def engine(self) -> Engine:
        """Return the engine. Starts Spark at the first call."""
        return self.env.engine()

    def catalog(self) -> Catalog:
        """Return the catalog. May start Spark at the first call."""
        return self.env.catalog()

    # Snapshots --------------------------------------------------------------------------------------------------------

    def snapshot(self, version: int) -> Snapshot | None:
        path = self.layout.snapshot(version)
        try:
            snapshot = Snapshot.from_bytes(self.storage.read(path), path)
        except FileNotFoundError:
            return None
        if snapshot.version != version:
            raise StateRefused(
                f"{path} holds version {snapshot.version}: somebody copied it to this name. Delete it if no version {version} was ever committed, or "
                "restore that version from a backup."
            )
        return snapshot

    def committed(self, version: int) -> Snapshot:
        """Return one Snapshot, or its stub, of a version that was committed. Raises StateRefused if somebody deleted it."""
        snapshot = self.snapshot(version)
        if snapshot is None:
            path = self.layout.snapshot(version)
            raise StateRefused(f"{path} was committed and is gone: somebody deletes files below {self.layout.root}. Restore it from a backup.")
        return snapshot

    def columns_of(self, version: int) -> Snapshot:
        """Return one Snapshot, or its stub, for its columns and their order, which never change; it is read once."""
        if version not in self._columns_of:
            self._columns_of[version] = self.committed(version)
        return self._columns_of[version]

    def no_version(self) -> NoRowsYet:
        return NoRowsYet(f"table {self.name}: nothing is committed yet; `compactor run {self.name}` makes the first version")

    def existing(self, newest: Snapshot | None) -> Snapshot:
        """Return the newest Snapshot. Raises NoRowsYet for a table without one."""
        if newest is None:
            raise self.no_version()
        return newest

    def next_commit(self, parent: Snapshot | None) -> str:
        """Return the id of a new attempt at the version after `parent`."""
        return commit_id(parent.version + 1 if parent else 1, self.env.nonce())

    def newest(self) -> Snapshot | None:
        """Return the Snapshot with the greatest version, or None for a table that was never committed.

        Names are predictable: the search goes from the greatest version that the hint, `shown.json` or a listing names upwards until a number is
        free. What is stale there costs time and nothing else. Raises StateRefused if a named version is gone: its number must not be used again.
        """
        version = self.recorded() or self.newest_listed()
        if version is None:
            return self.snapshot(1)
        while True:
            while self.has(version + 1):
                version += 1
            snapshot = self.snapshot(version)
            if snapshot is None:
                proof = "the hint `latest` or `shown.json`, which are written after the commit, name it; if they are wrong, delete them"
                raise self.lost(version, proof)
            # others may have committed and vacuumed between the two looks
            if not (snapshot.expired and self.has(version + 1)):
                return snapshot

    def recorded(self) -> int | None:
        """Return the greatest version that the hint and `shown.json` name; both are written after its commit. None if they name none."""
        return max((version for version in (self._named(self.layout.hint()), self._named(self.layout.shown())) if version > 0), default=None)

    def newest_listed(self) -> int | None:
        """Return the greatest version in a listing, which may be stale; None without any."""
        listed = (self.layout.version_of(info.path) for info in self.storage.list(self.layout.snapshots()))
        return max((number for number in listed if number is not None), default=None)

    def check_all_there(self, newest: Snapshot, version: int, proof: str) -> None:
        """Raise StateRefused if a version above `newest` up to `version`, whose commit the proof shows, is gone. Else others have committed."""
        for number in range(newest.version + 1, version + 1):
            if not self.has(number):
                raise self.lost(number, proof)

    def lost(self, version: int, proof: str) -> StateRefused:
        """Return the error about a version that was committed, is gone, and is newer than all others, or newer than some."""
        path, newest = self.layout.snapshot(version), self.newest_listed()
        there = "No other version is there" if newest is None else f"The newest version that is there is {newest}"
        otherwise = ""
        if newest is not None and newest < version:
            otherwise = (
                f" If that cannot be done, `compactor versions restore {self.name} --as-of {newest} --accept-loss` goes on from version {newest}."
            )
        return StateRefused(
            f"table {self.name}: version {version} was committed and is gone ({proof}). {there}. Nothing was changed, and the version's files are "
            f"kept. Restore {path} from a backup, or an earlier version of the object in its bucket.{otherwise}"
        )

    def has(self, version: int) -> bool:
        return self.storage.stat(self.layout.snapshot(version)) is not None

    def history(self) -> Iterator[Snapshot]:
        """Yield all Snapshots and stubs, newest first. A stub without columns has those of the version after it."""
        snapshot = self.newest()
        while snapshot is not None:
            yield snapshot
            older = self.snapshot(snapshot.parent) if snapshot.parent else None
            snapshot = older.with_columns(snapshot) if older is not None else None

    def kept(self, newest: Snapshot) -> Iterator[Snapshot]:
        """Yield `newest` and the older Snapshots that no vacuum has given up, newest first. Raises StateRefused if one of them is gone."""
        yield newest
        given_up = {self.layout.version_of(self.layout.inside(item.path)) for item in newest.pending_deletions}
        for number in sorted(possibly_kept(newest) - {newest.version, *given_up}, reverse=True):
            snapshot = self.committed(number)
            if not snapshot.expired:
                yield snapshot

    def restorable(self, newest: Snapshot) -> list[Snapshot]:
        """Return those of `kept` that vacuum has given up nothing of, newest first."""
        return [snapshot for snapshot in self.kept(newest) if not is_pending_deletion(snapshot, self.layout, newest)]

    def after(self, version: int, newest: Snapshot) -> Iterator[Snapshot]:
        """Yield the Snapshots above `version` up to `newest`, oldest first, as far back as their parts of the feed are kept; none without a feed."""
        if newest.feed is None:
            return
        for number in range(max(version, newest.feed.first) + 1, newest.version):
            yield self.committed(number)
        if newest.version > version:
            yield newest

    def superseded_since(self, snapshot: Snapshot | None) -> bool:
        """Return whether a newer version was committed since `snapshot` was read."""
        return self.has(snapshot.version + 1 if snapshot else 1)

    def vacuumed(self, snapshot: Snapshot | None) -> bool:
        """Return whether vacuum has given up a Snapshot since it was read: its files may be gone."""
        if snapshot is None:
            return False
        stored = self.snapshot(snapshot.version)
        return stored is not None and stored.expired

    def files_exist(self, newest: Snapshot, files: Sequence[tuple[str, DataFile]]) -> bool:
        """Return whether files (directory below the root, file) are all there and not pending deletion.

        Vacuum takes the files of a writer that slept longer than `grace` for orphans. An entry leaves `pending_deletions` when its files are
        deleted.
        """
        pending_deletions = {item.path for item in newest.pending_deletions}
        if any(path in pending_deletions for path, _ in files):
            return False
        return all(self.storage.stat(f"{self.layout.inside(path)}/{file.name}") for path, file in files)

    # adopted tables ---------------------------------------------------------------------------------------------------

    def adopted(self) -> Snapshot | None:
        """Return the version, or its stub, with which the table adopted a foreign base; None for a table that did not."""
        first = self.snapshot(1)
        return first if first is not None and first.operation == OPERATION else None

    def origin(self, newest: Snapshot) -> Snapshot | None:
        """Return the adopted version; None for a table that adopted nothing, or whose first version was vacuumed."""
        first = self.adopted()
        return first if first is not None and not is_pending_deletion(first, self.layout, newest) else None

    def origin_lost(self, newest: Snapshot) -> str | None:
        """Return a sentence if no version or file holds the adopted rows any more, else None."""
        first = self.adopted()
        if first is None or not is_pending_deletion(first, self.layout, newest):
            return None
        return "adopted with rows that no landed file holds, and version 1, which had them, is not kept any more"

    def _named(self, path: str) -> int:
        """Return the version that one of the two files names; 0 without any. A file that is damaged names none: the next commit writes it again."""
        try:
            content = json.loads(self.storage.read(path))
            version = int(content["version"] if isinstance(content, dict) else content)
        except (FileNotFoundError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return 0
        return version if version <= _VERSION_MAX else 0


class Listed:
    """A Storage whose `stat` answers from one listing of the file's folder. All other methods are those of `storage`."""

    def __init__(self, storage: Storage) -> None:
        self.list, self.folders = storage.list, storage.folders
        self.read, self.read_range = storage.read, storage.read_range
        self.checksum, self.encrypt, self.now = storage.checksum, storage.encrypt, storage.now
        self.write, self.replace, self.put_if_absent = storage.write, storage.replace, storage.put_if_absent
        self.move, self.delete = storage.move, storage.delete
        self._folders: dict[str, dict[str, FileInfo]] = {}
        self._listing = threading.Lock()

    def stat(self, path: str) -> FileInfo | None:
        """Return the file as it was when its folder was first asked about, or None."""
        folder = path.rpartition("/")[0]
        # threads that ask for files of one folder wait for one listing
        with self._listing:
            if folder not in self._folders:
                self._folders[folder] = {info.path: info for info in self.list(folder)}
        return self._folders[folder].get(path)


def listed(table: Table) -> Table:
    """Return the table with a Storage that looks for files this way."""
    return dataclasses.replace(table, env=dataclasses.replace(table.env, storage=Listed(table.storage)))
