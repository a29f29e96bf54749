"""A real metastore behind a network that fails, and other publishers while one sleeps: every call of a publish, in every way."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.catalog.hive import HiveCatalog
from compactor.core.catalog.ddl import Column, ViewDef
from compactor.core.model.errors import TryLater
from compactor.core.results.record import TableReport
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.flows.test_every_crash import DELIVERIES
from tests.oracle.engine import ListEngine
from tests.oracle.lake import Lake
from tests.oracle.lake import table as lake_table
from tests.oracle.sizes import FULL
from tests.oracle.watch import Watch
from tests.parts.metastore import metastore
from tests.parts.tcp_proxy import KINDS, TcpFault, TcpProxy

pytestmark = [pytest.mark.engines, pytest.mark.spark]

IMPATIENT = {"hive.metastore.client.socket.timeout": "2s", "hive.metastore.client.connect.retry.delay": "0s"}
COMPARES, OLD = "2.3.10", "2.3.9"
"""Hive's metastore with and without compare-and-set (HIVE-26882); Spark's jars have the old one."""
ALLOW = {"datanucleus.query.sql.allowAll": "true"}
PASSING = ("reset_before", "reset_after", "cut", "slow", "late")


class Parts:
    """A metastore, a proxy before it, and a client each way; databases nobody has used."""

    def __init__(self, proxy: TcpProxy, direct: HiveCatalog, behind: HiveCatalog, version: str) -> None:
        self.proxy, self.direct, self.behind, self.version = proxy, direct, behind, version
        self._names = (f"school{number}" for number in itertools.count())

    def lake(self) -> BehindLake:
        """A new lake."""
        return BehindLake(self, next(self._names))


class BehindLake(Lake):
    """A lake of the list engine whose catalog is the metastore; its disturbed runs reach that through the proxy, all others directly."""

    def __init__(self, parts: Parts, database: str) -> None:
        super().__init__(lake_table(database=database, tables_in=database))
        self.parts = parts
        self.catalog = parts.direct  # type: ignore[assignment]

    def disturbed(self) -> TableReport:
        """One run through the proxy."""
        self.now += 1.0
        engine = ListEngine(self.storage)
        env = Environment(self.storage, lambda: engine, lambda: self.parts.behind, self._clock, lambda: f"{next(self._nonces):08x}")
        return run_table(Table(env, self.spec))

    def twin(self) -> BehindLake:
        """The same lake, for another process."""
        other = BehindLake(self.parts, self.spec.database)
        other.storage, other.now, other.delivered, other._nonces = self.storage, self.now, self.delivered, self._nonces
        return other


@pytest.fixture(scope="module", params=[COMPARES, OLD])
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """Both metastores, one after the other."""
    root = tmp_path_factory.mktemp("thrift")
    newer: dict[str, Any] = {"version": COMPARES, "settings": ALLOW} if request.param == COMPARES else {}
    with metastore(root, "postgres", **newer) as uri, TcpProxy(int(uri.rpartition(":")[2])) as proxy:
        conf = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"), ("spark.driver.memory", "1g"))
        spark: Any = open_session(SessionSettings(uri, None, str(root / "warehouse"), master="local[2]", conf=conf))
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        direct = HiveCatalog(spark)
        for name, value in {**IMPATIENT, "hive.metastore.uris": f"thrift://127.0.0.1:{proxy.port}"}.items():
            hadoop.set(name, value)
        try:
            yield Parts(proxy, direct, HiveCatalog(spark), request.param)
        finally:
            close_session(spark)


@pytest.fixture(autouse=True)
def calm(parts: Parts) -> Iterator[None]:
    """No test leaves a fault to the next."""
    yield
    parts.proxy.before = None
    parts.proxy.plan()


def numbered(database: str, version: int, *more: str) -> ViewDef:
    """A view of one table's life at a version; `more` columns that came later."""
    columns = (Column("id", "bigint"), *(Column(name, "string") for name in more))
    text = f"SELECT {version}L AS `id`{''.join(f', {version!r} AS `{name}`' for name in more)}"
    return ViewDef(database, "t", text, columns, {"compactor.uuid": "u", "compactor.version": str(version)})


def shown(parts: Parts, database: str) -> int:
    """The version in the view's properties, which its text must be of."""
    found = parts.direct.view(database, "t")
    assert found is not None
    version = int(found.properties["compactor.version"])
    assert found.text.startswith(f"SELECT {version}L")
    return version


