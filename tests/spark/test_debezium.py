"""Debezium's envelope by hand-made events: each test is one sentence of docs/semantics.md, small enough to read."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compactor.core.model.errors import OrderRefused
from tests.oracle.sizes import FULL, tiered
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

GONE = "__debezium_unavailable_value"


def event(op: str, lsn: int, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None, commit: int = 0) -> dict[str, Any]:
    """A PostgreSQL change event without schema; `lsn` is its place, `commit` that of its transaction."""
    source = {"connector": "postgresql", "schema": "public", "table": "t", "txId": commit or lsn, "lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn,
              "sequence": json.dumps([str(commit or lsn), str(lsn)])}  # fmt: skip
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


def debezium(lake: Lake, **settings: Any) -> Any:
    return lake.spec(envelope="debezium", order_by=(), **settings)


def values(lake: Lake, spec: Any) -> dict[Any, Any]:
    return {row["id"]: row.get("v") for row in lake.rows(spec)}


def test_commit_order_beats_lsn_order(lake: Lake) -> None:
    """A transaction that was open for long commits late: its changes are the newer ones although their LSNs are smaller."""
    spec = debezium(lake)
    long_open, quick = event("u", 10, after={"id": 1, "v": "late commit"}, commit=90), event("u", 50, after={"id": 1, "v": "quick"}, commit=60)
    lake.land(spec, 1, [quick, long_open])
    lake.run(spec)
    assert {1: "late commit"} == values(lake, spec)


def test_a_transaction_that_was_open_during_a_blocking_snapshot_is_newer(lake: Lake) -> None:
    """The snapshot's rows have the sequence of the last commit, which is also that of the changes that were committed next."""
    spec = debezium(lake)
    lake.land(
        spec,
        1,
        [event("r", 90, after={"id": at, "v": "read"}, commit=90) for at in (1, 2)] + [event("u", 40, after={"id": 1, "v": "open"}, commit=90)],
    )
    lake.run(spec)
    assert {1: "open", 2: "read"} == values(lake, spec)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_a_transaction_that_was_open_during_the_initial_snapshot_is_newer(lake: Lake, apart: bool) -> None:
    """The connector had seen no commit before it, so that its changes name none, and their LSNs are those of before the snapshot."""
    spec = debezium(lake, write_mode="merge-on-read")

    def first(op: str, lsn: int, row: dict[str, Any]) -> dict[str, Any]:
        made = event(op, lsn, before=row if op == "d" else None, after=None if op == "d" else row)
        made["source"]["sequence"] = json.dumps([None, str(lsn)])
        return made

    reads = [first("r", 400, {"id": at, "v": "read"}) for at in (1, 2, 3)]
    opened = [first("u", 300, {"id": 1, "v": "open"}), first("d", 310, {"id": 2, "v": "read"}), first("u", 420, {"id": 3, "v": "after"})]
    later = [event("u", 500, after={"id": 3, "v": "later"}, commit=450)]
    for hour, rows in enumerate([reads, opened, later] if apart else [[*later, *opened, *reads]]):
        lake.land(spec, hour, rows)
        lake.run(spec)
    assert ({1: "open", 3: "later"}, []) == (values(lake, spec), lake.problems(spec))
    # delivered again
    lake.land(spec, 3, [*opened, *reads])
    lake.run(spec)
    assert {1: "open", 3: "later"} == values(lake, spec)


def test_tombstones_heartbeats_and_transaction_markers_are_ignored_and_counted(lake: Lake) -> None:
    """What carries no row is no error and no row."""
    spec = debezium(lake)
    markers = ["", None, {"ts_ms": 5}, {"vgtid": "[]", "ts_ms": 5}, {"status": "BEGIN", "id": "1:1", "event_count": None, "ts_ms": 1}, event("m", 4)]
    lake.land(spec, 1, [event("c", 1, after={"id": 1, "v": "a"}), *markers])
    report = lake.run(spec)
    assert (7, 6) == (report.counts["read"], report.counts["ignored"])


