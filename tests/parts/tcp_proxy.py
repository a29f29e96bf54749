"""A proxy between a client and a server that speak in turns (Thrift, as a Hive metastore does), that does to calls what networks do.

    with TcpProxy(port) as proxy:
        proxy.plan(TcpFault("reset_after", at=3))     # the third call from now on is carried out and its answer lost

A call is what the client says after the server has answered: nothing of the protocol is looked at.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

DELAY_SECONDS = 3.0
AWAY_SECONDS = 1.5

KINDS = {
    "reset_before": "the connection is reset, the call not carried out",
    "reset_after": "carried out, the connection is reset instead of an answer",
    "cut": "carried out, the answer ends in its middle",
    "slow": "carried out, the answer does not come before the client's time-out",
    "late": "carried out after the client's time-out",
    "away": "from here on for a while all connections are reset, new ones too",
    "gone": "from here on all connections are reset until the next plan",
}


@dataclass(frozen=True)
class TcpFault:
    """What happens to the call number `at`; 1 is the next."""

    kind: str
    at: int = 1


class TcpProxy:
    """Stands before a port of this machine. `before(n)` is called before the n-th call of a plan goes on."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._faults: tuple[TcpFault, ...] = ()
        self._away_until = 0.0
        self.calls = 0
        self.fired = False
        self.before: Callable[[int], object] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> TcpProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def plan(self, *faults: TcpFault) -> None:
        """Forget what was, begin to count anew."""
        with self._lock:
            self._faults, self.calls, self.fired, self._away_until = faults, 0, False, 0.0

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _called(self) -> str:
        with self._lock:
            self.calls += 1
            number = self.calls
            kind = next((fault.kind for fault in self._faults if fault.at == number), "")
            if kind:
                self.fired = True
            if kind in ("away", "gone"):
                self._away_until = time.monotonic() + (AWAY_SECONDS if kind == "away" else 1e9)
            away = time.monotonic() < self._away_until
        if self.before is not None:
            self.before(number)
        return "reset_before" if away else kind

    def _serve(self, client: socket.socket) -> None:
        if time.monotonic() < self._away_until:
            _reset(client)
            return
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._port)) as server:
            asking, kind = False, ""
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    data = client.recv(1 << 16)
                    if not data:
                        return
                    if not asking:
                        asking, kind = True, self._called()
                        if kind == "late":
                            time.sleep(DELAY_SECONDS)
                    if kind == "reset_before":
                        _reset(client)
                        return
                    server.sendall(data)
                    continue
                data = server.recv(1 << 16)
                if not data:
                    return
                asking = False
                if kind == "slow":
                    time.sleep(DELAY_SECONDS)
                if kind == "cut":
                    client.sendall(data[: len(data) // 2])
                if kind in ("reset_after", "slow", "late", "cut"):
                    _reset(client)
                    return
                client.sendall(data)


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
