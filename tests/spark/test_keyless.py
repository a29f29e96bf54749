"""Tables without key: which rows are left, whatever came before the capture, in whichever run an event arrives, and whatever columns came and went."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from compactor.core.model.errors import CheckFailed
from tests.spark.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def change(at: int, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    source = {"connector": "postgresql", "schema": "public", "table": "t", "txId": at, "lsn": at, "sequence": f'["{at}","{at}"]'}
    op = "u" if before and after else "c" if after else "d"
    return {"op": op, "before": before, "after": after, "source": source, "transaction": {"id": str(at), "total_order": 1}}


def spec(lake: Lake, name: str, **settings: Any) -> Any:
    return lake.spec(name, key=(), envelope="debezium", order_by=(), container="value", **settings)


def left(lake: Lake, table: Any) -> list[dict[str, Any]]:
    assert lake.problems(table) == []
    return sorted(lake.rows(table), key=str)


def test_a_removal_takes_no_row_after_it(lake: Lake) -> None:
    """The row that it removed is from before the capture; the same row was inserted again."""
    events = [change(20, {"a": "1"}, None), change(30, None, {"a": "1"}), change(40, {"a": "2"}, {"a": "3"}), change(50, {"a": "3"}, {"a": "2"})]
    for way, runs in {"once": [events], "apart": [[each] for each in events], "back": [[each] for each in reversed(events)]}.items():
        table = spec(lake, way)
        for hour, rows in enumerate(runs):
            lake.land(table, hour, rows)
            lake.run(table)
        assert [{"a": "1"}, {"a": "2"}] == left(lake, table), way


def test_an_image_may_leave_out_nulls_that_the_other_has(lake: Lake) -> None:
    """A transform or a sink drops them: then only one image of the update names the column, and the row is still the one that it names."""
    rows = [{"id": 1, "v": "a", "e": 3}, {"id": 2, "v": "a"}, {"id": 16, "e": 1}, {"id": 16, "v": "s"}, {"id": 16, "v": "x", "e": 5}]
    table = spec(lake, "nulls")
    lake.land(
        table, 0, [*(change(10 + at, None, row) for at, row in enumerate(rows[:3])), change(43, rows[2], rows[3]), change(45, rows[3], rows[4])]
    )
    lake.run(table)
    assert [{"id": 1, "v": "a", "e": 3}, {"id": 2, "v": "a", "e": None}, rows[4]] == sorted(left(lake, table), key=lambda row: row["id"])


COLUMNS = {
    "one came, one went": (
        [(None, {"a": 1, "b": "x"}), (None, {"a": 1, "b": "y", "d": 5}), (None, {"a": 1, "b": "z", "d": 6}), (None, {"a": 1, "d": 7})],
        [{"a": 1, "d": 5}, {"a": 1, "d": 6}],
        [(1, None), (1, 7)],
    ),
    "four came": (
        [(None, {"a": 9}), *((None, {"a": 1, **{f"d{at}": number for at in range(1, came + 1)}}) for came in range(1, 5) for number in (0, came))],
        [{"a": 1, "d1": 2, "d2": 2, "d3": 0, "d4": 0}, {"a": 1, "d1": 4, "d2": 4, "d3": 4, "d4": 4}, {"a": 1, "d1": 1, "d2": 0, "d3": 0, "d4": 0}],
        [(1, 0), (1, 0), (1, 0), (1, 0), (1, 3), (9, None)],
    ),
}
"""Inserts, before images of deletes after them, and (a, d or d1) of the rows that are left."""


@pytest.mark.parametrize("name", COLUMNS)
def test_a_removal_takes_the_row_that_is_equal_in_all_columns_both_have(lake: Lake, name: str) -> None:
    """However many columns came and went between them."""
    inserts, removed, rest = COLUMNS[name]
    changes = [change(10 * at, before, after) for at, (before, after) in enumerate([*inserts, *((row, None) for row in removed)], 1)]
    for way, runs in {"once": [changes], "apart": [[each] for each in changes]}.items():
        table = spec(lake, way)
        for hour, rows in enumerate(runs):
            lake.land(table, hour, rows)
            lake.run(table)
        assert sorted(rest, key=str) == sorted(((row["a"], row.get("d", row.get("d1"))) for row in left(lake, table)), key=str), way


def program(seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Changes of a table that had rows before them, and what is left of the rows that they brought."""
    chance, changes = random.Random(seed), list[dict[str, Any]]()
    rows = Counter({"a": 1, "b": 2})
    seen = Counter[str]()
    for at in range(30):
        there = list(rows.elements())
        before = chance.choice(there) if there and chance.random() < 0.6 else None
        after = chance.choice("abc") if before is None or chance.random() < 0.6 else None
        for value, by in ((before, -1), (after, 1)):
            if value is not None:
                rows[value] += by
                seen[value] = max(0, seen[value] + by)
        changes.append(change(10 + at, before and {"v": before}, after and {"v": after}))
    return changes, sorted(seen.elements())


