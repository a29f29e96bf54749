"""Flat rows through the real flows: each test is one sentence of docs/semantics.md."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest

from compactor.core.model.errors import InputRefused, OrderRefused, SchemaRefused
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read import quarantine
from compactor.flows.table import Table
from compactor.flows.verbs import discard_table, reabsorb_table, rebuild_table
from compactor.flows.write import restore
from compactor.spark.decode.frame import Frame
from compactor.spark.input import files
from compactor.spark.rows import json_writers
from tests.parts.one_spark import AVRO
from tests.spark.added_defaults import TEXT_ALLOWED
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def up(id_: int, seq: int, v: str = "", op: str = "u") -> dict[str, object]:
    return {"id": id_, "seq": seq, "v": v or f"{id_}@{seq}", "op": op}


@pytest.mark.parametrize("name", ["__ts_us", "__source_ts_ms"])
def test_a_source_time_may_be_a_timestamp(lake: Lake, name: str) -> None:
    """Where a transform of Connect has made one of the number."""
    spec = lake.spec(order_by=("__lsn",))
    rows = [{"id": 1, "v": "a", "__lsn": 1, name: dt.datetime(2026, 11, 20, 13, 0, 0, 250_000, dt.timezone.utc)}]
    lake.land_parquet(spec, 1, rows, f"id BIGINT, v STRING, __lsn BIGINT, {name} TIMESTAMP")
    assert lake.run(spec).source_time == "2026-11-20T13:00:00.250000Z"
    assert [{"id": 1, "v": "a"}] == lake.rows(spec)


@pytest.mark.slow
def test_the_newest_row_per_key_wins_whatever_the_order_of_arrival(lake: Lake) -> None:
    """Late, duplicated and reordered events end in the same table, and every event is accounted for."""
    spec = lake.spec()
    lake.land(spec, 1, [up(1, 10), up(2, 20), up(1, 30)])
    first = lake.run(spec)
    assert {"read": 3, "applied": 2, "superseded": 1} == {k: v for k, v in first.counts.items() if v}

    lake.land(spec, 2, [up(1, 25), up(2, 20), up(3, 5)])
    second = lake.run(spec)

    assert [{"id": 1, "seq": 30, "v": "1@30"}, {"id": 2, "seq": 20, "v": "2@20"}, {"id": 3, "seq": 5, "v": "3@5"}] == lake.rows(spec)
    assert {"read": 3, "applied": 1, "late": 1, "duplicate": 1} == {k: v for k, v in second.counts.items() if v}
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_late_event_does_not_bring_a_deleted_row_back(lake: Lake) -> None:
    """A delete leaves a tombstone that a late older event meets, in the Delta and after a rewrite in the base."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 1, [up(n, n) for n in range(1, 9)])
    lake.run(spec)
    lake.land(spec, 2, [up(3, 50, op="d")])
    lake.run(spec)
    lake.land(spec, 3, [up(3, 40)])
    assert 1 == lake.run(spec).counts["late"]
    assert [1, 2, 4, 5, 6, 7, 8] == [row["id"] for row in lake.rows(spec)]

    rewritten = lake.with_settings(spec, write_mode="copy-on-write")
    lake.land(spec, 4, [up(3, 45), up(8, 60)])
    lake.run(rewritten)
    assert [1, 2, 4, 5, 6, 7, 8] == [row["id"] for row in lake.rows(spec)]
    assert 1 == sum(segment.tombstones for segment in lake.snapshot(spec).segments)


def test_an_idle_run_makes_no_snapshot(lake: Lake) -> None:
    """Nothing has landed: nothing is committed."""
    spec = lake.spec()
    lake.land(spec, 1, [up(1, 1)])
    lake.run(spec)
    assert ("idle", 1) == (lake.run(spec).outcome, lake.snapshot(spec).version)


@pytest.mark.slow
def test_ties_are_broken_by_file_then_row_and_counted(lake: Lake) -> None:
    """Two different events at one Position: the later file wins, in whatever run it comes."""
    spec = lake.spec()
    lake.land(spec, 1, [up(1, 7, "b")], "part-1.json")
    lake.run(spec)
    lake.land(spec, 1, [up(1, 7, "a"), up(1, 7, "c")], "part-0.json")
    report = lake.run(spec)
    assert "b" == lake.rows(spec)[0]["v"]
    assert (0, 1, 1) == (report.ties, report.counts["duplicate"], report.counts["late"])
    lake.land(spec, 2, [{"id": 2, "seq": 7, "v": "x", "w": None}, {"id": 2, "seq": 7, "v": None, "w": "x"}])
    report = lake.run(spec)
    assert (1, 0, 1) == (report.ties, report.counts["duplicate"], report.counts["superseded"])


@pytest.mark.slow
def test_operation_codes(lake: Lake) -> None:
    """Codes in any case; none is an upsert."""
    codes = {"c": True, "I": True, "Insert": True, "UPDATE": True, "r": True, "D": False, "delete": False, None: True}
    spec = lake.spec()
    lake.land(spec, 1, [{"id": number, "seq": 1, "op": code} for number, code in enumerate(codes)])
    lake.run(spec)
    assert [number for number, shown in enumerate(codes.values()) if shown] == [row["id"] for row in lake.rows(spec)]
    for name, code, number in (("never_set", None, 1), ("only_deletes", "D", 0)):
        other = lake.spec(name)
        lake.land(other, 1, [{"id": 1, "seq": 1, "op": code}])
        lake.run(other)
        assert number == len(lake.rows(other)), name


@pytest.mark.slow
def test_a_truncate_is_a_barrier(lake: Lake) -> None:
    """Rows below it go, later ones stay, latecomers below it stay away."""
    spec = lake.spec()
    lake.land(spec, 1, [up(1, 1), up(2, 2)])
    lake.run(spec)
    lake.land(spec, 2, [{"id": None, "seq": 10, "op": "t"}, up(3, 11), up(4, 9)])
    report = lake.run(spec)
    assert [3] == [row["id"] for row in lake.rows(spec)]
    lake.land(spec, 3, [up(5, 8)])
    lake.run(spec)
    assert [3] == [row["id"] for row in lake.rows(spec)]
    assert report.counts["read"] == sum(count for name, count in report.counts.items() if name != "read")


def test_metadata_columns_order_but_are_not_stored(lake: Lake) -> None:
    """`__lsn` and its like stay out of the view; `metadata_columns` brings one in."""
    spec = lake.spec(order_by=("__lsn",), metadata_columns=("__txid",))
    known = {"id": 1, "__txid": 9, "__deleted": "false"}
    lake.land(spec, 1, [{**known, "v": "x", "__lsn": 5}, {**known, "v": "y", "__lsn": 6}])
    lake.run(spec)
    assert [{"id": 1, "v": "y", "__txid": 9}] == lake.rows(spec)


