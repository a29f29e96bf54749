"""Kafka through Spark: records into files, one for each partition that has any. The records come from memory; `make demo-stack` and `tests/engines/test_ingest.py` have a real Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compactor.core.sources.kafka_files import Offsets
from compactor.spark.input import topics as topics_module
from compactor.spark.input.topics import KafkaTopics
from compactor.storage.local import LocalStorage

pytestmark = pytest.mark.spark

COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, millis BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


class FromMemory(KafkaTopics):
    """A cluster that holds these offsets of each partition."""

    def __init__(self, spark: SparkSession, held: dict[tuple[str, int], list[int]], millis: int = int(NOON.timestamp()) * 1000) -> None:
        super().__init__(spark, LocalStorage(), {"bootstrap.servers": "nowhere:9092"})
        self._held, self._millis = held, millis

    def _read(self, wanted: Sequence[Offsets]) -> Any:
        rows = [
            (bytearray(b"k"), None, item.topic, item.partition, offset, self._millis + offset, [])
            for item in wanted
            for offset in self._held[item.topic, item.partition]
            if item.first <= offset <= item.last
        ]
        made = self._spark.createDataFrame(rows, COLUMNS).repartition(2, "topic", "partition")
        return made.selectExpr("*", "timestamp_millis(millis) AS timestamp").drop("millis")


def test_a_file_for_each_partition_that_has_records(spark: SparkSession, tmp_path: Path) -> None:
    """Counted, with the time of the newest; a stretch without records makes no file."""
    topics = FromMemory(spark, {("a.b", 0): [3, 4, 6], ("a.b", 1): [], ("c", 0): [9]})
    wanted = [Offsets("a.b", 0, 3, 7), Offsets("a.b", 1, 0, 5), Offsets("c", 0, 9, 9)]
    found = {item.offsets: item for item in topics.fetch(wanted, str(tmp_path / "staging"))}
    assert {wanted[0]: 3, wanted[2]: 1} == {offsets: item.records for offsets, item in found.items()}
    assert [NOON.timestamp() + 0.006, NOON.timestamp() + 0.009] == [found[wanted[0]].until, found[wanted[2]].until]
    read = spark.read.parquet(found[wanted[0]].file.path)
    assert [3, 4, 6] == sorted(row.offset for row in read.collect())
    assert {"key", "value", "topic", "partition", "offset", "timestamp", "headers"} == set(read.columns)


def test_a_round_without_any_record_makes_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """Only the ends of transactions stand there: nothing to land, and no error."""
    topics = FromMemory(spark, {("a", 0): []})
    assert [] == topics.fetch([Offsets("a", 0, 0, 5)], str(tmp_path / "staging"))


@pytest.mark.parametrize("millis", [-10, 1_732_000_000_000_000], ids=["none (-1)", "microseconds"])
def test_a_record_whose_time_no_folder_can_name_has_none(spark: SparkSession, tmp_path: Path, millis: int) -> None:
    """It is landed by the time of the ingest, as is a stretch without records."""
    topics = FromMemory(spark, {("a", 0): [9]}, millis)
    (item,) = topics.fetch([Offsets("a", 0, 9, 9)], str(tmp_path / "staging"))
    assert (item.records, item.until) == (1, None)


class Java:
    """Kafka's classes and its admin client, as `_offsets` uses them: the end of committed records lies before that of all."""

    def __init__(self) -> None:
        self.java = SimpleNamespace(util=SimpleNamespace(HashMap=lambda: SimpleNamespace(put=lambda place, which: None)))
        levels = SimpleNamespace(valueOf=lambda name: name)
        kafka = SimpleNamespace(common=SimpleNamespace(IsolationLevel=levels), clients=SimpleNamespace(admin=SimpleNamespace(ListOffsetsOptions=str)))
        self.org = SimpleNamespace(apache=SimpleNamespace(kafka=kafka))

    def listOffsets(self, questions: Any, options: str = "READ_UNCOMMITTED") -> Any:
        answer = SimpleNamespace(get=lambda place: SimpleNamespace(offset=lambda: {"READ_COMMITTED": 5, "READ_UNCOMMITTED": 9}[options]))
        return SimpleNamespace(all=lambda: SimpleNamespace(get=lambda: answer))


@pytest.mark.parametrize(("level", "end"), [({}, 5), ({"isolation.level": "read_uncommitted"}, 9)])
def test_a_topic_ends_where_its_reader_stops(monkeypatch: pytest.MonkeyPatch, level: dict[str, str], end: int) -> None:
    """Before the first open transaction, unless records that may be aborted are wanted."""
    java: Any = Java()
    monkeypatch.setattr(topics_module, "jvm", lambda spark: java)
    topics: Any = KafkaTopics(None, LocalStorage(), {"bootstrap.servers": "nowhere:9092", **level})  # type: ignore[arg-type]
    place = SimpleNamespace(topic=lambda: "a", partition=lambda: 0)
    assert topics._offsets(java, [place], "latest") == {("a", 0): end}
