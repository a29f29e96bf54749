"""AWS DMS's files through the real flows: each test is one sentence of docs/sources.md. Made by hand after AWS's user guide."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.errors import InputRefused, OrderRefused
from compactor.core.model.spec import Csv, TableSpec
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

LOAD = "LOAD00000001.csv"
FIRST, SECOND, THIRD = "20260101-090000123.csv", "20260101-100000456.csv", "20260102-000000000.csv"


def dms(lake: Lake, columns: Sequence[str] = ("id", "v"), pattern: str = "", **settings: Any) -> TableSpec:
    """A table that DMS writes as CSV without header into one folder, unless `settings` say otherwise."""
    csv = settings.pop("csv", Csv(columns=tuple(columns)))
    spec = lake.spec(envelope="dms", order_by=settings.pop("order_by", ()), csv=csv, **{"quarantine_rows": 0, **settings})
    return lake.with_settings(spec, pattern=pattern)


def put(spec: TableSpec, name: str, text: str) -> Path:
    """A file below the landing root."""
    path = Path(spec.landing) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def pairs(lake: Lake, spec: TableSpec) -> list[tuple[Any, Any]]:
    """(id, v) of the view."""
    return sorted((row["id"], row["v"]) for row in lake.rows(spec))


@pytest.mark.slow
def test_files_without_a_line_hold_nothing(lake: Lake) -> None:
    """An hour in which nothing changed, and an empty table's load: no byte, or the end of a line alone."""
    spec = dms(lake)
    put(spec, LOAD, "1,a\n")
    put(spec, "LOAD00000002.csv", "\n")
    put(spec, FIRST, "\n")
    lake.run(spec)
    put(spec, SECOND, "")
    lake.run(spec)
    assert [(1, "a")] == pairs(lake, spec)
    assert [] == lake.unusable(spec)


@pytest.mark.slow
def test_a_column_of_the_table_is_not_taken_for_the_operation(lake: Lake) -> None:
    """A full load has no `Op` unless the task asks for it: a column `op` of the table would delete rows."""
    spec = dms(lake, ("id", "op", "t"))
    put(spec, LOAD, "1,I,x\n2,D,x\n")
    with pytest.raises(InputRefused, match=r"the column op has the name of DMS's own `Op`.*rename-column"):
        lake.run(spec)


@pytest.mark.slow
def test_a_column_that_is_gone_is_not_taken_for_no_operation(lake: Lake) -> None:
    """A file of changes with as many values as columns were declared; a full load with one more, which is a new column."""
    spec = dms(lake, ("student", "course", "grade"), key=("student",))
    put(spec, LOAD, "k1,MA,1\n")
    lake.run(spec)
    put(spec, FIRST, "U,k1,MA\nI,k3,PH\n")
    with pytest.raises(InputRefused, match=r"begins with 'U': with the operation before them one column is missing"):
        lake.run(spec)
    more = dms(lake, ("student", "course"), key=("student",), name="more")
    put(more, LOAD, "k1,MA,1\n")
    with pytest.raises(InputRefused, match=r"LOAD00000001.csv, record 1: does not have 2 values"):
        lake.run(more)


@pytest.mark.slow
def test_the_example_of_the_user_guide(lake: Lake) -> None:
    """A full load without Op, then insert, updates and a delete with it, in one folder without hours."""
    spec = dms(lake, ("id", "last", "first", "hired", "office"))
    put(spec, LOAD, "100,Doe,Jane,1-Jan-14,Boston\n")
    put(spec, FIRST, "I,101,Smith,Bob,4-Jun-14,New York\nU,101,Smith,Bob,8-Oct-15,Los Angeles\nU,101,Smith,Bob,13-Mar-17,Dallas\n")
    report = lake.run(spec)

    assert {100: "Boston", 101: "Dallas"} == {row["id"]: row["office"] for row in lake.rows(spec)}
    assert ["first", "hired", "id", "last", "office"] == sorted(lake.rows(spec)[0])
    assert (4, 2, 2) == tuple(report.counts[name] for name in ("read", "applied", "superseded"))

    put(spec, SECOND, "D,101,Smith,Bob,13-Mar-17,Dallas\n")
    lake.run(spec)
    assert {100: "Boston"} == {row["id"]: row["office"] for row in lake.rows(spec)}
    assert [] == lake.problems(spec)


