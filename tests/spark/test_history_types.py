"""Columns that come and types that widen in mid-stream, with history and change feed on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

NARROW = "id INT, seq INT, n INT, __ts_ms BIGINT, op STRING"
WIDE = "id BIGINT, seq INT, n BIGINT, c STRING, __ts_ms BIGINT, op STRING"
BIG = 2**40


def row(number: int, seq: int, n: int | None, *more: str | None, op: str = "u") -> dict[str, Any]:
    """At second `seq` of 1970; `more`: the column c."""
    return {str(at): value for at, value in enumerate((number, seq, n, *more, seq * 1000, op))}


STEPS = [
    (NARROW, [row(1, 10, 1), row(2, 11, 2), row(3, 12, 3), *[row(number, 13, 0) for number in range(100, 110)]]),
    (NARROW, [row(1, 20, 5)]),
    # key and value widen, a column comes
    (WIDE, [row(2, 30, BIG, "c"), row(4, 31, 4, None)]),
    # a producer of before, late, beside what changes a column only that is not tracked
    (NARROW, [row(2, 25, 7), row(3, 40, 3)]),
    (WIDE, [row(4, 50, None, None, op="d"), row(BIG, 51, 1, "new")]),
]

VERSIONS = [
    (1, 1, None, 10, 20),
    (1, 5, None, 20, None),
    (2, 2, None, 11, 25),
    (2, 7, None, 25, 30),
    (2, BIG, "c", 30, None),
    (3, 3, None, 12, None),
    (4, 4, None, 31, 50),
    *[(number, 0, None, 13, None) for number in range(100, 110)],
    (BIG, 1, "new", 51, None),
]

FEED = [
    [("insert", 1, 1), ("insert", 2, 2), ("insert", 3, 3), *[("insert", number, 0) for number in range(100, 110)]],
    [("update_postimage", 1, 5), ("update_preimage", 1, 1)],
    [("insert", 4, 4), ("update_postimage", 2, BIG), ("update_preimage", 2, 2)],
    [("update_postimage", 3, 3), ("update_preimage", 3, 3)],
    [("delete", 4, 4), ("insert", BIG, 1)],
]


def versions(lake: Lake, spec: TableSpec) -> list[tuple[Any, ...]]:
    """id, n, c, first and last second."""
    found = lake.spark.sql(f"SELECT id, n, c, __start_us, __end_us, __is_current FROM {lake.database}.{spec.view}_history").collect()
    return sorted(((one.id, one.n, one.c, one[3] // 10**6, None if one[5] else one[4] // 10**6) for one in found), key=lambda one: (one[0], one[3]))


@pytest.mark.parametrize("write_mode", ["auto", "merge-on-read"] if FULL else ["merge-on-read"])
@pytest.mark.slow
def test_history_and_feed_go_through_a_widening_and_a_new_column(lake: Lake, write_mode: str) -> None:
    """Old versions are shown in the new type, a late event of the old one takes its place among them; rebuilt, it is the same history."""
    spec = lake.spec(format="parquet", order_by=("seq",), history=True, track=("n",), feed="net", write_mode=write_mode)
    for hour, (ddl, rows) in enumerate(STEPS):
        lake.land_parquet(spec, hour, rows, ddl)
        lake.run(spec)
        snapshot = lake.snapshot(spec)
        told = [json.loads(line) for line in lake.env.engine().read_feed(spec, snapshot)] if snapshot.feed and snapshot.feed.part else []
        assert FEED[hour] == sorted((one["_change_type"], one["id"], one["n"]) for one in told)
        assert [] == lake.problems(spec)
    assert VERSIONS == versions(lake, spec)
    assert ["bigint", "bigint"] == [kind for name, kind in lake.spark.table(f"{lake.database}.t_history").dtypes if name in ("id", "n")]
    assert "published" == rebuild_table(Table(lake.env, spec)).outcome
    assert VERSIONS == versions(lake, spec)
