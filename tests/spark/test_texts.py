"""Texts of the data stay what they are: no variable is put into them, no byte becomes another, no document and no digit is left out."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import compactor
from compactor.app.query import AS_JSON
from compactor.core.model.errors import InputRefused, SchemaRefused
from compactor.core.model.spec import Csv
from compactor.core.schema.writer import WriterField
from compactor.core.sources.postgres import TEXT
from compactor.duckdb import queries
from compactor.duckdb.rows import object_text
from compactor.duckdb.session import connect
from compactor.spark.decode import conversions, pg_text
from compactor.spark.rows import json_writers
from compactor.spark.sql import literal
from compactor.storage.local import LocalStorage
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

VARIABLES = (
    "${env:SPARK_CONF_DIR}",
    "${env.SPARK_CONF_DIR}",
    "${system:java.vm.name}",
    "${java.vm.name}",
    "${spark.app.id}",
    "${hiveconf:a}",
    "${x}",
)
"""What Spark, Hive and Hadoop put values for."""


def folder(lake: Lake, name: str, hour: int = 10) -> Path:
    """A folder of an hour of a table, by default the first."""
    path = Path(lake.spec(name).landing) / f"increment_20240305{hour}"
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.slow
def test_nothing_is_put_for_a_variable(lake: Lake) -> None:
    """Keys, values, nested names and conditions of JSON and headers of CSV, in a thread of its own, as tables of one run have."""
    row = {"id": 1, "seq": 1, **{name: f"is {name}" for name in VARIABLES}, "nested": {name: name for name in VARIABLES}}
    spec = lake.spec("vars", delete_when="`${env:SPARK_CONF_DIR}` = '${java.vm.name}'", history=True)
    lake.land(spec, 10, [row, {**row, "id": 2, "seq": None}, {**row, "id": 3, VARIABLES[0]: "${java.vm.name}"}])
    table = lake.spec("vars_csv", format="csv")
    (folder(lake, "vars_csv") / "a.csv").write_text("id,seq," + ",".join(VARIABLES) + "\n1,1," + ",".join(VARIABLES) + "\n")

    def runs() -> None:
        lake.run(spec)
        lake.land(spec, 11, [{**row, "seq": 2, "${new}": "${x}"}])
        lake.run(spec)
        lake.run(table)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(runs).result()
    (found,) = lake.rows(spec)
    assert sorted(value for value in found.values() if "${" in str(value) and isinstance(value, str)) == sorted(
        ["${x}", *(f"is {v}" for v in VARIABLES)]
    )
    assert sorted(found["nested"].values()) == sorted(VARIABLES)
    assert [reason for _, reason in lake.unusable(spec)] == [
        "a column of the order (seq) is null or not of the order's type; set `order_by:` to columns that every change has (a snapshot's rows may lack them, if `op` or `__op` is r), or declare another type in `types:` and rebuild"
    ]
    assert sorted(value for value in lake.rows(table)[0].values() if "${" in str(value)) == sorted(VARIABLES)
    for path in lake.root.rglob("*"):
        if path.is_file() and "landing" not in path.parts:
            content = path.read_bytes()
            assert not [secret for secret in (os.environ["SPARK_CONF_DIR"], "Server VM") if secret.encode() in content], path


def test_no_text_reaches_a_parser_without_the_settings_of_the_session() -> None:
    """`F.expr` is used in one place, which sees to that; and `functions` under no other name."""
    package = Path(compactor.__file__).parent
    uses = {path.name for path in package.rglob("*.py") if re.search(r"\bF\.expr\(|import .*\bexpr\b", path.read_text())}
    assert uses == {"sql.py"}


def test_parquet_with_a_variable_as_a_name_is_refused(lake: Lake) -> None:
    """Hadoop would put the variable's value for it, and Spark read null."""
    pq.write_table(pa.table({"id": [1], "seq": [1], "${env.SPARK_CONF_DIR}": ["a"]}), folder(lake, "names") / "a.parquet")
    with pytest.raises(InputRefused, match=r"a\.parquet: a column's name has `\$\{`"):
        lake.run(lake.spec("names"))


