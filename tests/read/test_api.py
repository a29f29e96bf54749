"""`compactor.read.Table` and SQL without Spark, on a local folder and in S3. Spark's answers: tests/spark/lake.py and tests/capture."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest

from compactor.app import App
from compactor.core.catalog.dialect import DUCKDB
from compactor.core.catalog.feed import begun_anew
from compactor.core.model import types
from compactor.core.model.errors import NoRowsYet, Refused, StateRefused
from compactor.core.model.policy import UNIQUE, Rule
from compactor.duckdb import sources
from compactor.duckdb.rows import spark_text
from compactor.duckdb.session import UnknownTable
from compactor.flows.publish import audit
from compactor.flows.publish.sync import sync_table
from compactor.read import Rows, Table
from compactor.storage.local import LocalStorage
from tests.oracle.lake import Lake, table
from tests.oracle.model import line
from tests.read.conftest import Place
from tests.read.parquet_lake import export


@pytest.mark.parametrize("content", [None, b"", b"no parquet"])
def test_a_file_of_the_table_that_is_gone_or_damaged_is_named(tmp_path: Path, content: bytes | None) -> None:
    """The table is what cannot be read, not the statement."""
    lake = Lake(table())
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 1})])
    lake.run()
    export(lake, LocalStorage(), f"{tmp_path}/w/t")
    config = tmp_path / "compactor.yaml"
    config.write_text(f"warehouse: {tmp_path}/w\ntables:\n  t: {{key: [id], order_by: [seq]}}\n")
    (file,) = [Path(file.location) for file in Table.open(config, "t").files()]
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StateRefused, match=f"a file of the table cannot be read: .*{file.name}"):
        Table.open(config, "t").to_arrow()


def test_a_table_gives_the_rows_of_its_version(place: Place) -> None:
    """As Arrow, pandas and a DuckDB relation; columns in the asked order, conditions in SQL."""
    newest = Table.open(place.config, "t")
    assert (newest.name, newest.version, newest.key) == ("t", 3, ("id",))
    assert (newest.whole_to, Table.open(place.config, "t", version=2).whole_to) == ("2026-01-01T02:00:00Z", None)
    rows = newest.to_arrow().to_pylist()
    expected = [dict(zip([column.name for column in newest.columns], row, strict=True)) for row in place.lake.expected()]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert newest.to_arrow(columns=["b", "id"], filter="id in (3, 4) -- both").to_pylist() == [{"b": "x'\"\\", "id": 3}, {"b": "n", "id": 4}]
    frame = newest.to_pandas(filter="id <= 3").sort_values("id")
    assert frame["a"].tolist()[0] == 10
    assert str(frame["a"].dtype) == "Int64"
    assert frame["a"].isna().tolist() == [False, True]
    relation = newest.to_duckdb().filter("id > 39").order("id")
    assert [row[0] for row in relation.fetchall()] == [40, 41]
    batches = newest.to_batches(columns=["id"], rows=10)
    assert sum(batch.num_rows for batch in batches) == 40


def test_a_relation_belongs_to_the_readers_own_connection(place: Place) -> None:
    """It can be joined with the reader's tables, also after another table was opened on the same connection."""
    mine = duckdb.connect()
    mine.execute("create table ages as select 3 as id, 30 as age")
    Table.open(place.config, "t").to_duckdb(mine)
    mine.register("t", Table.open(place.config, "t").to_duckdb(mine, columns=["id", "b"]).to_arrow_table())
    assert mine.execute("select b, age from t join ages on t.id = ages.id").fetchall() == [("x'\"\\", 30)]
    pushed = Table.open(place.config, "t").to_duckdb(mine).filter("id = 41").project("id")
    assert pushed.fetchall() == [(41,)]


def test_another_version_is_opened_by_its_number(place: Place) -> None:
    """Version 1 has what version 2 deleted, and not the column that came with version 3."""
    first = Table.open(place.config, "t", version=1)
    assert first.to_arrow(columns=["id"], filter="id in (2, 41)").to_pylist() == [{"id": 2}]
    assert "later" not in [column.name for column in first.columns]
    assert Table.open(place.config, "t").to_arrow(["later"], "id = 4").to_pylist() == [{"later": "y"}]


