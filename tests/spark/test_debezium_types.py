"""What Debezium's types become, as Connect's JSON writes them with their schema: one row, one table of cases. The other forms: `tests/capture`."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from compactor.core.model.policy import Policy
from tests.oracle.emit import PLACEHOLDER
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DAY = 19787
"""2024-03-05, in days since 1970."""
NOON = DAY * 86400 + 43200


def packed(number: int) -> str:
    """A number as Connect's Decimal writes it: big-endian two's complement, in base64."""
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def of(kind: str, name: str = "", **more: Any) -> dict[str, Any]:
    """A Connect schema."""
    return {"type": kind, "optional": True, **({"name": name} if name else {}), **more}


def scaled(scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale), **({"connect.decimal.precision": str(precision)} if precision else {})}
    return of("bytes", DECIMAL, parameters=parameters)


VARIABLE = of("struct", "io.debezium.data.VariableScaleDecimal", fields=[{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}])
POINT_FIELDS = [{"field": "x", **of("double")}, {"field": "y", **of("double")}, {"field": "wkb", **of("bytes")}, {"field": "srid", **of("int32")}]
DATE, VALUE = of("int32", "io.debezium.time.Date"), {"scale": 1, "value": packed(7)}
MEANINGS = [
    {"field": "When", **of("int64", "io.debezium.time.Timestamp")},
    {"field": "amt", **scaled(2, 5)},
    {"field": "days", **of("array", items=of("struct", fields=[{"field": "day", **DATE}]))},
    {"field": "odd", **VARIABLE},
]
SHAPE_FIELDS = [{"field": "wkb", **of("bytes")}, {"field": "srid", **of("int32")}]

TYPES: list[tuple[str, dict[str, Any], Any, str, Any]] = [
    # what it is, Connect's schema, JSON, Hive type, what the view shows
    ("tinyint", of("int8"), -128, "tinyint", -128),
    ("smallint", of("int16"), 32767, "smallint", 32767),
    ("int", of("int32"), -(2**31), "int", -(2**31)),
    ("bigint", of("int64"), 2**63 - 1, "bigint", 2**63 - 1),
    ("unsigned bigint, precise", scaled(0, 20), packed(2**64 - 1), "decimal(20,0)", 2**64 - 1),
    ("boolean", of("boolean"), False, "boolean", False),
    ("real", of("float"), 1.5, "float", Decimal("1.5")),
    ("double", of("double"), 1e300, "double", Decimal("1E+300")),
    ("not a number", of("double"), "NaN", "double", "NaN"),
    ("infinity", of("double"), "-Infinity", "double", "-Infinity"),
    ("numeric(9,2)", scaled(2, 9), packed(-1234), "decimal(9,2)", Decimal("-12.34")),
    ("numeric of unknown precision", scaled(3), packed(3540), "decimal(38,3)", Decimal("3.540")),
    ("numeric(60,2)", scaled(2, 60), packed(10**45 + 1), "string", f"1{'0' * 42}0.01"),
    ("Oracle's NUMBER(20,-2)", scaled(-2, 20), packed(-1234), "decimal(22,0)", -123400),
    ("Oracle's NUMBER(3,5)", scaled(5, 3), packed(123), "decimal(6,5)", Decimal("0.00123")),
    ("numeric without scale", VARIABLE, {"scale": 4, "value": packed(45)}, "string", "0.0045"),
    ("numeric of many digits", VARIABLE, {"scale": -1, "value": packed(-(7**1200))}, "string", f"-{7**1200}0"),
    ("a power of two", VARIABLE, {"scale": 2, "value": packed(-(2**255))}, "string", f"-{str(2**255)[:-2]}.{str(2**255)[-2:]}"),
    ("decimal.handling.mode=string", of("string"), "12.340", "string", "12.340"),
    ("decimal.handling.mode=double", of("double"), 12.25, "double", Decimal("12.25")),
    ("text", of("string"), "Größe \u0000 '\"", "string", "Größe \u0000 '\""),
    ("json", of("string", "io.debezium.data.Json"), '{"a": 1.10}', "string", '{"a": 1.10}'),
    ("uuid", of("string", "io.debezium.data.Uuid"), "0" * 8, "string", "0" * 8),
    ("xml", of("string", "io.debezium.data.Xml"), "<a/>", "string", "<a/>"),
    ("enum", of("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "a", "string", "a"),
    ("set", of("string", "io.debezium.data.EnumSet", parameters={"allowed": "a,b"}), "a,b", "string", "a,b"),
    ("ltree", of("string", "io.debezium.data.Ltree"), "a.b", "string", "a.b"),
    ("bytes", of("bytes"), "AP8=", "binary", "AP8="),
    ("no bytes", of("bytes"), "", "binary", ""),
    ("bit(1)", of("boolean"), True, "boolean", True),
    ("bits, the lowest byte first", of("bytes", "io.debezium.data.Bits", parameters={"length": "15"}), "qhw=", "binary", "qhw="),
    ("bits that are all zero", of("bytes", "io.debezium.data.Bits", parameters={"length": "2"}), "", "binary", ""),
    ("a date", of("int32", "io.debezium.time.Date"), DAY, "date", "2024-03-05"),
    ("a date before Christ", of("int32", "io.debezium.time.Date"), -735160, "date", "-0043-03-15"),
    ("a date that never ends", of("int32", "io.debezium.time.Date"), 2147483647, "date", None),
    ("infinity in a stream", of("int32", "io.debezium.time.Date"), 2146033979, "date", None),
    ("infinity in a snapshot", of("int32", "io.debezium.time.Date"), -625821272, "date", None),
    ("Connect's date", of("int32", "org.apache.kafka.connect.data.Date"), DAY, "date", "2024-03-05"),
    ("isostring date", of("string", "io.debezium.time.IsoDate"), "2024-03-05Z", "date", "2024-03-05"),
    ("isostring infinity", of("string", "io.debezium.time.IsoDate"), "+5877611-06-21Z", "date", None),
    ("a year", of("int32", "io.debezium.time.Year"), 2024, "int", 2024),
    ("milliseconds", of("int64", "io.debezium.time.Timestamp"), NOON * 10**3 + 5, "timestamp", "2024-03-05T12:00:00.005000Z"),
    ("microseconds", of("int64", "io.debezium.time.MicroTimestamp"), NOON * 10**6 + 5, "timestamp", "2024-03-05T12:00:00.000005Z"),
    ("nanoseconds", of("int64", "io.debezium.time.NanoTimestamp"), NOON * 10**9 + 5999, "timestamp", "2024-03-05T12:00:00.000005Z"),
    ("Connect's timestamp", of("int64", "org.apache.kafka.connect.data.Timestamp"), NOON * 10**3, "timestamp", "2024-03-05T12:00:00.000000Z"),
    ("a timestamp that never ends", of("int64", "io.debezium.time.MicroTimestamp"), 2**63 - 1, "timestamp", None),
    ("a timestamp without beginning", of("int64", "io.debezium.time.MicroTimestamp"), -(2**63), "timestamp", None),
    ("milliseconds beyond all", of("int64", "io.debezium.time.Timestamp"), 2**63 - 1, "timestamp", None),
    ("with time zone", of("string", "io.debezium.time.ZonedTimestamp"), "2024-03-05T12:00:00.5+05:30", "timestamp", "2024-03-05T06:30:00.500000Z"),
    ("infinity with time zone", of("string", "io.debezium.time.ZonedTimestamp"), "infinity", "timestamp", None),
    ("isostring timestamp", of("string", "io.debezium.time.IsoTimestamp"), "2024-03-05T12:00:00Z", "timestamp", "2024-03-05T12:00:00.000000Z"),
    ("isostring time", of("string", "io.debezium.time.IsoTime"), "10:00:00.5Z", "string", "10:00:00.5"),
    ("time in milliseconds", of("int32", "io.debezium.time.Time"), 43200005, "string", "12:00:00.005000"),
    ("time in microseconds", of("int64", "io.debezium.time.MicroTime"), 43200 * 10**6, "string", "12:00:00"),
    ("the end of a day", of("int64", "io.debezium.time.MicroTime"), 86400 * 10**6, "string", "24:00:00"),
    ("a negative time of MySQL", of("int64", "io.debezium.time.MicroTime"), -3020399 * 10**6 - 100, "string", "-838:59:59.000100"),
    ("time in nanoseconds", of("int64", "io.debezium.time.NanoTime"), 43200 * 10**9 + 1999, "string", "12:00:00.000001"),
    ("time with zone", of("string", "io.debezium.time.ZonedTime"), "12:00:00Z", "string", "12:00:00Z"),
    ("an interval", of("int64", "io.debezium.time.MicroDuration"), 31557600000000, "bigint", 31557600000000),
    ("an interval as text", of("string", "io.debezium.time.Interval"), "P1Y2M3DT4H5M6.78S", "string", "P1Y2M3DT4H5M6.78S"),
    ("a point", of("struct", "io.debezium.data.geometry.Point", fields=POINT_FIELDS), {"x": 1.0, "y": 2.5, "wkb": "AQ==", "srid": None},
     "struct<x:double,y:double,wkb:binary,srid:int>", {"x": Decimal("1.0"), "y": Decimal("2.5"), "wkb": "AQ==", "srid": None}),
    ("a geometry", of("struct", "io.debezium.data.geometry.Geometry", fields=SHAPE_FIELDS), {"wkb": "AQI=", "srid": 4326},
     "struct<wkb:binary,srid:int>", {"wkb": "AQI=", "srid": 4326}),
    ("an array of numbers", of("array", items=of("int32")), [1, None, -1], "array<int>", [1, None, -1]),
    ("an array of decimals", of("array", items=scaled(2, 5)), [packed(150)], "array<decimal(5,2)>", [Decimal("1.50")]),
    ("an array of dates", of("array", items=of("int32", "io.debezium.time.Date")), [DAY, None], "array<date>", ["2024-03-05", None]),
    ("an empty array", of("array", items=of("string")), [], "array<string>", []),
    ("hstore as JSON", of("string", "io.debezium.data.Json"), '{"a":null}', "string", '{"a":null}'),
    ("hstore as map", of("map", keys=of("string"), values=of("string")), {"a": "1", "b": None}, "map<string,string>", {"a": "1", "b": None}),
    ("a map with numbers as keys", of("map", keys=of("int16"), values=of("double")), [[1, 10.5], [-11, None]],
     "map<smallint,double>", {"1": Decimal("10.5"), "-11": None}),
    ("a map with numbers as keys, of structs", of("map", keys=of("int16"), values=of("struct", fields=SHAPE_FIELDS[1:])), [[1, {"srid": 5}]],
     "map<smallint,struct<srid:int>>", {"1": {"srid": 5}}),
    ("a struct of meanings", of("struct", fields=MEANINGS), {"When": NOON * 10**3, "amt": packed(150), "days": [{"day": DAY}, None], "odd": VALUE},
     "struct<when:timestamp,amt:decimal(5,2),days:array<struct<day:date>>,odd:string>",
     {"when": "2024-03-05T12:00:00.000000Z", "amt": Decimal("1.50"), "days": [{"day": "2024-03-05"}, None], "odd": "0.7"}),
    ("a map of decimals", of("map", keys=of("string"), values=scaled(2, 5)), {"a": packed(150)}, "map<string,decimal(5,2)>", {"a": Decimal("1.50")}),
    ("a map with numbers as keys, of dates", of("map", keys=of("int16"), values=DATE), [[1, DAY], [2, None]],
     "map<smallint,date>", {"1": "2024-03-05", "2": None}),
    ("a map with numbers as keys, of structs of dates", of("map", keys=of("int16"), values=of("struct", fields=[{"field": "day", **DATE}])),
     [[1, {"day": DAY}]], "map<smallint,struct<day:date>>", {"1": {"day": "2024-03-05"}}),
]  # fmt: skip

ABSENT: list[tuple[str, dict[str, Any], Any, Any]] = [
    # what it is, Connect's schema, the first value, what stands for it when it is not sent
    ("text", of("string"), "big", PLACEHOLDER),
    ("json", of("string", "io.debezium.data.Json"), "{}", PLACEHOLDER),
    ("bytes", of("bytes"), "AP8=", base64.b64encode(PLACEHOLDER.encode()).decode()),
    ("bytes as hexadecimal text", of("string"), "00ff", PLACEHOLDER.encode().hex()),
    ("bytes as base64 text", of("string"), "AP8=", base64.b64encode(PLACEHOLDER.encode()).decode()),
    ("hstore as JSON", of("string", "io.debezium.data.Json"), '{"a":"1"}', json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
    ("hstore as map", of("map", keys=of("string"), values=of("string")), {"a": "1"}, {PLACEHOLDER: PLACEHOLDER}),
    ("array of text", of("array", items=of("string")), ["a"], [PLACEHOLDER]),
    ("array of int", of("array", items=of("int32")), [1, 2], [*PLACEHOLDER.encode()]),
    ("array of bigint", of("array", items=of("int64")), [1, 2], [*PLACEHOLDER.encode()]),
]


def event(op: str, lsn: int, columns: list[tuple[dict[str, Any], Any]]) -> dict[str, Any]:
    """A change of the row 1 with its schema."""
    fields = [{"field": "id", "type": "int64"}, *({"field": f"c{at}", **schema} for at, (schema, _) in enumerate(columns))]
    row = {"id": 1, **{f"c{at}": value for at, (_, value) in enumerate(columns)}}
    parts = [{"field": part, "type": "struct", "optional": True, "fields": fields} for part in ("before", "after")]
    source = {"connector": "postgresql", "schema": "public", "table": "t", "txId": lsn, "lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}
    envelope = {"type": "struct", "name": "t.Envelope", "fields": [*parts, {"field": "op", "type": "string"}]}
    return {"schema": envelope, "payload": {"op": op, "before": None, "after": row, "source": source, "ts_ms": 1}}


@pytest.mark.slow
def test_each_type_is_stored_as_the_documentation_says(lake: Lake) -> None:
    """Numbers exact, no wrong date: what Hive cannot hold is null. A null of each type is null."""
    spec = lake.spec(envelope="debezium", order_by=(), quarantine_rows=0)
    lake.land(spec, 1, [event("c", 1, [(schema, value) for _, schema, value, _, _ in TYPES])])
    lake.run(spec)
    stored = {field.name: field.type for field in lake.snapshot(spec).schema.fields}
    assert [(name, kind) for name, _, _, kind, _ in TYPES] == [(case[0], stored[f"c{at}"]) for at, case in enumerate(TYPES)]
    (row,) = lake.rows(spec)
    assert [(name, shown) for name, *_, shown in TYPES] == [(case[0], row[f"c{at}"]) for at, case in enumerate(TYPES)]
    lake.land(spec, 2, [event("u", 2, [(schema, None) for _, schema, _, _, _ in TYPES])])
    lake.run(spec)
    assert [{"id": 1, **dict.fromkeys(f"c{at}" for at in range(len(TYPES)))}] == lake.rows(spec)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "a run each"])
def test_a_numeric_that_loses_its_scale_stays_the_number_that_it_is(lake: Lake, apart: bool) -> None:
    """Two schemas of one column: base64 of a number with a scale, and a struct with the scale of each value."""
    spec = lake.spec(envelope="debezium", order_by=(), quarantine_rows=0, policy=Policy(kinds=(("to_string", "evolve"),)))
    events = [event("c", 1, [(scaled(2, 6), packed(325))]), event("u", 2, [(VARIABLE, {"scale": 9, "value": packed(1_123_456_789)})])]
    events[0]["payload"]["after"]["id"] = 7
    for hour, rows in enumerate([[each] for each in events] if apart else [events]):
        lake.land(spec, hour, rows)
        lake.run(spec)
    assert [{"id": 1, "c0": "1.123456789"}, {"id": 7, "c0": "3.25"}] == lake.rows(spec)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "a run each"])
def test_a_value_that_is_not_sent_is_known_in_each_type_that_can_be_stored_out_of_line(lake: Lake, apart: bool) -> None:
    """The placeholder takes another shape in each; the value stays what it was."""
    spec = lake.spec(envelope="debezium", order_by=(), quarantine_rows=0)
    told = event("c", 1, [(schema, value) for _, schema, value, _ in ABSENT])
    later = event("u", 2, [(schema, missing) for _, schema, _, missing in ABSENT])
    for hour, rows in enumerate([[told], [later]] if apart else [[later, told]]):
        lake.land(spec, hour, rows)
        lake.run(spec)
    (row,) = lake.rows(spec)
    assert [(name, value) for name, _, value, _ in ABSENT] == [(case[0], row[f"c{at}"]) for at, case in enumerate(ABSENT)]
    assert 0 == lake.snapshot(spec).unresolved


@pytest.mark.slow
def test_a_key_in_base64_is_the_number_it_stands_for(lake: Lake) -> None:
    """Keys may be decimals; a delete names its row by one, in its before image or in the record's key alone."""
    spec = lake.spec(envelope="debezium", order_by=(), container="kafka", key=("c0",))
    events = [event("c", lsn, [(scaled(2, 9), packed(lsn * 100)), (of("string"), "x")]) for lsn in (1, 2, 3)]
    gone = [event("d", lsn, [(scaled(2, 9), packed((lsn - 10) * 100)), (of("string"), None)]) for lsn in (11, 12)]
    for each in gone:
        each["payload"]["before"], each["payload"]["after"] = each["payload"]["after"], None
    key = {"schema": {"type": "struct", "fields": [{"field": "c0", **scaled(2, 9)}]}, "payload": {"c0": packed(200)}}
    gone[1]["payload"]["before"] = None
    records = [{"offset": number, "partition": 0, "key": json.dumps(key), "value": json.dumps(each)} for number, each in enumerate([*events, *gone])]
    lake.land(spec, 1, records)
    lake.run(spec)
    assert [Decimal("3.00")] == [row["c0"] for row in lake.rows(spec)]