LINES = (
    b'{"id":1,"seq":1,"v":"Jos\xe9"}',
    b'{"id":2,"seq":2,"v":"1.50"}{"id":3,"seq":3,"v":"}{"} {"id":4,"seq":4,"n":{"a":[{},{}]}}',
    b"[",
    b'{"id":5,"seq":5,"v":7.50},',
    b'{"id":6,"seq":6}',
    b"]",
    '{"id":7,"seq":7,"v":"\ufffd\U0001f600"}'.encode(),
    b'{"id":8,"seq":8} and more',
    b'[{"id":9,"seq":9},{"id":9,"seq":10}]',
    b'{"id":9,"seq":9},{"id":9,"seq":10}]',
    b"{",
    b'{"id":10,"seq":10,"v":NaN}',
    b"\x1f\x8b\x08",
)


@pytest.mark.slow
def test_lines_of_json(lake: Lake) -> None:
    """Every document is a record, in order; what is none, or has bytes that are no UTF-8, is named."""
    (folder(lake, "lines") / "a.json").write_bytes(b"\n".join(LINES))
    spec = lake.spec("lines")
    lake.run(spec)
    assert {row["id"]: row["v"] for row in lake.rows(spec)} == {2: "1.50", 3: "}{", 4: None, 5: "7.50", 6: None, 7: "\ufffd\U0001f600"}
    reasons = [
        (1, "is not UTF-8: byte 25 is 0xE9"),
        (10, "has text after its JSON object"),
        (11, "is a JSON array"),
        (12, "has text after its JSON object"),
        (13, "is not a JSON object but the first line of one"),
        (14, "is not a JSON object: JSON has no NaN"),
        (15, "is packed with gzip"),
    ]
    for (number, reason), (record, begin) in zip(lake.unusable(spec), reasons, strict=True):
        assert (number, reason[: len(begin)]) == (record, begin)
    assert not lake.problems(spec)


HALVES = ("\\ud83d", "\\uDE00", "\\ud83d\\ud83d\\ude00", "\\ud83d\\ude00\\ude00", "\\ud83dx\\ude00", "\\\\\\ud83d", "\\ud83d\\\\\\ude00")
WHOLE = ("?", "\\ud83d\\ude00", "\\uD83D\\uDE00\\ud83d\\ude01", "\\\\ud83d", "\\\\\\\\ude00", "\\u00d8\\ud7ff\\ue000")
"""Texts as JSON writes them."""


@pytest.mark.slow
@pytest.mark.parametrize("container", ["value", "kafka"])
def test_half_a_character(lake: Lake, container: str) -> None:
    """Its escape would become `?`, and two keys one. What only looks like one is read, in names as in values."""
    spec = lake.spec(f"halves_{container}", container=container)
    documents = [f'{{"id":"{text}","seq":{at}}}' for at, text in enumerate((*HALVES, *WHOLE))]
    documents += ['{"id":"named","seq":1,"\\ud83d":1}', '{"id":"twice","seq":1}{"id":"\\ud83d","seq":2}']
    if container == "kafka":
        documents = [json.dumps({"offset": at, "partition": 0, "key": None, "value": each}) for at, each in enumerate(documents[:-1])]
    lake.land(spec, 10, documents)
    lake.run(spec)
    assert sorted(row["id"] for row in lake.rows(spec)) == sorted(json.loads(f'"{text}"') for text in WHOLE)
    assert [reason[:25] for _, reason in lake.unusable(spec)] == ["has half of a character, "] * (len(HALVES) + 1 + (container == "value"))
    assert not lake.problems(spec)


def test_single_quotes_are_read_as_spark_reads_them(lake: Lake) -> None:
    """Also in the record that shows the names."""
    spec = lake.spec("quotes")
    lake.land(spec, 10, ["{'id':1,'seq':1,'v':'a \"b\"'}", '{"id":2,"seq":2,"v":"it\'s"}'])
    lake.run(spec)
    assert ['a "b"', "it's"] == [row["v"] for row in lake.rows(spec)]


def test_control_characters_in_json(lake: Lake) -> None:
    """Writers that do not escape them lose nothing: neither the text nor the members after it."""
    spec = lake.spec("tabs")
    (folder(lake, "tabs") / "a.json").write_text('{"id":1,"seq":1,"n":{"x":["a\tb"],"y":[{"t":"\x01"}]},"v":"kept"}\n{"id":2,"seq":1,"v":"c\td"}\n')
    lake.run(spec)
    first = {"id": 1, "seq": 1, "n": {"x": ["a\tb"], "y": [{"t": "\x01"}]}, "v": "kept"}
    assert lake.rows(spec) == [first, {"id": 2, "seq": 1, "n": None, "v": "c\td"}]


