"""`types:` and Avro's logical types, for JSON without schema: what the values do not show, and what happens to values of another type."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import SchemaRefused
from compactor.core.model.policy import Protection
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.added_defaults import DECIMAL, ID, record
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DAY, MILLIS = 20782, 1795611600123
TYPES = (
    ("balance", "decimal(10,2)"),
    ("birth_date", "date_days"),
    ("at_millis", "timestamp_millis"),
    ("at_micros", "timestamp_micros"),
    ("at_nanos", "timestamp_nanos"),
    ("t_millis", "time_millis"),
    ("t_micros", "time_micros"),
    ("t_nanos", "time_nanos"),
)
ENCODED = {
    "balance": "BH4=",
    "birth_date": DAY,
    "at_millis": MILLIS,
    "at_micros": MILLIS * 1000 + 456,
    "at_nanos": MILLIS * 1_000_000 + 456_789,
    "t_millis": 36_000_500,
    "t_micros": 36_000_500_000,
    "t_nanos": 36_000_500_000_000,
}
MEANT = {
    "balance": "11.50",
    "birth_date": "2026-11-25",
    "at_millis": "2026-11-25T13:00:00.123000Z",
    "at_micros": "2026-11-25T13:00:00.123456Z",
    "at_nanos": "2026-11-25T13:00:00.123456Z",
    "t_millis": "10:00:00.500000",
    "t_micros": "10:00:00.500000",
    "t_nanos": "10:00:00.500000",
}
LOGICAL = {
    "balance": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "birth_date": {"type": "int", "logicalType": "date"},
    "at_millis": {"type": "long", "logicalType": "timestamp-millis"},
    "at_micros": {"type": "long", "logicalType": "local-timestamp-micros"},
    "at_nanos": {"type": "long", "logicalType": "timestamp-nanos"},
    "t_millis": {"type": "int", "logicalType": "time-millis"},
    "t_micros": {"type": "long", "logicalType": "time-micros"},
}


def event(op: str, lsn: int, row: dict[str, Any]) -> dict[str, Any]:
    """A change of Debezium's PostgreSQL connector, as most clusters write it: without schema."""
    source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}
    return {"before": None, "after": row, "source": source, "op": op}


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with decimals as text."""
    return [{name: value if isinstance(value, int) else value and str(value) for name, value in row.items()} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("declared", ["types", "schema"])
def test_numbers_and_base64_mean_what_the_table_declares(lake: Lake, declared: str) -> None:
    """The default of most Connect clusters sends `balance = "BH4="` and times as numbers."""
    fields = [{"name": "id", "type": "long"}, *({"name": name, "type": ["null", kind]} for name, kind in LOGICAL.items())]
    schema = {"avro_schema": json.dumps({"type": "record", "name": "t", "fields": fields}), "types": (("t_nanos", "time_nanos"),)}
    spec = lake.spec(envelope="debezium", order_by=(), **({"types": TYPES} if declared == "types" else schema))
    lake.land(spec, 1, [event("c", 1, {"id": 1, **ENCODED}), event("c", 2, {"id": 2, **dict.fromkeys(ENCODED)})])
    lake.run(spec)
    assert [{"id": 1, **MEANT}, {"id": 2, **dict.fromkeys(ENCODED)}] == shown(lake.rows(spec))
    if declared == "schema":
        return
    # one value of another kind, in a batch where it is the only one
    lake.land(spec, 2, [event("c", 3, {"id": 3, **ENCODED, "at_millis": "n/a"}), event("c", 4, {"id": 4, **ENCODED, "balance": "n/a"})])
    lake.land(spec, 2, [event("c", 5, {"id": 5, **ENCODED, "at_millis": "2026-11-25T13:00:00.123Z", "balance": "11.50"})], "text.json")
    lake.run(spec)
    assert [(1, "the value of at_millis is not of type timestamp"), (2, "the value of balance is not of type decimal(10,2)")] == lake.unusable(spec)
    assert [1, 2, 5] == [row["id"] for row in lake.rows(spec)]
    assert {"id": 5, **MEANT} in shown(lake.rows(spec))
    assert [] == lake.problems(spec)


DECIMALS: dict[str, tuple[list[Any], list[str | None]]] = {
    "number": ([12.34, 1234, -0.5, 10000000], ["12.34", "1234.00", "-0.50", "10000000.00"]),
    "text": (["12.34", "1234", "-0.5", None], ["12.34", "1234.00", "-0.50", None]),
    "bytes": (["BH4=", "1234", "AYag", "/w=="], ["11.50", "-26588.24", "1000.00", "-0.01"]),
}
"""`1234` is a number, and three bytes in base64. The values beside it decide."""


@pytest.mark.slow
def test_a_decimal_is_a_number_its_text_or_base64(lake: Lake) -> None:
    """No digit is lost or added. Where nothing shows which one `1234` is, its record is invalid."""
    spec = lake.spec(types=tuple((name, "decimal(10,2)") for name in DECIMALS))
    lake.land(spec, 1, [{"id": at, "seq": 1, **{name: values[at] for name, (values, _) in DECIMALS.items()}} for at in range(4)])
    lake.run(spec)
    rows = [{"id": at, "seq": 1, **{name: meant[at] for name, (_, meant) in DECIMALS.items()}} for at in range(4)]
    assert rows == shown(lake.rows(spec))
    more = [{"text": "1234"}, {"number": 1.005}, {"number": 123456789012}, {"number": 5e-1}, {"number": -1e-7}]
    lake.land(spec, 2, [{"id": id_, "seq": 1, **row} for id_, row in enumerate(more, 4)])
    lake.run(spec)
    assert [1, 2, 3, 5] == [record for record, _ in lake.unusable(spec)]
    assert [*rows, {"id": 7, "seq": 1, "number": "0.50", "text": None, "bytes": None}] == shown(lake.rows(spec))


def test_no_digit_of_a_declared_column_is_lost(lake: Lake) -> None:
    """Whole numbers beside fractions, numbers beyond their type, and numbers in a column of text."""
    spec = lake.spec(types=(("n", "bigint"), ("small", "int"), ("text", "string"), ("ok", "boolean")))
    rows = [{"n": 2**53 + 1, "small": 5.0, "text": 7.50, "ok": True}, {"n": 1.5}, {"small": 3_000_000_000}, {"ok": "maybe"}, {"text": "x"}]
    lake.land(spec, 1, [{"id": id_, "seq": 1, "n": 1, "small": 1, "text": "", "ok": False, **row} for id_, row in enumerate(rows)])
    lake.run(spec)
    assert {"id": 0, "seq": 1, "n": 2**53 + 1, "small": 5, "text": "7.5", "ok": True} == lake.rows(spec)[0]
    assert [2, 3, 4] == [record for record, _ in lake.unusable(spec)]


@pytest.mark.slow
def test_bytes_in_either_form_of_base64_and_nanoseconds_before_1970(lake: Lake) -> None:
    """What is no base64 is not null, and nanoseconds are cut, as everywhere."""
    spec = lake.spec(types=(("b", "binary"), ("at", "timestamp_nanos")))
    rows = [{"b": "/+8=", "at": -1}, {"b": "_-8=", "at": -461_986_503_876_543_300}, {"b": "hello world!"}, {"b": None, "at": -1000}]
    lake.land(spec, 1, [{"id": id_, "seq": 1, **row} for id_, row in enumerate(rows)])
    lake.run(spec)
    text = f"SELECT id, hex(b), CAST(at AS STRING) FROM {lake.database}.t ORDER BY id"
    assert [
        (0, "FFEF", "1969-12-31 23:59:59.999999"),
        (1, "FFEF", "1955-05-12 22:24:56.123456"),
        (3, None, "1969-12-31 23:59:59.999999"),
    ] == [tuple(row) for row in lake.spark.sql(text).collect()]
    assert [(3, "the value of b is not of type binary")] == lake.unusable(spec)


@pytest.mark.slow
def test_types_of_a_table_that_exists_need_a_rebuild(lake: Lake) -> None:
    """Stored text and numbers do not become decimals and dates by a declaration: nothing is mixed, and the message names the command."""
    spec = lake.spec(envelope="debezium", order_by=())
    lake.land(spec, 1, [event("c", 1, {"id": 1, "n": 7, **ENCODED})])
    lake.run(spec)
    assert "BH4=" == lake.rows(spec)[0]["balance"]
    typed = lake.with_settings(spec, types=(*TYPES, ("n", "decimal(20,0)")))
    lake.land(spec, 2, [event("c", 2, {"id": 2, "n": 8, **ENCODED})])
    with pytest.raises(SchemaRefused, match=r"column balance: `types:` declares decimal\(10,2\), .* stored as string. .* compactor rebuild t"):
        lake.run(typed)
    difference = rebuild_table(Table(lake.env, typed), accept=True).difference
    assert difference.unreadable == ""
    assert (difference.missing, difference.added, difference.changed) == (0, 0, 1)
    lake.run(typed)
    assert [{"id": 1, "n": 7, **MEANT}, {"id": 2, "n": 8, **MEANT}] == shown(lake.rows(typed))
    assert [] == lake.problems(typed)


@pytest.mark.slow
def test_types_give_numbers_of_csv_and_parquet_their_meaning(lake: Lake) -> None:
    """The same key for all formats."""
    spec = lake.spec(types=(("day", "date_days"), ("at", "timestamp_millis")))
    folder = lake.land(spec, 1, ["id,seq,day,at", f"1,1,{DAY},{MILLIS}", "2,1,2026-11-25,2026-11-25 13:00:00.123", "3,1,x,"], "a.csv").parent
    lake.land_parquet(spec, 1, [{"id": 4, "seq": 1, "day": DAY, "at": MILLIS}], "id bigint, seq bigint, day int, at bigint")
    assert folder.exists()
    lake.run(spec)
    day, at = MEANT["birth_date"], MEANT["at_millis"]
    assert [{"id": id_, "seq": 1, "day": day, "at": at} for id_ in (1, 2, 4)] == lake.rows(spec)
    assert [3] == [record for record, _ in lake.unusable(spec)]


@pytest.mark.slow
def test_a_value_that_stops_a_table_is_named(lake: Lake) -> None:
    """With column, file and record, and the declaration after which its record goes to quarantine. Of a protected table no value is shown."""
    spec = lake.spec()
    rows = [{"id": id_, "seq": 1, "n": id_, "at": {"zip": 1}, "salary": 10} for id_ in range(3)]
    lake.land(spec, 1, rows)
    lake.run(spec)
    lake.land(spec, 2, rows, "a.json")
    odd = lake.land(spec, 2, [*rows, {**rows[0], "n": "n/a"}, {**rows[0], "n": "none"}], "b.json")
    with pytest.raises(SchemaRefused) as refused:
        lake.run(spec)
    assert "declare `types: {n: bigint}`, and their records go to quarantine" in str(refused.value)
    assert str(refused.value).endswith("The first such value, of n, is 'n/a': increment_2024030502/b.json, record 4.")
    for change, said in (
        ({"at": {"zip": "x"}}, "of at.zip, is 'x': increment_2024030502/b.json, record 4."),
        (
            {"id": 1.5},
            "declare `types: {id: bigint}`, and their records go to quarantine. Repair the producer, or rename the column. The first such value, "
            "of id, is '1.5': increment_",
        ),
        ({"n": {"a": 1}}, """of n, is '{"a":1}': increment_2024030502/b.json, record 4."""),
    ):
        odd.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], **change}]))
        with pytest.raises(SchemaRefused, match=re.escape(said)):
            lake.run(spec)
    odd.write_text("".join(json.dumps({**row, "n": "secret"}) + "\n" for row in rows))
    for protected in ({"columns": (Protection("other", "null"),)}, {"archive_kms_key": "arn:aws:kms:eu-west-1:123456789012:key/a"}):
        with pytest.raises(SchemaRefused, match=r"of n, is \(not shown: the table has .*\): increment_2024030502/b.json, record 1") as refused:
            lake.run(lake.with_settings(spec, **protected))
        assert "secret" not in str(refused.value)
    odd.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "n": "n/a"}]))
    typed = lake.with_settings(spec, types=(("n", "bigint"),))
    lake.run(typed)
    assert [(4, "the value of n is not of type bigint")] == lake.unusable(typed)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["with its schema", "with declared types", "in a Kafka record"])
def test_no_digit_of_a_number_inside_of_an_envelope_is_lost(lake: Lake, how: str) -> None:
    """Of a decimal with more digits than a double; texts that look like one stay as they are."""
    digits, declared = ("1234567890123456.78", "-92233720368547758.07", "12.50"), how == "with declared types"
    types = {"scale": "2", "connect.decimal.precision": "19"}
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "n", "type": "bytes", "name": DECIMAL, "parameters": types},
        {"field": "s", "type": "string"},
    ]
    images = [{"type": "struct", "field": name, "optional": True, "fields": fields} for name in ("before", "after")]
    schema = json.dumps({"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]})
    source = '"source": {"connector": "postgresql", "lsn": %d}, "op": "c"'
    texts = [rf'{{"before": null, "after": {{"id": {at}, "n": {n}, "s": ":-{n} \", [{n}"}}, {source % at}}}' for at, n in enumerate(digits)]
    if not declared:
        texts = [f'{{"schema": {schema}, "payload": {text}}}' for text in texts]
    settings = {"types": (("n", "decimal(19,2)"),)} if declared else {}
    if how == "in a Kafka record":
        texts, settings = (
            [f'{{"key": null, "offset": {at}, "partition": 0, "value": {text}}}' for at, text in enumerate(texts)],
            {"container": "kafka"},
        )
    spec = lake.spec(envelope="debezium", order_by=("source.lsn",), **settings)
    lake.land(spec, 1, texts)
    lake.run(spec)
    assert [(str(row["n"]), row["s"]) for row in lake.rows(spec)] == [(n, f':-{n} ", [{n}') for n in digits]


@pytest.mark.slow
def test_decimals_as_numbers_in_json_with_a_schema(lake: Lake) -> None:
    """Connect's `decimal.format=NUMERIC`: the text of a number may be base64, too; no digit is lost."""
    decimals = {"whole": (0, 18), "money": (2, 20), "wide": (2, 38)}
    kinds = [
        {"field": name, "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": str(scale), "connect.decimal.precision": str(digits)}}
        for name, (scale, digits) in decimals.items()
    ]  # fmt: skip
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32"}, {"field": "seq", "type": "int32"}, *kinds]}
    spec = lake.spec("numeric")
    rows = ["1234, 11.50, 123456789012345678901234567890", "-5, -0.25, 1", "null, null, null"]
    names = [f'"{name}":' for name in decimals]
    folder = Path(spec.landing) / "increment_2024030510"
    folder.mkdir(parents=True)
    lines = (", ".join(map("{}{}".format, names, row.split(","))) for row in rows)
    texts = (f'{{"schema": {json.dumps(schema)}, "payload": {{"id": {at}, "seq": 1, {line}}}}}' for at, line in enumerate(lines))
    (folder / "a.json").write_text("\n".join(texts))
    lake.run(spec)
    found = [tuple(None if row[name] is None else str(row[name]) for name in decimals) for row in lake.rows(spec)]
    assert found == [("1234", "11.50", "123456789012345678901234567890.00"), ("-5", "-0.25", "1.00"), (None, None, None)]


