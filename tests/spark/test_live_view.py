"""The live view and the table of landed files by Spark: what lies in landing, as the next run will take it."""

from __future__ import annotations

import datetime
import json
import math
import random
from pathlib import Path
from typing import Any

import fastavro
import pytest

from compactor.core.model.errors import Refused
from compactor.core.model.policy import ACCEPTED, Rule
from compactor.flows.publish.sync import sync_table
from compactor.flows.table import Table
from compactor.flows.verbs import reabsorb_table, restore_table
from compactor.flows.write.adopt import adopt
from compactor.flows.write.restore import at_version, named, restore
from tests.oracle import emit
from tests.oracle.sizes import FULL
from tests.oracle.source import Source
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark

DDL = "id BIGINT, seq BIGINT, v STRING, op STRING"


def land(lake: Lake, spec: Any, hour: int, *rows: tuple[Any, ...]) -> None:
    """One Parquet file of (id, seq, v, op)."""
    lake.land_parquet(spec, hour, [dict(zip(("id", "seq", "v", "op"), row, strict=True)) for row in rows], DDL)


def land_by_others(lake: Lake, path: Path, days: list[datetime.date], first: int) -> None:
    """A Parquet file with (id, seq, day) that no Spark has written."""
    jvm: Any = lake.spark._jvm
    text = "message m { required int32 id; required int32 seq; optional int32 day (DATE); }"
    kind = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(text)
    where = jvm.org.apache.hadoop.fs.Path(str(path))
    writer = jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter.builder(where).withType(kind).build()
    for at, day in enumerate(days, first):
        group = jvm.org.apache.parquet.example.data.simple.SimpleGroup(kind)
        writer.write(group.append("id", at).append("seq", at).append("day", (day - datetime.date(1970, 1, 1)).days))
    writer.close()


