"""One story in several runs: what an earlier run knew, a purge, a compaction, another shard or a hidden column changes nothing of the rows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.policy import Policy
from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.write import restore
from compactor.flows.write.rebuild import rebuild
from tests.spark.lake import Lake
from tests.spark.test_debezium import GONE, debezium, event

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Event = dict[str, Any]


def first(op: str, lsn: int, row: dict[str, Any]) -> Event:
    """An event whose connector had seen no commit before: a row of the initial snapshot, or a change in the first transaction after it."""
    made = event(op, lsn, before=row if op == "d" else None, after=None if op == "d" else row)
    made["source"]["sequence"] = json.dumps([None, str(lsn)])
    return made


def ingest(lake: Lake, spec: TableSpec, *runs: list[Event], hour: int = 1) -> dict[str, int]:
    """Land and ingest each run's events, and return the counts of the last one."""
    for at, events in enumerate(runs, hour):
        lake.land(spec, at, events)
        report = lake.run(spec)
    return report.counts


def column(lake: Lake, spec: TableSpec, name: str) -> dict[Any, Any]:
    """Return id → value of a column."""
    return {row["id"]: row[name] for row in lake.rows(spec)}


READS = [first("r", 400, {"id": at, "v": "read"}) for at in (1, 2, 3)]
OPEN = [first("u", 300, {"id": 1, "v": "open"}), first("u", 310, {"id": 2, "v": "open"}), first("d", 320, {"id": 3, "v": "read"})]
LATER = [event("c", 500, after={"id": 9, "v": "later"}, commit=450)]
ARRIVALS = {
    "one file each": [READS, OPEN, LATER],
    "the sink divides the transaction": [READS, OPEN[:1], OPEN[1:], LATER],
    "it begins in the snapshot's file": [READS + OPEN[:1], OPEN[1:], LATER],
    "late": [READS, LATER, OPEN],
}


@pytest.mark.parametrize("name", ARRIVALS)
def test_the_first_transaction_after_a_snapshot_is_newer_than_the_snapshot(lake: Lake, name: str) -> None:
    """It was open when PostgreSQL's snapshot was taken, so its LSNs are lower, and the connector sends no commit LSN with it."""
    spec = debezium(lake, write_mode="merge-on-read")
    ingest(lake, spec, *ARRIVALS[name])
    assert {1: "open", 2: "open", 9: "later"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)


def test_a_second_snapshot_leaves_the_first_transaction_after_the_first_one(lake: Lake) -> None:
    """Also when the table is built again from all files at once."""
    spec = debezium(lake, write_mode="merge-on-read")
    ingest(lake, spec, READS, OPEN, [first("r", 1000, {"id": 1, "v": "read again"})])
    assert {1: "read again", 2: "open"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)
    rebuild(Table(lake.env, spec), None, True, False, False)
    assert {1: "read again", 2: "open"} == column(lake, spec, "v")


@pytest.mark.parametrize("together", [True, False])
def test_a_second_snapshot_is_newer_than_the_first_transaction_after_the_first_one(lake: Lake, together: bool) -> None:
    """Its changes have no commit LSN either, and lower LSNs than the second snapshot."""
    spec = debezium(lake, write_mode="merge-on-read")
    runs = [READS, [first("u", 500, {"id": 1, "v": "first"})], [event("u", 610, after={"id": 1, "v": "then"}, commit=600)]]
    runs.append([first("r", 1000, {"id": 1, "v": "read again"})])
    ingest(lake, spec, *([[each for run in runs for each in run]] if together else runs))
    assert "read again" == column(lake, spec, "v")[1]
    assert [] == lake.problems(spec)


def test_the_first_of_many_snapshots_places_a_late_first_transaction(lake: Lake) -> None:
    """A connector with `snapshot.mode=always` takes one at each start."""
    spec = debezium(lake, write_mode="merge-on-read")
    ingest(lake, spec, READS, [event("u", 510, after={"id": 2, "v": "then"}, commit=500)])
    for at in range(22):
        lake.land(spec, 3, [first("r", 1000 + at, {"id": 9, "v": "read again"})], file=f"{at}.json")
    lake.run(spec)
    ingest(lake, spec, OPEN, hour=4)
    assert {1: "open", 2: "then", 9: "read again"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)


def again(lsn: int, resumed: int, total: int, row: dict[str, Any]) -> Event:
    """A change of the first transaction that a connector sends after it was killed within it and began again."""
    made = first("u", lsn, row)
    made["source"]["sequence"] = json.dumps([str(resumed), str(lsn)])
    return numbered(made, total)


