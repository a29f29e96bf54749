"""Positions: epochs by the dates of folders, names that row and connector share, and what is older than a purge."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.spec import TableSpec
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import reabsorb_table, rebuild_table, restore_table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def put(spec: TableSpec, path: str, *rows: dict[str, Any]) -> None:
    """JSON lines in a file of landing."""
    place = Path(spec.landing) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))


def record(partition: int, offset: int, /, **row: Any) -> dict[str, Any]:
    """A whole Kafka record."""
    return {"topic": "t", "partition": partition, "offset": offset, "key": None, "value": json.dumps(row)}


def values(lake: Lake, spec: TableSpec) -> dict[int, Any]:
    """`v` of each row of the view."""
    return {row["id"]: row["v"] for row in lake.rows(spec)}


def tombstones(lake: Lake, spec: TableSpec) -> Sequence[Any]:
    """The deleted rows of the base."""
    paths = [f"{spec.root}/{segment.path}" for segment in lake.snapshot(spec).segments]
    return lake.spark.read.parquet(*paths).where("_gone IS NOT NULL").collect()


@pytest.mark.slow
def test_an_epoch_is_that_of_the_folders_date_and_stays_with_the_file(lake: Lake) -> None:
    """`01-04-2024` is after `05-03-2024`, though not as text. A file that waited in quarantine is as old as it was."""
    before = lake.with_settings(lake.spec(quarantine_share=1.0), pattern="%d-%m-%Y")
    put(before, "28-02-2024/a.json", {"id": 1, "seq": 1000, "v": "old"}, {"id": 2, "seq": 1001, "v": "old"})
    put(before, "28-02-2024/damaged.json.gz", {"id": 1, "seq": 2000, "v": "repaired"}, {"id": 9, "seq": 2001, "v": "repaired"})
    lake.run(before)
    spec = lake.with_settings(before, epoch=1, epoch_from="05-03-2024", epoch_replaces=True)
    put(spec, "01-04-2024/a.json", {"id": 1, "seq": 1, "v": "new"}, {"id": 7, "seq": 2, "v": "new"})
    assert 2 == lake.run(spec).counts["applied"]
    assert {1: "new", 7: "new"} == values(lake, spec)
    put(spec, "28-02-2024/late.json", {"id": 1, "seq": 3000, "v": "late"})
    assert 1 == lake.run(spec).counts["superseded"]

    (held,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    rows = [{"id": 1, "seq": 2000, "v": "repaired"}, {"id": 9, "seq": 2001, "v": "repaired"}]
    Path(str(held.location)).write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert 2 == lake.replay(spec).counts["superseded"]
    assert {1: "new", 7: "new"} == values(lake, spec)
    assert [] == lake.problems(spec)
    # files remember that their epoch replaced: the next one need not
    spec = lake.with_settings(spec, epoch=2, epoch_from="03-04-2024", epoch_replaces=False)
    put(spec, "03-04-2024/a.json", {"id": 8, "seq": 1, "v": "third"})
    lake.run(spec)
    assert {1: "new", 7: "new", 8: "third"} == values(lake, spec)
    assert [] == lake.problems(spec)
    assert rebuild_table(Table(lake.env, spec), dry=True).outcome == "equal"
    put(spec, "04-04-2024/a.json", {"id": 1, "seq": 3, "v": "next"})
    with pytest.raises(OrderRefused, match="`epoch` is 0, and the table is in epoch 2"):
        lake.run(before)
    # neither by a rebuild, nor by what a restore to the old epoch has undone
    with pytest.raises(OrderRefused, match=r"`epoch` is 0, and 03-04-2024/a\.json is in epoch 2.*Set `epoch: 2` again"):
        rebuild_table(Table(lake.env, before))
    lake.now += 1
    restore_table(Table(lake.env, spec), Table(lake.env, spec).committed(1))
    with pytest.raises(OrderRefused, match=r"`epoch` is 0, and 03-04-2024/a\.json is in epoch 2"):
        reabsorb_table(Table(lake.env, before))


FLATTENED: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
    "sqlserver": (
        ("commit_lsn", "change_lsn", "event_serial_no"),
        [
            {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "event_serial_no": None},
            {"commit_lsn": "00000028:00000ac0:0002", "change_lsn": "00000028:00000ac0:0001", "event_serial_no": 2},
            {"commit_lsn": "00000028:00000ac0:0002", "change_lsn": "00000028:00000ac0:0002", "event_serial_no": 1},
        ],
    ),
    "oracle": (
        ("scn", "rs_id", "ssn"),
        [
            {"scn": "9999", "rs_id": None, "ssn": None},
            {"scn": "10001", "rs_id": " 0x000006.00000002.0010 ", "ssn": 0},
            {"scn": "10001", "rs_id": " 0x000006.00000002.0010 ", "ssn": 1},
        ],
    ),
}
"""Connector → fields of its order, and those of a snapshot's row and of two changes in one transaction."""