@pytest.mark.slow
def test_lines_that_are_no_kafka_records(lake: Lake) -> None:
    """A sink that writes values alone, or names the value otherwise, writes no tombstones."""
    spec = lake.spec("records", container="kafka", order_by=("offset",), quarantine_share=0.9)
    good = {"partition": 0, "key": {"id": 1}, "value": {"id": 1, "v": "x"}}
    lake.land(
        spec, 1, [{**good, "offset": 0}, {"id": 2, "v": "bare"}, {"offset": 1, "key": {"id": 3}, "Value": {"id": 3}}, {"offset": 2, "key": None}]
    )
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [1]
    assert [(at, why.partition(";")[0]) for at, why in lake.unusable(spec)] == [
        (2, "is no Kafka record: expected a member value, found id, v"),
        (3, "is no Kafka record: expected a member value, found offset, key, Value"),
    ]


@pytest.mark.slow
def test_documents_of_one_line_have_an_order(lake: Lake) -> None:
    """With equal order columns the later document wins, as of two lines."""
    spec = lake.spec("joined")
    lake.land(spec, 10, ['{"id":1,"seq":1,"v":"a"}{"id":1,"seq":1,"v":"b"}{"id":1,"seq":1,"v":"c"}'])
    lake.run(spec)
    assert lake.snapshot(spec).inputs[-1].rows == 3
    assert [row["v"] for row in lake.rows(spec)] == ["c"]


def test_values_in_kafka_records(lake: Lake) -> None:
    """The bytes of a value are looked at, not only those of a line; a value has one document."""
    table = pa.table(
        {"key": [b"1"] * 3, "value": [b'{"id":1,"seq":1}', b'{"id":2,"seq":2,"v":"\xe9"}', b'{"id":3,"seq":3}{"id":4,"seq":4}'], "offset": [0, 1, 2]}
    )
    pq.write_table(table, folder(lake, "topic") / "a.parquet")
    spec = lake.spec("topic", container="kafka")
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [1]
    assert [reason[:13] for _, reason in lake.unusable(spec)] == ["is not UTF-8:", "has text afte"]


def test_parquet_text_that_is_not_utf8(lake: Lake) -> None:
    """In a column and inside of one."""
    raw = pa.array([b"ok", b"\xe9", b"ok"]).view(pa.string())
    nested = pa.StructArray.from_arrays([pa.array([b"ok", b"ok", b"\xe8"]).view(pa.string())], ["t"])
    pq.write_table(pa.table({"id": [1, 2, 3], "seq": [1, 2, 3], "v": raw, "n": nested}), folder(lake, "bytes") / "a.parquet")
    spec = lake.spec("bytes")
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [1]
    assert [reason[:32] for _, reason in lake.unusable(spec)] == ["has text that is not UTF-8: byte"] * 2


def test_ends_of_csv_lines_and_bytes(lake: Lake) -> None:
    """Each line ends as it likes; what is inside quotes stays; Latin-1 is refused by record."""
    (folder(lake, "ends") / "a.csv").write_bytes(
        b'id,seq,v\n1,1,NYC\r\n2,2,"L\r\nA"\r\n3,3,\r\n4,4,Jos\xe9\n\r\n\n5,5,"a""b"\n6,6,' + "é\U0001f600\ufffd\n".encode()
    )
    spec = lake.spec("ends", format="csv")
    lake.run(spec)
    assert {row["id"]: row["v"] for row in lake.rows(spec)} == {1: "NYC", 2: "L\r\nA", 3: None, 5: 'a"b', 6: "é\U0001f600\ufffd"}
    assert [(number, reason[:12]) for number, reason in lake.unusable(spec)] == [(4, "is not UTF-8")]


def test_csv_with_backslashes_before_quotes(lake: Lake) -> None:
    """What MySQL writes is refused with the record and what to do; a header in Latin-1 too."""
    (folder(lake, "mysql") / "a.csv").write_bytes(b'id,seq,v\n1,1,NYC\n2,2,"say \\"hi\\""\n')
    with pytest.raises(InputRefused, match=r"a\.csv: cannot be read \(record 3 \(a header counts\): a quote in a quoted value is not doubled"):
        lake.run(lake.spec("mysql", format="csv"))
    (folder(lake, "latin") / "a.csv").write_bytes(b"id,seq,gr\xf6sse\n1,1,2\n")
    with pytest.raises(InputRefused, match=r"the header is not UTF-8: id, seq, gr"):
        lake.run(lake.spec("latin", format="csv"))


