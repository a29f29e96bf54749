"""A few open connections, each for one statement at a time."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Pool:
    """Connections of any driver. They have `close()`."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def fill(self, count: int, connect: Callable[[], Any]) -> None:
        """Open connections, at least one."""
        for _ in range(max(1, count)):
            connection = connect()
            self._open.append(connection)
            self._free.put(connection)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Wait for a connection that is free, and use it."""
        connection = self._free.get()
        try:
            yield connection
        finally:
            self._free.put(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open:
            connection.close()