@pytest.mark.slow
def test_composite_keys_and_odd_names(lake: Lake) -> None:
    """Names with dots, blanks, umlauts, capitals and 300 letters, by the rules of `core/model/names.py`, in the table, its history and its feed.

    The key has ten columns, and a column is nested four deep. Names of files are as long as a file system allows.
    """
    key = {"a.b": 1, "Größe": "x", **{f"k{at}": at if at % 2 else str(at) for at in range(8)}}
    names = ("c" * 300, "c" * 299 + "D", "ü" * 300)
    spec = lake.spec(key=(*key,), feed="net", history=True, write_mode="merge-on-read")

    def row(value: str, seq: int, **more: object) -> dict[str, object]:
        deep = [{"Ä b": {"c": [{"D e": seq, "ü" * 300: [[seq]]}]}}]
        return {**key, "se lect": value, "seq": seq, **dict.fromkeys(names, seq), "deep": deep, **more}

    lake.land(spec, 1, [row("p", 1), row("q", 2, Größe="y"), row("s", 2, k7=70)], file="f" * 250 + ".json")
    lake.run(spec)
    changed = row("r", 3, deep=[{"Ä b": {"c": [{"new": True}]}}])
    lake.land(spec, 2, [changed, row("s", 3, k7=70, op="d"), row("late", 0), "{oops"], file="ü" * 120 + ".json")
    lake.land(spec, 2, [row("r", 3)], file="f" * 250 + ".json")
    lake.run(spec)
    rows = lake.rows(spec)
    assert [("x", "r"), ("y", "q")] == [(row["größe"], row["se_lect"]) for row in rows]
    assert [[3] * 3, [2] * 3] == [[value for name, value in row.items() if len(name) > 100] for row in rows]
    assert all(len(field.name.encode()) <= 255 for field in lake.snapshot(spec).schema.fields)
    assert lake.unusable(spec) == [(4, "is not a JSON object")]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_string_of_more_than_twenty_million_characters(lake: Lake) -> None:
    """Jackson refuses it unless told otherwise, and only in those queries that use the string. As a row, and as an image in Debezium's envelope."""
    long = "x" * 20_000_001
    for name, record in (
        ("row", {"id": 1, "seq": 1, "v": long}),
        ("image", {"op": "c", "after": {"id": 1, "v": long}, "source": {"connector": "postgresql", "lsn": 5, "ts_ms": 1}, "ts_ms": 1}),
    ):
        spec = lake.spec(name=name) if name == "row" else lake.spec(name=name, envelope="debezium", order_by=())
        lake.land(spec, 1, [record])
        lake.run(spec)
        assert [20_000_001] == [len(row["v"]) for row in lake.rows(spec)]
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_column_that_appears_and_a_type_that_widens(lake: Lake) -> None:
    """Old rows read null in a new column; int → text, where it is allowed, makes a new generation of tables under the same view."""
    spec = lake.spec(policy=TEXT_ALLOWED)
    lake.land(spec, 1, [{"id": 1, "seq": 1, "n": 5}, {"id": 2, "seq": 1, "n": 6}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "seq": 2, "n": "six", "extra": True}])
    lake.run(spec)
    assert [(1, "5", None), (2, "six", True)] == [(row["id"], row["n"], row["extra"]) for row in lake.rows(spec)]
    assert 2 == lake.snapshot(spec).schema.generation
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_numbers_without_schema_stay_numbers(lake: Lake) -> None:
    """Whole in one file and fractions in another, with rows between that lack the column; text among them makes text of all. Nothing is hidden."""
    runs = [
        [{"id": n, "seq": n, "n": n, "m": [n], "t": n} for n in range(1, 5)],
        [{"id": 1, "seq": 20, "n": 1.5, "m": [0.5], "t": "one"}, {"id": 2, "seq": 21, "op": "d"}],
        [{"id": 3, "seq": 30, "n": 7, "m": [7], "t": 3}, {"id": 4, "seq": 31, "n": 2.5}, {"id": 5, "seq": 2, "n": 3, "m": [1, 0.5], "t": 5}],
    ]
    expected = [(1, 1.5, [0.5], "one"), (3, 7, [7], "3"), (4, 2.5, None, None), (5, 3, [1, 0.5], "5")]
    for name, groups in (("apart", runs), ("together", [[row for rows in runs for row in rows]])):
        spec = lake.spec(name=name, policy=TEXT_ALLOWED)
        for hour, rows in enumerate(groups):
            lake.land(spec, hour, rows)
            lake.run(spec)
        assert expected == [(row["id"], row["n"], row["m"], row["t"]) for row in lake.rows(spec)]
        assert [("n", "double"), ("m", "array<double>"), ("t", "string")] == [
            (f.name, f.type) for f in lake.snapshot(spec).schema.fields if f.name in "nmt"
        ]
        assert [] == lake.problems(spec)