def land_avro(spec: Any, hour: int, fields: list[dict[str, Any]], *rows: tuple[Any, ...]) -> None:
    """One Avro file with these fields."""
    path = Path(spec.landing) / f"increment_20240305{hour:02d}/part.avro"
    path.parent.mkdir(parents=True)
    schema = fastavro.parse_schema({"type": "record", "name": "t", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, [dict(zip((field["name"] for field in fields), row, strict=True)) for row in rows])


def live(lake: Lake, spec: Any) -> list[dict[str, Any]]:
    """What `<t>_live` shows after a sync, which is what the view shows after a run."""
    sync_table(Table(lake.env, spec))
    # a session keeps the listing of a folder that it has read, unless spark.sql.metadataCacheTTLSeconds is set
    lake.spark.catalog.refreshTable(f"`{lake.database}`.`{spec.name}_incremental`")
    shown = lake.rows(spec, f"{spec.view}_live")
    lake.run(spec)
    assert shown == lake.rows(spec)
    return shown


@pytest.mark.slow
def test_avro_files_are_read_as_avro_whatever_the_settings_leave_open(lake: Lake) -> None:
    """`format: auto` goes by the files' suffix. An order that is no number is no order, in a run and in the view."""
    spec = lake.spec(live_view=True, archive="keep", quarantine_share=0.9, order_by=("at",))
    assert spec.format == "auto"
    fields = [{"name": "id", "type": "long"}, {"name": "at", "type": "double"}, {"name": "v", "type": "string"}]
    for hour, rows in enumerate(([(1, 1.0, "a"), (2, 1.0, "a")], [(1, 2.0, "b"), (2, math.nan, "b")], [(3, 1.0, "c")])):
        land_avro(spec, hour, fields, *rows)
        if hour:
            live(lake, spec)
        else:
            lake.run(spec)
    assert {1: "b", 2: "a", 3: "c"} == {row["id"]: row["v"] for row in lake.rows(spec, "t_live")}


@pytest.mark.slow
def test_a_late_row_from_before_a_column_shows_its_default(lake: Lake) -> None:
    """The writer of a landed file lacks the column. The row is older than the first event with the column, or newer, as a run decides it."""
    spec = lake.spec(live_view=True, archive="keep")
    plain: list[dict[str, Any]] = [{"name": "id", "type": "long"}, {"name": "seq", "type": "long"}]
    land_avro(spec, 1, plain, (1, 1))
    lake.run(spec)
    land_avro(spec, 2, [*plain, {"name": "z", "type": ["long", "null"], "default": 7}], (2, 10, 5))
    lake.run(spec)
    land_avro(spec, 3, plain, (3, 9), (4, 11))
    assert {1: 7, 2: 5, 3: 7, 4: None} == {row["id"]: row["z"] for row in live(lake, spec)}


@pytest.mark.slow
def test_the_live_view_shows_one_table_of_a_stream(lake: Lake) -> None:
    """By schema and table, as a run takes it."""
    spec = lake.spec(live_view=True, archive="keep", source_table="a.users, a.m_*")
    names = [("a", "users"), ("b", "users"), (None, "users"), ("a", "m_1"), ("a", "orders")]
    for hour in (1, 2):
        rows = [{"id": 10 * hour + at, "seq": hour, "__schema": schema, "__table": table} for at, (schema, table) in enumerate(names)]
        lake.land_parquet(spec, hour, rows, "id BIGINT, seq BIGINT, __schema STRING, __table STRING")
        shown = live(lake, spec) if hour > 1 else lake.run(spec)
    assert [row["id"] for row in shown] == [10, 12, 13, 20, 22, 23]


@pytest.mark.slow
def test_the_live_view_after_truncates_nulls_epochs_restores_and_an_adoption(lake: Lake) -> None:
    """Rows of ingested files do not come back, records for quarantine do not show, nothing is doubled, and a restore takes the view along."""
    spec = lake.spec(live_view=True, archive="keep", write_mode="merge-on-read", quarantine_share=1.0)
    land(lake, spec, 1, *((key, 10, "old", "c") for key in range(1, 5)))
    lake.run(spec)
    land(lake, spec, 1, (None, 20, "", "t"), (5, 30, "new", "c"))
    assert [row["id"] for row in live(lake, spec)] == [5]
    # the same folder again, beside truncated rows; a null order, a null key, an unknown operation
    land(lake, spec, 1, (6, 40, "six", "c"), (7, None, "no order", "c"), (None, 41, "no key", "c"), (8, 42, "", "zap"), (1, 15, "below", "u"))
    assert [row["id"] for row in live(lake, spec)] == [5, 6]
    spec = lake.with_settings(spec, epoch=1)
    land(lake, spec, 2, (5, 1, "again", "u"))
    assert {row["id"]: row["v"] for row in live(lake, spec)} == {5: "again", 6: "six"}
    spec = lake.with_settings(spec, epoch=2, epoch_replaces=True)
    land(lake, spec, 3, (9, 1, "alone", "c"))
    assert [row["id"] for row in live(lake, spec)] == [9]
    table = Table(lake.env, spec)
    restore(table, at_version(table, lake.snapshot(spec).version - 1))
    assert [row["id"] for row in lake.rows(spec, "t_live")] == [5, 6]

    spec = lake.spec(name="taken", live_view=True, archive="keep")
    lake.spark.createDataFrame([(1, "base"), (2, "base")], "id BIGINT, v STRING").coalesce(1).write.parquet(str(lake.root / "old"))
    land(lake, spec, 1, (1, 10, "in the base", "u"))
    land(lake, spec, 2, (1, 5, "changed", "u"), (3, 6, "new", "c"))
    adopt(Table(lake.env, spec), str(lake.root / "old"), "increment_2024030501")
    assert [(row["id"], row["v"]) for row in live(lake, spec)] == [(1, "changed"), (2, "base"), (3, "new")]


@pytest.mark.slow
def test_landed_files_with_odd_names_and_ancient_dates_can_be_read(lake: Lake) -> None:
    """A column that Hive 2 cannot read is not in the table of landed files; Spark reads dates before 1582 as they were written, whatever its setting."""
    spec = lake.spec(live_view=True, archive="keep")
    days = [datetime.date(1, 1, 2), datetime.date(1582, 10, 10), datetime.date(2024, 3, 5)]
    land_by_others(lake, Path(spec.landing) / "increment_2024030501" / "a.parquet", days, 1)
    lake.run(spec)
    land_by_others(lake, Path(spec.landing) / "increment_2024030502" / "a.parquet", days, 4)
    sync_table(Table(lake.env, spec))
    modes = {name: lake.spark.conf.get(name) for name in (f"spark.sql.parquet.{kind}RebaseModeInRead" for kind in ("datetime", "int96"))}
    try:
        for name in modes:
            lake.spark.conf.set(name, "EXCEPTION")
        landed = lake.rows(spec, "t_incremental")
        shown = lake.rows(spec, "t_live")
    finally:
        for name, mode in modes.items():
            lake.spark.conf.set(name, str(mode))
    expected = [day.isoformat() for day in days] * 2
    assert [row["day"] for row in landed] == expected
    assert [row["day"] for row in shown] == expected
    lake.run(spec)
    assert shown == lake.rows(spec)

    spec = lake.spec(name="odd", archive="keep")
    lake.land_parquet(spec, 1, [{"id": 1, "seq": 1, "a": 2, "s": (3,)}], "id INT, seq INT, `a.b c` INT, s STRUCT<`x y`: INT>")
    lake.run(spec)
    assert [{"id": 1, "seq": 1, "landed_folder": "f_increment_2024030501"}] == [
        {name: row[name] for name in ("id", "seq", "landed_folder")} for row in lake.rows(spec, "odd_incremental")
    ]
    assert {"id", "seq", "landed_folder"} == set(lake.spark.table(f"`{lake.database}`.odd_incremental").columns)
    with pytest.raises(Refused, match=r"a\.b c"):
        sync_table(Table(lake.env, lake.with_settings(spec, live_view=True)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_random_landed_files_are_shown_as_the_next_run_leaves_them(lake: Lake, seed: int) -> None:
    """Flat rows of a connector, in any order and some of them twice, in old folders and new ones."""
    rng = random.Random(f"live {seed}")
    source = Source()
    for _ in range(30):
        source.step(rng.choice(("insert", "insert", "update", "delete", "snapshot")), rng.randrange(30), rng.randrange(30))
    rows = [row for line in source.lines for row in emit.flat(("id",), [json.loads(line)])]
    ddl = "id BIGINT, a BIGINT, b STRING, c STRING, __op STRING, __deleted STRING, __lsn BIGINT, __source_txId BIGINT"
    first, *rest = [{name: row[name] for name in ddl.replace(" BIGINT", "").replace(" STRING", "").split(", ")} for row in rows]
    rest = rng.sample(rest, len(rest)) + rng.sample(rest, 5)
    spec = lake.spec(live_view=True, archive="keep", order_by=("__lsn",), write_mode=rng.choice(("merge-on-read", "copy-on-write")))
    lake.land_parquet(spec, 1, [first, *rest[:5]], ddl)
    lake.run(spec)
    for hour, part in enumerate((rest[5:15], rest[15:25], rest[25:])):
        lake.land_parquet(spec, rng.choice((1, 2 + hour)), part, ddl)
        live(lake, spec)


@pytest.mark.slow
def test_a_version_that_a_check_blocks_is_not_shown_live(lake: Lake) -> None:
    """Files that are ingested again after a restore: its tables have no such version yet."""
    spec = lake.spec("lv", live_view=True, archive="keep", write_mode="merge-on-read")
    columns = "id bigint, seq bigint, a bigint"
    lake.land_parquet(spec, 1, [{"id": key, "seq": key, "a": key} for key in range(1, 5)], columns)
    lake.run(spec)
    lake.land_parquet(spec, 2, [{"id": 1, "seq": 20, "a": 100}, {"id": 9, "seq": 21, "a": 9}], columns)
    lake.run(spec)
    table = Table(lake.env, spec)
    restore_table(table, named(table, "1"))
    before = lake.rows(spec, "lv_live")
    blocked = lake.with_settings(spec, rules=(Rule(ACCEPTED, ("a",), values=("1", "2", "3", "4")),))
    assert "blocked" == reabsorb_table(Table(lake.env, blocked)).outcome
    assert [1, 2, 3, 4] == [row["id"] for row in lake.rows(spec)]
    assert before == lake.rows(spec, "lv_live")


@pytest.mark.slow
def test_times_in_avro_are_shown_as_they_are_or_not_at_all(lake: Lake) -> None:
    """Engines take every timestamp of a table of Avro files for milliseconds: of microseconds the table has the number, and no live view is made."""
    moment = datetime.datetime(2024, 3, 5, 11, tzinfo=datetime.timezone.utc)
    for kind, shown in (("millis", "2024-03-05 11:00:00"), ("micros", "1709636400000000")):
        spec = lake.spec(f"of_{kind}", live_view=True, archive="keep")
        fields = [{"name": name, "type": "long"} for name in ("id", "seq")]
        land_avro(spec, 1, [*fields, {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{kind}"}}], (1, 1, moment))
        if kind == "millis":
            lake.run(spec)
        else:
            with pytest.raises(Refused, match="`live_view` is not possible: the column at of the files is bigint, it is stored as timestamp"):
                lake.run(spec)
        lake.spark.catalog.setCurrentDatabase(lake.database)
        assert [shown] == [row.at for row in lake.spark.sql(f"SELECT CAST(at AS STRING) AS at FROM {spec.name}_incremental").collect()]
        assert [moment.replace(tzinfo=None)] == [row.at for row in lake.spark.sql(f"SELECT at FROM {spec.name}").collect()]


@pytest.mark.slow
def test_landed_avro_files_are_readable_whatever_their_times(lake: Lake) -> None:
    """Milliseconds and microseconds in one run, and inside of other values: all are numbers."""
    moment = datetime.datetime(2024, 3, 5, 11, tzinfo=datetime.timezone.utc)
    spec, whole = lake.spec(archive="keep"), [{"name": name, "type": "long"} for name in ("id", "seq")]
    for hour, kind in enumerate(("millis", "micros"), 1):
        time = {"type": "long", "logicalType": f"timestamp-{kind}"}
        fields = [*whole, {"name": "at", "type": time}, {"name": "all", "type": {"type": "array", "items": ["null", time]}}]
        land_avro(spec, hour, fields if hour == 2 else fields[:3], *([(hour, hour, moment, [moment])] if hour == 2 else [(hour, hour, moment)]))
    lake.run(spec)
    lake.spark.catalog.setCurrentDatabase(lake.database)
    rows = lake.spark.sql("SELECT id, at, all FROM t_incremental ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, 1709636400000, None), (2, 1709636400000000, [1709636400000000])]
