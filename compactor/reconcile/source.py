"""The sources of comparisons: PostgreSQL (psycopg 3) and MySQL or MariaDB (PyMySQL), by a URL. Both drivers are in the extra `reconcile`.

Connections only read, but for Debezium's signal, and each statement is a short transaction of its own.
"""

from __future__ import annotations

import os
import queue
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import Columns, SourceColumn
from compactor.core.reconcile.dialects import MYSQL, POSTGRES, Dialect, literal, mysql_form, postgres_form
from compactor.core.reconcile.reached import MYSQL_LOG, POSTGRES_LOG, SourceLog
from compactor.core.reconcile.side import Side

_SLOW = "Read fewer rows at a time (--chunk) or allow more time (--timeout)."


class SqlSource(ABC):
    """A table of a database. A subclass opens the connections with a driver of Python's DB-API and finds the table."""

    dialect: Dialect
    log: SourceLog
    side: Side
    table: str
    """The quoted name."""
    name: str
    """Address and table, for messages."""
    address: str
    """Where the server is, without user and password."""
    signal_repairs: tuple[str, ...]
    """The kinds of differences that an incremental snapshot repairs."""
    collection: str
    """The table as Debezium names it."""
    mark = "''"
    """What changes whenever a row is written, as SQL."""

    def __init__(self, driver: Any, table: str, connections: int, connect: Callable[[], Any]) -> None:
        self._driver = driver
        self._open: list[Any] = []
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            try:
                for _ in range(max(1, connections)):
                    self._open.append(connect())
                    self._free.put(self._open[-1])
            except driver.Error as error:
                raise self._translated(error) from None
            self._resolve(table)
            self.name = f"{self.address} {self.table}"
        except (Refused, Unavailable):
            self.close()
            raise

    def __enter__(self) -> SqlSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def select(self, columns: Columns, where: str = "") -> None:
        """Set which columns `side` reads, and a SQL condition on its rows. Raises Refused for a condition that the source does not understand."""
        if where:
            self.query(f"select 1 from {self.table} where {where} limit 0")
        self.side = Side(self.dialect, self.table, columns, self.query, self.mark, where)

    def query(self, text: str) -> Sequence[Sequence[Any]]:
        """Wait for a connection that is free, and run a statement on it. Raises Unavailable and Refused."""
        return self._run(lambda cursor: (cursor.execute(text), cursor.fetchall())[1])

    def signal(self, table: str, label: str, data: str) -> None:
        """Ask Debezium for an incremental snapshot by a row in its signal table. Nothing else is ever written to the source."""
        place = ".".join(self.dialect.quoted(part) for part in table.split("."))
        row = ", ".join(map(self.dialect.literal, (label, "execute-snapshot", data)))

        def insert(cursor: Any) -> Sequence[Sequence[Any]]:
            cursor.execute("start transaction read write")
            try:
                cursor.execute(f"insert into {place} (id, type, data) values ({row})")
            except self._driver.Error:
                cursor.execute("rollback")
                raise
            cursor.execute("commit")
            return []

        self._run(insert)

    def _run(self, work: Callable[[Any], Sequence[Sequence[Any]]]) -> Sequence[Sequence[Any]]:
        connection = self._free.get()
        try:
            with connection.cursor() as cursor:
                return work(cursor)
        except self._driver.Error as error:
            raise self._translated(error) from error
        finally:
            self._free.put(connection)

    @abstractmethod
    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. Generated ones have no form."""

    @abstractmethod
    def end(self) -> int | None:
        """Return the end of the server's log; None if it has none."""

    @abstractmethod
    def _resolve(self, table: str) -> None:
        """Set `table`. Raises Refused for a table that does not exist."""

    @abstractmethod
    def _translated(self, error: Exception) -> Refused | Unavailable:
        """Return the error to raise for one of the driver's."""