@pytest.mark.slow
@pytest.mark.parametrize("connector", FLATTENED)
def test_flattened_rows_have_the_order_of_their_connector(lake: Lake, connector: str) -> None:
    """By default, and where `order_by` names its columns. A snapshot's rows have no transaction, and come first."""
    fields, sources = FLATTENED[connector]
    rows = [
        {"id": 1, "v": v, "__op": "u" if v else "r", **{f"__source_{name}": value for name, value in source.items()}}
        for v, source in enumerate(sources)
    ]
    for name, order in (("by_default", ()), ("named", tuple(f"__source_{name}" for name in fields))):
        spec = lake.spec(name, order_by=order)
        lake.land(spec, 1, [rows[2], rows[0]])
        lake.run(spec)
        lake.land(spec, 2, [{**rows[0], "id": 2}, rows[1]])
        assert {"applied": 1, "late": 1}.items() <= lake.run(spec).counts.items()
        assert {1: 2, 2: 0} == values(lake, spec)
        assert [] == lake.unusable(spec)
        # another connector's field, of which these rows have nulls only, says nothing
        mixed = lake.spec(f"{name}_mixed", order_by=order)
        lake.land(mixed, 1, [{**rows[0], "__lsn": None}, {**rows[1], "__lsn": None}])
        lake.run(mixed)
        assert lake.snapshot(mixed).order == lake.snapshot(spec).order
        # an initial snapshot alone has no value of the others; of `change_lsn` it shows no type
        if order and connector == "sqlserver":
            continue
        first = lake.spec(f"{name}_snapshot", order_by=order)
        lake.land(first, 1, [rows[0]])
        lake.run(first)
        lake.land(first, 2, [rows[2], rows[1]])
        lake.run(first)
        assert {1: 2} == values(lake, first)
        assert [column.removeprefix("__source_") for column, _ in lake.snapshot(first).order] == [
            column.removeprefix("__source_") for column, _ in lake.snapshot(spec).order
        ]
        assert [kind for _, kind in lake.snapshot(first).order] == [kind for _, kind in lake.snapshot(spec).order]