NOT_FINITE = ("NaN", "Infinity", "-Infinity")


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_doubles_and_text_stays_text(lake: Lake) -> None:
    """Connect writes them as texts. Beside numbers, alone in a later file, among whole numbers; a text column may have the word too."""
    first = [{"id": 1, "seq": 1, "n": 1.5, "whole": 7, "word": "NaN", "late": "NaN", "t": 'a: "NaN"'}, {"id": 2, "seq": 1, "n": 2, "word": None}]
    second = [{"id": at, "seq": 2, "n": value, "whole": value, "word": value, "t": value} for at, value in enumerate(NOT_FINITE, 3)]
    third = [{"id": 1, "seq": 3, "n": "NaN", "whole": 1, "word": "x", "t": "x", "late": "y"}, {"id": 6, "seq": 3, "n": 0.5, "t": "Infinity"}]
    expected = [
        (1, "NaN", 1, "x", "y", "x"),
        (2, 2, None, None, None, None),
        *((at, value, value, value, None, value) for at, value in enumerate(NOT_FINITE, 3)),
        (6, 0.5, None, None, None, "Infinity"),
    ]
    for name, groups in (("apart", [first, second, third]), ("together", [[*first, *second, *third]])):
        spec = lake.spec(name=name)
        for hour, rows in enumerate(groups):
            lake.land(spec, hour, rows)
            assert lake.run(spec).error is None
        assert expected == [tuple(row[column] for column in ("id", "n", "whole", "word", "late", "t")) for row in lake.rows(spec)]
        assert [("n", "double"), ("whole", "double"), ("word", "string"), ("late", "string"), ("t", "string")] == [
            (f.name, f.type) for f in lake.snapshot(spec).schema.fields if f.name in ("n", "whole", "word", "late", "t")
        ]
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_an_empty_array_is_not_lost_where_no_value_tells_its_type(lake: Lake) -> None:
    """A column that held only nulls or empty arrays is typed as other files, or the table, have it."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": 1, "tags": ["a"]}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "seq": 2, "tags": []}])
    lake.run(spec)
    assert [["a"], []] == [row["tags"] for row in lake.rows(spec)]


NESTED: dict[str, list[Any]] = {"o": [{}, {"q": 1}, {"q": 1.5}, {"q": 2.5}], "arr": [[], [1.5], [3], [1, 2.5]]}
"""Column → values of records that have different columns: nothing shows the type of the first, and two types follow."""


@pytest.mark.slow
@pytest.mark.parametrize("column", NESTED)
def test_any_split_gives_the_same_values_inside_of_objects_and_arrays(lake: Lake, column: str) -> None:
    """Also where another column is text as the source wrote it (`n`, a bigint for some writers and a double for others)."""
    rows = [{"id": at, "seq": at, "n": n, column: NESTED[column][at], name: 1} for at, (n, name) in enumerate(zip((1, 2.5, 7, 8.5), "abcc"))]
    results = []
    for number, runs in enumerate(([[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 2], [1, 0]])):
        spec = lake.spec(f"t{number}")
        for hour, run in enumerate(runs, 1):
            lake.land(spec, hour, [rows[at] for at in run])
            lake.run(spec)
        results.append([(row["n"], row[column]["q"] if column == "o" and row[column] else row[column]) for row in lake.rows(spec)])
        assert [] == lake.unusable(spec)
    values: list[Any] = [None, 1.0, 1.5, 2.5] if column == "o" else [[], [1.5], [3.0], [1.0, 2.5]]
    assert results[0][1:] == results[1][1:] == results[2][1:] == list(zip((1.0, 2.5, 7.0, 8.5), values))[1:]
    assert [row[0] for row in results] == [(1.0, values[0])] * 3


BAD = {
    "nothing but rubbish": (["{oops"], InputRefused, "record 1: is not a JSON object"),
    "unknown operation": ([{"id": 1, "seq": 1, "op": "zap"}], InputRefused, "unknown operation zap"),
    "no key column": ([{"x": 1, "seq": 1}], SchemaRefused, "'id'"),
    "a float key": ([{"id": 1.5, "seq": 1}], SchemaRefused, "double"),
}


@pytest.mark.slow
def test_bad_records_are_refused_and_nothing_is_lost(lake: Lake) -> None:
    """The error names table and file or column; the files stay in landing; once repaired the run goes on."""
    for number, (rows, error, words) in enumerate(BAD.values()):
        spec = lake.spec(f"t{number}")
        path = lake.land(spec, 1, rows)
        with pytest.raises(error, match=words) as caught:
            lake.run(spec)
        assert f"table {spec.name}" in str(caught.value)
        assert [path.name] == lake.landed(spec)
        lake.land(spec, 1, [up(1, 1)])
        assert "committed" == lake.run(spec).outcome


DELETED = {
    "a status": ("status = 'deleted'", "status", "active", "deleted"),
    "a time": ("gone_at IS NOT NULL", "gone_at", None, "2024-03-05"),
    "a flag, any spelling": ("Gone", "gone", False, True),
    "a column called like one of ours": ("_op = 'x' AND id > 0", "_op", "u", "x"),
}


@pytest.mark.slow
def test_a_condition_on_the_row_deletes_it(lake: Lake) -> None:
    """The column stays visible, other values are upserts, a later row brings the key back; a late row does not. In JSON, CSV and Parquet."""
    for number, (condition, column, alive, dead) in enumerate(DELETED.values()):
        spec = lake.spec(f"t{number}", delete_when=condition)
        # rows before the first with a value
        lake.land(spec, 0, [{"id": 1, "seq": 0, column: None if column != "_op" else "u", "v": "a"}])
        lake.run(spec)
        rows = [{"id": at, "seq": 1, column: alive, "v": "a"} for at in range(1, 5)]
        lake.land(spec, 1, rows)
        lake.land(
            spec, 2, [{"id": 1, "seq": 2, column: dead, "v": "b"}, {"id": 2, "seq": 2, column: alive, "v": "b"}, {"id": 3, "seq": 5, column: dead}]
        )
        lake.run(spec)
        lake.land(spec, 3, [{"id": 1, "seq": 3, column: alive, "v": "c"}, {"id": 3, "seq": 4, column: alive, "v": "late"}])
        lake.run(spec)
        assert [(1, 3, "c"), (2, 2, "b"), (4, 1, "a")] == [(row["id"], row["seq"], row["v"]) for row in lake.rows(spec)]
        assert {repr(alive)} == {repr(row[column]) for row in lake.rows(spec)}
        assert [] == lake.problems(spec)
        if number == 0:
            # a column that these files lack and the table has is null; rows without it are upserts
            lake.land_parquet(spec, 4, [{"id": 4, "seq": 9, "v": "d"}], "id BIGINT, seq BIGINT, v STRING")
            lake.land(spec, 5, ["id,seq,v,status", "2,9,x,deleted"], file="part-0.csv")
            lake.run(spec)
            assert [(1, "c"), (4, "d")] == [(row["id"], row["v"]) for row in lake.rows(spec)]
            assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_condition_sees_the_columns_in_their_types(lake: Lake) -> None:
    """As the view has them. A value of another type makes no delete: its record waits in quarantine, and the others go on."""
    spec = lake.spec(
        delete_when="gone > timestamp'2020-01-01' OR n / 2 > 50", quarantine_share=0.9, types=(("gone", "timestamp_millis"), ("n", "int"))
    )
    rows = [{"id": at, "seq": 1, "gone": None, "n": 1} for at in range(1, 6)]
    rows += [{"id": 1, "seq": 2, "gone": 1_700_000_000_000, "n": 1}, {"id": 2, "seq": 2, "gone": None, "n": 200}]
    lake.land(spec, 1, [*rows, {"id": 3, "seq": 2, "gone": "", "n": 1}, {"id": 4, "seq": 2, "gone": None, "n": "n/a"}])
    lake.run(spec)
    assert [(3, 2), (4, 1), (5, 1)] == [(row["id"], row["seq"]) for row in lake.rows(spec)]
    assert ["the value of n is not of type int"] == [reason for _, reason, *_ in lake.unusable(spec)]


@pytest.mark.slow
def test_a_condition_on_a_member_that_the_rows_of_a_run_lack(lake: Lake) -> None:
    """It is null, as a column would be, if the table has it."""
    spec = lake.spec(delete_when="o.p.status = 'deleted'")
    lake.land(spec, 1, [{"id": at, "seq": 1, "o": {"x": 1, "p": {"status": "on", "y": 2}}} for at in (1, 2, 3)])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 2, "o": {"x": 5, "p": {"y": 3}}}, {"id": 2, "seq": 2, "o": {"x": 7}}, {"id": 3, "seq": 2, "o": {}}])
    lake.run(spec)
    assert [(1, 5, 3), (2, 7, None), (3, None, None)] == [
        (row["id"], (row["o"] or {}).get("x"), ((row["o"] or {}).get("p") or {}).get("y")) for row in lake.rows(spec)
    ]
    lake.land(spec, 3, [{"id": 2, "seq": 3, "o": {"p": {"status": "deleted"}}}])
    lake.run(spec)
    assert [1, 3] == [row["id"] for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


REFUSED = {
    "no such column": ("stauts = 'deleted'", "names stauts, which neither the landed rows nor the table have. The columns are id, seq"),
    "no condition": ("v", "is no SQL condition on a row"),
    "no SQL": ("v =", "is no SQL condition on a row"),
}


@pytest.mark.slow
def test_a_condition_that_names_no_column_is_refused(lake: Lake) -> None:
    """A mistyped name would keep every deleted row. The files stay in landing."""
    for number, (condition, words) in enumerate(REFUSED.values()):
        spec = lake.spec(f"t{number}", delete_when=condition)
        path = lake.land(spec, 1, [up(1, 1)])
        with pytest.raises(InputRefused, match=words):
            lake.run(spec)
        assert [path.name] == lake.landed(spec)


UNUSABLE = {
    "not JSON": ("{oops", "is not a JSON object"),
    "unknown operation": ({"id": 1, "seq": 8, "op": "zap"}, "unknown operation zap"),
    "null order": ({"id": 1, "seq": None, "v": "x"}, "the order (seq)"),
    "null key": ({"id": None, "seq": 8, "v": "x"}, "column of the key"),
}


@pytest.mark.slow
def test_a_record_that_cannot_be_used_waits_in_quarantine(lake: Lake) -> None:
    """The rest of its file is absorbed; records are described, counted, and taken again from a repaired copy. All cases in one file."""
    spec, number = lake.spec(), len(UNUSABLE)
    good = [up(at, 1) for at in range(number)]
    lake.land(spec, 1, [each for row, (record, _) in zip(good, UNUSABLE.values()) for each in (row, record)])
    report = lake.run(lake.with_settings(spec, quarantine_share=1.0))
    assert (2 * number, number, number) == (report.counts["read"], report.counts["applied"], report.counts["quarantined"])
    assert [*range(number)] == [row["id"] for row in lake.rows(spec)]
    assert [] == lake.landed(spec)
    (waits,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    told = quarantine.reasons(Table(lake.env, spec), waits)["unusable"]
    for at, (each, (record, words)) in enumerate(zip(told, UNUSABLE.values(), strict=True)):
        assert 2 * at + 2 == each["record"]
        assert words in each["reason"]
        assert each["text"] == (record if isinstance(record, str) else json.dumps(record))
    assert [] == lake.problems(spec)

    repaired = [each for row in good for each in (row, up(row["id"], 9))]
    lake.env.storage.write(waits.repaired, "\n".join(json.dumps(row) for row in repaired).encode())
    lake.replay(spec)
    assert [(at, 9) for at in range(number)] == [(row["id"], row["seq"]) for row in lake.rows(spec)]
    assert [] == quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("split", [None, 256], ids=["whole files", "files in blocks"])
def test_the_record_number_of_an_error_counts_in_its_own_file(lake: Lake, split: int | None) -> None:
    """Spark reads several small files in one task, and one large file in several. Line 6 of a file is record 6 whatever else a run reads."""
    spec = lake.spec(quarantine_share=1.0)
    for at in range(5):
        rows = [up(100 * at + number, 1, v="x" * 40 * at) for number in range(12)]
        lake.land(spec, 1, [*rows[:5], "{oops", *rows[5:], {"id": None, "seq": 8, "v": "x"}], file=f"part-{at}.json")
        lake.land(spec, 1, [f"{1000 + 100 * at},1,{'x' * at}", ",1,no key"], file=f"part-{at}.csv")
        header = Path(spec.landing) / "increment_2024030501" / f"part-{at}.csv"
        header.write_text("id,seq,v\n" + header.read_text())
    if AVRO:
        avro_file(Path(spec.landing) / "increment_2024030501" / "part-1.avro", [{"id": 1, "seq": 1, "v": "a"}, {"id": None, "seq": 1, "v": "b"}])
        avro_file(Path(spec.landing) / "increment_2024030501" / "part-2.avro", [{"id": None, "seq": 1, "v": "c"}])
    before = {name: lake.spark.conf.get(name) for name in ("spark.sql.files.maxPartitionBytes",)}
    if split:
        lake.spark.conf.set("spark.sql.files.maxPartitionBytes", str(split))
    try:
        lake.run(spec)
    finally:
        for name, value in before.items():
            lake.spark.conf.set(name, str(value))
    table = Table(lake.env, spec)
    numbers = {
        file.path.rpartition("/")[2]: [each["record"] for each in quarantine.reasons(table, file)["unusable"]]
        for file in quarantine.waiting(table, lake.snapshot(spec))
    }
    expected = {f"part-{at}.{kind}": records for at in range(5) for kind, records in (("json", [6, 14]), ("csv", [2]))}
    assert numbers == {**expected, **({"part-1.avro": [2], "part-2.avro": [1]} if AVRO else {})}


def avro_file(path: Path, rows: list[dict[str, object]]) -> None:
    """Write an Avro file of nullable columns."""
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in (("id", "long"), ("seq", "long"), ("v", "string"))]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "t", "fields": fields}), rows)


@pytest.mark.skipif(not AVRO, reason="no reader of Avro for this Spark")
@pytest.mark.slow
def test_an_avro_column_that_only_is_null_waits_for_a_type(lake: Lake) -> None:
    """Later files give it; a file whose schema cannot be used is named, and the others go on."""
    spec = lake.spec(format="avro", quarantine_share=0.9)

    def land(hour: int, file: str, row: dict[str, object], *members: dict[str, object]) -> None:
        fields = [{"name": "id", "type": "long"}, {"name": "seq", "type": "long"}, *members]
        out = io.BytesIO()
        fastavro.writer(out, fastavro.parse_schema({"type": "record", "name": "t", "fields": fields}), [row])
        lake.land(spec, hour, [], file).write_bytes(out.getvalue())

    land(1, "a.avro", {"id": 1, "seq": 1, "v": None}, {"name": "v", "type": "null"})
    land(1, "b.avro", {"id": 2, "seq": 1, "t": None}, {"name": "t", "type": ["null", "t"]})
    lake.run(spec)
    assert [{"id": 1, "seq": 1}] == lake.rows(spec)
    (waits,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert "column t.t: the record t contains itself" in str(waits.reason), waits
    land(2, "a.avro", {"id": 3, "seq": 2, "v": 7}, {"name": "v", "type": ["null", "int"]})
    land(2, "b.avro", {"id": 1, "seq": 2, "v": None}, {"name": "v", "type": ["null"]})
    lake.run(spec)
    assert [{"id": 1, "seq": 2, "v": None}, {"id": 3, "seq": 2, "v": 7}] == lake.rows(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_value_that_is_not_of_the_declared_type_is_not_silently_null(lake: Lake) -> None:
    """The record waits in quarantine instead, until it is given up."""
    schema = {
        "type": "record",
        "name": "t",
        "fields": [{"name": "id", "type": "long"}, {"name": "seq", "type": "long"}, {"name": "n", "type": "int"}],
    }
    spec = lake.spec(avro_schema=json.dumps(schema))
    lake.land(spec, 1, [{"id": 1, "seq": 1, "n": 5}, {"id": 2, "seq": 2, "n": "five"}, {"id": 3, "seq": 3, "n": None}])
    assert 1 == lake.run(spec).counts["quarantined"]
    assert [(1, 5), (3, None)] == [(row["id"], row["n"]) for row in lake.rows(spec)]
    discard_table(Table(lake.env, spec), [file.path for file in quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))], records=True)
    assert [] == lake.unusable(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_files_without_events_are_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A README and a cut Parquet file: the archive has empty files of their names, which a full recompute and an erase read as no events."""
    spec = lake.spec()
    folder = lake.land(spec, 1, [up(1, 1)]).parent
    (folder / "README.txt").write_text("about these files")
    (folder / "cut.parquet").write_bytes(b"PAR1, and no end")
    os.utime(folder / "cut.parquet", (0, 0))
    lake.run(spec)
    waiting = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert sorted(item.path.rpartition("/")[2] for item in waiting) == ["README.txt", "cut.parquet"]
    discard_table(Table(lake.env, spec), [item.path for item in waiting])
    assert [] == quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    lake.land(spec, 2, [up(2, 2)])
    lake.run(spec)
    assert [1, 2] == [row["id"] for row in lake.rows(spec)]
    assert [] == lake.problems(spec)
    monkeypatch.setenv("COMPACTOR_HASH_KEY", "a secret of some length")
    erase(Table(lake.env, spec), Request((("1",),), now=True))
    assert [2] == [row["id"] for row in lake.rows(spec)]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["part-9.json.gz", "part-9.parquet"])