NULLABLE = {"type": "bytes", "optional": True, "name": DECIMAL, "parameters": {"scale": "0", "connect.decimal.precision": "18"}}


@pytest.mark.slow
@pytest.mark.parametrize("envelope", ["flat", "debezium"])
def test_any_record_of_a_writer_shows_that_its_decimals_are_numbers(lake: Lake, envelope: str) -> None:
    """In the first load and in later runs, also where the longest record has nulls, and an object inside has a member of the column's name."""
    fields = [*ID, {"field": "note", "type": "string"}, {"field": "n", **NULLABLE}, {"field": "N", **NULLABLE}]
    fields.append({"field": "in", "type": "struct", "optional": True, "fields": [{"field": "n", "type": "int32"}]})

    def change(id_: int, note: str, n: int | str | None) -> dict[str, Any]:
        row = {"id": id_, "seq": id_, "note": note, "n": n, "N": None, "in": {"n": 7}}
        if envelope == "flat":
            return record(fields, row)
        source = {"type": "struct", "field": "source", "fields": [{"field": name, "type": "string"} for name in ("connector", "seq")]}
        images = [{"type": "struct", "field": name, "optional": True, "fields": fields} for name in ("before", "after")]
        document = {"before": None, "after": row, "source": {"connector": "x", "seq": id_}, "op": "c"}
        return record([*images, source, {"field": "op", "type": "string"}], document)

    spec = lake.spec("any", envelope=envelope, order_by=("seq",) if envelope == "flat" else ("source.seq",))
    lake.land(spec, 1, [change(1, "long long text", None), change(2, "x", 1234)], "a.json")
    lake.land(spec, 1, [change(3, "another " * 9, None)], "b.json")
    lake.run(spec)
    lake.land(spec, 2, [change(4, "long long text", None), change(5, "", 10001000)])
    lake.run(spec)
    # nothing but nulls and the base64 of another converter
    lake.land(spec, 3, [change(6, "long long text", None), change(7, "x", "BNI=")])
    lake.run(spec)
    assert [row["n"] for row in lake.rows(spec)] == [None, 1234, None, None, 10001000, None, 1234]