@pytest.mark.slow
def test_a_column_called_like_a_connectors_field_does_not_order_the_changes(lake: Lake) -> None:
    """`pos`, `row`, `lsn` and `offset` of a default order are the connector's; of the user's own `order_by` they are the row's."""
    binlog = [{"__source_file": "bin.000002", "__source_pos": pos, "__source_row": 0} for pos in (10, 20)]
    mysql = lake.spec("mysql", order_by=())
    log = [{"__source_lsn": lsn, "__source_sequence": json.dumps([str(lsn), str(lsn)])} for lsn in (10, 20)]
    postgres = lake.spec("postgres", order_by=())
    topic = lake.spec("topic", order_by=(), container="kafka")
    named = lake.spec("named", order_by=("offset",), container="kafka")
    own = lake.spec("own", order_by=("pos", "row"))
    old, new = {"pos": 900, "row": 9, "lsn": 900, "v": "old"}, {"pos": 1, "row": 1, "lsn": 1, "v": "new"}
    for hour, (payload, binlog_fields, log_fields) in enumerate(zip((old, new), binlog, log)):
        lake.land(mysql, hour, [{"id": 1, **payload, **binlog_fields}])
        lake.land(postgres, hour, [{"id": 1, **payload, **log_fields}])
        lake.land(topic, hour, [record(0, hour, id=1, offset=payload["lsn"], **payload)])
        # the column comes later
        lake.land(named, hour, [record(0, 100 + hour, id=1, v=payload["v"], **({"offset": 7} if hour else {}))])
        lake.land(own, hour, [{"id": 1, **payload}])
        for spec in (mysql, postgres, topic, named):
            assert 1 == lake.run(spec).counts["applied"], spec.name
        assert {"applied": 1 - hour, "late": hour}.items() <= lake.run(own).counts.items()
    for spec in (mysql, postgres, topic, named):
        assert {1: "new"} == values(lake, spec)
    assert {1: "old"} == values(lake, own)
    assert ["file_number", "pos", "row"] == [name for name, _ in lake.snapshot(mysql).order]
    assert ["after.pos", "after.row"] == [name for name, _ in lake.snapshot(own).order]
    assert [1] == [row["pos"] for row in lake.rows(mysql)]
    assert [7] == [row["offset"] for row in lake.rows(named)]


@pytest.mark.slow
def test_a_purge_in_one_partition_sets_no_inserts_of_another_aside(lake: Lake) -> None:
    """What was purged is remembered per partition; what is set aside counts against the limits of the quarantine."""
    spec = lake.spec(container="kafka", order_by=("offset",), write_mode="copy-on-write", tombstone_retention=100.0)
    lake.land(spec, 0, [record(0, 1000, id=1, v="a"), record(0, 1001, id=2, v="b"), record(1, 10, id=11, v="c"), record(1, 11, id=12, v="d")])
    lake.run(spec)
    lake.land(spec, 1, [record(0, 1002, id=2, op="d")])
    lake.run(spec)
    lake.now += 1000
    lake.land(spec, 2, [record(0, 1003, id=1, v="a2")])
    lake.run(spec)
    snapshot = lake.snapshot(spec)
    assert (((0, 1002), (1, 11)), 0) == (snapshot.purged_offsets, len(tombstones(lake, spec)))

    lake.land(spec, 3, [record(1, 12, id=21, v="e"), record(1, 13, id=22, v="f")])
    report = lake.run(lake.with_settings(spec, write_mode="merge-on-read"))
    assert (2, 0) == (report.counts["applied"], report.counts["beyond_retention"])
    lake.land(spec, 4, [record(0, 999, id=2, v="late")])
    with pytest.raises(InputRefused, match="all landed files or records are unusable"):
        lake.run(spec)
    lake.land(spec, 5, [record(1, 14, id=23, v="g"), record(1, 15, id=24, v="h")])
    report = lake.run(spec)
    assert (2, 1) == (report.counts["applied"], report.counts["beyond_retention"])
    assert {1: "a2", 11: "c", 12: "d", 21: "e", 22: "f", 23: "g", 24: "h"} == values(lake, spec)
    assert 1 == lake.replay(lake.with_settings(spec, beyond_retention="apply")).counts["applied"]
    assert "late" == values(lake, spec)[2]