def test_a_cut_file_waits_in_quarantine(lake: Lake, file: str) -> None:
    """Of several files the unreadable one is found and named; the others are absorbed; repaired, it is taken again."""
    spec = lake.spec()
    if file.endswith("parquet"):
        good = lake.land_parquet(spec, 1, [{"id": 1, "seq": 1}], "id INT, seq INT")
        path, whole = good.parent / file, lake.land_parquet(spec, 1, [{"id": 2, "seq": 2}], "id INT, seq INT")
        content = whole.read_bytes()
        whole.unlink()
    else:
        lake.land(spec, 1, [up(1, 1)], "part-1.json.gz")
        path = lake.land(spec, 1, [up(n, n) for n in range(2, 5000)], file)
        content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    # a young one may still be being written: tests/spark/test_dms.py
    os.utime(path, (0, 0))
    lake.run(spec)
    assert [1] == [row["id"] for row in lake.rows(spec)]
    (held,) = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert held.path.endswith(file)
    assert held.records is None
    assert [] == lake.problems(spec)

    with pytest.raises(InputRefused, match=file):
        lake.replay(spec)
    lake.env.storage.write(str(held.location), content)
    lake.replay(spec)
    assert 2 in {row["id"] for row in lake.rows(spec)}
    assert [] == quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("archive", ["move", "keep"])
