"""The Iceberg table over files that Spark wrote: PyIceberg, Polars and DuckDB answer what `_ro` answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from compactor.app.app import App
from compactor.core.formats import parquet
from compactor.core.iceberg import metadata, schema
from compactor.core.model.errors import Refused
from compactor.core.settings.forms import NEVER
from compactor.flows.keep.vacuum import vacuum
from compactor.flows.publish import native
from compactor.flows.read import check as configured
from compactor.flows.read.check import Looked
from compactor.flows.table import Table
from compactor.flows.verbs import rebuild_table
from compactor.flows.write import restore
from compactor.spark.interpreting import Sessions
from compactor.spark.session import PARQUET
from tests.capture import config, landing
from tests.native import readers
from tests.native.lake import visible
from tests.oracle.sizes import FULL
from tests.parts.one_spark import app_on_one_spark, spark
from tests.spark.added_defaults import DEFAULTS, ID, columns, record
from tests.spark.conftest import lake
from tests.spark.lake import Lake

__all__ = ["app_on_one_spark", "lake", "spark"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]

TELLING = ("student", "toast_def", "audit_log", "evolve", "uq_ident", "type_zoo")
SETTINGS = {"iceberg": ("base",), "read_optimized": True, "parquet": "standard"}


@pytest.fixture(autouse=True)
def standard(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files as a session for `parquet: standard` writes them."""
    made = Sessions._other

    def other(sessions: Sessions, name: str, settings: Mapping[str, str]) -> SparkSession:
        # one that is made of the shared session has the settings with which that began
        return made(sessions, name, {**{key: str(spark.conf.get(key)) for key in PARQUET["hive"]}, **settings})

    monkeypatch.setattr(Sessions, "_other", other)
    write_as(spark, "standard")
    yield
    write_as(spark, "hive")


def write_as(spark: SparkSession, form: str) -> None:
    """Write in this form from now on."""
    for name, value in PARQUET[form].items():
        spark.conf.set(name, value)


def same(spark: SparkSession, view: str, table: Table, folder: Path, form: str = "base") -> int:
    """Check that every reader shows what the view shows, and what the footers say of the files. Return the number of rows."""
    spark.table(view).write.mode("overwrite").parquet(str(folder))
    expected = readers.rows("parquet", str(folder))
    exported = native.current(table, form)
    assert exported is not None
    assert visible(exported.current) == len(expected[1])
    for reader in readers.READERS:
        found = readers.rows(reader, table.layout.iceberg_metadata(form, exported.number))
        assert found == expected, (view, reader)
    check_footers(table, form)
    return len(expected[1])


def check_footers(table: Table, form: str) -> None:
    """Our reader of footers says what pyarrow's says."""
    newest = table.newest()
    assert newest is not None
    columns = schema.columns_of(newest, {})
    parts = metadata.parts_of(newest, form)
    assert not isinstance(parts, str)
    for part in parts:
        for file in part.files:
            path = Path(table.layout.inside(part.path)) / file.name
            ours, theirs = parquet.parse(path.read_bytes(), columns.bounded), pyarrow.parquet.read_metadata(path)
            assert ours.rows == theirs.num_rows
            for at in range(theirs.num_columns):
                chunks = [theirs.row_group(group).column(at) for group in range(theirs.num_row_groups)]
                stats = ours.columns.get(tuple(chunks[0].path_in_schema.split(".")))
                if stats is not None:
                    assert stats.values == sum(chunk.num_values for chunk in chunks)
                    nulls = [chunk.statistics.null_count for chunk in chunks if chunk.statistics is not None and chunk.statistics.has_null_count]
                    # Parquet writes no statistics of values that are too long for them
                    assert stats.nulls == (sum(nulls) if len(nulls) == len(chunks) else None)


