"""`<view>_ro` on Spark and DuckDB: a committed version from the base alone, after commits, compactions, deletes and a restore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactor.app import App
from compactor.core.catalog import base_views
from compactor.core.settings.forms import NEVER
from compactor.flows.table import Table
from compactor.flows.write import restore
from compactor.read import Table as Opened
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark


def shown(lake: Lake, spec: Any) -> tuple[str, dict[int, Any]]:
    """The version that the view names, and its rows: id → a."""
    view = lake.env.catalog().view(lake.database, "t_ro")
    assert view is not None
    return view.properties[base_views.STATE_VERSION], {row["id"]: row["a"] for row in lake.rows(spec, "t_ro")}


@pytest.mark.slow
def test_the_base_alone_is_the_last_compaction(lake: Lake, tmp_path: Path) -> None:
    """Several Segments, changes in one of them; the plan has no join. DuckDB and Python show the same as Spark."""
    spec = lake.spec(op="op", read_optimized=True, compact_window=NEVER, target_file_bytes=6_000, write_mode="merge-on-read", order_by=("__lsn",))
    names = {"op": "c", "__source_ts_ms": 1_700_000_000_000}
    lake.land(spec, 0, [{"id": at, "__lsn": at, "a": f"{at:040d}", **names} for at in range(1000)])
    lake.run(spec)
    first = {at: f"{at:040d}" for at in range(1000)}
    assert (len(lake.snapshot(spec).segments) > 2, shown(lake, spec)) == (True, ("1", first))
    lake.land(spec, 1, [{"id": 1, "__lsn": 2001, "a": "one", **names}, {"id": 2, "__lsn": 2002, **names, "op": "d"}])
    lake.run(spec)
    lake.land(spec, 2, [{"id": 5000, "__lsn": 2003, "a": "new", **names, "__source_ts_ms": 1_700_000_009_000}])
    lake.run(spec)
    assert shown(lake, spec) == ("1", first)
    changed = {at: value for at, value in {**first, 1: "one", 5000: "new"}.items() if at != 2}
    assert {row["id"]: row["a"] for row in lake.rows(spec)} == changed
    lake.run(spec.compacting_now)
    newest = lake.snapshot(spec)
    assert (newest.operation, newest.delta) == ("compact", None)
    assert len({segment.path.split("/")[1] for segment in newest.segments}) == 2, "untouched Segments stay"
    lake.land(spec, 3, [{"id": 3, "__lsn": 2004, "a": "later", **names, "op": "d"}])
    lake.run(spec)
    assert shown(lake, spec) == ("3", changed)
    text = lake.spark.sql(f"EXPLAIN SELECT sum(id) FROM `{lake.database}`.`t_ro`").collect()[0][0]
    assert "Join" not in text
    properties = {row.key: row.value for row in lake.spark.sql(f"SHOW TBLPROPERTIES `{lake.database}`.`t_ro`").collect()}
    assert properties[base_views.STATE_SOURCE_TIME] == Table(lake.env, spec).committed(3).source_time
    assert properties["compactor.version"] == str(lake.snapshot(spec).version)
    assert lake.problems(spec) == []
    same_without_spark(lake, tmp_path, changed)
    restore.restore(Table(lake.env, spec), restore.at_version(Table(lake.env, spec), 1))
    assert shown(lake, spec)[1] == first
    assert lake.problems(spec) == []


def same_without_spark(lake: Lake, folder: Path, expected: dict[int, Any]) -> None:
    """`compactor sql` on DuckDB and `compactor.read` show these rows."""
    settings = "{key: [id], op: op, order_by: [__lsn], read_optimized: true}"
    config = folder / "compactor.yaml"
    config.write_text(f'warehouse: "{lake.root}"\ncatalog: {{database: {lake.database}}}\ntables:\n  t: {settings}\n')
    opened = Opened.open(config, "t")
    assert (opened.compacted_version, opened.version) == (3, 5)
    assert {row["id"]: row["a"] for row in opened.compacted().to_arrow().to_pylist()} == expected
    with App.open(config) as app:
        assert [json.loads(row) for row in app.sql("select count(*) as n from t_ro", engine="duckdb")] == [{"n": len(expected)}]
        assert [json.loads(row)["tableName"] for row in app.sql("show tables")] == ["t", "t_ro"]
        assert not app.runtime.started


@pytest.mark.slow
def test_a_table_without_key_has_one_too(lake: Lake) -> None:
    """Its rows as of the last compaction."""
    spec = lake.spec(key=(), read_optimized=True, compact_window=NEVER, order_by=("__lsn",), write_mode="merge-on-read")
    for hour in (0, 1):
        lake.land(spec, hour, [{"__lsn": 10 * hour + at, "id": 10 * hour + at, "a": "x"} for at in range(10)])
        lake.run(spec)
    assert len(lake.rows(spec)) == 20
    version, rows = shown(lake, spec)
    assert (version, len(rows)) == ("1", 10)