@pytest.mark.slow
def test_a_counter_that_each_row_has_for_itself_sets_no_inserts_aside(lake: Lake) -> None:
    """Positions of other keys say nothing of a key, so tombstones stay, without the values of the rows that they hide."""
    spec = lake.spec(order_by=("version",), write_mode="copy-on-write", tombstone_retention=100.0)
    lake.land(spec, 0, [{"id": 1, "version": 4, "v": "secret"}, {"id": 2, "version": 1, "v": "b"}])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 1, "version": 5, "op": "d"}])
    lake.run(spec)
    assert ["secret"] == [row["v"] for row in tombstones(lake, spec)]
    lake.now += 1000
    lake.land(spec, 2, [{"id": 2, "version": 2, "v": "b2"}])
    lake.run(spec)
    assert [(1, None, None)] == [(row["id"], row["v"], row["_at"]) for row in tombstones(lake, spec)]
    lake.land(spec, 3, [{"id": 3, "version": 1, "v": "c"}, {"id": 1, "version": 3, "v": "late"}])
    report = lake.run(spec)
    assert (1, 1, 0) == tuple(report.counts[name] for name in ("applied", "late", "beyond_retention"))
    assert {2: "b2", 3: "c"} == values(lake, spec)
    assert [] == lake.problems(spec)
    lake.now += 1000
    lake.land(spec, 4, [{"id": 4, "version": 1, "v": "d"}])
    lake.run(lake.with_settings(spec, beyond_retention="apply"))
    assert [] == tombstones(lake, spec)


@pytest.mark.slow
def test_an_update_older_than_a_purge_is_compared_with_its_stored_row(lake: Lake) -> None:
    """Whether the row is in the base, in the Delta, or the change only fills a value that the stored row lacks."""
    spec = lake.spec(order_by=("__lsn",), write_mode="copy-on-write", tombstone_retention=100.0, patch_rows=True)
    lake.land(spec, 0, [{"id": n, "__lsn": n, "v": f"v{n}", "w": "w"} for n in range(1, 6)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 5, "__lsn": 10, "op": "d"}])
    lake.run(spec)
    lake.now += 1000
    lake.land(spec, 2, [{"id": 4, "__lsn": 5, "v": "v4b", "w": "w"}])
    lake.run(spec)
    assert [] == tombstones(lake, spec)
    spec = lake.with_settings(spec, write_mode="merge-on-read")
    lake.land(spec, 3, [{"id": 1, "__lsn": 7, "v": "new"}])
    assert 1 == lake.run(spec).counts["applied"]
    lake.land(spec, 4, [{"id": 1, "__lsn": 8, "v": "newer"}, {"id": 2, "__lsn": 1, "v": "late"}, {"id": 5, "__lsn": 9, "v": "gone"}])
    report = lake.run(spec)
    assert (1, 1, 1) == tuple(report.counts[name] for name in ("applied", "late", "beyond_retention"))
    assert {1: "newer", 2: "v2", 3: "v3", 4: "v4b"} == values(lake, spec)


@pytest.mark.slow
def test_a_topic_created_again_is_refused_although_its_offsets_are_higher_already(lake: Lake) -> None:
    """An offset that was read before, with a newer change. With the next epoch the new count wins; late files of the old one do not bring it back."""
    before = lake.spec(container="kafka", order_by=("offset",))
    at = 1_700_000_000_000
    lake.land(before, 0, [record(0, n, id=n, v="old", __source_ts_ms=at + n) for n in range(100, 105)])
    lake.run(before)
    # delivered again, and records that were late: no new topic
    lake.land(before, 1, [record(0, n, id=n, v="old", __source_ts_ms=at + n) for n in (99, 100, 105)])
    assert 2 == lake.run(before).counts["applied"]
    spec = lake.with_settings(before, epoch=1, epoch_from="increment_2024030503")
    lake.land(spec, 3, [record(0, n, id=n, v="new", __source_ts_ms=at + 1000 + n) for n in range(104, 120)])
    with pytest.raises(
        OrderRefused, match="partition 0 was read up to offset 105, and its offset 104 has a newer change: the topic was created again"
    ):
        lake.run(before)
    assert 16 == lake.run(spec).counts["applied"]
    assert {"old": 5, "new": 16} == {v: list(values(lake, spec).values()).count(v) for v in ("old", "new")}
    lake.land(spec, 2, [record(0, n, id=n, v="late", __source_ts_ms=at + n) for n in (104, 900)])
    report = lake.run(spec)
    assert (1, 1) == (report.counts["applied"], report.counts["late"])
    lake.land(spec, 4, [record(0, 120, id=104, v="newest", __source_ts_ms=at + 2000)])
    assert 1 == lake.run(spec).counts["applied"]
    assert "newest" == values(lake, spec)[104]