@pytest.mark.slow
def test_numbers_that_nothing_holds(lake: Lake) -> None:
    """More than 38 digits are text; more than a double holds is refused; a number never becomes text by itself."""
    long = 2**256 - 1
    spec = lake.spec("long")
    lake.land(spec, 10, [{"id": 1, "seq": 1, "n": 5}, {"id": 2, "seq": 2, "n": long}, '{"id":3,"seq":3,"n":1.50}'])
    lake.land(spec, 10, ['{"id":4,"seq":4,"d":1e400}', '{"id":5,"seq":5,"d":-2.5}', '{"id":6,"seq":6,"d":"Infinity"}'], "b.json")
    lake.run(spec)
    assert {row["id"]: row["n"] for row in lake.rows(spec)} == {1: "5", 2: str(long), 3: "1.50", 5: None, 6: None}
    assert [reason for _, reason in lake.unusable(spec)] == [
        "column d: has a number that a double cannot hold. Declare a type that holds it, or correct it"
    ]
    spec = lake.spec("grown")
    lake.land(spec, 10, [{"id": 1, "seq": 1, "n": 5}])
    lake.run(spec)
    lake.land(spec, 11, [{"id": 2, "seq": 2, "n": long}])
    with pytest.raises(SchemaRefused, match="to_string"):
        lake.run(spec)


def test_dates_before_christ_in_each_text_format(lake: Lake) -> None:
    """PostgreSQL writes them so, by COPY and as JSON."""
    texts = ("0044-03-15 BC", "0001-12-31 BC", "-0043-03-15", "2024-02-29")
    for form in ("json", "csv"):
        spec = lake.spec(f"bc_{form}", format="auto", types=(("d", "date"), ("at", "timestamp")))
        rows = [
            {"id": at, "seq": at, "d": text, "at": text.replace(" BC", " 10:00:00.5 BC") if "BC" in text else f"{text} 10:00:00.5"}
            for at, text in enumerate(texts)
        ]
        lines = ["id,seq,d,at", *(",".join(map(str, row.values())) for row in rows)] if form == "csv" else rows
        lake.land(spec, 10, lines, f"a.{form}")
        lake.run(spec)
        shown = lake.spark.table(f"{lake.database}.{spec.view}").orderBy("id").selectExpr("CAST(d AS STRING) AS d", "CAST(at AS STRING) AS at")
        days = ["-0043-03-15", "0000-12-31", "-0043-03-15", "2024-02-29"]
        assert [(day, f"{day} 10:00:00.5") for day in days] == [tuple(row) for row in shown.collect()], form


MAPS: list[tuple[pa.DataType, Any, str, str]] = [
    (pa.date32(), dt.date(2026, 1, 1), "map<string,int>", "2026-01-01"),
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 1, 0, 0, 0, 500_000, dt.timezone.utc), "map<string,int>", "2026-01-01 00:00:00.5"),
    (pa.binary(), b"\xff\x00", "map<string,int>", "/wA="),
    (pa.struct([("A", pa.int32())]), {"A": 1}, "map<string,int>", '{"A":1}'),
    (pa.float64(), 1e10, "map<double,int>", "1.0E10"),
    (pa.bool_(), True, "map<boolean,int>", "true"),
    (pa.decimal128(4, 2), Decimal("0.50"), "map<decimal(4,2),int>", "0.50"),
]
"""(type of the keys in Parquet, a key, type of the column, the key as JSON)"""


