"""Parquet of other writers: what Spark does not say of a column, and what it does not read at all."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from pyspark.sql import SparkSession

from compactor.core.model.errors import InputRefused
from compactor.core.results.batch import ErasedRecords
from compactor.spark.consistency import ConsistentReads
from compactor.spark.input import files, parquet_files
from compactor.spark.input.rewrite import parquet_without
from compactor.storage.local import LocalStorage
from tests.spark import test_debezium
from tests.spark.lake import Lake
from tests.spark.test_debezium import debezium, event

pytestmark = pytest.mark.spark

NANOS, UTC = 1_700_000_000_123_456_789, pa.timestamp("ns", "UTC")
INSTANT = "2023-11-14T22:13:20.123456Z"


def landed(lake: Lake, spec: Any, hour: int, columns: Mapping[str, Any], file: str = "part-0.parquet", **options: Any) -> Path:
    """A file as pyarrow writes it."""
    path = Path(spec.landing) / f"increment_20240305{hour:02d}" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path, **options)
    return path


@pytest.mark.slow
def test_nanoseconds_nulls_and_metadata(lake: Lake) -> None:
    """Nanoseconds are timestamps wherever they stand; a column of the type null waits for a type; `_metadata` may be a column."""
    spec = lake.spec()
    moments = {
        "ts": pa.array([NANOS, -1], UTC),
        "local": pa.array([NANOS, None], pa.timestamp("ns")),
        "deep": pa.array([{"at": NANOS, "n": 1}, None], pa.struct([("at", UTC), ("n", pa.int32())])),
        "many": pa.array([[NANOS, None], []], pa.list_(UTC)),
        "by": pa.array([[("a", NANOS)], None], pa.map_(pa.string(), UTC)),
    }
    meta = pa.array([{"file_path": "x.csv", "row": 1}, {"file_path": "y.csv", "row": 2}])
    landed(lake, spec, 1, {"id": [1, 2], "seq": [2, 2], **moments, "v": pa.nulls(2), "_metadata": meta})
    lake.run(spec)
    landed(lake, spec, 2, {"id": [3], "seq": [1], "v": ["a"], "_metadata": meta[:1]})
    lake.run(spec)
    one, two, three = lake.rows(spec)
    assert one == {
        "id": 1, "seq": 2, "ts": INSTANT, "local": INSTANT, "deep": {"at": INSTANT, "n": 1}, "many": [INSTANT, None], "by": {"a": INSTANT},
        "_metadata": {"file_path": "x.csv", "row": 1}, "v": None,
    }  # fmt: skip
    assert (two["ts"], two["deep"], two["many"], two["v"]) == ("1969-12-31T23:59:59.999999Z", None, [], None)
    assert (three["v"], three["ts"], three["_metadata"]["row"]) == ("a", None, 1)
    assert lake.problems(spec) == []


ODD_NAMES = ("first name", "a,b", "x;", "n=5", "note (free)", "t (TIMESTAMP(NANOS,true)) = 7;", "{", "line\nbreak", "(STRING)", "two  blanks ")


def test_names_that_the_parser_of_schemas_does_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Beside a nanosecond timestamp, of which pandas makes every time, the schema is parsed; values and nulls stay with their names."""
    path = tmp_path / "a.parquet"
    columns = {"id": pa.array([1]), "n": pa.array(["own"]), "at": pa.array([NANOS], UTC)}
    columns |= {name: pa.array([name]) for name in ODD_NAMES}
    columns |= {
        "nothing (yet)": pa.nulls(1),
        "in side": pa.array([{"zip code": "1", "t t": NANOS}], pa.struct([("zip code", pa.string()), ("t t", UTC)])),
    }
    pq.write_table(pa.table(columns), path)
    of = parquet_files.columns(spark, str(path))
    (row,) = parquet_files.reader(spark, of).load(str(path)).selectExpr(*parquet_files.values(of)).collect()
    shown = row.asDict(recursive=True)
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert {name: shown[name] for name in ODD_NAMES} == {name: name for name in ODD_NAMES}
    assert (shown["n"], shown["at"], shown["nothing (yet)"]) == ("own", moment, None)
    assert shown["in side"] == {"zip code": "1", "t t": moment}
    assert "nothing (yet)" not in of.schema.names


