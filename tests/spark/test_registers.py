"""Every column of a row is a register of its own: what deletes, truncates and added columns leave in it, whatever order events arrive in."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Snapshot
from compactor.core.model.spec import TableSpec
from compactor.core.results.batch import Staged
from compactor.flows.publish.sync import sync_table
from compactor.flows.table import Table
from compactor.flows.write.compact import Spending, compact
from compactor.spark.engine import SparkEngine
from tests.spark.lake import Lake
from tests.spark.test_debezium import GONE, debezium, event

pytestmark = pytest.mark.spark


def row(op: str, key: int, seq: int, name: str | None = None) -> dict[str, Any]:
    return {"id": key, "seq": seq, "op": op, "name": name}


def shown(lake: Lake, spec: TableSpec) -> dict[int, tuple[Any, bool]]:
    """Key → name and whether the source has deleted the row."""
    return {each["id"]: (each.get("name"), each["_deleted"]) for each in lake.rows(spec)}


@pytest.mark.slow
def test_a_deleted_row_keeps_its_last_values_however_often_and_in_whatever_order_its_delete_comes(lake: Lake) -> None:
    """`delete: soft`: twice in a run, again later, before its create, with late updates below it, after another delete, and without any row."""
    spec = lake.spec(delete="soft", write_mode="merge-on-read", feed="net")
    lake.land(spec, 0, [row("c", n, 10, f"n{n}") for n in (1, 2, 4, 5, 7, 9)])
    lake.run(spec)
    deletes = [row("d", 1, 20), row("d", 2, 20), row("d", 3, 20), row("d", 4, 20), row("d", 5, 20), row("d", 5, 30), row("d", 6, 20), row("d", 7, 20)]
    lake.land(spec, 1, deletes)
    lake.land(spec, 1, [row("d", 1, 20)], "part-1.json")
    assert 2 == lake.run(spec).counts["superseded"]
    assert {1: ("n1", True), 3: (None, True), 5: ("n5", True), 9: ("n9", False)}.items() <= shown(lake, spec).items()
    lake.land(
        spec, 2, [row("d", 2, 20), row("c", 3, 10, "n3"), row("u", 4, 15, "late"), row("u", 5, 25, "between"), row("c", 7, 5, "older")], "z.json"
    )
    counts = lake.run(spec).counts
    assert (counts["duplicate"], counts["late"]) == (1, 4)
    expected = {1: "n1", 2: "n2", 3: "n3", 4: "late", 5: "between", 6: None, 7: "n7"}
    assert {**{key: (name, True) for key, name in expected.items()}, 9: ("n9", False)} == shown(lake, spec)
    # a row born again is a new row, and its delete shows that one
    lake.land(spec, 3, [row("c", 1, 40, "new"), row("d", 1, 50), row("u", 2, 30, "back")])
    lake.run(spec)
    assert (("new", True), ("back", False)) == (shown(lake, spec)[1], shown(lake, spec)[2])
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_rows_that_a_delta_hides_have_their_values_once_they_are_shown(lake: Lake) -> None:
    """`delete: hide` becomes `soft` between two runs: the values are in the base alone, and the next run compacts before it shows them."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 0, [row("c", n, 10, f"n{n}") for n in (1, 2, 3)])
    lake.run(spec)
    lake.land(spec, 1, [row("d", 1, 20)])
    lake.run(spec)
    soft = dataclasses.replace(spec, delete="soft")
    with pytest.raises(Refused, match="Run the table: it compacts first"):
        sync_table(Table(lake.env, soft))
    assert ("compact 3",) == lake.run(soft).operations
    assert {1: ("n1", True), 2: ("n2", False), 3: ("n3", False)} == shown(lake, soft)
    assert "idle" == lake.run(soft).outcome
    lake.land(soft, 2, [row("d", 2, 30)])
    lake.run(soft)
    assert {1: ("n1", True), 2: ("n2", True), 3: ("n3", False)} == shown(lake, soft)
    lake.land(soft, 3, [row("u", 3, 40, "m3")])
    lake.run(soft)
    assert lake.snapshot(soft).delta is not None
    assert [] == lake.problems(soft)