@pytest.mark.slow
def test_keys_of_maps_have_one_text_in_each_engine(lake: Lake) -> None:
    """Dates, times, bytes and structs become text: Spark's JSON has an address in memory for bytes, and days since 1970 for a date."""
    spec = lake.spec("maps", history=True, feed="net")
    for hour in (10, 11):
        columns = {f"m{at}": pa.array([[(key, hour)]], pa.map_(kind, pa.int32())) for at, (kind, key, _, _) in enumerate(MAPS)}
        nested = pa.array([{"x": [[(b"k", hour)]]}], pa.struct([("x", pa.list_(pa.map_(pa.binary(), pa.int32())))]))
        pq.write_table(pa.table({"id": [1], "seq": [hour], **columns, "n": nested}), folder(lake, "maps", hour) / "a.parquet")
        lake.run(spec)
    assert [lake.snapshot(spec).schema.field(f"m{at}").type for at in range(len(MAPS))] == [kind for _, _, kind, _ in MAPS]
    expected = {"id": 1, "seq": 11, **{f"m{at}": {text: 11} for at, (_, _, _, text) in enumerate(MAPS)}, "n": {"x": [{"aw==": 11}]}}
    (spark,) = lake.spark.table(f"{lake.database}.{spec.view}").selectExpr(AS_JSON).collect()
    connection = connect(LocalStorage(), remote=False)
    shown = connection.sql(queries.rows(connection, spec, lake.snapshot(spec)).text)
    text = object_text(shown.columns, shown.columns, shown.types)
    (duck,) = shown.project(text).fetchall()[0]
    assert [json.loads(spark["row"]), json.loads(duck)] == [expected] * 2
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_a_condition_on_zero_reads_minus_zero(lake: Lake) -> None:
    """Spark's reader skips row groups by their dictionaries, to which the two zeros are not equal."""
    spec = lake.spec("zeros", history=True)
    lake.land(spec, 10, [{"id": at, "seq": at, "x": -0.0 if at < 19 else 1.5, "s": {"y": -0.0}} for at in range(21)])
    lake.run(spec)
    for view in (spec.view, f"{spec.view}_history"):
        rows = lake.spark.table(f"{lake.database}.{view}")
        assert [rows.where(condition).count() for condition in ("x = 0", "x >= 0", "x IN (0, 1)", "s.y = 0")] == [19, 21, 19, 21], view
    assert {str(row["x"]) for row in lake.rows(spec)} == {"-0.0", "1.5"}


def test_bytes_as_postgresql_writes_them(lake: Lake) -> None:
    """By COPY and in its own JSON with `\\x`; beside the forms of the text formats, base64 in JSON and digits in CSV."""
    for form, plain in (("json", "AP8="), ("csv", "00fF")):
        spec = lake.spec(f"bytea_{form}", format=form, types=(("b", "binary"),), csv=Csv(escape=""))
        texts = ["\\x00ff", plain, "\\x", "\\x0"]
        rows = [{"id": at, "seq": at, "b": text} for at, text in enumerate(texts)]
        lake.land(spec, 10, ["id,seq,b", *(",".join(map(str, row.values())) for row in rows)] if form == "csv" else rows, f"a.{form}")
        lake.run(spec)
        assert {row["id"]: row["b"] for row in lake.rows(spec)} == {0: "AP8=", 1: "AP8=", 2: ""}, form
        assert len(lake.unusable(spec)) == 1


MOMENTS = [
    ("2026-11-28T01:00Z", "2026-11-28 01:00:00"),
    ("2026-11-28T01:00:05Z", "2026-11-28 01:00:05"),
    ("2026-11-28T01:00", "2026-11-28 01:00:00"),
    ("2026-11-28T01:00+05:30", "2026-11-27 19:30:00"),
    ("2026-11-28 01:00 +02", "2026-11-27 23:00:00"),
    ("2026-11-28T01:00-0800", "2026-11-28 09:00:00"),
    ("2026-11-28", "2026-11-28 00:00:00"),
    ("2026-11-28T01:0Z0", None),
    ("+010000-01-01T00:00:00Z", "+10000-01-01 00:00:00"),
    ("+279999-12-31T23:59:59Z", "+279999-12-31 23:59:59"),
    ("+280000-01-01T00:00:00Z", None),
]


def test_moments_are_read_in_each_text_format(lake: Lake) -> None:
    """Java's OffsetDateTime writes seconds unless they are 0, so that one row of sixty lacks them; JavaScript writes far years with six digits."""
    values = ", ".join(f"({at}, {literal(text)})" for at, (text, _) in enumerate(MOMENTS))
    field = WriterField("at", ("string",), ("timestamp",), TEXT)
    texts = [pg_text.to_stored("text", field), conversions.from_text("text", ("timestamp",)), conversions.to_stored("text", ("string",), field)]
    columns = ", ".join(f"CAST({text} AS STRING)" for text in texts)
    for row, (text, expected) in zip(lake.spark.sql(f"SELECT {columns} FROM VALUES {values} AS (at, text) ORDER BY at").collect(), MOMENTS):
        assert [*row] == [expected] * len(texts), text


