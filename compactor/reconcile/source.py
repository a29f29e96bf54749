"""The source of a comparison by its URL."""

from __future__ import annotations

from compactor.core.model.errors import Refused
from compactor.reconcile.mysql import MysqlSource
from compactor.reconcile.postgres import PostgresSource

_SOURCES: dict[str, type[PostgresSource] | type[MysqlSource]] = {
    **dict.fromkeys(("postgresql", "postgres"), PostgresSource),
    **dict.fromkeys(("mysql", "mariadb"), MysqlSource),
}


def open_source(url: str, table: str, connections: int, timeout: float) -> PostgresSource | MysqlSource:
    """Open the source of a URL. Raises Refused for a system that is not supported."""
    scheme, separator, _ = url.partition("://")
    made = _SOURCES.get(scheme.lower()) if separator else None
    if made is None:
        shown = f"{scheme}://" if separator else "no scheme"
        raise Refused(f"reconcile compares with PostgreSQL and MySQL: expected postgresql://.. or mysql://.., got {shown}.")
    return made(url, table, connections, timeout)
