"""One embedded metastore for the tests of a module: a process has one Spark session at a time, others open their own. The Glue server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor.spark.session import SessionSettings, close_session, open_session
from tests.parts.s3_fixtures import proxy, server

__all__ = ["hive_session", "proxy", "server"]


@pytest.fixture(scope="module")
def hive_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session on an embedded Derby metastore in a scratch folder."""
    root = tmp_path_factory.mktemp("metastore")
    settings = SessionSettings(
        None,
        str(root / "metastore"),
        str(root / "warehouse"),
        master="local[2]",
        conf=(("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"), ("spark.driver.memory", "1g")),
    )
    spark = open_session(settings)
    yield spark
    close_session(spark)
