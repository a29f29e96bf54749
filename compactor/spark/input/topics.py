"""Kafka topics: read records between given offsets with Spark, and ask Kafka's own client, inside Spark's JVM, for the offsets there are.

Both come with the package spark-sql-kafka. Records are written unchanged; a run decodes them when it absorbs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compactor.core.model import times
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.layout import join
from compactor.core.sources.kafka_files import Bounds, Fetched, Offsets
from compactor.ports import Storage
from compactor.spark import failures
from compactor.spark.jvm.private import jvm
from compactor.spark.sql import named

_PLACE = re.compile(r"_topic=(?P<topic>[^/]+)/_partition=(?P<partition>\d+)/[^/]+\.parquet")
_COLUMNS = ("topic AS _topic", "partition AS _partition", "key", "value", "topic", "partition", "offset", "timestamp", "headers")
_TIMEOUT_MS = "20000"
_MILLIS = "unix_millis(timestamp)"
_UNTIL = f"max(CASE WHEN {_MILLIS} >= 0 AND {_MILLIS} < {times.END // 1000 - 86_400_000} THEN {_MILLIS} END)"
"""The newest time of records in milliseconds. A record may have none (-1), or one in another unit that no folder can name."""
_READ_COMMITTED = "read_committed"
_NO_ID = "A" * 22
"""Kafka's text of the id zero: the broker gives none."""


class KafkaTopics:
    """A Kafka cluster. `properties` are client settings (`security.protocol`, ...). They may hold secrets and are never logged."""

    def __init__(self, spark: SparkSession, storage: Storage, properties: Mapping[str, str]) -> None:
        self._spark, self._storage = spark, storage
        self._servers = properties["bootstrap.servers"]
        defaults = {"request.timeout.ms": _TIMEOUT_MS, "default.api.timeout.ms": _TIMEOUT_MS, "isolation.level": _READ_COMMITTED}
        self._properties = {**defaults, **properties}

    def bounds(self, topics: Sequence[str]) -> Mapping[tuple[str, int], Bounds]:
        """Return (topic, partition) → what Kafka has of it."""
        java = jvm(self._spark)
        settings = java.java.util.Properties()
        for name, value in self._properties.items():
            settings.setProperty(name, value)
        try:
            admin = java.org.apache.kafka.clients.admin.Admin.create(settings)
        except Py4JJavaError as error:
            raise Refused(f"kafka: {self._servers}: {failures.reason(error)}") from None
        try:
            names = java.java.util.ArrayList()
            for topic in topics:
                names.add(topic)
            described = admin.describeTopics(names).allTopicNames().get()
            places = [
                java.org.apache.kafka.common.TopicPartition(topic, part.partition()) for topic in topics for part in described.get(topic).partitions()
            ]
            spec = java.org.apache.kafka.clients.admin.OffsetSpec
            first, last = (self._offsets(admin, places, made) for made in (spec.earliest(), spec.latest()))
            ids = {topic: described.get(topic).topicId().toString() for topic in topics}
            return {place: Bounds(offset, last[place], "" if ids[place[0]] == _NO_ID else ids[place[0]]) for place, offset in first.items()}
        except Py4JJavaError as error:
            raise self._translated(error) from None
        finally:
            admin.close()

    def fetch(self, ranges: Sequence[Offsets], staging: str) -> list[Fetched]:
        """Write these records below `staging`. Each task reads one partition and writes one file."""
        places = {(item.topic, item.partition): item for item in ranges}
        if len(places) != len(ranges):
            raise ValueError("each partition may be given once")
        try:
            self._read(ranges).selectExpr(*_COLUMNS).write.partitionBy("_topic", "_partition").mode("overwrite").parquet(staging)
            rows = self._written(staging) if any(info.path.endswith(".parquet") for info in self._storage.list(staging)) else []
        except (Py4JJavaError, PySparkException) as error:
            raise self._translated(error) from None
        by_place = {(row.topic, row.partition): row for row in rows}
        out = []
        for info in self._storage.list(staging):
            match = _PLACE.fullmatch(info.path[len(join(staging)) + 1 :])
            if match:
                row = by_place[match["topic"], int(match["partition"])]
                out.append(Fetched(places[row.topic, row.partition], info, row.records, None if row.until is None else row.until / 1000))
        if len(out) != len(by_place):
            raise Refused(
                f"kafka: {staging} holds {len(out)} files, expected {len(by_place)}, one per partition. Check that no other `compactor ingest` works "
                "in this warehouse, then run again."
            )
        return out

    def _read(self, ranges: Sequence[Offsets]) -> Any:
        by_topic: dict[str, list[Offsets]] = {}
        for item in ranges:
            by_topic.setdefault(item.topic, []).append(item)
        assigned = {
            "assign": {topic: [item.partition for item in items] for topic, items in by_topic.items()},
            "startingOffsets": {topic: {str(item.partition): item.first for item in items} for topic, items in by_topic.items()},
            "endingOffsets": {topic: {str(item.partition): item.last + 1 for item in items} for topic, items in by_topic.items()},
        }
        client = {f"kafka.{name}": value for name, value in self._properties.items()}
        options = {**{name: json.dumps(value) for name, value in assigned.items()}, **client, "includeHeaders": "true"}
        return self._spark.read.format("kafka").options(**options).load()

    def _written(self, staging: str) -> list[Any]:
        rows = self._spark.read.parquet(staging).groupBy("topic", "partition")
        return rows.agg(named("count(*)", "records"), named(_UNTIL, "until")).collect()

    def _offsets(self, admin: Any, places: Sequence[Any], which: Any) -> dict[tuple[str, int], int]:
        java = jvm(self._spark)
        questions = java.java.util.HashMap()
        for place in places:
            questions.put(place, which)
        # a reader of committed records stops at the first transaction that is open, whatever stands behind it
        level = java.org.apache.kafka.common.IsolationLevel.valueOf(self._properties["isolation.level"].upper())
        options = java.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
        answer = admin.listOffsets(questions, options).all().get()
        return {(place.topic(), place.partition()): answer.get(place).offset() for place in places}

    def _translated(self, error: Exception) -> Exception:
        message = failures.reason(error)
        if "UnknownTopicOrPartition" in message:
            return Refused(f"kafka: {self._servers} has no such topic: {message}. Set `topic:` to the name that the connector gave it.")
        if "Timeout" in message or "TimedOut" in message or "Disconnect" in message or "No resolvable bootstrap" in message:
            return Unavailable(f"kafka: {self._servers} did not answer: {message}")
        return Refused(f"kafka: {self._servers}: {message}")
