"""Whole hours: what Spark counts as the newest change of each partition. tests/flows/test_whole_hours.py has the rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.lake import Lake
from tests.spark.test_debezium import event

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOUR = 3_600_000
BEGIN = 1_700_000_000_000 // HOUR * HOUR - 20 * HOUR
"""Twenty hours before the clock of the lake, in milliseconds."""


def record(partition: int, lsn: int, op: str, hours: float, table: str = "t") -> dict[str, Any]:
    """A whole Kafka record with an event that the source committed so many hours after BEGIN."""
    made = event(op, lsn, after={"id": lsn, "v": "a"})
    made["source"] = {**made["source"], "ts_ms": BEGIN + int(hours * HOUR), "table": table}
    return {"topic": "t", "partition": partition, "offset": lsn, "key": json.dumps({"id": lsn}), "value": json.dumps(made)}


def heartbeat(partition: int, offset: int) -> dict[str, Any]:
    """A record that says only that the connector lives."""
    return {"topic": "t", "partition": partition, "offset": offset, "key": "{}", "value": json.dumps({"ts_ms": BEGIN + 19 * HOUR})}


def seen(lake: Lake, spec: Any) -> tuple[dict[str, float | None], float | None]:
    """Partition → hours after BEGIN of its newest change, and of the mark."""
    from compactor.core.model import times

    def hours(text: str | None) -> float | None:
        return None if text is None else round((times.to_seconds(text) * 1000 - BEGIN) / HOUR, 3)

    made = lake.snapshot(spec).watermark
    return {name: hours(time) for name, time in made.partitions}, hours(made.whole_to)


def test_the_newest_change_of_each_partition_decides_and_no_read_and_no_heartbeat(lake: Lake) -> None:
    """Whatever the files are: whole records, files of the S3 sink, rows with metadata columns, full loads."""
    records = lake.spec("records", envelope="debezium", order_by=(), container="kafka", source_table="public.t")
    first = [record(0, 1, "r", 9.0), record(1, 2, "r", 9.0), record(0, 3, "c", 3.5), heartbeat(0, 4)]
    lake.land(records, 1, first)
    lake.run(records)
    assert seen(lake, records) == ({"0": 3.5, "1": None}, None)
    # another table's change is as good as ours; its snapshot is not
    lake.land(records, 2, [record(1, 5, "u", 4.25, "other"), record(0, 6, "u", 5.5), record(1, 7, "r", 12.0, "other")])
    lake.run(records)
    assert seen(lake, records) == ({"0": 5.5, "1": 4.25}, 4.0)

    sink = lake.spec("sink", envelope="debezium", order_by=(), container="value")
    for partition, hours in ((0, 2.5), (3, 6.5)):
        lake.land(sink, 1, [json.loads(record(partition, partition + 1, "c", hours)["value"])], f"pg.t+{partition}+0000000001.json")
    lake.run(sink)
    assert seen(lake, sink) == ({"pg.t-0": 2.5, "pg.t-3": 6.5}, 2.0)

    rows = lake.spec("rows", partitions=1)
    lake.land(
        rows, 1, [{"id": 1, "seq": 1, "__op": "u", "__source_ts_ms": BEGIN + HOUR}, {"id": 2, "seq": 2, "__op": "r", "__source_ts_ms": BEGIN * 2}]
    )
    lake.run(rows)
    assert seen(lake, rows) == ({"": 1.0}, 1.0)

    loads = lake.spec("loads", envelope="full-load", order_by=(), partitions=1)
    lake.land(loads, 1, [{"id": 1}])
    lake.run(loads)
    assert seen(lake, loads) == ({}, None)
