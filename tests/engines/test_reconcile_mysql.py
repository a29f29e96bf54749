"""`compactor reconcile` against a real MariaDB that is written to meanwhile. Its capture is read from the server's own binlog."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compactor.app import App
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import Columns, Pair
from compactor.core.reconcile.dialects import MYSQL
from compactor.core.reconcile.repair import signal_data
from compactor.core.reconcile.report import DIFFERENT, EQUAL
from compactor.core.reconcile.side import Part, Split
from compactor.flows.read.reconcile import Options
from compactor.reconcile.source import MysqlSource
from tests.parts.mariadb import Capture, mariadb_server
from tests.parts.one_spark import app_on_one_spark
from tests.parts.reconciling import ROUNDS, ROWS, Load, configured, double, named, repaired_under_load

__all__ = ["app_on_one_spark"]

pytestmark = [
    *(pytest.mark.engines, pytest.mark.slow, pytest.mark.spark, pytest.mark.usefixtures("app_on_one_spark")),
    # mysql-replication's names for PyMySQL's arguments
    pytest.mark.filterwarnings("ignore:'(db|passwd)' is deprecated:DeprecationWarning"),
]

_TABLE = """
create table every (
  id int unsigned primary key, tiny tinyint, small smallint unsigned, medium mediumint, big bigint, filled int(8) unsigned zerofill,
  price decimal(20, 4), whole decimal(30, 0), ratio double, single float, yes tinyint(1), flag bit(1), bits bit(12), born date,
  at datetime, at3 datetime(3), at6 datetime(6), stamp timestamp(3) null, clock time, clock4 time(4), since year, kind enum('good', 'so so'),
  tags set('a', 'b', 'c'), fixed char(8), name varchar(60), doc json, long_text longtext character set utf8mb4, raw varbinary(20), fixed_raw binary(4),
  blob_ blob, `Weird Näme` varchar(40) character set utf8mb4, made bigint as (id + 1) stored)
"""
_SEVERAL = f"""
insert into every (id, tiny, small, medium, big, filled, price, whole, ratio, single, yes, flag, bits, born, at, at3, at6, stamp, clock, clock4, since,
  kind, tags, fixed, name, doc, long_text, raw, fixed_raw, blob_, `Weird Näme`)
select seq, cast(seq % 256 as int) - 128, seq % 65536, -cast(seq as int), seq * 1000000007, seq, seq * 1.2500, cast(seq as decimal(30, 0)) * 10000000000000000000, seq / 3e0, seq / 7e0, seq % 2,
  seq % 3 = 0, seq % 4096, date '1899-12-30' + interval seq day, timestamp '1969-12-31 23:59:59' + interval seq hour,
  timestamp '2024-03-31 00:30:00.125' + interval seq minute, timestamp '1969-12-31 23:59:59.999999' + interval seq * 3600000001 microsecond,
  timestamp '2024-03-31 00:30:00.250' + interval seq * 17 minute, sec_to_time(cast(seq as int) * 300 - 60000), sec_to_time(seq * 1.5), 1901 + seq % 200,
  if(seq % 2, 'good', 'so so'), if(seq % 2, 'c,a', 'b'), 'ab ', if(seq % 3, concat('caf\u00e9 ', seq), null), '{{"a": 1, "b":null}}',
  concat('\u540d\u524d \U0001f600 ', seq), unhex(md5(seq)), 'x', '', if(seq % 4, 'O''Brien "q" \\\\ ', null) from seq_1_to_{ROWS}
