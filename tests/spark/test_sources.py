"""Sources beside the common ones: each case is a table of its own, with the rows that the source shows, or a refusal that names the remedy."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from compactor.core.model.errors import CompactorError
from tests.spark.lake import Lake
from tests.spark.test_debezium_types import packed

pytestmark = pytest.mark.spark

Records = list[Any]


def change(op: str, source: dict[str, Any], before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """A change in Debezium's envelope."""
    return {"op": op, "before": before, "after": after, "source": {"snapshot": "false", **source}, "ts_ms": 1, **more}


def landed(lake: Lake, name: str, settings: dict[str, Any], files: list[Records]) -> tuple[list[Any], str]:
    """Land files of one hour in the order in which they are given, run, and return the values of `v`, and why the run or its records were refused."""
    spec = lake.spec(name, **{"order_by": (), "quarantine_share": 0.9, **settings})
    for at, records in enumerate(files):
        # the first file sorts last
        lake.land(spec, 1, records, f"{'dcba'[at]}.json")
    try:
        lake.run(spec)
    except CompactorError as error:
        return [], str(error)
    return [row.get("v") for row in lake.rows(spec)], "; ".join(reason for _, reason in lake.unusable(spec))


def expect(lake: Lake, cases: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]]) -> None:
    """Compare each case (settings, files, values of `v`, pattern of the refusal) with what a run makes of it. All that differ are reported together."""
    differ = {}
    for name, (settings, files, values, refusal) in cases.items():
        found, reason = landed(lake, name.replace(" ", "_"), settings, files)
        if found != values or not (re.search(refusal, reason) if refusal else reason == ""):
            differ[name] = (found, reason)
    assert not differ, json.dumps(differ, indent=1)


DEBEZIUM: dict[str, Any] = {"envelope": "debezium"}


def yugabyte(lsn: str, op: str, value: str) -> dict[str, Any]:
    return change(op, {"connector": "yugabytedb", "lsn": lsn, "ts_us": 7, "schema": "public", "table": "t"}, after={"id": 1, "v": value})


def lenses(offset: int, value: str) -> dict[str, Any]:
    return {"key": {"id": 1}, "value": {"id": 1, "v": value}, "headers": {}, "metadata": {"topic": "t", "partition": 0, "offset": offset}}


def read(lsn: int | None, op: str, value: str) -> dict[str, Any]:
    return change(op, {"connector": "postgresql", "lsn": lsn}, after={"id": 1, "v": value})


NULLS: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "no number": ({**DEBEZIUM, "order_by": ("source.lsn",)}, [[yugabyte("1:9::0:0", "u", "new")], [yugabyte("1:4::0:0", "c", "old")]], [], r"\(source.lsn\)"),
    "no number below": ({**DEBEZIUM, "order_by": ("source.ts_us", "source.lsn")}, [[yugabyte("1:9::0:0", "u", "new")]], [], r"ts_us, source.lsn\)"),
    "no offset": ({"order_by": ("offset",)}, [[{"id": 1, "v": "new"}], [{"id": 1, "v": "old"}]], [], r"\(offset\) is null"),
    "offset in metadata": ({"order_by": ("offset",), "container": "kafka"}, [[lenses(9, "old")], [lenses(10, "new")]], ["new"], ""),
    "read without LSN": ({**DEBEZIUM, "order_by": ("source.lsn",)}, [[read(None, "r", "old")], [read(5, "u", "new")]], ["new"], ""),
}  # fmt: skip


@pytest.mark.slow
def test_file_names_never_decide_because_nothing_else_orders(lake: Lake) -> None:
    """A first order column without a value, or a field that is no number, is refused; rows of a snapshot may lack it, and are the oldest."""
    expect(lake, NULLS)


def connect(offset: int, key: int, kind: str = "", value: str = "") -> dict[str, Any]:
    """A whole Kafka record of Connect; without `kind` a tombstone."""
    fields = [{"field": "id", "type": kind}, {"field": "v", "type": "string"}]
    body = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": key, "v": value}}
    return {"key": json.dumps({"id": key}), "value": json.dumps(body) if kind else None, "partition": 0, "offset": offset}