@pytest.mark.parametrize("operation", [True, False], ids=["IncludeOpForFullLoad", "without Op"])
@pytest.mark.slow
def test_the_full_load_comes_first_though_its_name_sorts_last(lake: Lake, operation: bool) -> None:
    """Whether its files arrive before or after those of changes, with Op or without, with decimal or hexadecimal counters."""
    lead = "I," if operation else ""
    files = {
        "LOAD00000009.csv": f"{lead}1,loaded\n{lead}2,loaded\n",
        "LOAD0000000A.csv": f"{lead}3,loaded\n{lead}4,loaded\n",
        FIRST: "U,1,changed\nD,3,loaded\n",
        SECOND: "U,1,changed again\nI,5,new\n",
    }
    expected = [(1, "changed again"), (2, "loaded"), (4, "loaded"), (5, "new")]
    for number, arrival in enumerate([[*files], [*reversed(files)], [FIRST, "LOAD0000000A.csv", SECOND, "LOAD00000009.csv"]]):
        spec = dms(lake, name=f"t{number}")
        for name in arrival:
            put(spec, name, files[name])
            report = lake.run(spec)
            assert 0 == report.ties
        assert expected == pairs(lake, spec), arrival
        assert [] == lake.problems(spec)


@pytest.mark.slow
def test_rows_of_one_file_are_in_order_and_never_ties(lake: Lake) -> None:
    """Insert, delete and insert of one key in one file; equal updates are events of their own, not duplicates."""
    spec = dms(lake)
    put(spec, FIRST, "I,1,a\nU,1,b\nU,1,a\nU,1,a\nD,1,a\nI,1,c\nI,2,x\nD,2,x\n")
    report = lake.run(spec)
    assert [(1, "c")] == pairs(lake, spec)
    assert (0, 0, 2, 6) == (report.ties, report.counts["duplicate"], report.counts["applied"], report.counts["superseded"])

    put(spec, SECOND, "U,1,c\n")
    second = lake.run(spec)
    assert (1, 0) == (second.counts["applied"], second.counts["duplicate"])


@pytest.mark.slow
def test_a_late_file_of_changes_does_not_overwrite(lake: Lake) -> None:
    """Its name tells where it belongs, in whatever run it comes."""
    spec = dms(lake, write_mode="merge-on-read")
    put(spec, LOAD, "1,loaded\n2,loaded\n3,loaded\n")
    lake.run(spec)
    put(spec, THIRD, "U,1,third\nD,2,loaded\n")
    lake.run(spec)
    put(spec, SECOND, "U,1,second\nU,2,second\nU,3,second\n")
    report = lake.run(spec)
    assert [(1, "third"), (3, "second")] == pairs(lake, spec)
    assert (2, 1) == (report.counts["late"], report.counts["applied"])


@pytest.mark.slow
def test_the_files_name_orders_and_not_its_folder(lake: Lake) -> None:
    """`DDMMYYYY` folders sort by day of the month; a full load lies beside them."""
    spec = dms(lake, pattern="%d-%m-%Y")
    put(spec, LOAD, "1,loaded\n2,loaded\n")
    put(spec, "31-01-2026/20260131-235900000.csv", "U,1,january\n")
    put(spec, "01-02-2026/20260201-000100000.csv", "U,1,february\n")
    report = lake.run(spec)
    assert [(1, "february"), (2, "loaded")] == pairs(lake, spec)
    assert "2026-02-01T00:00" == lake.snapshot(spec).hour
    assert ([], 3) == (lake.landed(spec), report.files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value"), [("AR_H_CHANGE_SEQ", "2026010109000000000000000000000000{0}"), ("transact_id", "0000002c:00000128:{0}")]
)
def test_the_source_s_position_orders_where_it_is_sent(lake: Lake, column: str, value: str) -> None:
    """Before the file's name: a change that DMS sends again comes with its old position. Rows of the full load have none. 9 comes before 10."""
    spec = dms(lake, ("id", "v", column))
    put(spec, LOAD, "1,loaded,NULL\n2,loaded,\n")
    put(spec, FIRST, f"U,1,nine,{value.format('9')}\nU,1,ten,{value.format('10')}\n")
    lake.run(spec)
    put(spec, SECOND, f"U,1,nine,{value.format('9')}\n")
    report = lake.run(spec)
    assert [(1, "ten"), (2, "loaded")] == pairs(lake, spec)
    assert 0 == report.counts["applied"]
    assert ["id", "v"] == sorted(lake.rows(spec)[0])
    put(spec, THIRD, "U,1,lost,NULL\n")
    with pytest.raises(InputRefused, match="null"):
        lake.run(spec)