@pytest.mark.slow
def test_a_key_without_scale_is_one_key_however_it_is_written(lake: Lake) -> None:
    """1.5 and 1.50 are equal to the source, and so are 100 and 100.00; in a column outside of the key each stays as it is."""
    spec = lake.spec(envelope="debezium", order_by=(), key=("c0",))
    numbers = [(15, 1), (150, 2), (1, -2), (10000, 2), (0, 3), (-5, 0)]
    values = [{"scale": scale, "value": packed(number)} for number, scale in numbers]
    lake.land(spec, 1, [event("u", lsn, [(VARIABLE, value), (VARIABLE, value)]) for lsn, value in enumerate(values, 1)])
    lake.run(spec)
    assert [("-5", "-5"), ("0", "0.000"), ("1.5", "1.50"), ("100", "100.00")] == sorted((row["c0"], row["c1"]) for row in lake.rows(spec))
    # without schema, as `types:` says; what is no number of the type is invalid
    types = (("c0", "decimal(20,1)"), ("c1", "string"), ("c2", "int"))
    spec = lake.spec("declared", envelope="debezium", order_by=(), key=("c0",), types=types, quarantine_share=0.9)
    values = [*values[:4], {"scale": 2, "value": packed(33)}]
    seven = (VARIABLE, {"scale": 1, "value": packed(70)})
    records = [event("u", lsn, [(VARIABLE, value), (VARIABLE, value), seven])["payload"] for lsn, value in enumerate(values, 1)]
    lake.land(spec, 1, records)
    lake.run(spec)
    assert [("1.5", "1.50", 7), ("100", "100.00", 7)] == [(str(row["c0"]).replace(".0", ""), row["c1"], row["c2"]) for row in lake.rows(spec)]
    assert ["a column of the key"] == [reason[:19] for _, reason in lake.unusable(spec)]