@pytest.mark.parametrize("seed", [3, 10, 18, 62])
def test_random_programs_end_in_the_same_rows_in_every_order_of_arrival(lake: Lake, seed: int) -> None:
    """Of rows from before the capture nothing is stored, and none that came later goes with them."""
    changes, expected = program(seed)
    chance = random.Random(seed)
    for way in ("in order", "in any order"):
        table = spec(lake, way.replace(" ", "_"), compact_every=0.0 if seed % 2 else 1e9)
        given = changes if way == "in order" else chance.sample(changes, len(changes))
        for hour in range(4):
            lake.land(table, hour, given[hour::4] if way != "in order" else given[hour * 8 : hour * 8 + 8])
            lake.run(table)
        assert expected == [row["v"] for row in left(lake, table)], way


WRITERS: dict[str, tuple[Sequence[Sequence[dict[str, Any]]], list[dict[str, Any]]]] = {
    "a column was dropped": (
        [
            [change(n, None, {"a": n, "b": b}) for n, b in ((1, "x"), (2, "y"), (3, "z"), (4, None))],
            [change(10, {"a": 1}, None), change(11, {"a": 2}, {"a": 22}), change(12, {"a": 4}, None)],
        ],
        [{"a": 22, "b": None}, {"a": 3, "b": "z"}],
    ),
    "a column was added": (
        [
            [change(1, None, {"a": 1}), change(2, None, {"a": 2}), change(3, None, {"a": 3})],
            [change(10, {"a": 1, "c": 7}, None), change(11, None, {"a": 1, "c": 7}), change(12, {"a": 2, "c": 7}, {"a": 2, "c": 8})],
            [change(20, {"a": 2, "c": 8}, {"a": 2, "c": 9}), change(21, {"a": 3, "c": 7}, None)],
        ],
        [{"a": 1, "c": 7}, {"a": 2, "c": 9}],
    ),
    "a column was renamed, and rows differ in it": (
        [
            [change(1, None, {"a": 1, "b": 5}), change(2, None, {"a": 1, "b": 6}), change(3, {"a": 1, "b": 6}, None)],
            [change(10, {"a": 1, "c": 5}, {"a": 1, "c": 6}), change(11, None, {"a": 2, "c": 1})],
            [change(20, {"a": 1, "c": 6}, {"a": 1, "c": 7})],
        ],
        [{"a": 1, "b": None, "c": 7}, {"a": 2, "b": None, "c": 1}],
    ),
    "the before image alone shows a type": (
        [[change(1, None, {"a": 1.5, "b": "k"})], [change(2, {"a": 1.5, "b": "k"}, {"a": 2, "b": "k"})]],
        [{"a": 2, "b": "k"}],
    ),
    "only deletes came after the column": (
        [[change(1, None, {"a": 1, "b": "x"}), change(2, None, {"a": 2, "b": "y"})], [change(10, {"a": 1}, None)]],
        [{"a": 2, "b": "y"}],
    ),
    "a delete came while there was the column": (
        [[change(1, None, {"a": 1, "b": "x"})], [change(5, {"a": 1, "b": "z"}, None)], [change(10, None, {"a": 3})]],
        [{"a": 1, "b": "x"}, {"a": 3, "b": None}],
    ),
    "columns came and went four times": (
        [
            [change(at, None, {"a": at, f"c{at}": at}) for at in range(1, 6)],
            [change(10, {"a": 1}, None), change(11, {"a": 5}, {"a": 6}), change(12, None, {"a": 7})],
        ],
        [{"a": at, **{f"c{n}": at if n == at else None for n in range(1, 6)}} for at in (2, 3, 4, 6, 7)],
    ),
}
"""Case → the changes of each run, and the rows that are left."""