TYPES = (
    "id INT, seq INT, t TINYINT, s SMALLINT, b BIGINT, f FLOAT, d DOUBLE, y BOOLEAN, x STRING, z BINARY, day DATE, at TIMESTAMP, small DECIMAL(5,2), "
    "middle DECIMAL(18,3), large DECIMAL(38,10), list ARRAY<INT>, texts ARRAY<STRING>, member STRUCT<n: INT, deep: STRUCT<at: TIMESTAMP, l: ARRAY<INT>>>, "
    "rows ARRAY<STRUCT<a: INT, b: STRING>>, pairs MAP<STRING, INT>, Odd STRING, `with space` INT, `größe` DOUBLE"
)
ROW = (
    "named_struct('n', id, 'deep', named_struct('at', timestamp_micros(id * 1234567), 'l', array(id, NULL)))",
    "array(named_struct('a', id, 'b', 'x'), NULL)",
    "map('k', id, 'l', NULL)",
)


def every_type(lake: Lake, first: int, end: int, seq: int) -> list[Any]:
    """Rows with a value of every type; each tenth row has nulls only."""
    rows = lake.spark.range(first, end).selectExpr("CAST(id AS INT) AS id").selectExpr(
        "id", f"CAST({seq} AS INT) AS seq", "CAST(id % 100 - 50 AS TINYINT)", "CAST(id * 11 - 9000 AS SMALLINT)", "id * 10000000000L - 5", "CAST(id / 7 AS FLOAT)",
        "CASE WHEN id = 7 THEN double('NaN') WHEN id = 8 THEN double('-Infinity') ELSE id / 3 - 9 END", "id % 2 = 0",
        "concat(repeat('ä', 40), id, '🙂')", "CAST(concat('b', id) AS BINARY)", "date_add(DATE'1500-01-01', id * 900)",
        "timestamp_micros(id * 86400000000123 - 9000000000000000)", "CAST(id / 10 - 5 AS DECIMAL(5,2))", "CAST(id * 1000003 - 7 AS DECIMAL(18,3))",
        "CAST(CAST(id - 20 AS DECIMAL(38,10)) * 123456789012345678 AS DECIMAL(38,10))", "array(id, NULL, 3)", "array('a', NULL, concat('x', id))", *ROW,
        "concat('o', id)", "id + 1", "id / 9",
    )  # fmt: skip
    made = rows.toDF(*[part.split()[0].strip("`") for part in _columns()])
    # PyIceberg 0.12 shows a null list of structs as an empty one (docs/native.md)
    return [
        row if row[0] % 10 else (row[0], row[1], *([] if name == "rows" else None for name in _columns()[2:]))
        for row in (tuple(row) for row in made.collect())
    ]


def _columns() -> list[str]:
    return [
        "id",
        "seq",
        "t",
        "s",
        "b",
        "f",
        "d",
        "y",
        "x",
        "z",
        "day",
        "at",
        "small",
        "middle",
        "large",
        "list",
        "texts",
        "member",
        "rows",
        "pairs",
        "Odd",
        "with_space",
        "größe",
    ]