@pytest.mark.slow
def test_a_commit_timestamp_orders_when_it_is_named(lake: Lake) -> None:
    """TimestampColumnName: a full load's is the time of the transfer, and still comes first; ties of a transaction are in file order."""
    spec = dms(lake, ("ts", "id", "v"), order_by=("ts",))
    put(spec, LOAD, "2026-01-01 12:00:00.000000,1,loaded\n2026-01-01 12:00:00.000000,2,loaded\n")
    put(spec, FIRST, "U,2026-01-01 10:00:00.000000,1,first\nU,2026-01-01 10:00:00.000000,1,second\n")
    report = lake.run(spec)
    assert ([(1, "second"), (2, "loaded")], 0) == (pairs(lake, spec), report.ties)
    put(spec, SECOND, "U,2026-01-01 09:59:59.999999,1,sent again\n")
    lake.run(spec)
    assert [(1, "second"), (2, "loaded")] == pairs(lake, spec)


def test_names_that_are_not_dms_s_are_refused_when_they_would_order(lake: Lake) -> None:
    """A copied or renamed file has no place in the order of names."""
    spec = dms(lake)
    put(spec, "part-00000.csv", "U,1,x\n")
    with pytest.raises(OrderRefused, match=r"part-00000.csv.*order_by"):
        lake.run(spec)
    assert ["part-00000.csv"] == lake.landed(spec)


@pytest.mark.slow
def test_a_key_change_needs_the_before_image(lake: Lake) -> None:
    """`BI_<key>` of a before-image rule gives the old key; without it the old row stays, for nothing tells that it went."""
    spec = dms(lake, ("id", "v", "BI_id"))
    put(spec, LOAD, "1,one,\n2,two,\n")
    put(spec, FIRST, "U,10,one,1\nU,2,two b,2\nI,3,three,\n")
    lake.run(spec)
    assert [(2, "two b"), (3, "three"), (10, "one")] == pairs(lake, spec)
    put(spec, SECOND, "U,11,one,10\n")
    lake.run(spec)
    assert [(2, "two b"), (3, "three"), (11, "one")] == pairs(lake, spec)
    assert ["id", "v"] == sorted(lake.rows(spec)[0])

    blind = dms(lake, name="blind")
    put(blind, LOAD, "1,one\n")
    put(blind, FIRST, "U,10,one\n")
    lake.run(blind)
    assert [(1, "one"), (10, "one")] == pairs(lake, blind)


@pytest.mark.slow
def test_a_composite_key_with_before_images_of_text_and_numbers(lake: Lake) -> None:
    """The user guide's order_details: the before image of each key column, in keys of leading zeros too."""
    spec = dms(lake, ("shop", "product", "qty", "BI_shop", "BI_product"), key=("shop", "product"))
    put(spec, LOAD, "007,1,11,,\n007,2,12,,\n")
    put(spec, FIRST, "U,007,66,11,007,1\nU,008,2,12,007,2\n")
    lake.run(spec)
    assert [("007", 66, 11), ("008", 2, 12)] == sorted((row["shop"], row["product"], row["qty"]) for row in lake.rows(spec))


