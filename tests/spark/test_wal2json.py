"""wal2json by hand-made documents: what each becomes, and what a table of them becomes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, OrderRefused, SchemaRefused
from compactor.core.model.policy import Policy
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

TYPES = {"id": "integer", "v": "text", "n": "integer"}


def told(row: Mapping[str, Any], types: Mapping[str, str] = TYPES) -> list[dict[str, Any]]:
    return [{"name": name, "type": types[name], "value": value} for name, value in row.items()]


def one(
    action: str, lsn: int, new: Mapping[str, Any] | None = None, old: Mapping[str, Any] | None = None, at: int = 0, **more: Any
) -> dict[str, Any]:
    """A change in format 2: `lsn` is its place, `at` the second at which its transaction committed."""
    types = more.pop("types", TYPES)
    out = {"action": action, "xid": at or lsn, "timestamp": f"2024-03-05 10:{at or lsn:02d}:00.5+00", "lsn": f"0/{lsn:X}"}
    out |= {"schema": more.pop("schema", "public"), "table": more.pop("table", "t")}
    out |= {"columns": told(new, types)} if new is not None else {}
    out |= {"identity": told(old, types)} if old is not None else {}
    return {**out, **more}


def many(nextlsn: int, *changes: tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None], table: str = "t") -> dict[str, Any]:
    """A transaction in format 1: (kind, columns, old keys) each."""
    out = []
    for kind, new, old in changes:
        change: dict[str, Any] = {"kind": kind, "schema": "public", "table": table}
        if new is not None:
            change |= {"columnnames": [*new], "columntypes": [TYPES[name] for name in new], "columnvalues": [*new.values()]}
        if old is not None:
            change["oldkeys"] = {"keynames": [*old], "keytypes": [TYPES[name] for name in old], "keyvalues": [*old.values()]}
        out.append(change)
    return {"xid": nextlsn, "nextlsn": f"0/{nextlsn:X}", "timestamp": "2024-03-05 10:00:00+00", "change": out}


def wal2json(lake: Lake, **settings: Any) -> Any:
    return lake.spec(**{"envelope": "wal2json", "format": "json", "order_by": (), "quarantine_rows": 0, **settings})


def shown(lake: Lake, spec: Any) -> dict[Any, Any]:
    return {row["id"]: (row.get("v"), row.get("n")) for row in lake.rows(spec)}


HISTORY = [
    many(
        0xFF,
        ("insert", {"id": 1, "v": "big", "n": 1}, None),
        ("insert", {"id": 2, "v": "b", "n": 2}, None),
        ("insert", {"id": 9, "v": "x", "n": 9}, None),
    ),
    many(
        0x100,
        ("update", {"id": -1, "n": 1}, {"id": 1}),
        ("update", {"id": 1, "v": "b", "n": 2}, {"id": 2}),
        ("update", {"id": 2, "n": 10}, {"id": -1}),
    ),
    many(0x101, ("delete", None, {"id": 9})),
    many(0x102),
    {"change": [{"kind": "message", "transactional": False, "prefix": "app", "content": "hello"}]},
]
"""Three inserts; 1 and 2 change places through -1, the large value of 1 unchanged and left out; a delete; nothing; a message."""


def as_format_2(documents: Iterable[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """The same history as format 2 writes it: the lines of each transaction."""
    actions = {"insert": "I", "update": "U", "delete": "D"}
    transactions = []
    for number, document in enumerate(documents, 1):
        out: list[dict[str, Any]] = []
        out.append({"action": "B", "xid": number, "timestamp": "2024-03-05 10:00:00+00", "lsn": "0/1", "nextlsn": "0/2"})
        for place, change in enumerate(document["change"]):
            if change["kind"] == "message":
                out.append({"action": "M", "xid": None, "timestamp": None, "lsn": "0/1", "transactional": False, "prefix": "p", "content": "c"})
                continue
            new = dict(zip(change.get("columnnames", []), change.get("columnvalues", [])))
            old = dict(zip(change["oldkeys"]["keynames"], change["oldkeys"]["keyvalues"])) if "oldkeys" in change else None
            out.append(one(actions[change["kind"]], 250 + number * 10 + place, new or None, old, at=number))
        out.append({"action": "C", "xid": number, "timestamp": "2024-03-05 10:00:00+00", "lsn": "0/1", "nextlsn": "0/2"})
        transactions.append(out)
    return transactions


@pytest.mark.slow
@pytest.mark.parametrize("format_", [1, 2])
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "the key changes last"])
def test_a_history_in_both_formats(lake: Lake, format_: int, apart: bool) -> None:
    """Key changes carry left-out values along, LSNs are numbers (FF comes before 100), and every event is counted."""
    spec = wal2json(lake)
    documents = [[each] for each in HISTORY] if format_ == 1 else as_format_2(HISTORY)
    parts = ([0], [2, 3, 4], [1]) if apart else ([0, 1, 2, 3, 4],)
    groups = [[each for part in group for each in documents[part]] for group in parts]
    read = 0
    for hour, group in enumerate(groups):
        # a sink may write a tombstone as a line of its own
        lake.land(spec, hour, [*group, None, ""])
        counts = lake.run(spec).counts
        read += counts["read"] - 2
        assert counts["read"] == sum(number for name, number in counts.items() if name != "read")
    assert {1: ("b", 2), 2: ("big", 10)} == shown(lake, spec)
    # an empty transaction, and each document of format 2, is one event read
    assert (9 if format_ == 1 else 18) == read
    assert [] == lake.problems(spec)
    assert 0 == lake.snapshot(spec).unresolved


CASES: list[tuple[str, Any, str]] = [
    ("a cut line", '{"action":"I","xid":1,"lsn":"0/10","schema":"public","ta', "not a whole one"),
    ("no JSON", "hello", "is not a JSON object"),
    ("a document and other text", json.dumps(one("I", 1, {"id": 1})) + " and more", "has text after its JSON object"),
    ("another envelope", {"op": "c", "after": {"id": 1}}, "not a wal2json record"),
    ("an unknown action", one("X", 1, {"id": 1}), "unknown action x"),
    ("lists of different lengths", {**many(1), "change": [{"kind": "insert", "table": "t", "columnnames": ["id", "v"], "columntypes": ["integer", "text"],
                                                          "columnvalues": [1]}]}, "2 column names and 1 values"),
    ("a delete without its key", one("D", 1, None, {"v": "a"}), "no value for the key column id"),
    ("an insert without its key", one("I", 1, {"v": "a"}), "no value for the key column id"),
    ("a null key", one("I", 1, {"id": None, "v": "a"}), "no value for the key column id"),
    ("an insert of nothing", one("I", 1), "has no columns"),
    ("a date in another style", one("I", 1, {"id": 1, "d": "02-04-2013"}, types={"id": "integer", "d": "date"}), "set DateStyle"),
    ("bytes in another style", one("I", 1, {"id": 1, "b": "\\001a"}, types={"id": "integer", "b": "bytea"}), "set bytea_output"),
]  # fmt: skip


@pytest.mark.slow
def test_texts_may_hold_any_braces_and_large_numerics_may_be_left_out(lake: Lake) -> None:
    """`}{` in a text is no second document. An unchanged numeric of many digits is stored out of line, and an update leaves it out as it does texts."""
    spec = wal2json(lake)
    texts = ["}{", '}{"', "a} {b", '"} \\', "{{}}", '{"a":1}{"b":2}']
    many_digits, kinds = "1234567890123456789012345678901234567.8", {**TYPES, "big": "numeric(38,1)"}
    lake.land(spec, 1, [one("I", 1 + at, {"id": at, "v": value, "n": 1}) for at, value in enumerate(texts)])
    lake.run(spec)
    assert dict(enumerate(texts)) == {key: v for key, (v, _) in shown(lake, spec).items()}
    lake.land(spec, 2, [one("I", 20, {"id": 9, "n": 1, "big": many_digits}, types=kinds), one("U", 30, {"id": 9, "n": 2}, types=kinds)])
    lake.run(spec)
    assert [(2, many_digits)] == [(row["n"], str(row["big"])) for row in lake.rows(spec) if row["id"] == 9]
    lake.land(spec, 3, [one("U", 40, {"id": 9, "n": 3}, types=kinds)])
    lake.run(spec)
    assert [(3, many_digits)] == [(row["n"], str(row["big"])) for row in lake.rows(spec) if row["id"] == 9]


@pytest.mark.slow
def test_what_cannot_be_used_is_told_with_its_record(lake: Lake) -> None:
    """All cases in one file, good records between. The message names file, record and reason, and nothing is absorbed unless quarantine allows it."""
    spec = wal2json(lake)
    records = [line for number, (_, document, _) in enumerate(CASES) for line in (one("I", 5 + number, {"id": 100 + number, "v": "a"}), document)]
    lake.land(spec, 1, records)
    with pytest.raises(InputRefused, match=f"part-0.json, record 2: .*{CASES[0][2]}"):
        lake.run(spec)
    assert ["part-0.json"] == lake.landed(spec)
    lake.run(lake.with_settings(spec, quarantine_rows=None, quarantine_share=1.0))
    for number, ((name, _, why), (record, reason)) in enumerate(zip(CASES, lake.unusable(spec), strict=True)):
        assert 2 * number + 2 == record, name
        assert re.search(why, reason), (name, reason)
    assert [100 + number for number in range(len(CASES))] == [row["id"] for row in lake.rows(spec)]


VALUES: list[tuple[str, str, str, Any]] = [
    ("smallint", "-32768", "smallint", -32768),
    ("bigint", "9223372036854775807", "bigint", 9223372036854775807),
    ("oid", "4294967295", "bigint", 4294967295),
    ("numeric(38,10)", "9999999999999999999999999999.9999999999", "decimal(38,10)", Decimal("9999999999999999999999999999.9999999999")),
    ("numeric(2,-3)", "45000", "decimal(5,0)", 45000),
    ("numeric", "1.00", "string", "1.00"),
    ("numeric(60,30)", "123456789012345678901234567890.123456789012345678901234567890", "string", "123456789012345678901234567890.123456789012345678901234567890"),
    ("real", "8.714286", "float", Decimal("8.714286")),
    ("double precision", "1e+300", "double", Decimal("1E300")),
    ("boolean", "false", "boolean", False),
    ("date", '"0044-03-15 BC"', "date", "-0043-03-15"),
    ("date", '"infinity"', "date", None),
    ("timestamp with time zone", '"2024-03-05 10:00:00.5+05:30"', "timestamp", "2024-03-05T04:30:00.500000Z"),
    ("timestamp(3) without time zone", '"2024-03-05 10:00:00"', "timestamp", "2024-03-05T10:00:00.000000Z"),
    ("time with time zone", '"24:00:00+01"', "string", "24:00:00+01"),
    ("interval", '"P1Y2M3DT4H5M6.789012S"', "string", "P1Y2M3DT4H5M6.789012S"),
    ("bytea", '"00ff5c"', "binary", "AP9c"),
    ("uuid", '"00000000-0000-0000-0000-000000000001"', "string", "00000000-0000-0000-0000-000000000001"),
    ("jsonb", '"{\\"a\\": 1.10}"', "string", '{"a": 1.10}'),
    ("character(4)", '"a   "', "string", "a   "),
    ("public.mood", '"ok"', "string", "ok"),
    ("bit varying(16)", '"0101"', "string", "0101"),
    ("integer[]", '"{1,NULL,-1}"', "array<int>", [1, None, -1]),
    ("integer[]", '"[0:1]={1,2}"', "array<int>", [1, 2]),
    ("integer[]", '"{{1,2},{3,4}}"', "array<array<int>>", [[1, 2], [3, 4]]),
    ("text[]", r'"{\"a,b\",\"\",NULL,\"NULL\",\"q\\\"\\\\\",null1}"', "array<string>", ["a,b", "", None, "NULL", 'q"\\', "null1"]),
    ("numeric(4,1)[]", '"{1.5}"', "array<decimal(4,1)>", [Decimal("1.5")]),
    ("bytea[]", r'"{\"\\\\x00ff\"}"', "array<binary>", ["AP8="]),
    ("timestamp with time zone[]", r'"{\"2024-01-01 00:00:00+01\"}"', "array<timestamp>", ["2023-12-31T23:00:00.000000Z"]),
    ("text", '"__debezium_unavailable_value"', "string", "__debezium_unavailable_value"),
]  # fmt: skip


@pytest.mark.slow
def test_values_are_what_the_type_beside_them_says(lake: Lake) -> None:
    """PostgreSQL type, JSON text as wal2json writes it, Hive type, what the view shows: numbers exact, no value guessed."""
    columns = ",".join(f'{{"name":"c{at}","type":"{kind}","value":{text}}}' for at, (kind, text, _, _) in enumerate(VALUES))
    nulls = ",".join(f'{{"name":"c{at}","type":"{kind}","value":null}}' for at, (kind, _, _, _) in enumerate(VALUES))
    head = '{"action":"I","xid":1,"timestamp":"2024-03-05 10:00:00+00","lsn":"0/%d","schema":"public","table":"t","columns":[{"name":"id","type":"integer","value":%d},'
    spec = wal2json(lake)
    lake.land(spec, 1, [head % (1, 1) + columns + "]}", head % (2, 2) + nulls + "]}"])
    lake.run(spec)
    first, second = sorted(lake.rows(spec), key=lambda row: row["id"])
    stored = {field.name: field.type for field in lake.snapshot(spec).schema.fields}
    assert [(kind, hive) for kind, _, hive, _ in VALUES] == [(kind, stored[f"c{at}"]) for at, (kind, *_) in enumerate(VALUES)]
    assert {f"c{at}": case[3] for at, case in enumerate(VALUES)} == {name: value for name, value in first.items() if name != "id"}
    assert {"id": 2, **dict.fromkeys(f"c{at}" for at in range(len(VALUES)))} == second


@pytest.mark.parametrize("hours", [(3,), (1, 1, 1), (1, 2)], ids=["one run", "three runs", "both depths in the second"])
@pytest.mark.slow
def test_an_array_column_whose_values_differ_in_depth_becomes_json(lake: Lake, hours: tuple[int, ...]) -> None:
    """`integer[]` allows it; no value is lost, and all ways of arriving end in the same text."""
    spec, types = wal2json(lake, policy=TEXT_ALLOWED), {"id": "integer", "a": "integer[]"}
    values = iter(enumerate(["{1,2}", "{{3},{4}}", "{5}"], 1))
    for hour, number in enumerate(hours):
        lake.land(spec, hour, [one("I", at, {"id": at, "a": value}, types=types) for at, value in islice(values, number)])
        lake.run(spec)
    expected = [{"id": 1, "a": "[1,2]"}, {"id": 2, "a": "[[3],[4]]"}, {"id": 3, "a": "[5]"}]
    assert expected == sorted(lake.rows(spec), key=lambda row: row["id"])
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_text_column_that_becomes_an_array_stays_text(lake: Lake) -> None:
    """As one that becomes a number does; proof and rebuild, which see both types at once, do the same."""
    spec = wal2json(lake)
    lake.land(spec, 1, [one("I", 1, {"id": 1, "a": "x"}, types={"id": "integer", "a": "text"})])
    lake.run(spec)
    lake.land(spec, 2, [one("I", 2, {"id": 2, "a": "{1,2}"}, types={"id": "integer", "a": "integer[]"})])
    lake.run(spec)
    assert [{"id": 1, "a": "x"}, {"id": 2, "a": "[1,2]"}] == sorted(lake.rows(spec), key=lambda row: row["id"])
    assert [] == lake.problems(spec)
    assert rebuild_table(Table(lake.env, spec)).outcome == "published"


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "two runs"])
def test_the_commit_orders_and_not_the_change(lake: Lake, apart: bool) -> None:
    """As PostgreSQL logs it: B's insert of a key waits for A, which has that key, and then deletes it or moves it away."""
    spec = wal2json(lake)
    before = [one("I", 10, {"id": 1, "v": "A"}, at=20), one("I", 11, {"id": 2, "v": "A"}, at=20)]
    before += [one("D", 14, old={"id": 1}, at=20), one("U", 15, {"id": 3, "v": "A"}, {"id": 2}, at=20)]
    after = [one("I", 12, {"id": 1, "v": "B"}, at=21), one("I", 13, {"id": 2, "v": "B"}, at=21)]
    for hour, events in enumerate([before, after] if apart else [[*before, *after]], 1):
        lake.land(spec, hour, events)
        lake.run(spec)
    assert shown(lake, spec) == {1: ("B", None), 2: ("B", None), 3: ("A", None)}