def test_a_key_whose_type_became_wider_in_a_batch(lake: Lake) -> None:
    """A record without a value has a key of either type."""
    records = [
        connect(0, 1, "int32", "a"),
        connect(1, 3_000_000_000, "int64", "b"),
        connect(2, 2, "int32", "c"),
        connect(3, 3_000_000_000),
        connect(4, 2),
    ]
    expect(lake, {"wider": ({"container": "kafka", "order_by": ("offset",)}, [records], ["a"], "")})


def informix(commit: str, at: str, op: str, value: str) -> dict[str, Any]:
    return change(
        op,
        {"connector": "informix", "db": "d", "schema": "informix", "table": "t", "commit_lsn": commit, "change_lsn": at},
        after={"id": 1, "v": value},
    )


def flattened(record: dict[str, Any]) -> dict[str, Any]:
    """The record as ExtractNewRecordState writes it."""
    return {**record["after"], "__op": record["op"], **{f"__source_{name}": value for name, value in record["source"].items()}}


OLD, NEW = informix("98784247900", "98784247800", "c", "old"), informix("103079215200", "103079215104", "u", "new")
LSNS: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "the connectors order": (DEBEZIUM, [[OLD], [NEW], [informix("98784247900", "98784247900", "u", "between")]], ["new"], ""),
    "fields": ({**DEBEZIUM, "order_by": ("source.commit_lsn", "source.change_lsn")}, [[NEW], [OLD]], ["new"], ""),
    "flat": ({}, [[flattened(OLD)], [flattened(NEW)], [flattened(OLD)]], ["new"], ""),
}  # fmt: skip


@pytest.mark.slow
def test_numbers_of_informix_are_no_text(lake: Lake) -> None:
    """They grow by a digit now and then."""
    expect(lake, LSNS)


def spanner(at: int, op: str, before: Any, after: Any, capture: str = "OLD_AND_NEW_VALUES") -> dict[str, Any]:
    return change(op, {"connector": "spanner", "ts_us": at, "db": "d", "table": "t", "value_capture_type": capture}, before, after)


def scylla(at: int, op: str, after: Any, before: Any = None) -> dict[str, Any]:
    return change(op, {"connector": "scylla", "ts_us": at, "keyspace_name": "ks", "table_name": "t"}, before, after)


BY_TIME = {**DEBEZIUM, "order_by": ("source.ts_us",)}
MADE = spanner(1, "c", None, {"id": 1, "n": 1, "v": "kept"})
PARTIAL: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "unchanged": (BY_TIME, [[MADE, spanner(2, "u", {"id": 1, "n": 1, "v": None}, {"id": 1, "n": 2, "v": None})]], ["kept"], ""),
    "null": (BY_TIME, [[MADE, spanner(2, "u", {"id": 1, "n": None, "v": "kept"}, {"id": 1, "n": None, "v": None})]], [None], ""),
    "whole rows": (BY_TIME, [[MADE, spanner(2, "u", {"id": 1, "n": None, "v": None}, {"id": 1, "n": 2, "v": None}, "NEW_ROW")]], [None], ""),
    "new values": (BY_TIME, [[MADE, spanner(2, "u", None, {"id": 1, "n": 2, "v": None}, "NEW_VALUES")]], ["kept"], "'NEW_ROW'"),
    "plain": (BY_TIME, [[scylla(1, "c", {"id": 1, "n": 1, "v": "kept"}), scylla(2, "u", {"id": 1, "n": 2, "v": None}, {"id": 1, "n": 1, "v": None})]],
              ["kept"], "cdc.output.format"),
    "plain and whole": (BY_TIME, [[scylla(1, "c", {"id": 1, "n": 1, "v": "old"}), scylla(2, "u", {"id": 1, "n": 2, "v": "new"})]], ["new"], ""),
}  # fmt: skip