NUMBERS = (
    *("0", "-7", "1767225600000000", "8999999999999999"),
    *("9000000000000000", "-9999999999999999", "12345678901234567", "-" + "9" * 38),
    *("0.5", "-12.25", "1e5", "1E-7", "9007199254740993.5", "0." + "1" * 40),
    *("9" * 39, "-" + "1" * 80, "1e400", "-1.5E+300", "12e22", "1" * 39 + ".5"),
)
"""Whole numbers that a double holds, some that it may not, fractions, and numbers that may be too large."""


@pytest.mark.parametrize(
    "place", ['{{"n":{0}}}', '{{"a": {{"n" :\t{0} }}, "s": "1.5"}}', '{{"a":[null,{0}]}}', '{{"a":["x"\n,\n[ {0} ]]}}', '{{"n":"{0}"}}']
)
def test_one_look_finds_each_kind_of_number(lake: Lake, place: str) -> None:
    """What is looked for alone is among what is looked for together; in a text there is no number, unless it looks like JSON."""
    kinds = (pg_text.FRACTION, pg_text.LARGE_NUMBER, pg_text.LONG_NUMBER, pg_text.SPECIAL_NUMBER)
    values = ", ".join(f"({literal(number)}, {literal(place.format(number))})" for number in NUMBERS)
    tests = ", ".join(f"json RLIKE {literal(kind)}" for kind in kinds)
    for number, *found in lake.spark.sql(f"SELECT number, {tests} FROM VALUES {values} AS (number, json)").collect():
        fraction, digits = bool(re.search("[.eE]", number)), re.sub("[.eE].*|-", "", number)
        large = len(digits) >= 39 or bool(re.search(r"[eE][+]?\d\d", number))
        long = len(digits) > 17 or (not fraction and int(digits) >= 9 * 10**15)
        expected = [False] * 4 if '"{0}"' in place else [fraction, large, long, fraction or large or long]
        assert found == expected, number


def test_one_look_finds_each_value_that_needs_another(lake: Lake) -> None:
    """A record without an unusual value has nothing of what types are asked for in a second look."""
    numbers = (pg_text.FRACTION, pg_text.LARGE_NUMBER, pg_text.LONG_NUMBER, pg_text.SPECIAL_NUMBER)
    second = (*numbers, json_writers._NOT_FINITE, json_writers._EMPTY, json_writers._BLANK, pg_text.BLANK_ELEMENT)
    odd = ('""', "[]", "{}", "[ ]", '["",1]', '{"a":null}', '[{"a":null},null]', '"NaN"', '"Infinity"', '"-Infinity"', '"+Infinity"', *NUMBERS)
    plain = ("1", "-12", "null", "true", '"a"', '"1.5"', '" "', '"a\\"\\""', '"x: 1.5, [2e5]"', '"[\\"\\"]"')
    images = [f'{{"id":1,{space}"v"{space}:{space}{value},"w":{other}}}' for space in ("", " ") for value in (*odd, *plain) for other in plain]
    tests = ", ".join(f"json RLIKE {literal(kind)}" for kind in (pg_text.UNUSUAL, *second))
    rows = lake.spark.sql(f"SELECT json, {tests} FROM VALUES {', '.join(f'({literal(image)})' for image in images)} AS (json)").collect()
    assert [json for json, unusual, *needed in rows if any(needed) and not unusual] == []
    assert all(any(needed[at] for _, _, *needed in rows) for at in range(len(second)))
    assert not all(unusual for _, unusual, *_ in rows)


TOO_LARGE = "has a number that a double cannot hold. Declare a type that holds it, or correct it"