@pytest.mark.slow
def test_truncate_is_a_barrier(lake: Lake) -> None:
    """Format 2 tells it: older rows go, also those that arrive later."""
    spec = wal2json(lake)
    lake.land(spec, 1, [one("I", 1, {"id": 1, "v": "a"}), one("T", 5), one("I", 6, {"id": 2, "v": "b"})])
    lake.run(spec)
    lake.land(spec, 2, [one("I", 3, {"id": 3, "v": "late"})])
    lake.run(spec)
    assert {2: ("b", None)} == shown(lake, spec)


@pytest.mark.slow
def test_what_an_update_leaves_out(lake: Lake) -> None:
    """A large value left out keeps what it was; under REPLICA IDENTITY FULL the old image tells it; a column of fixed size was dropped."""
    spec = wal2json(lake)
    lake.land(
        spec, 1, [one("I", 1, {"id": 1, "v": "old", "n": 1}), one("I", 2, {"id": 2, "v": "old", "n": 2}), one("I", 3, {"id": 3, "v": None, "n": 3})]
    )
    lake.run(spec)
    lake.land(
        spec,
        2,
        [one("U", 11, {"id": 1}, {"id": 1}), one("U", 12, {"id": 2, "n": 5}, {"id": 2, "v": "told", "n": 2}), one("U", 13, {"id": 3}, {"id": 3})],
    )
    lake.run(spec)
    assert {1: ("old", None), 2: ("told", 5), 3: (None, None)} == shown(lake, spec)