@pytest.mark.slow
def test_a_parquet_file_may_hold_changes_beside_schema_changes(lake: Lake) -> None:
    """Each record says what it is, as in JSON: without `op` and row it is ignored, with a row alone it is no envelope."""
    spec = debezium(lake, quarantine_rows=1)
    change = {**event("c", 1, after={"id": 1, "v": "a"}), "databaseName": None, "ddl": None}
    ddl = {**dict.fromkeys(change), "source": change["source"], "databaseName": "d", "ddl": "ALTER TABLE t ADD x int"}
    records = [change, ddl, {**event("c", 2, after={"id": 2, "v": "b"}), "databaseName": None, "ddl": None}, {**change, "op": None}]
    folder = Path(spec.landing) / "increment_2024030501"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(records), folder / "a.parquet")
    counts = lake.run(spec).counts
    assert (counts["applied"], counts["ignored"], counts["quarantined"]) == (2, 1, 1)
    assert {1: "a", 2: "b"} == values(lake, spec)


def test_a_file_of_rows_is_not_taken_for_silence(lake: Lake) -> None:
    """Flat rows given to `envelope: debezium` are refused, not ignored, also those that have the column of a heartbeat."""
    from compactor.core.model.errors import InputRefused

    spec = debezium(lake)
    lake.land(spec, 1, [{"id": 1, "v": "a", "ts_ms": 5}])
    with pytest.raises(InputRefused, match="not a Debezium envelope"):
        lake.run(spec)


@pytest.mark.slow
def test_a_deletes_other_columns_are_never_trusted(lake: Lake) -> None:
    """Default replica identity fills a delete's before image with zeros: only its key is used."""
    spec = debezium(lake)
    lake.land(spec, 1, [event("c", 1, after={"id": 1, "v": "a"}), event("c", 2, after={"id": 2, "v": "b"})])
    lake.run(spec)
    lake.land(spec, 2, [event("d", 3, before={"id": 1, "v": ""})])
    lake.run(spec)
    assert {2: "b"} == values(lake, spec)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "a run each"])
def test_unavailable_values_come_from_the_newest_event_that_tells_them(lake: Lake, apart: bool) -> None:
    """Within a batch and across runs, the late ones too: a value older than the row fills what the row does not tell."""
    spec = debezium(lake, write_mode="merge-on-read")
    filler = [event("c", n, after={"id": n, "v": f"{n}", "w": 0}) for n in range(50, 60)]
    steps = [
        filler,
        [event("u", 300, after={"id": 1, "v": GONE, "w": 3})],
        [event("c", 100, after={"id": 1, "v": "first", "w": 1})],
        [event("u", 200, after={"id": 1, "v": "second", "w": 2})],
    ]
    for hour, rows in enumerate(steps if apart else [[row for step in steps for row in step]]):
        lake.land(spec, hour, rows)
        lake.run(spec)
    assert {"id": 1, "v": "second", "w": 3} == lake.rows(spec)[0]
    assert 0 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_late_delete_ends_older_values(lake: Lake) -> None:
    """What was told before the delete does not belong to the row that came after it: the value is unknown, null, and counted."""
    spec = debezium(lake, write_mode="merge-on-read")
    lake.land(spec, 1, [event("c", n, after={"id": n, "v": "x"}) for n in range(10, 20)] + [event("c", 1, after={"id": 1, "v": "old"})])
    lake.run(spec)
    lake.land(spec, 2, [event("u", 500, after={"id": 1, "v": GONE})])
    lake.run(spec)
    assert "old" == values(lake, spec)[1]
    lake.land(spec, 3, [event("d", 400, before={"id": 1, "v": None})])
    assert 1 == lake.run(spec).unresolved
    assert values(lake, spec)[1] is None


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "a run each"])
def test_a_value_follows_its_row_to_a_new_key(lake: Lake, apart: bool) -> None:
    """The create of a key change carries placeholders: the value is under the old key. Swaps through a third key too."""
    spec = debezium(lake, container="kafka", write_mode="merge-on-read")

    def record(offset: int, key: int, value: dict[str, Any], old: int | None = None) -> dict[str, Any]:
        headers = [["__debezium.oldkey", json.dumps({"id": old})]] if old is not None else []
        return {"topic": "t", "partition": 0, "offset": offset, "key": json.dumps({"id": key}), "value": json.dumps(value), "headers": headers}

    def move(lsn: int, old: int, new: int) -> list[dict[str, Any]]:
        return [
            record(lsn, old, event("d", lsn, before={"id": old, "v": None, "w": None})),
            record(lsn + 1, new, event("c", lsn, after={"id": new, "v": GONE, "w": 1}), old),
        ]

    start = [record(n, n, event("c", n, after={"id": n, "v": f"big {n}", "w": 0})) for n in range(1, 8)]
    steps = [start, move(20, 1, -1), move(30, 2, 1), move(40, -1, 2)]
    for hour, rows in enumerate(steps if apart else [[row for step in steps for row in step]]):
        lake.land(spec, hour, rows)
        lake.run(spec)
    found = values(lake, spec)
    assert ("big 2", "big 1", "big 3") == (found[1], found[2], found[3])
    assert -1 not in found
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("delete", "create"), ("create", "delete"), ("both",)], ids="-".join)
@pytest.mark.parametrize("compact", [False, True] if FULL else [False])
def test_the_halves_of_a_key_change_find_each_other_by_transaction_and_lsn(lake: Lake, order: tuple[str, ...], compact: bool) -> None:
    """Where the sink keeps no headers, and whichever half a run absorbs first; another row deleted in the same transaction is no half."""
    spec = debezium(lake, write_mode="copy-on-write" if compact else "merge-on-read")
    halves = {
        "delete": [event("d", 20, before={"id": 1, "v": None, "w": None}, commit=90), event("d", 21, before={"id": 2, "v": None}, commit=90)],
        "create": [event("c", 20, after={"id": 11, "v": GONE, "w": 1}, commit=90)],
    }
    halves["both"] = halves["delete"] + halves["create"]
    lake.land(spec, 0, [event("c", n, after={"id": n, "v": f"big {n}", "w": 0}) for n in range(1, 8)])
    lake.run(spec)
    for hour, half in enumerate(order):
        lake.land(spec, hour + 1, halves[half])
        lake.run(spec)
    found = values(lake, spec)
    assert "big 1" == found[11]
    assert not {1, 2} & set(found)
    assert 0 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)
    lake.land(spec, 9, [event("u", 30, after={"id": 11, "v": GONE, "w": 2}, commit=95)])
    lake.run(spec)
    assert {"id": 11, "v": "big 1", "w": 2} in lake.rows(spec)


