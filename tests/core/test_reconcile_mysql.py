"""MySQL as the source of a comparison, without a server: types, statements, positions, addresses, errors. tests/engines has the server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pymysql
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.config.values import shown as config_shown
from compactor.core.model.errors import Refused, Unavailable
from compactor.core.model.schema import Field, Schema
from compactor.core.reconcile.canonical import Columns, Pair, SourceColumn, pair_columns
from compactor.core.reconcile.dialects import MYSQL, mysql_form
from compactor.core.reconcile.reached import MYSQL_LOG
from compactor.core.reconcile.side import Part, Side, Split
from compactor.reconcile.source import MysqlSource, open_source
from compactor.registry.http import shown as registry_shown


@pytest.mark.parametrize(
    ("stored", "source", "expected"),
    [
        ("bigint", "int(10) unsigned", "integer"),
        ("decimal(20,0)", "bigint(20) unsigned", "integer"),
        ("int", "year(4)", "integer"),
        ("boolean", "tinyint(1)", "boolean"),
        ("smallint", "tinyint(1)", "integer"),
        ("boolean", "bit(1)", "boolean"),
        ("binary", "bit(12)", "bit(12) has no canonical form"),
        ("decimal(12,2)", "decimal(12,2) unsigned", "number"),
        ("double", "decimal(12,2)", "double"),
        ("float", "float(7,3)", "single"),
        ("timestamp", "datetime(6)", "moment"),
        ("timestamp", "timestamp", "moment"),
        ("string", "time(3)", "time"),
        ("string", "char(8)", "padded"),
        ("string", "set('a','b')", "text"),
        ("string", "longtext", "text"),
        ("string", "json", "json has no canonical form"),
        ("struct<wkb:binary,srid:int>", "point", "point has no canonical form"),
        ("binary", "mediumblob", "bytes"),
        ("string", "varbinary(16)", "stored as string, varbinary(16) in the source"),
    ],
)
def test_a_column_is_compared_in_a_form_or_the_reason_is_named(stored: str, source: str, expected: str) -> None:
    """Types as information_schema prints them, stored as Debezium and DMS send them."""
    made = pair_columns(Schema((Field("x", "X", stored),), ()), [SourceColumn("X", source, mysql_form(source))])
    assert [*(pair.form for pair in made.pairs), *(reason for _, reason in made.skipped)] == [expected]


FORMS = {
    "id": ("bigint", "bigint(20) unsigned", "integer"), "price": ("decimal(12,2)", "decimal(12,2)", "number"), "ratio": ("double", "double", "double"),
    "yes": ("boolean", "tinyint(1)", "boolean"), "born": ("date", "date", "date"), "at": ("timestamp", "datetime(3)", "moment"), "zoned": ("timestamp", "timestamp(3)", "moment"),
    "clock": ("string", "time(3)", "time"), "raw": ("binary", "blob", "bytes"), "fixed": ("string", "char(8)", "padded"), "o`k": ("string", "text character set latin1 collate latin1_swedish_ci", "text"),
}  # fmt: skip
PAIRS = tuple(Pair(name.replace("`", ""), stored, name, source, kind, name == "id") for name, (stored, source, kind) in FORMS.items())
"""A pair of each form."""


def test_each_statement_is_mysql_s_sql() -> None:
    """By a parser of another project. Names are quoted, and an index on the key can be used."""
    statements: list[str] = []

    def query(text: str) -> list[tuple[int, int]]:
        statements.append(text)
        return [(1, 2)] if text.startswith("SELECT min") else []

    side = Side(MYSQL, "`school`.`t`", Columns(PAIRS, ()), query, where="yes = 1")
    side.bounds()
    side.checksums(Part(0, 50), Split(10))
    side.checksums(Part(prefix="a"), Split(digits=2))
    side.digests([Part(0, 10)])
    side.rows([("7",), ("8",)])
    for text in statements:
        sqlglot.parse_one(text, dialect="mysql")
    assert statements[0].endswith("WHERE (yes = 1) AND `id` IS NULL LIMIT 1")
    assert "`id` >= 0 AND `id` < 50" in statements[2]
    assert statements[5].endswith("WHERE (yes = 1) AND (`id` IN (7, 8))) r")
    assert "`o``k`" in statements[2]


def test_a_row_without_key_is_refused() -> None:
    """It is in no range, so that no checksum shows it."""
    side = Side(MYSQL, "t", Columns(PAIRS, ()), lambda text: [(1,)] if "IS NULL" in text else [])
    with pytest.raises(Refused, match="a row of the source has null in the key column id"):
        side.bounds()


KEYS = [
    ("price", "-0.05", "`price`", "-0.05"),
    ("born", "-25567", "`born`", "(date '1970-01-01' + interval -25567 day)"),
    ("at", "-1", "`at`", "(timestamp '1970-01-01 00:00:00' + interval -1 microsecond)"),
    ("raw", "00ff", "`raw`", "x'00ff'"),
    ("zoned", "-1500000", "`zoned`", "from_unixtime(-1500000 * 0.000001)"),
    ("fixed", "O'B", "`fixed`", "'O''B'"),
    ("fixed", "O'B\\", "`fixed`", "convert(x'4f27425c' using utf8mb4)"),
    ("ok", "b\\", "`o``k`", "convert(convert(x'625c' using utf8mb4) using latin1) collate latin1_swedish_ci"),
    ("ok", "name", "`o``k`", "'name'"),
    ("ok", "名", "`o``k`", "convert('名' using latin1) collate latin1_swedish_ci"),
    ("yes", "true", "(case `yes` + 0 <> 0 when 1 then 'true' when 0 then 'false' end)", "'true'"),
]


@pytest.mark.parametrize(("name", "text", "operand", "value"), KEYS, ids=[f"{name} {text}" for name, text, *_ in KEYS])
def test_a_key_is_looked_up_by_its_value(name: str, text: str, operand: str, value: str) -> None:
    """Except where its canonical text is no value of its type."""
    (pair,) = (pair for pair in PAIRS if pair.name == name)
    assert (MYSQL.operand(pair), MYSQL.value(pair, text)) == (operand, value)


@pytest.mark.parametrize(
    ("order", "position", "expected"),
    [
        ((("file_number", "bigint"), ("pos", "bigint"), ("row", "bigint")), (0, 9, 900, 3, "f", 0, 0), "000009:900"),
        ((("file_number", "bigint"), ("pos", "bigint")), (0, None, 900), "unknown"),
        ((("commit_lsn", "bigint"),), (0, 900), "unknown"),
        ((), None, "unknown"),
    ],
)
def test_the_position_of_a_version_is_a_place_in_the_binlog(order: Any, position: Any, expected: str) -> None:
    """If its order columns are such places."""
    log = MYSQL_LOG
    assert log.text(log.reached(order, position)) == expected


def test_places_in_the_binlog_are_ordered_by_file_and_byte() -> None:
    """Whatever the server calls its files."""
    texts = ["mysql-bin.000002:4", "mysql-bin.000002:1073741824", "binlog.000010:4", "b-1.1000000:4", "000003:4"]
    numbers = [MYSQL_LOG.parse(text) for text in texts]
    assert sorted(numbers[:4]) == numbers[:4]  # type: ignore[type-var]
    assert MYSQL_LOG.text(numbers[4]) == "000003:4"
    assert [MYSQL_LOG.parse(text) for text in ("now", "0/16B3748", "binlog.000003", "000003:x")] == [None] * 4


class FakeServer:
    """Answers every statement of a MysqlSource. `fails`: statement prefix → the driver's error."""

    def __init__(self, version: str = "8.0.36") -> None:
        self.version, self.statements, self.arguments = version, [], {}  # type: tuple[str, list[str], dict[str, Any]]
        self.fails: dict[str, Exception] = {}
        self.closed = 0

    def connect(self, **arguments: Any) -> Any:
        self.arguments = arguments
        if "connect" in self.fails:
            raise self.fails["connect"]
        return self

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, text: str) -> None:
        self.statements.append(text)
        for prefix, error in self.fails.items():
            if text.startswith(prefix):
                raise error

    def fetchone(self) -> tuple[str]:
        return (self.version,)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [("binlog.000003", 157, "", "")] if self.statements[-1].startswith("show") else [(1,)]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Instead of the driver's connections."""
    fake = FakeServer()
    monkeypatch.setattr(pymysql, "connect", lambda **arguments: fake.connect(**arguments))
    return fake