@pytest.mark.slow
def test_what_an_update_leaves_out_is_not_gone(lake: Lake) -> None:
    """It is neither refused nor hidden, and another type of the column is not that of a name used again. What an insert does not have is gone."""
    for name, policy in (("fail", Policy(kinds=(("removed", "fail"),))), ("hide", Policy(drop="hide"))):
        spec = wal2json(lake, name=name, policy=policy)
        arrays = {**TYPES, "v": "integer[]"}
        lake.land(spec, 1, [one("I", 1, {"id": 1, "v": "{1,2}", "n": 1}, types=arrays)])
        lake.run(spec)
        lake.land(spec, 2, [one("U", 2, {"id": 1, "n": 2}, {"id": 1})])
        lake.run(spec)
        assert {1: ([1, 2], 2)} == shown(lake, spec), name
        assert [] == lake.problems(spec), name
        refused = lake.land(spec, 3, [one("I", 3, {"id": 2, "v": "{{1,2},{3,4}}", "n": 3}, types=arrays)])
        with pytest.raises(SchemaRefused, match=r"`v` changed from array<int> to array<array<int>>"):
            lake.run(spec)
        refused.unlink()
        lake.land(spec, 4, [one("I", 4, {"id": 3, "n": 4})])
        if name == "fail":
            with pytest.raises(SchemaRefused, match=r"`v` was removed"):
                lake.run(spec)
        else:
            lake.run(spec)
            assert ["id", "n"] == [*lake.rows(spec)[0]]