SOURCES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "MySQL: files are numbered, not sorted as text": (
        [
            {"connector": "mysql", "db": "shop", "table": "t", "file": "mysql-bin.000009", "pos": 900, "row": 0, "gtid": None},
            {"connector": "mysql", "db": "shop", "table": "t", "file": "mysql-bin.000010", "pos": 4, "row": 0},
            {"connector": "mysql", "db": "shop", "table": "t", "file": "mysql-bin.000010", "pos": 4, "row": 1},
            {"connector": "mysql", "db": "shop", "table": "t", "file": "mysql-bin.1000000", "pos": 4, "row": 0},
        ],
        "file_number, pos, row",
    ),
    "MariaDB": (
        [
            {"connector": "mariadb", "db": "shop", "table": "t", "file": "bin.000001", "pos": 99, "row": 0},
            {"connector": "mariadb", "db": "shop", "table": "t", "file": "bin.000001", "pos": 100, "row": 0},
        ],
        "file_number, pos, row",
    ),
    "SQL Server: hexadecimal of fixed width; a snapshot has no change LSN": (
        [
            {"connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t", "commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "snapshot": "true"},
            {"connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t", "commit_lsn": "00000027:00000ac0:0010",
             "change_lsn": "00000027:00000ac0:0002", "event_serial_no": 9},
            {"connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t", "commit_lsn": "00000027:00000ac0:0010",
             "change_lsn": "00000027:00000ac0:0002", "event_serial_no": 10},
        ],
        "commit_lsn_text, change_lsn_text, event_serial_no",
    ),
    "Oracle": (
        [
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "9", "rs_id": " 0x000a3.00000123.0010 ", "ssn": 0},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "10", "rs_id": " 0x000a3.00000123.0010 ", "ssn": 0},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "10", "rs_id": " 0x000a3.00000123.0010 ", "ssn": 1},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "10", "rs_id": " 0x000a3.00000124.0010 ", "ssn": 0},
        ],
        "commit_scn, scn, rs_id, ssn",
    ),
    "Oracle: a transaction that was open at the snapshot": (
        [
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "95", "commit_scn": "99", "rs_id": "0x01", "ssn": 0},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "100", "snapshot": "true"},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "90", "commit_scn": "110", "rs_id": "0x01", "ssn": 0},
            {"connector": "oracle", "schema": "S", "table": "t", "scn": "90", "commit_scn": "110", "rs_id": "0x01", "ssn": 1},
        ],
        "commit_scn, scn, rs_id, ssn",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_each_connector_s_own_order(lake: Lake, name: str) -> None:
    """The newest change wins in whatever order they stand in the file; a later file with the older ones changes nothing."""
    blocks, columns = SOURCES[name]
    spec = lake.spec(envelope="debezium", order_by=())
    changes = [{"op": "u", "before": None, "after": {"id": 1, "n": n}, "source": {**block, "ts_ms": 1}, "ts_ms": 1} for n, block in enumerate(blocks)]
    lake.land(spec, 1, changes[::-1])
    lake.run(spec)
    lake.land(spec, 2, changes[:-1])
    late = lake.run(spec)
    assert [{"id": 1, "n": len(blocks) - 1}] == lake.rows(spec)
    assert len(blocks) - 1 == late.counts["late"] + late.counts["duplicate"]
    assert columns == ", ".join(order for order, _ in lake.snapshot(spec).order)


