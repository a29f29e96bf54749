"""A proxy between a client and an HTTP server, on loopback, that does to requests what networks and stores under load do.

with Proxy(server) as proxy:
    proxy.plan(Fault("reset_after", at=3))        # the third request from now on is carried out and its answer lost
    ...
    proxy.quiet()                                 # nothing is on its way any more
"""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.parts.s3 import STATE, Server

DELAY_SECONDS = 0.45
STALE_SECONDS = 0.6
SKEW_SECONDS = 7200.0

KINDS = {
    "500": "answered 500 InternalError, not carried out",
    "503": "answered 503 SlowDown, not carried out",
    "429": "answered 429 TooManyRequests, not carried out",
    "reset_before": "the connection is reset, not carried out",
    "reset_after": "carried out, the connection is reset instead of an answer",
    "cut": "carried out, the answer ends in the middle of its body, or of its headers when it has none",
    "cut_head": "carried out, the answer ends among its headers",
    "cut_length": "carried out, of the answer come all headers but the one that tells its length, and nothing more",
    "slow": "carried out, the answer comes after the client's time-out",
    "late": "carried out after the client's time-out",
    "twice": "carried out twice, the second answer is given",
    "again": "carried out, and once more after the next three requests",
    "stale": "from here on, listings and HEADs show the state before this request for a while",
    "skew": "the answer's Date is hours ahead",
    "skew_back": "the answer's Date is hours behind",
}
CODES = {"500": "InternalError", "503": "SlowDown", "429": "TooManyRequests"}
ALWAYS = 1_000_000_000
Answer = tuple[int, str, list[tuple[str, str]], bytes]


@dataclass(frozen=True)
class Fault:
    """What happens to the request number `at` (1 is the next) of those whose method and path fit, and to the `times` - 1 after it.

    `kind` is one of KINDS, or status and code of an error to answer: `403 AccessDenied`.
    """

    kind: str
    at: int = 1
    times: int = 1
    method: str = ""
    path: str = ""

    def fits(self, method: str, path: str) -> bool:
        """Whether a request counts."""
        return self.method in ("", method) and re.search(self.path, path) is not None


@dataclass
class Proxy:
    """Stands before `server`. `strip` names request headers that do not get through, `refuse` some that are answered 501 when
    the request would change something.

    `before(n)` is called before the n-th request of a plan is carried out: for what somebody else does in between.
    """

    server: Server
    strip: set[str] = field(default_factory=set)
    refuse: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._faults: list[Fault] = []
        self._counts: list[int] = []
        self._again: list[tuple[int, Any]] = []
        self.before: Callable[[int], object] | None = None
        self._stale_until = 0.0
        self._lock = threading.Lock()
        self._on_the_way = 0
        self._idle = threading.Condition(self._lock)
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False

    @property
    def url(self) -> str:
        """The endpoint for the client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def plan(self, *faults: Fault) -> None:
        """Forget what was, begin to count anew."""
        with self._lock:
            self.requests.clear()
            self.headers.clear()
            self._faults, self._counts = [*faults], [0] * len(faults)
            self._again.clear()
            self._stale_until = 0.0

    @property
    def fired(self) -> bool:
        """Whether a fault of the plan has happened."""
        return any(count >= fault.at for fault, count in zip(self._faults, self._counts, strict=True))

    def quiet(self) -> None:
        """Wait until nothing is on its way; what was to come again comes now."""
        with self._idle:
            waiting, self._again = self._again, []
        for _, request in waiting:
            self.forward(*request)
        with self._idle:
            assert self._idle.wait_for(lambda: not self._on_the_way, timeout=30)

    def arrived(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Count a request; what is to happen to it."""
        with self._lock:
            self._on_the_way += 1
            # Glue names the operation in a header, and all have one path
            path = f"/{headers['X-Amz-Target']}" if "X-Amz-Target" in headers else path
            self.requests.append((method, path))
            self.headers.append({name.lower(): value for name, value in headers.items()})
            due = ""
            for number, fault in enumerate(self._faults):
                if fault.fits(method, path):
                    self._counts[number] += 1
                    if fault.at <= self._counts[number] < fault.at + fault.times:
                        due = fault.kind
            now = len(self.requests)
            later = [request for when, request in self._again if when <= now]
            self._again = [item for item in self._again if item[0] > now]
        for request in later:
            self.forward(*request)
        if self.before is not None:
            self.before(now)
        if due == "stale":
            self.server.save("stale")
            with self._lock:
                self._stale_until = time.monotonic() + STALE_SECONDS
        return due

    def gone(self) -> None:
        """A request is over."""
        with self._idle:
            self._on_the_way -= 1
            self._idle.notify_all()

    def once_more(self, request: Any) -> None:
        """Remember a request that is to arrive again."""
        with self._lock:
            self._again.append((len(self.requests) + 3, request))

    def forward(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """Let the server carry it out."""
        if method in ("PUT", "POST", "DELETE") and any(name.lower() in self.refuse for name, _ in headers):
            return error_answer(501, "NotImplemented")
        stale = time.monotonic() < self._stale_until and (method == "HEAD" or (method == "GET" and "list-type=2" in path))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                if name.lower() not in ("expect", "connection") and name.lower() not in self.strip:
                    connection.putheader(name, value)
            if stale:
                connection.putheader(STATE, "stale")
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.getheaders(), answer.read()
        finally:
            connection.close()


def error_answer(status: int, code: str, json: bool = False) -> Answer:
    """An error as S3 words it; `json`: as Glue does."""
    if json:
        data = f'{{"__type": "{code}", "Message": "Please try again."}}'.encode()
        return status, code, [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(data)))], data
    body = f"<Error><Code>{code}</Code><Message>Please try again.</Message></Error>".encode()
    return status, code, [("Content-Type", "application/xml"), ("Content-Length", str(len(body))), ("Date", formatdate(usegmt=True))], body


