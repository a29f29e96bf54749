"""Folds, segments and what readers' plans look like."""

from __future__ import annotations

import random

import pytest
from pyarrow import parquet

from compactor.core.model.files import Delta, Segment
from compactor.core.model.schema import Field, Schema
from compactor.core.planning import compaction
from compactor.flows.table import Table
from compactor.spark.keys import range_index
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def batch(seed: int, count: int, keys: int) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [{"id": rng.randrange(keys), "seq": seed * 100_000 + n, "v": rng.random().hex(), "op": rng.choice("uuud")} for n in range(count)]


def expected(batches: list[list[dict[str, object]]]) -> dict[object, object]:
    rows: dict[object, dict[str, object]] = {}
    for row in sorted((row for rows in batches for row in rows), key=lambda row: row["seq"]):
        rows[row["id"]] = row
    return {key: row["v"] for key, row in rows.items() if row["op"] != "d"}


@pytest.mark.slow
def test_a_row_finds_its_range_among_any_number(lake: Lake) -> None:
    """Keys of text that needs quoting and of bytes; the text of the expression grows with the number of ranges, not with its square."""
    schema = Schema((Field("name", "name", "string"), Field("mark", "mark", "binary")), ("name", "mark"))
    bounds = sorted((name, f"{mark:02X}") for name in ("", "'", '"', "\\n", "a", "é") for mark in range(0, 256, 51))
    rows = [(name, bytes([mark])) for name in ("", "'", '"', "\\n", "Z", "a", "é", "😀") for mark in (0, 50, 51, 254, 255)]
    frame = lake.spark.createDataFrame(rows, "name STRING, mark BINARY")
    for count in (1, 2, 3, 4, 11, len(bounds)):
        highs = [*bounds[: count - 1], None]
        found = frame.selectExpr("name", "mark", f"{range_index(highs, schema)} AS i").collect()
        keys = [(row.name, bytes(row.mark).hex().upper()) for row in found]
        assert [row.i for row in found] == [sum(high is not None and high <= key for high in highs) for key in keys]
    numbers = Schema((Field("id", "id", "bigint"),), ("id",))
    texts = [range_index([(str(at),) for at in range(1000, 1000 + count)], numbers) for count in (500, 1000)]
    assert len(texts[1]) < 2.2 * len(texts[0])


@pytest.mark.slow
def test_segments_tile_and_folds_change_nothing_that_readers_see(lake: Lake) -> None:
    """Many small segments; Delta commits between; a fold rewrites the fullest; the rows stay those of the model."""
    spec = lake.spec(target_file_bytes=8_000, write_mode="merge-on-read", compact_every=3.0)
    batches = [[{"id": n, "seq": n, "v": f"{n:040d}", "op": "c"} for n in range(3000)]]
    lake.land(spec, 0, batches[0])
    lake.run(spec)
    assert len(lake.snapshot(spec).segments) > 3
    operations = []
    for hour in range(1, 7):
        # changes cluster in the low keys: only their segments are worth folding
        batches.append(batch(hour, 150, 400 if hour % 3 else 3000))
        lake.land(spec, hour, batches[-1])
        operations += lake.run(spec).operations
        assert expected(batches) == {row["id"]: row["v"] for row in lake.rows(spec)}
        assert compaction.tiling_problem(lake.snapshot(spec).segments) is None
    assert any(operation.startswith("compact") for operation in operations)
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_tombstones_are_purged_only_after_their_retention(lake: Lake) -> None:
    """A compaction drops old tombstones, remembers the newest of them, and puts aside or refuses what is older than that."""
    from compactor.core.model.errors import InputRefused

    spec = lake.spec(write_mode="copy-on-write", tombstone_retention=100.0, order_by=("__lsn",))
    lake.land(spec, 0, [{"id": n, "__lsn": n, "op": "c"} for n in range(6)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 2, "__lsn": 10, "op": "d"}, {"id": 5, "__lsn": 8, "op": "d"}])
    lake.run(spec)
    assert 2 == sum(segment.tombstones for segment in lake.snapshot(spec).segments)
    lake.now += 1000
    lake.land(spec, 2, [{"id": 4, "__lsn": 11, "op": "u"}])
    lake.run(spec)
    assert 0 == sum(segment.tombstones for segment in lake.snapshot(spec).segments)
    assert lake.snapshot(spec).purged_to is not None
    lake.land(spec, 3, [{"id": 2, "__lsn": 9, "op": "u"}, {"id": 4, "__lsn": 11, "op": "u"}])
    with pytest.raises(InputRefused, match="beyond_retention"):
        lake.run(lake.with_settings(spec, beyond_retention="refuse"))
    assert 1 == lake.run(spec).counts["beyond_retention"]
    assert [0, 1, 3, 4] == [row["id"] for row in lake.rows(spec)]
    assert 1 == lake.replay(lake.with_settings(spec, beyond_retention="apply")).counts["applied"]
    assert [0, 1, 2, 3, 4] == [row["id"] for row in lake.rows(spec)]


