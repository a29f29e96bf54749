"""MySQL or MariaDB as the source of a comparison. Needs PyMySQL (extra `reconcile`)."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import SourceColumn
from compactor.core.reconcile.dialects import MYSQL, literal, mysql_form
from compactor.core.reconcile.reached import MYSQL_LOG
from compactor.reconcile.connections import SLOW, SqlSource

_SETTINGS = (
    "sql_mode = 'PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "time_zone = '+00:00'",
    "lock_wait_timeout = 5",
    "transaction read only",
)
_BUSY = {0, 1040, 1203, 1205, 1213, 2002, 2003, 2006, 2013, 2014}
"""A connection that was lost before, too many connections, a lock that is waited for, a server that does not answer."""
_TOO_LONG = {1317, 1969, 3024}
_NO_RIGHT = 1227
_COLUMNS = (
    "select column_name, column_type, character_set_name, generation_expression from information_schema.columns where {} order by ordinal_position"
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
        given = _arguments(url)
        self._database, self._where = given["database"], ""
        self.address = f"mysql://{given['host']}:{given['port']}/{self._database}"

        def connect() -> Any:
            connection = pymysql.connect(**given, charset="utf8mb4", autocommit=True, connect_timeout=15, read_timeout=timeout + 30)
            with connection.cursor() as cursor:
                cursor.execute("select version()")
                limit = f"max_statement_time = {timeout}" if "MariaDB" in cursor.fetchone()[0] else f"max_execution_time = {int(timeout * 1000)}"
                for setting in (*_SETTINGS, limit):
                    cursor.execute(f"set session {setting}")
            return connection

        super().__init__(pymysql, table, connections, connect)

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. A generated one has no form: whether it is in the change stream depends on the capture."""
        columns = []
        for name, kind, charset, made in self.query(_COLUMNS.format(self._where)):
            text = "generated column" if made else f"{kind} character set {charset}" if charset else kind
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
            raise Refused(f"{self.address} has no table {table}. Name it with --source-table DATABASE.TABLE.")
        self.table, self.collection = f"{self.dialect.quoted(schema)}.{self.dialect.quoted(name)}", f"{schema}.{name}"

    def _translated(self, error: Exception) -> Refused | Unavailable:
        code, *_ = (*error.args, 0)
        (sentence, *_) = str(error.args[-1] if error.args else "").splitlines() or ["the connection was lost"]
        text = f"{self.address}: {sentence}"
        if code in _TOO_LONG:
            return Unavailable(f"{text}. {SLOW}")
        if code == _NO_RIGHT:
            return Refused(f"{text}. The user needs REPLICATION CLIENT (MySQL) or BINLOG MONITOR (MariaDB), to see where the binlog ends.")
        return Unavailable(text) if code in _BUSY else Refused(text)


def _arguments(url: str) -> dict[str, Any]:
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
    # bytes, because the driver takes a text for Latin-1
    secret = os.fsencode(unquote(password) if colon else os.environ.get("MYSQL_PWD", ""))
    tls = {"ssl_ca": more["ssl_ca"], "ssl_verify_cert": True, "ssl_verify_identity": True} if more else {}
    return {"host": parts.hostname, "port": port, "user": unquote(user), "password": secret, "database": unquote(parts.path.strip("/")), **tls}
