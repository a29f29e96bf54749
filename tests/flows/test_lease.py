"""`lease:`: runs beside each other compute things once; what it saves, what it never decides, and what every kind of end leaves of it."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.errors import Leased, TryLater, Unavailable
from compactor.core.spec import TableSpec
from compactor.flows import lease
from compactor.flows.run import run_table
from compactor.flows.world import World
from compactor.storage.memory import MemoryStorage
from tests.faults import MODES, Crash, every_fault
from tests.flows.test_every_crash import first, second, third
from tests.oracle.engine import ListEngine
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.oracle.watch import Watch

LEASE = 120.0
COMMIT = "/lake/t/_compactor/lease/commit.json"


class Meanwhile(ListEngine):
    """An engine during whose work something else happens, once."""

    def __init__(self, lake: Lake, **at: Callable[[], object]) -> None:
        super().__init__(lake.storage)
        self._at = at

    def _now(self, name: str) -> None:
        self._at.pop(name, lambda: None)()

    def read(self, *args: Any, **options: Any) -> Any:
        """Something happens first."""
        self._now("read")
        return super().read(*args, **options)

    def fold(self, *args: Any, **options: Any) -> Any:
        """Something happens first."""
        self._now("fold")
        return super().fold(*args, **options)


def leased(**changes: Any) -> Lake:
    """A lake whose table has leases, with a first file."""
    lake = Lake(table(lease=LEASE, **changes))
    first(lake)
    return lake


def run_while(lake: Lake, **at: Callable[[], object]) -> Any:
    """A run during whose reading, or fold, something happens."""
    engine = Meanwhile(lake, **at)
    world = lake.world()
    return run_table(dataclasses.replace(world, engine=lambda: engine), lake.spec, label="hourly")


def leases(lake: Lake) -> list[str]:
    """The leases that there are."""
    return [info.path for info in lake.storage.list("/lake/t/_compactor/lease")]


def test_a_run_beside_another_leaves_the_work_to_it_and_says_whose_it_is() -> None:
    """It computes nothing, writes nothing, and may come again later; the one that began ends as if it had been alone."""
    lake, told = leased(), list[str]()

    def beside() -> None:
        before = {info.path for info in lake.storage.list("/lake")}
        with pytest.raises(Leased) as caught:
            run_table(lake.world(), lake.spec)
        told.append(str(caught.value))
        assert {info.path for info in lake.storage.list("/lake")} == before

    report = run_while(lake, read=beside)
    assert report.outcome == "committed"
    assert told[0].startswith("table t: hourly on ")
    assert "has held its lease since then, and renewed it 0 s ago" in told[0]
    assert "ends by itself 120 s after" in told[0]
    assert isinstance(Leased(""), TryLater)
    assert leases(lake) == []
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]


def test_without_leases_both_compute_and_one_has_done_so_for_nothing() -> None:
    """What the lease saves; and that it is not what keeps the table right."""
    lake = Lake(table())
    first(lake)
    run_while(lake, read=lambda: run_table(lake.world(), lake.spec))
    assert len(lake.units()) >= 1
    assert lake.look().rows == lake.expected()  # type: ignore[union-attr]
    Watch(lake).settled()


def test_commits_go_on_beside_a_fold_and_a_second_fold_does_not_begin() -> None:
    """A long fold must not make the table late."""
    lake = leased()
    lake.run()
    second(lake)
    lake.run()
    third(lake)
    beside: list[Any] = []

    def commit() -> None:
        assert leases(lake) == ["/lake/t/_compactor/lease/fold.json"]
        lake.deliver("increment_2026010103/a.json", [line("c", [77], [900], {"a": 1})])
        beside.append(run_table(lake.world(), lake.spec))

    run_while(lake, fold=commit)
    (report,) = beside
    # it committed, and left the fold to the one that folds
    assert [operation.split()[0] for operation in report.operations] == ["commit"]
    assert leases(lake) == []
    Watch(lake).settled()


@pytest.mark.parametrize("work", [lease.COMMIT, lease.REBUILD])
def test_a_lease_of_one_that_died_is_waited_for_and_then_taken(work: str) -> None:
    """For as long as it lasts, by the store's clock; not a second longer."""
    lake = leased()
    if work == lease.REBUILD:
        lake.run()
    do = lake.run if work == lease.COMMIT else lake.rebuild
    lake.storage.write(lake.layout.lease(work), b'{"id": "dead", "run": "hourly 7", "host": "a", "process": 1, "since": "long ago"}')
    lake.now += LEASE - 2
    with pytest.raises(Leased, match="hourly 7 on a .process 1., begun long ago, does its " + work):
        do()
    lake.now += 1
    assert do().outcome in ("committed", "published")
    assert leases(lake) == []


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"run": 1}', b"null"])
def test_a_lease_that_nobody_can_read_counts_by_its_age(content: bytes) -> None:
    """Its age is the store's, so whatever is in it, it ends."""
    lake = leased()
    lake.storage.write(COMMIT, content)
    with pytest.raises(Leased, match="another run does its commit"):
        lake.run()
    lake.now += LEASE
    assert lake.run().outcome == "committed"


