"""`compactor reconcile` against a real PostgreSQL that is written to meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from compactor.app import App
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.position import Order, Position
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.dialects import POSTGRES
from compactor.core.reconcile.repair import signal_data
from compactor.core.reconcile.report import DIFFERENT, EQUAL
from compactor.flows.read.reconcile import Options, current_rows
from compactor.flows.table import Table
from compactor.reconcile.source import PostgresSource
from tests.parts import decoding
from tests.parts.metastore import postgres_server
from tests.parts.one_spark import app_on_one_spark
from tests.parts.reconciling import ROUNDS, ROWS, Load, configured, double, named, repaired_under_load

__all__ = ["app_on_one_spark"]

pytestmark = [pytest.mark.engines, pytest.mark.slow, pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")]

_TABLE = """
create type mood as enum ('good', 'so so');
create table every (
  id int primary key, small smallint, big bigint, price numeric(20, 4), plain numeric, ratio double precision, single real, yes boolean,
  born date, at timestamp, zoned timestamptz, at3 timestamp(3), clock time, bytes bytea, ident uuid, doc json, docb jsonb, fixed char(8),
  "Weird Näme" text, mood mood, host inet, net cidr, tags int[], span interval, made int generated always as (id + 1) stored);
"""
_ROWS = f"""
insert into every (id, small, big, price, plain, ratio, single, yes, born, at, zoned, at3, clock, bytes, ident, doc, docb, fixed, "Weird Näme", mood,
  host, net, tags, span)
select n, n % 100, n::bigint * 1000000007, n * 1.2500, case n % 3 when 0 then n / 8.0 when 1 then 1e20 + n end, n / 3.0::float8, n / 7.0::real,
  n % 2 = 0, date '1899-12-30' + n, timestamp '1969-12-31 23:59:59.999999' + n * interval '1 hour 1 microsecond',
  timestamptz '2024-03-31 00:30:00+01' + n * interval '17 min', timestamp '2024-01-01 00:00:00.125', time '00:00' + n * interval '1.5 s',
  decode(md5(n::text), 'hex'), md5(n::text)::uuid, json_build_object('a', n, 'b', null), jsonb_build_object('z', 1, 'a', n), 'ab',
  case n % 4 when 0 then null when 1 then 'O''Brien "q" \\ 名前 ' || n when 2 then '' else E'tab\\tline\\n end ' end, 'so so',
  (array['10.0.0.1', '10.1.2.3/16', '2001:db8::1', '2001:db8::/32'])[n % 4 + 1]::inet, '10.1.0.0/16', '{{1,2}}', '1 day'
from generate_series(1, {ROWS}) n;
insert into every (id) values (-5), (2147483646);
insert into every (id, plain, ratio, single, born, at, zoned, clock, bytes) values
  (0, 'NaN', '-0', '-0', 'infinity', '-infinity', 'infinity', '24:00', ''), (-1, 0.100, 1e308, 1e-38, '0044-03-15 BC', '0001-01-01', 'epoch',
   '23:59:59.100000', '\\x00ff'), (-2, -0.05, 5e-324, 3.4e38, '9999-12-31', '9999-12-31 23:59:59.999999', '1582-10-14 00:00Z', null, null),
  (-3, 123456789012345678901234567890.123456789, 0.1, 0.1, null, null, null, null, null);
"""


_STATEMENTS = (
    "update every set price = price + 0.0001, zoned = clock_timestamp() where id = %s",
    "delete from every where id = %s",
    "insert into every (id, ratio) values (%s, random()) on conflict (id) do update set ratio = random()",
    "update every set doc = '{\"x\": [1, 2]}', bytes = null where id = %s",
)


def loaded(url: str, app: App, landing: Path) -> Load:
    """The load on this database."""

    @contextmanager
    def connected() -> Iterator[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection.execute

    def changes() -> list[dict[str, Any]]:
        with psycopg.connect(url, autocommit=True) as connection:
            return list(decoding.documents(connection))

    return Load(app, landing, connected, _STATEMENTS, changes)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A database with one row of every type, and a slot that keeps its changes."""
    with postgres_server(tmp_path, "school", {"wal_level": "logical"}) as port:
        address = f"postgresql://hive@127.0.0.1:{port}/school"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_TABLE)
            decoding.slot(connection)
            connection.execute(_ROWS)
        yield address