@pytest.mark.slow
def test_a_stream_of_several_tables(lake: Lake) -> None:
    """Without `source_table` it is refused; a list and a pattern take the partitions of one table together."""
    documents = [
        one("I", 1, {"id": 1, "v": "a"}, table="m_2024"), one("D", 2, None, {"id": 1}, table="m_2024"), one("I", 3, {"id": 1, "v": "moved"}, table="m_2025"),
        one("I", 4, {"id": 7, "v": "other"}, table="x"), one("I", 5, {"id": 8, "v": "other schema"}, table="m_2024", schema="old"),
    ]  # fmt: skip
    open_, listed, pattern = (
        wal2json(lake),
        wal2json(lake, name="l", source_table="public.m_2024, public.m_2025"),
        wal2json(lake, name="p", source_table="public.m_*"),
    )
    for spec in (open_, listed, pattern):
        lake.land(spec, 1, documents)
    with pytest.raises(InputRefused, match=r"several tables .*public.m_2024.*Set `source_table:`"):
        lake.run(open_)
    for spec in (listed, pattern):
        assert 2 == lake.run(spec).counts["ignored"]
        assert {1: ("moved", None)} == shown(lake, spec)


@pytest.mark.parametrize("xids", [[7, 8], [7, 7], [None, None]], ids=["as sent", "used again", "without include-xids"])
def test_rows_of_two_transactions_in_format_1_are_two_without_a_key(lake: Lake, xids: list[int | None]) -> None:
    """Only `nextlsn` tells their transactions apart: numbers of transactions come again, and need not be sent."""
    spec = lake.spec(envelope="wal2json", key=(), order_by=(), source_table="public.t")
    documents = [many(100 + at, ("insert", {"id": at}, None), ("insert", {"id": 10 + at}, None)) for at in (1, 2)]
    for document, xid in zip(documents, xids):
        document["xid"] = xid
    lake.land(spec, 1, [{name: value for name, value in each.items() if value is not None} for each in documents])
    lake.run(spec)
    assert [1, 2, 11, 12] == sorted(row["id"] for row in lake.rows(spec))


