"""The source of a comparison by its URL."""

from __future__ import annotations

import re

from compactor.core.model.errors import Refused
from compactor.reconcile.connections import SqlSource
from compactor.reconcile.mysql import MysqlSource
from compactor.reconcile.postgres import PostgresSource

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
