"""What both tests of `compactor reconcile` against a real server need: a load, the pipeline behind it, and damage to the lake."""

from __future__ import annotations

import io
import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from compactor.app import App
from compactor.core.model.files import LIVE, ROW_STATE
from compactor.core.reconcile.report import ReconcileReport
from compactor.flows.read.reconcile import Options
from tests.oracle.sizes import FULL

ROUNDS = 50 if FULL else 3
ROWS = 8_000

HOT = 20
"""Keys up to here are written all the time."""
SHARES = 3

_AHEAD = 500
"""Statements after which writers wait for the pipeline to begin again. Without a limit the lake never reaches the source on a loaded machine."""

Execute = Callable[[str, tuple[Any, ...]], Any]


def configured(folder: Path, envelope: str) -> Path:
    """The configuration of the table `every`, which lands in `folder`/landing."""
    config = folder / "compactor.yaml"
    config.write_text(
        f"warehouse: {folder / 'warehouse'}\ncatalog: {{database: proof}}\ndefaults: {{envelope: {envelope}}}\n"
        f"tables: {{every: {{key: [id], increments: {folder}/landing/increment_%Y%m%d%H}}}}\n"
    )
    return config


class Load:
    """Threads that change random rows of the table `every`, and the pipeline behind them: changes, a landed file, a run.

    `connected`: gives what executes a statement; `statements`: with one parameter, the key; `changes`: the documents since its last call.
    """

    def __init__(
        self,
        app: App,
        landing: Path,
        connected: Callable[[], AbstractContextManager[Execute]],
        statements: tuple[str, ...],
        changes: Callable[[], Iterable[dict[str, Any]]],
    ) -> None:
        self.app, self.landing, self.connected, self.statements, self.changes = app, landing, connected, statements, changes
        self.files = 0
        self.spared: int | None = None
        """Writers leave keys above HOT alone that have this remainder by SHARES."""
        self._written = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def land(self, drop: Any = None) -> None:
        """Bring the lake forward once. `drop`: changes to leave out or to falsify."""
        with self._lock:
            self._written = 0
            changes = [change for each in self.changes() if (change := drop(each) if drop else each)]
            if changes:
                self.files += 1
                folder = self.landing / f"increment_2026112{self.files // 24 % 10}{self.files % 24:02d}"
                folder.mkdir(parents=True, exist_ok=True)
                text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in changes)
                (folder / f"part-{self.files:05d}.json").write_text(text, encoding="utf-8")
            (report,) = self.app.run(["every"])
            assert report.error is None, report.error

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the pipeline from running."""
        with self._lock:
            yield

    def write(self, seed: int) -> None:
        """Updates, deletes, inserts, key changes: some keys are hot. They wait for a pipeline that a loaded machine slows down."""
        draw = random.Random(seed)
        with self.connected() as execute:
            while not self._stop.wait(0.02):
                if self._written < _AHEAD:
                    self._written += 1
                    key = draw.choice((draw.randint(1, ROWS), draw.randint(1, HOT)))
                    if key <= HOT or key % SHARES != self.spared:
                        execute(draw.choice(self.statements), (key,))

    def _pipeline(self) -> None:
        while not self._stop.wait(0.5):
            self.land()

    def __enter__(self) -> Load:
        self._stop = threading.Event()
        works = [(self.write, (1,)), (self.write, (2,)), (self._pipeline, ())]
        self._threads = [threading.Thread(target=target, args=args, daemon=True) for target, args in works]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()


def named(report: ReconcileReport) -> dict[tuple[str, str], tuple[str, ...]]:
    """(kind, key) → columns that differ."""
    return {(item.kind, item.key["id"]): tuple(cell.column for cell in item.cells) for item in report.differences}


def double(app: App, key: int) -> None:
    """A second file with one row in the directory of the Delta or Segment that has it."""
    table = app.runtime.table(app.specs(["every"])[0])
    snapshot = table.newest()
    assert snapshot is not None
    spark = app.runtime.spark()
    directories = [*([snapshot.delta.path] if snapshot.delta else []), *(segment.path for segment in snapshot.segments)]
    for directory in directories:
        place = Path(table.layout.inside(directory))
        rows = spark.read.parquet(str(place)).where(f"id = {key} and {ROW_STATE} = '{LIVE}'")
        if rows.count():
            scratch = place.parent.parent / "scratch"
            rows.coalesce(1).write.parquet(str(scratch))
            (part,) = scratch.glob("*.parquet")
            part.rename(place / f"{ROW_STATE}={LIVE}" / "part-doubled.parquet")
            spark.catalog.clearCache()
            return
    raise AssertionError(f"no file has the row {key}")


REPAIRS = 20 if FULL else 1
DAMAGE = {"deleted": ("missing", "changed"), "changed": ("changed",), "doubled": ("repeated",)}
"""What is done to a row → the kinds of difference that may follow: a row that is deleted from the Delta lets an older one of the base be seen."""


def repaired_under_load(load: Load, url: str) -> None:
    """Damage rows of the lake's files by hand while the source is written to, and have them repaired, again and again."""
    draw = random.Random(7)
    with load:
        for number in range(REPAIRS):
            # what the source writes in the meantime would repair them, too
            load.spared = number % SHARES
            load.land()
            with load.paused():
                wrong = dict(damage(load, draw, how) for how in DAMAGE)
            report = load.app.repair("every", url, Options(wait=600, limit=1000), run=True)
            found = {item.key["id"]: item.kind for item in report.before.differences}
            assert all(found.get(key) in kinds for key, kinds in wrong.items()), f"round {number}: {wrong}, {report.before}"
            assert found.keys() <= wrong.keys(), f"round {number}: {wrong}, {report.before}"
            assert report.after is not None
            assert bool(report.left_null) == ("missing" in found.values())
            assert (report.after.outcome, report.left, report.exit_code) == ("equal", 0, 0), f"round {number}: {report}"
    load.land()
    assert load.app.reconcile("every", url, Options(wait=600)).outcome == "equal"
    load.app.run(["every"], compact=True)
    assert load.app.reconcile("every", url, Options(wait=600)).outcome == "equal"