def numbered(made: Event, total: int) -> Event:
    """Return a change of the transaction 7 with its number in it."""
    made["source"]["txId"] = 7
    made["transaction"] = {"id": f"7:{made['source']['lsn']}", "total_order": total, "data_collection_order": total}
    return made


SENT = [numbered(first("u", 1000 + 100 * at, {"id": 1, "v": str(at)}), at) for at in (1, 2)]
SENT_AGAIN = [again(1000 + 100 * at, 1100, at, {"id": 1, "v": str(at)}) for at in (2, 3, 4)]
NEXT = [event("u", 1600, after={"id": 2, "v": "next"}, commit=1500)]


@pytest.mark.parametrize("read", [[first("r", 1000, {"id": 1, "v": "read"})], []], ids=["after a snapshot", "without one"])
@pytest.mark.parametrize("runs", [[0, 0, 0, 0], [0, 1, 2, 3], [0, 1, 3, 2]], ids=["one run", "four", "the rest late"])
def test_a_connector_that_was_killed_in_its_first_transaction_sends_another_sequence(lake: Lake, read: list[Event], runs: list[int]) -> None:
    """As PostgreSQL's Debezium 3.7 does after kill -9: `[null, lsn]` before, and `[where it began again, lsn]` after. The newest change wins."""
    spec = debezium(lake, write_mode="merge-on-read")
    parts = [read, SENT, SENT_AGAIN, NEXT]
    ingest(lake, spec, *[[each for at, part in zip(runs, parts) for each in part if at == run] for run in sorted({*runs})])
    assert {1: "4", 2: "next"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)


def test_changes_that_name_no_transaction_are_placed_by_the_snapshot(lake: Lake) -> None:
    """A transform has dropped the field, or `add.fields` does not list it."""
    spec = debezium(lake, write_mode="merge-on-read")
    runs = json.loads(json.dumps([READS, OPEN, LATER]))
    for each in (each for run in runs for each in run):
        del each["source"]["txId"]
    ingest(lake, spec, *runs)
    assert {1: "open", 2: "open", 9: "later"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)


def test_each_of_many_shards_has_first_transactions_of_its_own(lake: Lake) -> None:
    """However many they are."""
    spec = dataclasses.replace(debezium(lake, write_mode="merge-on-read"), pattern="{db}/increment_%Y%m%d%H", shard="db")
    for hour, events in enumerate([SENT, SENT_AGAIN]):
        for shard in range(22):
            path = Path(spec.landing) / f"s{shard:02d}" / f"increment_20240305{hour:02d}" / "part-0.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(each) + "\n" for each in events))
        lake.run(spec)
    assert {"4"} == {row["v"] for row in lake.rows(spec)}
    assert [] == lake.problems(spec)


def test_such_a_change_is_the_same_change_in_a_table_without_key(lake: Lake) -> None:
    """Its sequence is no part of its identity."""
    spec = debezium(lake, key=())
    for each in (inserted := json.loads(json.dumps([*SENT, *SENT_AGAIN]))):
        each["op"] = "c"
    ingest(lake, spec, inserted[:2], inserted[2:])
    assert ["1", "2", "3", "4"] == sorted(row["v"] for row in lake.rows(spec))
    assert [] == lake.problems(spec)


def test_a_history_that_was_switched_off_is_not_verified(lake: Lake) -> None:
    """The next commit takes it out of the Snapshot."""
    spec = lake.spec(history=True, order_by=("seq",))
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": "a"}])
    lake.run(spec)
    assert [] == lake.problems(dataclasses.replace(spec, history=False))


def test_a_restore_that_takes_columns_away_begins_the_feed_anew(lake: Lake) -> None:
    """When such a column comes again, a follower would have values in it that the view has not."""
    spec = lake.spec(feed="net", order_by=("seq",))
    lake.land(spec, 1, [{"id": 1, "seq": 1, "v": "a"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 2, "v": "a", "c": 5}])
    lake.run(spec)
    at = restore.at_version(Table(lake.env, spec), 1)
    restore.restore(Table(lake.env, spec), at)
    snapshot = lake.snapshot(spec)
    assert snapshot is not None
    assert snapshot.feed is not None
    assert 3 == snapshot.feed.began


