"""Put-if-absent by claims: one winner for ever, whoever sleeps, dies, or hears no answer. The store ignores If-None-Match, DynamoDB does not.

The contract suite runs over it too (`test_contract.py`, "s3 claimed").
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from compactor.core.errors import Refused, TryLater, Unavailable
from compactor.flows.run import run_table
from compactor.flows.world import World as Flows
from compactor.storage.s3 import DRAFT_PREFIX, S3Storage
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.engine import ListEngine
from tests.oracle.lake import Lake, table
from tests.oracle.sizes import FULL
from tests.oracle.watch import Watch
from tests.parts.proxy import ALWAYS, Fault, Proxy
from tests.parts.s3 import Server
from tests.storage.claimed import TABLE, dynamodb, made
from tests.storage.worlds import World

KINDS = ("500", "503", "429", "reset_before", "reset_after", "cut", "cut_head", "cut_length", "slow", "late", "twice", "again", "stale")
NUMBERS = itertools.count(1)


@pytest.fixture(autouse=True)
def ignoring(proxy: Proxy) -> Iterator[None]:
    """The store does not heed If-None-Match."""
    proxy.plan()
    proxy.strip.add("if-none-match")
    yield
    proxy.before = None
    proxy.strip.clear()
    proxy.plan()


def storage(server: Server, proxy: Proxy, **settings: Any) -> S3Storage:
    """A process that knows nothing yet."""
    return made(server.url, proxy.url, **{"read_seconds": 60.0, "operation_seconds": 20.0, **settings})


def place(server: Server) -> World:
    """A location of its own, and what is there, seen past the proxy."""
    return World(made(server.url, server.url), "s3://lake/claims")


def test_the_store_would_let_both_win(server: Server, proxy: Proxy) -> None:
    """Why claims are needed here: the condition changes nothing, so a storage without them refuses."""
    without = S3Storage("s3://lake", storage(server, proxy)._client.settings)
    with pytest.raises(Refused, match=r"does not heed If-None-Match.*set s3\.commit_lock"):
        without.put_if_absent(place(server).path("x"), b"1")


def test_a_writer_paused_anywhere_wins_or_loses_for_ever(server: Server, proxy: Proxy) -> None:
    """It sleeps before each of its requests in turn, while another puts other content under the same name. One of them wins, and stays."""
    other = made(server.url, server.url)
    for at in range(1, 20):
        here, theirs = place(server), []

        def before(request: int, at: int = at, here: World = here, theirs: list[bool] = theirs) -> None:
            if request == at:
                theirs.append(other.put_if_absent(here.path("x"), b"theirs"))

        proxy.plan()
        proxy.before = before
        ours = storage(server, proxy).put_if_absent(here.path("x"), b"ours")
        proxy.before = None
        if not theirs:
            assert at == 7, "look (at the bucket too, once), draft, claim, content, tidy up"
            assert ours
            return
        assert [ours, *theirs].count(True) == 1
        assert here.content() == {"x": b"ours" if ours else b"theirs"}
        assert not other.put_if_absent(here.path("x"), b"later")
    raise AssertionError("the paused writer never came to its end")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_request_is_survived(server: Server, proxy: Proxy, kind: str) -> None:
    """One that passes: the put ends True, whatever was carried out without an answer."""
    for at in range(1, 7):
        here = place(server)
        proxy.plan(Fault(kind, at))
        assert storage(server, proxy, read_seconds=0.3).put_if_absent(here.path("x"), b"ours"), (kind, at)
        proxy.quiet()
        assert proxy.fired
        assert here.content() == {"x": b"ours"}
        assert not made(server.url, server.url).put_if_absent(here.path("x"), b"theirs")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["503", "reset_before", "reset_after"])
def test_a_writer_that_dies_anywhere_has_committed_or_not(server: Server, proxy: Proxy, kind: str) -> None:
    """From its claim on its content stands: who comes next finds it, puts it where it belongs, and loses. Before it, the next one wins."""
    outcomes = []
    for at in range(1, 6):
        here = place(server)
        proxy.plan(Fault(kind, at, ALWAYS))
        with pytest.raises(Unavailable):
            storage(server, proxy, operation_seconds=0.1).put_if_absent(here.path("x"), b"ours")
        proxy.quiet()
        proxy.plan()
        claimed = "Item" in dynamodb(server.url).get_item(TableName=TABLE, Key={"path": {"S": here.path("x")}}, ConsistentRead=True)
        won = storage(server, proxy).put_if_absent(here.path("x"), b"theirs")
        assert won is not claimed
        assert here.content() == {"x": b"ours" if claimed else b"theirs"}
        outcomes.append(claimed)
    assert outcomes == ([False, False, False, True, True] if kind == "reset_after" else [False, False, False, False, True])


def test_drafts_are_tidied_up_and_never_listed(server: Server, proxy: Proxy) -> None:
    here = place(server)
    assert storage(server, proxy).put_if_absent(here.path("x"), b"1")
    assert not storage(server, proxy).put_if_absent(here.path("x"), b"2")
    keys = [key for key in server.objects("lake") if key.startswith(here.root.partition("//lake/")[2])]
    assert len(keys) == 1
    proxy.plan(Fault("500", 6, ALWAYS))
    assert storage(server, proxy, operation_seconds=0.1).put_if_absent(here.path("y"), b"1"), "committed all the same"
    assert [key for key in server.objects("lake") if DRAFT_PREFIX in key and here.root.partition("//lake/")[2] in key]
    assert here.content() == {"x": b"1", "y": b"1"}


def test_an_emptied_warehouse_is_not_taken_for_a_new_one(server: Server, proxy: Proxy) -> None:
    """Else a writer of the old life, waking up, would find its number free."""
    here = place(server)
    assert storage(server, proxy).put_if_absent(here.path("x"), b"1")
    here.storage.delete([here.path("x")])
    with pytest.raises(Refused, match=r"/x: was committed and then deleted.*use another s3\.commit_table, or delete its items"):
        storage(server, proxy).put_if_absent(here.path("x"), b"2")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ResourceNotFoundException", r"there is no DynamoDB table compactor-commits at 127\.0\.0\.1:\d+: create it as docs/s3\.md says"),
        ("AccessDeniedException", r"not allowed to dynamodb:PutItem on the table compactor-commits: grant it"),
        ("ExpiredTokenException", r"the credentials have expired"),
        ("ValidationException", r"127\.0\.0\.1:\d+ refused dynamodb:PutItem \(ValidationException"),
    ],
)
def test_a_no_of_dynamodb_is_told(server: Server, proxy: Proxy, code: str, said: str) -> None:
    """Nothing is committed, and it says what to do."""
    here = place(server)
    proxy.plan(Fault(f"400 {code}", times=ALWAYS, path="DynamoDB"))
    with pytest.raises(Refused, match=rf"/x: {said}"):
        storage(server, proxy).put_if_absent(here.path("x"), b"1")
    assert here.content() == {}


class Claimed(Lake):
    """A lake in that store; its observer looks past the proxy."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        root = f"s3://lake/claimed{next(NUMBERS)}/t"
        super().__init__(table(root=root, landing=f"{root}/incremental"))
        self._server, self._proxy = server, proxy
        self.storage = made(server.url, server.url)  # type: ignore[assignment]

    def through(self, url: str) -> Any:
        """One run of a process of its own."""
        self.now += 1.0
        there = made(self._server.url, url, read_seconds=60.0)
        engine = ListEngine(there)
        return run_table(Flows(there, lambda: engine, lambda: self.catalog, self._clock, lambda: f"{next(self._nonces):08x}"), self.spec)


@pytest.mark.slow
def test_two_writers_of_one_table_lose_and_double_nothing(server: Server, proxy: Proxy) -> None:
    """Before some request of a run (every one at full size), another machine runs the whole table; the invariants hold throughout."""
    counting = Claimed(server, proxy)
    DELIVERIES[0](counting)
    proxy.plan()
    counting.through(proxy.url)
    requests = [*proxy.requests]
    around = [number for number, (_, path) in enumerate(requests, 1) if "DynamoDB" in path]
    assert len(around) >= 1
    chosen = range(1, len(requests) + 1) if FULL else sorted({*range(around[0] - 2, around[0] + 4)})
    for at in chosen:
        lake = Claimed(server, proxy)
        watch = Watch(lake)
        DELIVERIES[0](lake)

        def before(request: int, at: int = at, lake: Claimed = lake) -> None:
            if request == at:
                lake.through(server.url)

        proxy.plan()
        proxy.before = before
        with suppress(TryLater):
            lake.through(proxy.url)
        proxy.before = None
        watch.look()
        for deliver in DELIVERIES[1:]:
            deliver(lake)
            lake.through(server.url)
            watch.settled()