@pytest.mark.slow
@pytest.mark.parametrize("write_mode", ["merge-on-read", "copy-on-write"])
def test_all_compactions_give_the_same_table(lake: Lake, write_mode: str) -> None:
    """`compaction` is a matter of cost, never of rows."""
    spec = lake.spec(write_mode=write_mode)
    batches = [batch(seed, 60, 40) for seed in range(1, 5)]
    for hour, rows in enumerate(batches):
        lake.land(spec, hour, rows)
        lake.run(lake.with_settings(spec, compact_every=0.0) if hour == 2 else spec)
    assert expected(batches) == {row["id"]: row["v"] for row in lake.rows(spec)}
    assert (lake.snapshot(spec).delta is None) == (write_mode == "copy-on-write")
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_a_point_lookup_is_pushed_into_the_base_scan(lake: Lake) -> None:
    """The view is no wall: key filters and the columns asked for reach the Parquet scan of the base."""
    spec = lake.spec(write_mode="merge-on-read")
    lake.land(spec, 0, [{"id": n, "seq": n, "a": n, "b": n, "c": f"{n}"} for n in range(50)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 7, "seq": 99, "a": 1, "b": 2, "c": "x"}])
    lake.run(spec)
    view = f"`{lake.database}`.`t`"

    lookup = lake.spark.sql(f"EXPLAIN FORMATTED SELECT c FROM {view} WHERE id = 7").collect()[0][0]
    assert "EqualTo(id,7)" in lookup
    aggregate = lake.spark.sql(f"EXPLAIN FORMATTED SELECT sum(a), max(b) FROM {view}").collect()[0][0]
    schemas = [line for line in aggregate.splitlines() if "ReadSchema" in line]

    assert 2 <= len(schemas) <= 3
    assert all("c:string" not in line and "_position" not in line for line in schemas)
    assert "BroadcastHashJoin" in aggregate


@pytest.mark.slow
def test_the_view_asked_live_shows_what_has_landed(lake: Lake) -> None:
    """`<t>_live` dedupes landed Parquet rows in: new rows, newer versions, deletes, and stale ones that lose."""
    spec = lake.spec(live_view=True, archive="keep", op="op")
    ddl = "id INT, seq BIGINT, v STRING, op STRING"
    lake.land_parquet(spec, 1, [{"id": n, "seq": 10, "v": "old", "op": "c"} for n in range(1, 5)], ddl)
    lake.run(spec)
    landed = [(1, 20, "new", "u"), (2, 20, "", "d"), (3, 5, "stale", "u"), (9, 20, "born", "c"), (1, 15, "between", "u")]
    lake.land_parquet(spec, 2, [dict(zip(("id", "seq", "v", "op"), row, strict=True)) for row in landed], ddl)
    from compactor.flows.publish.landing import sync_landing

    sync_landing(Table(lake.env, spec), lake.snapshot(spec))

    assert {1: "new", 3: "old", 4: "old", 9: "born"} == {row["id"]: row["v"] for row in lake.rows(spec, "t_live")}
    assert dict.fromkeys(range(1, 5), "old") == {row["id"]: row["v"] for row in lake.rows(spec)}
    lake.run(spec)
    assert lake.rows(spec) == lake.rows(spec, "t_live")