def test_a_file_that_was_given_up_is_never_opened_again(lake: Lake, archive: str) -> None:
    """Of any format: not by a rebuild, not by a run that makes numbers text, not by `verify`, not once a restore has brought it back."""
    spec = lake.spec(archive=archive, policy=TEXT_ALLOWED)
    lake.land(spec, 1, [{"id": 1, "seq": 1, "n": 1}])
    for name in ("README.txt", "x.parquet"):
        os.utime(lake.land(spec, 1, ["PAR1 no data"], name), (0, 0))
    lake.run(spec)
    table = Table(lake.env, spec)
    waiting = quarantine.waiting(table, lake.snapshot(spec))
    discard_table(table, [file.path for file in waiting])
    assert [] == lake.problems(spec)
    assert "published" == rebuild_table(table).outcome
    restore.restore(table, restore.at_version(table, 1))
    back = quarantine.waiting(table, lake.snapshot(spec))
    assert [(file.path, None, file.reason) for file in waiting] == [(file.path, file.records, file.reason) for file in back]
    assert "committed" == reabsorb_table(table).outcome
    lake.land(spec, 2, [{"id": 2, "seq": 2, "n": "two"}])
    lake.run(spec)
    assert ["1", "two"] == [row["n"] for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


def test_a_folder_that_fits_no_pattern_is_refused(lake: Lake) -> None:
    """Files that no increment claims are an error, not silence."""
    spec = lake.spec()
    path = lake.root / "t" / "incremental" / "2024-03-05" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(InputRefused, match="increments:"):
        lake.run(spec)


def test_a_keyless_table_takes_inserts_and_refuses_changes(lake: Lake) -> None:
    """Flat rows have no before image; the same file twice is absorbed once."""
    spec = lake.spec(key=())
    rows = [{"v": "a", "seq": 1}, {"v": "a", "seq": 2}, {"v": "b", "seq": 3}]
    lake.land(spec, 1, rows)
    lake.run(spec)
    lake.land(spec, 2, rows, "again.json")
    assert 3 == lake.run(spec).counts["duplicate"]
    assert ["a", "a", "b"] == sorted(row["v"] for row in lake.rows(spec))
    lake.land(spec, 3, [{"v": "a", "seq": 4, "op": "d"}])
    with pytest.raises(InputRefused, match="before image"):
        lake.run(spec)


@pytest.mark.slow
def test_a_sink_that_writes_a_file_again_with_more_records_doubles_none(lake: Lake) -> None:
    """Kafka Connect does after a crash; a name with topic, partition and offset has the same records each time. No repaired copy may change lines."""
    spec = lake.spec(key=(), types=(("n", "int"),), quarantine_share=1.0)
    lake.land(spec, 1, [{"n": 1, "seq": 1}, {"n": "one", "seq": 2}, {"n": 1, "seq": 3}], "t+0+0000000040.json")
    lake.run(spec)
    lake.land(spec, 1, [{"n": 1, "seq": 1}, {"n": "one", "seq": 2}, {"n": 1, "seq": 3}, {"n": 4, "seq": 4}], "t+0+0000000040.json")
    report = lake.run(spec)
    assert (1, 2) == (report.counts["applied"], report.counts["duplicate"])
    assert [1, 1, 4] == [row["n"] for row in lake.rows(spec)]

    # the topic was created anew; somebody copied a file
    lake.land(spec, 2, [{"n": 5, "seq": 5}], "t+0+0000000040.json")
    lake.land(spec, 3, [{"n": 5, "seq": 5}], "t+0+0000000040 (1).json")
    lake.run(spec)
    assert [1, 1, 4, 5] == [row["n"] for row in lake.rows(spec)]

    waits, *_ = quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))
    lake.env.storage.write(waits.repaired, b'{"n": 2, "seq": 2}')
    with pytest.raises(InputRefused, match=r"may have other lines.* --discard --records"):
        lake.replay(spec, waits.path)


@pytest.mark.slow
def test_numbers_written_as_text_order_as_numbers(lake: Lake) -> None:
    """9 comes before 10, in one run and in two; later text that is none waits in quarantine; numbers among text have no order."""
    for name, groups in (("one", [["9", "10"]]), ("two", [["9"], ["10", "not yet"]])):
        spec = lake.spec(name=name, quarantine_share=1.0)
        for hour, told in enumerate(groups):
            lake.land(spec, hour, [{"id": 1, "seq": seq, "v": f"v{seq}"} for seq in told])
            lake.run(spec)
        assert ["v10"] == [row["v"] for row in lake.rows(spec)]
        assert [("seq", "bigint")] == list(lake.snapshot(spec).order)
    spec = lake.spec(name="mixed")
    lake.land(spec, 1, [{"id": 1, "seq": "7"}, {"id": 2, "seq": "seven"}])
    with pytest.raises(
        OrderRefused,
        match=r"other text in 1,.* The first text is 'seven': increment_2024030501/part-0.json, record 2. Declare `types: {seq: bigint}`",
    ):
        lake.run(spec)


@pytest.mark.slow
def test_an_lsn_written_as_text_orders_as_a_number(lake: Lake) -> None:
    """PostgreSQL's `0/FF` comes before `0/100`; SQL Server's fixed-width text is compared as it is."""
    for name, older, newer in (("postgresql", "0/FF", "0/100"), ("sqlserver", "00000027:00000ac0:0002", "00000027:00000ac0:0010")):
        spec = lake.spec(name=name, order_by=("lsn",))
        lake.land(spec, 1, [{"id": 1, "v": "new", "lsn": newer}, {"id": 1, "v": "old", "lsn": older}])
        lake.run(spec)
        assert ["new"] == [row["v"] for row in lake.rows(spec)]


@pytest.mark.slow
def test_columns_called_like_an_envelopes_are_columns_of_flat_rows_with_a_schema(lake: Lake) -> None:
    """Connect's JSON: `op` and `after` are the source's own."""
    spec = lake.spec()
    fields = [{"field": name, "type": "string" if name in ("op", "after") else "int32"} for name in ("id", "seq", "op", "after")]
    payload = {"id": 1, "seq": 1, "op": "u", "after": "lunch"}
    lake.land(spec, 1, [{"schema": {"type": "struct", "name": "t.Value", "fields": fields}, "payload": payload}])
    lake.run(spec)
    assert ["lunch"] == [row["after"] for row in lake.rows(spec)]