@pytest.mark.slow
def test_what_an_update_leaves_out_is_no_null(lake: Lake) -> None:
    """Spanner's before image shows what changed; without it, and in Scylla's plain values, nothing does. In another run, and in Parquet too."""
    expect(lake, PARTIAL)
    image = "struct<id:bigint,n:int,v:string>"
    ddl = f"op string, before {image}, after {image}, source struct<connector:string,ts_us:bigint,value_capture_type:string>"
    spec = lake.spec("parquet", envelope="debezium", order_by=("source.ts_us",))
    source = ("spanner", 1, "OLD_AND_NEW_VALUES")
    lake.land_parquet(spec, 1, [{"op": "c", "before": None, "after": (1, 1, "kept"), "source": source}], ddl)
    lake.run(spec)
    lake.land_parquet(spec, 2, [{"op": "u", "before": (1, 1, None), "after": (1, 2, None), "source": (source[0], 2, source[2])}], ddl)
    lake.run(spec)
    assert lake.rows(spec) == [{"id": 1, "n": 2, "v": "kept"}]


def mongodb(op: str, time: int, ord_: int, value: str | None, number: int = 1, **more: Any) -> dict[str, Any]:
    """A change of MongoDB; a delete has no value."""
    row = json.dumps({"_id": number, **({} if value is None else {"v": value})})
    return change(
        op, {"connector": "mongodb", "db": "d", "collection": "t", "ts_ms": time, "ord": ord_}, **{"before" if op == "d" else "after": row}, **more
    )


def in_topic(records: Records) -> Records:
    return [{"key": {"id": "1"}, "partition": 0, "offset": at, "value": record} for at, record in enumerate(records)]


SECOND, CLOCK = 1_700_000_010_000, 1_700_000_010_999
# a row is read in the second of its changes: Connect's clock is ahead of the cluster's time, which counts in seconds
READ = [mongodb("r", SECOND + 500, -1, "read"), mongodb("r", SECOND + 500, -1, "deleted later", 2)]
CHANGED = [mongodb("u", SECOND, 3, "changed"), mongodb("d", SECOND, 4, None, 2)]
MONGODB: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "read before": (DEBEZIUM, [CHANGED, READ], ["changed"], ""),
    "in a topic": ({**DEBEZIUM, "container": "kafka"}, [in_topic([*READ, *CHANGED])], ["changed"], ""),
    "of a transaction": (DEBEZIUM, [[mongodb("u", SECOND, 3, f"{at}", transaction={"id": "x", "total_order": at})] for at in (1, 2)], ["2"], ""),
    "by the clock": (DEBEZIUM, [[mongodb("c", CLOCK, 900, "first"), mongodb("u", CLOCK, 1, "second")]], ["second"], ""),
}  # fmt: skip


@pytest.mark.slow
def test_times_of_mongodb_do_not_hide_a_change(lake: Lake) -> None:
    """Neither behind a row that a snapshot read, nor behind a change of the second before, nor another of its transaction."""
    expect(lake, {name: ({**settings, "key": ("_id",)}, *rest) for name, (settings, *rest) in MONGODB.items()})  # type: ignore[misc]


