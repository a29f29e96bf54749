"""What both tests of `compactor reconcile` against a real server need: a load, the pipeline behind it, and damage to the lake."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from compactor.app import App
from compactor.core.reconcile.report import ReconcileReport
from tests.oracle.sizes import FULL

ROUNDS = 50 if FULL else 3
ROWS = 8_000

Execute = Callable[[str, tuple[Any, ...]], Any]


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
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def land(self, drop: Any = None) -> None:
        """Bring the lake forward once. `drop`: changes to leave out or to falsify."""
        with self._lock:
            changes = [change for each in self.changes() if (change := drop(each) if drop else each)]
            if changes:
                self.files += 1
                folder = self.landing / f"increment_2026112{self.files // 24 % 10}{self.files % 24:02d}"
                folder.mkdir(parents=True, exist_ok=True)
                text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in changes)
                (folder / f"part-{self.files:05d}.json").write_text(text, encoding="utf-8")
            (report,) = self.app.run(["every"])
            assert report.error is None, report.error

    def write(self, seed: int) -> None:
        """Updates, deletes, inserts, key changes: some keys are hot."""
        draw = random.Random(seed)
        with self.connected() as execute:
            while not self._stop.wait(0.02):
                key = draw.choice((draw.randint(1, ROWS), draw.randint(1, 20)))
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
        rows = spark.read.parquet(str(place)).where(f"id = {key} and _gone is null")
        if rows.count():
            scratch = place.parent.parent / "scratch"
            rows.coalesce(1).write.parquet(str(scratch))
            (part,) = scratch.glob("*.parquet")
            part.rename(place / "part-doubled.parquet")
            spark.catalog.clearCache()
            return
    raise AssertionError(f"no file has the row {key}")