def damage(load: Load, draw: random.Random, how: str) -> tuple[str, tuple[str | None, ...]]:
    """Delete, change or double a row in the file that shows it. The file keeps its size: another one would stop the runs.

    Return its key, and what the comparison may call it: None, nothing, for a row that is twice in the Delta, which the next commit writes anew.
    """
    app = load.app
    table = app.runtime.table(app.specs(["every"])[0])
    snapshot = table.newest()
    assert snapshot is not None
    delta = sorted(Path(table.layout.inside(snapshot.delta.path)).rglob("*.parquet")) if snapshot.delta else []
    changed = {key for file in delta for key in parquet.read_table(file, columns=["id"], partitioning=None)["id"].to_pylist()}
    base = [file for segment in snapshot.segments for file in sorted(Path(table.layout.inside(segment.path)).rglob("*.parquet"))]
    file = draw.choice([each for each in (*delta, *base) if f"{ROW_STATE}={LIVE}" in each.parts])
    # in nanoseconds the year 1 would be another one
    rows = parquet.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us")
    shown = [
        at for at, key in enumerate(rows["id"].to_pylist()) if key > HOT and key % SHARES == load.spared and (file in delta or key not in changed)
    ]
    if not shown:
        return damage(load, draw, how)
    at = draw.choice(shown)
    row, key = rows.slice(at, 1), rows["id"][at].as_py()
    if how == "changed":
        field = rows.schema.field("price")
        price = pa.array(["-77.7700" if pa.types.is_string(field.type) else Decimal("-77.7700")], field.type)
        row = row.set_column(rows.schema.get_field_index("price"), field, price)
    rewrite(file, pa.concat_tables([rows.slice(0, at), *([row] * [*DAMAGE].index(how)), rows.slice(at + 1)]))
    app.runtime.spark().catalog.clearCache()
    return str(key), (*DAMAGE[how], *([None] if how == "doubled" and file in delta else []))


def rewrite(file: Path, rows: pa.Table) -> None:
    """Write other rows into a Parquet file of the same size, without Hadoop's checksum of it."""
    size, made = file.stat().st_size, io.BytesIO()
    parquet.write_table(rows, made, compression="zstd", compression_level=22, write_statistics=False, store_schema=False)
    data = made.getvalue()
    footer = 8 + int.from_bytes(data[-8:-4], "little")
    assert len(data) <= size, f"{file} is too small"
    # nothing points to the bytes before the footer
    file.write_bytes(data[:-footer] + bytes(size - len(data)) + data[-footer:])
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
