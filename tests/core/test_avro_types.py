"""Avro type → Hive type, as a table: every Avro type, every logical type, every semantic type of Debezium and Kafka Connect."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model import types
from compactor.core.model.errors import SchemaRefused
from compactor.core.schema import avro
from compactor.core.schema.writer import WriterField, WriterSchema, from_avro

CAPTURED = Path(__file__).parents[1] / "capture" / "data" / "registry"


def written(*members: dict[str, Any]) -> WriterSchema:
    """The columns of a record of these fields."""
    return from_avro(json.dumps({"type": "record", "name": "R", "namespace": "n", "fields": list(members)}))


def column(kind: Any, **more: Any) -> WriterField:
    """One column `c` of that type."""
    return written({"name": "c", "type": kind, **more}).fields[0]


def logical(base: str, name: str, **more: Any) -> dict[str, Any]:
    """A logical type."""
    return {"type": base, "logicalType": name, **more}


def connect(base: str, name: str, **more: Any) -> dict[str, Any]:
    """What Kafka Connect's Avro converter writes for a semantic type."""
    return {"type": base, "connect.version": 1, "connect.name": name, **more}


def decimal_bytes(precision: int, scale: int, **parameters: str) -> dict[str, Any]:
    """A Connect decimal."""
    more = {"scale": scale, "precision": precision, "connect.parameters": {"scale": str(scale), **parameters}, "logicalType": "decimal"}
    return connect("bytes", "org.apache.kafka.connect.data.Decimal", **more)


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """A nested record."""
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields], **more}


@pytest.mark.parametrize(("precision", "scale", "stored"), [(20, -2, ("decimal", 22, 0)), (3, 5, ("decimal", 6, 5)), (3, 38, ("decimal", 38, 38))])
def test_a_decimal_of_oracle_has_the_scale_that_connect_gives(precision: int, scale: int, stored: types.Type) -> None:
    """Avro's own decimals have no such scale, so that Spark reads bytes."""
    field = column(decimal_bytes(precision, scale, **{"connect.decimal.precision": str(precision)}))
    assert (field.raw, field.type, field.scale) == (("binary",), stored, scale)


FIXED = {"type": "fixed", "name": "F", "size": 12}
VARIABLE = record(
    "VariableScaleDecimal",
    ("scale", "int"),
    ("value", "bytes"),
    namespace="io.debezium.data",
    **{"connect.name": "io.debezium.data.VariableScaleDecimal"},
)
POINT = record(
    "Point",
    ("x", "double"),
    ("y", "double"),
    ("wkb", ["null", "bytes"]),
    ("srid", ["null", "int"]),
    **{"connect.name": "io.debezium.data.geometry.Point"},
)
GEOMETRY = record("Geometry", ("wkb", "bytes"), ("srid", ["null", "int"]), **{"connect.name": "io.debezium.data.geometry.Geometry"})

