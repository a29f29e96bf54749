"""The shared Spark session with its embedded metastore. The Glue server."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.parts.one_spark import one_spark
from tests.parts.s3_fixtures import proxy, server

__all__ = ["hive_session", "proxy", "server"]


@pytest.fixture
def hive_session() -> SparkSession:
    """The session of this process. Only tests marked `spark` ask for it."""
    return one_spark()