@pytest.mark.slow
def test_a_file_delivered_again_under_any_name_changes_nothing_and_is_counted(lake: Lake) -> None:
    """Rows, deletes, rows with values that were not sent, and ties: no row gets a new version, and the feed has no change."""
    for name, order_by in (("t", ("seq",)), ("patched", ("seq",))):
        spec = lake.spec(name, order_by=order_by, write_mode="merge-on-read", feed="net", patch_rows=name == "patched")
        first = [{"id": n, "seq": n, "v": f"v{n}", "w": "w"} for n in range(1, 40)]
        lake.land(spec, 0, first)
        lake.run(spec)
        file = [
            {"id": 1, "seq": 50, "v": "a"},
            {"id": 2, "seq": 51, "op": "d"},
            {"id": 3, "seq": 52, "v": "tied"},
            {"id": 3, "seq": 52, "v": "wins"},
            {"id": 4, "seq": 3, "v": "late"},
        ]
        lake.land(spec, 1, file)
        report = lake.run(spec)
        assert (3, 1, 1, 1) == (*(report.counts[outcome] for outcome in ("applied", "superseded", "late")), report.ties)
        before = {row["id"]: (row["v"], row["w"]) for row in lake.rows(spec)}

        lake.land(spec, 1, [*file, {"id": 50, "seq": 60, "v": "x"}])
        lake.land(spec, 2, file, file="again.json")
        report = lake.run(spec)
        assert (1, 0) == (report.counts["applied"], report.ties)
        assert 10 == report.counts["duplicate"] + report.counts["late"]
        assert {50: ("x", None), **before} == {row["id"]: (row["v"], row["w"]) for row in lake.rows(spec)}
        snapshot = lake.snapshot(spec)
        assert snapshot.delta is not None
        stored = lake.spark.read.parquet(f"{spec.root}/{snapshot.delta.path}").where(f"_version = {snapshot.version}")
        assert [50] == [row["id"] for row in stored.collect()]
        told = [json.loads(line) for line in lake.env.engine().read_feed(spec, snapshot)]
        assert {50} == {line["id"] for line in told}
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_rows_of_mysqls_incremental_snapshot_fill_in_what_is_not_stored(lake: Lake) -> None:
    """They have no place in the binlog: an empty `file`. They are older than every change, and no purged delete is newer."""

    def change(op: str, id_: int, v: str | None, file: str, pos: int, snapshot: str = "false") -> dict[str, Any]:
        source = {"connector": "mysql", "db": "d", "table": "t", "file": file, "pos": pos, "row": 0, "snapshot": snapshot}
        row = {"id": id_, "v": v}
        return {"before": row if op == "d" else None, "after": None if op == "d" else row, "source": source, "op": op, "ts_ms": 1}

    spec = lake.spec(envelope="debezium", order_by=(), write_mode="copy-on-write", tombstone_retention=100.0)
    lake.land(spec, 0, [change("c", n, "log", "bin.000003", n) for n in (1, 2, 3)])
    lake.run(spec)
    lake.land(spec, 1, [change("d", 3, None, "bin.000003", 10)])
    lake.run(spec)
    lake.now += 1000
    lake.land(spec, 2, [change("u", 1, "log2", "bin.000003", 11)])
    lake.run(spec)
    assert lake.snapshot(spec).purged_to is not None
    lake.land(spec, 3, [change("r", n, "read", "", 0, "incremental") for n in (1, 2, 7, 8)])
    lake.land(spec, 3, [change("u", 8, "log", "bin.000003", 12)], file="part-1.json")
    report = lake.run(spec)
    assert {"quarantined": 0, "beyond_retention": 0, "applied": 2, "late": 2}.items() <= report.counts.items()
    assert {1: "log2", 2: "log", 7: "read", 8: "log"} == values(lake, spec)


