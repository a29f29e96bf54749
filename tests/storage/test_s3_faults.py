"""S3 through a network and a store that fail: every fault × every operation × every request of it."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from compactor.core.formats import checksum
from compactor.core.model.errors import Unavailable
from compactor.core.model.files import FileInfo
from compactor.core.settings.s3 import S3Settings, place
from compactor.storage.s3.storage import PROBE_PREFIX, S3Storage
from tests.oracle.s3_lake import SETTINGS
from tests.oracle.sizes import FULL
from tests.parts.proxy import ALWAYS, KINDS, STALE_SECONDS, Fault, Proxy
from tests.parts.s3 import Server
from tests.storage.worlds import World

pytestmark = pytest.mark.slow
FAST = dataclasses.replace(SETTINGS, list_page=2, copy_bytes_max=1000, copy_part_bytes=700)
SMALL, LARGE = b"small", bytes(range(256)) * 6


@cache
def connected(url: str, seconds: float) -> S3Storage:
    """One storage an endpoint and patience, its conditional puts tried out."""
    made = fresh(url, seconds)
    made.conditional_puts("s3://lake/x")
    return made


def fresh(url: str, seconds: float = 20.0, **more: Any) -> S3Storage:
    """A storage that knows nothing yet."""
    return S3Storage("s3://lake", S3Settings(**{**vars(FAST), "endpoint": url, "operation_seconds": seconds, **more}))


@dataclass(frozen=True)
class Act:
    """An operation: what is there before and after it, what it gives, and what may be seen when it was cut short."""

    act: Callable[[S3Storage, World], Any]
    before: dict[str, bytes]
    after: dict[str, bytes]
    between: tuple[dict[str, bytes], ...] = ()
    gives: Any = None


def _names(found: Iterator[FileInfo], world: World) -> list[tuple[str, int]]:
    return [(info.path[len(world.root) + 1 :], info.size) for info in found]


KEY = "arn:aws:kms:us-east-1:123456789012:key/1"


def _keyed(storage: S3Storage, world: World) -> S3Storage:
    """The storage, with a key for what lies below `archive` of this world."""
    storage._client._archive_keys = {world.root: KEY}
    return storage


def _key(world: World, name: str) -> str | None:
    """The key of an object, looked at past the proxy."""
    assert isinstance(world.storage, S3Storage)
    head = world.storage._client.head(place(world.path(name)))
    assert head is not None
    return head.response.get("SSEKMSKeyId")


FIVE = {f"in/{n}": b"%d" % n for n in range(5)}
ACTS = {
    "list": Act(lambda s, w: _names(s.list(w.path("in")), w), FIVE, FIVE, gives=[(name, 1) for name in FIVE]),
    "list nothing": Act(lambda s, w: _names(s.list(w.path("out")), w), FIVE, FIVE, gives=[]),
    "read": Act(lambda s, w: s.read(w.path("x")), {"x": LARGE}, {"x": LARGE}, gives=LARGE),
    "checksum": Act(lambda s, w: checksum.agrees(s.checksum(w.info("x")), SMALL), {"x": SMALL}, {"x": SMALL}, gives=True),
    "stat": Act(lambda s, w: s.stat(w.path("x")) == w.info("x"), {"x": SMALL}, {"x": SMALL}, gives=True),
    "stat nothing": Act(lambda s, w: s.stat(w.path("x")), {}, {}),
    "write": Act(lambda s, w: s.write(w.path("x"), SMALL), {}, {"x": SMALL}),
    "write over": Act(lambda s, w: s.write(w.path("x"), SMALL), {"x": LARGE}, {"x": SMALL}),
    "put": Act(lambda s, w: s.put_if_absent(w.path("x"), SMALL), {}, {"x": SMALL}, gives=True),
    "put on a taken name": Act(lambda s, w: s.put_if_absent(w.path("x"), LARGE), {"x": SMALL}, {"x": SMALL}, gives=False),
    "put of what is there": Act(lambda s, w: s.put_if_absent(w.path("x"), SMALL), {"x": SMALL}, {"x": SMALL}, gives=False),
    "replace": Act(lambda s, w: s.replace(w.first["x"], SMALL), {"x": LARGE}, {"x": SMALL}, gives=True),
    "replace what has changed": Act(lambda s, w: s.replace(FileInfo(w.path("x"), 5, "other", 0.0), LARGE), {"x": SMALL}, {"x": SMALL}, gives=False),
    "replace what is gone": Act(lambda s, w: s.replace(FileInfo(w.path("x"), 5, "other", 0.0), LARGE), {}, {}, gives=False),
    "move": Act(lambda s, w: s.move(w.first["x"], w.path("y")), {"x": SMALL}, {"y": SMALL}, ({"x": SMALL, "y": SMALL},), gives=True),
    "move in parts": Act(lambda s, w: s.move(w.first["x"], w.path("y")), {"x": LARGE}, {"y": LARGE}, ({"x": LARGE, "y": LARGE},), gives=True),
    "move what moved": Act(lambda s, w: s.move(FileInfo(w.path("x"), 5, w.first["y"].etag, 0.0), w.path("y")), {"y": SMALL}, {"y": SMALL}, gives=True),
    "archive under a key": Act(
        lambda s, w: (_keyed(s, w).move(w.first["x"], w.path("archive/x")), _key(w, "archive/x")),
        {"x": SMALL}, {"archive/x": SMALL}, ({"x": SMALL, "archive/x": SMALL},), gives=(True, KEY),
    ),
    "archive under a key in parts": Act(
        lambda s, w: (_keyed(s, w).move(w.first["x"], w.path("archive/x")), _key(w, "archive/x")),
        {"x": LARGE}, {"archive/x": LARGE}, ({"x": LARGE, "archive/x": LARGE},), gives=(True, KEY),
    ),
    "encrypt": Act(
        lambda s, w: (_keyed(s, w).encrypt(w.path("archive/x")) in (True, False), _key(w, "archive/x")),
        {"archive/x": SMALL}, {"archive/x": SMALL}, gives=(True, KEY),
    ),
    "encrypt in parts": Act(
        lambda s, w: (_keyed(s, w).encrypt(w.path("archive/x")) in (True, False), _key(w, "archive/x")),
        {"archive/x": LARGE}, {"archive/x": LARGE}, gives=(True, KEY),
    ),
    "delete one": Act(lambda s, w: s.delete([w.path("in/0")]), {"in/0": b"0"}, {}),
    "delete": Act(
        lambda s, w: s.delete([w.path(name) for name in (*FIVE, "in/\x01", "none")]),
        {**FIVE, "in/\x01": b""},
        {},
        tuple({**dict(some), "in/\x01": b""} for size in range(5) for some in itertools.combinations(FIVE.items(), size)),
    ),
    "now": Act(lambda s, w: abs(s.now() - w.storage.now()) < 3 * 3600, {}, {}, gives=True),
}  # fmt: skip


class Seen(World):
    """A world looked at past the proxy; `first` is what `prepare` wrote."""

    def __init__(self, server: Server, before: dict[str, bytes]) -> None:
        super().__init__(connected(server.url, 20.0), "s3://lake/faults")
        self.first = {name: self.put(name, data) for name, data in before.items()}


def _once(act: Act, storage: S3Storage, again: S3Storage, world: Seen, proxy: Proxy, *faults: Fault) -> None:
    """The operation ends right, or raises Unavailable, leaves nothing by half, and ends right when it is repeated."""
    proxy.plan(*faults)
    try:
        assert act.act(storage, world) == act.gives
        proxy.quiet()
    except Unavailable:
        proxy.quiet()
        assert world.content() in (act.before, act.after, *act.between)
        fired = proxy.fired
        proxy.plan()
        repeated = act.act(again, world)
        if act.gives is True and act.before == {}:
            # a put whose answer was lost is found done; its caller recognises its own bytes
            assert repeated in (True, False)
        else:
            assert repeated == act.gives
        assert fired
    assert world.content() == act.after


@cache
def requests(name: str, server: Server, url: str) -> int:
    """How many an operation makes when nobody disturbs it."""
    with Proxy(server) as counting:
        assert ACTS[name].act(fresh(counting.url), Seen(server, ACTS[name].before)) == ACTS[name].gives
        return len([path for _, path in counting.requests if PROBE_PREFIX not in path])


def numbers(name: str, kind: str, server: Server, proxy: Proxy, sample: int) -> list[int]:
    """At which request to fail: at every one and a few more, for a retry has its own; or a sample."""
    every = range(1, requests(name, server, proxy.url) + 4)
    return [*every] if FULL else random.Random(name + kind).sample(every, sample)


@pytest.fixture(autouse=True)
def calm(proxy: Proxy) -> Iterator[None]:
    """No test leaves a fault to the next."""
    proxy.plan()
    yield
    proxy.plan()
    proxy.quiet()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ACTS)
def test_a_fault_at_any_request_is_survived(server: Server, proxy: Proxy, name: str, kind: str) -> None:
    """The operation gives what it gives undisturbed."""
    act, storage = ACTS[name], connected(proxy.url, 20.0)
    for number in numbers(name, kind, server, proxy, 1 if kind in ("slow", "late", "stale") else 2):
        _once(act, storage, storage, Seen(server, act.before), proxy, Fault(kind, number))


@pytest.mark.parametrize("kind", ["500", "503", "429", "reset_before", "reset_after", "cut_head", "cut_length", "slow", "409 OperationAborted"])
@pytest.mark.parametrize("name", ACTS)
def test_a_fault_that_stays_is_unavailable_and_a_repetition_ends_right(server: Server, proxy: Proxy, name: str, kind: str) -> None:
    """From every request on."""
    act, impatient, patient = ACTS[name], connected(proxy.url, 0.15), connected(proxy.url, 20.0)
    for number in numbers(name, kind, server, proxy, 1):
        _once(act, impatient, patient, Seen(server, act.before), proxy, Fault(kind, number, ALWAYS))


@pytest.mark.parametrize("kind", [*KINDS, "409 ConditionalRequestConflict"])
@pytest.mark.parametrize("data", ["own", "equal"])
def test_one_of_many_racing_puts_wins_whatever_the_network_does(server: Server, proxy: Proxy, kind: str, data: str) -> None:
    """Exactly one, also when all bring the same content; and what it brought is there."""
    storage, chance = connected(proxy.url, 60.0), random.Random(kind + data)
    for _ in range(10 if FULL else 2):
        world = Seen(server, {})
        proxy.plan(*[Fault(kind, number) for number in chance.sample(range(1, 16), 6)])
        with ThreadPoolExecutor(6) as pool:
            mine = [b"%d" % n if data == "own" else b"same" for n in range(6)]
            won = [*pool.map(lambda data, world=world: storage.put_if_absent(world.path("x"), data), mine)]
        proxy.quiet()
        assert won.count(True) == 1
        assert world.content() == {"x": mine[won.index(True)]}


@pytest.mark.parametrize("kind", KINDS)
def test_racing_moves_of_one_object_leave_one_copy(server: Server, proxy: Proxy, kind: str) -> None:
    """And all of them say that it is done."""
    storage, chance = connected(proxy.url, 60.0), random.Random(kind)
    world = Seen(server, {"x": SMALL})
    proxy.plan(*[Fault(kind, number) for number in chance.sample(range(1, 16), 6)])
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: storage.move(world.first["x"], world.path("y")), range(4)))
    proxy.quiet()
    assert world.content() == {"y": SMALL}


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_put_of_a_process_may_meet_any_fault(server: Server, proxy: Proxy, kind: str) -> None:
    """Trying out what the store can do is part of it, and leaves nothing that a listing shows."""
    for number in range(1, 6):
        world = Seen(server, {})
        storage = fresh(proxy.url)
        proxy.plan(Fault(kind, number))
        assert storage.put_if_absent(world.path("x"), SMALL)
        proxy.quiet()
        assert world.content() == {"x": SMALL}
        if kind in ("slow", "late", "stale") and not FULL:
            break
    assert any(PROBE_PREFIX in path for _, path in proxy.requests)


def test_what_a_stale_store_shows_misleads_nobody(server: Server, proxy: Proxy) -> None:
    """Names created, taken, moved and replaced since the moment that it still shows: late, but right."""
    storage = connected(proxy.url, 20.0)
    world = Seen(server, {"in/a": b"a", "in/b": b"old", "in/c": b"c", "gone": b"g"})
    proxy.plan(Fault("stale"))
    storage.stat(world.path("anything"))

    def stale() -> None:
        proxy.plan(Fault("stale"))
        world.storage.delete([world.path("out", name) for name in "abcx"])
        storage.stat(world.path("anything"))

    late = world.put("in/late", b"late")
    assert storage.move(late, world.path("out", "late"))
    stale()
    assert world.storage.move(world.first["in/a"], world.path("out", "a"))
    assert storage.move(world.first["in/a"], world.path("out", "a"))
    stale()
    world.put("in/b", b"newer")
    assert not storage.move(world.first["in/b"], world.path("out", "b"))
    stale()
    world.put("out/c", b"other")
    with pytest.raises(FileExistsError):
        storage.move(world.first["in/c"], world.path("out", "c"))
    stale()
    world.put("out/x", b"x")
    assert not storage.put_if_absent(world.path("out", "x"), b"y")
    assert {"in/b": b"newer", "in/c": b"c", "gone": b"g"}.items() <= world.content().items()
    assert STALE_SECONDS > FAST.wait_seconds_max, "the storage has to meet the past"


@pytest.mark.parametrize("when", range(1, 12))
def test_a_sink_that_writes_the_name_again_loses_nothing(server: Server, proxy: Proxy, when: int) -> None:
    """Just before any request of a move: the new content stays, and the move says whether the old one arrived."""
    storage, world = connected(proxy.url, 20.0), Seen(server, {"x": SMALL})
    act = ACTS["move"]
    proxy.plan()
    proxy.before = lambda number: world.put("x", b"newer") if number == when else None
    try:
        moved = act.act(storage, world)
    finally:
        proxy.before = None
    reached = len(proxy.requests) >= when
    if not reached:
        assert (moved, world.content()) == (True, {"y": SMALL})
    elif moved:
        assert world.content() == {"x": b"newer", "y": SMALL}
    else:
        assert world.content() == {"x": b"newer"}
