"""Kafka records in Confluent's wire format: what is read, and what goes to quarantine with which word."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from compactor.core.model.errors import InputRefused, RegistryRefused, SchemaRefused, Unavailable
from compactor.core.model.spec import TableSpec
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

V1 = {"type": "record", "name": "Student", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "town", "type": "string", "default": "Ulm"}]}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
NULLS = {**V1, "fields": [{"name": name, "type": ["null", "string"]} for name in ("a", "b")]}
SCHEMAS = {1: V1, 2: V2, 5: NULLS, 7: KEY, 8: "long", 300: V1}


def schema(number: int) -> str:
    """A registry of a few schemas; 9 is Protobuf, and during 10 nobody answers."""
    if number == 9:
        raise SchemaRefused("id 9: expected an Avro schema, found PROTOBUF")
    if number == 10:
        raise Unavailable("schema registry: nobody answers")
    if number not in SCHEMAS:
        raise RegistryRefused(f"no schema with id {number}")
    return json.dumps(SCHEMAS[number])


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path, schema)


def wire(number: int, datum: Any, known: Any = None) -> bytes:
    """Confluent's wire format: a zero byte, four of id, the datum."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(known or SCHEMAS[number]), datum)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def line(offset: int, value: bytes | str | None, key: bytes | str | None = None, *, plain: bool = False) -> str:
    """A record as a JSON line: bytes as `{"b64": ..}`, or as `plain` base64."""

    def shown(part: bytes | str | None) -> Any:
        text = base64.b64encode(part).decode() if isinstance(part, bytes) else part
        return {"b64": text} if isinstance(part, bytes) and not plain else text

    return json.dumps({"offset": offset, "partition": 0, "key": shown(key), "value": shown(value)})


def table(lake: Lake, **settings: Any) -> TableSpec:
    return lake.spec(container="kafka", order_by=("kafka.offset",), **settings)


def test_values_alone_in_wire_format_wait_and_have_a_remedy(lake: Lake) -> None:
    """As text and as a JSON string; a row whose text begins like them is a row."""
    spec = lake.spec(quarantine_share=0.9)
    text = base64.b64encode(wire(1, {"id": 1, "name": "a"})).decode()
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": text}, text, json.dumps(text), '"AAA"'])
    assert lake.run(spec).counts["quarantined"] == 3
    assert [(2, "is Avro in wire"), (3, "is Avro in wire"), (4, "is not a JSON o")] == [(at, why[:15]) for at, why in lake.unusable(spec)]


@pytest.mark.slow
def test_records_without_rows_between_envelopes(lake: Lake) -> None:
    """A heartbeat, a transaction's marker and a schema change, as a dump of all topics has them."""
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": "string"}]}
    ids = {
        21: {"type": "record", "name": "Envelope", "fields": [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Row"]},
             {"name": "op", "type": "string"}, {"name": "ts_ms", "type": "long"}]},
        22: {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]},
        23: {"type": "record", "name": "Marker", "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"},
             {"name": "event_count", "type": ["null", "long"]}]},
        24: {"type": "record", "name": "Change", "fields": [{"name": "databaseName", "type": "string"}, {"name": "ddl", "type": "string"}]},
    }  # fmt: skip
    lake = Lake(lake.spark, lake.root / "silent", lambda number: json.dumps(ids[number]))
    spec = table(lake, envelope="debezium")

    def made(at: int) -> bytes:
        return wire(21, {"before": None, "after": {"id": at, "v": "x"}, "op": "c", "ts_ms": 1}, ids[21])

    silent = [wire(22, {"ts_ms": 1}, ids[22]), wire(23, {"status": "BEGIN", "id": "1", "event_count": None}, ids[23])]
    silent.append(wire(24, {"databaseName": "d", "ddl": "ALTER"}, ids[24]))
    lake.land(spec, 1, [line(at, value) for at, value in enumerate([made(1), *silent, made(2)])])
    report = lake.run(spec)
    assert (5, 3, [1, 2]) == (report.counts["read"], report.counts["ignored"], [each["id"] for each in lake.rows(spec)])
    lake.land(spec, 2, [line(9, silent[0])])
    assert 1 == lake.run(spec).counts["ignored"]