@pytest.mark.slow
def test_a_deleted_row_shows_the_values_that_late_events_added_to_its_base_row(lake: Lake) -> None:
    """Base and Delta hold the same event then, and the Delta's row is the complete one."""
    spec = lake.spec(delete="soft", write_mode="merge-on-read", patch_rows=True)
    lake.land(spec, 0, [{"id": 1, "seq": 10, "name": "n"}, {"id": 2, "seq": 11, "name": "n", "city": "c"}])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 1, "seq": 5, "city": "late"}])
    assert 1 == lake.run(spec).counts["late"]
    lake.land(spec, 2, [{"id": 1, "seq": 20, "op": "d"}])
    assert 1 == lake.run(spec).counts["applied"]
    assert {(1, "n", "late", True), (2, "n", "c", False)} == {(row["id"], row["name"], row["city"], row["_deleted"]) for row in lake.rows(spec)}
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_late_event_brings_a_column_that_stored_rows_are_older_than(lake: Lake) -> None:
    """With `patch_rows` a row keeps what it has: no stored event said anything of the column, whenever the column came."""
    for name, between in (("at once", []), ("later", [{"id": 9, "seq": 9, "c": 1}])):
        spec = lake.spec(name.replace(" ", "_"), write_mode="merge-on-read", patch_rows=True)
        lake.land(spec, 0, [{"id": 1, "seq": 1, "a": 1}, {"id": 1, "seq": 2, "b": 2}])
        lake.run(spec)
        if between:
            lake.land(spec, 1, between)
            lake.run(spec)
        lake.land(spec, 2, [{"id": 1, "seq": 0, "c": 7}])
        assert 1 == lake.run(spec).counts["late"]
        for compacted in (False, True):
            if compacted:
                lake.run(lake.with_settings(spec, compact_every=0.0))
                assert lake.snapshot(spec).delta is None
            assert (2, 1, 2, 7) == next((row["seq"], row["a"], row["b"], row["c"]) for row in lake.rows(spec) if row["id"] == 1), name
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_what_a_tombstone_learns_beside_a_compaction_stays(lake: Lake) -> None:
    """A late event changes what a tombstone of the Delta hides, while that Delta is compacted: the new base has the older values, the Delta the newer."""
    spec = lake.spec(delete="soft", write_mode="merge-on-read", compact_every=1e9)
    for hour, rows in enumerate(([row("c", 1, 10, "first")], [row("d", 1, 20)])):
        lake.land(spec, hour, rows)
        lake.run(spec)
    lake.land(spec, 2, [row("u", 1, 15, "second")])
    compacted_beside(lake, spec)
    lake.run(spec)
    assert {1: ("second", True)} == shown(lake, spec)
    assert [] == lake.problems(spec)


def compacted_beside(lake: Lake, spec: TableSpec) -> None:
    """A compaction of the newest version, during which what has landed is committed."""
    engine = lake.env.engine()
    read = lake.snapshot(spec)

    class Slow:
        """The engine, during whose compaction another run commits."""

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        def compact(self, spec: TableSpec, snapshot: Snapshot, segments: Any, commit: str, purge_through: int) -> Staged:
            assert isinstance(engine, SparkEngine)
            staged = engine.compact(spec, snapshot, segments, commit, purge_through)
            lake.run(spec)
            return staged

    slow = dataclasses.replace(lake.env, engine=lambda: Slow())  # type: ignore[arg-type, return-value]
    made, _ = compact(Table(slow, spec), read, Spending())
    assert made is not None
    assert made.version == read.version + 2


@pytest.mark.slow
def test_what_is_set_aside_as_beyond_retention_does_nothing(lake: Lake) -> None:
    """Neither in the history, beside a delete whose key change may be stored, nor to the old key of a key change."""
    spec = debezium(lake, history=True, write_mode="copy-on-write", tombstone_retention=100.0, quarantine_share=1.0)
    rows = [event("c", at, after={"id": at, "v": "x", "w": 1}) for at in range(1, 9)]
    lake.land(spec, 1, [*rows, event("u", 10, after={"id": 2, "v": GONE, "w": 2})])
    lake.run(spec)
    lake.land(spec, 2, [event("d", 40, before={"id": 1})])
    lake.run(spec)
    lake.now += 1000
    lake.land(spec, 3, [event("u", 50, after={"id": 3, "v": GONE, "w": 3})])
    lake.run(spec)
    assert lake.snapshot(spec).purged_to is not None
    late = [event("u", 35, after={"id": 1, "v": "late", "w": 4}), event("u", 36, before={"id": 5}, after={"id": 99, "v": "moved", "w": 5})]
    lake.land(spec, 4, [*late, event("d", 60, before={"id": 4})])
    counts = lake.run(spec).counts
    assert (1, 2) == (counts["applied"], counts["beyond_retention"])
    assert [2, 3, 5, 6, 7, 8] == [each["id"] for each in lake.rows(spec)]
    ended = {each["id"]: each["v"] for each in lake.rows(spec, "t_history") if not each["__is_current"] and each["id"] in (1, 99)}
    assert {1: "x"} == ended


