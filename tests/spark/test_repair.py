"""The file of `compactor reconcile --repair` in tables of several envelopes and formats, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compactor.app import App
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.side import Row
from compactor.flows.land import repair
from compactor.spark.decode import repair as repair_lines
from tests.parts.one_spark import app_on_one_spark

__all__ = ["app_on_one_spark"]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")]

PAIRS = (
    Pair("id", "int", "id", "integer", "integer", True),
    Pair("price", "decimal(10,2)", "price", "numeric(10,2)", "number", False),
    Pair("at", "timestamp", "at", "timestamp without time zone", "moment", False),
    Pair("raw", "binary", "raw", "bytea", "bytes", False),
)
KINDS = {"id": "integer", "price": "numeric(10,2)", "at": "timestamp", "raw": "bytea", "tags": "text"}


TEXTS = [
    ("integer", "-7", "-7"),
    ("number", "0.1", "0.1"),
    ("double", "9218868437227405312", "Infinity"),
    ("double", "-4616189618054758400", "-1.0"),
    ("single", "4591870180174331904", "0.10000000149011612"),
    ("boolean", "true", "true"),
    ("date", "0", "1970-01-01"),
    ("date", "-719528", "0000-01-01"),
    ("date", "-735160", "-0043-03-15"),
    ("date", "2932897", "+10000-01-01"),
    ("moment", "-62135596800000001", "0000-12-31T23:59:59.999999Z"),
    ("moment", "1709632800500000", "2024-03-05T10:00:00.5Z"),
    ("time", "10:00:00.1", "10:00:00.1"),
    ("bytes", "00ff", "\\x00ff"),
    ("text", "O'Brien \u2028 \n", "O'Brien \u2028 \n"),
]


def test_a_canonical_text_becomes_the_text_of_a_value(spark: SparkSession) -> None:
    """As readers of text take it."""
    rows = spark.createDataFrame([(at, value) for at, (_, value, _) in enumerate(TEXTS)], "at INT, v STRING")
    cases = " ".join(f"WHEN {at} THEN {repair_lines.text(form, 'v')}" for at, (form, _, _) in enumerate(TEXTS))
    read = {row.at: row.text for row in rows.selectExpr("at", f"CASE at {cases} END AS text").collect()}
    assert [read[at] for at in range(len(TEXTS))] == [expected for _, _, expected in TEXTS]


def wal2json(op: str, lsn: int, table: str = "t", **values: Any) -> str:
    """A line of wal2json's format 2."""
    columns = [{"name": name, "type": KINDS[name], "value": value} for name, value in values.items()]
    when = f"2026-11-20 10:00:{lsn:02d}.000000+00"
    part = {"identity": columns[:1]} if op == "D" else {"columns": columns, "identity": columns[:1]}
    return json.dumps({"action": op, "xid": lsn, "timestamp": when, "lsn": f"0/{lsn:X}", "schema": "public", "table": table, **part})


def land(tmp_path: Path, hour: int, *lines: str) -> None:
    """A file of changes."""
    folder = tmp_path / f"landing/increment_20261120{hour:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"part-{hour}.json").write_text("\n".join(lines), encoding="utf-8")