@pytest.mark.slow
def test_the_ways_bytes_stand_in_json(lake: Lake) -> None:
    """As an object, as base64, and, where they happen to be UTF-8, as text; JSON values and deletes by keys stand among them."""
    spec = table(lake)
    text = wire(1, {"id": 3, "name": "as text"})
    lines = [
        line(0, wire(1, {"id": 1, "name": "object"})),
        line(1, wire(1, {"id": 2, "name": "base64"}), plain=True),
        line(2, text.decode()),
        line(3, json.dumps({"id": 4, "name": "json"})),
        line(4, wire(1, {"id": 5, "name": "goes"})),
        line(5, None, wire(7, {"id": 5})),
    ]
    lake.land(spec, 1, lines)
    report = lake.run(spec)
    assert [(1, "object"), (2, "base64"), (3, "as text"), (4, "json")] == [(row["id"], row["name"]) for row in lake.rows(spec)]
    assert (6, 0) == (report.counts["read"], report.counts["ignored"])
    assert [] == lake.problems(spec)


def test_each_record_is_read_by_the_schema_it_names(lake: Lake) -> None:
    """Two versions in one file, in any order, and an id of two bytes; what the older lacks is the default of the newer."""
    spec = table(lake)
    newer, older = wire(2, {"id": 1, "name": None, "town": "Bonn"}), wire(1, {"id": 2, "name": "b"})
    lake.land(spec, 1, [line(5, newer), line(1, older), line(2, wire(300, {"id": 3, "name": "c"}))])
    lake.run(spec)
    assert [(1, None, "Bonn"), (2, "b", "Ulm"), (3, "c", "Ulm")] == [(row["id"], row["name"], row["town"]) for row in lake.rows(spec)]


@pytest.mark.slow
def test_a_record_of_nulls_fits_its_schema(lake: Lake) -> None:
    """Spark makes one of bytes that it cannot read, too; those go to quarantine."""
    spec = table(lake, key=(), quarantine_share=0.9)
    values = [wire(5, {"a": "x", "b": None}), wire(5, {"a": None, "b": None}), b"\0\0\0\0\5\7"]
    lake.land(spec, 1, [line(at, value) for at, value in enumerate(values)])
    assert 1 == lake.run(spec).counts["quarantined"]
    assert [("x", None), (None, None)] == sorted(((row["a"], row["b"]) for row in lake.rows(spec)), key=str)


@pytest.mark.slow
def test_records_of_two_schemas_are_rows_of_their_own_without_key(lake: Lake) -> None:
    """The first of each schema in a file too; the file that lands again adds none."""
    spec = lake.spec(container="kafka", key=(), order_by=("id",))
    lines = [line(5, wire(1, {"id": 1, "name": "a"})), line(6, wire(2, {"id": 2, "name": "b", "town": "Bonn"})), line(7, '{"id": 3, "name": "c"}')]
    for hour in (1, 2):
        lake.land(spec, hour, lines, f"part-{hour}.json")
        lake.run(spec)
        assert [(1, "Ulm"), (2, "Bonn"), (3, None)] == sorted((row["id"], row["town"]) for row in lake.rows(spec))


@pytest.mark.slow
def test_columns_of_sparks_kafka_source(lake: Lake) -> None:
    """`key` and `value` are binary there; a tombstone's key may be of a primitive type."""
    spec = table(lake, format="parquet")
    keys = [bytearray(wire(8, id_)) for id_ in (1, 2)]
    records = [{"key": key, "value": bytearray(wire(1, {"id": at, "name": "a"})), "offset": at, "partition": 0} for at, key in enumerate(keys, 1)]
    lake.land_parquet(spec, 1, [*records, {**records[1], "value": None, "offset": 3}], "key BINARY, value BINARY, offset BIGINT, partition INT")
    lake.run(spec)
    assert [{"id": 1, "name": "a"}] == lake.rows(spec)


HEADERS = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, offset BIGINT, partition INT"