@pytest.mark.slow
def test_columns_that_are_null_in_every_row_are_not_in_the_files(lake: Lake) -> None:
    """A load without deletes writes no clock for them; the Delta with one does, and so does the base that takes it in. Readers see no difference."""
    spec = lake.spec(write_mode="merge-on-read", order_by=("__lsn",))
    layout = Table(lake.env, spec).layout

    def state_columns(part: Segment | Delta) -> set[str]:
        paths = [f"{layout.inside(part.path)}/{file.name}" for file in part.files]
        return {name for path in paths for name in parquet.read_schema(path).names if name.startswith("_") and name != "__lsn"}

    lake.land(spec, 0, [{"id": n, "__lsn": n, "op": "c"} for n in range(5)])
    lake.run(spec)
    assert [state_columns(segment) for segment in lake.snapshot(spec).segments] == [{"_version", "_at"}]
    lake.land(spec, 1, [{"id": 2, "__lsn": 10, "op": "d"}, {"id": 3, "__lsn": 11, "op": "u"}])
    lake.run(spec)
    delta = lake.snapshot(spec).delta
    assert delta is not None
    assert state_columns(delta) == {"_version", "_at", "_gone", "_moved"}
    lake.run(lake.with_settings(spec, compact_every=0.0, read_optimized=True))
    assert [state_columns(segment) for segment in lake.snapshot(spec).segments] == [{"_version", "_at", "_gone", "_moved"}]
    assert [0, 1, 3, 4] == [row["id"] for row in lake.rows(spec)]
    assert [] == lake.problems(spec)


@pytest.mark.slow
def test_segments_without_a_delta_row_are_read_without_a_join(lake: Lake) -> None:
    """Recent keys change: the rows are right, the plan joins the last Segment only; DuckDB shows the same."""
    spec = lake.spec(target_file_bytes=6_000, write_mode="merge-on-read", op="op", compact_every=1e9)
    batches = [[{"id": n, "seq": n, "v": f"{n:040d}", "op": "c"} for n in range(1000)]]
    batches.append([{"id": 999, "seq": 2000, "v": "new", "op": "u"}, {"id": 998, "seq": 2001, "op": "d", "v": ""}])
    batches.append([{"id": 5000, "seq": 2002, "v": "later", "op": "c"}])
    for hour, rows in enumerate(batches):
        lake.land(spec, hour, rows)
        lake.run(spec)
        assert expected(batches[: hour + 1]) == {row["id"]: row["v"] for row in lake.rows(spec)}
    newest = lake.snapshot(spec)
    assert newest.delta is not None
    assert newest.delta.untouched == tuple(segment.id for segment in newest.segments[:-1])
    assert len(newest.segments) > 2
    plan = lake.spark.table(f"`{lake.database}`.`t`")._jdf.queryExecution().optimizedPlan()
    assert plan.collectLeaves().size() == 4, "the base twice and the Delta twice"
    assert plan.toString().count("Join LeftAnti") == 1
    assert [] == lake.problems(spec)
    lake.land(spec, 3, [{"id": at, "seq": 3000 + at, "v": "all", "op": "u"} for at in range(0, 1000, 10)])
    batches.append([{"id": at, "seq": 3000 + at, "v": "all", "op": "u"} for at in range(0, 1000, 10)])
    lake.run(spec)
    assert expected(batches) == {row["id"]: row["v"] for row in lake.rows(spec)}
    assert lake.snapshot(spec).delta.untouched == ()  # type: ignore[union-attr]