@pytest.mark.slow
@pytest.mark.parametrize("format_", [1, 2])
def test_a_table_without_key(lake: Lake, format_: int) -> None:
    """Equal rows of one COPY share an LSN and are as many; sent again they stay as many; updates and deletes take one equal row each."""
    spec = wal2json(lake, key=())
    same = {"id": 1, "v": "same"}
    if format_ == 1:
        copied = [many(10, ("insert", same, None), ("insert", same, None), ("insert", {"id": 2, "v": "b"}, None))]
        changed = [many(20, ("update", {"id": 1, "v": "new"}, same), ("delete", None, {"id": 2, "v": "b"}))]
    else:
        copied = [one("I", 10, same), one("I", 10, same), one("I", 10, {"id": 2, "v": "b"})]
        changed = [one("U", 20, {"id": 1, "v": "new"}, same), one("D", 21, None, {"id": 2, "v": "b"})]
    lake.land(spec, 1, copied)
    lake.run(spec)
    lake.land(spec, 2, [*copied, *changed], file="again.json")
    lake.run(spec)
    assert [{"id": 1, "v": "new"}, {"id": 1, "v": "same"}] == lake.rows(spec)


NULLS = {
    "a row from before the capture": (
        {},
        [[("insert", {"id": 1, "v": "x"}, None), ("insert", {"id": 2, "v": "y"}, None)], [("delete", None, {"id": 1})]],
        [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}],
    ),
    "a row that arrives after its delete": (
        {},
        [[("insert", {"id": 1, "v": "x"}, None)], [("delete", None, {"id": 1})], [("insert", {"id": 1, "v": None}, None)]],
        [{"id": 1, "v": "x"}],
    ),
    "removed columns are hidden": (
        {"policy": Policy(drop="hide")},
        [[("insert", {"id": 1, "v": None}, None), ("insert", {"id": 2, "v": "y"}, None)], [("delete", None, {"id": 1})]],
        [{"id": 2, "v": "y"}],
    ),
    "a column that went": (
        {},
        [[("insert", {"id": 1, "v": "x"}, None)], [("insert", {"id": 2}, None), ("delete", None, {"id": 1})]],
        [{"id": 2, "v": None}],
    ),
}
"""Case → settings, the changes of each run in format 1, and the rows that are left."""


