"""Real processes on one table in S3 with its catalog in Glue: killed at random instants, several at once, stopped and continued, read all the while."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor.flows.table import Table
from tests.faults_real.runner import spec_at, world_at
from tests.oracle.lake import Lake
from tests.oracle.model import line
from tests.oracle.reader import look
from tests.oracle.s3_lake import BUCKET, Mirror
from tests.oracle.sizes import FULL
from tests.oracle.watch import Watch
from tests.parts.proxy import Proxy
from tests.parts.s3 import Server

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 120.0


class There(Lake):
    """A table that processes share, seen from outside: all objects at one moment, the catalog as Glue tells it."""

    def __init__(self, server: Server) -> None:
        root = f"s3://{BUCKET}/t{uuid.uuid4().hex[:12]}"
        super().__init__(spec_at(root))
        self.real = world_at(server.url, root)
        self.server, self.now = server, time.time()
        self.storage: Mirror = Mirror(server)
        self.catalog = self.real.catalog()  # type: ignore[assignment]
        self.hours = 0

    def land(self) -> None:
        """The sink's next file: new keys, changes, deletes, a late one; the same in every run of the tests."""
        hour, self.hours = self.hours, self.hours + 1
        draw = random.Random(hour)
        lines = []
        for number in range(6):
            seq = (draw.randrange(hour + 1) if number == 0 else hour) * 1_000_000 + hour * 100 + number
            lines.append(line(draw.choice("uuud"), [draw.randrange(40)], [seq], {"a": seq, "b": f"hour {hour}"}))
        self.deliver(f"increment_202601{hour // 24 + 1:02d}{hour % 24:02d}/{hour:04d}.json", lines)

    def settle(self, watch: Watch) -> None:
        """A run that nobody disturbs finishes what is left; then every invariant holds and the rows are those of all events."""
        from compactor.flows.run import run_table

        run_table(Table(self.real, self.spec))
        self.storage.refresh()
        watch.settled()

    def process(self, url: str, log: Path, pause: float = 0.02) -> Runner:
        """A runner that has begun."""
        return Runner(log, url, self.spec.root, str(pause))


