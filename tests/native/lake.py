"""An oracle's lake whose base also is an Iceberg table: the list engine's files are described, and written to a disk, as the Parquet they stand for."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from compactor.core.formats import parquet as footers
from compactor.core.formats.parquet import Footer
from compactor.core.iceberg import manifests
from compactor.core.iceberg.schema import Columns
from compactor.core.model.files import DataFile
from compactor.flows.publish import native
from compactor.flows.table import Table
from tests.oracle.lake import Lake, table
from tests.parts.memory_storage import MemoryStorage
from tests.read import parquet_lake


class NativeLake(Lake):
    """A lake at a folder of the disk, in memory until `dump`."""

    def __init__(self, root: Path, **settings: Any) -> None:
        place = str(root / "t")
        super().__init__(table(root=place, landing=f"{place}/incremental", iceberg="base", read_optimized=True, parquet="standard", **settings))

    def exported(self) -> Any:
        """The newest metadata file."""
        return native.current(self.table())

    def hint(self) -> str:
        """The metadata file that the hint names."""
        number = int(self.storage.read(self.layout.iceberg_hint()))
        return self.layout.iceberg_metadata(number)

    def dump(self) -> str:
        """Write the table to the disk, and return the location of its newest metadata file."""
        for info in self.storage.list(self.layout.iceberg()):
            self._put(info.path, self.storage.read(info.path))
        for snapshot in self.committed():
            for segment in snapshot.segments:
                for file in segment.files:
                    path = self.layout.inside(f"{segment.path}/{file.name}")
                    if self.storage.stat(path) is not None and not Path(path).exists():
                        self._put(path, parquet(self.storage, path, snapshot))
        return self.hint()

    def _put(self, path: str, data: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)


def parquet(storage: MemoryStorage, path: str, snapshot: Any) -> bytes:
    """A file of the list engine as Parquet."""
    return _parquet(storage.read(path), path, snapshot.schema, snapshot.order)


@functools.lru_cache(2000)
def _parquet(data: bytes, path: str, schema: Any, order: Any) -> bytes:
    class Typed:
        pass

    typed: Any = Typed()
    typed.schema, typed.order = schema, order
    return parquet_lake._parquet(json.loads(data), path, typed)


@pytest.fixture
def as_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the footers of the Parquet files that the list engine's files stand for."""
    sizes: dict[str, int] = {}
    made = manifests.data_file

    def read_footer(table: Table, path: str, file: DataFile, columns: Columns) -> Footer:
        # the call counts, as it would
        table.storage.read_range(path, 0, file.size)
        newest = table.newest()
        assert newest is not None
        data = parquet(table.storage, path, newest)  # type: ignore[arg-type]
        sizes[f"file://{path}"] = len(data)
        return footers.parse(data, columns.bounded)

    monkeypatch.setattr(native, "read_footer", read_footer)
    monkeypatch.setattr(manifests, "data_file", lambda location, size, read, ids: made(location, sizes[location], read, ids))
