"""Profiles of a source, inferred from a few records."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow
import pyarrow.parquet
import pytest

from compactor.core.model.errors import SchemaRefused
from compactor.core.sources import key_inference, source_profile, value_forms
from compactor.duckdb import sample


def debezium(op: str, after: Any, before: Any = None, table: str = "student", **source: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"connector": "postgresql", "schema": "public", "table": table, **source}}


def kafka(key: Any, value: Any, **more: Any) -> dict[str, Any]:
    written = None if value is None else json.dumps(value)
    return {"topic": "t", "partition": 0, "offset": 1, "key": None if key is None else json.dumps(key), "value": written, **more}


V1 = {"kind": "update", "schema": "public", "table": "t", "columnnames": ["id", "n"], "columnvalues": [1, 2]}
V2 = {"action": "U", "schema": "public", "table": "t", "columns": [{"name": "id", "value": 1}, {"name": "n", "value": 2}]}
EVENT = {"changeType": "update", "columnNames": ["id", "n"], "columnValues": ["1", "2"]}

ONE = {
    "an envelope": ([debezium("c", {"id": 1})], ("public.student", "debezium", "value", None, ("id",))),
    "an envelope with its schema": (
        [{"schema": {"name": "p.public.student.Envelope"}, "payload": debezium("r", {"id": 1})}],
        ("public.student", "debezium", "value", None, ("id",)),
    ),
    "MySQL, whose databases are schemas": (
        [{"op": "c", "after": {"id": 1}, "source": {"connector": "mysql", "db": "school", "table": "t"}}],
        ("school.t", "debezium", "value", None, ("id",)),
    ),
    "a delete": ([debezium("d", None, {"id": 1, "n": 0})], ("public.student", "debezium", "value", None, ("id", "n"))),
    "Kafka records": ([kafka({"id": 1}, debezium("c", {"id": 1, "n": 2}))], ("public.student", "debezium", "kafka", ("id",), ("id", "n"))),
    "Kafka records, the key with its schema": (
        [kafka({"schema": {}, "payload": {"a": 1, "b": 2}}, debezium("c", {"a": 1, "b": 2}))],
        ("public.student", "debezium", "kafka", ("a", "b"), ("a", "b")),
    ),
    "Kafka records without key": ([kafka(None, debezium("c", {"n": 2}))], ("public.student", "debezium", "kafka", (), ("n",))),
    "Kafka records whose key is the value alone": ([kafka(7, debezium("c", {"n": 7}))], ("public.student", "debezium", "kafka", None, ("n",))),
    "a key that is text": ([kafka("a", {"n": "a"})], ("", "flat", "kafka", None, ("n",))),
    "a key that is no JSON": ([{**kafka(7, {"n": "a"}), "key": "a b"}], ("", "flat", "kafka", None, ("n",))),
    "a null key with its schema": ([kafka({"schema": None, "payload": None}, {"n": 2})], ("", "flat", "kafka", (), ("n",))),
    "a key that once lacks a column": (
        [kafka({"a": 1}, debezium("c", {"a": 1, "d": 1})), kafka({"a": 2, "d": 3}, debezium("c", {"a": 2, "d": 3}))],
        ("public.student", "debezium", "kafka", ("a", "d"), ("a", "d")),
    ),
    "a key with a router's mark": (
        [kafka({"id": 1, "__dbz__physicalTableIdentifier": "x"}, debezium("c", {"id": 1}))],
        ("public.student", "debezium", "kafka", ("id",), ("id",)),
    ),
    "a value as an object, as kcat writes": (
        [{"topic": "t", "offset": 3, "key": '{"id": 1}', "payload": debezium("c", {"id": 1})}],
        ("public.student", "debezium", "kafka", ("id",), ("id",)),
    ),
    "flat rows": ([{"id": 1, "__op": "c"}], ("", "flat", "value", None, ("id", "__op"))),
    "flat rows of a named table": ([{"id": 1, "__table": "student"}], ("student", "flat", "value", None, ("id", "__table"))),
    "flat Kafka records": ([kafka({"id": 1}, {"id": 1, "n": 2})], ("", "flat", "kafka", ("id",), ("id", "n"))),
    "wal2json 1, an old key": (
        [{"change": [{**V1, "oldkeys": {"keynames": ["id"], "keyvalues": [1]}}]}],
        ("public.t", "wal2json", "value", ("id",), ("id", "n")),
    ),
    "wal2json 1, the primary key": ([{"change": [{**V1, "pk": {"pknames": ["n"]}}]}], ("public.t", "wal2json", "value", ("n",), ("id", "n"))),
    "wal2json 1, FULL tells no key": (
        [{"change": [{**V1, "oldkeys": {"keynames": ["id", "n"], "keyvalues": [1, 1]}}]}],
        ("public.t", "wal2json", "value", None, ("id", "n")),
    ),
    "wal2json 1, FULL without the nulls of the old row": (
        [{"change": [{**V1, "columnvalues": [1, None], "oldkeys": {"keynames": ["id"], "keyvalues": [1]}}]}],
        ("public.t", "wal2json", "value", None, ("id", "n")),
    ),
    "wal2json 2, an old key": ([{**V2, "identity": [{"name": "id", "value": 1}]}], ("public.t", "wal2json", "value", ("id",), ("id", "n"))),
    "wal2json 2, no key": ([V2], ("public.t", "wal2json", "value", None, ("id", "n"))),
    "change events": ([EVENT], ("", "change-event", "value", None, ("id", "n"))),
    "change events with old keys": ([{**EVENT, "oldKeyNames": ["id"]}], ("", "change-event", "value", ("id",), ("id", "n"))),
}


@pytest.mark.parametrize("case", ONE)
def test_records_of_one_table(case: str) -> None:
    """Table, envelope, container, key and columns."""
    documents, expected = ONE[case]
    ((table, seen),) = source_profile.of_documents(documents).items()
    assert (table, seen.envelope, seen.container, seen.key, seen.columns) == expected


OPERATIONS: dict[str, tuple[str, list[Any], dict[str, Any] | None]] = {
    "Delta": ("_change_type", ["insert", "update_preimage", "update_postimage"], {"op_map": {"update_postimage": "u", "update_preimage": "ignore"}}),
    "Iceberg": ("_change_type", ["INSERT", "DELETE", "UPDATE_BEFORE"], {"op_map": {"UPDATE_BEFORE": "ignore"}}),
    "Flink": ("rowkind", ["+I", "-U", "+U", "-D"], {"op_map": {"+I": "c", "+U": "u", "-D": "d", "-U": "ignore"}}),
    "SAP": ("ODQ_CHANGEMODE", ["C", "U", "D"], {}),
    "Estuary": ("_meta/op", ["c", "u", "d"], {}),
    "Informatica": ("INFA_OPERATION_TYPE", ["INSERT_EVENT", "DELETE_EVENT"], {"op_map": {"DELETE_EVENT": "d", "INSERT_EVENT": "c"}}),
    "Oracle": ("OPERATION$", ["I", "UU", "UN", "D"], {"op_map": {"UN": "u", "UU": "ignore"}}),
    "a connector's": ("__operation", ["c", "d"], {}),
    "inserts only": ("__operation", ["c", "c"], None),
    "grades": ("grade", ["C", "D"], None),
    "directions": ("way", ["U", "D"], None),
    "states": ("state", ["created", "deleted", "open"], None),
}  # fmt: skip


@pytest.mark.parametrize("case", OPERATIONS)
def test_codes_of_operations_are_recognised_by_their_values(case: str) -> None:
    """In any column, with what each program's codes mean; two letters alone may be anything."""
    name, codes, settings = OPERATIONS[case]
    (seen,) = source_profile.of_documents([{"id": at, name: code} for at, code in enumerate(codes)]).values()
    assert seen.likely_operation == ({} if settings is None else {"op": name, **settings})