def test_every_type(lake: Lake, tmp_path: Path) -> None:
    """Several Segments, nulls, NaN, dates before 1582, long texts, nested types; after changes, a compaction, a new column, a restore."""
    spec = lake.spec(**SETTINGS, compact_window=NEVER, target_file_bytes=20_000)
    names = [part.strip() for part in _columns()]

    def land(hour: int, rows: list[Any]) -> None:
        lake.land_parquet(spec, hour, [dict(zip(names, row, strict=True)) for row in rows], TYPES)

    land(0, every_type(lake, 0, 1500, 1))
    lake.run(spec)
    table, view, out = Table(lake.env, spec), f"`{lake.database}`.`t_ro`", tmp_path / "expected"
    assert len(lake.snapshot(spec).segments) > 2
    assert same(lake.spark, view, table, out) == 1500
    place = table.layout.iceberg_metadata("base", 1)
    files = sum(len(segment.files) for segment in lake.snapshot(spec).segments)
    for where in ("b = 20004999999995", "day = '1998-11-11'", "Odd = 'o77'", "middle < -1"):
        assert len(readers.plan(place, where.replace("Odd", "odd"))) < files, where
    land(1, every_type(lake, 1400, 1600, 2))
    lake.run(spec)
    assert same(lake.spark, view, table, out) == 1500
    lake.run(spec.compacting_now)
    assert same(lake.spark, view, table, out) == 1600
    assert len(native.current(table, "base").raw["snapshots"]) == 2  # type: ignore[union-attr]
    restore.restore(table, restore.at_version(table, 1))
    assert same(lake.spark, view, table, out) == 1500
    exported = native.current(table, "base")
    assert exported is not None
    assert (exported.number, len(exported.raw["snapshots"])) == (3, 2)
    assert exported.raw["current-snapshot-id"] == exported.raw["snapshots"][0]["snapshot-id"]
    assert lake.problems(spec) == []
    pointer = lake.env.catalog().native(lake.database, "t_iceberg")
    assert pointer is not None
    assert pointer.metadata == table.layout.iceberg_metadata("base", 3)


def test_every_type_as_new_as_the_view(lake: Lake, tmp_path: Path) -> None:
    """Vectors over several Segments, of which some are compacted; odd characters in no path, dates before 1582, nested types; then a restore."""
    spec = lake.spec(iceberg=("current",), parquet="standard", compact_window=NEVER, target_file_bytes=20_000)
    names = [part.strip() for part in _columns()]
    table, view, out = Table(lake.env, spec), f"`{lake.database}`.`t`", tmp_path / "expected"
    for hour, (first, end) in enumerate(((0, 1500), (1400, 1600), (30, 40), (25, 35))):
        lake.land_parquet(spec, hour, [dict(zip(names, row, strict=True)) for row in every_type(lake, first, end, hour)], TYPES)
        assert not any(note.startswith("Iceberg (") for note in lake.run(spec).notes)
        assert same(lake.spark, view, table, out, "current") == (1500 if hour == 0 else 1600)
    hidden = native.current(table, "current").current["summary"]  # type: ignore[union-attr]
    assert hidden["total-position-deletes"] == "115"
    assert int(hidden["total-delete-files"]) > 1
    lake.run(spec.compacting_now)
    assert same(lake.spark, view, table, out, "current") == 1600
    restore.restore(table, restore.at_version(table, 1))
    assert same(lake.spark, view, table, out, "current") == 1500
    assert lake.problems(spec) == []


@pytest.mark.parametrize("settings", [{"key": ()}, {"key": ("v", "id")}, {"delete_when": "v = 'z'"}], ids=["keyless", "two", "delete_when"])
def test_rows_without_a_key_of_two_columns_and_deleted_by_value(lake: Lake, tmp_path: Path, settings: dict[str, Any]) -> None:
    """Equal rows of a table without key are apart; what a value deletes is in no form."""
    given = {
        **SETTINGS,
        "iceberg": ("base", "current"),
        "order_by": (),
        "envelope": "debezium",
        "write_mode": "merge-on-read",
        "compact_window": NEVER,
    }
    spec = lake.spec(**given, **settings)
    table, out = Table(lake.env, spec), tmp_path / "expected"
    for hour, events in enumerate((
        [("c", 1, 1, "a", None), ("c", 2, 1, "b", None), ("c", 3, 2, "a", None), ("c", 4, 3, "ß", None)],
        [("d", 5, 1, "b", None), ("u", 6, 2, "z", "a"), ("c", 7, 4, "a", None)],
        [("c", 8, 1, "b", None), ("d", 9, 4, "a", None)],
    )):  # fmt: skip
        lake.land(spec, hour, [envelope(*event) for event in events])
        assert not any(note.startswith("Iceberg (") for note in lake.run(spec).notes)
        assert same(lake.spark, f"`{lake.database}`.`t`", table, out, "current") > 1
    lake.run(spec.compacting_now)
    rows = same(lake.spark, f"`{lake.database}`.`t`", table, out, "current")
    assert rows == same(lake.spark, f"`{lake.database}`.`t_ro`", table, out)