@pytest.mark.slow
def test_apicurios_header_names_the_schema_of_a_bare_datum(lake: Lake) -> None:
    """`contentId` is the id that Confluent's API knows; keys have a header of their own."""
    spec = table(lake, format="parquet")

    def record(offset: int, value: bytes, key: bytes) -> dict[str, Any]:
        ids = {"apicurio.value.contentId": value, "apicurio.key.contentId": key}
        headers = [{"key": name, "value": bytearray(b"\0\0\0" + made[:5])} for name, made in ids.items()]
        return {"key": bytearray(key[5:]), "value": bytearray(value[5:]), "headers": headers, "offset": offset, "partition": 0}

    plain = {"key": None, "value": bytearray(b'{"id": 3, "name": "json"}'), "headers": [], "offset": 9, "partition": 0}
    rows = [record(0, wire(1, {"id": 1, "name": "a"}), wire(7, {"id": 1})), record(1, wire(2, {"id": 2, "name": None, "town": "Bonn"}), wire(8, 5))]
    lake.land_parquet(spec, 1, [*rows, plain], HEADERS)
    lake.run(spec)
    assert [(1, "a", "Ulm"), (2, None, "Bonn"), (3, "json", None)] == [(row["id"], row["name"], row["town"]) for row in lake.rows(spec)]


APICURIO = {
    "headers that are text by now": (
        {"headers": [["apicurio.value.contentId", "\u0000\u0000\u0001"]], "value": "\u0002\u0002a"}, "the header apicurio.value.contentId"),
    "an id of another kind": ({"headers": ["apicurio.value.globalId", "1"], "value": "\u0002\u0002a"}, "the header apicurio.value.globalId"),
    "8 bytes of id": ({"value": base64.b64encode(b"\0" * 8 + b"\1\2\2a").decode()}, "8 bytes before the datum"),
}  # fmt: skip


@pytest.mark.slow
def test_apicurios_other_forms_wait_and_say_what_to_set(lake: Lake) -> None:
    """Nobody knows which schema they mean. All forms in one file, good records between."""
    spec = table(lake, quarantine_share=0.9)
    records: list[Any] = []
    for number, (record, _) in enumerate(APICURIO.values()):
        good = line(2 * number, wire(1, {"id": 100 + number, "name": "good"}))
        records += [good, {"offset": 2 * number + 1, "partition": 0, **record}]
    lake.land(spec, 1, records)
    assert len(APICURIO) == lake.run(spec).counts["quarantined"]
    for number, ((name, (_, words)), (at, reason)) in enumerate(zip(APICURIO.items(), lake.unusable(spec), strict=True)):
        assert 2 * number + 2 == at, name
        assert words in reason, name
        assert "apicurio.registry.headers.enabled=false" in reason, name


UNUSABLE = {
    "an id that the registry does not know": (wire(1, {"id": 9, "name": "x"})[:1] + (77).to_bytes(4, "big") + b"\2\0", "id (77)"),
    "a schema that is not Avro": (b"\0" + (9).to_bytes(4, "big") + b"\2\0", "PROTOBUF"),
    "a schema that is no record": (wire(8, 5), "id (8), which is not a record"),
    "a datum cut short": (wire(1, {"id": 9, "name": "long enough to cut"})[:-4], "does not fit the schema with id 1"),
}


@pytest.mark.slow
def test_one_unusable_record_waits_and_the_rest_is_absorbed(lake: Lake) -> None:
    """The reason names the schema's id. All cases in one file, good records between."""
    spec = table(lake, quarantine_share=0.9)
    records = []
    for number, (value, _) in enumerate(UNUSABLE.values()):
        records.append(line(3 * number, wire(1, {"id": 100 + 2 * number, "name": "good"})))
        records.append(line(3 * number + 1, value))
        records.append(line(3 * number + 2, json.dumps({"id": 101 + 2 * number, "name": "json"})))
    lake.land(spec, 1, records)
    report = lake.run(spec)
    assert [*range(100, 100 + 2 * len(UNUSABLE))] == [row["id"] for row in lake.rows(spec)]
    assert len(UNUSABLE) == report.counts["quarantined"]
    for number, ((name, (_, words)), (at, reason)) in enumerate(zip(UNUSABLE.items(), lake.unusable(spec), strict=True)):
        assert 3 * number + 2 == at, name
        assert words in reason, name