@pytest.mark.parametrize("more", [(), ("late",)], ids=["same columns", "a column comes"])
@pytest.mark.parametrize("there_before", [False, True], ids=["first view", "replaced view"])
def test_a_publisher_paused_before_any_of_its_calls(parts: Parts, there_before: bool, more: tuple[str, ...]) -> None:
    """Another shows version 3 while one with version 2 sleeps. Where the metastore compares, the view stays at 3; else what is shown may be older
    for as long as the sleeper's flow takes to look at the newest Snapshot again, and only when it slept between its last look and its last call."""
    slept = back = 0
    for at in range(1, 12):
        database = parts.lake().spec.database
        parts.direct.ensure_database(database, "/x")
        if there_before:
            parts.direct.replace_view(numbered(database, 1))
        happened: list[int] = []

        def before(call: int, at: int = at, database: str = database, happened: list[int] = happened) -> None:
            if call == at:
                happened.append(call)
                parts.direct.replace_view(numbered(database, 3, *more))

        parts.proxy.plan()
        parts.proxy.before = before
        parts.behind.replace_view(numbered(database, 2, *more))
        parts.proxy.before = None
        if not happened:
            assert shown(parts, database) == 2
            break
        slept += 1
        back += shown(parts, database) != 3
    assert slept >= 2, "a view is read, then replaced"
    if parts.version == COMPARES:
        assert back == 0
    else:
        # between reading it and the last of what replaces it
        assert back <= slept - 1
        assert back > 0 or not there_before, "this metastore compares: COMPARES and OLD are no longer what they say"


@pytest.mark.parametrize("pause", range(1, 40) if FULL else (2, 9, 16))
def test_a_run_that_sleeps_through_another_ones_publish_ends_with_the_newest(parts: Parts, pause: int) -> None:
    """Before one of the calls of its publish another machine commits and publishes; on a metastore that compares the view never goes back."""
    lake = parts.lake()
    DELIVERIES[0](lake)
    lake.disturbed()
    seen = [1]

    def look() -> None:
        found = parts.direct.view(lake.spec.database, "t")
        assert found is not None
        version = int(found.properties["compactor.version"])
        assert version >= seen[-1] or parts.version == OLD, "the view went back"
        seen.append(version)

    def before(call: int) -> None:
        look()
        if call == pause:
            parts.proxy.before = None
            DELIVERIES[2](lake)
            lake.twin().run()
            parts.proxy.before = before
            look()

    DELIVERIES[1](lake)
    parts.proxy.plan()
    parts.proxy.before = before
    lake.disturbed()
    parts.proxy.before = None
    newest = lake.newest()
    assert newest is not None
    assert lake.look().version == newest.version  # type: ignore[union-attr]
    Watch(lake).settled()


def calls(parts: Parts) -> list[int]:
    """How many calls each run of the program makes."""
    lake, found = parts.lake(), []
    for deliver in DELIVERIES:
        deliver(lake)
        parts.proxy.plan()
        lake.disturbed()
        found.append(parts.proxy.calls)
    assert min(found) > 5
    return found


def points(parts: Parts, kind: str) -> list[tuple[int, int]]:
    """Which call of which run is to fail: every one, or a sample; few of those that take seconds."""
    every = [(run, at) for run, number in enumerate(calls(parts)) for at in range(1, number + 1)]
    takes_seconds = kind in ("slow", "late")
    if FULL and not takes_seconds:
        return every
    return random.Random(kind).sample(every, 12 if FULL else 2 - takes_seconds)


def survives(lake: BehindLake, may_give_up: bool) -> bool:
    """Whether a disturbed run ended right."""
    if not may_give_up:
        lake.disturbed()
        return True
    with contextlib.suppress(TryLater):
        lake.disturbed()
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_call_fails_ends_right_or_the_next_one_does(parts: Parts, kind: str) -> None:
    """For every call of every run. One failure that passes the client itself survives; of two the run says so, and the next one finishes it."""
    expected = parts.lake()
    for deliver in DELIVERIES:
        deliver(expected)
        expected.run()
    ended = 0
    for run, at in points(parts, kind):
        lake = parts.lake()
        watch = Watch(lake)
        for number, deliver in enumerate(DELIVERIES):
            deliver(lake)
            if number != run:
                lake.run()
            else:
                parts.proxy.plan(TcpFault(kind, at))
                ended += survives(lake, may_give_up=kind not in PASSING)
                assert parts.proxy.fired
                parts.proxy.plan()
                watch.look()
                lake.run()
            watch.settled()
        assert lake.look().rows == expected.look().rows  # type: ignore[union-attr]
    assert ended or kind in ("away", "gone")