def postgres(lsn: int, op: str, before: Any, after: Any) -> dict[str, Any]:
    return change(op, {"connector": "postgresql", "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]', "schema": "public", "table": "t"}, before, after)


ROW = {"id": 1, "version": 3, "at": "2026-01-01T00:00:00Z", "v": "a"}
FILLED = {"id": 1, "version": 0, "at": "1970-01-01T00:00:00Z", "v": ""}
FILLERS: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "key only": ({**DEBEZIUM, "order_by": ("version",)}, [[postgres(1, "c", None, ROW), postgres(2, "d", FILLED, None)]], ["a"], "REPLICA IDENTITY"),
    "times": ({**DEBEZIUM, "order_by": ("at",)}, [[postgres(1, "c", None, ROW), postgres(2, "d", FILLED, None)]], ["a"], "in which at may be"),
    "flat": ({"order_by": ("version",)}, [[{**ROW, "__op": "c", "__deleted": "false"}, {**FILLED, "__op": "d", "__deleted": "true"}]], ["a"], "__source_lsn"),
    "whole rows": ({**DEBEZIUM, "order_by": ("version",)}, [[postgres(1, "c", None, {**ROW, "version": 0}), postgres(2, "d", {**ROW, "version": 0}, None)]], [], ""),
    "beside a default": ({**DEBEZIUM, "order_by": ("at",), "types": (("at", "timestamp"),)},
                         [[postgres(1, "c", None, ROW), postgres(2, "d", {**FILLED, "v": "new"}, None)]], ["a"], "in which at may be"),
    "after a column of the key": ({**DEBEZIUM, "key": ("id", "v"), "order_by": ("v", "version")},
                                  [[postgres(1, "c", None, ROW), postgres(2, "d", {**FILLED, "v": "a"}, None)]], ["a"], "in which version"),
    "of MySQL": ({**DEBEZIUM, "order_by": ("version",)},
                 [[change("c", {"connector": "mysql"}, None, {"id": 1, "version": 0, "v": ""}), change("d", {"connector": "mysql"}, {"id": 1, "version": 0, "v": ""})]], [], ""),
    "by hand": ({"order_by": ("version",)}, [[{"id": 1, "version": 0, "v": "a", "op": "c"}, {"id": 1, "version": 0, "op": "d"}]], [], ""),
}  # fmt: skip


@pytest.mark.slow
def test_a_filler_is_no_place_of_a_delete(lake: Lake) -> None:
    """PostgreSQL's connector writes zeros for what it does not know of a deleted row. A delete by hand, or with any other value, has its place."""
    expect(lake, FILLERS)


def oracle(position: str, value: str) -> dict[str, Any]:
    """A change of Oracle by way of XStream."""
    place = {"scn": "2122185", "commit_scn": "2122190", "lcr_position": f"00000000002062290000000100000001{position}", "rs_id": None, "ssn": 0}
    return change("u", {"connector": "oracle", "db": "X", "schema": "S", "table": "T", **place}, after={"id": 1, "v": value})


def in_order(column: str, values: tuple[Any, Any]) -> list[Records]:
    """Plain rows with the newer value in the file that sorts first."""
    return [[{"id": 1, "v": v, column: value}] for v, value in zip(("old", "new"), values)]


def sequence(at: Any, number: int, value: str) -> dict[str, Any]:
    return change("u", {"connector": "spanner", "ts_ms": 5, "sequence": at, "mod_number": number}, after={"id": 1, "v": value})


BY_SEQUENCE = {**DEBEZIUM, "order_by": ("source.ts_ms", "source.sequence", "source.mod_number")}
PLACES: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "XStream": (DEBEZIUM, [[oracle("01", "old")], [oracle("02", "new")]], ["new"], ""),
    "sequence": (BY_SEQUENCE, [[sequence("00000009", 0, "old")], [sequence("00000010", 0, "new")]], ["new"], ""),
    "place in a sequence": (BY_SEQUENCE, [[sequence("00000010", 0, "old")], [sequence("00000010", 1, "new")]], ["new"], ""),
    "list": ({**DEBEZIUM, "order_by": ("source.sequence",)}, [[postgres(9, "c", None, {"id": 1, "v": "old"})], [postgres(10, "u", None, {"id": 1, "v": "new"})]], ["new"], ""),
    "own sequence": ({"order_by": ("record_sequence",)}, in_order("record_sequence", ("00000001", "00000002")), ["new"], ""),
    "list in a column": ({"order_by": ("__sequence",)}, in_order("__sequence", ('[null,"9"]', '["10","11"]')), ["new"], ""),
    "long numbers": ({"order_by": ("n",)}, in_order("n", ("9" * 21, "1" + "0" * 21)), ["new"], ""),
    "base64": ({"order_by": ("lsn",)}, in_order("lsn", ("AAAAKgAAAegAAw==", "AAAAKgAAAfwAAw==")), [], "bytes as hexadecimal"),
}  # fmt: skip


@pytest.mark.slow
def test_the_newest_change_by_its_place_whatever_form_that_has(lake: Lake) -> None:
    """Numbers of a list, with leading zeros, and of more digits than a bigint."""
    expect(lake, PLACES)