@pytest.mark.slow
def test_a_payload_column_called_op_is_a_column_where_a_connector_adds_its_own(lake: Lake) -> None:
    """An audit table: `__op` says what happened to the row, `op` is what the row tells. The same however the files are split into runs."""
    known = {"__deleted": "false", "__lsn": 1}
    rows = [
        {"id": 1, "seq": 1, "op": "DELETE", "__op": "c", **known},
        {"id": 2, "seq": 1, "op": "INSERT", "__op": "c", **known},
        {"id": 2, "seq": 2, "op": "INSERT", "__op": "d", **known, "__deleted": "true"},
    ]
    # hand-made rows from before the connector: there `op` is the operation
    first = [{"id": 3, "seq": 1, "op": "c"}, {"id": 4, "seq": 1, "op": "c"}, {"id": 4, "seq": 2, "op": "d"}]
    for name, groups in (("apart", [first, rows]), ("together", [[*first, *rows]]), ("backwards", [rows, first])):
        spec = lake.spec(name=name)
        for hour, group in enumerate(groups):
            lake.land(spec, hour, group)
            lake.run(spec)
        assert [(1, "DELETE"), (3, None)] == sorted((row["id"], row["op"]) for row in lake.rows(spec))
        assert [] == lake.problems(spec)
    refused = {
        "op and Op": ({"id": 1, "seq": 1, "op": "c", "Op": "c"}, "columns op and Op; set `op:`"),
        "a connector without its operation": ({"id": 1, "seq": 1, "op": "DELETE", "__deleted": "false"}, "set `op: op`"),
    }
    for at, (row, words) in enumerate(refused.values()):
        spec = lake.spec(name=f"refused{at}")
        lake.land(spec, 1, [row])
        with pytest.raises(InputRefused, match=re.escape(words)):
            lake.run(spec)
        lake.run(lake.with_settings(spec, op="op"))
        assert [] == lake.landed(spec)


@pytest.mark.slow
def test_of_members_with_one_name_the_last_counts_inside_of_objects_too(lake: Lake) -> None:
    """A type with two of them would make a table that no engine reads."""
    spec = lake.spec()
    texts = ('{"id":1,"v":{"a":1,"a":2},"seq":1}', '{"id":2,"v":{"a":1,"a":3,"A":4},"l":[{"b":1,"b":"x"}],"seq":2}', '{"id":2,"id":3,"seq":3}')
    lake.land(spec, 1, list(texts))
    lake.run(spec)
    assert [(1, (2, None)), (2, (3, 4)), (3, None)] == sorted((row["id"], row["v"] and tuple(row["v"].values())) for row in lake.rows(spec))
    assert [[{"b": "x"}]] == [row["l"] for row in lake.rows(spec) if row["l"]]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_json_keys_that_differ_in_case_only_are_two_columns(lake: Lake) -> None:
    """The second is `val_2`, as an order, in a key, inside structs and among unknown values too; in one run and in several."""
    rows = [
        {"id": 1, "Id": "x", "seq": 1, "val": 1, "Val": "two", "s": {"a": 1, "A": 2}, "OP": "payload"},
        {"id": 1, "Id": "x", "seq": 3, "Val": "__debezium_unavailable_value", "val": 5, "s": {"a": 3, "A": 4}, "op": "u"},
        {"id": 1, "Id": "y", "SEQ": 9, "seq": 2, "val": 7, "Val": "eight"},
    ]
    expected = [("x", 5, "two", {"a": 3, "a_2": 4}), ("y", 7, "eight", None)]
    for name, groups in (("one", [rows]), ("two", [rows[:2], rows[2:]])):
        spec = lake.spec(name=name, key=("id", "Id"))
        for hour, group in enumerate(groups):
            lake.land(spec, hour, group)
            lake.run(spec)
        found = sorted(((row["id_2"], row["val"], row["val_2"], row["s"]) for row in lake.rows(spec)), key=str)
        assert expected == found
        assert [] == lake.problems(spec)
    spec = lake.spec(name="ordered", order_by=("SEQ",))
    lake.land(spec, 1, [{"id": 1, "seq": 9, "SEQ": 1}, {"id": 1, "seq": 1, "SEQ": 2}])
    lake.run(spec)
    assert [(1, 2)] == [(row["seq"], row["seq_2"]) for row in lake.rows(spec)]
    spec = lake.spec(name="nested")
    lake.land(spec, 1, [{"id": 1, "seq": 1, "s": {"a": 1}, "a": 1}, {"id": 2, "seq": 1, "s": {"A": 1}, "A": 1}])
    with pytest.raises(SchemaRefused, match="in case only"):
        lake.run(spec)


@pytest.mark.slow
def test_empty_arrays_and_objects_wait_for_a_value_that_shows_their_type(lake: Lake) -> None:
    """Until then they are not shown, and nothing of them is lost. Beside a scalar they are text."""
    spec = lake.spec()
    empty = {"tags": [], "items": [], "attrs": {}, "deep": [[]], "mixed": []}
    lake.land(spec, 1, [{"id": 1, "seq": 1, **empty}, {"id": 2, "seq": 1, **dict.fromkeys(empty)}])
    lake.run(spec)
    assert lake.rows(spec) == [{"id": 1, "seq": 1}, {"id": 2, "seq": 1}]
    full = {"tags": ["x"], "items": [{"sku": "s"}], "attrs": {"k": "v"}, "deep": [[1]], "mixed": "t"}
    lake.land(spec, 2, [{"id": 3, "seq": 2, **full}])
    lake.run(spec)
    lake.land(spec, 3, [{"id": 4, "seq": 3, **empty}])
    lake.run(spec)
    then = {**empty, "attrs": {"k": None}, "mixed": "[]"}
    assert lake.rows(spec) == [
        {"id": 1, "seq": 1, **then}, {"id": 2, "seq": 1, **dict.fromkeys(empty)}, {"id": 3, "seq": 2, **full}, {"id": 4, "seq": 3, **then},
    ]  # fmt: skip
    assert lake.problems(spec) == []


@pytest.mark.slow
def test_empty_texts_are_texts(lake: Lake) -> None:
    """Also where a column, a member or an array has no others, in the first run as beside other values later. Beside numbers they mean null."""
    spec = lake.spec()
    empty = {"s": "", "st": {"a": 1, "t": ""}, "only": {"t": ""}, "l": ["", None]}
    lake.land(spec, 1, [{"id": 1, "seq": 1, **empty, "n": "", "x": ""}, {"id": 2, "seq": 1, **dict.fromkeys(empty), "n": 5, "x": 'a:,\\""'}])
    lake.run(spec)
    first = {"id": 1, "seq": 1, **empty, "n": None, "x": ""}
    assert lake.rows(spec) == [first, {"id": 2, "seq": 1, **dict.fromkeys(empty), "n": 5, "x": 'a:,\\""'}]
    lake.land(spec, 2, [{"id": 2, "seq": 2, "s": "x", "st": {"a": 2, "t": "y"}, "only": {"t": "z"}, "l": ["w"], "n": 6, "x": ""}])
    lake.run(spec)
    second = {"id": 2, "seq": 2, "s": "x", "st": {"a": 2, "t": "y"}, "only": {"t": "z"}, "l": ["w"], "n": 6, "x": ""}
    assert (lake.rows(spec), lake.problems(spec)) == ([first, second], [])