class Runner:
    """A process of `runner.py`."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults_real.runner", *arguments], stdout=output, stderr=subprocess.STDOUT, cwd=REPOSITORY
            )
        self.until("ready")

    def until(self, word: str, times: int = 1) -> None:
        """Wait until it has printed so many lines that begin so."""
        end = time.monotonic() + PATIENCE_SECONDS
        while sum(told.startswith(word) for told in self._log.read_text().splitlines()) < times:
            assert self._process.poll() is None, f"it ended by itself: {self._log.read_text()[-3000:]}"
            assert time.monotonic() < end, f"it did not say {word!r}: {self._log.read_text()[-3000:]}"
            time.sleep(0.005)

    def send(self, what: signal.Signals) -> None:
        """A signal; it must not have ended by itself."""
        assert self._process.poll() is None, f"it ended by itself: {self._log.read_text()[-3000:]}"
        self._process.send_signal(what)

    def kill(self) -> None:
        """kill -9."""
        self.send(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def running(there: There, url: str, logs: Iterator[Path], count: int, pause: float = 0.02) -> Iterator[list[Runner]]:
    """So many runners, none of which is left at the end."""
    runners = [there.process(url, next(logs), pause) for _ in range(count)]
    try:
        yield runners
    finally:
        for runner in runners:
            with contextlib.suppress(AssertionError):
                runner.kill()


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """A new name each time."""
    return (tmp_path / f"{number:04}.log" for number in itertools.count())


@pytest.mark.parametrize("count", [1, 2, 4] if FULL else [1, 3])
def test_runners_that_are_killed_at_random_instants_lose_and_double_nothing(server: Server, logs: Iterator[Path], count: int) -> None:
    """Alone, two, four on the same table, while files go on landing; whoever is killed is started again, as a scheduler would. Nobody repairs."""
    there, draw = There(server), random.Random(count)
    watch = Watch(there)
    there.land()
    kills = 120 if FULL else 3
    with running(there, server.url, logs, count) as runners:
        began = time.monotonic()
        runners[0].until("idle")
        length = max(time.monotonic() - began, 0.5)
        for _ in range(kills):
            there.land()
            # at any instant of a run, the last ones too
            time.sleep(draw.uniform(0.0, length))
            victim = draw.randrange(count)
            runners[victim].kill()
            there.storage.refresh()
            if count == 1:
                watch.look()
            runners[victim] = there.process(server.url, next(logs))
        # they get on with it before they are told to stop
        runners[0].until("idle")
    there.settle(watch)
    committed = [snapshot for snapshot in there.committed() if snapshot.operation == "commit"]
    assert len(there.ledger(there.newest())) == there.hours == kills + 1  # type: ignore[arg-type]
    assert len(committed) > max(1, kills // 8)
    print(f"{kills} kills of {count} runners, {len(committed)} commits")


@pytest.mark.parametrize("seed", range(60 if FULL else 1))
def test_a_runner_stopped_through_the_commits_of_others_harms_nothing(server: Server, proxy: Proxy, logs: Iterator[Path], seed: int) -> None:
    """SIGSTOP when one of its requests is on its way; two more versions are committed and shown; SIGCONT: it plans again, or gives up."""
    from compactor.flows.run import run_table

    there, draw = There(server), random.Random(seed)
    watch = Watch(there)
    there.land()
    run_table(Table(there.real, there.spec))
    stopped = threading.Event()
    there.land()
    proxy.plan()
    # it waits until something has landed, so its next run is the one that is stopped
    runner = None
    at = draw.randrange(1, 60)

    def stop(number: int) -> None:
        if number == at and runner is not None:
            runner.send(signal.SIGSTOP)
            stopped.set()

    try:
        proxy.before = None
        runner = there.process(proxy.url, next(logs))
        proxy.plan()
        proxy.before = stop
        assert stopped.wait(PATIENCE_SECONDS)
        proxy.before = None
        there.storage.refresh()
        before = there.newest()
        assert before is not None
        for _ in range(2):
            there.land()
            run_table(Table(there.real, there.spec))
        there.storage.refresh()
        assert there.newest().version >= before.version + 2  # type: ignore[union-attr]
        watch.look()
        runner.send(signal.SIGCONT)
        runner.until("idle")
        # whatever it did, what is shown is the newest
        there.storage.refresh()
        assert there.look().version == there.newest().version  # type: ignore[union-attr]
        watch.look()
    finally:
        proxy.before = None
        if runner is not None:
            runner.send(signal.SIGCONT)
            runner.kill()
        proxy.quiet()
    there.settle(watch)


def test_a_reader_sees_one_version_whole_at_every_read(server: Server, logs: Iterator[Path]) -> None:
    """While another process publishes: no error, no row missing, doubled or of another version, and never an older version than before."""
    there = There(server)
    publishes, reads = (200, 10_000) if FULL else (5, 40)
    there.land()
    seen: dict[int, set[tuple[Any, ...]]] = {}
    done, last, cache = 0, 0, dict[tuple[str, str], Any]()
    # a server that answers one request at a time is left to the reader while nothing has landed
    with running(there, server.url, logs, 1, pause=0.3) as (runner,):
        runner.until("committed")
        other = world_at(server.url, there.spec.root)
        for number in range(1, publishes):
            there.land()
            while done < reads * number // (publishes - 1):
                shown = look(other.catalog(), other.storage, there.spec, cache=cache)  # type: ignore[arg-type]
                assert shown is not None, "there was no view"
                assert shown.version >= last
                last, done = shown.version, done + 1
                seen.setdefault(shown.version, set()).add(shown.rows)
            runner.until("committed", number + 1)
    there.storage.refresh()
    versions = {snapshot.version: snapshot for snapshot in there.committed()}
    assert len(versions) >= publishes
    assert len(seen) > publishes // 4
    assert done >= reads
    for version, rows in seen.items():
        assert rows == {there.expected(versions[version])}
    print(f"{done} reads of {len(seen)} versions while {len(versions)} were published")


def test_the_processes_are_what_they_say(server: Server, logs: Iterator[Path]) -> None:
    """The runner is another process, and it commits to the store and the catalog that we look at."""
    there = There(server)
    there.land()
    with running(there, server.url, logs, 1) as (runner,):
        assert runner._process.pid != os.getpid()
        runner.until("committed")
    there.storage.refresh()
    assert there.look().rows == there.expected()  # type: ignore[union-attr]
