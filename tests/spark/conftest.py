"""One Spark session with an embedded metastore for all tests of this folder, and a small lake to play with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from compactor.app.spark import coordinates
from compactor.demo import SPARK
from compactor.spark.session import SessionSettings, close_session, open_session
from tests.spark.lake import Lake

FAST = tuple(SPARK.items())
"""For jobs of a few rows: what compiling would gain is never earned back. The command-line test runs with code generation."""

AVRO = not pyspark.__version__.startswith("4")
"""Spark 4's reader of Avro is not in Maven Central for every version (see the Makefile)."""


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that reads Avro. It ends with the folder's tests: a process has one at a time, and those of other folders open their own."""
    root = tmp_path_factory.mktemp("session")
    avro = (("spark.jars.packages", ",".join(coordinates("spark-avro"))),) if AVRO else ()
    # hundreds of runs in one JVM: by the hundredth, what it compiles has halved their cost
    java = (("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=4"),)
    session = open_session(SessionSettings(None, str(root / "metastore"), str(root / "warehouse"), conf=(*FAST, *java, *avro)))
    yield session
    close_session(session)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An empty warehouse in a database of its own."""
    return Lake(spark, tmp_path)