CASES = [
    # Avro's own types
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "bigint"),
    ("float", "float"),
    ("double", "double"),
    ("bytes", "binary"),
    ("string", "string"),
    ({"type": "string", "avro.java.string": "String"}, "string"),
    ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "string"),
    (FIXED, "binary"),
    (["null", "int"], "int"),
    (["int", "null"], "int"),
    (["string"], "string"),
    ({"type": "array", "items": "int"}, "array<int>"),
    ({"type": "array", "items": ["null", "string"]}, "array<string>"),
    (["null", {"type": "array", "items": {"type": "array", "items": "double"}}], "array<array<double>>"),
    ({"type": "map", "values": ["null", "long"]}, "map<string,bigint>"),
    (record("P", ("x", "int"), ("y", ["null", "string"])), "struct<x:int,y:string>"),
    (
        record("P", ("userId", "int"), ("userid", "int"), ("a-b", record("Q", ("größe", "int")))),
        "struct<userid_2:int,userid:int,a_b:struct<gr_u00f6_u00dfe:int>>",
    ),
    (record("P", ("userid", "int"), ("userId", "int"), ("userID", "int")), "struct<userid:int,userid_3:int,userid_2:int>"),
    ({"type": "map", "values": record("P", ("at", logical("long", "timestamp-micros")))}, "map<string,struct<at:timestamp>>"),
    # unions of several types: one that holds both, else a member each, as Spark's reader gives them
    (["int", "long"], "bigint"),
    (["null", "float", "double"], "double"),
    (["int", "null", "string"], "struct<member0:int,member1:string>"),
    (["null", record("P", ("x", "int")), record("Q", ("y", "int"))], "struct<member0:struct<x:int>,member1:struct<y:int>>"),
    # Avro's logical types
    (logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)"),
    (logical("bytes", "decimal", precision=38), "decimal(38,0)"),
    (logical("bytes", "decimal", precision=60, scale=2), "string"),
    ({**FIXED, "logicalType": "decimal", "precision": 20, "scale": 4}, "decimal(20,4)"),
    (logical("string", "uuid"), "string"),
    (logical("int", "date"), "date"),
    (logical("int", "time-millis"), "string"),
    (logical("long", "time-micros"), "string"),
    (logical("long", "timestamp-millis"), "timestamp"),
    (logical("long", "timestamp-micros"), "timestamp"),
    (logical("long", "timestamp-nanos"), "timestamp"),
    (logical("long", "local-timestamp-millis"), "timestamp"),
    (logical("long", "local-timestamp-micros"), "timestamp"),
    (logical("long", "local-timestamp-nanos"), "timestamp"),
    ({**FIXED, "logicalType": "duration"}, "binary"),
    # logical types that break Avro's rules, or that nobody knows, are ignored: the type below counts
    (logical("bytes", "decimal"), "binary"),
    (logical("bytes", "decimal", precision=4, scale=6), "binary"),
    ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 9}, "binary"),
    (logical("string", "date"), "string"),
    (logical("int", "timestamp-millis"), "int"),
    (logical("long", "fiscal-year"), "bigint"),
    # Kafka Connect's semantic types
    (decimal_bytes(9, 2, **{"connect.decimal.precision": "9"}), "decimal(9,2)"),
    (decimal_bytes(64, 2), "decimal(38,2)"),
    (decimal_bytes(64, 2, **{"connect.decimal.precision": "64"}), "string"),
    (connect("int", "org.apache.kafka.connect.data.Date", logicalType="date"), "date"),
    (connect("int", "org.apache.kafka.connect.data.Time", logicalType="time-millis"), "string"),
    (connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis"), "timestamp"),
    ({"type": "int", "connect.type": "int8"}, "int"),
    ({"type": "int", "connect.type": "int16"}, "int"),
    # Debezium's
    (connect("int", "io.debezium.time.Date"), "date"),
    (connect("int", "io.debezium.time.Time"), "string"),
    (connect("long", "io.debezium.time.MicroTime"), "string"),
    (connect("long", "io.debezium.time.NanoTime"), "string"),
    (connect("string", "io.debezium.time.ZonedTime"), "string"),
    (connect("long", "io.debezium.time.Timestamp"), "timestamp"),
    (connect("long", "io.debezium.time.MicroTimestamp"), "timestamp"),
    (connect("long", "io.debezium.time.NanoTimestamp"), "timestamp"),
    (connect("string", "io.debezium.time.ZonedTimestamp"), "timestamp"),
    (connect("string", "io.debezium.time.IsoDate"), "date"),
    (connect("string", "io.debezium.time.IsoTime"), "string"),
    (connect("string", "io.debezium.time.IsoTimestamp"), "timestamp"),
    (connect("int", "io.debezium.time.Year"), "int"),
    (connect("string", "io.debezium.time.Interval"), "string"),
    (connect("long", "io.debezium.time.MicroDuration"), "bigint"),
    (connect("long", "io.debezium.time.NanoDuration"), "bigint"),
    (connect("string", "io.debezium.data.Json"), "string"),
    (connect("string", "io.debezium.data.Xml"), "string"),
    (connect("string", "io.debezium.data.Uuid"), "string"),
    (connect("string", "io.debezium.data.Ltree"), "string"),
    (connect("string", "io.debezium.data.Tsvector"), "string"),
    (connect("string", "io.debezium.data.Enum", **{"connect.parameters": {"allowed": "a,b"}}), "string"),
    (connect("string", "io.debezium.data.EnumSet", **{"connect.parameters": {"allowed": "a,b"}}), "string"),
    (connect("bytes", "io.debezium.data.Bits", **{"connect.parameters": {"length": "5"}}), "binary"),
    (VARIABLE, "string"),
    (["null", VARIABLE], "string"),
    ({"type": "array", "items": VARIABLE}, "array<string>"),
    ({"type": "array", "items": ["null", connect("int", "io.debezium.time.Date")]}, "array<date>"),
    (POINT, "struct<x:double,y:double,wkb:binary,srid:int>"),
    (GEOMETRY, "struct<wkb:binary,srid:int>"),
    (connect("array", "io.debezium.data.FloatVector", items="float"), "array<float>"),
    ({"type": "map", "values": ["null", "string"]}, "map<string,string>"),  # hstore as a map
    (record("Box", ("Day", ["null", connect("int", "io.debezium.time.Date")]), ("odd", VARIABLE)), "struct<day:date,odd:string>"),
    ({"type": "map", "values": connect("long", "io.debezium.time.Timestamp")}, "map<string,timestamp>"),
]