@pytest.mark.slow
def test_a_fraction_has_no_place_among_whole_numbers(lake: Lake) -> None:
    """Rounded, 100.4 and 100.2 would be equal, and the later line would win."""
    spec = lake.spec(order_by=("n",), quarantine_share=0.9)
    lake.land(spec, 1, [{"id": 1, "n": "9" * 21}, {"id": 2, "n": "5"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "n": "100.4"}, {"id": 2, "n": "100.2"}, {"id": 1, "n": "1" + "0" * 21}])
    lake.run(spec)
    assert [(row["id"], row["n"]) for row in lake.rows(spec)] == [(1, "1" + "0" * 21), (2, "5")]
    assert {"not of the order's type" in reason for _, reason in lake.unusable(spec)} == {True}


def ticdc(at: int, op: str | None, row: Any, **more: Any) -> dict[str, Any]:
    """A change, or without `op` a schema change, as TiCDC wraps it without schemas."""
    source = {"connector": "TiCDC", "snapshot": "false", "db": "test", "table": "t", "file": "", "pos": 0, "row": 0, "commit_ts": at}
    return {"payload": {"source": source, "ts_ms": 1, **({"op": op, "before": None, "after": row} if op else {}), **more}}


def vitess(epoch: int, rank: float | str, value: Any, op: str = "u") -> dict[str, Any]:
    block = None if op == "r" else {"id": "[]", "total_order": 1, "transaction_epoch": epoch, "transaction_rank": rank}
    return change(op, {"connector": "vitess", "db": "", "keyspace": "commerce", "table": "t"}, after={"id": 1, "v": value}, transaction=block)


ONE, TWO, DDL = ticdc(1, "c", {"id": 1, "v": "one"}), ticdc(9, "c", {"id": 2, "v": "two"}), {"databaseName": "test", "tableChanges": []}
RANKS = ("transaction.transaction_epoch", "transaction.transaction_rank", "transaction.total_order")
CELL = {"value": "a", "deletion_ts": None, "set": True}
ENVELOPES: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "payload alone": (DEBEZIUM, [[ONE, TWO, ticdc(10, None, None, **DDL, ddl="ALTER TABLE t ADD COLUMN w int")]], ["one", "two"], ""),
    "truncate": ({**DEBEZIUM, "source_table": "test.t"}, [[ticdc(5, None, None, **DDL, ddl="TRUNCATE TABLE `t`"), ONE, TWO]], ["two"], ""),
    "drop": (DEBEZIUM, [[ONE, ticdc(5, None, None, **DDL, ddl="drop  table if exists t"), TWO]], ["two"], ""),
    "no envelope": ({"key": (), "order_by": ("offset",), "container": "kafka"}, [[{"offset": 1, "value": {"payload": {"source": "x", "op": "y"}}}]], [None], ""),
    "a column payload": ({"key": ("payload",), "order_by": ("payload",)}, [[{"payload": "a"}]], [None], ""),
    "members of the transaction": ({**DEBEZIUM, "order_by": RANKS}, [[vitess(0, 70, "old"), vitess(0, 0, "read", "r")], [vitess(0, 100, "new")]], ["new"], ""),
    "ranks in base64": ({**DEBEZIUM, "order_by": RANKS}, [[vitess(0, packed(at), at) for at in (127, 20467, 2**62)], [vitess(0, 300, 300), vitess(0, packed(2**63), 0), vitess(0, "1A==", 1)]], [2**62], "order's type.*order's type"),
    "numbers beyond a bigint": ({**DEBEZIUM, "order_by": RANKS}, [[vitess(0, 70, "a"), vitess(0, 2**63, "b"), vitess(0, 1e9 + 0.5, "c")], [{**vitess(0, 2**63, "e"), "op": "r"}]], ["a"], "order's type.*order's type.*order's type"),
    "keyspace": ({**DEBEZIUM, "order_by": RANKS, "source_table": "commerce.t"}, [[vitess(0, 70, "a")]], ["a"], ""),
    "keyspace of Scylla": ({**BY_TIME, "source_table": "ks.t"}, [[scylla(1, "c", {"id": 1, "v": "a"})]], ["a"], ""),
    "no such table": ({**DEBEZIUM, "order_by": RANKS, "source_table": "other.t"}, [[vitess(0, 70, "a")]], [], "with a row of `source_table: other.t`"),
    "Cassandra": (BY_TIME, [[change("i", {"connector": "cassandra", "ts_us": 1, "keyspace": "ks"}, after={"id": CELL})]], [], "connector for Cassandra"),
}  # fmt: skip