NOTHING = {
    "a tombstone": kafka({"id": 1}, None),
    "a heartbeat": {"ts_ms": 1},
    "a schema change": {"source": {"connector": "mariadb"}, "databaseName": "shop", "ddl": "create table t (id int)", "tableChanges": []},
    "a transaction marker": {"status": "BEGIN", "id": "1:2", "event_count": None, "data_collections": None},
    "a logical message": {"op": "m", "source": {}, "message": {}},
    "a truncate": {"op": "t", "source": {}, "before": None, "after": None},
    "a logical message among flat rows": {"__op": "m", "__lsn": 5},
    "wal2json's begin": {"action": "B", "xid": 3},
    "wal2json's truncate": {"action": "T", "schema": "public", "table": "t"},
    "an empty transaction": {"change": []},
    "no object": [1, 2],
    "a payload that is no row": {"schema": {}, "payload": 3},
}


@pytest.mark.parametrize("case", NOTHING)
def test_what_has_no_row_is_no_table(case: str) -> None:
    """Heartbeats, markers, truncates and tombstones tell nothing of a table."""
    assert source_profile.of_documents([NOTHING[case]]) == {}


def test_a_stream_of_several_tables_is_told_apart() -> None:
    """By the table that each record names; each has its own key."""
    result = source_profile.of_documents([kafka({"id": 1}, debezium("c", {"id": 1})), kafka({"no": 1}, debezium("c", {"no": 1}, table="exam"))])
    assert {table: seen.key for table, seen in result.items()} == {"public.student": ("id",), "public.exam": ("no",)}