@pytest.mark.slow
@pytest.mark.parametrize("lead", ["", "I,"])
def test_inserts_only(lake: Lake, lead: str) -> None:
    """`CdcInsertsOnly` without IncludeOpForFullLoad writes no Op into files of changes either."""
    spec = dms(lake)
    put(spec, LOAD, f"{lead}1,a\n")
    put(spec, FIRST, f"{lead}2,b\n")
    lake.run(spec)
    assert [(1, "a"), (2, "b")] == pairs(lake, spec)


def test_inserts_and_updates_without_op_are_upserts(lake: Lake) -> None:
    """`CdcInsertsAndUpdates` without IncludeOpForFullLoad."""
    spec = dms(lake)
    put(spec, LOAD, "1,a\n2,b\n")
    put(spec, FIRST, "2,c\n3,d\n")
    lake.run(spec)
    assert [(1, "a"), (2, "c"), (3, "d")] == pairs(lake, spec)


@pytest.mark.slow
def test_a_table_without_key(lake: Lake) -> None:
    """Equal rows of two files are two rows; a delete takes one equal row away; an update without before image is refused."""
    spec = dms(lake, ("a", "b"), key=())
    put(spec, LOAD, "x,1\nx,1\ny,2\n")
    put(spec, FIRST, "I,x,1\n")
    put(spec, SECOND, "I,x,1\n")
    lake.run(spec)
    assert 4 == [row["a"] for row in lake.rows(spec)].count("x")
    put(spec, THIRD, "D,x,1\n")
    lake.run(spec)
    assert ["x", "x", "x", "y"] == sorted(row["a"] for row in lake.rows(spec))
    put(spec, "20260103-000000000.csv", "U,z,1\n")
    with pytest.raises(InputRefused, match="before image"):
        lake.run(spec)


