"""Purged tombstones in random programs: what lands within the retention is never taken for a late change, whatever partition or key it has."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.lake import Lake, as_rows, table
from tests.oracle.model import line
from tests.oracle.sizes import sized

STEPS = st.lists(st.tuples(st.sampled_from(("put", "put", "delete")), st.integers(0, 5), st.integers(0, 2)), min_size=5, max_size=40)
"""(what happens, key, how many runs later its event lands)"""
RETENTION = 3.0
"""Seconds: three runs."""


@pytest.mark.slow
@sized(300)
@given(
    steps=STEPS,
    order=st.sampled_from(("__lsn", "offset", "version")),
    write_mode=st.sampled_from(("merge-on-read", "copy-on-write")),
    seed=st.integers(0, 10_000),
)
def test_what_lands_within_the_retention_is_never_set_aside(steps: Sequence[tuple[str, int, int]], order: str, write_mode: str, seed: int) -> None:
    """An order of the table, one of each partition with offsets far apart, or a counter of each row: rows are the source's, nothing is set aside."""
    rng = random.Random(seed)
    lake = Lake(table(order_by=(order,), tombstone_retention=RETENTION, write_mode=write_mode, container="kafka" if order == "offset" else "value"))
    counters: dict[Any, int] = {"offset 0": 1000, "offset 1": 10}
    rows: dict[tuple[int, ...], dict[str, Any]] = {}
    held: list[tuple[int, str, str]] = []
    runs = 0
    for number, (kind, key, lag) in enumerate([("put", 0, 0), ("put", 1, 0), *steps]):
        partition = key % 2
        place = {"__lsn": "lsn", "offset": f"offset {partition}", "version": key}[order]
        counters[place] = counters.get(place, 0) + 1
        gone = kind == "delete" and (key,) in rows
        event = json.loads(line("d" if gone else "u", [key], [counters[place]], None if gone else {"a": number}))
        if order == "offset":
            event["partition"] = partition
        if gone:
            del rows[key,]
        else:
            rows[key,] = {"a": number}
        held.append((runs + lag, f"increment_2026010100/{number:03}.json", json.dumps(event)))
        if rng.random() < 0.8:
            for due, path, text in held:
                if due <= runs:
                    lake.deliver(path, [text])
            held = [each for each in held if each[0] > runs]
            report = lake.run()
            runs += 1
            assert report.counts.get("beyond_retention", 0) == 0
    for _, path, text in held:
        lake.deliver(path, [text])
    report = lake.run()
    assert report.counts.get("beyond_retention", 0) == 0
    newest, seen = lake.newest(), lake.look()
    assert newest is not None
    assert seen is not None
    assert seen.rows == as_rows(rows, newest.schema) == lake.expected()


@pytest.mark.parametrize("order", ["version", "seq"])
def test_a_change_later_than_the_retention_does_not_bring_a_row_back_where_only_its_key_is_ordered(order: str) -> None:
    """The tombstone stays; of an order of the table it would be purged, and the change would be set aside."""
    lake = Lake(table(order_by=(order,), tombstone_retention=RETENTION, write_mode="copy-on-write"))
    for number in range(8):
        op = ("u", "d")[number == 1]
        key, at = (1, number + 1) if number < 2 else (2, number)
        lake.deliver(f"increment_2026010100/{number}.json", [line(op, [key], [at], {"a": number} if op == "u" else None)])
        lake.run()
    lake.deliver("increment_2026010100/late.json", [line("u", [1], [1], {"a": -1})])
    assert lake.run().counts["late"] == 1
    assert [row[0] for row in lake.look().rows] == [2]  # type: ignore[union-attr]
