"""PostgreSQL as the source of a comparison: a few connections that only read, each statement a short transaction of its own.

Needs psycopg 3 (extra `reconcile`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import Columns, SourceColumn
from compactor.core.reconcile.postgres_sql import PostgresSql, form, literal, quoted
from compactor.core.reconcile.reached import PostgresLog, SourceLog
from compactor.core.reconcile.side import Side, SqlSide
from compactor.reconcile.pool import Pool

_SETTINGS = (
    "default_transaction_read_only = on",
    "timezone = 'UTC'",
    "datestyle = 'ISO, YMD'",
    "standard_conforming_strings = on",
    "lock_timeout = '5s'",
)

_COLUMNS = """
select a.attname, format_type(a.atttypid, a.atttypmod), t.typtype = 'e', a.attgenerated <> ''
from pg_attribute a join pg_type t on t.oid = a.atttypid
where a.attrelid = {relation} and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_LSN = "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end - '0/0'::pg_lsn)::bigint"


class PostgresSource:
    """A table of a PostgreSQL database or of a standby. `connections`: statements at a time; `timeout`: seconds that one may take."""

    log: SourceLog = PostgresLog()

    def __init__(self, url: str, table: str, connections: int = 2, timeout: float = 300.0) -> None:
        try:
            import psycopg
        except ImportError:
            raise Refused('reconcile needs psycopg, which is not installed: pip install "psycopg[binary]"') from None
        self._driver: Any = psycopg
        self._pool = Pool()
        try:
            self._pool.fill(connections, lambda: self._connected(url, timeout))
            with self._pool.connection() as connection:
                info = connection.info
            self.address = f"postgresql://{info.host}:{info.port}/{info.dbname}"
        except psycopg.Error as error:
            self._pool.close()
            raise Unavailable(f"PostgreSQL could not be reached: {_sentence(error)}") from None
        try:
            self.table, self._relation, self._kind = self._resolve(table)
        except (Refused, Unavailable):
            self._pool.close()
            raise

    def __enter__(self) -> PostgresSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. A generated one has no form: it is not in the change stream."""
        rows = self.query(_COLUMNS.format(relation=f"{self._relation}::regclass"))
        return [SourceColumn(name, "generated column" if made else kind, None if made else form(kind, enum)) for name, kind, enum, made in rows]

    def select(self, columns: Columns, where: str = "") -> None:
        """Set which columns `side` reads, and a SQL condition on its rows. Raises Refused for a condition that the source does not understand."""
        if where:
            self.query(f"select 1 from {self.table} where {where} limit 0")
        # the rows of a view have no xmin
        mark = "xmin::text" if self._kind in ("r", "p", "m") else "''"
        self.side: Side = SqlSide(PostgresSql(), self.table, columns, self.query, mark, where)

    def end(self) -> int | None:
        """Return the end of the log: on a standby what it has replayed."""
        ((number,),) = self.query(_LSN)
        return None if number is None else int(number)

    def query(self, text: str) -> Sequence[Sequence[Any]]:
        """Run a statement on a free connection. Raises Unavailable and Refused."""
        with self._pool.connection() as connection:
            try:
                rows: Sequence[Sequence[Any]] = connection.execute(text.encode(), prepare=False).fetchall()
                return rows
            except self._driver.errors.QueryCanceled as error:
                raise Unavailable(
                    f"{self.address}: {_sentence(error)}. Read fewer rows at a time (--chunk) or allow more time (--timeout)."
                ) from None
            except self._driver.OperationalError as error:
                raise Unavailable(f"{self.address}: {_sentence(error)}") from None
            except self._driver.Error as error:
                raise Refused(f"{self.address}: {_sentence(error)}") from None

    def _connected(self, url: str, timeout: float) -> Any:
        connection = self._driver.connect(url, autocommit=True, client_encoding="UTF8", application_name="compactor reconcile", connect_timeout=15)
        for setting in (*_SETTINGS, f"statement_timeout = {int(timeout * 1000)}"):
            connection.execute(f"set {setting}")
        return connection

    def _resolve(self, table: str) -> tuple[str, str, str]:
        """Return (the quoted name, the name as a literal, relkind). Raises Refused for a table that does not exist."""
        schema, _, name = table.rpartition(".")
        full = f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)
        given = literal(full)
        rows = self.query(f"select relkind::text from pg_class where oid = to_regclass({given})")
        if not rows:
            raise Refused(f"{self.address} has no table {table}. Name it with --source-table SCHEMA.TABLE.")
        return full, given, str(rows[0][0])


def _sentence(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