def test_avro_values_in_kafka_records_are_seen_but_not_into() -> None:
    """Their schema is in the registry."""
    (seen,) = source_profile.of_documents([{"topic": "t", "partition": 0, "offset": 1, "key": {"b64": "AAA="}, "value": {"b64": "AAA="}}]).values()
    assert (seen.opaque, seen.topic, seen.container) == (True, "t", "kafka")


def test_candidates_are_never_null_and_always_different() -> None:
    """Of inserted rows only: an update says the same key again. Fewer rows than ROWS_MIN tell nothing."""
    rows = [{"id": at, "name": f"n{at}", "same": 1, "gap": None if at == 3 else at, "share": at / 7} for at in range(key_inference.ROWS_MIN)]
    late = {**rows[0], "id": 99, "late": 1, "name": "x"}
    events = [debezium("c", row) for row in [*rows, late]] + [debezium("u", rows[1])]
    for seen, expected in ((events, ("id", "name")), (events[:3], ())):
        profile = source_profile.of_documents(seen)["public.student"]
        assert key_inference.candidates(profile.sample, profile.row_columns) == expected


def record(name: str, *fields: str, **types: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": field, "type": types.get(field, "string")} for field in fields]})


def test_an_avro_schema_tells_envelope_and_columns() -> None:
    """Debezium's envelope names its topic; its own records (heartbeats, transactions, messages) hold no rows; a bare value is refused."""
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
    envelope = source_profile.of_avro(record("p.public.student.Envelope", "op", "after", after=["null", row]))
    assert envelope is not None
    assert (envelope.envelope, envelope.topic, envelope.columns) == ("debezium", "p.public.student", ("id",))
    flat = source_profile.of_avro(record("Row", "id", "n"))
    assert flat is not None
    assert (flat.envelope, flat.columns) == ("flat", ("id", "n"))
    for other in (
        record("io.debezium.connector.common.Heartbeat", "ts_ms"),
        record("io.debezium.connector.mariadb.SchemaChangeValue", "databaseName", "ddl"),
        record("x.Transaction", "status", "id", "event_count"),
        record("p.message.Envelope", "op", "source", "message"),
    ):
        assert source_profile.of_avro(other) is None
    with pytest.raises(SchemaRefused, match="expected an Avro record"):
        source_profile.of_avro('"string"')


CSV = {
    "a header": ("id,name\n1,Ann\n", "a.csv", ("flat", ("id", "name"))),
    "rows at once": ("1,Ann\n2,Ben\n", "a.csv", ("flat", ())),
    "two columns alike": ("a,a\n", "a.csv", ("flat", ())),
    "DMS without header": ("I,1,Ann\n", "20260101-120000123.csv", ("dms", ())),
    "DMS with one": ("Op,id,name\nI,1,Ann\n", "20260101-120000123.csv", ("dms", ("Op", "id", "name"))),
    "DMS's full load, words only": ("Ann,Ben\nCid,Dan\n", "LOAD00000001.csv", ("dms", ())),
    "DMS's full load, names and numbers": ("name,size\nAnn,1\n", "LOAD00000001.csv", ("dms", ("name", "size"))),
    "DMS's full load, identifiers": ("a6b56e9c-ed75,Ann\nb6b56e9c-ed76,Ben\n", "LOAD00000001.csv", ("dms", ())),
    "lines that end in other ways": ('id,city\r\n1,NYC\n2,"LA"\n3,SF\r\n', "a.csv", ("flat", ("id", "city"))),
    "rows of other lengths": ('1,"a"\n2,"b\\"b, c"\n', "a.csv", ("flat", ())),
    "another sign is more frequent in the values": ("id\tnote\n" + "1\ta, b, c; d\n" * 20, "a.csv", ("flat", ("id", "note"))),
    "nothing": ("", "a.csv", ("flat", ())),
}


def test_null_in_the_files_of_copy_is_noticed() -> None:
    """COPY, MySQL and Hive write it so."""
    for text, dialect in (
        ("id,n\n1,\\N\n2,x\n", {"null_value": "\\N"}),
        ("id;n\n1;\\N\n", {"delimiter": ";", "null_value": "\\N"}),
        ("id,n\n1,a\\Nb\n", {}),
    ):
        assert sample.read("a.csv", text.encode(), 100).csv == dialect


@pytest.mark.parametrize("case", CSV)
def test_the_head_of_a_csv_file(case: str) -> None:
    """A first line of names is a header; DMS writes none unless asked."""
    text, path, expected = CSV[case]
    profiles: source_profile.Profiles = {}
    source_profile.of_file(path, sample.read(path, text.encode(), 100), profiles)
    (seen,) = profiles.values()
    assert (seen.envelope, seen.columns) == expected
    assert ("columns" not in seen.csv) is bool(expected[1])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_compressed_file_is_unpacked_no_further_than_it_is_looked_at(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes that would become 16 megabytes, after two good records, or as one line. The limit is 64 megabytes; here it is one."""
    monkeypatch.setattr(sample, "_TEXT_BYTES", 1 << 20)
    filler = b'{"id": 3, "v": "' + b"0" * (16 << 20) + b'"}\n'
    good = b'{"id": 1, "seq": 1}\n{"id": 2, "seq": 2}\n'
    name = {gzip.compress: "a.json.gz", bz2.compress: "a.json.bz2"}[pack]
    for content, columns in ((good + filler, ("id", "seq")), (filler, None)):
        data, profiles = pack(content), dict[str, source_profile.SourceProfile]()
        assert len(data) < 200_000
        tracemalloc.start()
        try:
            source_profile.of_file(name, sample.read(name, data, 100), profiles)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 8 << 20
        assert {name: profile.columns for name, profile in profiles.items()} == ({"": columns} if columns else {})


def written(kind: str, rows: list[dict[str, Any]]) -> bytes:
    """Return a file with these rows."""
    file = io.BytesIO()
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        fields = [{"name": name, "type": {int: "long", str: "string"}[type(value)]} for name, value in rows[0].items()]
        fastavro.writer(file, {"type": "record", "name": "orders", "fields": fields}, rows, codec="deflate")
    return file.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_the_rows_of_parquet_and_avro_show_the_key(kind: str) -> None:
    """A large number in them is no time: the format has its type. A file that is cut is refused, whatever it is cut at."""
    data = written(kind, [{"order_id": at, "state": "open", "placed": 1795611600123} for at in range(30)])
    profiles: source_profile.Profiles = {}
    source_profile.of_file(f"a.{kind}", sample.read(f"a.{kind}", data, 100), profiles)
    (profile,) = profiles.values()
    proposed = key_inference.propose(profile.sample, profile.row_columns, "orders")
    assert proposed is not None
    assert (proposed.columns, proposed.likely, profile.columns) == (("order_id",), True, ("order_id", "state", "placed"))
    assert profile.likely(value_forms.JSON_FORMS) == {}
    for cut in range(1, len(data), 37):
        with pytest.raises((ValueError, EOFError, zlib.error)):
            sample.read(f"a.{kind}", data[:cut], 100)


def test_the_header_of_an_avro_file_shows_the_columns_where_its_compression_cannot_be_read() -> None:
    """Spark writes Snappy, which fastavro reads only with another package."""
    data = written("avro", [{"id": 1, "name": "x"}]).replace(b"deflate", b"nothing")
    assert source_profile.of_documents(sample.read("a.avro", data, 100).documents)[""].columns == ("id", "name")


def test_a_column_of_parquet_may_have_any_name() -> None:
    """Its rows are read by one query, in which a name may stand for something else."""
    rows = [{"r": None, "id": 1, "data": "x", "columns": 5}, {"r": 2, "id": 2, "data": "y", "columns": 6}]
    assert sample.read("a.parquet", written("parquet", rows), 10).documents == rows


@pytest.mark.parametrize(("kind", "expected"), [("json", [{"id": 1, "v": 'a,"b'}]), ("csv", [{"id": "1", "v": 'a,"b'}])])
def test_files_that_are_packed_with_zstd_are_looked_at(tmp_path: Path, kind: str, expected: list[dict[str, Any]]) -> None:
    """`plan` called them unreadable, and `init` left them out."""
    path = tmp_path / f"a.{kind}.zst"
    duckdb.sql("SELECT 1 AS id, 'a,\"b' AS v").write_csv(str(path), compression="zstd") if kind == "csv" else duckdb.sql(
        f"COPY (SELECT 1 AS id, 'a,\"b' AS v) TO '{path}' (FORMAT json, COMPRESSION zstd)"
    )
    assert expected == sample.read(path.name, path.read_bytes(), 100).documents
    with pytest.raises(ValueError, match="frame descriptor"):
        sample.read(path.name, b"no zstd", 100)


def test_a_null_that_is_written_as_text_is_no_value() -> None:
    """Connect's JSON converter without schemas writes a delete of ExtractNewRecordState so."""
    records = [kafka({"id": 1}, {"id": 1, "v": "a"}), {**kafka({"id": 1}, None), "value": "null"}]
    assert [""] == [*source_profile.of_documents(records)]


def test_a_declared_date_may_have_the_forms_that_a_run_reads() -> None:
    """Debezium's isostring ends with Z, Oracle's dates with midnight."""
    bigquery, snowflake = (
        ["2026-11-20 07:10:00.123456 UTC", "2026-11-20 07:10:00 UTC"],
        ["2026-11-20 07:10:00.123 -0800", "2026-11-20 07:10:00.000 Z"],
    )
    assert [value_forms.word("at", texts, value_forms.CSV_FORMS) for texts in (bigquery, snowflake)] == ["timestamp", "timestamp"]
    assert value_forms.word("at", ["2026-11-28 10:00:11.5+00", "2026-11-28 10:00:11+02:00"], value_forms.CSV_FORMS) == "timestamp"
    texts = ("2025-05-05", "2025-05-05Z", "2025-05-05 00:00:00", "2025-05-05 10:00:00", "5.5.2025")
    assert [True, True, True, False, False] == [value_forms.has_type(text, "date") for text in texts]
