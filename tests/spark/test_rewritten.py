"""Files that their sink writes again under the same name: each content is an input of its own, when it lands and when the whole archive is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.core.model.spec import TableSpec
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from tests.spark.lake import Lake
from tests.spark.test_csv import packed
from tests.spark.test_debezium import event
from tests.spark.test_dms import FIRST, LOAD, dms, pairs, put

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def values(lake: Lake, spec: TableSpec) -> list[tuple[Any, Any]]:
    """`id` and `v` of each row of the view."""
    return sorted((row["id"], row["v"]) for row in lake.rows(spec))


def check_rebuilt(lake: Lake, spec: TableSpec, expected: list[tuple[Any, Any]]) -> None:
    """The view has these rows, the whole archive makes the same, and so does a rebuild."""
    assert expected == values(lake, spec)
    assert [] == lake.problems(spec)
    rebuild_table(Table(lake.env, spec))
    assert expected == values(lake, spec)
    assert [] == lake.problems(spec)


def loaded_twice(lake: Lake, spec: TableSpec, first: str, second: str) -> TableSpec:
    """Two full loads of DMS with the same file name. Returns the table in the epoch of the second."""
    put(spec, LOAD, first)
    lake.run(spec)
    put(spec, LOAD, second)
    again = lake.with_settings(spec, epoch=1)
    lake.run(again)
    return again


@pytest.mark.parametrize("names", [("a.json", "b.json"), ("b.json", "a.json")])
def test_the_newer_content_of_a_name_wins_ties_and_is_counted_as_what_it_is(lake: Lake, names: tuple[str, str]) -> None:
    """It counts as a later file: what it repeats are duplicates, and an event with other values at the same place is a tie that it wins."""
    spec = lake.spec(write_mode="merge-on-read")
    first, other = names
    lake.land(spec, 0, [{"id": n, "seq": n, "v": "first"} for n in (1, 2, 3)], first)
    lake.land(spec, 0, [{"id": 9, "seq": 9, "v": "other"}], other)
    lake.run(spec)
    lake.land(spec, 0, [{"id": 1, "seq": 1, "v": "first"}, {"id": 2, "seq": 2, "v": "mended"}, {"id": 4, "seq": 4, "v": "new"}], first)
    report = lake.run(spec)
    assert {"read": 3, "applied": 2, "duplicate": 1} == {name: count for name, count in report.counts.items() if count}
    lake.land(spec, 0, [{"id": 2, "seq": 2, "v": "mended again"}], first)
    assert 1 == lake.run(spec).counts["applied"]
    check_rebuilt(lake, spec, [(1, "first"), (2, "mended again"), (3, "first"), (4, "new"), (9, "other")])


def test_a_second_full_load_of_the_same_names_belongs_to_its_own_epoch(lake: Lake) -> None:
    """DMS's files of both loads have the same names. Also when the archive is read, each has the epoch that it was ingested in."""
    spec = dms(lake)
    put(spec, FIRST, "U,1,changed\n")
    again = loaded_twice(lake, spec, "1,old\n4,only in the old load\n", "1,reloaded\n2,reloaded\n")
    expected = [(1, "reloaded"), (2, "reloaded"), (4, "only in the old load")]
    assert expected == pairs(lake, again)
    assert [] == lake.problems(again)
    rebuild_table(Table(lake.env, again))
    assert expected == pairs(lake, again)


def test_a_second_full_load_of_a_table_without_key_adds_its_rows(lake: Lake) -> None:
    """Rows are called by file and line there, and the second load's are others."""
    again = loaded_twice(lake, dms(lake, key=()), "1,old\n", "1,new\n2,new\n")
    expected = [(1, "new"), (1, "old"), (2, "new")]
    assert expected == pairs(lake, again)
    assert [] == lake.problems(again)


def test_a_file_of_changes_from_dms_that_is_written_again_has_the_same_changes(lake: Lake) -> None:
    """DMS writes no file twice, so a copy with another etag is the same file: it changes no row, whatever its values are."""
    spec = dms(lake)
    put(spec, LOAD, "1,loaded\n2,loaded\n")
    put(spec, FIRST, "U,1,first\nU,1,changed\n")
    lake.run(spec)
    put(spec, FIRST, "U,1,other\nU,1,other\nU,2,changed\n")
    report = lake.run(spec)
    assert (1, 2) == (report.counts["applied"], report.counts["duplicate"] + report.counts["late"])
    assert [(1, "changed"), (2, "changed")] == pairs(lake, spec)


def test_a_topic_created_again_that_takes_the_old_file_names_replaces_the_old_rows(lake: Lake) -> None:
    """A flat landing and a sink that names files by topic, partition and first offset."""
    spec = lake.with_settings(lake.spec(container="kafka", order_by=("offset",)), pattern="")

    def land(*rows: dict[str, Any]) -> None:
        path = Path(spec.landing) / "t+0+0000000000.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [{"topic": "t", "partition": 0, "offset": n, "key": None, "value": json.dumps(row)} for n, row in enumerate(rows)]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    land({"id": 1, "v": "old"}, {"id": 2, "v": "old"}, {"id": 1, "v": "older offset, higher"})
    lake.run(spec)
    again = lake.with_settings(spec, epoch=1)
    land({"id": 1, "v": "new"}, {"id": 3, "v": "new"})
    lake.run(again)
    check_rebuilt(lake, again, [(1, "new"), (2, "old"), (3, "new")])


def test_rows_without_key_have_the_identity_of_their_own_content(lake: Lake) -> None:
    """Two contents of a name and the first one again, under another name, make no row twice."""
    spec = lake.spec(key=(), order_by=(), envelope="debezium", container="value")
    first = [event("c", n, after={"id": n, "v": "first"}) for n in (1, 2)]
    second = [event("c", n, after={"id": n, "v": "second"}) for n in (3, 4, 5)]
    for rows, name in ((first, "a.json"), (second, "a.json"), (first, "z.json")):
        lake.land(spec, 0, rows, name)
        lake.run(spec)
    check_rebuilt(lake, spec, [(1, "first"), (2, "first"), (3, "second"), (4, "second"), (5, "second")])


def test_both_contents_of_a_packed_name_are_unpacked(lake: Lake) -> None:
    """Zstandard files are unpacked side by side."""
    spec = lake.spec()
    for rows in ([{"id": 1, "seq": 1, "v": "first"}], [{"id": 2, "seq": 2, "v": "second"}]):
        path = lake.land(spec, 0, rows, "a.json.zst")
        path.write_bytes(packed(lake, "zst", path.read_bytes()))
        lake.run(spec)
    check_rebuilt(lake, spec, [(1, "first"), (2, "second")])


def test_invalid_records_of_both_contents_are_listed_with_their_own_file(lake: Lake) -> None:
    """Also where a replay takes both at once."""
    spec = lake.spec(quarantine_share=1.0)
    for rows in ([{"id": 1, "seq": 1, "v": "a"}, "{broken"], [{"id": 2, "seq": 2, "v": "b"}, {"id": 3, "seq": 3, "v": "c"}, "{torn", "{torn too"]):
        lake.land(spec, 0, rows, "a.json")
        lake.run(spec)
    assert [2, 3, 4] == [number for number, _ in lake.unusable(spec)]
    report = lake.replay(spec)
    assert [2, 3, 4] == [number for number, _ in lake.unusable(spec)]
    assert 3 == report.counts["quarantined"]
    assert [(1, "a"), (2, "b"), (3, "c")] == values(lake, spec)