class _Handler(BaseHTTPRequestHandler):
    owner: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = (self.command, self.path, [*self.headers.items()], body)
        due = self.owner.arrived(self.command, self.path, dict(self.headers))
        try:
            self._act(due, request)
        finally:
            self.owner.gone()

    def handle_expect_100(self) -> bool:
        """Say "go on" at once: clients wait a second for it."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _act(self, due: str, request: tuple[str, str, list[tuple[str, str]], bytes]) -> None:
        if due[:3].isdigit():
            status, _, code = due.partition(" ")
            self._give(error_answer(int(status), code or CODES[due], "X-Amz-Target" in self.headers))
            return
        if due == "reset_before":
            self._reset()
            return
        if due == "late":
            time.sleep(DELAY_SECONDS)
        answer = self.owner.forward(*request)
        if due == "twice":
            answer = self.owner.forward(*request)
        if due == "again":
            self.owner.once_more(request)
        if due.startswith("skew"):
            answer = _skewed(answer, SKEW_SECONDS if due == "skew" else -SKEW_SECONDS)
        if due == "slow":
            time.sleep(DELAY_SECONDS)
        if due in ("reset_after", "late", "slow"):
            self._reset()
        else:
            self._give(answer, due if due.startswith("cut") else "")

    def _give(self, answer: Answer, cut: str = "") -> None:
        status, reason, headers, body = answer
        lines = [f"HTTP/1.1 {status} {reason}"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() not in ("connection", "transfer-encoding")]
        if not any(name.lower() == "content-length" for name, _ in headers) and status != 204:
            lines.append(f"Content-Length: {len(body)}")
        data = "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if self.command == "HEAD" else body)
        if cut:
            data = _beginning(cut, lines, data, 0 if self.command == "HEAD" else len(body))
            self.close_connection = True
        with suppress(ConnectionError, ValueError):
            self.wfile.write(data)
            self.wfile.flush()
        if cut:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # Both file objects hold the socket: only when all three are closed the reset is sent.
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self) -> None:
        """A client that has gone is no error of ours."""
        with suppress(ConnectionError, ValueError):
            super().finish()

    def handle(self) -> None:
        """The same."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Thousands of lines that nobody reads."""


def _beginning(cut: str, lines: Sequence[str], data: bytes, body: int) -> bytes:
    """How much of an answer gets through."""
    if cut == "cut_length":
        return "".join(f"{line}\r\n" for line in lines if not line.lower().startswith("content-length:")).encode("latin-1")
    if cut == "cut" and body:
        return data[: len(data) - body // 2]
    return data[: data.index(b"\r\n") + 12]


def _skewed(answer: Answer, seconds: float) -> Answer:
    status, reason, headers, body = answer
    dates = {name: parsedate_to_datetime(value).timestamp() + seconds for name, value in headers if name.lower() == "date"}
    kept = [(name, value) for name, value in headers if name not in dates]
    return status, reason, [*kept, *((name, formatdate(when, usegmt=True)) for name, when in dates.items())], body
