"""One Spark session for all tests of a process: a JVM takes 20 s to start, and half a minute of work until it is warm.

Tests get it as `spark`. Tests that go through App take `app_on_one_spark`: App then uses the same session, and its databases are dropped after
the test. A test that opens a session of its own does so without this one: it is closed first (tests/conftest.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

from compactor.app import base as base_module
from compactor.app.spark import coordinates
from compactor.config.settings import Settings
from compactor.demo import SPARK
from compactor.spark import session as session_module
from compactor.spark.session import PARQUET, SessionSettings, close_session, open_session

FAST = tuple(SPARK.items())
"""For jobs of a few rows: what compiling would gain is never earned back. The command-line test runs with code generation."""

AVRO = not pyspark.__version__.startswith("4")
"""Spark 4's reader of Avro is not in Maven Central for every version (see the Makefile)."""

_open: list[tuple[SparkSession, tempfile.TemporaryDirectory[str]]] = []


def one_spark() -> SparkSession:
    """The session, started when it is first asked for. It reads Avro, and has an embedded metastore."""
    if not _open:
        scratch = tempfile.TemporaryDirectory(prefix="one-spark-")
        avro = (("spark.jars.packages", ",".join(coordinates("spark-avro"))),) if AVRO else ()
        # Hundreds of runs in one JVM: what it compiles halves their cost. Nobody reads the metastore after a crash.
        java = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=4 -Dderby.system.durability=test"),)
        settings = SessionSettings(None, f"{scratch.name}/metastore", f"{scratch.name}/warehouse", master="local[2]", conf=(*FAST, *java, *avro))
        _open.append((open_session(settings), scratch))
    return _open[0][0]


def close_one_spark() -> None:
    """End it; the next test that asks starts another."""
    while _open:
        session, scratch = _open.pop()
        close_session(session)
        scratch.cleanup()


@pytest.fixture
def spark() -> SparkSession:
    """The session of this process."""
    return one_spark()


@pytest.fixture
def app_on_one_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """App opens no session of its own. Databases stay when App restarts Spark; they are dropped for another warehouse, and after the test."""
    before: set[str] = set()
    home: list[str] = []

    def opened(settings: Settings, *_: object) -> SparkSession:
        session = one_spark()
        if home != [settings.warehouse]:
            drop()
            home[:] = [settings.warehouse]
            before.update(database.name for database in session.catalog.listDatabases())
        (kind,) = {settings.spec(name).parquet for name in settings.names}
        write_as(session, kind)
        return session

    def closed(session: SparkSession) -> None:
        session.sql("USE default")
        write_as(session, "hive")

    def write_as(session: SparkSession, form: str) -> None:
        for name, value in PARQUET[form].items():
            session.conf.set(name, value)

    def drop() -> None:
        if home and _open:
            closed(session := one_spark())
            for database in session.catalog.listDatabases():
                if database.name not in before:
                    session.sql(f"DROP DATABASE `{database.name}` CASCADE")

    monkeypatch.setattr(base_module, "open_session", opened)
    monkeypatch.setattr(session_module, "close_session", closed)
    yield
    drop()