@pytest.mark.slow
def test_values_of_a_delete_beside_the_key_are_fillers(lake: Lake) -> None:
    """They decide about no type: DMS leaves them empty, or writes what it has."""
    spec = dms(lake, ("id", "n"))
    put(spec, LOAD, "1,5\n2,6\n3,7\n")
    lake.run(spec)
    put(spec, FIRST, "D,1,\nU,3,70\nD,2,n/a\n")
    lake.run(spec)
    assert [{"id": 3, "n": 70}] == lake.rows(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
@pytest.mark.parametrize("lead", ["U,", ""], ids=["with Op", "inserts and updates without Op"])
def test_columns_that_are_added_to_files_without_header(lake: Lake, lead: str) -> None:
    """`columns` names what the files have now; those from before are read as when they came: by verify, a rebuild and another run."""
    spec = dms(lake)
    put(spec, LOAD, "1,a\n2,b\n")
    put(spec, FIRST, f"{lead}1,a2\n")
    lake.run(spec)
    put(spec, SECOND, f"{lead}1,a3,7\n")
    with pytest.raises(InputRefused, match=r"does not have|unknown Op"):
        lake.run(spec)
    more = lake.with_settings(spec, csv=Csv(columns=("id", "v", "n")))
    lake.run(more)
    expected = [{"id": 1, "v": "a3", "n": 7}, {"id": 2, "v": "b", "n": None}]
    assert expected == sorted(lake.rows(more), key=lambda row: row["id"])
    assert [] == lake.problems(more)
    rebuild_table(Table(lake.env, more))
    assert expected == sorted(lake.rows(more), key=lambda row: row["id"])
    # a column that is gone moves the others: no file from now on may have fewer values
    put(spec, THIRD, f"{lead}2,c\n")
    with pytest.raises(InputRefused, match="values"):
        lake.run(more)


@pytest.mark.slow
def test_a_column_that_is_added_between_others(lake: Lake) -> None:
    """As MySQL's AFTER does. Files from before keep the names that they had, also where the first line is blank."""
    spec = dms(lake)
    put(spec, LOAD, "\n1,a\n2,b\n")
    lake.run(spec)
    more = lake.with_settings(spec, csv=Csv(columns=("id", "n", "v")))
    put(spec, FIRST, "U,1,7,a2\n")
    lake.run(more)
    rebuild_table(Table(lake.env, more))
    assert [{"id": 1, "n": 7, "v": "a2"}, {"id": 2, "n": None, "v": "b"}] == [
        {name: row[name] for name in ("id", "n", "v")} for row in sorted(lake.rows(more), key=lambda row: row["id"])
    ]
    assert [] == lake.problems(more)


@pytest.mark.slow
def test_a_full_load_has_no_operation_but_i(lake: Lake) -> None:
    """A row of one column more whose first value is D is no delete."""
    spec = dms(lake, quarantine_rows=5)
    put(spec, LOAD, "X,a\n")
    put(spec, "LOAD00000002.csv", "D,b,7\n")
    lake.run(spec)
    assert [("X", "a")] == pairs(lake, spec)
    lake.replay(lake.with_settings(spec, csv=Csv(columns=("id", "v", "n"))))
    assert [("D", "b"), ("X", "a")] == pairs(lake, spec)


@pytest.mark.slow
def test_records_with_an_unknown_operation_decide_about_no_type(lake: Lake) -> None:
    """They are invalid: a line with more values than columns, in a file without operations."""
    spec = dms(lake, quarantine_rows=5)
    put(spec, LOAD, "1,a\n2,b\n")
    put(spec, FIRST, "five,e,10\n")
    lake.run(spec)
    assert [(1, "a"), (2, "b")] == pairs(lake, spec)
    assert 1 == len(lake.unusable(spec))


@pytest.mark.slow
def test_records_of_added_columns_that_were_in_quarantine(lake: Lake) -> None:
    """Taken again by the columns that `columns` names by then."""
    spec = dms(lake, quarantine_rows=5)
    put(spec, LOAD, "1,a\n2,b\n")
    put(spec, FIRST, "U,2,b3,7\n")
    lake.run(spec)
    more = lake.with_settings(spec, csv=Csv(columns=("id", "v", "n")))
    lake.replay(more)
    assert [{"id": 1, "v": "a", "n": None}, {"id": 2, "v": "b3", "n": 7}] == sorted(lake.rows(more), key=lambda row: row["id"])
    assert [] == lake.unusable(more)
    assert [] == lake.problems(more)


TIMES = tuple(f"2026-01-01 {hour:02d}:00:00.000000" for hour in range(8, 14))


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "a run each"])
def test_a_table_without_key_whose_changes_have_a_time(lake: Lake, apart: bool) -> None:
    """`TimestampColumnName`: a delete, and the image before an update, have another time than the row that goes, or none."""
    spec = dms(lake, key=(), order_by=("ts",), csv=Csv(header=True))
    files = {
        LOAD: f"ts,a,b\n{TIMES[0]},x,1\n{TIMES[0]},x,1\n{TIMES[0]},y,2\n",
        FIRST: f"Op,ts,a,b,BI_a,BI_b\nD,{TIMES[1]},x,1,,\nI,{TIMES[1]},z,3,,\n",
        SECOND: f"Op,ts,a,b,BI_a,BI_b\nU,{TIMES[2]},y,9,y,2\n",
        THIRD: f"Op,ts,a,b,BI_a,BI_b\nD,{TIMES[3]},y,9,,\n",
    }
    for name, text in files.items():
        put(spec, name, text)
        if apart:
            lake.run(spec)
    lake.run(spec)
    assert [{"a": "x", "b": 1}, {"a": "z", "b": 3}] == sorted(lake.rows(spec), key=lambda row: row["a"])
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_table_without_key_that_a_column_of_its_own_orders(lake: Lake) -> None:
    """`metadata_columns` says that it is part of the row: the one goes that the delete names, and one that is sent again takes no other."""
    spec = dms(lake, ("a", "no"), key=(), order_by=("no",), metadata_columns=("no",))
    put(spec, LOAD, "x,1\nx,2\nx,3\n")
    for name in (FIRST, SECOND):
        put(spec, name, "D,x,2\n")
        lake.run(spec)
    assert [1, 3] == sorted(row["no"] for row in lake.rows(spec))