@pytest.mark.slow
def test_numbers_and_base64_of_one_writer_are_distinguished_by_value(lake: Lake) -> None:
    """The converter's setting changed. A text that is both is not used, and its record goes to quarantine."""
    spec = lake.spec("both")
    values: list[int | str | None] = [None, "BNI=", 123, -5, 1234, "1234"]
    fields = [*ID, {"field": "n", **NULLABLE}]
    lake.land(spec, 1, [record(fields, {"id": at, "seq": at, "n": value}) for at, value in enumerate(values)])
    lake.run(spec)
    assert [row["n"] for row in lake.rows(spec)] == [None, 1234, 123, -5]
    assert [number for number, _ in lake.unusable(spec)] == [5, 6]


@pytest.mark.slow
def test_decimals_as_numbers_inside_of_arrays(lake: Lake) -> None:
    """As those of columns: exact, and what is both a number and base64 is not used. An element that does not fit is no null."""
    scaled = {**NULLABLE, "parameters": {"scale": "2", "connect.decimal.precision": "32"}}
    kinds = {"n": scaled, "a": scaled, "A": NULLABLE, "deep": {"type": "array", "items": scaled}}
    fields = [*ID, *({"field": name, "type": "array", "optional": True, "items": kind} for name, kind in kinds.items())]
    lines = [
        '"n": [1.5, null], "a": [], "A": [1234], "deep": [[], null, [7.50]]',
        '"n": null, "a": [123456789012345678901234567890], "A": [10001000, -5], "deep": [[123456789012345678901234567890]]',
        '"n": [1.5, 1.505], "a": null, "A": null, "deep": null',
    ]
    texts = [json.dumps(record(fields, {"id": at, "seq": at}))[:-2] + f", {line}}}}}" for at, line in enumerate(lines)]
    spec = lake.spec("arrays", quarantine_rows=10)
    lake.land(spec, 1, [])
    next(Path(spec.landing).glob("*/*")).write_text("\n".join(texts))
    lake.run(spec)
    columns = ("n", "a", "a_2", "deep")
    large = "123456789012345678901234567890.00"
    assert [[row[name] and str(row[name]).replace("Decimal", "") for name in columns] for row in lake.rows(spec)] == [
        ["[('1.50'), None]", [], "[1234]", "[[], None, [('7.50')]]"],
        [None, f"[('{large}')]", "[10001000, -5]", f"[[('{large}')]]"],
    ]
    assert [(3, "the value of n is not of type array<decimal(32,2)>")] == lake.unusable(spec)
    values = [["BNI=", None], [123], ["1234"], [1234]]
    lake.land(spec, 2, [record(fields, {"id": at, "seq": at, "n": None, "a": None, "A": value, "deep": None}) for at, value in enumerate(values, 10)])
    lake.run(spec)
    assert [[1234, None], [123]] == [row["a_2"] for row in lake.rows(spec)][2:]
    assert [3, 4] == [number for number, _ in lake.unusable(spec)][-2:]


