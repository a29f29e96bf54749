"""The list engine's files as Parquet, so that DuckDB reads what the oracle knows the rows of, without a Spark commit a table."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from compactor.core.catalog import history_views
from compactor.core.model import types
from compactor.core.model.layout import Layout
from compactor.core.model.position import members
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.duckdb import queries
from compactor.duckdb.session import connect
from compactor.ports import Storage
from compactor.storage.local import LocalStorage
from tests.oracle.lake import Lake

_ARROW = {
    "tinyint": pyarrow.int8(), "smallint": pyarrow.int16(), "int": pyarrow.int32(), "bigint": pyarrow.int64(), "float": pyarrow.float32(),
    "double": pyarrow.float64(), "string": pyarrow.string(), "boolean": pyarrow.bool_(),
    "timestamp": pyarrow.timestamp("us", "UTC"),
}  # fmt: skip


class ParquetLake:
    """Writes the files that a Snapshot of an oracle's lake names below a folder, each once, and queries them."""

    def __init__(self, lake: Lake, root: Path) -> None:
        self._lake, self._root, self._written = lake, root, set[str]()
        self.connection = connect(LocalStorage(), remote=False)

    def rows(self, snapshot: Snapshot) -> tuple[tuple[Any, ...], ...]:
        """The view's rows, as the oracle's reader sorts them."""
        for path, data in files(self._lake, snapshot, self._written):
            self._put(path, data)
        return self._sorted(queries.rows(self.connection, self._spec, snapshot).text)

    def history(self, snapshot: Snapshot, columns: str, moment: int | None = None) -> tuple[tuple[Any, ...], ...]:
        """These columns of the history, or of the rows at a source time."""
        assert snapshot.history is not None
        for part in snapshot.history.parts:
            for file in part.files:
                stored = json.loads(self._lake.storage.read(f"{self._lake.spec.root}/{part.path}/{file.name}"))
                self._put(f"{part.path}/{file.name}", _events(stored, snapshot, self._spec))
        history, as_of = queries.history, queries.as_of
        view = history(self.connection, self._spec, snapshot) if moment is None else as_of(self.connection, self._spec, snapshot, moment)
        return self._sorted(f"SELECT {columns} FROM ({view.text})")

    @property
    def _spec(self) -> TableSpec:
        return dataclasses.replace(self._lake.spec, root=str(self._root))

    def _put(self, path: str, data: bytes) -> None:
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        (self._root / path).write_bytes(data)

    def _sorted(self, text: str) -> tuple[tuple[Any, ...], ...]:
        return tuple(sorted(self.connection.execute(text).fetchall(), key=repr))


def export(lake: Lake, storage: Storage, root: str) -> None:
    """Write all Snapshots of an oracle's lake and their files, so that any program finds the table below `root`."""
    sizes: dict[str, int] = {}
    for snapshot in lake.committed():
        for path, data in files(lake, snapshot, set(sizes)):
            storage.write(f"{root}/{path}", data)
            sizes[path] = len(data)
        made = dataclasses.replace(
            snapshot,
            segments=tuple(_sized(segment, sizes) for segment in snapshot.segments),
            delta=_sized(snapshot.delta, sizes) if snapshot.delta else None,
        )
        storage.write(Layout(root, "").snapshot(snapshot.version), made.to_bytes())
    if lake.storage.stat(lake.layout.shown()) is not None:
        storage.write(Layout(root, "").shown(), lake.storage.read(lake.layout.shown()))


def _sized(part: Any, sizes: dict[str, int]) -> Any:
    return dataclasses.replace(part, files=tuple(dataclasses.replace(file, size=sizes[f"{part.path}/{file.name}"]) for file in part.files))


def files(lake: Lake, snapshot: Snapshot, written: set[str]) -> Iterator[tuple[str, bytes]]:
    """The path below the root and the Parquet of each file of a Snapshot that is not in `written`, which gets it."""
    for part in (*snapshot.segments, *([snapshot.delta] if snapshot.delta else [])):
        for file in part.files:
            path = f"{part.path}/{file.name}"
            if path not in written:
                written.add(path)
                yield path, _parquet(json.loads(lake.storage.read(f"{lake.spec.root}/{path}")), path, snapshot)


def _parquet(stored: list[dict[str, Any]], path: str, snapshot: Snapshot) -> bytes:
    found = re.search(r"/v(\d{8})-", path)
    assert found is not None
    # a file has the columns that its own version knew
    fields = [field for field in snapshot.schema.fields if field.since <= int(found[1])]
    names = [name for name, _ in members(snapshot.order)]
    position = pyarrow.struct([(name, _arrow(kind)) for name, kind in members(snapshot.order)])
    own = [("_version", pyarrow.int64()), ("_at", position), ("_gone", position)]
    rows = [
        {
            **{field.name: row.get(field.name) for field in fields},
            "_version": row["_version"],
            **{clock: row[clock] and dict(zip(names, row[clock], strict=True)) for clock in ("_at", "_gone")},
        }
        for row in stored
    ]
    out = io.BytesIO()
    schema = pyarrow.schema([*((field.name, _arrow(field.type)) for field in fields), *own])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out)
    return out.getvalue()


def _events(stored: list[dict[str, Any]], snapshot: Snapshot, spec: TableSpec) -> bytes:
    """Stored events of the history in the declared types."""
    columns = [(column.name, _arrow(column.type)) for column in history_views.table(spec, snapshot).columns]
    names = [name for name, _ in members(snapshot.order)]

    def value(row: dict[str, Any], name: str) -> Any:
        found = row.get(name)
        return dict(zip(names, found, strict=False)) if name.endswith("_position") and found is not None else found

    out = io.BytesIO()
    rows = [{name: value(row, name) for name, _ in columns} for row in stored]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, pyarrow.schema(columns)), out)
    return out.getvalue()


def _arrow(kind: str) -> pyarrow.DataType:
    return _arrow_type(types.parse(kind))


def _arrow_type(kind: types.Type) -> pyarrow.DataType:
    if kind[0] == "decimal":
        return pyarrow.decimal128(kind[1], kind[2])
    if kind[0] == "array":
        return pyarrow.list_(_arrow_type(kind[1]))
    if kind[0] == "struct":
        return pyarrow.struct([(name, _arrow_type(member)) for name, member in kind[1]])
    return _ARROW[kind[0]]