def ingested(app: App) -> list[tuple[Any, ...]]:
    """Run, and return the rows of the view."""
    (report,) = app.run(["t"])
    assert report.error is None, report.error
    text = "SELECT id, CAST(price AS STRING), CAST(at AS STRING), hex(raw), tags FROM proof.t ORDER BY id"
    return [tuple(row) for row in app.runtime.spark().sql(text).collect()]


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["", "history: true, change_feed: true", "delete: hard, archive: keep"])
def test_a_repair_wins_against_what_is_stored_and_loses_against_what_comes(settings: str, tmp_path: Path) -> None:
    """Columns that it leaves out keep their values; a key without row is deleted; the file is no data for others."""
    config = tmp_path / "compactor.yaml"
    table = f"key: [id], envelope: wal2json, increments: {tmp_path}/landing/increment_%Y%m%d%H, {settings}"
    config.write_text(f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n  t: {{{table}}}\n")
    first = {"price": "1.00", "at": "2026-01-01 00:00:00", "raw": "00ff", "tags": "kept"}
    with App.open(config) as app:
        land(tmp_path, 1, *(wal2json("I", 10 + key, id=key, **first) for key in (1, 2, 3)))
        before = ingested(app)
        assert before == [(key, "1.00", "2026-01-01 00:00:00", "00FF", "kept") for key in (1, 2, 3)]
        opened = app.runtime.table(app.specs(["t"])[0])
        rows = {("1",): (Row("", "", ("1", "7.5", "-1", "0a"), (None,) * 4),), ("4",): (Row("", "", ("4", None, "0", None)),)}
        path = repair.land(opened, Columns(PAIRS, ()), [("1",), ("3",), ("4",)], {}, lambda: rows)
        assert path.startswith("increment_2026112001/_repair-t-")
        assert not repair.ingested(opened, path)
        repaired = [
            (1, "7.50", "1969-12-31 23:59:59.999999", "0A", "kept"),
            (2, "1.00", "2026-01-01 00:00:00", "00FF", "kept"),
            (4, None, "1970-01-01 00:00:00", None, None),
        ]
        assert ingested(app) == repaired
        assert repair.ingested(opened, path)
        # 12 is late, 20 is newer
        land(tmp_path, 2, wal2json("U", 12, id=1, **{**first, "price": "2.00"}), wal2json("U", 20, id=4, **{**first, "tags": "new"}))
        assert ingested(app) == [*repaired[:2], (4, "1.00", "2026-01-01 00:00:00", "00FF", "new")]
        failed = [check for check in app.verify(["t"]) if not check.ok]
        assert not failed, failed


@pytest.mark.slow
def test_a_repair_of_a_table_in_the_order_of_mysqls_log_is_ingested(tmp_path: Path) -> None:
    """MySQL's position within the log may be null in some records, and a repair has no source block to look for it in."""
    config = tmp_path / "compactor.yaml"
    table = f"key: [id], envelope: debezium, increments: {tmp_path}/landing/increment_%Y%m%d%H"
    config.write_text(f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n  t: {{{table}}}\n")

    def change(pos: int, **row: Any) -> str:
        source = {"connector": "mysql", "snapshot": "false", "file": "bin.000001", "pos": pos, "row": 0, "ts_ms": 1_795_600_000_000 + pos}
        return json.dumps({"op": "c", "before": None, "after": row, "source": source, "ts_ms": 1_795_600_000_000 + pos})

    def rows(app: App) -> list[tuple[Any, ...]]:
        (report,) = app.run(["t"])
        assert report.error is None, report.error
        return [tuple(row) for row in app.runtime.spark().sql("SELECT id, name FROM proof.t ORDER BY id").collect()]

    with App.open(config) as app:
        land(tmp_path, 1, change(10, id=1, name="a"), change(20, id=2, name="b"))
        assert rows(app) == [(1, "a"), (2, "b")]
        opened = app.runtime.table(app.specs(["t"])[0])
        pairs = (Pair("id", "bigint", "id", "bigint", "integer", True), Pair("name", "string", "name", "text", "text", False))
        repair.land(opened, Columns(pairs, ()), [("1",), ("2",)], {}, lambda: {("1",): (Row("", "", ("1", "A")),)})
        assert rows(app) == [(1, "A")]
        land(tmp_path, 2, change(30, id=1, name="newer"))
        assert rows(app) == [(1, "newer")]


@pytest.mark.slow
def test_a_repair_of_a_table_changes_no_other_table_of_its_landing_folder(tmp_path: Path) -> None:
    """Both tables read the folder, and have a row of the repaired key."""
    config = tmp_path / "compactor.yaml"
    shared = f"key: [id], envelope: wal2json, increments: {tmp_path}/landing/increment_%Y%m%d%H"
    tables = "".join(f"  {name}: {{{shared}, source_table: public.{name}}}\n" for name in ("t", "other"))
    config.write_text(f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n{tables}")
    row = {"price": "1.00", "at": "2026-01-01 00:00:00", "raw": "00", "tags": "x"}
    with App.open(config) as app:
        land(tmp_path, 1, wal2json("I", 10, id=1, **row), wal2json("I", 11, "other", id=1, **row))
        app.run()
        opened = app.runtime.table(app.specs(["t"])[0])
        repair.land(opened, Columns(PAIRS, ()), [("1",)], {}, lambda: {("1",): (Row("", "", ("1", "7.5", "-1", "0a")),)})
        assert [report.outcome for report in app.run()] == ["committed", "idle"]
        prices = [app.runtime.spark().table(f"proof.{name}").first()["price"] for name in ("t", "other")]  # type: ignore[index]
        assert [str(price) for price in prices] == ["7.50", "1.00"]


def test_a_damaged_repair_waits_in_quarantine(tmp_path: Path) -> None:
    """Like any file that cannot be read; the changes beside it are ingested."""
    config = tmp_path / "compactor.yaml"
    config.write_text(
        f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\n"
        f"tables:\n  t: {{key: [id], envelope: wal2json, increments: {tmp_path}/landing/increment_%Y%m%d%H}}\n"
    )
    with App.open(config) as app:
        land(tmp_path, 1, wal2json("I", 10, id=1, price="1.00", at="2026-01-01 00:00:00", raw="00", tags="x"))
        (tmp_path / "landing/increment_2026112001/_repair-t-0a.json").write_text('{"op": "u"', encoding="utf-8")
        assert len(ingested(app)) == 1
        (waiting,) = app.quarantined(["t"])
        assert waiting.path.endswith("_repair-t-0a.json")
        assert "is no file of `compactor reconcile --repair`" in waiting.reason