def test_a_holder_that_slept_too_long_loses_to_who_took_over_and_leaves_that_ones_lease_alone() -> None:
    """The lease is no fence: what it had read is absorbed, so it commits nothing, as without leases."""
    lake = leased()
    theirs = b'{"id": "other"}'

    def sleep() -> None:
        lake.now += LEASE + 1
        assert run_table(lake.world(), lake.spec).outcome == "committed"
        lake.storage.write(COMMIT, theirs)

    assert run_while(lake, read=sleep).operations == ()
    assert lake.storage.read(COMMIT) == theirs
    assert len([*lake.committed()]) == 1
    lake.now += LEASE + 1
    assert lake.run().outcome == "idle"
    Watch(lake).settled()


def test_of_two_in_the_same_moment_the_last_writer_has_it() -> None:
    """Each writes and looks; one finds the other's."""
    lake = leased()

    class Crossing(MemoryStorage):
        def write(self, path: str, data: bytes) -> None:
            super().write(path, data)
            if path == COMMIT and b"other" not in data:
                super().write(path, b'{"id": "other", "run": "", "host": "b", "process": 2, "since": "now"}')

    crossing = Crossing(lambda: lake.now)
    crossing._objects = lake.storage._objects
    engine = ListEngine(crossing)
    world = World(crossing, lambda: engine, lambda: lake.catalog, lambda: lake.now)
    with pytest.raises(Leased, match=r"a run on b .process 2., begun now, does its commit and took its lease in the same moment"):
        run_table(world, lake.spec)
    assert leases(lake) == [COMMIT], "the winner's is not taken away"


def test_who_comes_just_after_the_holder_ended_plans_again_before_computing() -> None:
    """It had looked into landing before: what it found is absorbed."""
    lake = leased()

    class Late(MemoryStorage):
        done = False

        def stat(self, path: str) -> Any:
            if path == COMMIT and not self.done:
                self.done = True
                run_table(lake.world(), lake.spec)
            return super().stat(path)

    late = Late(lambda: lake.now)
    late._objects = lake.storage._objects
    read = list[str]()
    engine = Meanwhile(lake, read=lambda: read.append("read"))
    report = run_table(World(late, lambda: engine, lambda: lake.catalog, lambda: lake.now), lake.spec)
    assert (report.outcome, read) == ("idle", [])


def test_a_lease_is_renewed_while_its_holder_works_and_is_gone_afterwards() -> None:
    """Longer than it would last by itself."""
    storage = MemoryStorage()
    # long enough for a machine that pauses for a second
    spec: TableSpec = table(lease=3.0)
    world = World(storage, lambda: ListEngine(storage), lambda: None)  # type: ignore[arg-type,return-value]
    with lease.held(world, spec, lease.COMMIT, "slow"):
        for _ in range(8):
            time.sleep(0.5)
            with pytest.raises(Leased), lease.held(world, spec, lease.COMMIT):
                pass
        assert json.loads(storage.read(COMMIT))["run"] == "slow"
    assert storage.stat(COMMIT) is None
    assert not [thread for thread in threading.enumerate() if thread.name == "lease of t"]


def test_a_store_that_is_away_while_a_lease_is_renewed_or_given_up_does_not_stop_the_work() -> None:
    """The lease runs out then; the work needs the store itself."""
    spec: TableSpec = table(lease=0.06)

    class Away(MemoryStorage):
        away = False

        def read(self, path: str) -> bytes:
            if self.away:
                raise Unavailable("away")
            return super().read(path)

    storage = Away()
    with lease.held(World(storage, lambda: ListEngine(storage), lambda: None), spec, lease.COMMIT):  # type: ignore[arg-type,return-value]
        storage.away = True
        time.sleep(0.1)
    storage.away = False
    assert storage.stat(COMMIT) is not None
    time.sleep(0.07)
    with lease.held(World(storage, lambda: ListEngine(storage), lambda: None), spec, lease.COMMIT):  # type: ignore[arg-type,return-value]
        pass
    assert storage.stat(COMMIT) is None


def test_a_run_that_fails_gives_its_lease_up() -> None:
    """Only a process that died keeps others waiting."""
    lake = leased()

    def fail() -> None:
        raise Unavailable("the engine is away")

    with pytest.raises(Unavailable):
        run_while(lake, read=fail)
    assert leases(lake) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_at_any_call_costs_at_most_the_time_of_the_lease(mode: str) -> None:
    """The next run waits, or not; when the lease has run out it ends as if nobody had disturbed it."""
    start = leased()
    start.run()
    second(start)
    undisturbed = start.copy()
    undisturbed.run()
    waited = 0
    for faults in every_fault(mode):
        lake = start.copy()
        with suppress(Crash):
            lake.run(faults)
        try:
            lake.run()
        except Leased:
            waited += 1
            lake.now += LEASE
            lake.run()
        assert lake.look().rows == undisturbed.look().rows, faults.fail_at  # type: ignore[union-attr]
        Watch(lake).settled()
    assert waited or mode != "from_then_on"