@pytest.mark.parametrize("case", WRITERS)
def test_rows_of_earlier_columns_can_be_removed(lake: Lake, case: str) -> None:
    """A removal and its row are compared by the columns that both have."""
    runs, expected = WRITERS[case]
    for way, split in {"apart": runs, "once": [[each for run in runs for each in run]]}.items():
        table = spec(lake, way)
        for hour, rows in enumerate(split):
            lake.land(table, hour, rows)
            lake.run(table)
        assert expected == left(lake, table), way


PURGED = {
    "the newest delete": [change(20, {"a": 1}, None)],
    "an update": [change(18, {"a": 1}, {"a": 2})],
    "an update that never came": [change(19, {"a": 1}, {"a": 9})],
}
"""Case → changes that are sent after their removals were purged. They wait in quarantine, or change nothing."""


@pytest.mark.parametrize("case", PURGED)
def test_a_change_from_before_purged_removals_takes_no_equal_row(lake: Lake, case: str) -> None:
    """Whether the table has seen it or not: the file that brings it may be another one."""
    table = spec(lake, "t", tombstone_retention=5.0, write_mode="copy-on-write", quarantine_share=0.9)
    first = [change(at, None, {"a": 1}) for at in (10, 11, 12)]
    for hour, rows in enumerate([first, [change(18, {"a": 1}, {"a": 2}), change(20, {"a": 1}, None)], [change(30, None, {"a": 3})]]):
        lake.now += 100
        lake.land(table, hour, rows)
        lake.run(table)
    assert lake.snapshot(table).purged_to is not None
    lake.land(table, 5, [*PURGED[case], change(60, None, {"a": 4})])
    report = lake.run(table)
    assert 2 == sum(report.counts[name] for name in ("applied", "duplicate", "beyond_retention"))
    assert [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}] == sorted(lake.rows(table), key=str)


def test_max_gone_counts_deleted_rows(lake: Lake) -> None:
    """Not updates, and each delete once."""
    table = spec(lake, "t", max_gone=0.5, write_mode="merge-on-read")
    lake.land(table, 1, [change(10 + at, None, {"a": at}) for at in range(10)])
    lake.run(table)
    lake.land(table, 2, [change(30 + at, {"a": at}, {"a": 100 + at}) for at in range(6)])
    lake.run(table)
    lake.land(table, 3, [change(50 + at, {"a": 100 + at}, None) for at in range(4)])
    lake.run(table)
    lake.land(table, 4, [change(70 + at, {"a": 6 + at}, None) for at in range(4)])
    truncate = {**change(90, None, {"a": 1}), "op": "t", "after": None}
    with pytest.raises(CheckFailed, match="4 of 12 rows would be deleted"):
        lake.run(lake.with_settings(table, max_gone=0.2))
    lake.run(table)
    lake.land(table, 5, [truncate])
    with pytest.raises(CheckFailed, match="rows would be deleted"):
        lake.run(table)