@pytest.mark.slow
@pytest.mark.parametrize("case", NULLS)
def test_a_column_that_is_null_in_a_deleted_row_of_a_table_without_key(lake: Lake, case: str) -> None:
    """Format 1 leaves it out of `oldkeys`; that does not mean that the column is gone."""
    settings, runs, expected = NULLS[case]
    spec, places = wal2json(lake, key=(), **settings), {"a row that arrives after its delete": (10, 40, 30)}.get(case, (10, 20, 30))
    for hour, (place, changes) in enumerate(zip(places, runs)):
        lake.land(spec, hour, [many(place, *changes)])
        lake.run(spec)
    assert expected == sorted(lake.rows(spec), key=lambda row: row["id"])
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_stream_without_lsn_is_refused_unless_something_else_orders_it(lake: Lake) -> None:
    """wal2json writes LSNs when asked (`include-lsn`); the Kafka offset or another order will do."""
    spec = wal2json(lake)
    bare = {name: value for name, value in one("I", 1, {"id": 1, "v": "a"}).items() if name != "lsn"}
    lake.land(spec, 1, [bare])
    with pytest.raises(OrderRefused, match=r"wal2json without include-lsn, which has no default order"):
        lake.run(spec)
    kafka = wal2json(lake, name="k", container="kafka")
    lake.land(kafka, 1, [{"offset": 7, "partition": 0, "key": None, "value": json.dumps(bare)}])
    lake.run(kafka)
    assert {1: ("a", None)} == shown(lake, kafka)


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2])
def test_another_format_of_a_table_is_refused(lake: Lake, first: int) -> None:
    """The commit's LSN and its time cannot be compared: a delete that is logged after an insert, and committed before it, would win."""
    spec = wal2json(lake)
    begun, other = many(16, ("insert", {"id": 1, "v": "a", "n": 1}, None)), one("I", 20, {"id": 2, "v": "b", "n": 1})
    lake.land(spec, 1, [begun if first == 1 else other])
    lake.run(spec)
    lake.land(spec, 2, [other if first == 1 else begun])
    with pytest.raises(InputRefused, match=r"a column of the order .* is null"):
        lake.run(spec)