@pytest.mark.parametrize("together", [True, False])
def test_a_snapshot_of_one_shard_says_nothing_of_another(lake: Lake, together: bool) -> None:
    """Each shard has LSNs of its own."""
    spec = dataclasses.replace(debezium(lake, write_mode="merge-on-read"), pattern="{db}/increment_%Y%m%d%H", shard="db")
    read, opened, other = first("r", 100, {"id": 1, "v": "read"}), first("u", 90, {"id": 1, "v": "open"}), first("r", 10**6, {"id": 7, "v": "other"})
    runs = [{"b": [read, opened], "a": [other]}] if together else [{"b": [read]}, {"b": [opened], "a": [other]}]
    for hour, files in enumerate([*runs, {"b": [event("u", 200, after={"id": 1, "v": "newest"}, commit=195)]}]):
        if hour == len(runs):
            assert {1: "open", 7: "other"} == column(lake, spec, "v")
        for shard, events in files.items():
            path = Path(spec.landing) / shard / f"increment_20240305{hour:02d}" / "part-0.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(each) + "\n" for each in events))
        lake.run(spec)
    assert {1: "newest", 7: "other"} == column(lake, spec, "v")
    assert [] == lake.problems(spec)


CREATE = event("c", 20, after={"id": 100, "n": 1, "body": GONE})
UPDATE = event("u", 40, after={"id": 100, "n": 2, "body": GONE})
BETWEEN = {
    "nothing": [[CREATE]],
    "another row": [[CREATE], [event("c", 40, after={"id": 50, "n": 1, "body": "x"})]],
    "an update of the row": [[CREATE], [UPDATE]],
    "an update in the same file": [[CREATE, UPDATE]],
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_create_waits_for_the_delete_of_its_old_key(lake: Lake, name: str) -> None:
    """The halves of a key change share transaction and LSN only. Whatever comes between them, the row gets the values that it had."""
    spec = debezium(lake, write_mode="merge-on-read", compact_every=1e9, history=True)
    ingest(lake, spec, [event("c", at, after={"id": at, "n": 1, "body": f"long{at}"}) for at in (1, 2)], *BETWEEN[name])
    ingest(lake, spec, [event("d", 20, before={"id": 1})], hour=9)
    assert (2 if "update" in name else 1, "long1") == (column(lake, spec, "n")[100], column(lake, spec, "body")[100])
    before = [row["__previous_key"] for row in lake.rows(spec, f"{spec.view}_history") if row["id"] == 100]
    assert ['["1"]'] == [key for key in before if key]
    assert [] == lake.problems(spec)


def moved(lake: Lake) -> tuple[TableSpec, list[list[Event]]]:
    """A table in the order of a column, in which a key change left a tombstone whose values are purged."""
    spec = lake.spec(envelope="debezium", order_by=("seq",), write_mode="copy-on-write", tombstone_retention=10.0)
    runs = [
        [event("c", 1, after={"id": at, "seq": 1, "body": "first"}) for at in (1, 2)] + [event("u", 2, after={"id": 1, "seq": 15, "body": "newest"})],
        [event("u", 3, before={"id": 1, "seq": 15}, after={"id": 100, "seq": 20, "body": GONE})],
    ]
    ingest(lake, spec, *runs)
    for hour in (4, 5):
        lake.now += 1000
        ingest(lake, spec, [event("u", hour, after={"id": 2, "seq": hour, "body": "second"})], hour=hour)
    return spec, runs


def test_a_key_change_carries_nothing_once_its_values_are_purged(lake: Lake) -> None:
    """What comes late, or again, is older than what the row has."""
    spec, runs = moved(lake)
    for late in ([event("u", 9, after={"id": 1, "seq": 12, "body": "late"})], runs[0]):
        counts = ingest(lake, spec, late, hour=6)
        assert 0 == counts["applied"]
        assert {2: "second", 100: "newest"} == column(lake, spec, "body")
    assert [] == lake.problems(spec)


def test_a_key_change_that_comes_again_after_a_purge_is_a_duplicate(lake: Lake) -> None:
    """The tombstone that it would leave under the old key is no change of that key."""
    spec = debezium(lake, delete="hard", tombstone_retention=0.0, write_mode="copy-on-write")
    change = [event("u", 20, before={"id": 1, "v": "a"}, after={"id": 100, "v": "a"}), event("d", 25, before={"id": 3})]
    ingest(lake, spec, [event("c", at, after={"id": at, "v": "a"}) for at in (1, 2, 3)], change, [event("u", 30, after={"id": 2, "v": "b"})])
    assert lake.snapshot(spec).purged_to is not None
    lake.land(spec, 4, change, "again.json")
    counts = lake.run(spec).counts
    assert (1, 2) == (counts["duplicate"], counts["read"])
    assert {2: "b", 100: "a"} == column(lake, spec, "v")


def test_a_newer_change_of_its_key_does_not_hide_one_from_before_a_purge(lake: Lake) -> None:
    """The older one is set aside; its values are from before the delete."""
    spec = debezium(lake, write_mode="copy-on-write", tombstone_retention=10.0)
    ingest(lake, spec, [event("c", at, after={"id": at, "n": 1, "body": "a"}) for at in (2, 5)], [event("d", 100, before={"id": 5})])
    for hour in (3, 4):
        lake.now += 1000
        ingest(lake, spec, [event("u", 100 + hour, after={"id": 2, "n": hour, "body": "b"})], hour=hour)
    old, new = event("u", 50, after={"id": 5, "n": 5, "body": "old"}), event("u", 200, after={"id": 5, "n": 9, "body": GONE})
    assert 1 == ingest(lake, spec, [old, new], hour=5)["beyond_retention"]
    assert [(9, None)] == [(row["n"], row["body"]) for row in lake.rows(spec) if row["id"] == 5]
    assert [] == lake.problems(spec)


def test_a_removal_that_waits_takes_its_row_beside_a_new_column(lake: Lake) -> None:
    """Both are from before the column: the row comes in one run with the column, and has its default already."""
    spec = debezium(lake, key=())
    old = [{"field": "v", "type": "string"}]
    new = [*old, {"field": "n", "type": "int32", "optional": True, "default": 3}]

    def change(fields: list[Event], op: str, at: int, row: dict[str, Any]) -> Event:
        images = [{"type": "struct", "optional": True, "field": image, "fields": fields} for image in ("before", "after")]
        schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}
        return {"schema": schema, "payload": event(op, at, before=row if op == "d" else None, after=None if op == "d" else row)}

    ingest(lake, spec, [change(old, "c", 200, {"v": "a"}), change(old, "d", 210, {"v": "b"})])
    rows = [change(old, "c", 100, {"v": "b"}), change(old, "c", 110, {"v": "b"}), change(new, "c", 300, {"v": "c", "n": 5})]
    ingest(lake, spec, rows, hour=2)
    assert [("a", 3), ("b", 3), ("c", 5)] == sorted((row["v"], row["n"]) for row in lake.rows(spec))
    assert [] == lake.problems(spec)


