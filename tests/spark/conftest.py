"""One Spark session with an embedded metastore per test module, and a small lake to play with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compactor.demo import SPARK
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.spark.lake import Lake

FAST = tuple(SPARK.items())
"""For jobs of a few rows: what compiling would gain is never earned back. The command-line test runs with code generation."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that ends with the module: a process has one at a time."""
    root = tmp_path_factory.mktemp("session")
    session = open_session(SessionSettings(None, str(root / "metastore"), str(root / "warehouse"), conf=FAST))
    yield session
    close_session(session)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An empty warehouse in a database of its own."""
    return Lake(spark, tmp_path)