@pytest.mark.slow
def test_envelopes_with_other_members(lake: Lake) -> None:
    """A value without schema, a truncate as a schema change, other names of a table, and members of the transaction block."""
    expect(lake, ENVELOPES)


def user(number: int, **names: Any) -> dict[str, Any]:
    """A flattened row whose id and value are a number."""
    return {"id": number, "v": number, "__op": "c", "__lsn": number, **names}


def sqlserver(db: str, number: int) -> dict[str, Any]:
    place = {"commit_lsn": f"00000027:00000ac0:{number:04}", "change_lsn": f"00000027:00000ac0:{number:04}", "event_serial_no": 1}
    return change("c", {"connector": "sqlserver", "db": db, "schema": "dbo", "table": "users", **place}, after={"id": number, "v": number})


SCHEMAS = [[user(1, __schema="a", __table="users"), user(2, __schema="b", __table="users"), user(3, __schema="a", __table="orders")]]
SOURCES = [[user(1, __source_schema="a", __source_table="users"), user(2, __source_schema="a", __source_table="orders")]]
DATABASES = [[user(at, __db=db, __table="users") for at, db in enumerate("abc", 1)]]
FULL = [[user(at, __db=db, __schema=schema, __table="users") for at, (db, schema) in enumerate(("xa", "xb", "ya"), 1)]]
BOTH = [[user(1, __table="users"), user(2, __source_table="users"), user(3, __source_table="orders")]]
TABLES: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    "schema": ({"source_table": "a.users"}, SCHEMAS, [1], ""),
    "any schema": ({"source_table": "users"}, SCHEMAS, [1, 2], ""),
    "pattern": ({"source_table": "a.*"}, SCHEMAS, [1, 3], ""),
    "two": ({"source_table": "b.users, a.orders"}, SCHEMAS, [2, 3], ""),
    "fields of the source": ({"source_table": "a.users"}, SOURCES, [1], ""),
    "either name": ({"source_table": "a.users"}, BOTH, [1, 2], ""),
    "database": ({"source_table": "b.users"}, DATABASES, [2], ""),
    "database and schema": ({"source_table": "x.a.users"}, FULL, [1], ""),
    "schema of any database": ({"source_table": "a.users"}, FULL, [1, 3], ""),
    "table alone": ({"source_table": "a.users"}, [[user(1, __table="users"), user(2, __table="orders")]], [1], ""),
    "a pattern": ({"source_table": "ord*"}, [[user(1, __table="ord_1", __db="shop"), user(2, __table="users", __db="ord")]], [1], ""),
    "no name": ({"source_table": "a.users"}, [[user(1)]], [], "do not name their table; add `table` and `schema`"),
    "envelope": ({**DEBEZIUM, "source_table": "db1.dbo.users"}, [[sqlserver("db1", 1), sqlserver("db2", 2)]], [1], ""),
    "envelope of any database": ({**DEBEZIUM, "source_table": "dbo.users"}, [[sqlserver("db1", 1), sqlserver("db2", 2)]], [1, 2], ""),
}  # fmt: skip


@pytest.mark.slow
def test_a_table_of_a_stream_by_all_names_that_its_records_have(lake: Lake) -> None:
    """Schema and database too, under both prefixes. Rows that do not name their table are refused."""
    expect(lake, TABLES)


@pytest.mark.slow
def test_the_first_run_says_that_records_are_of_several_tables(lake: Lake) -> None:
    """They become one table, unless `source_table` takes some of them. Once is enough: they may be partitions."""
    for name, settings, names in (("all", {}, "a.orders, a.users, b.users"), ("one", {"source_table": "a.users"}, "")):
        spec, notes = lake.spec(name, order_by=(), **settings), []
        for hour in (0, 1):
            lake.land(spec, hour, SCHEMAS[0])
            notes.append([note for note in lake.run(spec).notes if "several source tables" in note])
        assert [len(each) for each in notes] == [bool(names), 0]
        assert not names or sorted(notes[0][0].partition(": ")[2].partition(". ")[0].split(", ")) == names.split(", ")