@pytest.mark.parametrize("track", [(), ("x",)])
def test_versions_do_not_depend_on_what_is_shown_later(lake: Lake, track: tuple[str, ...]) -> None:
    """Two versions that differ in a column stay two when the source drops it, and `drop: hide` hides it."""
    spec = debezium(lake, history=True, write_mode="merge-on-read", policy=Policy(drop="hide"), track=track)
    both = [event("c", 1, after={"id": 1, "x": "a", "y": 1}), event("u", 2, after={"id": 1, "x": "b", "y": 1})]
    ingest(lake, spec, both, [event("c", 3, after={"id": 2, "y": 1})])
    assert {"id", "y"} == lake.rows(spec)[0].keys()
    assert 2 == sum(row["id"] == 1 for row in lake.rows(spec, f"{spec.view}_history"))
    assert [] == lake.problems(spec)


def test_columns_may_be_called_like_those_that_queries_add(lake: Lake) -> None:
    """Key changes, the history and full loads add some."""
    names = {"_left": "x", "_arrived": "y", "__time": "z", "__e": "e", "__content": "c", "__at": "a", "__load": "l"}
    spec = debezium(lake, name="named", key=("_p",), write_mode="merge-on-read", history=True)
    ingest(lake, spec, [event("c", 1, after={"_p": 1, **names, "body": "long"})])
    ingest(lake, spec, [event("d", 20, before={"_p": 1}), event("c", 20, after={"_p": 2, **names, "body": GONE})], hour=2)
    assert [{"_p": 2, **names, "body": "long"}] == lake.rows(spec)
    loads = lake.spec("loads", envelope="full-load", order_by=())
    for hour, value in enumerate("ab", 1):
        lake.land(loads, hour, [{"id": 1, "__content": value, "__at": 1, "__load": 2}])
        lake.now += 10_000
        lake.run(loads)
    assert [{"id": 1, "__content": "b", "__at": 1, "__load": 2}] == lake.rows(loads)