INSIDE: dict[str, tuple[list[str], dict[str, str], dict[int, object], list[str]]] = {
    "an empty text in an array of numbers is null": (
        ['{"id":1,"v":[1,""],"c":5}', '{"id":2,"v":[2]}', '{"id":3,"v":[""]}'],
        {},
        {1: [1, None], 2: [2], 3: [None]},
        [],
    ),
    "in an array of objects, and not in one of texts": (
        ['{"id":1,"v":{"a":["x",""],"b":[{"q":1},"" ],"c":[[1,""],[2]]}}'],
        {},
        {1: {"a": ["x", ""], "b": [{"q": 1}, None], "c": [[1, None], [2]]}},
        [],
    ),
    "a column called like Spark's own": (['{"id":1,"v":1,"_corrupt_record":5}', '{"id":2,"_corrupt_rows":7}'], {}, {1: 1, 2: None}, []),
    "a whole number that a double rounds, beside a fraction": (
        [f'{{"id":{id_},"v":{v}}}' for id_, v in enumerate(("1.5", 2**53 + 1, 2**53, 2**60, "1152921504606847000", "1e22"), 1)],
        {},
        {1: 1.5, 3: 2.0**53, 4: 2.0**60, 5: 2.0**60, 6: 1e22},
        [f"column v: {TOO_LARGE}"],
    ),
    "inside of an object": (
        ['{"id":1,"v":{"n":[1.5,9007199254740993]}}', '{"id":2,"v":{"n":[2.5]}}'],
        {},
        {2: {"n": [2.5]}},
        [f"column v: {TOO_LARGE}"],
    ),
    "another column's number": (
        ['{"id":1,"v":"Infinity","o":{"v":5}}', '{"id":2,"v":1e22,"o":null}', '{"id":3,"v":2.5,"o":null}'],
        {},
        {1: "Infinity", 2: 1e22, 3: 2.5},
        [],
    ),
    "a declared double": (
        ['{"id":1,"v":1e400}', '{"id":2,"v":"1.5"}', '{"id":3,"v":9007199254740993}', '{"id":4,"v":"Infinity"}'],
        {"v": "double"},
        {2: 1.5, 4: "Infinity"},
        ["the value of v is not of type double"] * 2,
    ),
}
"""Case → records, `types:`, the value of v by id, the reasons of records in quarantine."""


@pytest.mark.slow
def test_no_number_inside_of_anything_is_lost_or_rounded(lake: Lake) -> None:
    """Each case alone: what the reader of JSON cannot hold is kept in another way, or goes to quarantine."""
    for number, (case, (records, types, rows, reasons)) in enumerate(INSIDE.items()):
        spec = lake.spec(f"t{number}", order_by=("id",), types=tuple(types.items()))
        lake.land(spec, 10, [*records])
        lake.run(spec)
        assert {row["id"]: float(row["v"]) if isinstance(row["v"], Decimal) else row["v"] for row in lake.rows(spec)} == rows, case
        assert [reason for _, reason in lake.unusable(spec)] == reasons, case
    spec = lake.spec("t2")
    assert [(5, None), (None, 7)] == [(row["_corrupt_record"], row["_corrupt_rows"]) for row in lake.rows(spec)]


@pytest.mark.slow
def test_names_with_escapes(lake: Lake) -> None:
    """Python writes \\u00f6 for ö: its numbers stay as they are written, too, and too large ones are refused."""
    spec = lake.spec(order_by=("id",))
    lake.land(spec, 10, ['{"id":1,"gr\\u00f6\\u00dfe":7.50}', '{"id":2,"gr\\u00f6\\u00dfe":"x"}'])
    lake.run(spec)
    assert {1: "7.50", 2: "x"} == {row["id"]: row["größe"] for row in lake.rows(spec)}
    spec = lake.spec("large", order_by=("id",))
    lake.land(spec, 10, ['{"id":1,"gr\\u00f6\\u00dfe":1e400}', '{"id":2,"gr\\u00f6\\u00dfe":1.5}'])
    lake.run(spec)
    assert {2: 1.5} == {row["id"]: row["größe"] for row in lake.rows(spec)}


@pytest.mark.slow
def test_an_empty_text_is_null_where_the_table_has_a_number_inside(lake: Lake) -> None:
    """As it is for a column. Beside a member of text it is a text."""
    spec = lake.spec(order_by=("id",))
    for hour, rows in enumerate(([{"id": 1, "o": {"a": 1, "t": "x"}}], [{"id": 2, "o": {"a": "", "b": 2, "t": ""}}], [{"id": 3, "o": {"a": ""}}]), 1):
        lake.land(spec, hour, rows)
        lake.run(spec)
    assert [(1, "x", None), (None, "", 2), (None, None, None)] == [tuple(row["o"].get(name) for name in "atb") for row in lake.rows(spec)]
    assert [] == lake.problems(spec)