REFUSED = {
    "there is no column nope; expected id, ": lambda config: Table.open(config, "t").to_arrow(columns=["nope"]),
    "`columns` is empty": lambda config: Table.open(config, "t").to_arrow(columns=[]),
    "Conversion Error: Could not convert string 'n": lambda config: Table.open(config, "t").to_arrow(filter="cast(b as int) = 1"),
    "version 9 is not kept": lambda config: Table.open(config, "t", version=9),
    'Referenced column "nope" not found': lambda config: Table.open(config, "t").to_arrow(filter="nope = 1"),
    "version 3 has no history; set `history: true`": lambda config: Table.open(config, "t").history(),
    "version 3 has no history; set": lambda config: Table.open(config, "t").as_of("2026-01-01"),
    "version 3 has no change feed": lambda config: Table.open(config, "t").changes(since=1),
    "expected a time such as": lambda config: Table.open(config, "t").as_of("yesterday"),
}


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_what_a_table_cannot_give_is_refused_with_the_reason(place: Place) -> None:
    """One sentence, and what to do."""
    for reason, call in REFUSED.items():
        with pytest.raises(Refused) as refused:
            call(place.config)
        assert reason in str(refused.value)
        assert "LINE" not in str(refused.value)
    with pytest.raises(NoRowsYet, match="nothing is committed yet"):
        Table.open(place.config, "empty")


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_date_that_pandas_does_not_have_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow has it."""
    rows = pyarrow.table({"born": pyarrow.array([-719_529], pyarrow.date32())})
    monkeypatch.setattr(Rows, "to_arrow", lambda self, columns, filter: rows)
    with pytest.raises(Refused, match=r"table t: a value does not fit pandas \(year .* is out of range\)\. Use to_arrow"):
        Table.open(place.config, "t").to_pandas()


def test_the_files_of_a_version_are_listed_and_can_be_read_without_compactor(place: Place) -> None:
    """`files` names them all; the query over them needs nothing but DuckDB."""
    opened = Table.open(place.config, "t")
    assert {file.part for file in opened.files()} == {"base", "delta"}
    assert "compactor:" not in opened.sql
    if "s3://" not in opened.sql:
        bare = subprocess.run(
            [sys.executable, "-c", f"import duckdb; print(duckdb.sql({opened.sql!r}).count('*').fetchall()[0][0])"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert bare.stdout.strip() == "40"
    assert all(file.size > 0 and file.location.endswith(".json") for file in opened.files())


def sql(app: App, text: str, **more: Any) -> list[Any]:
    """The parsed rows of a statement."""
    return [json.loads(row) for row in app.sql(text, **more)]


def test_statements_are_answered_without_spark(place: Place) -> None:
    """Views, `describe` and `show tables` in Hive's form; a new version is seen by the next statement."""
    with App.open(place.config) as app:
        assert sql(app, "select count(*) as n from t") == [{"n": 40}]
        assert sql(app, "select x.id from SCHOOL.T as x where id > 39 order by 1 desc -- two") == [{"id": 41}, {"id": 40}]
        assert sql(app, 'select "id" from t where id > 40', engine="duckdb") == [{"id": 41}]
        assert sql(app, "describe t")[0] == {"col_name": "id", "data_type": "bigint", "comment": None}
        assert [row["tableName"] for row in sql(app, "show tables")] == ["t"]
        assert sql(app, "with t as (select 1 as id) select * from t", engine="duckdb") == [{"id": 1}]
        assert sql(app, "select null as a order by a") == [{"a": None}]
        first = app.sql("select id from t order by id")
        assert [json.loads(row)["id"] for row, _ in zip(first, range(2), strict=False)] == [1, 3]
        assert not app.runtime.started


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_statement_that_duckdb_cannot_run_is_refused_or_goes_to_spark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets what changes something and tables of others; a mistake in a query starts no Spark."""
    sent: list[str] = []
    monkeypatch.setattr(App, "_spark_sql", lambda self, text, moment: sent.append(text) or [])
    with App.open(place.config) as app:
        for text in (
            "create view v as select 1",
            "select * from others",
            "describe extended t",
            "explain select 1",
        ):
            with contextlib.suppress(Refused):
                app.sql(text)
            assert sent[-1:] == [text]
        sent.clear()
        with pytest.raises(Refused, match='Referenced column "nope" not found'):
            app.sql("select nope from t where id = 1")
        with pytest.raises(Refused, match=r"there is no table others: expected a view of .* --engine spark reads every table"):
            app.sql("select * from others", engine="duckdb")
        with pytest.raises(NoRowsYet, match=r"table empty: nothing is committed yet; `compactor run empty` makes the first version"):
            app.sql("select * from empty")
        with pytest.raises(Refused, match="there is no table text:"):
            app.sql("select * from text", engine="duckdb")
        with pytest.raises(Refused, match="table t has no history: set `history: true`, or omit --as-of"):
            app.sql("select * from t", as_of="2026-01-01")
        with pytest.raises(Refused, match=r"named without their database; write t instead of "):
            app.sql(f"select * from `{app.specs()[0].database}`.t", as_of="2026-01-01")
        with pytest.raises(Refused, match=r"table t has no history: set `history: true`$"):
            app.sql("select * from t_history")
        assert sql(app, "select count(*) as n from t") == [{"n": 40}]
        assert sent == []

        def missing(*_: object) -> None:
            raise Refused("sql: [TABLE_OR_VIEW_NOT_FOUND] The table or view `emty` cannot be found.")

        # neither engine knows it
        monkeypatch.setattr(App, "_spark_sql", missing)
        with pytest.raises(UnknownTable, match=r"there is no table emty; did you mean empty\?"):
            app.sql("select * from emty")


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_what_one_engine_cannot_parse_runs_on_the_other(place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A line says so; if neither can, DuckDB's error comes first."""

    def refused(*_: object) -> None:
        raise Refused("sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'x'.")

    monkeypatch.setattr(App, "_spark_sql", refused)
    with App.open(place.config) as app:
        assert sql(app, "select [n * 2 for n in [id]] as double from t where id = 1") == [{"double": [2]}]
        why = "DuckDB may answer `list_apply` otherwise (--engine duckdb takes it all the same)"
        assert caplog.messages == [f"runs on Spark: {why}", "runs on DuckDB: Spark does not know this syntax"]
        for text, reason in (("select * from where", 'syntax error at or near "where"'), ("select nope(1) as n", "Function with name nope does not")):
            with pytest.raises(Refused, match=rf"^sql: .*{reason}[^$]*\nSpark: \[PARSE_SYNTAX_ERROR\]"):
                app.sql(text)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_the_command_line_runs_several_statements(place: Place) -> None:
    """`sql` one after the other, `shell` from standard input until one fails, `files` as table, JSON and query."""

    def compactor(*words: str, typed: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "compactor", *words, "--config", str(place.config)],
            input=typed,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    assert compactor("sql", "select 1 as a; select ';' as b;", "-o", "csv") == "a\n1\n\nb\n;\n"
    assert compactor("sql", "-o", "json", typed="select count(*) as n\nfrom t;\nselect 2 as b;\nexit\n") == '[\n{"n":40}\n]\n[\n{"b":2}\n]\n'
    assert "nope" in compactor("sql", typed="select 1; select nope from t; select 3", code=1)
    listed = json.loads(compactor("log", "t", "--files", "--output", "json"))
    assert (listed["version"], {file["part"] for file in listed["files"]}) == (3, {"base", "delta"})
    assert "version 1 of t" in compactor("log", "t", "--files", "--as-of", "1")
    query = compactor("log", "t", "--sql")
    assert duckdb.sql(query).count("*").fetchall() == [(40,)]
    assert json.loads(compactor("log", "t", "--sql", "--output", "json")) == {"table": "t", "sql": query.rstrip("\n")}


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_threads_share_a_table(place: Place) -> None:
    """Each result is whole, whichever thread asked first."""
    opened = Table.open(place.config, "t")
    with ThreadPoolExecutor(8) as pool:
        counts = [*pool.map(lambda at: opened.to_arrow(filter=f"id > {at}").num_rows, range(3, 41))]
    assert counts == [41 - at for at in range(3, 41)]