def test_only_real_differences_are_reported_while_the_source_is_written_to(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where all is equal; then one row lost, one cell changed, one row doubled, one row too many: each is named."""
    # the runs are in this process, on the session that a pause would otherwise close for the runs of other processes
    monkeypatch.setattr(App, "_release_metastore", lambda app: None)
    landing = tmp_path / "landing"
    with App.open(configured(tmp_path, "wal2json")) as app:
        load = loaded(url, app, landing)
        load.land()
        quiet = app.reconcile("every", url, Options(source_table="public.every"))
        assert (quiet.outcome, (quiet.source_rows, quiet.lake_rows), quiet.differences) == (EQUAL, (ROWS + 6, ROWS + 6), ()), quiet
        assert dict(quiet.skipped).keys() == {"tags", "span", "made"}
        assert quiet.parts > 1

        with load:
            looked_again = 0
            for number in range(ROUNDS):
                report = app.reconcile("every", url, Options(wait=600, parallel=2, chunk=5000))
                assert (report.outcome, report.differences) == (EQUAL, ()), f"round {number}: {report}"
                looked_again += report.suspects
            assert looked_again, "the load changed nothing between the looks"

        falsify(url, load)
        with load:
            report = app.reconcile("every", url, Options(wait=600))
        wrong = {("missing", "100001"): (), ("extra", "100002"): (), ("changed", "100003"): ("price", "weird_näme")}
        assert (report.outcome, report.exit_code, named(report)) == (DIFFERENT, 1, wrong), report
        assert all("source read at" in item.proof for item in report.differences)

        # a file too many stops the runs, so the lake does not come any further; a key that is there twice needs no other proof
        load.land()
        double(app, 77)
        report = app.reconcile("every", url, Options(wait=0))
        assert (report.outcome, named(report)) == (DIFFERENT, {**wrong, ("repeated", "77"): ()}), report
        assert [item.proof[:8] for item in report.differences if item.proof] == ["version "]

        with pytest.raises(Unavailable, match="the lake has not reached FF/0, it is at"):
            app.reconcile("every", url, Options(at="FF/0", wait=0))
        with pytest.raises(Refused, match=r"has no table public\.nobody"):
            app.reconcile("every", url, Options(source_table="public.nobody"))


def test_rows_that_the_source_keeps_as_deleted_are_not_missing(url: str, tmp_path: Path) -> None:
    """A table with `delete_when`: its view leaves them out, so the comparison does, too."""
    landing = tmp_path / "landing/increment_2026112000"
    landing.mkdir(parents=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table soft (id int primary key, status text, seq int)")
        connection.execute("insert into soft select n, case n % 3 when 0 then 'deleted' when 1 then 'active' end, n from generate_series(1, 300) n")
        rows = connection.execute("select json_build_object('id', id, 'status', status, 'seq', seq)::text from soft").fetchall()
    (landing / "part-0.json").write_text("\n".join(text for (text,) in rows), encoding="utf-8")
    config = tmp_path / "compactor.yaml"
    table = f"key: [id], order_by: [seq], increments: {tmp_path}/landing/increment_%Y%m%d%H"
    config.write_text(
        f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n  soft: {{{table}, delete_when: \"status = 'deleted'\"}}\n"
    )
    with App.open(config) as app:
        (done,) = app.run(["soft"])
        assert done.error is None, done.error
        report = app.reconcile("soft", url, Options(wait=0))
        assert (report.outcome, (report.source_rows, report.lake_rows)) == (EQUAL, (200, 200)), report
        every = app.reconcile("soft", url, Options(wait=0, where=""))
        assert (every.outcome, every.kinds, (every.source_rows, every.lake_rows)) == (DIFFERENT, {"missing": 100}, (300, 200))
        (state,) = app.status(["soft"])
        assert state.last_comparison is not None
        assert state.last_comparison.outcome == DIFFERENT
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update soft set status = 'active' where id = 3")
        late = app.reconcile("soft", url, Options(wait=0))
        assert named(late) == {("missing", "3"): ()}
        with pytest.raises(Refused, match='column "nothing" does not exist'):
            app.reconcile("soft", url, Options(where="nothing = 1"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create policy below on soft using (id < 200)")
            connection.execute("alter table soft enable row level security, force row level security")
            connection.execute("create role hidden login password 'x'")
            connection.execute("grant select on soft to hidden")
        hidden = f"{url.partition('//')[0]}//hidden:x@{url.rpartition('@')[2]}"
        with pytest.raises(Refused, match="row-level security"):
            app.reconcile("soft", hidden, Options(wait=0))


def test_text_that_is_no_value_of_the_source_s_type_differs_from_null(url: str, tmp_path: Path) -> None:
    """The lake has text where no type was declared. Infinity and NaN are null in the source's form, too."""
    landing = tmp_path / "landing/increment_2026112000"
    landing.mkdir(parents=True)
    values = {"born": "'infinity'", "price": "'NaN'", "whole": "7", "at": "'-infinity'", "ratio": "1.5"}
    kinds = {"born": "date", "price": "numeric", "whole": "int", "at": "timestamp", "ratio": "float8"}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create table texts (id int primary key, {', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        connection.execute(f"insert into texts values (1, {', '.join(values.values())})")
        connection.execute("insert into texts (id) select n from generate_series(2, 6) n")
    rows = [{"id": 1, "seq": 1, **{name: value.strip("'") for name, value in values.items()}}]
    wrong = {"born": "n/a", "price": "none", "whole": "1e3", "at": "broken", "ratio": "oops"}
    rows += [{"id": at, "seq": at, **{each: wrong[each] if each == name else None for each in kinds}} for at, name in enumerate(kinds, 2)]
    (landing / "part-0.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    config = tmp_path / "compactor.yaml"
    table = (
        f"key: [id], order_by: [seq], increments: {tmp_path}/landing/increment_%Y%m%d%H, types: {{{', '.join(f'{name}: string' for name in kinds)}}}"
    )
    config.write_text(f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n  texts: {{{table}}}\n")
    with App.open(config) as app:
        (done,) = app.run(["texts"])
        assert done.error is None, done.error
        report = app.reconcile("texts", url, Options(wait=0))
        assert named(report) == {("changed", str(at)): (name,) for at, name in enumerate(kinds, 2)}
        with pytest.raises(Refused, match="texts has no position in the source's log"):
            app.reconcile("texts", url, Options(wait=0, at="now"))


def falsify(url: str, load: Load) -> None:
    """Changes that the stream loses on the way: an insert, a delete, the values of a row."""
    load.land()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into every (id, price) values (100002, 1), (77, 1) on conflict (id) do update set price = 1")
        load.land()
        connection.execute("insert into every (id) values (100001)")
        connection.execute("delete from every where id = 100002")
        connection.execute("insert into every (id, price, \"Weird Näme\") values (100003, 5, 'right')")

    def lossy(change: dict[str, Any]) -> dict[str, Any] | None:
        values = {column["name"]: column for column in change.get("columns", change.get("identity", []))}
        key = values["id"]["value"]
        if key in ("100001", "100002"):
            return None
        if key == "100003":
            values["price"]["value"], values["Weird Näme"]["value"] = "5.0001", "wrong"
        return change

    load.land(lossy)


def test_rows_damaged_by_hand_are_repaired_while_the_source_is_written_to(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows deleted, changed and doubled in the lake's files: after the repair the table is equal to its source, also once it was compacted."""
    monkeypatch.setattr(App, "_release_metastore", lambda app: None)
    with App.open(configured(tmp_path, "wal2json")) as app:
        load = loaded(url, app, tmp_path / "landing")
        load.land()
        repaired_under_load(load, url)


MOMENTS = (0, 1, -1, 86_399_999_999, -86_400_000_001, 9_007_199_254_740_993, 253_402_300_799_999_999, -62_135_596_799_999_999)


@pytest.mark.parametrize("kind", ["timestamp without time zone", "timestamp with time zone"])
def test_no_microsecond_is_lost_beyond_what_a_double_has(url: str, kind: str) -> None:
    """A key is looked up by the value of its text, and the text of that value is the same."""
    pair = Pair("x", "timestamp", "x", kind, "moment", True)
    with PostgresSource(url, "every") as opened:
        made = {moment: opened.query(f"select {POSTGRES.text(pair)} from (select {POSTGRES.value(pair, str(moment))} as x) t") for moment in MOMENTS}
    assert made == {moment: [(str(moment),)] for moment in MOMENTS}


def test_a_key_that_the_source_s_type_does_not_have_is_no_row(url: str) -> None:
    """Such as a row too many in the lake, or one with a damaged key. A domain is compared as the type below it."""
    kinds = {"uuid": ("123e4567-e89b-12d3-a456-426655440000", "no uuid"), "feeling": ("sad", "glad"), "small": ("7", "70000")}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create type feeling as enum ('sad', 'so so'); create domain small as smallint check (value < 100)")
        for kind, (key, _) in kinds.items():
            connection.execute(f"create table t_{kind} (k {kind} primary key); insert into t_{kind} values ('{key}')")
    for kind, (key, other) in kinds.items():
        with PostgresSource(url, f"t_{kind}") as opened:
            (column,) = opened.columns()
            assert column.form
            opened.select(Columns((Pair("k", "string", "k", column.type, column.form, True),), ()))
            assert [(key,)] == [*current_rows(opened, [(other,), (key,), (f"{other}0",)], None, lambda: False)]


def at(table: Table) -> tuple[Order, Position | None]:
    """The order and position of the newest version."""
    snapshot = table.newest()
    assert snapshot is not None
    return snapshot.order, snapshot.position


def test_repaired_rows_keep_the_texts_that_the_stream_sends(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks of a char(n) key and zeros of an unscaled number: a repaired row is the same row, and a delete deletes it. `--where` makes no row extra."""
    landing = tmp_path / "landing/increment_2026112000"
    landing.mkdir(parents=True)
    config = tmp_path / "compactor.yaml"
    table = f"key: [code], envelope: wal2json, increments: {tmp_path}/landing/increment_%Y%m%d%H, source_table: public.codes"
    config.write_text(f"warehouse: {tmp_path / 'warehouse'}\ncatalog: {{database: proof}}\ntables:\n  codes: {{{table}}}\n")
    with App.open(config) as app, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table codes (code char(5) primary key, plain numeric, fixed char(4), v text)")
        connection.execute("insert into codes select c, 1.50, 'x', 'old' from unnest(array['ab', 'cd', 'ef']) c")
        changes = [each for each in decoding.documents(connection) if each["table"] == "codes"]
        (landing / "part-0.json").write_text(decoding.lines(changes), encoding="utf-8")
        (done,) = app.run(["codes"])
        assert done.error is None, done.error
        # changes that the stream loses
        connection.execute("update codes set v = 'new' where code = 'ab'")
        connection.execute("delete from codes where code = 'cd'")
        connection.execute("insert into codes values ('gh', 2.50, 'y', 'new')")
        opened = app.runtime.table(app.specs(["codes"])[0])
        # nobody writes, so that the lake would never come further
        monkeypatch.setattr(PostgresSource, "end", lambda source: source.log.reached(*at(opened)))
        # cd is gone; ef is a row that the condition leaves out
        report = app.repair("codes", url, Options(wait=0, where="code in ('ab', 'gh')"))
        assert (report.before.kinds, report.deletes, report.left) == ({"changed": 1, "missing": 1, "extra": 2}, 1, 1), report
        report = app.repair("codes", url, Options(wait=0), run=True)
        assert (report.rows, report.deletes, report.left) == (2, 1, 0), report
        rows = app.runtime.spark().sql("SELECT code, plain, fixed, v FROM proof.codes ORDER BY code").collect()
        expected = [("ab   ", "1.50", "x   ", "new"), ("ef   ", "1.50", "x   ", "old"), ("gh   ", "2.50", "y   ", "new")]
        assert [tuple(row) for row in rows] == expected
        assert report.after is not None
        assert report.after.outcome == EQUAL


def test_a_connection_only_reads_but_for_a_signal(url: str) -> None:
    """Also where the user may write."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table debezium_signal (id varchar(42) primary key, type varchar(32), data varchar(2048))")
    with PostgresSource(url, "every") as opened:
        opened.signal("public.debezium_signal", "one", signal_data(opened.collection, '"id" IN (1)'))
        assert opened.query("select id, type from debezium_signal where data::json->'data-collections'->>0 = 'public.every'") == [
            ("one", "execute-snapshot")
        ]
        with pytest.raises(Refused, match="duplicate key"):
            opened.signal("debezium_signal", "one", "{}")
        with pytest.raises(Refused, match="read-only transaction"):
            opened.query("delete from every")