@pytest.mark.slow
def test_a_value_that_came_after_its_delete_follows_a_later_key_change(lake: Lake) -> None:
    """The delete is in the base without a row. Its late create is the only event with the value that the new key's create leaves out."""
    spec = debezium(lake, write_mode="merge-on-read")
    steps = (
        [event("c", 5, after={"id": 9, "v": "x", "w": 0})],
        [event("d", 20, before={"id": 1, "v": None, "w": None}, commit=90)],
        [event("c", 10, after={"id": 1, "v": "long", "w": 1})],
        [event("c", 20, after={"id": 2, "v": GONE, "w": 2}, commit=90)],
    )
    for hour, rows in enumerate(steps):
        # the second run writes the tombstone into the base
        spec = lake.with_settings(spec, write_mode="copy-on-write" if hour == 1 else "merge-on-read")
        lake.land(spec, hour, rows)
        lake.run(spec)
    assert {2: "long", 9: "x"} == {each["id"]: each["v"] for each in lake.rows(spec)}
    assert 0 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_value_that_no_event_had_when_its_row_was_deleted_is_learned_later(lake: Lake) -> None:
    """The tombstone hides a row without the value. A late create has it: the deleted row shows it, and so does the row under its new key."""
    spec = debezium(lake, delete="soft", write_mode="merge-on-read")
    lake.land(spec, 0, [event("u", 10, after={"id": n, "v": GONE, "w": n}) for n in (1, 2)])
    lake.land(spec, 0, [event("d", 20 + n, before={"id": n}, commit=90) for n in (1, 2)], "part-1.json")
    lake.run(spec)
    lake.land(spec, 1, [event("c", 22, after={"id": 9, "v": GONE, "w": 9}, commit=90)])
    lake.run(spec)
    assert {1: (None, True), 2: (None, True), 9: (None, False)} == {each["id"]: (each["v"], each["_deleted"]) for each in lake.rows(spec)}
    lake.land(spec, 2, [event("c", 5, after={"id": n, "v": "long", "w": 0}) for n in (1, 2)])
    lake.run(spec)
    assert {1: ("long", 1), 2: ("long", 2), 9: ("long", 9)} == {each["id"]: (each["v"], each["w"]) for each in lake.rows(spec)}
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_key_change_that_is_sent_again_changes_nothing(lake: Lake) -> None:
    """Its old key has another row by then, and an event of a still older row comes again beside it, in a file whose name sorts last."""
    spec = debezium(lake, write_mode="merge-on-read")

    def move(lsn: int, old: int, new: int) -> list[dict[str, Any]]:
        return [event("d", lsn, before={"id": old, "v": None}, commit=lsn), event("c", lsn, after={"id": new, "v": GONE}, commit=lsn)]

    oldest, last = event("c", 5, after={"id": 2, "v": "old"}), move(30, 2, 3)
    gone = event("d", 7, before={"id": 2, "v": None})
    lake.land(spec, 0, [oldest, gone, event("c", 10, after={"id": 1, "v": "x"}), *move(20, 1, 2), *last, event("c", 40, after={"id": 2, "v": "new"})])
    lake.run(spec)
    lake.land(spec, 1, [oldest, *last], "z.json")
    lake.run(spec)
    assert {2: "new", 3: "x"} == {each["id"]: each["v"] for each in lake.rows(spec)}
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_late_truncate_ends_values_that_newer_rows_got_from_before_it(lake: Lake) -> None:
    """The row stays, because it is newer than the truncate. Its value was not: nothing known has it any more, until an event after the truncate does."""
    spec = debezium(lake, write_mode="merge-on-read", feed="net")
    lake.land(spec, 0, [event("c", 10, after={"id": n, "v": f"long {n}", "w": 0}) for n in (1, 2, 3)])
    lake.run(spec)
    lake.land(spec, 1, [event("u", 40, after={"id": n, "v": GONE, "w": 1}) for n in (1, 2)])
    lake.run(spec)
    assert "long 1" == {each["id"]: each["v"] for each in lake.rows(spec)}[1]
    lake.land(spec, 2, [event("t", 30)])
    lake.run(spec)
    assert {1: None, 2: None} == {each["id"]: each["v"] for each in lake.rows(spec)}
    assert 2 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)
    lake.land(spec, 3, [event("u", 35, after={"id": 1, "v": "after", "w": 0}), event("u", 20, after={"id": 2, "v": "before", "w": 0})])
    lake.run(spec)
    assert {1: "after", 2: None} == {each["id"]: each["v"] for each in lake.rows(spec)}
    assert [] == lake.problems(spec)


def told(lsn: int, key: int, n: int | None, score: int | None = None, default: int | None = None, op: str = "c") -> str:
    """A record with its schema. `default`: that of the column `score` in the schema, which lacks the column otherwise."""
    columns = [{"field": "id", "type": "int32"}, {"field": "n", "type": "int32", "optional": True}]
    columns += [{"field": "score", "type": "int32", "optional": True, "default": default}] if default is not None else []
    images = [{"field": part, "type": "struct", "optional": True, "fields": columns} for part in ("before", "after")]
    image = {"id": key, "n": n, **({"score": score} if default is not None else {})}
    record = event(op, lsn, **{"before" if op == "d" else "after": image})
    return json.dumps({"schema": {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}, "payload": record})