SHOWN = {
    "tags": ["x"],
    "deep": {"x": 2, "y": "q", "many": [1], "none": {"z": 1.5}},
    "rows": [{"a": 1, "b": "t"}],
    "lists": [[True]],
    "v": "a",
}
NOT_YET = {"tags": [], "deep": {"x": 1, "y": None, "many": [], "none": {"z": None}}, "rows": [{"a": 1, "b": None}], "lists": [[]], "v": None}


@pytest.mark.slow
@pytest.mark.parametrize("envelope", ["flat", "debezium"])
def test_the_type_null_inside_of_columns_waits_for_a_type(lake: Lake, envelope: str) -> None:
    """Arrow infers it for an empty list and for a member that is always null. Before the types and behind them, the values are those of one file."""
    spec = debezium(lake) if envelope == "debezium" else lake.spec()
    pairs = pa.map_(pa.string(), pa.int32())

    def land(hour: int, columns: Mapping[str, Any], kind: pa.DataType) -> None:
        one = pa.table({"id": [hour], "seq": [1], **{name: [value] for name, value in columns.items()}, "pairs": pa.array([[("k", None)]], kind)})
        if envelope == "debezium":
            (source,) = pa.Table.from_pylist([event("c", hour)["source"]]).to_struct_array().chunks
            one = pa.table({"op": ["c"], "before": pa.nulls(1), "after": one.to_struct_array(), "source": source})
        landed(lake, spec, hour, {name: one[name] for name in one.column_names})

    for hour, columns, kind in ((1, NOT_YET, pa.map_(pa.string(), pa.null())), (2, SHOWN, pairs), (3, NOT_YET, pa.map_(pa.string(), pa.null()))):
        land(hour, columns, kind)
        lake.run(spec)
        if hour == 1:
            (only,) = lake.rows(spec)
            assert (only["deep"], only["rows"]) == ({"x": 1, "many": "[]", "none": "{}"}, [{"a": 1}])
    rows = {row["id"]: row for row in lake.rows(spec)}
    empty = {**NOT_YET, "pairs": {"k": None}}
    assert {name: rows[1][name] for name in empty} == {name: rows[3][name] for name in empty} == empty
    assert {name: rows[2][name] for name in SHOWN} == SHOWN
    assert lake.problems(spec) == []


def test_a_key_finer_than_a_microsecond_is_null(spark: SparkSession, tmp_path: Path) -> None:
    """Two keys would be one row. So it is in an envelope's row; in other columns and their members nanoseconds are cut."""
    values = pa.array([NANOS, NANOS - 789], UTC)
    row = pa.StructArray.from_arrays([values, values], ["K", "v"])
    pq.write_table(pa.table({"K": values, "v": values, "after": row, "meta": row}), tmp_path / "a.parquet")
    columns = parquet_files.columns(spark, str(tmp_path / "a.parquet"))
    rows = parquet_files.reader(spark, columns).load(str(tmp_path / "a.parquet")).selectExpr(*parquet_files.values(columns, ["k"]))
    finer, even = rows.selectExpr("K", "v", "after.K", "after.v", "meta.K", "meta.v").collect()
    assert [moment is None for moment in finer] == [True, False, True, False, False, False]
    assert {finer.v} == set(even)