ENVELOPE = {"database": "d", "table": "t"}
EVENT = {"id": "lsn:1", "specversion": "1.0", "type": "io.debezium.connector.postgresql.DataChangeEvent", "datacontenttype": "application/json"}
FOREIGN: dict[str, dict[str, Any]] = {
    "CloudEventsConverter": {**EVENT, "iodebeziumop": "d", "data": {"before": {"id": 1}, "after": None}, "es": 1},
    "Maxwell": {**ENVELOPE, "type": "insert", "ts": 1, "xid": 2, "data": {"id": 1}},
    "Canal": {"id": 0, **ENVELOPE, "type": "INSERT", "es": 1, "data": [{"id": "1"}], "old": None, "pkNames": ["id"]},
    "TiCDC": {"version": 1, **ENVELOPE, "type": "INSERT", "commitTs": 447984084414103554, "data": {"id": "1"}, "old": None},
    "GoldenGate": {"table": "S.T", "op_type": "I", "op_ts": "2026-06-02 22:14:36", "pos": "0001", "after": {"id": 1}},
    "AWS DMS": {"data": {"id": 1}, "metadata": {"record-type": "data", "operation": "insert"}},
    "Datastream": {"uuid": "u", "read_method": "mysql-cdc-binlog", "source_metadata": {"change_type": "UPDATE"}, "payload": {"id": "1"}},
    "Striim": {"metadata": {"OperationName": "INSERT"}, "data": {"id": 1}, "before": None, "userdata": None},
    "Qlik Replicate": {"magic": "atMSG", "type": "DT", "message": {"data": {"id": 1}, "headers": {"operation": "INSERT"}}},
}
NAMED = {"id": 1, "v": "a", "header__change_oper": "I", "seq": 1}
COLUMNS: dict[str, tuple[dict[str, Any], list[Records], list[Any], str]] = {
    **{name: ({"order_by": ("es",)}, [[record]], [], f"look like {name}'s, which are not read") for name, record in FOREIGN.items()},
    "rows with such members": (
        {"order_by": ("seq",)}, [[{"id": 1, "seq": 1, "v": "a", "data": {"x": 1}, "metadata": {"event_id": "e"}, "message": {"a": 1}, "magic": "m"}]], ["a"], ""
    ),
    "CloudEvents of an application": ({"order_by": ("time",)}, [[{**EVENT, "time": 1, "v": "a", "data": {"order": 7}}]], ["a"], ""),
    "in the envelope of Debezium": (DEBEZIUM, [[FOREIGN["CloudEventsConverter"]]], [], "look like CloudEventsConverter's.*no `op`"),
    "around the key": ({"order_by": ("at",)}, [[{"at": 1, "row": {"ID": 1, "v": "a"}}]], [], "no key column 'id'; .*; row has it, so that the rows may be wrapped"),
    "around the key, in a list": ({"order_by": ("at",)}, [[{"at": 1, "data": [{"id": 1}]}]], [], "; data has it"),
    "a key that is not stored": ({"key": ("__id",), "order_by": ("at",)}, [[{"at": 1, "__id": 1}]], [], "name it in `metadata_columns`"),
    "an audit table": ({"key": ("ts",), "order_by": ("ts",)}, [[{**ENVELOPE, "type": "insert", "ts": 1, "data": {"x": 1}, "v": "a"}]], ["a"], ""),
    "patches with marks": ({"order_by": ("seq",), "patch_rows": True}, [[{**NAMED, "v": None, "v_isMissing": True}]], [], "v_isMissing says whether"),
    "mistyped": ({"order_by": ("seq",), "op": "header__change_operation"}, [[NAMED]], [], "no record has the column header__change_operation"),
    "in one of the files": ({"order_by": ("seq",), "op": "header__change_oper"}, [[NAMED], [{"id": 2, "v": "b", "seq": 2}]], ["a", "b"], ""),
}  # fmt: skip


@pytest.mark.slow
def test_a_new_table_of_other_rows_than_it_expects(lake: Lake) -> None:
    """Another program's envelope, even if it has a member with the name of the key, and an operation that no row has."""
    expect(lake, COLUMNS)