@pytest.mark.parametrize(("kind", "expected"), CASES, ids=[json.dumps(kind)[:70] for kind, _ in CASES])
def test_a_type_is_stored_as(kind: Any, expected: str) -> None:
    """Alone, and as a member of a nullable union."""
    assert types.text(column(kind).type) == expected
    if not isinstance(kind, list):
        assert types.text(column(["null", kind], default=None).type) == expected


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int", 7, 7),
        ("long", 2**40, 2**40),
        ("string", "n/a", "n/a"),
        ("boolean", False, False),
        ("double", 1, 1),
        (["string", "null"], "x", "x"),
        (["null", "string"], None, None),
        ("int", None, None),
        ("int", "7", None),
        ("int", True, None),
        (decimal_bytes(9, 2), "\u0001\u0000", "2.56"),
        (decimal_bytes(9, 2), "ÿ", "-0.01"),
        # more digits than Python's own arithmetic keeps
        (decimal_bytes(38, 2), (10**31 - 1).to_bytes(13, "big").decode("latin-1"), "99999999999999999999999999999.99"),
        (decimal_bytes(38, -2), "\u0007", "700"),
        (logical("bytes", "decimal", precision=9, scale=3), "\u0007", "0.007"),
        (connect("string", "io.debezium.data.Enum"), "sad", "sad"),
        # made-up defaults, which stand for now() and gen_random_uuid(), and encoded ones
        (connect("string", "io.debezium.data.Uuid"), "00000000-0000-0000-0000-000000000000", None),
        (connect("string", "io.debezium.time.ZonedTimestamp"), "1970-01-01T00:00:00.000000Z", None),
        (connect("long", "io.debezium.time.MicroTimestamp"), 0, None),
        (logical("int", "date"), 0, None),
        (logical("int", "date"), 18321, "2020-02-29"),
        (logical("int", "date"), 2932897, None),
        (connect("long", "io.debezium.time.MicroTime"), 45296000001, "12:34:56.000001"),
        (connect("int", "io.debezium.time.Time"), -1000, "-00:00:01"),
        (connect("string", "io.debezium.data.Uuid"), "b68a35a7-17ad-35b3-af2a-ae46edb4545a", "b68a35a7-17ad-35b3-af2a-ae46edb4545a"),
        # no SQL for all engines has a constant of a timestamp
        (connect("string", "io.debezium.time.ZonedTimestamp"), "2020-01-01T00:00:00.500000Z", None),
        ({"type": "array", "items": "int"}, [], None),
    ],
)
def test_a_default_is_kept_when_it_is_a_constant(kind: Any, default: Any, expected: Any) -> None:
    """As its stored type spells it; a wrong one is none."""
    result = column(kind, default=default).default
    assert result == expected
    assert type(result) is type(expected)
    if isinstance(expected, str) and "bytes" in json.dumps(kind):
        assert Decimal(result) == Decimal(expected)


def test_documentation_comes_along() -> None:
    """Avro's `doc` of a field becomes the column's comment."""
    assert column("int", doc="how many").doc == "how many"


def test_the_columns_of_an_envelope_are_those_of_after() -> None:
    """`Value` is defined in `before` and spoken of by name in `after`."""
    value = record("Value", ("id", "int"), ("name", ["null", "string"]))
    result = written({"name": "before", "type": ["null", value]}, {"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"})
    assert [(field.name, types.text(field.type)) for field in result.fields] == [("id", "int"), ("name", "string")]


