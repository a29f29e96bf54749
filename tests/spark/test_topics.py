"""Kafka through Spark: records into files, one for each partition that has any. The records come from memory; `make demo-stack` and `tests/engines/test_ingest.py` have a real Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compactor.core.sources.kafka_files import Offsets
from compactor.spark.input.topics import KafkaTopics
from compactor.storage.local import LocalStorage

pytestmark = pytest.mark.spark

COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


class FromMemory(KafkaTopics):
    """A cluster that holds these offsets of each partition."""

    def __init__(self, spark: SparkSession, held: dict[tuple[str, int], list[int]]) -> None:
        super().__init__(spark, LocalStorage(), {"bootstrap.servers": "nowhere:9092"})
        self._held = held

    def _read(self, wanted: Sequence[Offsets]) -> Any:
        rows = [
            (bytearray(b"k"), None, item.topic, item.partition, offset, NOON, [])
            for item in wanted
            for offset in self._held[item.topic, item.partition]
            if item.first <= offset <= item.last
        ]
        return self._spark.createDataFrame(rows, COLUMNS).repartition(2, "topic", "partition")


def test_a_file_for_each_partition_that_has_records(spark: SparkSession, tmp_path: Path) -> None:
    """Counted, with the time of the newest; a stretch without records makes no file."""
    topics = FromMemory(spark, {("a.b", 0): [3, 4, 6], ("a.b", 1): [], ("c", 0): [9]})
    wanted = [Offsets("a.b", 0, 3, 7), Offsets("a.b", 1, 0, 5), Offsets("c", 0, 9, 9)]
    found = {item.offsets: item for item in topics.fetch(wanted, str(tmp_path / "staging"))}
    assert {wanted[0]: 3, wanted[2]: 1} == {offsets: item.records for offsets, item in found.items()}
    assert {NOON.timestamp()} == {item.until for item in found.values()}
    read = spark.read.parquet(found[wanted[0]].file.path)
    assert [3, 4, 6] == sorted(row.offset for row in read.collect())
    assert {"key", "value", "topic", "partition", "offset", "timestamp", "headers"} == set(read.columns)


def test_a_round_without_any_record_makes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """Only the ends of transactions stand there: nothing to land, and no error."""
    topics = FromMemory(spark, {("a", 0): []})
    assert [] == topics.fetch([Offsets("a", 0, 0, 5)], str(tmp_path / "staging"))