def envelope(op: str, seq: int, key: int, value: str, before: str | None) -> dict[str, Any]:
    """An event of Debezium without its schema."""
    row = {"id": key, "v": value}
    old = {"id": key, "v": before} if before else row if op == "d" else None
    source = {"lsn": seq, "ts_ms": seq, "txId": seq, "snapshot": "false", "connector": "postgresql", "schema": "s", "table": "t"}
    return {"op": op, "before": old, "after": None if op == "d" else row, "source": source, "ts_ms": seq}


def test_files_in_the_form_for_hive_are_named(lake: Lake, tmp_path: Path) -> None:
    """Readers misread its lists: nothing is exported, the run says how to rewrite them, and then they are right."""
    write_as(lake.spark, "hive")
    spec = lake.spec(**SETTINGS)
    lake.land(spec, 0, [{"id": 1, "seq": 1, "list": [1, 2]}])
    report, table = lake.run(spec), Table(lake.env, spec)
    assert report.outcome == "committed"
    assert any("holds list in the form for Hive 2 and 3; `compactor rebuild t`" in note for note in report.notes)
    assert native.current(table, "base") is None
    write_as(lake.spark, "standard")
    for session in lake.env.engine()._sessions._others.values():  # type: ignore[attr-defined]
        write_as(session, "standard")
    rebuild_table(table, accept=True)
    assert same(lake.spark, f"`{lake.database}`.`t_ro`", table, tmp_path / "expected") == 1


def plan_says(table: Table) -> str:
    """What `compactor plan` says of the Iceberg table."""
    looked = Looked(table.newest(), (), Refused("nothing has landed"), samples=False)
    return next(each.detail for each in configured.check(table, looked) if each.name == "rows of t_iceberg")


def test_a_default_of_every_type_is_stored_by_the_next_compaction(lake: Lake, tmp_path: Path) -> None:
    """Until then nothing new is exported; then it is in every Segment, also in those without changes.

    A late event that changes a default writes all rows anew, with the one that they read now. An older version is as it was.
    """
    spec = lake.spec(**SETTINGS, compact_window=NEVER, write_mode="merge-on-read", target_file_bytes=2000)
    table, view, out = Table(lake.env, spec), f"`{lake.database}`.`t_ro`", tmp_path / "expected"

    def of_t8() -> dict[int, Any]:
        return {row["id"]: row["t8"] for row in lake.rows(spec) if row["id"] <= 10}

    lake.land(spec, 1, [record(ID, {"id": n, "seq": 40 if n == 2 else 10}) for n in (1, 2, *range(10, 1000))])
    lake.run(spec)
    first, before = native.current(table, "base"), lake.snapshot(spec).segments
    assert len(before) > 1
    lake.land(spec, 2, [record(columns(), {"id": 3, "seq": 30, **dict.fromkeys(DEFAULTS)})])
    behind = "rows from before the column b read its default, which the next compaction stores in them"
    assert f"Iceberg (base) shows version 1: {behind}" in lake.run(spec).notes
    vacuum(table, False)
    assert native.current(table, "base") == first
    assert plan_says(table) == f"readers see an older version: {behind}"
    lake.run(spec.compacting_now)
    assert same(lake.spark, view, table, out) == 993
    assert plan_says(table) == "as of the last compaction"
    assert not {segment.path for segment in before} & {segment.path for segment in lake.snapshot(spec).segments}
    assert of_t8() == {1: 2**63 - 1, 2: None, 3: None, 10: 2**63 - 1}
    fields = [{**field, "default": 5} if field["field"] == "t8" else field for field in columns()]
    lake.land(spec, 3, [record(fields, {"id": 4, "seq": 20, **dict.fromkeys(DEFAULTS)})])
    lake.run(spec)
    assert same(lake.spark, view, table, out) == 994
    assert of_t8() == {1: 5, 2: None, 3: None, 4: None, 10: 5}
    # a row from between the two reads null, one from before them the default
    lake.land(spec, 4, [record(ID, {"id": 5, "seq": 25}), record(ID, {"id": 6, "seq": 4})])
    lake.run(spec.compacting_now)
    assert same(lake.spark, view, table, out) == 996
    assert of_t8() == {1: 5, 2: None, 3: None, 4: None, 5: None, 6: 5, 10: 5}
    assert lake.problems(spec) == []
    restore.restore(table, restore.at_version(table, 1))
    assert same(lake.spark, view, table, out) == 992
    assert lake.spark.table(view).columns == ["id", "seq"]