@pytest.mark.slow
def test_a_declared_schema_gives_columns_their_meaning(lake: Lake) -> None:
    """JSON without schema says nothing of dates and decimals; an .avsc does."""
    decimal = {"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal"}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "born", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}]},
        {"name": "fee", "type": ["null", {**decimal, "scale": 2, "precision": 9, "logicalType": "decimal"}]},
    ]  # fmt: skip
    schema = json.dumps({"type": "record", "name": "Value", "fields": fields})
    spec = debezium(lake, avro_schema=schema)
    lake.land(spec, 1, [event("c", 1, after={"id": 1, "born": 19754, "fee": "BNI="})])
    lake.run(spec)
    assert "2024-02-01" == lake.rows(spec)[0]["born"]
    assert "12.34" == str(lake.rows(spec)[0]["fee"])


@pytest.mark.slow
def test_keyless_updates_and_deletes_take_one_equal_row(lake: Lake) -> None:
    """A before image names a row by its content; a removal that comes first waits."""
    spec = debezium(lake, key=(), container="value")

    def numbered(order: int, change: dict[str, Any]) -> dict[str, Any]:
        return {**change, "transaction": {"id": "1", "total_order": order}}

    same = {"v": "same"}
    lake.land(spec, 1, [numbered(n, event("c", 10, after=same)) for n in range(3)] + [numbered(5, event("d", 30, before={"v": "early"}))])
    lake.run(spec)
    lake.land(spec, 2, [numbered(7, event("u", 20, before=same, after={"v": "new"})), numbered(8, event("c", 25, after={"v": "early"}))])
    lake.run(spec)
    lake.land(spec, 3, [numbered(7, event("u", 20, before=same, after={"v": "new"}))], "again.json")
    lake.run(spec)
    assert ["new", "same", "same"] == sorted(row["v"] for row in lake.rows(spec))


