"""The change feed on Spark: images case by case, whatever the commit writes, and the difference of any two versions that follow each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.policy import Policy
from compactor.core.model.spec import TableSpec
from compactor.flows.read.visible import changes
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.flows.write import restore
from compactor.read import Table as ReadTable
from tests.spark.added_defaults import PLAIN, TEXT_ALLOWED, record, with_score
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

INSERT, BEFORE, AFTER, DELETE = "insert", "update_preimage", "update_postimage", "delete"

Told = list[tuple[Any, ...]]

CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], Told]] = {
    "an insert": ([], [{"op": "c", "seq": 10, "v": "a", "n": 1}], [(INSERT, "a", 1)]),
    "an update": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}],
        [{"op": "u", "seq": 10, "v": "b", "n": 1}],
        [(BEFORE, "a", 1), (AFTER, "b", 1)],
    ),
    "of several updates the last": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}],
        [{"op": "u", "seq": 12, "v": "c", "n": 3}, {"op": "u", "seq": 11, "v": "b", "n": 2}],
        [(BEFORE, "a", 1), (AFTER, "c", 3)],
    ),
    "a null is a value": (
        [{"op": "c", "seq": 1, "v": "a", "n": None}],
        [{"op": "u", "seq": 10, "v": None, "n": 1}],
        [(BEFORE, "a", None), (AFTER, None, 1)],
    ),
    "an update to what is there": ([{"op": "c", "seq": 1, "v": "a", "n": None}], [{"op": "u", "seq": 10, "v": "a", "n": None}], []),
    "an event delivered again": ([{"op": "c", "seq": 1, "v": "a", "n": 1}], [{"op": "c", "seq": 1, "v": "a", "n": 1}], []),
    "a delete: the row as it was, not what the connector made up": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}],
        [{"op": "d", "seq": 10, "v": "", "n": 0}],
        [(DELETE, "a", 1)],
    ),
    "a delete of no row": ([], [{"op": "d", "seq": 10, "v": "", "n": 0}], []),
    "insert and delete in one commit": ([], [{"op": "c", "seq": 10, "v": "a", "n": 1}, {"op": "d", "seq": 11}], []),
    "delete and insert in one commit": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}],
        [{"op": "d", "seq": 10}, {"op": "c", "seq": 11, "v": "b", "n": 2}],
        [(BEFORE, "a", 1), (AFTER, "b", 2)],
    ),
    "delete and the same row again": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}],
        [{"op": "d", "seq": 10}, {"op": "c", "seq": 11, "v": "a", "n": 1}],
        [],
    ),
    "a row that was deleted before": (
        [{"op": "c", "seq": 1, "v": "a", "n": 1}, {"op": "d", "seq": 2}],
        [{"op": "c", "seq": 10, "v": "b", "n": 2}],
        [(INSERT, "b", 2)],
    ),
    "a late event": ([{"op": "c", "seq": 5, "v": "a", "n": 1}], [{"op": "u", "seq": 4, "v": "late", "n": 0}], []),
    "a late event after a delete": ([{"op": "c", "seq": 1, "v": "a"}, {"op": "d", "seq": 5}], [{"op": "u", "seq": 4, "v": "late", "n": 0}], []),
}
"""What a row's earlier run told of it, what this one does, and the images."""


def told(lake: Lake, spec: TableSpec, start: int) -> list[dict[str, Any]]:
    """The feed as `compactor changes` prints it."""
    engine = lake.env.engine()
    return [json.loads(line) for snapshot in changes(Table(lake.env, spec), start) for line in engine.read_feed(spec, snapshot)]


def sound(lake: Lake, spec: TableSpec) -> list[str]:
    """The versions whose part is not the difference of all rows of both, and what is wrong with it."""
    engine = lake.env.engine()
    every = [Table(lake.env, spec).committed(number) for number in range(1, lake.snapshot(spec).version + 1)]
    found = [engine.check_feed(spec, parent, made) for parent, made in zip([None, *every], every)]
    return [check.detail for check in found if not check.ok]