@pytest.mark.slow
def test_a_transaction_of_many_changes(lake: Lake) -> None:
    """One line of format 1 may hold them all; copying the line into each of its events would never end."""
    spec = wal2json(lake)
    lake.land(spec, 1, [many(10, *(("insert", {"id": number, "v": f"value {number}", "n": number}, None) for number in range(20_000)))])
    report = lake.run(spec)
    assert (20_000, 20_000) == (report.counts["read"], report.counts["applied"])


@pytest.mark.slow
def test_a_column_with_the_name_of_an_order_column_is_a_column(lake: Lake) -> None:
    """`change_lsn` orders by the stream's own LSN, whatever a payload column of that name holds; `after.` names the column."""
    types = {"id": "integer", "change_lsn": "integer"}
    events = [one("I", 2, {"id": 1, "change_lsn": 1}, at=9, types=types), one("U", 1, {"id": 1, "change_lsn": 2}, {"id": 1}, at=9, types=types)]
    for name, order, expected in (("own", (), 1), ("payload", ("after.change_lsn",), 2)):
        spec = wal2json(lake, name=name, order_by=order)
        lake.land(spec, 1, events)
        lake.run(spec)
        assert [{"id": 1, "change_lsn": expected}] == lake.rows(spec)


@pytest.mark.slow
def test_columns_whose_names_differ_in_case_are_two(lake: Lake) -> None:
    """PostgreSQL tells "V" from v. In Spark they would be one member of an image."""
    spec, types = wal2json(lake), {**TYPES, "V": "integer"}
    lake.land(spec, 1, [one("I", 1, {"id": 1, "v": "a", "V": 1}, types=types), one("U", 2, {"id": 1, "V": 2}, {"id": 1}, types=types)])
    lake.run(spec)
    assert [{"id": 1, "v": "a", "v_2": 2}] == lake.rows(spec)


@pytest.mark.slow
def test_transactions_without_a_commit_time_are_ordered_by_lsn(lake: Lake) -> None:
    """Where the table begins with some, LSNs order all of it; in a table that is ordered by commit time they are invalid."""
    spec = wal2json(lake)
    lake.land(spec, 1, [one("I", 1, {"id": 1, "v": "a"}, at=9), one("U", 2, {"id": 1, "v": "b"}, {"id": 1}, timestamp="2000-01-01 00:00:00+00")])
    lake.run(spec)
    lake.land(spec, 2, [one("I", 3, {"id": 2, "v": "x"}, at=9), one("D", 4, old={"id": 2}, timestamp="1999-12-31 19:00:00-05")])
    lake.run(spec)
    assert shown(lake, spec) == {1: ("b", None)}
    timed = wal2json(lake, name="timed", quarantine_rows=None)
    lake.land(timed, 1, [one("I", 1, {"id": 1, "v": "a"})])
    lake.run(timed)
    lake.land(timed, 2, [one("U", 2, {"id": 1, "v": "b"}, {"id": 1}, timestamp="2000-01-01 00:00:00+00"), one("I", 3, {"id": 3, "v": "c"})])
    lake.run(timed)
    assert shown(lake, timed) == {1: ("a", None), 3: ("c", None)}
    assert [number for number, reason in lake.unusable(timed) if "a column of the order (commit_time, change_lsn) is null" in reason] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["from the first run on", "later"])