@pytest.mark.slow
@pytest.mark.parametrize("compacts", [False, True])
def test_a_removal_that_took_its_row_takes_no_other(lake: Lake, compacts: bool) -> None:
    """Also where the base has it as it waited, and only the Delta knows that it waits no more."""
    spec = debezium(lake, key=(), container="value", write_mode="merge-on-read", compact_every=1e9)
    at = [{**event("c", 10 + n, after={"v": "same"}), "transaction": {"id": "1", "total_order": n}} for n in range(3)]
    early = [{**event("c", 25 + 15 * n, after={"v": "early"}), "transaction": {"id": "2", "total_order": 8 + n}} for n in range(2)]
    lake.land(spec, 1, [*at, {**event("d", 30, before={"v": "early"}), "transaction": {"id": "1", "total_order": 5}}])
    lake.run(spec)
    lake.land(spec, 2, early[:1])
    lake.run(lake.with_settings(spec, compact_every=0.0) if compacts else spec)
    lake.land(spec, 3, early[1:])
    lake.run(spec)
    assert ["early", "same", "same", "same"] == sorted(row["v"] for row in lake.rows(spec))
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("connector", ["mysql", "sqlserver"])
def test_numbers_of_a_transaction_alone_identify_no_event(lake: Lake, connector: str) -> None:
    """A table without key, and transaction metadata: each transaction of MySQL or SQL Server begins at 1, and has no number itself."""
    sources = {
        "mysql": lambda at: {"connector": "mysql", "db": "shop", "table": "t", "file": "bin.000003", "pos": 100 * at, "row": 0},
        "sqlserver": lambda at: {"connector": "sqlserver", "db": "shop", "schema": "dbo", "table": "t", "commit_lsn": f"0027:0ac0:{at:04}",
                                 "change_lsn": f"0027:0ac0:{at:04}", "event_serial_no": 1},
    }  # fmt: skip
    spec = debezium(lake, key=(), container="value")
    numbered = {"transaction": {"id": "file=bin.000003,pos=1", "total_order": 1}}
    lake.land(spec, 1, [{**other("c", sources[connector](at), after={"v": f"row {at}"}), **numbered} for at in range(1, 6)])
    lake.run(spec)
    assert [f"row {at}" for at in range(1, 6)] == sorted(row["v"] for row in lake.rows(spec))


@pytest.mark.slow
def test_changes_that_mysql_sends_again_are_counted_anew_and_are_the_same(lake: Lake) -> None:
    """The connector was killed within a transaction: it skips what was acknowledged, and begins with 1. The tables have no key."""
    spec = debezium(lake, key=(), container="value")

    def change(op: str, pos: int, total_order: int, **images: Any) -> dict[str, Any]:
        source = {"connector": "mariadb", "db": "shop", "table": "t", "file": "bin.000104", "pos": pos, "row": 0}
        return {**other(op, source, **images), "transaction": {"id": "0-1-77", "total_order": total_order}}

    rows: dict[str, Any] = {"before": {"v": "b"}, "after": {"v": "c"}}
    lake.land(spec, 1, [change("c", at, number, after={"v": "b"}) for number, at in enumerate((100, 200), 1)] + [change("u", 300, 3, **rows)])
    lake.run(spec)
    lake.land(spec, 2, [change("c", 200, 1, after={"v": "b"}), change("u", 300, 2, **rows)])
    assert 2 == lake.run(spec).counts["duplicate"]
    assert ["b", "c"] == sorted(row["v"] for row in lake.rows(spec))


@pytest.mark.slow
@pytest.mark.parametrize(("connector", "source"), [
    ("mysql", {"db": "shop", "table": "t", "file": "bin.000003", "row": 0}),
    ("mongodb", {"db": "shop", "collection": "t", "ts_ms": 1}),
])  # fmt: skip
def test_databases_stand_for_schemas_and_collections_for_tables(lake: Lake, connector: str, source: dict[str, Any]) -> None:
    """`source_table: shop.t` takes what `init` proposes for such a topic, and nothing of another database."""
    mongo = connector == "mongodb"
    spec = debezium(lake, source_table="shop.t", **({"key": ("_id",)} if mongo else {}))
    place = "ord" if mongo else "pos"

    def row(value: str) -> Any:
        return json.dumps({"_id": 1, "v": value}) if mongo else {"id": 1, "v": value}

    mine, others = ({**source, "connector": connector, place: 7}, {**source, "connector": connector, "db": "shop2", place: 9})
    lake.land(spec, 1, [other("c", mine, after=row("mine")), other("c", others, after=row("other database"))])
    report = lake.run(spec)
    assert ["mine"] == [each["v"] for each in lake.rows(spec)]
    assert 1 == report.counts["ignored"]


@pytest.mark.slow
def test_a_large_number_in_another_table_of_the_stream_is_not_this_table_s(lake: Lake) -> None:
    """Its column has the name of one of doubles here."""
    spec = debezium(lake, source_table="shop.t")
    values = [("t", 1, 1.5), ("u", 2, 2224413703742259952), ("t", 3, 1e308)]
    source = {"connector": "mysql", "db": "shop", "file": "bin.000001", "row": 0}
    lake.land(spec, 1, [other("c", {**source, "table": name, "pos": at}, after={"id": at, "f": value}) for name, at, value in values])
    assert 1 == lake.run(spec).counts["ignored"]
    assert ([(1, 1.5), (3, 1e308)], []) == ([(row["id"], float(row["f"])) for row in lake.rows(spec)], lake.unusable(spec))