@pytest.mark.slow
@pytest.mark.parametrize("runs", [[[0, 1, 2, 3, 4]], [[0, 3, 4], [1, 2]], [[0, 3, 4], [2], [1]], [[2, 3, 4], [0, 1]]], ids=str)
def test_a_table_without_key_whose_changes_have_a_time_in_any_order(lake: Lake, runs: list[list[int]]) -> None:
    """However they arrive, each delete takes one row before it."""
    spec = dms(lake, key=(), order_by=("ts",), csv=Csv(header=True))
    events = [f"I,{TIMES[0]},x", f"D,{TIMES[1]},x", f"I,{TIMES[2]},x", f"D,{TIMES[3]},x", f"I,{TIMES[4]},z"]
    for at in (at for each in runs for at in (*each, None)):
        if at is None:
            lake.run(spec)
        else:
            put(spec, f"20260101-{at + 8:02d}0000123.csv", f"Op,ts,a\n{events[at]}\n")
    assert [{"a": "z"}] == lake.rows(spec)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_table_loaded_anew_is_refused_until_an_epoch_is_named(lake: Lake) -> None:
    """A second full load takes the names of the first and would lie below every change: no row of it would show."""
    spec = dms(lake)
    put(spec, LOAD, "1,old\n")
    put(spec, FIRST, "U,1,changed\n")
    lake.run(spec)
    put(spec, LOAD, "1,reloaded\n2,reloaded\n")
    put(spec, "LOAD00000002.csv", "3,reloaded\n")
    put(spec, SECOND, "U,1,from before the load\n")
    with pytest.raises(OrderRefused, match=rf"LOAD00000001.csv.*If {SECOND} is from before .* move the LOAD files away.*epoch"):
        lake.run(spec)
    (Path(spec.landing) / SECOND).unlink()
    again = lake.with_settings(spec, epoch=1)
    lake.run(again)
    assert [(1, "reloaded"), (2, "reloaded"), (3, "reloaded")] == pairs(lake, spec)
    assert "idle" == lake.run(again).outcome


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "first", "second"), [("", LOAD, f"{LOAD}.gz"), ("%Y%m%d", f"20260101/{LOAD}", f"20260103/{LOAD}")])
def test_a_table_loaded_anew_is_refused_whatever_the_ending_and_the_day(lake: Lake, pattern: str, first: str, second: str) -> None:
    """Another number is one more file of the same load."""
    spec = dms(lake, pattern=pattern)
    put(spec, first, "1,older\n")
    lake.run(spec)
    put(spec, "20260101/20260101-090000123.csv" if pattern else FIRST, "U,1,old\n")
    lake.run(spec)
    put(spec, second, "1,reloaded\n")
    with pytest.raises(OrderRefused, match=rf"{second}: {first} was ingested before, so DMS loaded the table again"):
        lake.run(spec)
    (Path(spec.landing) / second).rename(Path(spec.landing) / second.replace("00000001", "00000002"))
    lake.run(spec)
    assert [(1, "old")] == pairs(lake, spec)


@pytest.mark.slow
def test_a_load_a_day_without_changes_is_taken(lake: Lake) -> None:
    """Rows of the newer one win."""
    spec = dms(lake, pattern="%Y%m%d")
    for day, text in enumerate(("1,a\n", "1,b\n2,c\n"), 1):
        put(spec, f"2026010{day}/{LOAD}", text)
        lake.run(spec)
    assert [(1, "b"), (2, "c")] == pairs(lake, spec)


BAD = {
    "an unknown Op": ("X,1,a\n", "unknown Op x"),
    "too many values": ("U,1,a\nU,1,a,b\n", "record 2.*does not have 3 values"),
    "too few values": ("U,1,a\nU,1\n", "record 2.*does not have 3 values"),
}


@pytest.mark.slow
def test_bad_records_are_refused(lake: Lake) -> None:
    """With file, record and reason; the file stays."""
    spec = dms(lake)
    for text, words in BAD.values():
        put(spec, FIRST, text)
        with pytest.raises(InputRefused, match=f"(?s){FIRST}.*{words}"):
            lake.run(spec)
        assert [FIRST] == lake.landed(spec)