_POSTGRES_SETTINGS = (
    "default_transaction_read_only = on",
    "timezone = 'UTC'",
    "datestyle = 'ISO, YMD'",
    "standard_conforming_strings = on",
    # rows that a policy hides would count as deleted: with `off` the server refuses to hide them
    "row_security = off",
    "lock_timeout = '5s'",
)
_POSTGRES_COLUMNS = """
select a.attname, case t.typtype when 'd' then format_type(t.typbasetype, t.typtypmod) else format_type(a.atttypid, a.atttypmod) end,
    coalesce(b.typtype, t.typtype) = 'e', a.attgenerated <> ''
from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_type b on b.oid = t.typbasetype and t.typtype = 'd'
where a.attrelid = {relation}::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_POSTGRES_LSN = "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end - '0/0'::pg_lsn)::bigint"


class PostgresSource(SqlSource):
    """A table of a PostgreSQL database (13 or newer) or of a standby. `connections`: statements at a time; `timeout`: seconds that one may take."""

    dialect, log = POSTGRES, POSTGRES_LOG
    # an incremental snapshot reads no row that is gone
    signal_repairs = ("missing", "changed", "repeated")

    def __init__(self, url: str, table: str, connections: int = 2, timeout: float = 300.0) -> None:
        try:
            import psycopg
        except ImportError:
            raise Refused('reconcile needs psycopg, which is not installed: pip install "psycopg[binary]"') from None
        self.address = ""

        def connect() -> Any:
            connection = psycopg.connect(url, autocommit=True, client_encoding="UTF8", application_name="compactor reconcile", connect_timeout=15)
            # a pooler in between may have no prepared statements
            connection.prepare_threshold = None
            for setting in (*_POSTGRES_SETTINGS, f"statement_timeout = {int(timeout * 1000)}"):
                connection.execute(f"set {setting}")
            self.address = f"postgresql://{connection.info.host}:{connection.info.port}/{connection.info.dbname}"
            return connection

        super().__init__(psycopg, table, connections, connect)

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. A generated one has no form: it is not in the change stream."""
        columns = []
        for name, kind, enum, made in self.query(_POSTGRES_COLUMNS.format(relation=literal(self.table))):
            columns.append(SourceColumn(name, "generated column" if made else kind, None if made else postgres_form(kind, enum)))
        return columns

    def end(self) -> int | None:
        """Return the end of the log: on a standby what it has replayed."""
        ((number,),) = self.query(_POSTGRES_LSN)
        return None if number is None else int(number)

    def _resolve(self, table: str) -> None:
        self.table = ".".join(self.dialect.quoted(part) for part in table.rpartition(".")[::2] if part)
        named = "relkind::text, relnamespace::regnamespace::text || '.' || relname"
        rows = self.query(f"select {named} from pg_class where oid = to_regclass({literal(self.table)})")
        if not rows:
            raise Refused(f"{self.address} has no table {table}. Name it with --source-table SCHEMA.TABLE.")
        # the rows of a view have no xmin
        self.collection = rows[0][1]
        self.mark = "xmin::text" if rows[0][0] in ("r", "p", "m") else "''"

    def _translated(self, error: Exception) -> Refused | Unavailable:
        sentence = (str(error).strip() or type(error).__name__).splitlines()[0]
        if not self.address:
            return Unavailable(f"PostgreSQL could not be reached: {sentence}")
        if "row-level security" in sentence:
            return Refused(f"{self.address}: {sentence}. Rows that it hides would count as deleted: give the user BYPASSRLS.")
        if isinstance(error, self._driver.errors.QueryCanceled):
            return Unavailable(f"{self.address}: {sentence}. {_SLOW}")
        return (Unavailable if isinstance(error, self._driver.OperationalError) else Refused)(f"{self.address}: {sentence}")