@pytest.mark.slow
def test_a_block_that_is_null_in_all_records(lake: Lake) -> None:
    """pyarrow gives it the type null: creates without `before`, deletes without `after`, and empty headers. A block that is text is refused by name."""
    new = {**event("c", 1, after={"id": 1, "v": "a"}), "transaction": None}
    gone = event("d", 2, before={"id": 1, "v": "a"})
    texts = [{**new, "source": json.dumps(new["source"])}]
    spec, records, headers = debezium(lake), *(debezium(lake, name=name, container="kafka") for name in ("records", "headers"))
    for table, file, rows in (
        (spec, "a", [new, event("c", 1, after={"id": 2, "v": "b"})]),
        (spec, "b", [gone]),
        (records, "a", [{"key": '{"id": 1}', "value": each, "headers": [], "offset": at} for at, each in enumerate([new, {**new, "op": "u"}])]),
        (headers, "a", [{"value": new, "headers": "{}"}]),
    ):
        landed(lake, table, 1, {name: [row.get(name) for row in rows] for name in rows[0]}, f"{file}.parquet")
    lake.run(spec)
    assert test_debezium.values(lake, spec) == {2: "b"}
    lake.run(records)
    assert test_debezium.values(lake, records) == {1: "a"}
    landed(lake, spec, 2, {name: [row[name] for row in texts] for name in new})
    for table, message in ((spec, "`source` is string, expected a struct"), (headers, "a column `headers` of type array")):
        with pytest.raises(InputRefused, match=message):
            lake.run(table)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([[1]], pa.list_(pa.time64("ns"))), "the type TIME(NANOS,false)"),
        (pa.array([np.float16(1.5)], pa.float16()), "a type that Spark does not know (FLOAT16, VARIANT, ..)"),
        (pa.array([decimal.Decimal(10) ** 40], pa.decimal256(50, 2)), "the type DECIMAL(50,2)"),
    ],
)
def test_a_type_without_a_reader_is_refused_by_the_columns_name(spark: SparkSession, tmp_path: Path, values: pa.Array, kind: str) -> None:
    """Never by the first line of a stack."""
    pq.write_table(pa.table({"id": [1], "v": values}), tmp_path / "a.parquet")
    with pytest.raises(InputRefused) as refused:
        parquet_files.columns(spark, str(tmp_path / "a.parquet"))
    column = "element" if pa.types.is_list(values.type) else "v"
    assert str(refused.value).startswith(f"column {column} has {kind}, which Spark does not read: have the writer cast it")


@pytest.mark.slow
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_uuids_and_times_of_day_are_text(lake: Lake, vectorized: str, request: pytest.FixtureRequest) -> None:
    """As those of other formats: as a key, inside of structs and lists, in each unit, and by each of Spark's two readers."""
    setting = "spark.sql.parquet.enableVectorizedReader"
    request.addfinalizer(lambda: lake.spark.conf.unset(setting))
    lake.spark.conf.set(setting, vectorized)
    spec = lake.spec(f"times_{vectorized}")
    first, second = (uuid.UUID(text) for text in ("7ed4bffc-f189-40b0-9090-c58e1cba14b8", "00000000-0000-0000-0000-000000000001"))
    micros, nanos = pa.array([3_600_000_001, None], pa.time64("us")), pa.array([86_399_999_999_999, 0], pa.time64("ns"))
    table = {
        "id": pa.array([first.bytes, second.bytes], pa.uuid()),
        "seq": pa.array([1, 1]),
        "t_ms": pa.array([1, 3_600_000], pa.time32("ms")),
        "t_us": micros,
        "t_ns": nanos,
        "s": pa.StructArray.from_arrays([micros, nanos], ["t_us", "t_ns"]),
        "l": pa.array([[1_000_000, None], []], pa.list_(pa.time64("us"))),
    }
    landed(lake, spec, 1, table, "a.parquet")
    lake.run(spec)
    landed(lake, spec, 2, {**table, "seq": pa.array([2, 0]), "t_ms": pa.array([2, 2], pa.time32("ms"))}, "a.parquet")
    lake.run(spec)
    by_key = {row["id"]: row for row in lake.rows(spec)}
    assert by_key == {
        str(first): {
            "id": str(first), "seq": 2, "t_ms": "00:00:00.002000", "t_us": "01:00:00.000001", "t_ns": "23:59:59.999999",
            "s": {"t_us": "01:00:00.000001", "t_ns": "23:59:59.999999"}, "l": ["00:00:01", None],
        },
        str(second): {"id": str(second), "seq": 1, "t_ms": "01:00:00", "t_us": None, "t_ns": "00:00:00", "s": {"t_us": None, "t_ns": "00:00:00"}, "l": []},
    }  # fmt: skip
    assert lake.problems(spec) == []


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_names_that_are_one_to_spark_are_refused(spark: SparkSession, tmp_path: Path, kind: str, inside: bool) -> None:
    """Also those of one struct, and in Avro; not in Spark's words, which name one of both and nothing to do."""
    place, row = tmp_path / f"a.{kind}", {"V": "a", "v": "b"}
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([{"s": [row]} if inside else row]), place)
    else:
        own = {"type": "record", "name": "r", "fields": [{"name": name, "type": "string"} for name in row]}
        outer = {"type": "record", "name": "t", "fields": [{"name": "s", "type": {"type": "array", "items": own}}]}
        with place.open("wb") as out:
            fastavro.writer(out, outer if inside else own, [{"s": [row]} if inside else row])
    frames, unreadable = files.read(spark, kind, files.Origins((str(tmp_path),)), [str(place)], ConsistentReads({}), ())
    assert frames == []
    assert unreadable[str(place)].text.startswith("the names V and v of two columns, or of two members of a struct, are equal in all but case")