def test_columns_called_like_ours_are_columns(lake: Lake) -> None:
    """Also one that has the name of the identity."""
    names = ("_content", "_kind", "_n", "_point", "_by", "_sum", "_pair", "_all", "_row_id")
    table = spec(lake, "t")

    def row(value: int) -> dict[str, Any]:
        return dict.fromkeys(names, value)

    for hour, rows in enumerate([[change(at, None, row(at % 2)) for at in (10, 11, 12)], [change(20, row(0), row(3)), change(21, row(1), None)]]):
        lake.land(table, hour, rows)
        lake.run(table)
    assert [row(0), row(3)] == left(lake, table)


def test_a_dms_change_with_a_number_that_is_sent_again_is_one(lake: Lake) -> None:
    """In whatever file."""
    table = lake.spec("t", key=(), envelope="dms", order_by=())
    columns = "Op STRING, AR_H_CHANGE_SEQ STRING, a INT"
    rows = [{"Op": "I", "AR_H_CHANGE_SEQ": f"2024030510000000000000000000000000{at}", "a": 1} for at in range(3)]
    lake.land_parquet(table, 1, rows, columns)
    lake.run(table)
    lake.land_parquet(table, 2, rows[1:], columns)
    assert 2 == lake.run(table).counts["duplicate"]
    assert [{"a": 1}] * 3 == lake.rows(table)


PLACES = {
    "mysql": lambda at: {"file": "binlog.000007", "pos": 100 + at // 2, "row": at % 2},
    "sqlserver": lambda at: {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": f"00000027:00000ac0:{at:04d}", "event_serial_no": 1},
}


@pytest.mark.parametrize("connector", PLACES)
def test_changes_that_a_connector_sends_again_are_known_by_their_place_in_the_log(lake: Lake, connector: str) -> None:
    """After a crash it begins again where it last stored its place. The rows of a snapshot share one place, and are as many as they are."""

    def event(at: int, op: str, before: Any, after: Any) -> dict[str, Any]:
        source = {"connector": connector, "schema": "dbo", "table": "t", **PLACES[connector](0 if op == "r" else at)}
        return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1_700_000_000_000 + lake.now}

    def changes() -> list[dict[str, Any]]:
        return [
            event(2, "c", None, {"a": 1, "l": []}),
            event(3, "c", None, {"a": 1}),
            event(4, "u", {"a": 1}, {"a": 2}),
            event(5, "d", {"a": 5}, None),
        ]

    table = spec(lake, "t")
    # a fraction makes the column one of doubles, in this batch
    lake.land(table, 1, [event(0, "r", None, {"a": 5}), event(0, "r", None, {"a": 5}), *changes(), event(1, "c", None, {"a": 0.5, "b": "x"})])
    lake.run(table)
    lake.land(table, 2, [*changes()[1:], event(6, "c", None, {"a": 7, "l": [1]})], file="again.json")
    assert 3 == lake.run(table).counts["duplicate"]
    assert [(0.5, "x"), (1, None), (2, None), (5, None), (7, None)] == [(row["a"], row["b"]) for row in left(lake, table)]


def test_rows_that_share_a_place_are_as_many_as_they_are(lake: Lake) -> None:
    """TiCDC writes constants for MySQL's place, and old connectors a snapshot's rows as inserts, all of one place."""
    place = {"schema": "dbo", "table": "t", "file": "binlog.000007", "pos": 0, "row": 0}
    sources = {"ticdc": {**place, "connector": "TiCDC", "file": "", "commit_ts": 1}, "mysql": {**place, "connector": "mysql", "snapshot": "true"}}
    for name, source in sources.items():
        table = lake.spec(name, key=(), envelope="debezium", order_by=("source.pos",))
        lake.land(table, 1, [{"op": "c", "before": None, "after": {"a": 1}, "source": source}] * 2)
        lake.run(table)
        assert [{"a": 1}, {"a": 1}] == left(lake, table)