_MYSQL_SETTINGS = (
    "sql_mode = 'PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "time_zone = '+00:00'",
    "lock_wait_timeout = 5",
    # longer than any --wait-lake
    "wait_timeout = 604800",
    "transaction read only",
    "max_error_count = 65535",
)
_MYSQL_TOO_LARGE = 1301
_MYSQL_BUSY = {0, 1040, 1203, 1205, 1213, 2002, 2003, 2006, 2013, 2014}
"""A connection that was lost before, too many connections, a lock that is waited for, a server that does not answer."""
_MYSQL_TOO_LONG = {1317, 1969, 3024}
_MYSQL_NO_RIGHT = 1227
_MYSQL_COLUMNS = (
    "select column_name, column_type, character_set_name, collation_name, generation_expression from information_schema.columns where {} "
    "order by ordinal_position"
)


class MysqlSource(SqlSource):
    """A table of a MySQL or MariaDB server whose binlog the stream comes from. `connections`: statements at a time; `timeout`: seconds for each."""

    dialect, log = MYSQL, MYSQL_LOG
    # the rows of an incremental snapshot have no place in the binlog: they count as older than every change
    signal_repairs = ("missing",)

    def __init__(self, url: str, table: str, connections: int = 2, timeout: float = 300.0) -> None:
        try:
            import pymysql
        except ImportError:
            raise Refused('reconcile needs PyMySQL, which is not installed: pip install "pymysql[rsa]"') from None
        given = _mysql_arguments(url)
        self._database, self._where = given["database"], ""
        self.address = f"mysql://{given['host']}:{given['port']}/{self._database}"

        def connect() -> Any:
            connection = pymysql.connect(**given, charset="utf8mb4", autocommit=True, connect_timeout=15, read_timeout=timeout + 30)
            with connection.cursor() as cursor:
                cursor.execute("select version()")
                limit = f"max_statement_time = {timeout}" if "MariaDB" in cursor.fetchone()[0] else f"max_execution_time = {int(timeout * 1000)}"
                for setting in (*_MYSQL_SETTINGS, limit):
                    cursor.execute(f"set session {setting}")
            return connection

        super().__init__(pymysql, table, connections, connect)

    def query(self, text: str) -> Sequence[Sequence[Any]]:
        def work(cursor: Any) -> Sequence[Sequence[Any]]:
            cursor.execute(text)
            rows: Sequence[Sequence[Any]] = cursor.fetchall()
            cursor.execute("show warnings")
            if any(code == _MYSQL_TOO_LARGE for _, code, *_ in cursor.fetchall()):
                # the server makes null of it, with a warning
                raise Refused(
                    f"{self.address}: some row of {self.table} makes a text that is larger than the server's max_allowed_packet (bytes are "
                    "written with two digits each). Raise max_allowed_packet on the server, and compare again."
                )
            return rows

        return self._run(work)

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. A generated one has no form: whether it is in the change stream depends on the capture."""
        columns = []
        for name, kind, charset, collation, made in self.query(_MYSQL_COLUMNS.format(self._where)):
            text = "generated column" if made else f"{kind} character set {charset} collate {collation}" if charset else kind
            columns.append(SourceColumn(name, text, None if made else mysql_form(text)))
        return columns

    def end(self) -> int | None:
        """Return the end of this server's own binlog; None if it writes none."""
        try:
            rows = self.query("show master status")
        except Refused as error:
            if "syntax" not in str(error):
                raise
            # MySQL 8.4 knows only the new name
            rows = self.query("show binary log status")
        return self.log.parse(f"{rows[0][0]}:{rows[0][1]}") if rows else None

    def _resolve(self, table: str) -> None:
        schema, _, name = table.rpartition(".")
        schema = schema or self._database
        self._where = f"table_schema = {literal(schema)} and table_name = {literal(name)}"
        if not self.query(f"select 1 from information_schema.tables where {self._where}"):
            raise Refused(f"{self.address} has no table {table}, or the user no right to SELECT. Name it with --source-table DATABASE.TABLE.")
        self.table, self.collection = f"{self.dialect.quoted(schema)}.{self.dialect.quoted(name)}", f"{schema}.{name}"
        # columns that the user may not read are in no list, as if they did not exist
        self.query(f"select * from {self.table} limit 0")

    def _translated(self, error: Exception) -> Refused | Unavailable:
        code, *_ = (*error.args, 0)
        (sentence, *_) = str(error.args[-1] if error.args else "").splitlines() or ["the connection was lost"]
        text = f"{self.address}: {sentence}"
        if code in _MYSQL_TOO_LONG:
            return Unavailable(f"{text}. {_SLOW}")
        if code == _MYSQL_NO_RIGHT:
            return Refused(f"{text}. The user needs REPLICATION CLIENT (MySQL) or BINLOG MONITOR (MariaDB), to see where the binlog ends.")
        return Unavailable(text) if code in _MYSQL_BUSY else Refused(text)


