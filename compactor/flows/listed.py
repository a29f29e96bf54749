"""Look for many files by listing their folders once: a thousand in a request, and without the right to read them."""

from __future__ import annotations

import dataclasses

from compactor.core.model.files import FileInfo
from compactor.flows.table import Table
from compactor.ports import Storage


class Listed:
    """A Storage whose `stat` answers from one listing of the file's folder. All other methods are those of `storage`."""

    def __init__(self, storage: Storage) -> None:
        self.list, self.folders = storage.list, storage.folders
        self.read, self.read_range = storage.read, storage.read_range
        self.checksum, self.encrypt, self.now = storage.checksum, storage.encrypt, storage.now
        self.write, self.replace, self.put_if_absent = storage.write, storage.replace, storage.put_if_absent
        self.move, self.delete = storage.move, storage.delete
        self._folders: dict[str, dict[str, FileInfo]] = {}

    def stat(self, path: str) -> FileInfo | None:
        """Return the file as it was when its folder was first asked about, or None."""
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = {info.path: info for info in self.list(folder)}
        return self._folders[folder].get(path)


def listed(table: Table) -> Table:
    """Return the table with a Storage that looks for files this way."""
    return dataclasses.replace(table, env=dataclasses.replace(table.env, storage=Listed(table.storage)))