def test_text_that_became_a_column_of_another_type(lake: Lake, tmp_path: Path) -> None:
    """A new generation: all files are new, and the older snapshot keeps its columns."""
    spec = lake.spec(**SETTINGS)
    lake.land(spec, 0, [{"id": at, "seq": 1, "n": at} for at in range(20)])
    lake.run(spec)
    lake.land(spec, 1, [{"id": 3, "seq": 2, "n": 1.5, "more": "x"}])
    lake.run(spec)
    table = Table(lake.env, spec)
    assert same(lake.spark, f"`{lake.database}`.`t_ro`", table, tmp_path / "expected") == 20
    exported = native.current(table, "base")
    assert exported is not None
    assert [len(each["fields"]) for each in exported.raw["schemas"]] == [3, 4]
    first = exported.raw["snapshots"][0]["snapshot-id"]
    assert len(readers.rows("pyiceberg", table.layout.iceberg_metadata("base", exported.number), snapshot=first)[0]) == 3


@pytest.mark.usefixtures("app_on_one_spark")
@pytest.mark.parametrize("form", ["debezium_json_kafka", "debezium_avro_kafka", "flat_value"] if FULL else ["debezium_json_kafka"])
def test_every_table_of_the_capture(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """What PostgreSQL sent, in some runs (the sample: the telling tables), columns with defaults among it. Both forms."""
    tables = sorted({*(landing.tables() if FULL else TELLING)} - config.REFUSED.get(form, set()))
    text = config.config_text(
        form, tables, warehouse=tmp_path, database="school", table_extra={**SETTINGS, "iceberg": ["base", "current"], "write_mode": "merge-on-read"}
    )
    (tmp_path / "compactor.yaml").write_text(text)
    compared = 0
    for hours in ([0, 1, 2], [3, 4, 5, 6, 7, 8]):
        landing.land(tmp_path, form, hours=hours, only=tables)
        with App.open(tmp_path / "compactor.yaml") as app:
            for compact in (False, True):
                for report in app.run(compact=compact):
                    assert report.error is None, report
                    behind = any(note.startswith("Iceberg (") for note in report.notes)
                    assert not (compact and behind), report
                    if report.version is None:
                        continue
                    if not behind:
                        same(spark, f"school.{report.table}", app.table(report.table), tmp_path / "expected", "current")
                    if compact:
                        same(spark, f"school.{report.table}_ro", app.table(report.table), tmp_path / "expected")
                        compared += 1
    assert compared > len(tables)


def test_the_stored_metadata_is_what_the_specification_asks_for(lake: Lake) -> None:
    """Required fields of version 2, ids from 1, no path twice."""
    spec = lake.spec(**SETTINGS)
    lake.land(spec, 0, [{"id": at, "seq": 1, "n": at} for at in range(20)])
    lake.run(spec)
    raw = json.loads(Path(Table(lake.env, spec).layout.iceberg_metadata("base", 1)).read_text())
    required = {
        "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id", "schemas", "current-schema-id",
        "partition-specs", "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id",
    }  # fmt: skip
    assert required <= set(raw)
    assert [field["id"] for field in raw["schemas"][0]["fields"]] == [1, 2, 3]