def test_a_replayed_transaction_has_the_time_of_another_server(lake: Lake, first: bool) -> None:
    """`include-origin` shows it. It lies before the local change that it replaced, so it is as one without a time."""
    spec = wal2json(lake, quarantine_rows=9)
    own = [one("I", 1, {"id": 1, "v": "a"}, at=9, origin=0), one("U", 3, {"id": 1, "v": "own"}, {"id": 1}, at=10, origin=0)]
    replayed = [one("U", 4, {"id": 1, "v": "replayed"}, {"id": 1}, timestamp="2024-03-05 10:00:10.4+00", origin=2), one("I", 5, {"id": 2}, at=11)]
    for hour, events in enumerate([[*own, *replayed]] if first else [own, replayed], 1):
        lake.land(spec, hour, events)
        lake.run(spec)
    assert shown(lake, spec) == {1: ("replayed" if first else "own", None), 2: (None, None)}
    assert ["(commit_time, change_lsn) is null" in reason for _, reason in lake.unusable(spec)] == ([] if first else [True])


@pytest.mark.slow
def test_a_message_with_a_comma_too_many(lake: Lake) -> None:
    """Version 2.5, format 1, outside of a transaction: every message but the first of a session."""
    spec = wal2json(lake)
    beat = '{"change":[,{"kind":"message","transactional":false,"prefix":"heartbeat","content":"{\\"change\\":[,x"}]}'
    lake.land(spec, 1, [many(1, ("insert", {"id": 1, "v": '{"change":[,', "n": 1}, None)), beat])
    lake.run(spec)
    lake.land(spec, 2, [beat, beat])
    lake.run(spec)
    assert shown(lake, spec) == {1: ('{"change":[,', 1)}
    assert [] == lake.unusable(spec)


@pytest.mark.slow
@pytest.mark.parametrize("format_", [1, 2])
def test_an_update_whose_identity_is_not_the_key(lake: Lake, format_: int) -> None:
    """REPLICA IDENTITY USING INDEX on another column: nothing shows the row that goes when the key changes."""
    spec = wal2json(lake)
    first, change, old = {"id": 1, "v": "a", "n": 1}, {"id": 10, "v": "a", "n": 1}, {"v": "a"}
    one_by_one = [one("I", 1, first), one("U", 2, change, old)]
    lake.land(spec, 1, one_by_one if format_ == 2 else [many(1, ("insert", first, None)), many(2, ("update", change, old))])
    with pytest.raises(InputRefused, match="no value for the key column id, which its identity"):
        lake.run(spec)


@pytest.mark.slow
def test_numbers_that_a_json_reader_does_not_read(lake: Lake) -> None:
    """As text, and bare as older versions write them. Decimals have no such value: null."""
    spec = wal2json(lake)
    types = {"id": "integer", "d": "double precision", "r": "real", "n": "numeric(10,2)", "u": "numeric"}
    texts = one("I", 1, {"id": 1, "d": "NaN", "r": "-Infinity", "n": "NaN", "u": "NaN"}, types=types)
    bare = one("I", 2, {"id": 2, "d": float("nan"), "r": float("-inf"), "n": float("nan"), "u": 7.5}, types=types)
    # JSON's reader takes no number of more digits
    long = one("I", 3, {"id": 3, "d": 1.0, "r": 1.0, "n": 1, "u": 10**1200 + 7}, types=types)
    lake.land(spec, 1, [texts, bare, long])
    lake.run(spec)
    assert lake.rows(spec) == [
        {"id": 1, "d": "NaN", "r": "-Infinity", "n": None, "u": "NaN"},
        {"id": 2, "d": "NaN", "r": "-Infinity", "n": None, "u": "7.5"},
        {"id": 3, "d": Decimal("1.0"), "r": Decimal("1.0"), "n": Decimal("1.00"), "u": str(10**1200 + 7)},
    ]