def test_a_header_names_the_columns(lake: Lake) -> None:
    """AddColumnName: files with and without Op, columns in any order, gzipped or not."""
    spec = dms(lake, csv=Csv(header=True))
    put(spec, "LOAD00000001.csv.gz", "id,v\n1,a\n2,b\n")
    put(spec, "20260101-090000123.csv.gz", "Op,v,id\nU,c,1\nD,b,2\n")
    lake.run(spec)
    assert [(1, "c")] == pairs(lake, spec)


def test_nothing_names_the_columns(lake: Lake) -> None:
    """The error says the three ways out."""
    spec = dms(lake, csv=Csv())
    put(spec, LOAD, "1,a\n")
    with pytest.raises(InputRefused, match=r"columns: \[\.\.\].*\.avsc.*header: true"):
        lake.run(spec)


SCHEMA = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ok", "type": "boolean"},
        {"name": "f", "type": "double"},
        {"name": "blob", "type": "bytes"},
        {"name": "note", "type": "string"},
    ],
}


@pytest.mark.slow
def test_a_schema_names_and_types_the_columns(lake: Lake) -> None:
    """Each value as the type says: DMS writes bytes as hexadecimal, booleans as words, Oracle's dates with a midnight."""
    spec = dms(lake, csv=Csv(), avro_schema=json.dumps(SCHEMA))
    put(spec, LOAD, "1,12.50,2026-01-01 10:00:00.123456,2026-01-01 00:00:00,true,1e-3,CAFE,NULL\n2,NULL,NULL,NULL,NULL,NULL,NULL,\n")
    put(spec, FIRST, 'I,3,0.10,1583-01-01 00:00:00,0001-01-01,f,NaN,,"a, ""b""\nc"\n')
    lake.run(spec)
    rows = {row["id"]: row for row in lake.rows(spec)}
    assert {
        "id": 1, "price": Decimal("12.50"), "at": "2026-01-01T10:00:00.123456Z", "day": "2026-01-01", "ok": True, "f": Decimal("0.001"),
        "blob": "yv4=", "note": None,
    } == rows[1]  # fmt: skip
    assert {"id": 2, **dict.fromkeys(("price", "at", "day", "ok", "f", "blob")), "note": ""} == rows[2]
    assert ("1583-01-01T00:00:00.000000Z", "0001-01-01", False, "NaN", "", 'a, "b"\nc') == tuple(
        rows[3][name] for name in ("at", "day", "ok", "f", "blob", "note")
    )


WRONG = [("id", "1.5"), ("id", "x"), ("price", "1.005"), ("price", "123456789.00"), ("at", "soon"), ("day", "2026-02-30"), ("ok", "maybe")]


@pytest.mark.slow
def test_a_value_that_its_type_does_not_hold_is_no_null(lake: Lake) -> None:
    """The record is refused, by column and value."""
    good = {"id": "1", "price": "1.00", "at": "2026-01-01 00:00:00", "day": "2026-01-01", "ok": "true", "f": "1", "blob": "00", "note": ""}
    spec = dms(lake, csv=Csv(), avro_schema=json.dumps(SCHEMA))
    for column, value in [*WRONG, ("blob", "xyz"), ("f", "1,5")]:
        put(spec, LOAD, ",".join({**good, column: f'"{value}"'}.values()) + "\n")
        with pytest.raises(InputRefused, match=f"record 1: column {column} holds {value}, expected "):
            lake.run(spec)
    put(spec, LOAD, ",".join(good.values()) + "\n")
    assert "committed" == lake.run(spec).outcome