@pytest.mark.slow
@pytest.mark.parametrize("soft", [False, True])
def test_rows_from_before_a_column_read_its_first_default_whenever_either_arrives(lake: Lake, soft: bool) -> None:
    """A column arrives, an older event with another default later; rows of writers without it arrive before, between and after. Deleted rows too."""
    spec = debezium(lake, delete="soft" if soft else "hide", write_mode="merge-on-read")
    steps = (
        [told(10, 1, 1), told(11, 6, 6), told(26, 6, None, op="d")],
        [told(30, 2, 2, score=2, default=7)],
        [told(20, 3, 3, score=None, default=5), told(28, 7, 7)],
        [told(25, 4, 4), told(15, 5, 5), told(40, 1, 9, score=8, default=9, op="u")],
    )
    # the delete lies below the first event with the column until an older one comes
    expected = ({1: None, 6: None}, {1: 7, 2: 2, 6: 7}, {1: 5, 2: 2, 3: None, 6: 5, 7: None}, {1: 8, 2: 2, 3: None, 4: None, 5: 5, 6: 5, 7: None})
    for hour, (rows, right) in enumerate(zip(steps, expected, strict=True)):
        lake.land(spec, hour, rows)
        lake.run(spec)
        found = {each["id"]: each.get("score") for each in lake.rows(spec)}
        assert {key: score for key, score in right.items() if soft or key != 6} == found, hour
    assert [] == lake.problems(spec)
    # all in one run, and rewritten, they are the same
    again = debezium(lake, name="again", delete=spec.delete, write_mode="copy-on-write", history=True)
    for hour, rows in enumerate(steps):
        lake.land(again, hour, rows)
    lake.run(again)
    assert lake.rows(spec) == lake.rows(again)
    current = {each["id"]: each["score"] for each in lake.rows(again, "again_history") if each["__is_current"]}
    assert {key: score for key, score in expected[-1].items() if key != 6} == current


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True], ids=["in the base", "beside a compaction"])
def test_a_late_delete_is_remembered_by_a_row_without_a_value(lake: Lake, beside: bool) -> None:
    """It ends what older events had of the row, also those that come still later."""
    spec = debezium(lake, write_mode="merge-on-read", compact_every=1e9)
    rows = [event("c", n, after={"id": n, "v": "a"}) for n in (5, 6, 7, 8)]
    lake.land(spec, 0, [*rows, *([] if beside else [event("u", 20, after={"id": 1, "v": GONE})])])
    lake.run(spec)
    if beside:
        lake.land(spec, 1, [event("u", 20, after={"id": 1, "v": GONE}), *(event("u", 20 + n, after={"id": n, "v": "b"}) for n in (5, 6, 7, 8))])
        lake.run(spec)
    lake.land(spec, 2, [event("d", 15, before={"id": 1, "v": None})])
    if beside:
        compacted_beside(lake, spec)
    else:
        lake.run(spec)
    lake.land(spec, 3, [event("c", 10, after={"id": 1, "v": "first"})])
    lake.run(spec)
    assert None is next(row["v"] for row in lake.rows(spec) if row["id"] == 1)
    assert 1 == lake.snapshot(spec).unresolved
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_halves_of_a_key_change_meet_after_a_compaction_whatever_their_files_are_called(lake: Lake) -> None:
    """Of two Kafka partitions the one with the create may have the earlier file name. An update of the old key that is later still follows the row."""
    spec = debezium(lake, write_mode="merge-on-read", compact_every=1e9)
    lake.land(spec, 0, [event("c", 10, after={"id": 1, "v": "old"}), event("c", 1, after={"id": 9, "v": "a"})])
    lake.run(spec)
    lake.land(spec, 1, [event("d", 20, before={"id": 1, "v": None}, commit=90), event("u", 20, after={"id": 9, "v": "b"}, commit=91)], "part-1.json")
    lake.run(spec)
    compact(Table(lake.env, spec), lake.snapshot(spec), Spending())
    lake.land(spec, 1, [event("c", 20, after={"id": 2, "v": GONE}, commit=90)], "part-0.json")
    lake.run(spec)
    assert {2: "old", 9: "b"} == {row["id"]: row["v"] for row in lake.rows(spec)}
    lake.land(spec, 3, [event("u", 15, after={"id": 1, "v": "new"})])
    lake.run(spec)
    assert {2: "new", 9: "b"} == {row["id"]: row["v"] for row in lake.rows(spec)}
    assert [] == lake.problems(spec)
