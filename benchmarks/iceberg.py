"""`python -m benchmarks.iceberg`: what an export costs, in CPU milliseconds and requests to the store, for tables of some numbers of files.

Without a JVM: every file has the footer of one real file of 20 columns and four row groups. The first export lists all files; the next one
follows a compaction that replaced one of a hundred Segments (at least one). Segments have ten files.

`--rows 10000000 --changes 10000`: instead, what commits of Spark's cost with and without `iceberg: current`, to two tables by turns, and the bytes of
the deletion vectors.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.program import options, scratch, session
from benchmarks.table import Table
from benchmarks.usage import Cost, median
from compactor.core.model.files import LIVE, DataFile, FileInfo, Segment
from compactor.core.model.layout import commit_id
from compactor.core.model.schema import Field, Schema
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows.environment import Environment
from compactor.flows.publish import native
from compactor.flows.table import Table as FlowsTable
from tests.parts.memory_catalog import MemoryCatalog
from tests.parts.memory_storage import MemoryStorage

COLUMNS, FILES = 20, 10


class CountedStorage(MemoryStorage):
    """A store in memory that counts requests. Parquet files are not stored: all of them are one."""

    def __init__(self, file: bytes) -> None:
        super().__init__()
        self.file = file
        self.requests: dict[str, int] = {}

    def _count(self, name: str) -> None:
        self.requests[name] = self.requests.get(name, 0) + 1

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Count."""
        self._count("footers")
        return self.file[start : start + length]

    def read(self, path: str) -> bytes:
        """Count."""
        self._count("gets")
        return super().read(path)

    def stat(self, path: str) -> FileInfo | None:
        """Count."""
        self._count("heads")
        return super().stat(path)

    def write(self, path: str, data: bytes) -> None:
        """Count."""
        self._count("puts")
        super().write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Count."""
        self._count("puts")
        return super().put_if_absent(path, data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON."""
    parser = options(__doc__)
    parser.add_argument("--files", default="10,1000,10000", help="numbers of files, separated by commas")
    parser.add_argument("--rows", type=int, help="measure commits to tables of so many rows")
    parser.add_argument("--changes", type=int, default=10_000, help="changes of a commit")
    given = parser.parse_args(arguments)
    if given.rows:
        with scratch(given) as root:
            print(json.dumps(commits(root, given.rows, given.changes), indent=2))
        return 0
    print(json.dumps([measure(int(files)) for files in given.files.split(",")], indent=2))
    return 0


def measure(files: int) -> dict[str, Any]:
    """The first export of a table, the one after a compaction, and one with nothing to do."""
    file = _file()
    storage, catalog = CountedStorage(file), MemoryCatalog()
    catalog.ensure_database("school", "/lake")
    spec = TableSpec("t", "/lake/t", "/lake/t/incremental", "%Y", "school", "t", "school", key=("c0",), iceberg=("base",), parquet="standard")
    table = FlowsTable(Environment(storage, lambda: None, lambda: catalog), spec)  # type: ignore[arg-type, return-value]
    first = _snapshot(1, [_segment(1, at, len(file)) for at in range(max(1, files // FILES))])
    replaced = max(1, len(first.segments) // 100)
    second = _snapshot(2, [*first.segments[replaced:], *(_segment(2, at, len(file)) for at in range(replaced))])
    costs: dict[str, Any] = {"files": files, "new_files": replaced * FILES}
    for name, snapshot in (("first", first), ("next", second), ("idle", second)):
        storage.requests = {}
        with _measured(costs, name):
            native.export(table, snapshot)
        costs[f"{name}_requests"] = dict(storage.requests)
    return costs


def commits(root: Path, rows: int, changes: int, rounds: int = 6) -> dict[str, Any]:
    """Medians of commits to two equal tables, one of them with `current`. The first two rounds are not counted: the JVM compiles.

    Two tables, because a table whose Iceberg table is behind catches up in its next run, which would then be charged with two exports.
    """
    forms: dict[str, tuple[str, ...]] = {"plain": (), "current": ("current",)}
    with session(root, parquet="standard") as spark:
        tables = {name: Table(spark, root, rows, name=name, parquet="standard", iceberg=form) for name, form in forms.items()}
        costs: dict[str, list[Cost]] = {name: [] for name in tables}
        for table in tables.values():
            table.load()
        for turn in range(2 + rounds):
            for name, table in tables.items():
                cost = table.change(changes)
                print(name, cost, file=sys.stderr, flush=True)
                costs[name] += [cost] if turn >= 2 else []
        vectors = [path.stat().st_size for path in Path(tables["current"].spec.root).glob("_iceberg_current/metadata/*.puffin")]
    medians = {name: median(each) for name, each in costs.items()}
    return {
        "rows": rows, "changes": changes, "vector_bytes": sorted(vectors),
        "cpu_seconds": {name: round(each.cpu_seconds, 2) for name, each in medians.items()},
        "seconds": {name: round(each.seconds, 2) for name, each in medians.items()},
        "times": round(medians["current"].cpu_seconds / medians["plain"].cpu_seconds, 2),
    }  # fmt: skip


@contextmanager
def _measured(costs: dict[str, Any], name: str) -> Iterator[None]:
    began = time.process_time()
    yield
    costs[f"{name}_cpu_ms"] = round((time.process_time() - began) * 1000, 1)


def _snapshot(version: int, segments: Sequence[Segment]) -> Snapshot:
    schema = Schema(tuple(Field(f"c{at}", f"c{at}", "bigint" if at % 2 else "string") for at in range(COLUMNS)), ("c0",))
    made = Snapshot(
        table="t", uuid="0123", version=version, parent=None, writer="", run="", time="2026-11-20T14:00:00Z", operation="compact", schema=schema,
        order=(("lsn", "bigint"),), base_id=commit_id(version, "00000000"), segments=tuple(segments), delta=None,
    )  # fmt: skip
    return dataclasses.replace(made, compacted_at=made.time)


def _segment(version: int, number: int, size: int) -> Segment:
    commit = commit_id(version, "00000000")
    files = tuple(DataFile(f"row_state={LIVE}/part-{at:05d}.zstd.parquet", size) for at in range(FILES))
    return Segment(f"{commit}.{number}", f"base/{commit}/segment={number}", 1000, 0, files, None, None, None, None, version)


def _file() -> bytes:
    rows = {f"c{at}": [place if at % 2 else f"value {place}" for place in range(4000)] for at in range(COLUMNS)}
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(rows), out, row_group_size=1000)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
