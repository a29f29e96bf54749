"""The shared Spark session, and a small lake to play with."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.parts.one_spark import AVRO, FAST, spark
from tests.spark.lake import Lake

__all__ = ["AVRO", "FAST", "lake", "spark"]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An empty warehouse in a database of its own."""
    return Lake(spark, tmp_path)
