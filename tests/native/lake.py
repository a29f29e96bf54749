"""An oracle's lake that also is an Iceberg table: the list engine's files are described, and written to a disk, as the Parquet they stand for."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compactor.core.catalog.objects import iceberg_name
from compactor.core.formats import parquet as footers
from compactor.core.formats.parquet import Footer
from compactor.core.iceberg import manifests
from compactor.core.iceberg.schema import Columns
from compactor.core.model.errors import TryLater
from compactor.core.model.files import LIVE, DataFile
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows.keep.erase import Request, erase
from compactor.flows.publish import native
from compactor.flows.table import Table
from tests.faults import Crash, Faults
from tests.native import readers
from tests.oracle import list_files
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.whole_engine import WholeEngine
from tests.parts.memory_storage import MemoryStorage
from tests.read import parquet_lake


class NativeEngine(WholeEngine):
    """The list engine for tables whose deletion vectors others read."""

    def hidden(self, spec: TableSpec, snapshot: Snapshot) -> dict[str, list[int]]:
        """Rows of base files that the Delta has the keys of."""
        states = list_files.read(self._storage, spec, snapshot.delta, snapshot.schema) if snapshot.delta else []
        changed, places = {state.key for state in states}, {}
        for segment in snapshot.segments:
            for file in (file for folder in segment.folders if folder.state == LIVE for file in folder.files):
                rows = list_files.read(self._storage, spec, dataclasses.replace(segment, files=(file,)), snapshot.schema)
                places[f"{segment.path}/{file.name}"] = [at for at, row in enumerate(rows) if row.key in changed]
        return {path: found for path, found in places.items() if found}


class NativeLake(Lake):
    """A lake at a folder of the disk, in memory until `dump`."""

    engine = NativeEngine

    def __init__(self, root: Path, form: str = "base", **settings: Any) -> None:
        place, self.form = str(root / "t"), form
        given = {"iceberg": (form,), "read_optimized": form == "base", "parquet": "standard", **settings}
        super().__init__(table(root=place, landing=f"{place}/incremental", **given))

    def exported(self) -> Any:
        """The newest metadata file."""
        return native.current(self.table(), self.form)

    def hint(self) -> str:
        """The metadata file that the hint names."""
        number = int(self.storage.read(self.layout.iceberg_hint(self.form)))
        return self.layout.iceberg_metadata(self.form, number)

    def dump(self) -> str:
        """Write the table to the disk, and return the location of its newest metadata file."""
        for info in native.listed(self.table()):
            self._put(info.path, self.storage.read(info.path))
        for snapshot in self.committed():
            for part in (*snapshot.segments, *([snapshot.delta] if snapshot.delta else [])):
                for file in part.files:
                    path = self.layout.inside(f"{part.path}/{file.name}")
                    if self.storage.stat(path) is not None and not Path(path).exists():
                        self._put(path, parquet(self.storage, path, snapshot))
        return self.hint()

    def shown(self) -> tuple[tuple[str, ...], list[Any]]:
        """Return columns and rows of the view that the table repeats, numbers with fractions as the readers' answers have them."""
        seen = look(self.catalog, self.storage, self.spec, "t_ro" if self.form == "base" else "t")
        assert seen is not None
        rows = ([f"n{value!r}" if isinstance(value, float) else value for value in row] for row in seen.rows)
        return seen.columns, sorted(rows, key=repr)

    def check(self, *names: str) -> None:
        """Every reader shows what the view shows; the counts that engines answer from are exact; the catalog points where the hint does."""
        place, (columns, rows) = self.dump(), self.shown()
        for reader in names or readers.READERS:
            found = readers.rows(reader, place)
            assert (tuple(name.lower() for name in found[0]), found[1]) == (columns, rows), reader
        assert visible(self.exported().current) == len(rows)
        pointer = self.catalog.native("school", iceberg_name(self.spec, self.form))
        assert pointer is not None
        assert pointer.metadata == place
        if self.form == "current":
            self._check_row_ids()

    def _check_row_ids(self) -> None:
        """No two manifests of data files number their rows alike."""
        exported = self.exported()
        lists = [manifests.read_list(self.storage.read(each["manifest-list"].removeprefix("file://"))) for each in exported.raw["snapshots"]]
        numbered = {each.path: (each.entry["first_row_id"], each.rows) for listed in lists for each in listed if not each.hides}
        ends = 0
        for first, count in sorted(numbered.values()):
            assert first >= ends
            ends = first + count
        assert ends <= exported.raw["next-row-id"]

    def compact(self) -> None:
        """Compact now."""
        spec, self.spec = self.spec, self.spec.compacting_now
        self.run()
        self.spec = spec

    def happens(self, rng: random.Random, step: int) -> str:
        """Some changes, deletes, a compaction, a restore, a rebuild, an erased key or a vacuum, or a run that is cut at any call; then a run. Return which."""
        do = rng.choice(["run"] * 6 + ["compact", "restore", "rebuild", "erase", "vacuum", "cut"])
        if do in ("run", "cut"):
            keys = rng.sample(range(44), rng.choice([1, 2, 6]))
            changes = [(rng.choice("uuud"), key, step - rng.choice([0, 0, 3])) for key in keys]
            lines = [line(op, [key], [seq], None if op == "d" else {"a": step}) for op, key, seq in changes]
            self.deliver(f"increment_2026010100/{step}.json", lines)
            with suppress(Crash, TryLater):
                self.run(Faults(rng.randrange(80), "from_then_on") if do == "cut" else None)
        elif do == "restore":
            self.restore(rng.choice(self.restorable()))
        elif do == "rebuild":
            self.rebuild(accept=True)
        elif do == "erase":
            erase(self.table(), Request(((str(rng.randrange(40)),),), now=True))
        elif do == "vacuum":
            self.vacuum()
        else:
            self.compact()
        self.run()
        return do

    def _put(self, path: str, data: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)


def visible(entry: dict[str, Any]) -> int:
    """Return how many rows an Iceberg snapshot says it shows."""
    return int(entry["summary"]["total-records"]) - int(entry["summary"]["total-position-deletes"])


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