def _mysql_arguments(url: str) -> dict[str, Any]:
    """Return the driver's arguments. The password may be in MYSQL_PWD; the only parameter is `ssl_ca`, the file of the server's authority."""
    account, _, place = url.partition("://")[2].rpartition("@")
    user, colon, password = account.partition(":")
    parts = urlsplit(f"mysql://{place}")
    more = dict(parse_qsl(parts.query))
    if set(more) - {"ssl_ca"}:
        raise Refused(f"--source: unknown parameter {', '.join(sorted(set(more) - {'ssl_ca'}))} of a mysql:// URL, expected ssl_ca")
    try:
        port = parts.port or 3306
    except ValueError:
        raise Refused("--source: expected a port up to 65535") from None
    if not parts.hostname or not parts.path.strip("/"):
        raise Refused("--source: expected mysql://user@host/database")
    if "ssl_ca" in more and not os.path.isfile(more["ssl_ca"]):
        raise Refused(f"--source: ssl_ca: expected a file, found none at {more['ssl_ca']}")
    # bytes, because the driver takes a text for Latin-1
    secret = os.fsencode(unquote(password) if colon else os.environ.get("MYSQL_PWD", ""))
    tls = {"ssl_ca": more["ssl_ca"], "ssl_verify_cert": True, "ssl_verify_identity": True} if more else {}
    return {"host": parts.hostname, "port": port, "user": unquote(user), "password": secret, "database": unquote(parts.path.strip("/")), **tls}


_SOURCES: dict[str, type[PostgresSource] | type[MysqlSource]] = {
    **dict.fromkeys(("postgresql", "postgres"), PostgresSource),
    **dict.fromkeys(("mysql", "mariadb"), MysqlSource),
}

_ENCODED = "%(?!00)[0-9A-Fa-f]{2}"
_USER = rf"(?:[!-~](?<![%:@/])|{_ENCODED})*"
_PASSWORD = rf"(?:[!-~](?<![%@/])|{_ENCODED})*"
_HOST = rf"(?:(?:[!-~](?<![%:@/?#\[\],])|{_ENCODED})*|\[[0-9A-Fa-f:.]+\])(?::\d{{0,5}})?"
_REST = rf"(?:[^\s\x00-\x1f\x7f\ud800-\udfff@#%]|{_ENCODED})*"
_ADDRESS = re.compile(rf"\w+://(?:{_USER}(?::{_PASSWORD})?@)?{_HOST}(?:,{_HOST})*(?:[/?]{_REST})?")
"""An address that no driver can misread. Drivers quote what they take for a host, a port or a path, and it may be a part of the password."""


def open_source(url: str, table: str, connections: int, timeout: float) -> SqlSource:
    """Open the source of a URL. Raises Refused for a system that is not supported."""
    scheme, separator, _ = url.partition("://")
    made = _SOURCES.get(scheme.lower()) if separator else None
    if made is None:
        shown = f"{scheme}://" if separator and scheme.isalpha() else "no scheme"
        raise Refused(f"reconcile compares with PostgreSQL and MySQL: expected postgresql://.. or mysql://.., got {shown}.")
    if not _ADDRESS.fullmatch(url):
        raise Refused(
            f"--source: expected {scheme.lower()}://user@host:port/database, found something else (not shown: it may contain a password). Keep the "
            "password in PGPASSWORD or MYSQL_PWD, or percent-encode in user and password @ / % (%40 %2F %25), blanks, and what is not ASCII."
        )
    return made(url, table, connections, timeout)