@pytest.mark.slow
def test_an_unchanged_array_of_uuids(lake: Lake) -> None:
    """Its placeholder is the uuid that Java makes of the text."""
    spec = debezium(lake)
    lake.land(
        spec, 1, [event("c", 1, after={"id": 1, "n": 1, "ids": ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"]})]
    )
    lake.run(spec)
    lake.land(spec, 2, [event("u", 2, after={"id": 1, "n": 2, "ids": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]})])
    lake.run(spec)
    (found,) = lake.rows(spec)
    assert (2, ["1" * 8, "2" * 8]) == (found["n"], [each[:8] for each in found["ids"]])


@pytest.mark.slow
def test_a_keyless_delete_takes_the_row_of_its_own_microsecond(lake: Lake) -> None:
    """A row is named by all of its content."""
    spec = debezium(lake, key=(), container="value")
    row = {"type": "struct", "optional": True, "fields": [{"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}]}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"field": "op", "type": "string"}]}
    changes = [*(event("c", 10 + n, after={"at": 1_700_000_000_000_000 + n}) for n in range(4)), event("d", 20, before={"at": 1_700_000_000_000_002})]
    for hour, part in enumerate((changes[:4], changes[4:])):
        lake.land(
            spec, hour, [{"schema": schema, "payload": {**change, "transaction": {"id": "1", "total_order": at}}} for at, change in enumerate(part)]
        )
        lake.run(spec)
    assert ["000000", "000001", "000003"] == sorted(row["at"][20:26] for row in lake.rows(spec))


@pytest.mark.slow
def test_keys_finer_than_a_microsecond_are_invalid_unless_declared(lake: Lake) -> None:
    """Cut, they would be one key, and their delete would take another row."""
    kinds = {"at": {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, "z": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}}
    row = {"type": "struct", "optional": True, "fields": [{"field": name, **kind} for name, kind in kinds.items()]}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"field": "op", "type": "string"}]}
    rows = [{"at": 1_700_000_000_123_456_000 + nano, "z": f"2023-11-14T22:13:20.123456{text}Z"} for nano, text in
            ((0, "0"), (700, "0"), (800, "0"), (0, "7"), (0, "8"))]  # fmt: skip
    changes = [*(event("c", 10 + n, after=each) for n, each in enumerate(rows)), event("d", 20, before=rows[1]), event("d", 21, before=rows[3])]
    for name, types, left in (("cut", (), 1), ("declared", (("at", "bigint"), ("z", "string")), 3)):
        spec = debezium(lake, name=name, key=("at", "z"), types=types, container="value", quarantine_share=1.0)
        lake.land(spec, 1, [{"schema": schema, "payload": change} for change in changes])
        lake.run(spec)
        assert (left, 6 if name == "cut" else 0) == (len(lake.rows(spec)), len(lake.unusable(spec)))
        assert all("(at) is null or cannot" in reason or "(z) is null or cannot" in reason for _, reason in lake.unusable(spec))


@pytest.mark.slow
def test_a_record_key_of_more_columns_than_the_tables_key_changes_no_key(lake: Lake) -> None:
    """Debezium sends delete and create where a column of the record's key changes; the table's key stays, and so does its row."""
    spec = debezium(lake, container="kafka", key=("id",))

    def record(offset: int, b: int, value: dict[str, Any], headers: list[list[str]]) -> dict[str, Any]:
        key = json.dumps({"id": 1, "b": b})
        return {"topic": "t", "partition": 0, "offset": offset, "key": key, "headers": headers, "value": json.dumps(value)}

    lake.land(spec, 0, [record(0, 1, event("c", 10, after={"id": 1, "b": 1}), [])])
    lake.run(spec)
    gone = record(1, 1, event("d", 20, before={"id": 1, "b": 1}, commit=90), [])
    made = record(2, 2, event("c", 20, after={"id": 1, "b": 2}, commit=90), [["__debezium.oldkey", json.dumps({"id": 1, "b": 1})]])
    lake.land(spec, 1, [gone, made])
    counts = lake.run(spec).counts
    assert (1, 1) == (counts["applied"], counts["superseded"])
    assert [{"id": 1, "b": 2}] == lake.rows(spec)
    assert 0 == lake.snapshot(spec).tombstones
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_value_follows_its_row_where_the_records_key_is_not_the_tables(lake: Lake) -> None:
    """`REPLICA IDENTITY USING INDEX`, `message.key.columns`: the header names columns that are no key here. Deletes and creates name it themselves."""
    spec = debezium(lake, container="kafka", key=("email",))

    def record(offset: int, value: dict[str, Any], headers: list[list[str]]) -> dict[str, Any]:
        return {"topic": "t", "partition": 0, "offset": offset, "key": '{"id": 1}', "headers": headers, "value": json.dumps(value)}

    told = record(0, event("c", 10, after={"id": 1, "email": "old", "v": "long"}), [])
    gone = record(1, event("d", 20, before={"id": 0, "email": "old", "v": None}, commit=90), [["__debezium.newkey", '{"id": 1}']])
    made = record(2, event("c", 20, after={"id": 1, "email": "new", "v": GONE}, commit=90), [["__debezium.oldkey", '{"id": 0}']])
    lake.land(spec, 1, [told, gone, made])
    lake.run(spec)
    assert [{"id": 1, "email": "new", "v": "long"}] == lake.rows(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [(4,), (1, 1, 2), (1, 2, 1)], ids=["one run", "two runs", "the placeholder alone"])
def test_a_map_that_was_not_sent_keeps_its_value_in_json_without_schema(lake: Lake, hours: tuple[int, ...]) -> None:
    """Without schema a map (`hstore.handling.mode=map`) is read as a struct, and the placeholder is its only member."""
    spec = debezium(lake)
    maps = iter([("u", 3, {GONE: GONE}), ("c", 1, {"k": "v"}), ("c", 2, {"k": "w", "m": "x"}), ("u", 1, {GONE: GONE})])
    for hour, number in enumerate(hours):
        lake.land(spec, hour, [event(op, 10 * hour + at, after={"id": id_, "h": h}) for at, (op, id_, h) in enumerate(islice(maps, number))])
        lake.run(spec)
    assert {row["id"]: row["h"] for row in lake.rows(spec)} == {1: {"k": "v", "m": None}, 2: {"k": "w", "m": "x"}, 3: None}
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("key", [("id",), ()], ids=["key", "no key"])
def test_a_two_dimensional_array_of_texts_is_null(lake: Lake, key: tuple[str, ...]) -> None:
    """Debezium sends addresses in its memory instead, another one each time. A table without key finds the row by the other values."""
    spec = debezium(lake, key=key)
    sent = [{"id": at, "a": ["x"] if at == 1 else [f"[Ljava.lang.String;@2f4f070{at}", "[Ljava.lang.String;@5ebcb6a6"]} for at in (1, 2, 3)]
    lake.land(spec, 1, [event("c", row["id"], after=row) for row in sent])
    lake.run(spec)
    assert {row["id"]: row["a"] for row in lake.rows(spec)} == {1: ["x"], 2: None, 3: None}
    lake.land(spec, 2, [event("d", 10, before={"id": 3, "a": ["[Ljava.lang.String;@16ea60d8"]})])
    lake.run(spec)
    assert {row["id"]: row["a"] for row in lake.rows(spec)} == {1: ["x"], 2: None}


@pytest.mark.slow
def test_a_snapshot_that_reads_an_updated_row_again_is_no_wrong_key(lake: Lake) -> None:
    """An incremental snapshot beside the initial one. Two reads of one key that no update explains are worth a warning."""
    spec = debezium(lake)
    reads = [event("r", 10, after={"id": 1, "v": "a"}), event("u", 20, after={"id": 1, "v": "b"}), event("r", 30, after={"id": 1, "v": "b"})]
    lake.land(spec, 1, reads)
    assert "had the key of another one" not in str(lake.run(spec))
    lake.land(spec, 2, [event("r", 40 + at, after={"id": 2, "v": value}) for at, value in enumerate("abc")])
    assert "had the key of another one" in str(lake.run(spec))


def other(op: str, source: dict[str, Any], before: Any = None, after: Any = None) -> dict[str, Any]:
    """An event of a connector that is not PostgreSQL's."""
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


@pytest.mark.parametrize("connector", tiered(["mysql 0.8", "TiCDC", "mongodb"], fast=["mongodb"]))
def test_connectors_without_postgres_order(lake: Lake, connector: str) -> None:
    """MySQL before 0.9 names no connector; TiCDC's file and place are empty; MongoDB's rows are text. The newer event comes in the older file."""
    sources = {
        "mysql 0.8": lambda at: {"version": "0.8.3.Final", "file": "bin.000003", "pos": 9 + at, "row": 0, "ts_sec": 1},
        "TiCDC": lambda at: {"connector": "TiCDC", "file": "", "pos": 0, "row": 0, "commit_ts": 447984074911121400 + at},
        "mongodb": lambda at: {"connector": "mongodb", "ts_ms": 1_700_000_000_000, "ord": at},
    }
    at = sources[connector]
    mongo = connector == "mongodb"
    spec = debezium(lake, **({"key": ("_id",)} if mongo else {}))

    def row(number: int, value: str) -> Any:
        document = {"_id": {"$oid": f"0{number}"}, "v": value, "n": {"$numberLong": "5"}}
        return json.dumps(document) if mongo else {"id": number, "v": value}

    lake.land(spec, 1, [other("u", at(90), after=row(1, "new")), other("c", at(2), after=row(2, "b"))])
    lake.run(spec)
    lake.land(spec, 2, [other("u", at(9), after=row(1, "old")), other("u", at(10), after=row(2, "b2"))])
    lake.run(spec)
    rows = lake.rows(spec)
    assert [row["v"] for row in rows] == ["new", "b2"]
    assert not mongo or [(row["_id"], row["n"]) for row in rows] == [("01", 5), ("02", 5)]


@pytest.mark.slow
def test_a_delete_of_mongodb_is_known_by_the_records_key(lake: Lake) -> None:
    """Its value has nothing but the operation, and the key is the JSON text of the id."""
    spec = debezium(lake, key=("_id",), container="kafka")
    source = {"connector": "mongodb", "ts_ms": 5}
    changes = [other("c", {**source, "ord": n}, after=json.dumps({"_id": {"$oid": f"0{n}"}})) for n in (1, 2)]
    changes.append(other("d", {**source, "ord": 3}))
    keys = [{"id": json.dumps({"$oid": name})} for name in ("01", "02", "01")]
    lake.land(spec, 1, [{"key": key, "value": value, "offset": at, "partition": 0} for at, (key, value) in enumerate(zip(keys, changes))])
    lake.run(spec)
    assert [row["_id"] for row in lake.rows(spec)] == ["02"]


@pytest.mark.slow
def test_a_null_of_scylla_is_not_set(lake: Lake) -> None:
    """A cell is {value: x}, a null in it is null, and a null in its place leaves the value, also by an insert."""
    spec = lake.spec(envelope="debezium", order_by=("source.ts_us",))

    def at(time: int, op: str, v: Any, w: Any) -> dict[str, Any]:
        return other(op, {"connector": "scylla", "ts_us": time}, after={"id": 1, "v": v, "w": w})

    lake.land(spec, 1, [at(1, "c", {"value": "a"}, {"value": 7}), at(2, "u", {"value": "b"}, None)])
    lake.run(spec)
    assert lake.rows(spec) == [{"id": 1, "v": {"value": "b"}, "w": {"value": 7}}]
    lake.land(spec, 2, [at(4, "u", {"value": None}, None)])
    lake.run(spec)
    assert lake.rows(spec) == [{"id": 1, "v": {"value": None}, "w": {"value": 7}}]


@pytest.mark.slow
def test_any_field_of_the_source_may_order(lake: Lake) -> None:
    """By its number, as those that have a name of their own."""
    spec = lake.spec(envelope="debezium", order_by=("source.record_time",))
    lake.land(spec, 1, [other("c", {"record_time": time}, after={"id": 1, "v": value}) for time, value in (("100", "new"), ("9", "old"))])
    lake.run(spec)
    assert values(lake, spec) == {1: "new"}


def test_what_has_no_certain_meaning_is_invalid_with_the_remedy(lake: Lake) -> None:
    """The others of the file are ingested; a tombstone may be wrapped as all values are."""
    spec = debezium(lake)
    known = [event("c", at, after={"id": at, "v": "a"}) for at in range(1, 5)]
    wrapped = other("c", {"connector": "postgresql"}, after={"srv.public.t.Value": {"id": 8, "v": {"string": "a"}}})
    cells = other("c", {"connector": "yugabytedb"}, after={"id": {"value": 8, "set": True}, "v": None})
    partial = other("u", {"connector": "mongodb"})
    lake.land(spec, 1, [*known, {"schema": None, "payload": None}, wrapped, cells, partial, event("d", 9)])
    report = lake.run(spec)
    assert (report.counts["ignored"], len(values(lake, spec))) == (1, 4)
    told = ["kafka-avro-console-consumer prints them: have a sink", "PGCompatible at the connector", "change_streams_update_full", "container: kafka"]
    assert [number for number, _ in lake.unusable(spec)] == [6, 7, 8, 9]
    assert all(words in reason for words, (_, reason) in zip(told, lake.unusable(spec)))


def test_numbers_that_are_no_json_make_their_records_invalid(lake: Lake) -> None:
    """With declared types, fractions are read as strings, which hides that they are no numbers; other records of the file are ingested."""
    spec = debezium(lake, types=(("v", "decimal(20,5)"),))
    good = [json.dumps(event("c", at, after={"id": at, "v": 1.5})) for at in range(1, 4)]
    lines = [
        json.dumps(event("c", 4 + at, after={"id": 4 + at, "v": 0.25})).replace("0.25", text)
        for at, text in enumerate(("1.2.3", "2024.01-05", "NaN"))
    ]
    folder = Path(spec.landing) / "increment_2024030501"
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_text("\n".join([*good, *lines, *[line.replace('"id": 1', '"id": 9') for line in good[:1]]]))
    lake.run(spec)
    assert sorted(values(lake, spec)) == [1, 2, 3, 9]
    assert [(number, reason[:20]) for number, reason in lake.unusable(spec)] == [(at, "is not a JSON object") for at in (4, 5, 6)]


@pytest.mark.parametrize(("connector", "named"), [(None, "name no connector (RisingWave and others)"), ("vitess", "come from the connector vitess")])
def test_records_without_a_known_order_are_refused(lake: Lake, connector: str | None, named: str) -> None:
    """The error names the source, and both ways out."""
    spec = debezium(lake)
    lake.land(spec, 1, [other("c", {"connector": connector, "db": "d", "table": "t", "ts_ms": 1}, after={"id": 1})])
    with pytest.raises(OrderRefused, match=r"the records .*Land whole Kafka records and set `container: kafka`, or set `order_by:`") as refused:
        lake.run(spec)
    assert named in str(refused.value)


def test_a_change_without_a_row_is_invalid(lake: Lake) -> None:
    """A transform that loses `after` would lose changes without a trace."""
    spec = debezium(lake, quarantine_share=0.9)
    lost = [event("u", 2, before={"id": 1, "v": "a", "w": 0}), event("c", 3)]
    lake.land(spec, 1, [event("c", 1, after={"id": 1, "v": "a", "w": 0}), *lost])
    report = lake.run(spec)
    assert (1, 2) == (report.counts["applied"], report.counts["quarantined"])
    assert {"creates, updates or reads a row, and has none in `after`"} == {unusable[1] for unusable in lake.unusable(spec)}


ODD = ("56877000000000000", str(2**63 - 1), "-1", "99999999999999999999", "soon")
"""Microseconds that stand where milliseconds do, numbers that no unit makes a time of, and no number."""


@pytest.mark.slow
@pytest.mark.parametrize("envelope", ["debezium", "flat"])
def test_an_absurd_source_time_is_none(lake: Lake, envelope: str) -> None:
    """A row with one is taken, and so are the others of its file. Records of other tables with one stop nothing either."""
    spec = debezium(lake, source_table="public.t") if envelope == "debezium" else lake.spec(order_by=("__lsn",))
    times = [1_700_000_000_001, *map(int, ODD[:4]), ODD[4]]

    def record(at: int, time: Any, table: str) -> dict[str, Any]:
        if envelope == "flat":
            return {"id": at, "v": "x", "__lsn": at, "__ts_ms": time}
        made = event("c", at, after={"id": at, "v": "x"})
        return {**made, "source": {**made["source"], "ts_ms": time, "table": table}}

    others = [record(50, times[1], "other")] if envelope == "debezium" else []
    lake.land(spec, 1, [*(record(at, time, "t") for at, time in enumerate(times, 1)), *others])
    report = lake.run(spec)
    assert values(lake, spec) == dict.fromkeys(range(1, 7), "x")
    assert report.source_time == "2023-11-14T22:13:20.001000Z"
    assert report.counts["applied"] == 6
