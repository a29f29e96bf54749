"""The reducer by itself: however the events of a key are cut into batches, in whatever order and however often they come, its row is the same."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from compactor.core.model.position import Position
from compactor.core.model.schema import Field, Schema
from compactor.spark.rows import position
from compactor.spark.rows.reduce import DELTA, EVENT, Reducer, union
from tests.oracle.model import Change, replayed
from tests.oracle.sizes import FULL
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

PROGRAMS = 20_000 if FULL else 1_000
"""Keys of one table: each is a program of its own."""

ORDER = (("seq", "bigint"),)
SCHEMA = Schema(tuple(Field(name, name, kind) for name, kind in (("id", "int"), ("a", "int"), ("b", "string"), ("c", "string"))), ("id",))
PARTIAL = ("b", "c")
STATE = f"_op STRING, _position {position.ddl(ORDER)}, _missing ARRAY<STRING>, _from STRING, _to STRING, _link STRING, _origin INT, _behind BOOLEAN"


def program(rng: random.Random, key: int) -> list[Change]:
    """A few events of one key in any order. Some come again in another file; no two different ones have the same place."""
    events = []
    for seq in rng.sample(range(1, 12), rng.randint(1, 7)):
        op = rng.choice("cuuud")
        missing = frozenset(name for name in PARTIAL if op != "d" and rng.random() < 0.4)
        sent = {"a": rng.randint(0, 3), "b": rng.choice("xyz"), "c": rng.choice(["x", "y", None])}
        values = {name: value for name, value in sent.items() if op != "d" and name not in missing and value is not None}
        for copy in range(rng.choice((1, 1, 1, 2))):
            events.append(Change(op, (key,), values, (0, seq, f"{rng.randint(0, 3)}{copy}", 0, rng.randint(0, 9)), missing))
    return rng.sample(events, len(events))


def states(spark: SparkSession, reducer: Reducer, changes: list[Change]) -> DataFrame:
    """The events as states."""
    names = [name for name, _ in position.core.members(ORDER)]
    rows = [
        (*change.key, *(change.values.get(name) for name in "abc"), change.op, dict(zip(names, change.position, strict=True)),
         sorted(change.missing) or None, None, None, None, EVENT, False)
        for change in changes
    ]  # fmt: skip
    return reducer.states(spark.createDataFrame(rows, f"id INT, a INT, b STRING, c STRING, {STATE}"), moves=False)


def stored(rows: DataFrame) -> DataFrame:
    """Reduced rows as the Delta of a later batch."""
    names = (*SCHEMA.names, "_version", "_at", "_gone", "_own", "_moved")
    return rows.selectExpr(*names, f"{DELTA} AS _origin").localCheckpoint()


def told(rows: DataFrame, barrier: Position | None) -> dict[int, Any]:
    """Key → what the row shows and hides: of each clock the event, not the file that it came in."""
    found = {}
    for row in rows.collect():
        own = {name: (entry.at and entry.at.o1, entry.known) for name, entry in (row["_own"] or {}).items()}
        if row["_gone"] is not None and barrier is not None and row["_gone"].o1 <= barrier[1]:
            continue
        found[row["id"]] = (
            "d" if row["_gone"] else "u",
            row["a"],
            row["b"],
            row["c"],
            row["_at"] and row["_at"].o1,
            row["_gone"] and row["_gone"].o1,
            own,
        )
    return found


def _deletes(changes: list[Change]) -> int:
    """The number of deletes. A tombstone keeps the newest; what another one below it has ended may be among the values that it hides."""
    return len({change.position[1] for change in changes if change.op == "d"})


@pytest.mark.parametrize("barrier", [None, (0, 5, "9", 0, 0)], ids=["no truncate", "a truncate"])
def test_any_cut_any_order_and_any_repetition_give_the_same_rows(lake: Lake, barrier: Position | None) -> None:
    """Whole against three batches, which reduce what the last one stored; and the rows that are shown against a plain replay."""
    rng = random.Random(f"reduce{barrier}")
    changes = {key: program(rng, key) for key in range(PROGRAMS)}
    events = [change for each in changes.values() for change in each]
    reducer = Reducer(SCHEMA, ORDER, 1, barrier=barrier, partial=PARTIAL, stored=False)
    whole = told(reducer.rows(states(lake.spark, reducer, events)), barrier)

    batches: list[list[Change]] = [[], [], []]
    for change in events:
        for number in rng.sample(range(3), rng.choice((1, 1, 2))):
            batches[number].append(change)
    made: DataFrame | None = None
    for number, batch in enumerate(batches):
        step = Reducer(SCHEMA, ORDER, number + 1, barrier=barrier, partial=PARTIAL, stored=made is not None)
        frames = [states(lake.spark, step, batch), *([made] if made is not None else [])]
        made = stored(step.rows(union(frames)))
    assert made is not None
    cut = told(made, barrier)
    assert whole.keys() == cut.keys()
    compared = [key for key in whole if whole[key][0] == "u" or _deletes(changes[key]) < 2]
    assert len(compared) > PROGRAMS // 2
    assert [] == [(changes[key], whole[key], cut[key]) for key in compared if whole[key] != cut[key]][:3]
    assert [] == [key for key in whole if whole[key][0] != cut[key][0]]

    if barrier is None:
        # everything comes once more, in files of later names: nothing changes, the newest event is a duplicate and all others are late
        again = [dataclasses.replace(change, position=(*change.position[:2], f"9{change.position[2]}", 0, 0)) for change in events]
        last = Reducer(SCHEMA, ORDER, 9, partial=PARTIAL)
        rows = [row for row in last.rows(union([states(lake.spark, last, again), made])).collect() if row["id"] in compared]
        assert [] == [(changes[row["id"]], row) for row in rows if not row["_unchanged"] or row["_version"] == 9 or row["_applied"] or row["_ties"]]
        assert {(key, 1, len(changes[key]) - 1) for key in compared} == {(row["id"], row["_duplicate"], row["_late"]) for row in rows}

    truncate = [Change("t", (), {}, barrier)] if barrier else []
    expected = replayed([*events, *truncate])
    live = {key: row for key, row in whole.items() if row[0] == "u"}
    assert {key for (key,) in expected} == set(live)
    for (key,), row in expected.items():
        assert {name: value for name, value in zip("abc", live[key][1:4], strict=True) if value is not None} == row, changes[key]


def test_events_at_one_place_tie_if_they_differ_in_a_column_that_others_lack(lake: Lake) -> None:
    """Key 1 gets the same event from two files, key 2 two events that differ in `b` only."""
    reducer = Reducer(SCHEMA, ORDER, 1, partial=("b",), stored=False)
    sent = [(1, "x", "1"), (1, "x", "2"), (2, "x", "1"), (2, "y", "2")]
    events = [Change("u", (key,), {"a": 1, "b": b}, (0, 5, file, 0, 0)) for key, b, file in sent]
    rows = reducer.rows(states(lake.spark, reducer, events)).collect()
    assert {1: (0, "x"), 2: (1, "y")} == {row["id"]: (row["_ties"], row["b"]) for row in rows}
