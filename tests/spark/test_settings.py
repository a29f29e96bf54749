"""Settings that change what a table means: each test is one of them, as docs/configuration.md promises it."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.core.model.errors import CheckFailed, InputRefused, OrderRefused, SchemaRefused
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def up(key: int, seq: int, **more: Any) -> dict[str, Any]:
    return {"id": key, "seq": seq, "op": "u", **more}


@pytest.mark.slow
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_a_column_that_a_partial_row_does_not_have_keeps_its_value(lake: Lake, write_mode: str) -> None:
    """Absent is not null: per column the newest row that has it wins, late ones too; a null that is there is a null."""
    spec = lake.spec(patch_rows=True, write_mode=write_mode)
    steps = [
        [up(1, 10, a="a10", b="b10"), *[up(n, n, a="x", b="x") for n in range(50, 60)]],
        [up(1, 30, a="a30")],
        [up(1, 20, a="a20", b="b20")],
        [up(2, 40, b="b40"), up(1, 40, b=None)],
    ]
    for hour, rows in enumerate(steps):
        lake.land(spec, hour, rows)
        report = lake.run(spec)
        if hour == 2:
            assert ("a30", "b20") == next((row["a"], row["b"]) for row in lake.rows(spec) if row["id"] == 1)
    found = {row["id"]: (row["a"], row["b"]) for row in lake.rows(spec)}
    assert {1: ("a30", None), 2: (None, "b40")} == {key: found[key] for key in (1, 2)}
    assert 1 == report.unresolved
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_null_that_is_there_is_a_null_also_where_other_records_show_several_types(lake: Lake) -> None:
    """Whole numbers in the table and fractions in the run, objects with other members: the nulls alone show none of them."""
    spec = lake.spec(patch_rows=True)
    lake.land(spec, 0, [{"id": 1, "seq": 1, "n": 5, "s": {"z": 1}, "x": "a"}])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 1, "seq": 2, "n": None, "s": None}, {"id": 2, "seq": 3, "n": 2.5, "s": {"z": 2, "c": 1}, "x": "b"}])
    lake.run(spec)
    assert (None, None, "a") == next((row["n"], row["s"], row["x"]) for row in lake.rows(spec) if row["id"] == 1)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_settings_name_columns_in_any_case(lake: Lake) -> None:
    """`plan` accepts such a name, so a run does: the order's column dates the versions, a kept metadata column is stored, one column is tracked."""
    settings = {"key": ("ID",), "order_by": ("Updated_At",), "track": ("NAME",), "metadata_columns": ("__TXID",), "cluster_by": ("Name",)}
    spec = lake.spec(op="OP", history=True, types=(("updated_at", "timestamp"),), **settings)
    for hour, (name, note) in enumerate((("Ann", "x"), ("Ann", "y"), ("Bea", "y"))):
        at = f"2024-03-0{hour + 1}T10:00:00Z"
        lake.land(spec, hour, [{"id": 1, "name": name, "note": note, "updated_at": at, "__txid": hour, "op": "u"}])
        lake.run(spec)
    assert [("Bea", 2)] == [(row["name"], row["__txid"]) for row in lake.rows(spec)]
    assert all(file.checksum for _, file in lake.snapshot(spec).data_files)
    versions = lake.spark.sql(f"SELECT name, CAST(__start_time AS STRING) AS began FROM {lake.database}.{spec.view}_history ORDER BY began").collect()
    assert [("Ann", "2024-03-01 10:00:00"), ("Bea", "2024-03-03 10:00:00")] == [tuple(row) for row in versions]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_without_it_an_absent_column_is_null(lake: Lake) -> None:
    """The default: a row is the whole row."""
    spec = lake.spec()
    lake.land(spec, 1, [up(1, 1, a="a")])
    lake.run(spec)
    lake.land(spec, 2, [up(1, 2)])
    lake.run(spec)
    assert [None] == [row["a"] for row in lake.rows(spec)]


