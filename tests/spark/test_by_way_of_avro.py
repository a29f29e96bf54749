"""Records whose Avro schema says what their values mean: Parquet that was written by way of Avro, and whole Kafka records in Avro files."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compactor.core.model.spec import TableSpec
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read.verify import verify
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.capture import landing, truth
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DAYS = {"type": "int", "connect.name": "io.debezium.time.Date"}
ROW = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}, {"name": "d", "type": ["null", DAYS]}]}


def differing(lake: Lake, spec: TableSpec) -> list[str]:
    """Cells that differ from PostgreSQL's at the end of hour 1."""
    return [str(one) for one in truth.unexpected(truth.differences(lake.rows(spec), truth.truth(1)[spec.name], landing.CONNECT), landing.CONNECT, 1)]


@pytest.mark.slow
def test_parquet_by_way_of_avro(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of Connect's S3 sink: days, times, decimals of few digits and of unknown precision; also of files without the records of an erased key."""
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "a secret for tests only")
    spec = lake.spec("type_zoo", envelope="debezium", format="parquet", order_by=())
    landing.land(lake.root, landing.CONNECT, only=[spec.name], hours=[0, 1])
    lake.run(spec)
    assert differing(lake, spec) == []
    rows = lake.rows(spec)

    assert erase(Table(lake.env, spec), Request(((str(rows[0]["id"]),),), now=True)).rewritten
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"
    assert lake.rows(spec) == rows[1:]


@pytest.mark.slow
def test_a_schema_that_does_not_describe_the_columns_is_not_followed(lake: Lake) -> None:
    """Of other columns, of another type, or no schema at all."""
    schemas = {"columns": {**ROW, "fields": ROW["fields"][:1]}, "type": json.loads(json.dumps(ROW).replace('"int"', '"long"')), "text": "nothing"}
    for name, schema in schemas.items():
        spec = lake.spec(f"other_{name}", order_by=("id",))
        folder = Path(spec.landing) / "increment_2024030500"
        folder.mkdir(parents=True)
        rows = pa.table({"id": pa.array([1], pa.int32()), "d": pa.array([19000], pa.int32())})
        pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": json.dumps(schema)}), folder / "a.parquet")
        lake.run(spec)
        assert lake.rows(spec) == [{"id": 1, "d": 19000}]


def test_declared_columns_come_before_the_schema_of_a_file(lake: Lake) -> None:
    """A writer's schema may say less: that a time is a long."""
    days = json.dumps({**ROW, "fields": [ROW["fields"][0], {"name": "d", "type": {"type": "int", "logicalType": "date"}}]})
    for name, more in {"schema": {"avro_schema": days}, "types": {"types": (("d", "date_days"),)}}.items():
        spec = lake.spec(f"declared_{name}", order_by=("id",), **more)
        folder = Path(spec.landing) / "increment_2024030500"
        folder.mkdir(parents=True)
        rows = pa.table({"id": pa.array([1], pa.int32()), "d": pa.array([19000], pa.int32())})
        bare = {**ROW, "fields": [ROW["fields"][0], {"name": "d", "type": "int"}]}
        pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": json.dumps(bare)}), folder / "a.parquet")
        lake.run(spec)
        assert lake.rows(spec) == [{"id": 1, "d": "2022-01-08"}]


@pytest.mark.slow
def test_the_schema_of_a_file_counts_and_not_the_newest_of_its_subject(lake: Lake) -> None:
    """ALTER TABLE .. MODIFY at datetime(6): until then Debezium sends milliseconds. `init` proposes the registry's subject."""
    millis, micros = ({"type": "long", "connect.name": f"io.debezium.time.{name}"} for name in ("Timestamp", "MicroTimestamp"))
    before, after = ({**ROW, "connect.name": "m.t.Value", "fields": [ROW["fields"][0], {"name": "at", "type": kind}]} for kind in (millis, micros))
    spec = lake.spec(order_by=("id",), avro_schema=json.dumps(after))
    folder = Path(spec.landing) / "increment_2024030500"
    folder.mkdir(parents=True)
    for id_, (schema, value) in enumerate(((before, 1_700_000_000_123), (after, 1_700_000_000_123_456)), 1):
        rows = pa.table({"id": pa.array([id_], pa.int32()), "at": pa.array([value], pa.int64())})
        pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": json.dumps(schema)}), folder / f"{id_}.parquet")
    lake.run(spec)
    assert ["2023-11-14T22:13:20.123000Z", "2023-11-14T22:13:20.123456Z"] == [row["at"] for row in lake.rows(spec)]


@pytest.mark.slow
def test_verify_tells_that_values_mean_something_else_now(lake: Lake) -> None:
    """Numbers of an earlier version, dates of this one."""
    spec = lake.spec(order_by=("id",))
    folder = Path(spec.landing) / "increment_2024030500"
    folder.mkdir(parents=True)
    rows = pa.table({"id": pa.array([1], pa.int32()), "d": pa.array([19000], pa.int32())})
    pq.write_table(rows, folder / "a.parquet")
    lake.run(spec)
    (archived,) = (Path(spec.root) / "archive").rglob("*.parquet")
    pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": json.dumps(ROW)}), archived)
    assert "view equals full recompute" in [check.name for check in verify(Table(lake.env, spec)) if not check.ok]


def test_nanoseconds_as_keys_of_a_map(lake: Lake) -> None:
    """Keys are read as they are meant, too."""
    spec = lake.spec(order_by=("id",))
    folder = Path(spec.landing) / "increment_2024030500"
    folder.mkdir(parents=True)
    pairs = pa.array([[(1_700_000_000_000_000_000, 7)]], pa.map_(pa.timestamp("ns", "UTC"), pa.int32()))
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "m": pairs}), folder / "a.parquet")
    lake.run(spec)
    (row,) = lake.spark.table(f"`{lake.database}`.t").selectExpr("CAST(map_keys(m)[0] AS STRING) AS at", "map_values(m)[0] AS n").collect()
    assert (row.at, row.n) == ("2023-11-14 22:13:20", 7)


def test_whole_kafka_records_in_avro_files(lake: Lake) -> None:
    """The schema of their values says what those mean. A record without a value is a delete."""
    record = {
        "type": "record",
        "name": "record",
        "fields": [
            {"name": "key", "type": {"type": "record", "name": "key", "fields": [{"name": "id", "type": "int"}]}},
            {"name": "value", "type": ["null", ROW]},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
        ],
    }
    values = [(1, {"id": 1, "d": 19000}), (2, {"id": 2, "d": None}), (1, {"id": 1, "d": 19001}), (2, None)]
    spec = lake.spec(container="kafka", order_by=("kafka.offset",))
    folder = Path(spec.landing) / "increment_2024030500"
    folder.mkdir(parents=True)
    with (folder / "a.avro").open("wb") as out:
        records = [{"key": {"id": key}, "value": value, "partition": 0, "offset": at} for at, (key, value) in enumerate(values)]
        fastavro.writer(out, fastavro.parse_schema(record), records)

    lake.run(spec)

    assert lake.rows(spec) == [{"id": 1, "d": "2022-01-09"}]