MOMENT = "TIMESTAMP '2024-07-01 12:00:00.000001'"


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        ("timestamp", MOMENT, "EPOCH"),
        ("timestamp", "TIMESTAMP_NS '2024-07-01 12:00:00.000001'", "EPOCH"),
        ("array<timestamp>", f"[{MOMENT}, NULL]", "[EPOCH, NULL]"),
        ("array<timestamp>", "CAST(NULL AS TIMESTAMP[])", "NULL"),
        ("struct<a:timestamp,b:int>", f"{{'a': {MOMENT}, 'b': 1}}", "{'a': EPOCH, 'b': 1}"),
        ("struct<a:timestamp,b:int>", "CAST(NULL AS STRUCT(a TIMESTAMP, b INTEGER))", "NULL"),
        ("array<struct<a:timestamp,b:int>>", f"[{{'a': {MOMENT}}}]", "[{'a': EPOCH, 'b': NULL}]"),
        ("map<string,timestamp>", f"MAP {{'k': {MOMENT}}}", "MAP {'k': EPOCH}"),
        ("string", MOMENT, "'2024-07-01 12:00:00.000001'"),
        ("array<struct<x:map<string,array<timestamp>>>>", f"[{{'x': MAP {{'k': [{MOMENT}]}}}}, NULL]", "[{'x': MAP {'k': [EPOCH]}}, NULL]"),
    ],
)
def test_timestamps_inside_of_values_are_instants_whatever_the_sessions_time_zone(kind: str, stored: str, expected: str) -> None:
    """DuckDB reads INT96 without a zone, and a cast would take it for local time."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    declared, given = (connection.execute(f"DESCRIBE SELECT {value}").fetchall()[0][1] for value in (f"CAST(NULL AS {DUCKDB.type(kind)})", stored))
    text = sources.column("v", kind, declared, given)
    right = expected.replace("EPOCH", "TIMESTAMPTZ '2024-07-01 12:00:00.000001+00'")
    query = f"SELECT typeof(v), v IS NOT DISTINCT FROM CAST({right} AS {DUCKDB.type(kind)}) FROM (SELECT {text} FROM (SELECT {stored} AS v))"
    assert [(declared, True)] == connection.execute(query).fetchall()


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_source_time_applies_to_views_that_have_one(place: Place, tmp_path: Path) -> None:
    """`_ro`, `_changes` and `_live` show what they show without it, whichever engine runs; a history that has not begun is said to be so."""
    config = tmp_path / "compactor.yaml"
    config.write_text(place.config.read_text().replace("t: {", "t: {history: true, change_feed: true, read_optimized: true, live_view: true, "))
    with App.open(config) as app:
        for name in ("t_ro", "t_changes", "T_changes_g2", "t_live"):
            for engine in ("auto", "duckdb", "spark"):
                with pytest.raises(Refused, match=f"--as-of does not apply to {name.lower()}; read t with it"):
                    app.sql(f"select * from {name}", as_of="2026-01-01", engine=engine)
        for text, as_of in (("select * from t", "2026-01-01"), ("select * from t_history", None), ("select * from t_history", "2026-01-01")):
            with pytest.raises(Refused, match="table t: version 3 has no history; it begins with the next run"):
                app.sql(text, as_of=as_of, engine="duckdb")


@pytest.mark.parametrize(
    "begin", [begun_anew, lambda feed, version: dataclasses.replace(feed, kept=version)], ids=["begun anew", "all parts deleted"]
)
def test_a_feed_without_changes_is_an_empty_table(begin: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, as in the catalog, whatever a version still names. No other table is called like it; each column has a name of its own."""
    lake = Lake(table(compact_every=1e9, feed="net"))
    lake.deliver("increment_2026010100/a.json", [line("c", [1], [1], {"a": 5, "_deleted": 7, "_position": 8})])
    lake.run()
    snapshots = [dataclasses.replace(each, feed=begin(each.feed, each.version)) for each in lake.committed()]
    monkeypatch.setattr(lake, "committed", lambda: snapshots)
    export(lake, LocalStorage(), f"{tmp_path}/w/t")
    config = tmp_path / "compactor.yaml"
    config.write_text(f"warehouse: {tmp_path}/w\ntables:\n  t: {{key: [id], order_by: [seq], change_feed: true}}\n")
    with App.open(config) as app:
        assert sql(app, "select count(*) as n from t_changes") == [{"n": 0}]
        none = Table.open(config, "t").changes(since=1).to_arrow()
        own = ["_change_type", "_commit_version", "_commit_timestamp", "_deleted", "_position"]
        assert (none.num_rows, none.column_names) == (0, [*own, "id", "_deleted_2", "_position_2", "a"])
        with pytest.raises(Refused, match=r"there is no table t_change; did you mean t_changes\?"):
            sql(app, "select * from t_change", engine="duckdb")


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_backslash_in_a_text_is_a_character_to_duckdb_and_an_escape_to_spark(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each engine finds the end of a text, and the names after it, where it reads it."""
    monkeypatch.setattr(App, "_spark_sql", lambda self, text, moment: [text])
    with App.open(place.config) as app:
        assert sql(app, "select 'a\\' as x, id from t where b = 'n5'", engine="duckdb") == [{"x": "a\\", "id": 5}]
        text = "select 'it\\'s' as x from t where b <> 'n5'"
        assert app.sql(text) == [text]
        with pytest.raises(Refused, match=r"write t instead of school\.t"):
            app.sql("select 'it\\'s' from school.t where b = 'x'", as_of="2026-01-01")


TEXTS = {
    ("double", "CAST('1e16' AS DOUBLE)"): "1.0E16",
    ("double", "1e7::DOUBLE"): "1.0E7",
    ("double", "-0.00015::DOUBLE"): "-1.5E-4",
    ("double", "100.0::DOUBLE"): "100.0",
    ("double", "'nan'::DOUBLE"): "NaN",
    ("float", "'-inf'::FLOAT"): "-Infinity",
    ("float", "'-0.1'::FLOAT"): "-0.1",
    ("timestamp", "TIMESTAMPTZ '2026-01-01 00:00:00+00'"): "2026-01-01 00:00:00",
    ("timestamp", "TIMESTAMPTZ '2026-01-01 10:20:30.0500+00'"): "2026-01-01 10:20:30.05",
    ("timestamp", "TIMESTAMPTZ '10000-01-01 00:00:10+00'"): "+10000-01-01 00:00:10",
    ("date", "DATE '0001-01-02'"): "0001-01-02",
    ("decimal(2,2)", "'-0.50'::DECIMAL(2,2)"): "-0.50",
    ("decimal(10,2)", "1.5::DECIMAL(10,2)"): "1.50",
    ("boolean", "true"): "true",
    ("bigint", "-7::BIGINT"): "-7",
    ("binary", "encode('ü\\x')"): "ü\\x",
    ("double", "NULL::DOUBLE"): None,
    ("timestamp", "NULL::TIMESTAMPTZ"): None,
}
"""Hive type and value → the text that Spark's cast makes of it."""


def test_values_become_the_text_that_spark_casts_them_to() -> None:
    """A frozen day shows a column that has become text in the same way in both engines."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    shown = {(kind, value): connection.execute(f"SELECT {spark_text(value, types.parse(kind))}").fetchall()[0][0] for kind, value in TEXTS}
    assert shown == TEXTS


def test_a_version_that_a_check_has_blocked_is_read_by_its_number_only(tmp_path: Path) -> None:
    """By Python, SQL, and the list of files; after an acceptance it is what all read."""
    lake = Lake(table(compact_every=1e9, rules=(Rule(UNIQUE, ("a",)),)))
    config, opened = tmp_path / "compactor.yaml", App.open
    config.write_text(f"warehouse: {tmp_path}/w\ntables:\n  t: {{key: [id], order_by: [seq], checks: {{unique: [a]}}}}\n")
    lake.deliver("increment_2026010100/a.json", [line("c", [at], [at], {"a": 5}) for at in (1, 2)])
    lake.run()
    export(lake, LocalStorage(), f"{tmp_path}/w/t")
    for read in (lambda: Table.open(config, "t"), lambda: opened(config).sql("select * from t"), lambda: opened(config).files_sql("t")):
        with pytest.raises(NoRowsYet, match="no version has passed its `checks:` yet"):
            read()
    assert [*opened(config).sql("show tables")] == []
    lake.deliver("increment_2026010101/b.json", [line("u", [2], [20], {"a": 6})])
    lake.run()
    lake.deliver("increment_2026010102/c.json", [line("c", [3], [30], {"a": 6})])
    assert lake.run().outcome == "blocked"
    export(lake, LocalStorage(), f"{tmp_path}/w/t")

    def counted() -> tuple[int, int, list[str], int]:
        rows = Table.open(config, "t").to_arrow()
        app = opened(config)
        return Table.open(config, "t").version, rows.num_rows, [*app.sql("select count(*) n from t")], app.files("t")[0].version

    assert counted() == (2, 2, ['{"n":2}'], 2)
    assert Table.open(config, "t", version=3).to_arrow().num_rows == 3
    assert len(duckdb.sql(opened(config).files_sql("t", "3")).fetchall()) == 3
    newest = lake.newest()
    assert newest is not None
    audit.accept(lake.table(), newest)
    sync_table(lake.table())
    export(lake, LocalStorage(), f"{tmp_path}/w/t")
    assert counted() == (3, 3, ['{"n":3}'], 3)