@pytest.mark.slow
@pytest.mark.parametrize("envelope", ["debezium", "flat"])
def test_an_old_key_in_a_header_has_a_decimal_as_a_number(lake: Lake, envelope: str) -> None:
    """Connect's default converter of headers writes numbers, also where keys have base64. `1234` would be base64, too."""
    wrapped = envelope == "debezium"
    spec = lake.spec(
        envelope=envelope, order_by=() if wrapped else ("offset",), container="kafka", key=("c0",), types=() if wrapped else (("c0", "decimal(9,2)"),)
    )

    def change(op: str, lsn: int, number: int, text: str) -> dict[str, Any]:
        made = event(op, lsn, [(scaled(2, 9), packed(number)), (of("string"), text)])
        return made if wrapped else {"c0": packed(number), "c1": text}

    rows = {1: (123400, "1234"), 2: (200, "2.00"), 3: (300, '"ASw="')}
    records = [{"key": {"c0": packed(old)}, "value": change("c", at, old, f"of {at}")} for at, (old, _) in rows.items()]
    for at, (old, written) in rows.items():
        headers = [["__debezium.oldkey", f'{{"c0":{written}}}']]
        records.append({"key": {"c0": packed(old)}, "value": None})
        records.append({"key": {"c0": packed(old + 1)}, "value": change("c", at + 10, old + 1, PLACEHOLDER), "headers": headers})
    texts = ({**each, "key": json.dumps(each["key"]), "value": each["value"] and json.dumps(each["value"])} for each in records)
    lake.land(spec, 1, [{"topic": "t", "partition": 0, "offset": at, **each} for at, each in enumerate(texts)])
    lake.run(spec)
    shown = {str(row["c0"]): row["c1"] for row in lake.rows(spec)}
    if wrapped:
        # an envelope says by a delete that the old row is gone
        shown = {key: text for key, text in shown.items() if not key.endswith("00")}
    assert {"1234.01": "of 1", "2.01": "of 2", "3.01": "of 3"} == shown
    assert 0 == lake.snapshot(spec).unresolved