@pytest.mark.slow
def test_ties_and_record_numbers_do_not_depend_on_how_a_file_was_split(lake: Lake) -> None:
    """The file is read beside another one, then alone and in small pieces: the later row of the two tied ones stays."""
    spec = lake.spec(quarantine_share=1.0)
    lake.land(spec, 0, [{"id": n, "seq": n, "v": "x" * 50} for n in range(100, 300)], file="a.json")
    ties = [{"id": n, "seq": 5, "v": v} for n in range(30) for v in ("first", "second")]
    lake.land(spec, 0, [*ties, "{broken"], file="b.json")
    lake.run(spec)
    assert [(61, "is not a JSON object")] == lake.unusable(spec)
    size = "spark.sql.files.maxPartitionBytes"
    (held,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    Path(held.repaired).parent.mkdir(parents=True, exist_ok=True)
    Path(held.repaired).write_text("".join(json.dumps(row) + "\n" for row in [*ties, {"id": 99, "seq": 1, "v": "repaired"}]))
    before = lake.spark.conf.get(size)
    try:
        lake.spark.conf.set(size, "256b")
        report = lake.replay(spec)
    finally:
        lake.spark.conf.set(size, str(before))
    assert (1, 0) == (report.counts["applied"], report.counts["quarantined"])
    assert {"second"} == {v for key, v in values(lake, spec).items() if key < 30}
    assert "repaired" == values(lake, spec)[99]


@pytest.mark.slow
def test_a_purge_waits_until_it_can_be_remembered(lake: Lake) -> None:
    """Without the offsets of its partition nobody could tell later that a change is older than the purged delete."""
    spec = lake.spec(container="kafka", order_by=("offset",), write_mode="copy-on-write", tombstone_retention=100.0)

    def nameless(offset: int, **row: Any) -> dict[str, Any]:
        return {name: value for name, value in record(0, offset, **row).items() if name != "partition"}

    for hour, rows in enumerate(
        [
            [nameless(10, id=1, v="a"), nameless(11, id=2, v="b")],
            [nameless(20, id=2, op="d")],
            [record(0, 30, id=1, v="a2")],
            [record(0, 31, id=1, v="a3")],
            [record(0, 15, id=2, v="late"), record(0, 32, id=3, v="z")],
        ]
    ):
        lake.land(spec, hour, rows)
        lake.run(spec)
        lake.now += 1000 if hour == 1 else 1
    assert {1: "a3", 3: "z"} == values(lake, spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_nulls_inside_of_structs_and_arrays_tell_events_apart(lake: Lake) -> None:
    """Of two events with equal order columns the one of the later file is the row; only one of equal content is the same event again."""
    spec = lake.spec(write_mode="merge-on-read")
    before: list[Any] = [{"x": "a", "y": None}, [1, None], [{"x": None, "y": "a"}], "2024-01-01T00:00:00.000001Z"]
    after: list[Any] = [{"x": None, "y": "a"}, [None, 1], [{"x": "a", "y": None}], "2024-01-01T00:00:00.000001Z"]
    names = ("s", "a", "sa", "t")
    full = {"s": {"x": "f", "y": "f"}, "a": [5], "sa": [{"x": "f", "y": "f"}], "t": before[3]}
    for hour, seq in ((0, 1), (1, 2)):
        changed = [{"id": at, "seq": 5, **full, name: (before, after)[hour][at]} for at, name in enumerate(names)]
        lake.land(spec, hour, [*changed, {"id": 9, "seq": seq, **full}])
        counts = lake.run(spec).counts
    assert (1, 4) == (counts["duplicate"], counts["applied"])
    assert [after[at] for at in range(3)] == [row[names[row["id"]]] for row in lake.rows(spec) if row["id"] < 3]
    assert [] == lake.problems(spec)