def kafka(offset: int, key: object, value: object, **more: object) -> dict[str, object]:
    """A whole record of a topic."""
    return {"topic": "t", "partition": 0, "offset": offset, "key": key, "value": value, **more}


@pytest.mark.slow
def test_a_record_without_value_deletes_the_row_of_its_key(lake: Lake) -> None:
    """The one form of a delete in a compacted topic, and in what ExtractNewRecordState writes by default; alone in a run, too."""
    spec = lake.spec(container="kafka", order_by=("offset",))
    lake.land(spec, 1, [kafka(at, {"id": at}, {"id": at, "v": f"v{at}"}) for at in range(4)] + [kafka(4, {"id": 1}, None)])
    lake.run(spec)
    lake.land(spec, 2, [kafka(5, json.dumps({"id": 2}), None)])
    assert lake.run(spec).counts["applied"] == 1
    # the key may be the value itself, as ExtractField leaves it
    lake.land(spec, 2, [kafka(6, {"id": 9}, {"id": 9, "v": "goes"}), kafka(7, 9, None)], "b.json")
    lake.run(spec)
    lake.land(spec, 3, [kafka(8, {"id": 1}, {"id": 1, "v": "again"}), kafka(9, {"id": 0}, {"id": 0, "v": "new"})])
    lake.run(spec)
    assert {row["id"]: row["v"] for row in lake.rows(spec)} == {0: "new", 1: "again", 3: "v3"}
    # its key cannot be read
    lake.land(spec, 4, [kafka(10, "Struct{id=3}", None), *(kafka(11 + at, {"id": 5}, {"id": 5, "v": "x"}) for at in range(9))])
    lake.run(spec)
    (unusable,) = lake.unusable(spec)
    assert "a column of the key (id) is null or cannot be read" in unusable[1]
    assert 3 in {row["id"] for row in lake.rows(spec)}


@pytest.mark.slow
def test_a_key_change_over_partitions_leaves_the_old_key_by_its_own_delete(lake: Lake) -> None:
    """The offset of the new key, in another partition, says nothing about the old key. An update that alone changes its key is refused."""
    spec, old = lake.spec(container="kafka", order_by=("offset",)), [["__debezium.oldkey", '{"id":1}']]
    lake.land(spec, 1, [kafka(10, {"id": 1}, {"id": 1, "v": "a"}), kafka(4999, {"id": 3}, {"id": 3, "v": "c"}, partition=1)])
    lake.run(spec)
    left = [kafka(11, {"id": 1}, None), kafka(12, {"id": 1}, {"id": 1, "v": "new row"})]
    lake.land(spec, 2, [*left, kafka(5000, {"id": 2}, {"id": 2, "v": "a"}, partition=1, headers=old)])
    lake.run(spec)
    assert {1: "new row", 2: "a", 3: "c"} == {row["id"]: row["v"] for row in lake.rows(spec)}
    assert [] == lake.problems(spec)
    spec = lake.spec("changed", container="kafka", envelope="debezium", order_by=("offset",))
    update = {"before": {"id": 1, "v": "a"}, "after": {"id": 2, "v": "a"}, "op": "u", "source": {"connector": "x"}}
    lake.land(spec, 1, [kafka(1, {"id": 2}, update), kafka(1, {"id": 3}, {**update, "op": "c", "before": None}, partition=1)])
    with pytest.raises(OrderRefused, match="1 update changed the key of its row, and the topic has several partitions"):
        lake.run(spec)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("seq",), ("offset",)])
def test_a_record_without_value_beside_a_delete_is_ignored_or_changes_nothing(lake: Lake, order: tuple[str, ...]) -> None:
    """`rewrite-with-tombstone` and sources with operations send a row first, which has its place in the order."""
    for name, mark in (("rewritten", {"__deleted": "true"}), ("operations", {"op": "d"})):
        spec = lake.spec(name, container="kafka", order_by=order)
        live = {"__deleted": "false"} if name == "rewritten" else {"op": "u"}
        rows = [{"id": 1, "seq": 1, **live}, {"id": 1, "seq": 2, **mark}, None, {"id": 1, "seq": 3, **live}, {"id": 2, "seq": 4, **live}]
        lake.land(spec, 1, [kafka(at, {"id": 2 if at == 4 else 1}, row) for at, row in enumerate(rows)])
        lake.run(spec)
        assert ([row["id"] for row in lake.rows(spec)], lake.unusable(spec)) == ([1, 2], [])


@pytest.mark.slow
def test_deletes_that_have_no_row_and_no_place_in_the_order_are_refused(lake: Lake) -> None:
    """ExtractNewRecordState writes them by default; by the LSN they would be ignored. Rows of others may have had their deletes in another run."""
    spec = lake.spec(container="kafka", order_by=())
    lake.land(spec, 1, [kafka(1, {"id": 1}, {"id": 1, "__op": "c", "__lsn": 5}), kafka(2, {"id": 1}, None)])
    with pytest.raises(InputRefused, match=r"records have a key and no value.*Set `order_by: \[offset\]`"):
        lake.run(spec)
    lake.run(dataclasses.replace(spec, order_by=("offset",)))
    assert lake.rows(spec) == []
    spec = lake.spec("plain", container="kafka")
    lake.land(spec, 1, [kafka(at, {"id": 1}, {"id": 1, "seq": at, "op": op}) for at, op in enumerate("cd")])
    lake.run(spec)
    lake.land(spec, 2, [kafka(2, {"id": 1}, None), kafka(3, {"id": 2}, {"id": 2, "seq": 3, "op": "c"})])
    lake.run(spec)
    assert [row["id"] for row in lake.rows(spec)] == [2]


def test_logical_messages_are_ignored(lake: Lake) -> None:
    """In the connector's own operation, and in their envelope, which ExtractNewRecordState leaves as it is. Else `m` may mean anything."""
    message = {
        "op": "m",
        "ts_ms": 1,
        "source": {"connector": "postgresql", "lsn": 3},
        "transaction": None,
        "message": {"prefix": "x", "content": "eA=="},
    }
    for name, op in (("t", None), ("named", "__op")):
        spec = lake.spec(name, order_by=(), op=op)
        lake.land(spec, 1, [{"id": 1, "__op": "c", "__lsn": 2}, message, {"__op": "m", "__lsn": 4}])
        assert (lake.run(spec).counts["ignored"], lake.unusable(spec)) == (2, [])
        assert [row["id"] for row in lake.rows(spec)] == [1]
    spec = lake.spec("plain", quarantine_share=0.9)
    lake.land(spec, 1, [{"id": 1, "seq": 1, "op": "c"}, {"id": 1, "seq": 2, "op": "m"}])
    lake.run(spec)
    assert ["unknown operation m" in reason for _, reason in lake.unusable(spec)] == [True]


def test_an_order_by_lists_of_numbers_is_refused(lake: Lake) -> None:
    """As text a snapshot's `[null,..]` sorts after all changes, and 9 after 10. In columns named like a sequence they are numbers."""
    spec = lake.spec()
    lake.land(spec, 1, [{"id": 1, "seq": '[null,"9"]', "v": "old"}, {"id": 1, "seq": '["10","11"]', "v": "new"}])
    with pytest.raises(OrderRefused, match="text that does not sort as what it means"):
        lake.run(spec)