"""
_EDGES = (
    "insert into every (id) values (0), (4294967295)",
    """insert into every (id, price, whole, ratio, single, born, at, at6, stamp, clock, clock4, big, raw) values
    (100000, -0.05, -1, -0e0, -0e0, '0001-01-01', '1000-01-01 00:00:00', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.999', '-838:59:59', '00:00:00.1',
     -9223372036854775808, x'00ff'), (100010, 9999999999999999.9999, 0, 1.7976931348623157e308, 3.4e38, '9999-12-31', null, null, null, '838:59:59',
     '-26:00:00', 9223372036854775807, ''), (100020, 0, null, 5e-324, 1e-38, null, null, null, '1970-01-01 00:00:01', null, null, 0, x'00')""",
)
_STATEMENTS = (
    "update every set price = price + 0.0001, stamp = now(3) where id = %s",
    "delete from every where id = %s",
    "insert into every (id, ratio) values (%s, rand()) on duplicate key update ratio = rand()",
    "update every set doc = '{\"x\": [1, 2]}', raw = null where id = %s",
)
_WEIRD = "Weird Näme"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Capture]:
    """A database with one row of every type, whose sessions are neither in UTC nor in UTF-8 unless they say so."""
    with mariadb_server(tmp_path, "school") as port:
        capture = Capture(port, "school", "every")
        execute(capture, "set time_zone = '+00:00'", _TABLE, _SEVERAL, *_EDGES)
        yield capture


def execute(capture: Capture, *statements: str) -> None:
    """Run statements in one session, each a transaction."""
    with capture.connected() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def loaded(capture: Capture, app: App, landing: Path) -> Load:
    """The load on this database."""

    @contextmanager
    def connected() -> Iterator[Any]:
        with capture.connected() as connection, connection.cursor() as cursor:
            yield cursor.execute

    return Load(app, landing, connected, _STATEMENTS, capture.documents)


def test_only_real_differences_are_reported_while_the_source_is_written_to(source: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where all is equal; then one row lost, one cell changed, one row doubled, one row too many: each is named."""
    # the runs are in this process, on the session that a pause would otherwise close for the runs of other processes
    monkeypatch.setattr(App, "_release_metastore", lambda app: None)
    monkeypatch.setenv("MYSQL_PWD", "it's")
    url = f"mysql://hive@127.0.0.1:{source.port}/school"
    with App.open(configured(tmp_path, "debezium")) as app:
        load = loaded(source, app, tmp_path / "landing")
        load.land()
        quiet = app.reconcile("every", url, Options(source_table="school.every"))
        assert (quiet.outcome, (quiet.source_rows, quiet.lake_rows), quiet.differences) == (EQUAL, (ROWS + 5, ROWS + 5), ()), quiet
        assert dict(quiet.skipped) == {"bits": "bit(12) has no canonical form", "made": "generated column has no canonical form"}
        assert quiet.parts > 1

        with load:
            looked_again = 0
            for number in range(ROUNDS):
                report = app.reconcile("every", url, Options(wait=600, parallel=2, chunk=5000))
                assert (report.outcome, report.differences) == (EQUAL, ()), f"round {number}: {report}"
                looked_again += report.suspects
            assert looked_again, "the load changed nothing between the looks"

        falsify(source, load)
        with load:
            report = app.reconcile("every", url, Options(wait=600))
        wrong = {("missing", "100001"): (), ("extra", "100002"): (), ("changed", "100003"): ("price", "weird_näme")}
        assert (report.outcome, report.exit_code, named(report)) == (DIFFERENT, 1, wrong), report
        assert all(re.search(r"source read at \d{6}:", item.proof) for item in report.differences), report

        # a file too many stops the runs, so the lake does not come any further; a key that is there twice needs no other proof
        load.land()
        double(app, 77)
        report = app.reconcile("every", url, Options(wait=0))
        assert (report.outcome, named(report)) == (DIFFERENT, {**wrong, ("repeated", "77"): ()}), report
        assert [item.proof[:8] for item in report.differences if item.proof] == ["version "]
        refusals(app, url, monkeypatch)


