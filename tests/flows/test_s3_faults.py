"""The program of test_every_crash.py on an S3 server behind a network that fails: a run ends right, or fails cleanly and the next one ends right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.model.errors import CheckFailed, TryLater
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.lake import Lake
from tests.oracle.s3_lake import BUCKET, KEY, ROOT, S3Lake, storage
from tests.oracle.sizes import FULL
from tests.oracle.watch import Watch
from tests.parts.proxy import ALWAYS, KINDS, Fault, Proxy
from tests.parts.s3 import Server

pytestmark = pytest.mark.slow
STAYING = ("500", "503", "429", "reset_before", "reset_after", "cut_head", "cut_length", "slow")


def ending(lake: Lake) -> dict[str, Any]:
    """What must not depend on what happened on the way."""
    newest, seen = lake.newest(), lake.look()
    assert newest is not None
    assert seen is not None
    return {
        "rows": seen.rows,
        "columns": seen.columns,
        "ledger": sorted(lake.ledger(newest)),
        "archive": sorted(info.path.rpartition("~")[2] for info in lake.storage.list(f"{lake.spec.root}/archive")),
        "landing": lake.landing(),
    }


def encrypted(lake: S3Lake) -> int:
    """How many raw files have the table's key; all of them, and nothing else has it."""
    keys = {location: arn for key, arn in lake.server.keys(BUCKET).items() if (location := f"s3://{BUCKET}/{key}").startswith(f"{ROOT}/")}
    raw = {location for location in keys if lake.layout.raw_file(location)}
    assert {location for location in keys if keys[location] == KEY} == raw
    return sum("/archive/" in location for location in raw)


class Program:
    """The lake before each run, how many requests the run makes, and the end."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        lake = S3Lake(server, proxy)
        # What the store can do is tried out once a process; each run here stands for one that has done so.
        storage(server.url, 20.0).conditional_puts(ROOT)
        storage(proxy.url, 20.0).conditional_puts(ROOT)
        storage(proxy.url, 0.1)._conditional[BUCKET] = True
        self.stages: list[S3Lake] = []
        self.requests: list[int] = []
        self.shown: list[int] = []
        for number, deliver in enumerate(DELIVERIES):
            deliver(lake)
            self.shown.append(lake.newest().version if lake.newest() else 0)  # type: ignore[union-attr]
            self.stages.append(lake.saved(f"before-{number}"))
            proxy.plan()
            lake.disturbed()
            self.requests.append(len(proxy.requests))
        assert lake.failed_checks() == []
        self.end = ending(lake)
        assert encrypted(lake) == len(self.end["archive"])

    def points(self, kind: str, sample: int) -> Iterator[tuple[int, int]]:
        """Which request of which run is to fail: every one, or a sample."""
        every = [(run, at) for run, number in enumerate(self.requests) for at in range(1, number + 1)]
        yield from every if FULL else random.Random(kind).sample(every, sample)


@pytest.fixture(scope="module")
def program(server: Server, proxy: Proxy) -> Program:
    """Played once without faults."""
    return Program(server, proxy)


def finish(program: Program, lake: S3Lake, watch: Watch, run: int, there: bool) -> None:
    """Play the rest of the program undisturbed, in memory or `there`: what the store holds is what the next run finds."""
    rest: Lake = lake
    if not there:
        rest = watch.lake = lake.aside()
    for deliver in (lambda _: None, *DELIVERIES[run + 1 :]):
        deliver(rest)
        rest.run()
        watch.settled()
    assert ending(rest) == program.end
    assert not there or encrypted(lake) == len(program.end["archive"])


def survived(program: Program, proxy: Proxy, run: int, fault: Fault, seconds: float) -> bool | None:
    """Play the rest of the program with a fault in one run; whether that run ended by itself. None: it made fewer requests than when counted."""
    lake, at = program.stages[run].copy(), fault.at
    watch = Watch(lake)
    watch.look()
    assert watch.shown == program.shown[run]
    proxy.plan(fault)
    ended = True
    try:
        lake.disturbed(seconds)
    except TryLater:
        ended = False
    except CheckFailed:
        # a listing that is behind hides what the engine has just written; it does not commit what it cannot read back
        assert fault.kind == "stale"
        ended = False
    fired = proxy.fired
    # with little patience a pause of the machine is enough
    assert fired or ended or seconds < 1
    proxy.plan()
    watch.look()
    finish(program, lake, watch, run, there=at % 10 == 0)
    return ended if fired else None


def test_the_program_speaks_to_the_store(program: Program) -> None:
    """What is cut below makes enough requests of all kinds, and folds, and takes late events."""
    assert min(program.requests) > 30
    assert len(program.end["archive"]) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_request_of_a_run_is_survived(program: Program, proxy: Proxy, kind: str) -> None:
    """One that passes: the run itself ends right; only a stale listing may make it stop, and the next one ends right."""
    ended = {(run, at): survived(program, proxy, run, Fault(kind, at), 20.0) for run, at in program.points(kind, 1)}
    assert any(each is not None for each in ended.values()), "no run made so many requests"
    assert kind == "stale" or False not in ended.values(), ended


@pytest.mark.parametrize("kind", STAYING)
def test_a_store_that_fails_from_any_request_on_stops_a_run_cleanly(program: Program, proxy: Proxy, kind: str) -> None:
    """The run says that it could not go on; the next one, when the store is back, ends right."""
    for run, at in program.points(kind, 1):
        # the answer to a write can be cut and still show that it was done: at the end of a run there are only writes
        harmless = kind.startswith("cut") and at > program.requests[run] - 2
        assert not survived(program, proxy, run, Fault(kind, at, ALWAYS), 0.1) or harmless, (run, at)


@pytest.mark.parametrize("seed", range(200 if FULL else 3))
def test_a_network_that_fails_all_the_time_is_survived(program: Program, proxy: Proxy, seed: int) -> None:
    """Every tenth request or so, each time in another way."""
    chance = random.Random(seed)
    run = chance.randrange(len(program.stages))
    lake = program.stages[run].copy()
    watch = Watch(lake)
    watch.look()
    proxy.plan(*[Fault(chance.choice([*KINDS]), at) for at in range(1, 400) if chance.random() < 0.1])
    with suppress(CheckFailed):
        lake.disturbed()
    proxy.plan()
    watch.look()
    finish(program, lake, watch, run, there=True)