@pytest.mark.slow
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_soft_deletes_stay_in_the_view_and_are_marked(lake: Lake, write_mode: str) -> None:
    """With the values they had, whatever their retention; a row that comes back is not deleted any more."""
    spec = lake.spec(delete="soft", tombstone_retention=1.0, write_mode=write_mode)
    lake.land(spec, 1, [up(n, n, v=f"v{n}") for n in range(5)])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 1, "seq": 10, "op": "d"}, {"id": 2, "seq": 10, "op": "d"}])
    lake.run(spec)
    lake.now += 1000
    lake.land(spec, 3, [up(2, 20, v="back")])
    lake.run(spec)
    assert [(1, "v1")] == [(row["id"], row["v"]) for row in lake.rows(spec) if row["_deleted"]]
    assert [(0, "v0"), (2, "back"), (3, "v3"), (4, "v4")] == sorted((row["id"], row["v"]) for row in lake.rows(spec) if not row["_deleted"])
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_more_rows_gone_than_allowed_stop_the_table_before_the_commit(lake: Lake) -> None:
    """By deletes or by a truncate; nothing is lost, and the run goes on when the limit is raised."""
    spec = lake.spec(max_gone=0.5, write_mode="merge-on-read")
    lake.land(spec, 1, [up(n, n) for n in range(10)])
    lake.run(spec)
    lake.land(spec, 2, [{"id": n, "seq": 20, "op": "d"} for n in range(6)])
    with pytest.raises(CheckFailed, match="6 of 10 rows would be deleted"):
        lake.run(spec)
    assert ["part-0.json"] == lake.landed(spec)
    assert 10 == len(lake.rows(spec))
    assert "committed" == lake.run(lake.with_settings(spec, max_gone=1.0)).outcome
    lake.land(spec, 3, [{"op": "t", "seq": 30}])
    with pytest.raises(CheckFailed, match="max_gone"):
        lake.run(spec)
    lake.run(lake.with_settings(spec, max_gone=1.0))
    assert [] == lake.rows(spec)


@pytest.mark.slow
def test_a_new_epoch_begins_with_a_folder_and_may_replace_what_was_before(lake: Lake) -> None:
    """The source was loaded anew: small positions are newer now, rows that are not in the new load go, late files of the old count stay old."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 1, [up(n, 1000 + n, v="old") for n in range(5)])
    lake.run(spec)
    spec = lake.with_settings(spec, epoch=1, epoch_from="increment_2024030505", epoch_replaces=True)
    lake.land(spec, 2, [up(0, 2000, v="still old")])
    lake.run(spec)
    assert 5 == len(lake.rows(spec))
    lake.land(spec, 5, [up(n, n, v="new") for n in (1, 2, 7)])
    lake.run(spec)
    assert [(1, "new"), (2, "new"), (7, "new")] == [(row["id"], row["v"]) for row in lake.rows(spec)]
    lake.land(spec, 3, [up(1, 3000, v="late of the old count"), up(9, 3001, v="the same")])
    assert 2 == lake.run(spec).counts["superseded"]
    lake.land(spec, 6, [up(2, 10, v="newer")])
    # what the epoch began with is done, also where the setting stays
    assert 1 == lake.run(spec).delta_rows
    assert [(1, "new"), (2, "newer"), (7, "new")] == [(row["id"], row["v"]) for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_changed_settings_that_would_mix_rows_are_refused(lake: Lake) -> None:
    """Another key, no key, another order, another envelope: nothing is ingested, the files stay, and with the old settings the table goes on."""
    spec = lake.spec(key=("id", "part"))
    row = {"id": 1, "part": "a", "seq": 1, "v": 5}
    lake.land(spec, 1, [row])
    lake.run(spec)
    lake.land(spec, 2, [{**row, "seq": 2, "v": 6}])
    refused: list[tuple[dict[str, object], type[Exception], str]] = [
        ({"key": ("id",)}, SchemaRefused, "A key never changes in place"),
        ({"key": ("id", "part", "v")}, SchemaRefused, "A key never changes in place"),
        ({"key": ()}, SchemaRefused, "A key never changes in place"),
        ({"order_by": ("v",)}, OrderRefused, "built with seq"),
        ({"envelope": "debezium"}, InputRefused, "not a Debezium envelope"),
    ]
    for settings, error, words in refused:
        with pytest.raises(error, match=words):
            lake.run(lake.with_settings(spec, **settings))
        assert len(lake.landed(spec)) == 1
    # the order of the key's columns is no other key
    lake.run(lake.with_settings(spec, key=("part", "id")))
    assert [row["v"] for row in lake.rows(spec)] == [6]

    spec = lake.spec(name="rows", key=())
    lake.land(spec, 1, [{"id": 1, "seq": 1}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 2, "seq": 2}])
    with pytest.raises(SchemaRefused, match="A key never changes in place"):
        lake.run(lake.with_settings(spec, key=("id",)))

    spec = lake.spec(name="stream", envelope="debezium", order_by=())
    source = {"connector": "postgresql", "schema": "public", "table": "t", "txId": 1, "lsn": 9, "sequence": '["8", "9"]'}
    lake.land(spec, 1, [{"op": "c", "before": None, "after": {"id": 1, "v": 1}, "source": source}])
    lake.run(spec)
    column = {"name": "id", "type": "integer", "value": 1}
    lake.land(spec, 2, [{"action": "I", "lsn": "0/10", "timestamp": "2024-03-05 10:00:00+00", "schema": "public", "table": "t", "columns": [column]}])
    with pytest.raises(OrderRefused, match="the envelope is wal2json, but the table was built with debezium"):
        lake.run(lake.with_settings(spec, envelope="wal2json"))