def event(change: dict[str, Any]) -> dict[str, Any]:
    """`{"op", "seq", "before"?, ..row}` as Debezium says it: there the place in the order is no column of the table."""
    row = {name: value for name, value in change.items() if name not in ("op", "seq", "before")}
    op, seq = change["op"], change["seq"]
    source = {"connector": "postgresql", "lsn": seq, "txId": seq, "sequence": f'["{seq}","{seq}"]', "ts_ms": seq, "schema": "s", "table": "t"}
    before = row if op == "d" else change.get("before")
    return {
        "op": op, "before": before, "after": row if op in ("c", "u") else None, "source": source,
        "transaction": {"id": f"{seq}:{seq}", "total_order": 1},
    }  # fmt: skip


def land(lake: Lake, spec: TableSpec, hour: int, *told: dict[str, Any]) -> None:
    """One hour of changes, and a run."""
    lake.land(spec, hour, [event(each) for each in told])
    lake.run(spec)


@pytest.mark.slow
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_images_case_by_case(lake: Lake, write_mode: str) -> None:
    """One row a case, all in one commit; the same whether it writes a Delta or a whole base."""
    spec = lake.spec(envelope="debezium", order_by=(), write_mode=write_mode, feed="net")
    for run, hour in ((0, 1), (1, 2)):
        rows = [{"id": at, **change} for at, case in enumerate(CASES.values()) for change in case[run]]
        # one more row, so that the first run has columns for all
        land(lake, spec, hour, {"id": 99, "op": "c", "seq": hour, "v": "x", "n": hour}, *rows)
    found = told(lake, spec, 1)
    for at, (name, (_, _, expected)) in enumerate(CASES.items()):
        mine = [row for row in found if row["id"] == at]
        assert [(row["_change_type"], row["v"], row["n"]) for row in mine] == expected, name
    assert {row["_commit_version"] for row in found} == {2}
    shown = [row for row in lake.rows(spec, "t_changes") if row["_commit_version"] == 2]
    assert len(shown) == len(found)
    assert {row["feed_version"] for row in shown} == {lake.snapshot(spec).writer}
    assert sound(lake, spec) == []


@pytest.mark.slow
def test_every_operation_that_changes_rows_writes_the_difference(lake: Lake) -> None:
    """A truncate, restores back and forth, taking again, a widened type, a new column, and a fold: which alone writes nothing."""
    spec = lake.spec(envelope="debezium", order_by=(), write_mode="merge-on-read", feed="net", target_file_bytes=1500, compact_every=1e9)
    spec = lake.with_settings(spec, policy=TEXT_ALLOWED)
    land(lake, spec, 1, *({"id": at, "op": "c", "seq": at, "v": f"v{at}", "n": at} for at in range(1, 9)))
    land(lake, spec, 2, {"id": 1, "op": "u", "seq": 20, "v": "u", "n": 1}, {"id": 2, "op": "d", "seq": 21})
    same, other = {"id": 3, "op": "c", "seq": 22, "v": "v3", "n": 3}, {"id": 4, "op": "c", "seq": 23, "v": "new", "n": 4}
    land(lake, spec, 3, {"op": "t", "seq": 5}, same, other)
    assert [(row["_change_type"], row["id"]) for row in told(lake, spec, 2)] == [(BEFORE, 4), (AFTER, 4), (DELETE, 5)]
    for version in (2, 1):
        restore.restore(Table(lake.env, spec), restore.at_version(Table(lake.env, spec), version))
    assert [(row["_change_type"], row["id"]) for row in told(lake, spec, 3) if row["_commit_version"] == 4] == [
        (BEFORE, 4), (AFTER, 4), (INSERT, 5),
    ]  # fmt: skip
    assert [(row["_change_type"], row["id"], row["v"]) for row in told(lake, spec, 4)] == [(BEFORE, 1, "u"), (AFTER, 1, "v1"), (INSERT, 2, "v2")]
    lake.now += 1
    assert restore.reabsorb(Table(lake.env, spec)) is not None
    land(lake, spec, 4, {"id": 1, "op": "u", "seq": 30, "v": "u", "n": 7, "w": 1.5}, {"id": 3, "op": "u", "seq": 31, "v": "v3", "n": 3, "w": None})
    land(lake, spec, 5, {"id": 6, "op": "u", "seq": 32, "v": "text now", "n": "six", "w": -0.0})
    # every row of the base, tombstones too, so that a compaction is worth it
    every = ({"id": at, "op": "u", "seq": 33 + at, "v": "new", "n": "six", "w": 0.0} for at in (1, 2, 3, 4, 6, 7, 8))
    land(lake, lake.with_settings(spec, compact_every=0.0), 6, *every)
    versions = [Table(lake.env, spec).committed(number) for number in range(1, lake.snapshot(spec).version + 1)]
    made = [(each.operation, each.feed.part) for each in versions if each.feed]
    assert [(name, part and (part.inserts, part.updates, part.deletes)) for name, part in made] == [
        ("commit", (8, 0, 0)), ("commit", (0, 1, 1)), ("commit", (0, 1, 1)), ("restore", (1, 1, 0)), ("restore", (1, 1, 0)),
        ("reabsorb", (0, 2, 2)), ("commit", (0, 1, 0)), ("rebuild", None), ("commit", (0, 1, 0)), ("commit", (1, 6, 0)), ("compact", None),
    ]  # fmt: skip
    assert versions[-1].schema.generation == 2
    assert {row["_commit_version"] for row in lake.rows(spec, "t_changes_g2")} == {9, 10}
    assert sound(lake, spec) == []