def test_without_a_registry_the_refusal_says_what_to_add(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is absorbed: all that landed would wait in quarantine."""
    lake = Lake(spark, tmp_path)
    spec = table(lake)
    lake.land(spec, 1, [line(0, wire(1, {"id": 1, "name": "a"}))])
    with pytest.raises(InputRefused, match="set `registry:`"):
        lake.run(spec)
    assert ["part-0.json"] == lake.landed(spec)


def test_a_registry_that_is_away_delays_the_run(lake: Lake) -> None:
    """No record is put aside for it."""
    spec = table(lake)
    lake.land(spec, 1, [line(0, wire(1, {"id": 1, "name": "a"})), line(1, b"\0" + (10).to_bytes(4, "big") + b"\2\0")])
    with pytest.raises(Unavailable):
        lake.run(spec)
    assert ["part-0.json"] == lake.landed(spec)


@pytest.mark.slow
def test_records_without_offset_in_several_schemas_are_rows_of_their_own(lake: Lake) -> None:
    """In a table without key, where the line of the file identifies a row: each schema's records are numbered by themselves."""
    spec = lake.spec(container="kafka", key=(), order_by=("id",))
    rows = [wire(1, {"id": 1, "name": "a"}), wire(2, {"id": 2, "name": "b", "town": "Bonn"}), '{"id": 3, "name": "c"}']
    records = [json.loads(line(0, value)) for value in rows]
    for hour in (1, 2):
        lake.land(spec, hour, [{name: value for name, value in record.items() if name != "offset"} for record in records], file="a.json")
        lake.run(spec)
    assert [(1, "a"), (2, "b"), (3, "c")] == [(row["id"], row["name"]) for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 2])
def test_a_tombstone_deletes_the_row_of_an_avro_key_of_any_type(lake: Lake, batches: int) -> None:
    """As ExtractNewRecordState writes them: nothing but the key's own schema says what its values mean. In one batch, and in a batch of tombstones."""
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "n": ({"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 3}, [Decimal("1.500"), Decimal("-0.001"), Decimal("10.100")]),
        "d": ({"type": "int", "connect.name": "io.debezium.time.Date"}, [19782, -1, 0]),
        "t": ({"type": "long", "connect.name": "io.debezium.time.MicroTime"}, [45296789012, 0, 86399999999]),
        "m": ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, [1704067200000001, 1704067200000002, -1]),
        "z": ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, [f"2024-01-01T00:00:00.00000{at}Z" for at in (1, 2, 3)]),
        "b": ("bytes", [b"\x00", b"", b"A"]),
        "f": ("boolean", [True, False, True]),
        "v": (
            {"type": "record", "name": "VariableScaleDecimal", "connect.name": "io.debezium.data.VariableScaleDecimal",
             "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]},
            [{"scale": 0, "value": b"\x01"}, {"scale": 2, "value": b"\x00\x96"}, {"scale": -25, "value": b"\x01"}],
        ),
    }  # fmt: skip
    columns = [{"name": name, "type": kind} for name, (kind, _) in kinds.items()]
    ids = {
        31: {"type": "record", "name": "Key", "fields": columns},
        32: {"type": "record", "name": "Row", "fields": [{"name": "x", "type": "int"}, *columns]},
    }
    lake = Lake(lake.spark, lake.root / f"keys{batches}", lambda number: json.dumps(ids[number]))
    keys = [{name: values[at] for name, (_, values) in kinds.items()} for at in range(3)]
    rows = [line(at, wire(32, {"x": at, **key}, ids[32]), wire(31, key, ids[31])) for at, key in enumerate(keys)]
    gone = [line(9 + at, None, wire(31, key, ids[31])) for at, key in enumerate(keys) if at != 1]
    spec = table(lake, key=tuple(kinds))
    for hour, lines in enumerate([rows, gone] if batches == 2 else [[*rows, *gone]], 1):
        lake.land(spec, hour, lines)
        assert lake.run(spec).counts["quarantined"] == 0
    assert [row["x"] for row in lake.rows(spec)] == [1]