@pytest.mark.slow
def test_a_header_that_is_no_json_is_no_header(lake: Lake) -> None:
    """With `time.precision.mode=connect` the converter writes a date without quotes."""
    results = []
    for name, headers in (("none", []), ("date", [["__debezium.oldkey", '{"d":2024-03-05,"n":1.50}']])):
        spec = lake.spec(name, container="kafka", order_by=("offset",), key=("d", "n"), types=(("d", "date_days"), ("n", "decimal(9,2)")))
        rows = [({"d": DAY, "n": packed(150)}, "big"), ({"d": DAY, "n": packed(150)}, None), ({"d": DAY + 1, "n": packed(150)}, PLACEHOLDER)]
        lake.land(
            spec, 1,
            [{"topic": "t", "partition": 0, "offset": at, "key": json.dumps(key), "value": text and json.dumps({**key, "v": text}),
              "headers": headers if at == 2 else []} for at, (key, text) in enumerate(rows)],
        )  # fmt: skip
        lake.run(spec)
        results.append((lake.rows(spec), lake.snapshot(spec).unresolved))
    assert [([{"d": "2024-03-06", "n": Decimal("1.50"), "v": None}], 1)] * 2 == results


@pytest.mark.slow
def test_a_decimal_of_many_digits_is_one_text_beside_any_other_number(lake: Lake) -> None:
    """`decimal.format: NUMERIC`. It is a key here: its text must not depend on a long fraction in the same record."""
    spec = lake.spec(envelope="debezium", key=("k",), order_by=())
    kinds = [{"field": name, "type": "bytes", "optional": name != "k", "name": "org.apache.kafka.connect.data.Decimal",
              "parameters": {"scale": scale, "connect.decimal.precision": "50"}} for name, scale in (("k", "2"), ("d", "20"))]  # fmt: skip
    images = [{"type": "struct", "optional": True, "field": image, "fields": kinds} for image in ("before", "after")]
    schema = json.dumps({"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]})
    source = '{"connector": "mysql", "db": "s", "table": "t", "file": "bin.000001", "row": 0, "pos": %d}'
    row, moved, short = '{"k": 4.00, "d": 0.12345678901234567890}', '{"k": 7.00, "d": 2E-20}', '{"k": 4.00, "d": null}'
    changes = [("c", "null", row), ("c", "null", moved), ("u", row, short), ("d", short, "null")]
    payloads = (f'{{"op": "{op}", "before": {before}, "after": {after}, "source": {source % at}}}' for at, (op, before, after) in enumerate(changes))
    lake.land(spec, 1, [f'{{"schema": {schema}, "payload": {payload}}}' for payload in payloads])
    lake.run(spec)
    assert [("7.00", "2E-20")] == [(row["k"], row["d"]) for row in lake.rows(spec)]