@pytest.mark.slow
def test_a_table_in_parquet(lake: Lake) -> None:
    """Booleans as text, timestamps of microseconds or milliseconds, with and without zone, decimals; Op first, or missing in the full load."""
    spec = dms(lake, format="parquet", avro_schema=json.dumps({"type": "record", "name": "t", "fields": [{"name": "ok", "type": "boolean"}]}))

    def write(name: str, select: str, stamps: str) -> None:
        lake.spark.conf.set("spark.sql.parquet.outputTimestampType", stamps)
        try:
            lake.spark.sql(select).coalesce(1).write.parquet(f"{lake.root}/{name}")
        finally:
            lake.spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        Path(spec.landing).mkdir(parents=True, exist_ok=True)
        next((lake.root / name).glob("*.parquet")).rename(f"{spec.landing}/{name}.parquet")

    loaded = "SELECT id, 'true' AS ok, TIMESTAMP_NTZ'2026-01-01 10:00:00.123' AS at, 12.50BD AS price FROM VALUES (1L), (2L) AS t (id)"
    write("LOAD00000001", loaded.replace("12.50BD", "CAST(12.5 AS DECIMAL(10,2))"), "TIMESTAMP_MILLIS")
    changed = "SELECT 'U' AS Op, 1L AS id, 'false' AS ok, TIMESTAMP'2026-01-01 10:00:00.123456' AS at, CAST(12.5 AS DECIMAL(10,2)) AS price"
    write("20260101-090000123", f"{changed} UNION ALL SELECT 'D', 2L, NULL, NULL, NULL", "TIMESTAMP_MICROS")
    lake.run(spec)
    assert [{"id": 1, "ok": False, "at": "2026-01-01T10:00:00.123456Z", "price": Decimal("12.50")}] == lake.rows(spec)
    assert {"id": "bigint", "ok": "boolean", "at": "timestamp", "price": "decimal(10,2)"} == {
        f.name: f.type for f in lake.snapshot(spec).schema.fields
    }
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_an_operation_of_bytes_is_text_and_a_number_is_refused(lake: Lake) -> None:
    """Writers that do not mark bytes as text; a column of the table that is called Op."""
    spec = dms(lake, format="parquet")
    Path(spec.landing).mkdir(parents=True)
    files = (
        ("LOAD00000001", [(1, "a"), (2, "b")], "id BIGINT, v STRING"),
        ("20260101-090000123", [(b"D", 1, "a"), (b"U", 2, "B")], "Op BINARY, id BIGINT, v STRING"),
        ("20260101-100000123", [(4, 2, "C")], "Op INT, id BIGINT, v STRING"),
    )
    for name, rows, ddl in files:
        lake.spark.createDataFrame(rows, ddl).coalesce(1).write.parquet(f"{lake.root}/{name}")
        next((lake.root / name).glob("*.parquet")).rename(f"{spec.landing}/{name}.parquet")
        if name != files[-1][0]:
            lake.run(spec)
    assert [(2, "B")] == pairs(lake, spec)
    with pytest.raises(InputRefused, match="the column Op has the type int"):
        lake.run(spec)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [("LOAD00000002.parquet", b""), ("LOAD00000002.parquet", b"PAR1"), ("20260101-090000123.parquet", b"PAR1" + b"x" * 500)],
    ids=["empty", "magic only", "without footer"],
)
def test_a_parquet_file_without_its_end_waits_and_then_is_an_error(lake: Lake, name: str, content: bytes) -> None:
    """Young: the rest is absorbed and it stays. Old: the error names it. Finished: it is absorbed."""
    spec = dms(lake, format="parquet")
    good = lake.spark.createDataFrame([(1, "a")], "id BIGINT, v STRING")
    good.coalesce(1).write.parquet(f"{lake.root}/good")
    (part,) = (lake.root / "good").glob("*.parquet")
    Path(spec.landing).mkdir(parents=True)
    (Path(spec.landing) / "LOAD00000001.parquet").write_bytes(part.read_bytes())
    half = Path(spec.landing) / name
    half.write_bytes(content)

    assert "committed" == lake.run(spec).outcome
    assert [(1, "a")] == pairs(lake, spec)
    assert [name] == lake.landed(spec)
    assert "idle" == lake.run(spec).outcome

    os.utime(half, (half.stat().st_mtime - 3600,) * 2)
    with pytest.raises(InputRefused, match=name):
        lake.run(spec)
    lake.spark.createDataFrame([(2, "b")], "id BIGINT, v STRING").coalesce(1).write.parquet(f"{lake.root}/whole")
    half.write_bytes(next((lake.root / "whole").glob("*.parquet")).read_bytes())
    lake.run(spec)
    assert [(1, "a"), (2, "b")] == pairs(lake, spec)
