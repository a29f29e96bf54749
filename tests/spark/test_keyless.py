"""Tables without key: which rows are left, whatever came before the capture, in whichever run an event arrives, and whatever columns came and went."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

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