@pytest.mark.slow
def test_unavailable_values_and_soft_deletes(lake: Lake) -> None:
    """Images hold what readers saw: values filled from the row before, also by a late event; a soft delete is an update of `_deleted`."""
    spec = lake.spec(feed="net", patch_rows=True, delete="soft", write_mode="merge-on-read")
    lake.land(spec, 1, [{"id": 1, "seq": 1, "op": "c", "v": "a", "n": 1}, {"id": 2, "seq": 2, "op": "c", "v": "b", "n": 2}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 10, "op": "u", "v": "A"}, {"id": 2, "seq": 11, "op": "d"}])
    lake.run(spec)
    lake.land(spec, 3, [{"id": 1, "seq": 5, "op": "u", "n": 5}, {"id": 2, "seq": 12, "op": "c", "v": "b", "n": 2}])
    lake.run(spec)
    found = [(row["_change_type"], row["_deleted"], row["id"], row["v"], row["n"]) for row in told(lake, spec, 1)]
    assert found == [
        (BEFORE, False, 1, "a", 1), (AFTER, False, 1, "A", 1),
        (BEFORE, False, 2, "b", 2), (AFTER, True, 2, "b", 2),
        (BEFORE, False, 1, "A", 1), (AFTER, False, 1, "A", 5),
        (BEFORE, True, 2, "b", 2), (AFTER, False, 2, "b", 2),
    ]  # fmt: skip
    assert sound(lake, spec) == []


@pytest.mark.slow
def test_a_table_without_key_and_a_key_change(lake: Lake) -> None:
    """Equal rows are told apart by their identity only; a removal that waits takes its row when that comes; a moved row is a delete and an insert."""
    bag = lake.spec("bag", key=(), order_by=(), envelope="debezium", feed="net", write_mode="merge-on-read")
    land(lake, bag, 1, *({"op": "c", "seq": at, "v": value} for at, value in ((1, "a"), (2, "a"), (3, "b"))))
    land(lake, bag, 2, {"op": "d", "seq": 10, "v": "a"}, {"op": "u", "seq": 11, "before": {"v": "b"}, "v": "c"}, {"op": "d", "seq": 12, "v": "z"})
    land(lake, bag, 3, {"op": "c", "seq": 5, "v": "z"}, {"op": "c", "seq": 6, "v": "y"})
    assert sorted((row["_commit_version"], row["_change_type"], row["v"]) for row in told(lake, bag, 1)) == [
        (2, DELETE, "a"), (2, DELETE, "b"), (2, INSERT, "c"), (3, INSERT, "y"),
    ]  # fmt: skip
    config = lake.root / "compactor.yaml"
    config.write_text(f"warehouse: {lake.root}\ntables: {{bag: {{key: [], envelope: debezium, change_feed: true}}}}\n")
    read = ReadTable.open(config, "bag").changes(since=1).to_arrow().to_pylist()
    assert sorted(row["_row_id"] for row in read) == sorted(row["_row_id"] for row in told(lake, bag, 1))
    keyed = lake.spec("keyed", order_by=(), envelope="debezium", feed="net", write_mode="merge-on-read")
    land(lake, keyed, 1, {"op": "c", "seq": 1, "id": 1, "v": "a"}, {"op": "c", "seq": 2, "id": 2, "v": "b"})
    land(lake, keyed, 2, {"op": "u", "seq": 10, "before": {"id": 1}, "id": 3, "v": "a"})
    assert [(row["_change_type"], row["id"], row["v"]) for row in told(lake, keyed, 1)] == [(DELETE, 1, "a"), (INSERT, 3, "a")]
    assert sound(lake, bag) + sound(lake, keyed) == []


