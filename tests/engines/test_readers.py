"""A real metastore on PostgreSQL, the real flows publishing, and another server's clients that never stop reading."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.spec import TableSpec
from compactor.demo import SPARK
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.parts.metastore import metastore, thrift_server
from tests.spark.lake import Lake

pytestmark = [pytest.mark.engines, pytest.mark.spark]

PUBLISHES = 50 if os.environ.get("COMPACTOR_TESTS") == "full" else 8
KEYS, CHANGED = 30, 4
State = frozenset[tuple[int, int, int]]
"""Rows (id, batch, amount) of one version."""


def changes(batch: int) -> list[dict[str, Any]]:
    """Batch 0 inserts ids 0 to KEYS-1; each later one takes the lowest id away, adds one at the end, and updates a few between."""
    if batch == 0:
        return [{"op": "c", "seq": 0, "id": key, "batch": 0, "amount": key} for key in range(KEYS)]
    updated = [{"op": "u", "seq": batch, "id": key, "batch": batch, "amount": batch * key} for key in _updated(batch)]
    added = {"op": "c", "seq": batch, "id": KEYS + batch - 1, "batch": batch, "amount": -batch}
    return [{"op": "d", "seq": batch, "id": batch - 1, "batch": batch, "amount": 0}, added, *updated]


def _updated(batch: int) -> list[int]:
    return sorted({batch + (batch * 7 + number * 5) % (KEYS - 1) for number in range(CHANGED)})


def states(batches: int) -> list[State]:
    """What the view shows after each batch: always KEYS rows, and never the same ones twice."""
    rows: dict[int, tuple[int, int, int]] = {}
    found = []
    for batch in range(batches):
        for change in changes(batch):
            if change["op"] == "d":
                del rows[change["id"]]
            else:
                rows[change["id"]] = (change["id"], change["batch"], change["amount"])
        found.append(frozenset(rows.values()))
    return found


@dataclass
class Reader:
    """Asks the same question until told to stop, and judges each answer: `version` gives the batch it shows, or fails."""

    port: int
    query: str
    known: list[State]
    versions: list[int] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def read_on(self) -> None:
        """The thread's work; what goes wrong is kept."""
        from pyhive import hive

        try:
            with contextlib.closing(hive.connect("127.0.0.1", self.port, username="x", auth="NONE")) as connection:
                while not self.stop.is_set():
                    with contextlib.closing(connection.cursor()) as cursor:
                        cursor.execute(self.query)
                        self.versions.append(self.read(cursor))
        except BaseException as error:
            self.errors.append(error)

    def read(self, cursor: Any) -> int:
        """Which batch the answer is."""
        return self.version(cursor.fetchall())

    def version(self, rows: list[tuple[Any, ...]]) -> int:
        """Which batch these rows are."""
        raise NotImplementedError


class RowReader(Reader):
    """Reads every row."""

    def version(self, rows: list[tuple[Any, ...]]) -> int:
        """Exactly the rows of one batch, none missing, doubled or of another."""
        batch = max(row[1] for row in rows)
        assert len(rows) == KEYS, f"batch {batch}: {len(rows)} rows"
        assert frozenset(rows) == self.known[batch], f"batch {batch}: {frozenset(rows) ^ self.known[batch]}"
        return int(batch)


class SumReader(Reader):
    """Reads aggregates, for which the engine reads other columns."""

    def version(self, rows: list[tuple[Any, ...]]) -> int:
        """The sums of one batch."""
        count, distinct, batch, amount = rows[0]
        assert (count, distinct) == (KEYS, KEYS)
        assert amount == sum(row[2] for row in self.known[batch])
        return int(batch)


@contextlib.contextmanager
def reading(readers: list[Reader]) -> Iterator[None]:
    """All of them, each in a thread, inside the block, which begins when each has read something."""
    threads = [threading.Thread(target=reader.read_on) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + 120
        while not all(reader.versions or reader.errors for reader in readers) and time.monotonic() < end:
            time.sleep(0.05)
        yield
    finally:
        for reader in readers:
            reader.stop.set()
        for thread in threads:
            thread.join(120)


@contextlib.contextmanager
def servers() -> Iterator[Path]:
    """A folder for PostgreSQL, not below pytest's: another pytest that starts meanwhile would close those to its user."""
    with tempfile.TemporaryDirectory(prefix="compactor-engines-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def published(root: Path, uri: str, **settings: Any) -> Iterator[tuple[Lake, TableSpec]]:
    """A lake on that metastore whose every commit is a Delta and every run compacts what is worth it."""
    conf = (*SPARK.items(), ("spark.driver.memory", "1g"))
    spark = open_session(SessionSettings(uri, None, str(root / "warehouse"), master="local[2]", conf=conf))
    try:
        lake = Lake(spark, root / "shop")
        yield lake, lake.spec(**{"op": "op", "write_mode": "merge-on-read", "compact_every": 0.0, **settings})
    finally:
        close_session(spark)


def run(lake: Lake, spec: TableSpec, batch: int, readers: Sequence[Reader]) -> Counter[str]:
    """Run the table: one run of eight is copy-on-write. Return how often it was compacted and rewritten, and how many answers were read in such runs."""
    # after about five Deltas a compaction is worth it
    rewrites, before = batch % 8 == 1, sum(len(reader.versions) for reader in readers)
    report = lake.run(lake.with_settings(spec, write_mode="copy-on-write") if rewrites else spec)
    assert not rewrites or lake.snapshot(spec).delta is None
    compactions = sum(name.startswith("compact") for name in report.operations)
    answers = sum(len(reader.versions) for reader in readers) - before
    return Counter(
        {
            "compacted": compactions,
            "read while compacted": answers if compactions else 0,
            "rewritten": int(rewrites),
            "read while rewritten": answers if rewrites else 0,
        }
    )


def test_no_read_during_publishes_is_wrong(tmp_path: Path) -> None:
    """Rows and sums read while commits, rewrites and compactions are published are those of one Snapshot, and never of an older one than before."""
    known = states(PUBLISHES + 1)
    with servers() as folder, metastore(folder, "postgres") as uri, published(tmp_path, uri) as (lake, spec), thrift_server(tmp_path, uri) as port:
        lake.land(spec, 0, changes(0))
        lake.run(spec)
        view = f"{spec.database}.{spec.view}"
        rows = RowReader(port, f"SELECT id, batch, amount FROM {view}", known)
        sums = SumReader(port, f"SELECT count(*), count(DISTINCT id), max(batch), sum(amount) FROM {view}", known)
        readers: list[Reader] = [rows, sums]
        with reading(readers):
            batch, done = 0, Counter[str]()
            while lake.snapshot(spec).version <= PUBLISHES:
                batch += 1
                lake.land(spec, batch % 24, changes(batch), f"part-{batch}.json")
                done += run(lake, spec, batch, readers)
                assert [reader.errors for reader in readers] == [[], []]
            end = time.monotonic() + 60
            while any(reader.versions[-1:] != [batch] for reader in readers) and time.monotonic() < end:
                time.sleep(0.05)
        version = lake.snapshot(spec).version
        assert lake.problems(spec) == []
    assert [reader.errors for reader in readers] == [[], []]
    for reader in readers:
        assert reader.versions == sorted(reader.versions), "a version came back"
        assert reader.versions[-1] == batch
        assert len(set(reader.versions)) > PUBLISHES // 3
    assert min(done["compacted"], done["rewritten"]) >= max(1, PUBLISHES // 16)
    assert min(done["read while compacted"], done["read while rewritten"]) > 0
    print(f"{version - 1} publishes, {dict(done)}, {[len(reader.versions) for reader in readers]} reads")
