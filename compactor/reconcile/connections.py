"""The common part of the sources: a few connections that only read, each statement a short transaction of its own."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.reconcile.canonical import Columns, SourceColumn
from compactor.core.reconcile.dialects import Dialect
from compactor.core.reconcile.reached import SourceLog
from compactor.core.reconcile.side import Side

SLOW = "Read fewer rows at a time (--chunk) or allow more time (--timeout)."


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
        """Close all connections."""
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
            raise self._translated(error) from None
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