URL = "mysql://reader:p%40ss@db/school"


def test_the_address_becomes_the_driver_s_arguments(server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The password is shown nowhere, and may come from the environment."""
    monkeypatch.setenv("MYSQL_PWD", "other")
    authority = tmp_path / "ca.pem"
    authority.touch()
    with open_source(f"{URL}?ssl_ca={authority}", "student", 3, 60) as source:
        assert (source.address, source.table) == ("mysql://db:3306/school", "`school`.`student`")
    assert {
        "user": "reader",
        "password": b"p@ss",
        "ssl_ca": str(authority),
        "ssl_verify_identity": True,
        "autocommit": True,
    }.items() <= server.arguments.items()
    assert server.closed == 3
    with open_source("mariadb://reader@db:3307/school", "shop.student", 1, 60) as source:
        assert (source.address, source.table) == ("mysql://db:3307/school", "`shop`.`student`")
    assert (server.arguments["password"], "ssl_ca" in server.arguments) == (b"other", False)


@pytest.mark.parametrize(("version", "limit"), [("8.0.36", "max_execution_time = 90000"), ("10.11.19-MariaDB", "max_statement_time = 90")])
def test_each_connection_only_reads_and_has_limits(server: FakeServer, version: str, limit: str) -> None:
    """MySQL and MariaDB name the limit of a statement differently."""
    server.version = version
    with open_source(URL, "student", 1, 90):
        settings = [text.removeprefix("set session ") for text in server.statements if text.startswith("set")]
    assert {limit, "transaction read only", "time_zone = '+00:00'", "lock_wait_timeout = 5"} <= set(settings)


def test_a_table_with_columns_that_the_user_may_not_read_is_refused(server: FakeServer) -> None:
    """The server lists only the others."""
    server.fails = {"select *": pymysql.OperationalError(1142, "SELECT command denied to user 'reader'")}
    with pytest.raises(Refused, match="SELECT command denied"):
        open_source(URL, "student", 1, 60)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://db", "expected mysql://user@host/database"),
        ("mysql:///school", "expected mysql://user@host/database"),
        ("mysql://u@db/school?ssl_ca=/ca.pem", "ssl_ca: expected a file, found none at /ca.pem"),
        ("mysql://u@db/school?ssl=1", "unknown parameter ssl of a mysql:// URL, expected ssl_ca"),
        ("oracle://u@db/school", "expected postgresql://.. or mysql://.., got oracle://"),
        ("db/school", "got no scheme"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str, expected: str) -> None:
    """Before anything is connected."""
    with pytest.raises(Refused, match=expected):
        open_source(url, "student", 1, 60)


@pytest.mark.parametrize(
    ("prefix", "error", "expected", "kind"),
    [
        ("connect", pymysql.OperationalError(2003, "Can't connect"), "mysql://db:3306/school: Can't connect", Unavailable),
        ("connect", pymysql.OperationalError(1045, "Access denied"), "Access denied", Refused),
        ("select 2", pymysql.OperationalError(3024, "maximum statement execution time exceeded"), "exceeded. Read fewer rows", Unavailable),
        ("select 2", pymysql.OperationalError(1205, "Lock wait timeout exceeded"), "Lock wait", Unavailable),
        ("select 2", pymysql.OperationalError(1054, "Unknown column 'x'"), "Unknown column", Refused),
        ("select 2", pymysql.InterfaceError(0, ""), "the connection was lost", Unavailable),
        ("show", pymysql.OperationalError(1227, "Access denied"), "needs REPLICATION CLIENT", Refused),
    ],
)
def test_an_error_is_one_of_the_server_or_one_of_the_user(
    server: FakeServer, prefix: str, error: Exception, expected: str, kind: type[Exception]
) -> None:
    """Only the first kind is worth another try."""
    server.fails[prefix] = error
    with pytest.raises(kind, match=expected.replace(".", r"\.")), MysqlSource(URL, "student") as source:
        source.end() if prefix == "show" else source.query("select 2")


def test_a_server_that_knows_only_the_new_statement_for_its_binlog_is_asked_by_it(server: FakeServer) -> None:
    """MySQL 8.4. A server without a binlog has no end."""
    server.fails["show master"] = pymysql.ProgrammingError(1064, "You have an error in your SQL syntax")
    with MysqlSource(URL, "student") as source:
        assert source.log.text(source.end()) == "000003:157"
        server.fetchall = list  # type: ignore[method-assign]
        assert source.end() is None


def test_a_generated_column_is_not_compared(server: FakeServer) -> None:
    """Whether it is in the stream depends on the capture."""
    source: Any = SimpleNamespace(
        query=lambda text: [("id", "int(11)", None, None, None), ("made", "int", None, None, "`id` + 1"), ("b", "text", "latin1", "latin1_bin", "")],
        _where="",
    )
    assert [(column.name, column.form) for column in MysqlSource.columns(source)] == [("id", "integer"), ("made", None), ("b", "text")]


WORDS = ("Qx7kAz", "Zw9mBy", "Vt3pCx")
"""The parts of a password between its special characters."""


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@given(
    marks=st.lists(
        st.sampled_from([*"@:/?#%[]& =,;\\'\"$!~+\n\x00\u2100é€\udcff", "%4", "%00", "://", "@@", "%zz", "?x=", "/@"]), min_size=2, max_size=2
    )
)
@settings(deadline=None, max_examples=40)
def test_no_message_has_a_part_of_a_password(scheme: str, marks: list[str]) -> None:
    """Not percent-encoded, it looks like a host, a port, a path or a parameter, and drivers quote those."""
    password = "".join(word + mark for word, mark in zip(WORDS, [*marks, ""]))
    with pytest.raises((Refused, Unavailable)) as refused:
        open_source(f"{scheme}://reader:{password}@127.0.0.1:1/school", "student", 1, 60)
    assert not [word for word in WORDS if word in str(refused.value)]
    with pytest.raises(Unavailable) as unavailable:
        open_source(
            f"{scheme}://reader:{quote(password.replace(chr(0), '').encode('utf-8', 'replace'), safe='')}@127.0.0.1:1/school", "student", 1, 60
        )
    assert not [word for word in WORDS if word in str(unavailable.value)]
    shown = [registry_shown(f"https://u:{password}@reg/x"), config_shown(f"thrift://u:{password}@h:9083")]
    assert not [word for word in WORDS for text in shown if word in text]