def recursive(kind: Any) -> dict[str, Any]:
    """A record `Node` that contains itself."""
    return {"type": "record", "name": "Node", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": kind}]}


@pytest.mark.parametrize(
    "kind", [["null", "Node"], {"type": "array", "items": "Node"}, {"type": "map", "values": "Node"}, record("Pair", ("left", ["null", "Node"]))]
)
def test_a_record_that_contains_itself_is_refused(kind: Any) -> None:
    """Naming the column and the record."""
    with pytest.raises(SchemaRefused, match=r"column tree\.next.*the record n\.Node contains itself"):
        written({"name": "tree", "type": recursive(kind)})


def test_a_record_used_twice_side_by_side_is_not_recursive() -> None:
    """Home and work address."""
    result = written({"name": "home", "type": record("A", ("zip", "int"))}, {"name": "work", "type": ["null", "A"]})
    assert [types.text(field.type) for field in result.fields] == ["struct<zip:int>"] * 2


def test_a_short_schema_that_spells_millions_of_columns_is_refused() -> None:
    """Ten records, each used twenty times by the next: 20^10 members."""
    kind: Any = "int"
    for level in range(10):
        kind = record(f"R{level}", *((f"m{at}", kind if at == 0 else kind if isinstance(kind, str) else kind["name"]) for at in range(20)))
    with pytest.raises(SchemaRefused, match="more than 10000 columns"):
        written({"name": "c", "type": kind})


@pytest.mark.parametrize("kind", ["null", ["null"]])
def test_a_column_that_only_is_null_has_no_type_yet(kind: Any) -> None:
    """Like one of only nulls in JSON; a member is text."""
    schema = written({"name": "c", "type": kind}, {"name": "d", "type": record("P", ("x", "null"))})
    assert (schema.undecided, [types.text(field.type) for field in schema.fields]) == (("c",), ["struct<x:string>"])
    with pytest.raises(SchemaRefused, match=r"column d\.x: expected a union with a type besides null"):
        written({"name": "d", "type": record("P", ("x", ["null"]))})


def test_a_schema_without_fields_is_refused() -> None:
    """A bare value has no columns."""
    with pytest.raises(SchemaRefused, match="expected an Avro record"):
        from_avro('"string"')


def test_decimals_that_spark_refuses_are_opened_as_bytes() -> None:
    """More than 38 digits, wherever they are; other decimals stay; wrong ones do no harm."""
    big, small, wrong = decimal_bytes(64, 2), decimal_bytes(9, 2), logical("bytes", "decimal", precision="many")
    text = json.dumps(record("R", ("a", ["null", big]), ("b", small), ("c", wrong)))
    kinds = [member["type"] for member in json.loads(avro.readable_by_spark(text))["fields"]]
    assert ["logicalType" in kind for kind in (kinds[0][1], kinds[1], kinds[2])] == [False, True, True]


def test_the_type_capture_of_a_real_registry() -> None:
    """`type_zoo` and `student`, as Debezium 3.7 and Apicurio's converter describe PostgreSQL's types."""
    subjects = {(each["subject"], each["version"]): each["id"] for each in json.loads((CAPTURED / "subjects.json").read_text(encoding="utf-8"))}

    def stored(table: str) -> dict[str, str]:
        text = (CAPTURED / "schemas" / f"{subjects[f'pga.public.{table}-value', 1]}.avsc").read_text(encoding="utf-8")
        return {field.name: types.text(field.type) for field in from_avro(text).fields}

    assert stored("student") == {
        **dict.fromkeys("id level".split(), "int"),
        **dict.fromkeys("full_name wake_at wake_tz points uid doc doc_raw mood code nick essay".split(), "string"),
        "birth_date": "date",
        **dict.fromkeys("enrolled_at updated_at seen_ms".split(), "timestamp"),
        "tuition": "decimal(20,4)",
        "fee": "decimal(9,2)",
        "ref_no": "decimal(38,0)",
        "gpa": "float",
        "ratio": "double",
        "big": "bigint",
        "active": "boolean",
        "photo": "binary",
        "tags": "array<string>",
        "marks": "array<int>",
    }
    assert stored("type_zoo") == {
        **dict.fromkeys("id ival o".split(), "bigint"),
        **dict.fromkeys("ip net mac rng trng drng x h ci lt em v".split(), "string"),
        "b1": "boolean",
        **dict.fromkeys("b5 vb ad".split(), "binary"),
        "pt": "struct<x:double,y:double,wkb:binary,srid:int>",
        "m": "decimal(38,2)",
        **dict.fromkeys("moods uu_arr jb_arr".split(), "array<string>"),
        "ts_arr": "array<timestamp>",
        "num_arr": "array<decimal(10,2)>",
        "arr2d": "array<int>",
        "gen": "int",
    }