def refusals(app: App, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that cannot be done says why."""
    with pytest.raises(Unavailable, match="the lake has not reached 999999:4, it is at 0"):
        app.reconcile("every", url, Options(at="bin-1.999999:4", wait=0))
    with pytest.raises(Refused, match=r"has no table school\.nobody"):
        app.reconcile("every", url, Options(source_table="school.nobody"))
    with pytest.raises(Refused, match="Unknown column 'nothing'"):
        app.reconcile("every", url, Options(where="nothing = 1"))
    with pytest.raises(Refused, match="Access denied"):
        app.reconcile("every", url.replace("hive@", "hive:wrong@"))
    monkeypatch.setattr(MysqlSource, "dialect", dataclasses.replace(MYSQL, digest="concat(sleep(5), md5({}))"))
    with pytest.raises(Unavailable, match="allow more time"):
        app.reconcile("every", url, Options(timeout=1))


def falsify(source: Capture, load: Load) -> None:
    """Changes that the stream loses on the way: an insert, a delete, the values of a row."""
    load.land()
    execute(source, "insert into every (id, price) values (100002, 1), (77, 1) on duplicate key update price = 1")
    load.land()
    right = f"insert into every (id, price, `{_WEIRD}`) values (100003, 5, 'right')"
    execute(source, "insert into every (id) values (100001)", "delete from every where id = 100002", right)

    def lossy(change: dict[str, Any]) -> dict[str, Any] | None:
        payload = change["payload"]
        values = payload["after"] or payload["before"]
        if values["id"] in (100001, 100002):
            return None
        if values["id"] == 100003:
            values["price"], values[_WEIRD] = "AMNR", "wrong"
        return change

    load.land(lossy)


def test_a_connection_only_reads_but_for_a_signal(source: Capture) -> None:
    """Also where the user may write."""
    url = f"mysql://hive:it%27s@127.0.0.1:{source.port}/school"
    execute(source, "create table `debezium signal` (id varchar(42) primary key, type varchar(32), data varchar(2048))")
    with MysqlSource(url, "every") as opened:
        opened.signal("school.debezium signal", "one", signal_data(opened.collection, "`id` IN (1)"))
        assert opened.query("select id, type from `debezium signal` where data like '%school.every%'") == (("one", "execute-snapshot"),)
        with pytest.raises(Refused, match="Duplicate entry"):
            opened.signal("debezium signal", "one", "{}")
        with pytest.raises(Refused, match="READ ONLY"):
            opened.query("delete from every")


def compared(opened: MysqlSource, key: str) -> Columns:
    """All columns of the table that have a form, as a lake of text has them."""
    return Columns(tuple(Pair(each.name, "string", each.name, each.type, each.form, each.name == key) for each in opened.columns() if each.form), ())


def test_what_the_server_cannot_send_is_no_null(source: Capture) -> None:
    """It makes null of a text beyond max_allowed_packet (16 MB), of which the digits of 12 MB are one."""
    execute(source, "create table large (id int primary key, body longblob)", "insert into large values (1, repeat('a', 12000000)), (2, 'b')")
    with MysqlSource(f"mysql://hive:it%27s@127.0.0.1:{source.port}/school", "large") as opened:
        opened.select(compared(opened, "id"))
        assert [("2",)] == [*opened.side.rows([("2",)])]
        with pytest.raises(Refused, match=r"`school`.`large`.*max_allowed_packet"):
            opened.side.rows([("1",)])
        with pytest.raises(Refused, match="max_allowed_packet"):
            opened.side.checksums(Part(), Split(digits=1))


@pytest.mark.parametrize("kind", ["utf8mb4 collate utf8mb4_unicode_ci", "utf8mb4 collate utf8mb4_bin", "latin1 collate latin1_general_cs"])
def test_a_key_of_text_in_any_collation(source: Capture, kind: str) -> None:
    """Looked up alone and among others, also one that its character set does not have."""
    execute(source, f"create table text_ (k varchar(20) character set {kind} primary key)", "insert into text_ values ('Straße'), ('b')")
    with MysqlSource(f"mysql://hive:it%27s@127.0.0.1:{source.port}/school", "text_") as opened:
        opened.select(compared(opened, "k"))
        for key in ("Straße", "b"):
            assert [(key,)] == [*opened.side.rows([(key,)])]
        assert {("Straße",), ("b",)} == {*opened.side.rows([("b",), ("Straße",), ("名",)])} - {("?",)}


def test_a_key_is_the_same_in_a_session_of_the_connector(source: Capture) -> None:
    """Debezium's signal has the condition, and its session other SQL modes and another zone."""
    url = f"mysql://hive:it%27s@127.0.0.1:{source.port}/school"
    execute(source, "create table slashes (k varchar(20) character set utf8mb4 primary key)", "create table moments (k timestamp(3) primary key)")
    for table, texts in (("slashes", ("a\\b", "end\\", "it's")), ("moments", ("1709632800123000", "1729992600000000"))):
        keys = [(text,) for text in texts]
        with MysqlSource(url, table) as opened:
            opened.select(compared(opened, "k"))
            values = ", ".join(f"({opened.dialect.value(compared(opened, 'k').key[0], text)})" for text in texts)
            execute(source, "set time_zone = '+00:00'", f"insert into {table} values {values}")
            assert keys == sorted(opened.side.rows(keys))
            condition = opened.side.condition(keys)
        with source.connected() as connection, connection.cursor() as cursor:
            cursor.execute("set time_zone = '+05:30'")
            cursor.execute(f"select count(*) from {table} where {condition}")
            assert cursor.fetchone() == (len(keys),), table


def test_keys_of_mariadb_s_own_types(source: Capture) -> None:
    """A uuid, and addresses."""
    ids = ("123e4567-e89b-12d3-a456-426655440000", "10.0.0.1", "2001:db8::1")
    for kind, text in zip(("uuid", "inet4", "inet6"), ids):
        execute(source, f"create table k_{kind} (k {kind} primary key)", f"insert into k_{kind} values ('{text}')")
        with MysqlSource(f"mysql://hive:it%27s@127.0.0.1:{source.port}/school", f"k_{kind}") as opened:
            opened.select(compared(opened, "k"))
            assert [(text,)] == [*opened.side.rows([(text,)])]


def test_rows_damaged_by_hand_are_repaired_while_the_source_is_written_to(source: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows deleted, changed and doubled in the lake's files: after the repair the table is equal to its source, also once it was compacted."""
    monkeypatch.setattr(App, "_release_metastore", lambda app: None)
    monkeypatch.setenv("MYSQL_PWD", "it's")
    url = f"mysql://hive@127.0.0.1:{source.port}/school"
    with App.open(configured(tmp_path, "debezium")) as app:
        load = loaded(source, app, tmp_path / "landing")
        load.land()
        repaired_under_load(load, url)
