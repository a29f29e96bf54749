"""PostgreSQL as the source of a comparison. Needs psycopg 3 (extra `reconcile`)."""

from __future__ import annotations

from typing import Any

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import SourceColumn
from compactor.core.reconcile.dialects import POSTGRES, literal, postgres_form
from compactor.core.reconcile.reached import POSTGRES_LOG
from compactor.reconcile.connections import SLOW, SqlSource

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
where a.attrelid = {relation}::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_LSN = "select (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end - '0/0'::pg_lsn)::bigint"


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
            for setting in (*_SETTINGS, f"statement_timeout = {int(timeout * 1000)}"):
                connection.execute(f"set {setting}")
            self.address = f"postgresql://{connection.info.host}:{connection.info.port}/{connection.info.dbname}"
            return connection

        super().__init__(psycopg, table, connections, connect)

    def columns(self) -> list[SourceColumn]:
        """Return the table's columns. A generated one has no form: it is not in the change stream."""
        columns = []
        for name, kind, enum, made in self.query(_COLUMNS.format(relation=literal(self.table))):
            columns.append(SourceColumn(name, "generated column" if made else kind, None if made else postgres_form(kind, enum)))
        return columns

    def end(self) -> int | None:
        """Return the end of the log: on a standby what it has replayed."""
        ((number,),) = self.query(_LSN)
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
        if isinstance(error, self._driver.errors.QueryCanceled):
            return Unavailable(f"{self.address}: {sentence}. {SLOW}")
        return (Unavailable if isinstance(error, self._driver.OperationalError) else Refused)(f"{self.address}: {sentence}")