@pytest.mark.slow
def test_a_column_keeps_its_meaning_when_its_name_changes_in_case(lake: Lake) -> None:
    """The operation and the payload; in files of one run and of two."""
    spec = lake.spec(op="Operation")
    lake.land(spec, 1, [{"id": 1, "seq": 1, "UserName": "a", "Operation": "I"}], "a.json")
    lake.land(spec, 1, [{"id": 2, "seq": 1, "username": "b", "OPERATION": "I"}], "b.json")
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 2, "USERNAME": "c", "operation": "U"}, {"id": 2, "seq": 2, "USERNAME": None, "operation": "D"}])
    lake.run(spec)
    assert (lake.rows(spec), lake.problems(spec)) == ([{"id": 1, "seq": 2, "username": "c"}], [])


@pytest.mark.slow
def test_columns_may_be_called_schema_and_payload(lake: Lake) -> None:
    """Connect's JSON has these two members and no others."""
    spec = lake.spec()
    row = {"id": 1, "seq": 1, "schema": '{"type":"record","fields":[]}', "payload": "p"}
    lake.land(spec, 1, [row])
    lake.run(spec)
    assert lake.rows(spec) == [row]


def test_a_refused_run_names_the_envelope_that_the_records_have(lake: Lake) -> None:
    """Whatever setting the refusal asks for."""
    row = {"op": "c", "before": None, "after": {"id": 1, "seq": 5}, "source": {"schema": "public", "table": "t"}}
    for name, settings, refusal in (
        ("t", {"order_by": ()}, "`order_by` is not set"),
        ("u", {}, "order_by column 'seq' is not in the data"),
    ):
        spec = lake.spec(name, **settings)
        lake.land(spec, 1, [row])
        with pytest.raises(
            InputRefused, match=f"table {name}: the records look like `envelope: debezium`, expected flat; set .* Otherwise: {refusal}"
        ):
            lake.run(spec)
    spec = lake.spec("v", envelope="wal2json", order_by=())
    lake.land(spec, 1, [up(1, 1)])
    with pytest.raises(InputRefused, match=r"look like `envelope: flat`, expected wal2json"):
        lake.run(spec)


@pytest.mark.slow
@pytest.mark.skipif(not AVRO, reason="the module for Avro is missing")
def test_an_avro_file_that_ends_in_a_block_waits_for_its_end(lake: Lake) -> None:
    """A quarter of an hour, like one that ends in its header; a file that is damaged elsewhere does not."""
    spec = lake.spec(format="avro", quarantine_share=0.9)
    parsed = fastavro.parse_schema({"type": "record", "name": "t", "fields": [{"name": name, "type": "long"} for name in ("id", "seq")]})

    def land(file: str, first: int, cut: slice, age: float = 0.0) -> Path:
        path = lake.land(spec, 1, [], file)
        out = io.BytesIO()
        fastavro.writer(out, parsed, [{"id": first + n, "seq": n} for n in range(300)], sync_interval=500, sync_marker=b"S" * 16)
        path.write_bytes(out.getvalue()[cut])
        os.utime(path, (time.time() - age, time.time() - age))
        return path

    whole = land("a.avro", 0, slice(None))
    size = whole.stat().st_size
    assert files._tail(lake.spark, str(whole), 16) == b"S" * 16
    land("in-values.avro", 1000, slice(size // 2))
    land("in-marker.avro", 2000, slice(size - 5))
    damaged = land("damaged.avro", 3000, slice(None))
    damaged.write_bytes(damaged.read_bytes()[::-1].replace(b"S" * 16, b"T" * 16, 2).replace(b"T" * 16, b"S" * 16, 1)[::-1])
    assert (lake.run(spec).counts["read"], lake.landed(spec)) == (300, ["in-marker.avro", "in-values.avro"])
    assert [file.path.rpartition("/")[2] for file in quarantine.waiting(Table(lake.env, spec), lake.snapshot(spec))] == ["damaged.avro"]
    land("in-marker.avro", 2000, slice(None))
    land("in-values.avro", 1000, slice(size // 2), age=1000.0)
    assert (lake.run(spec).counts["read"], lake.landed(spec)) == (300, [])


@pytest.mark.slow
def test_rows_of_several_tables_by_pattern(lake: Lake) -> None:
    """The rows name their table without schema."""
    spec = lake.spec(source_table="public.m_2024, public.n_*")
    lake.land(spec, 1, [{"id": id_, "seq": 1, "__table": name} for id_, name in enumerate(["m_2024", "m_2025", "n_1", "mn_1"])])
    report = lake.run(spec)
    assert [0, 2] == [row["id"] for row in lake.rows(spec)]
    assert 2 == report.counts["ignored"]


@pytest.mark.slow
def test_rows_of_other_tables_give_no_types_to_columns_of_the_same_names(lake: Lake) -> None:
    """A number that a double cannot hold is no reason against a row of another table either."""
    spec = lake.spec(source_table="shop.t")
    mine = [{"id": id_, "seq": 1, "f": id_ + 0.5, "many": [id_], "__db": "shop", "__table": "t"} for id_ in (1, 2)]
    others = [{"id": "x", "seq": 1, "f": value, "many": {"k": 1}, "__db": "shop", "__table": "u"} for value in (2224413703742259952, "text")]
    lake.land(spec, 1, [mine[0], *others, mine[1]])
    assert 2 == lake.run(spec).counts["ignored"]
    assert [(1, 1.5, [1]), (2, 2.5, [2])] == [(row["id"], row["f"], row["many"]) for row in lake.rows(spec)]


@pytest.mark.slow
def test_rows_of_an_incremental_snapshot_have_no_lsn(lake: Lake) -> None:
    """They fill in missing rows, and are older than every change."""
    spec = lake.spec(order_by=())
    row = {"__op": "c", "__source_txId": 7, "__source_connector": "postgresql"}
    lake.land(
        spec, 1, [{"id": 1, "v": "change", **row, "__lsn": 5}, *({"id": id_, "v": "read", **row, "__op": "r", "__lsn": None} for id_ in (1, 2))]
    )
    lake.run(spec)
    assert {1: "change", 2: "read"} == {each["id"]: each["v"] for each in lake.rows(spec)}


def test_columns_are_in_the_order_of_the_first_record(lake: Lake) -> None:
    """Of twins it gives the plain name to the first, whichever record Spark's tasks come to first."""
    texts = ['{"A": 1, "a": 2, "id": 1}', '{"a": 1, "id": 2, "A": 2}', '{"id": 3, "a": 1, "A": 2}']
    rows = [("f", 0, at, "u", "k", None, text, text) for at, text in enumerate(texts)]
    kinds = "_file STRING, _block BIGINT, _row BIGINT, _op STRING, _writer STRING, _schema STRING, _after STRING, _before STRING"
    for given in (rows, rows[::-1], [rows[1], rows[0], rows[2]]):
        frame = Frame(lake.spark.createDataFrame(given, kinds).coalesce(1), None, one_image=True)
        (writer,) = json_writers.writers_of(frame, ("id",), few=True)
        assert [field.name for field in writer.fields] == ["A", "a", "id"]