class Keys(encryption.KmsClient):
    """A service that gives every key as it is."""

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped_key)


def encrypted(column: str) -> Any:
    """The properties of a file of which one column is encrypted, and the footer is not."""
    keys = encryption.EncryptionConfiguration(footer_key="f" * 16, column_keys={"c" * 16: [column]}, plaintext_footer=True)
    return encryption.CryptoFactory(lambda _: Keys()).file_encryption_properties(encryption.KmsConnectionConfig(), keys)


def test_codecs_and_encodings_without_a_reader(lake: Lake) -> None:
    """The reason of the file in quarantine says which, and what to do; what Spark reads goes on."""
    spec = lake.spec()
    landed(lake, spec, 1, {"id": [1], "seq": [1], "v": ["a"]}, compression="brotli")
    split = landed(lake, spec, 2, {"id": [2], "seq": [1], "f": [1.5]}, use_dictionary=False, column_encoding={"f": "BYTE_STREAM_SPLIT"})
    landed(lake, spec, 3, {"id": pa.array([2**64 - 1], pa.uint64()), "seq": [1]}, compression="lz4")
    landed(lake, spec, 4, {"id": [4], "seq": [1], "v": ["a"]}, encryption_properties=encrypted("v"))
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [2**64 - 1]
    reasons = [path.read_text() for path in sorted(Path(spec.root).rglob("*.reason.json"))]
    assert "is compressed with BROTLI, which Spark cannot unpack: have the writer use zstd, snappy or gzip" in reasons[0]
    assert "column f has the encoding BYTE_STREAM_SPLIT, which Spark does not read: have the writer use another" in reasons[1]
    assert "column v is encrypted, and Spark has no key to it: have the writer leave the column out or write it unencrypted" in reasons[2]
    assert not split.exists()


def test_a_file_is_rewritten_without_records_as_it_is_meant(spark: SparkSession, tmp_path: Path) -> None:
    """Nanoseconds stay timestamps, a column called as Spark's own stays, and what has no type yet is left out."""
    path, empty = tmp_path / "a.parquet", {"deep": [{"x": 1, "y": None, "z": []}] * 2, "tags": [[], []]}
    pq.write_table(pa.table({"id": [1, 2], "ts": pa.array([NANOS, NANOS], UTC), "none": pa.nulls(2), "_metadata": ["x", "y"], **empty}), path)
    made = parquet_without(spark, LocalStorage(), str(path), ErasedRecords((1,), 2), str(tmp_path / "out"))
    assert files.parquet_schema(spark, made.path).simpleString() == "struct<id:bigint,ts:timestamp,_metadata:string,deep:struct<x:bigint>>"
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, datetime.timezone.utc)
    (row,) = spark.read.parquet(made.path).collect()
    assert (row["id"], row["_metadata"], row["ts"].astimezone(datetime.timezone.utc)) == (2, "y", moment)
