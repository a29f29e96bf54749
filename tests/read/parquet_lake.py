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

from compactor.core.model import types
from compactor.core.model.layout import Layout
from compactor.core.model.position import members
from compactor.core.model.snapshot import Snapshot
from compactor.duckdb import queries
from compactor.duckdb.connection import connect
from compactor.ports import Storage
from compactor.storage.local import LocalStorage
from tests.oracle.lake import Lake

_ARROW = {
    "tinyint": pyarrow.int8(), "smallint": pyarrow.int16(), "int": pyarrow.int32(), "bigint": pyarrow.int64(), "float": pyarrow.float32(),
    "double": pyarrow.float64(), "string": pyarrow.string(), "boolean": pyarrow.bool_(),
}  # fmt: skip


class ParquetLake:
    """Writes the files that a Snapshot of an oracle's lake names below a folder, each once, and queries them."""

    def __init__(self, lake: Lake, root: Path) -> None:
        self._lake, self._root, self._written = lake, root, set[str]()
        self.connection = connect(LocalStorage(), remote=False)

    def rows(self, snapshot: Snapshot) -> tuple[tuple[Any, ...], ...]:
        """The view's rows, as the oracle's reader sorts them."""
        spec = dataclasses.replace(self._lake.spec, root=str(self._root))
        for path, data in files(self._lake, snapshot, self._written):
            (self._root / path).parent.mkdir(parents=True, exist_ok=True)
            (self._root / path).write_bytes(data)
        found = self.connection.execute(queries.rows(self.connection, spec, snapshot).text).fetchall()
        return tuple(sorted(found, key=repr))


def export(lake: Lake, storage: Storage, root: str) -> None:
    """Write all Snapshots of an oracle's lake and their files, so that any program finds the table below `root`."""
    written: set[str] = set()
    for snapshot in lake.committed():
        for path, data in files(lake, snapshot, written):
            storage.write(f"{root}/{path}", data)
        storage.write(Layout(root, "").snapshot(snapshot.version), snapshot.to_bytes())


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
    older = pyarrow.map_(pyarrow.string(), pyarrow.struct([("known", pyarrow.bool_())]))
    own = [("_op", pyarrow.string()), ("_version", pyarrow.int64()), ("_position", position), ("_older", older)]
    rows = [
        {
            **{field.name: row.get(field.name) for field in fields},
            "_op": row["_op"],
            "_version": row["_version"],
            "_position": dict(zip(names, row["_position"], strict=True)),
            "_older": None if row.get("_older") is None else [],
        }
        for row in stored
    ]
    out = io.BytesIO()
    schema = pyarrow.schema([*((field.name, _arrow(field.type)) for field in fields), *own])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out)
    return out.getvalue()


def _arrow(kind: str) -> pyarrow.DataType:
    parsed = types.parse(kind)
    return pyarrow.decimal128(parsed[1], parsed[2]) if parsed[0] == "decimal" else _ARROW[parsed[0]]