@pytest.mark.slow
def test_decimals_as_numbers_inside_of_objects_go_to_quarantine(lake: Lake) -> None:
    """There a decimal is stored as its bytes. `1234` as a number is none, whatever its form."""
    members = [{"field": "d", **NULLABLE}, {"field": "i", "type": "int32", "optional": True}]
    kinds = {
        "s": {"type": "struct", "fields": members},
        "m": {"type": "map", "keys": {"type": "string"}, "values": NULLABLE},
        "l": {"type": "array", "items": {"type": "struct", "fields": members}},
    }
    fields = [*ID, *({"field": name, "optional": True, **kind} for name, kind in kinds.items())]
    rows: list[dict[str, Any]] = [
        {"s": {"d": "1234", "i": 1234}, "m": {"a": "BNI=", "b": None}, "l": [{"d": None, "i": 5}]},
        {"s": {"d": 1234, "i": 1}},
        {"m": {"a": None, "b": -5}},
        {"l": [{"d": None, "i": 5}, {"i": 5, "d": 1234}]},
        {"s": None, "l": [None]},
    ]
    spec = lake.spec("objects", quarantine_rows=10)
    lake.land(spec, 1, [record(fields, {"id": at, "seq": at, "s": None, "m": None, "l": None, **row}) for at, row in enumerate(rows)])
    lake.run(spec)
    assert [0, 4] == [row["id"] for row in lake.rows(spec)]
    reason = "decimals inside of objects are read as base64 only, and this one is a number (decimal.format). Write BASE64"
    assert [(at, f"column {name}: {reason}") for at, name in ((2, "s"), (3, "m"), (4, "l"))] == lake.unusable(spec)


@pytest.mark.slow
def test_a_value_that_its_schema_explains_does_not_stop_a_table(lake: Lake) -> None:
    """The text of a decimal is base64. The value that is named is the next one."""
    spec, row = lake.spec(), {"id": 1, "seq": 1}
    decimal = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "0", "connect.decimal.precision": "10"}}
    lake.land(spec, 1, [record([*ID, {"field": "n", "type": "int64"}], {**row, "n": 5})])
    lake.run(spec)
    lake.land(spec, 2, [record([*ID, {"field": "n", **decimal}], {**row, "n": "BQ=="})], "a.json")
    lake.land(spec, 2, [record([*ID, {"field": "n", "type": "string"}], {**row, "n": "n/a"})], "b.json")
    with pytest.raises(SchemaRefused, match=r"The first such value, of n, is 'n/a': increment_2024030502/b.json, record 1[.]$"):
        lake.run(spec)