@pytest.mark.slow
def test_a_rebuild_or_restore_leads_out_of_a_version_whose_files_are_gone(lake: Lake) -> None:
    """Nobody knows what it changed, so the feed begins anew."""
    spec = lake.spec(order_by=(), envelope="debezium", feed="net", write_mode="copy-on-write")
    for hour in (1, 2):
        land(lake, spec, hour, {"op": "c", "seq": hour, "id": hour, "v": "a"})
    newest = lake.snapshot(spec)
    for path, file in newest.data_files:
        Path(spec.root, path, file.name).unlink()
    lake.now += 1
    assert rebuild_table(Table(lake.env, spec), accept=True).outcome == "published"
    assert lake.problems(spec) == []
    assert lake.snapshot(spec).feed.began == 3  # type: ignore[union-attr]
    for path, file in lake.snapshot(spec).data_files:
        Path(spec.root, path, file.name).unlink()
    lake.now += 1
    restore.restore(Table(lake.env, spec), Table(lake.env, spec).committed(1))
    assert [row["id"] for row in lake.rows(spec)] == [1]


@pytest.mark.slow
def test_it_begins_anew_where_a_hidden_column_is_shown_again(lake: Lake) -> None:
    """Old rows show their values again, which no event has sent."""
    spec = lake.spec(feed="net", policy=Policy(drop="hide"))
    began = []
    for hour, row in enumerate(({"id": 1, "seq": 1, "s": "x"}, {"id": 2, "seq": 2}, {"id": 3, "seq": 3, "s": "y"})):
        lake.land(spec, hour, [{"op": "c", **row}])
        lake.run(spec)
        began.append(lake.snapshot(spec).feed.began)  # type: ignore[union-attr]
    assert (began, [row["s"] for row in lake.rows(spec)]) == ([0, 0, 3], ["x", None, "y"])


@pytest.mark.slow
def test_a_default_that_a_late_event_changes_is_a_change_of_the_rows_that_read_it(lake: Lake) -> None:
    """One that comes with its column is none."""
    spec = lake.spec(feed="net", write_mode="merge-on-read")
    for hour, records in enumerate(
        [
            [record(PLAIN, {"id": 1, "seq": 10, "x": 1}), record(PLAIN, {"id": 4, "seq": 25, "x": 1})],
            [record(with_score(7), {"id": 2, "seq": 30, "x": 1, "score": 2})],
            [record(with_score(5), {"id": 3, "seq": 20, "x": 1, "score": 3})],
        ]
    ):
        lake.land(spec, hour, records)
        lake.run(spec)
    told = lake.spark.sql(f"SELECT _commit_version, _change_type, id, score FROM {lake.database}.t_changes ORDER BY 1, 3, 2 DESC").collect()
    assert [
        (1, "insert", 1, None), (1, "insert", 4, None), (2, "insert", 2, 2),
        (3, "update_preimage", 1, 7), (3, "update_postimage", 1, 5), (3, "insert", 3, 3), (3, "update_preimage", 4, 7), (3, "update_postimage", 4, None),
    ] == [tuple(row) for row in told]  # fmt: skip
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_key_that_becomes_text_moves_no_row(lake: Lake) -> None:
    """The ranges of the Segments before were cut in the order of numbers, in which 9 comes before 17."""
    spec = lake.spec(envelope="debezium", order_by=(), write_mode="merge-on-read", feed="net", target_file_bytes=160, compact_every=1e9)
    spec = lake.with_settings(spec, policy=TEXT_ALLOWED)
    land(lake, spec, 1, *({"id": at, "op": "c", "seq": at, "v": f"v{at}"} for at in range(1, 25)))
    assert [("9",), ("17",), None] == [segment.high for segment in lake.snapshot(spec).segments]
    land(lake, spec, 2, {"id": 9, "op": "u", "seq": 100, "v": "u"})
    land(lake, spec, 3, {"id": "ten", "op": "c", "seq": 101, "v": "text"})
    assert [(row["_change_type"], row["id"]) for row in told(lake, spec, 2)] == [(INSERT, "ten")]
    assert {row["id"]: row["v"] for row in lake.rows(spec)}["9"] == "u"
    assert sound(lake, spec) == []
