"""A schema registry inside the test's process: Confluent's HTTP API over a dict, in three dialects, with faults on demand.

What it answers was recorded from the real ones: Apicurio 3.0.9 (`tests/registry/test_apicurio.py` asks it again), Confluent's API reference,
Karapace's sources.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from compactor.core.model.errors import SchemaRefused
from compactor.core.schema import compatibility

TYPE = "application/vnd.schemaregistry.v1+json"
Fault = Callable[["Handler"], None]


@dataclass
class Asked:
    """One request as it came in; `target` is the request line's, with its query."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any = None


@dataclass
class RegistryServer:
    """Contents and behaviour; `faults` are used up one a request, `always` on every one."""

    dialect: str = "confluent"
    url: str = ""
    subjects: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    faults: list[Fault | None] = field(default_factory=list)
    always: Fault | None = None
    asked: list[Asked] = field(default_factory=list)
    authorization: str = ""

    def register(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None, kind: str = "AVRO") -> int:
        """Add a version; the same content has the same id everywhere. Gives the id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        content = {"schema": text, "schemaType": kind, "references": references or []}
        known = {json.dumps(entry["content"]): entry["id"] for numbers in self.subjects.values() for entry in numbers.values()}
        schema_id = known.get(json.dumps(content), max(known.values(), default=0) + 1)
        numbers = self.subjects.setdefault(subject, {})
        numbers[max(numbers, default=0) + 1] = {"id": schema_id, "content": content}
        return schema_id

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Status and JSON."""
        for how, pattern, respond in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and how == method:
                return respond(self, query, body, *(unquote(part) for part in match.groups()))
        if self.dialect == "apicurio":
            return 404, {"title": "RESTEASY003210: Could not find resource for full path", "status": 404, "name": "NotFoundException"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def told(self, entry: dict[str, Any]) -> dict[str, Any]:
        """A schema as this dialect says it: Confluent leaves out what is Avro and refers to nothing."""
        content = dict(entry["content"])
        if self.dialect != "apicurio":
            content = {name: value for name, value in content.items() if name == "schema" or value not in ([], "AVRO")}
        return content

    def level(self, subject: str) -> str:
        """What the subject's new versions are held to."""
        return self.levels.get(subject) or self.levels.get("") or ("NONE" if self.dialect == "apicurio" else "BACKWARD")


def _no(code: int, message: str) -> tuple[int, Any]:
    return code // 100, {"error_code": code, "message": message}


def _all(server: RegistryServer, query: dict[str, str], body: Any) -> tuple[int, Any]:
    prefix = query.get("subjectPrefix", "") if server.dialect == "confluent" else ""
    return 200, [name for name in server.subjects if name.startswith(prefix)]


def _versions(server: RegistryServer, query: dict[str, str], body: Any, subject: str) -> tuple[int, Any]:
    return (200, list(server.subjects[subject])) if subject in server.subjects else _no(40401, f"Subject '{subject}' not found.")


def _version(server: RegistryServer, query: dict[str, str], body: Any, subject: str, number: str) -> tuple[int, Any]:
    if subject not in server.subjects:
        return _no(40401, f"Subject '{subject}' not found.")
    numbers = server.subjects[subject]
    wanted = max(numbers) if number == "latest" else int(number)
    if wanted not in numbers:
        return _no(40402, f"Version {number} not found.")
    return 200, {"subject": subject, "version": wanted, "id": numbers[wanted]["id"], **server.told(numbers[wanted])}


def _by_id(server: RegistryServer, query: dict[str, str], body: Any, schema_id: str) -> tuple[int, Any]:
    for numbers in server.subjects.values():
        for entry in numbers.values():
            if entry["id"] == int(schema_id):
                return 200, server.told(entry)
    return _no(40403, f"Schema {schema_id} not found.")


def _global_level(server: RegistryServer, query: dict[str, str], body: Any) -> tuple[int, Any]:
    return 200, {"compatibilityLevel": server.level("")}


def _level(server: RegistryServer, query: dict[str, str], body: Any, subject: str) -> tuple[int, Any]:
    if server.dialect == "apicurio" and subject not in server.subjects:
        return _no(40401, f"No artifact with ID '{subject}' in group 'null' was found.")
    if subject not in server.levels and server.dialect != "apicurio" and query.get("defaultToGlobal") != "true":
        return _no(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
    return 200, {"compatibilityLevel": server.level(subject)}


def _check(server: RegistryServer, query: dict[str, str], body: Any, subject: str, number: str = "") -> tuple[int, Any]:
    if server.dialect == "karapace" and not number:
        return 405, {"message": "Method Not Allowed"}
    if subject not in server.subjects:
        return (200, {"is_compatible": True}) if server.dialect == "apicurio" and number else _no(40401, f"Subject '{subject}' not found.")
    old = [entry["content"]["schema"] for entry in server.subjects[subject].values()]
    try:
        why = compatibility.check(server.level(subject), body["schema"], old[-1:] if number else old)
    except SchemaRefused:
        return _no(42201, "Invalid schema")
    messages = {"messages": [f"{{errorType:'SOMETHING', description:'{each}'}}" for each in why]} if server.dialect == "confluent" else {}
    return 200, {"is_compatible": not why, **messages}


_ROUTES: list[tuple[str, str, Callable[..., tuple[int, Any]]]] = [
    ("GET", r"/subjects", _all),
    ("GET", r"/subjects/([^/]+)/versions", _versions),
    ("GET", r"/subjects/([^/]+)/versions/(\d+|latest)", _version),
    ("GET", r"/schemas/ids/(\d+)", _by_id),
    ("GET", r"/config", _global_level),
    ("GET", r"/config/([^/]+)", _level),
    ("POST", r"/compatibility/subjects/([^/]+)/versions", _check),
    ("POST", r"/compatibility/subjects/([^/]+)/versions/(\d+|latest)", _check),
]


class Handler(BaseHTTPRequestHandler):
    """Requests to the server whose class attribute it is."""

    registry: RegistryServer
    base = ""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer: two would wait for each other

    def do_GET(self) -> None:
        """Answer, or fail as told."""
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.registry.asked.append(Asked(self.command, self.path, dict(self.headers), body))
        fault = self.registry.always or (self.registry.faults.pop(0) if self.registry.faults else None)
        if fault is not None:
            fault(self)
            return
        if self.registry.authorization and self.headers.get("Authorization") != self.registry.authorization:
            self.send(401, {"error_code": 401, "message": f"Unauthorized: {self.headers.get('Authorization')}"})
            return
        parts = urlsplit(self.path)
        path = parts.path[len(self.base) :] if parts.path.startswith(self.base) else "/elsewhere"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.send(*self.registry.answer(self.command, path, query, body))

    do_POST = do_GET

    def send(self, status: int, body: Any, kind: str = TYPE, **headers: str) -> None:
        """One whole answer; a body that is text is sent as it is."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Silent."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Clients that go away are wanted here."""


@contextmanager
def serving(dialect: str = "confluent", tls: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    """A registry on this machine. Apicurio's lies below its path."""
    registry = RegistryServer(dialect)
    base = "/apis/ccompat/v7" if dialect == "apicurio" else ""
    server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"registry": registry, "base": base}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    registry.url = f"http{'s' if tls else ''}://localhost:{server.server_address[1]}{base}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# Faults


def status(code: int, body: Any = None, **headers: str) -> Fault:
    """An error as Confluent's server says it."""
    return lambda handler: handler.send(code, {"error_code": code * 100 + 1, "message": "failed"} if body is None else body, **headers)


def page(code: int = 200, text: str = "<!doctype html><title>Sign in</title>") -> Fault:
    """A page: of a proxy, a load balancer, a login."""
    return lambda handler: handler.send(code, text, kind="text/html; charset=utf-8")


def says(body: Any) -> Fault:
    """200 with this instead of the answer."""
    return lambda handler: handler.send(200, body)


def redirect(location: str, code: int = 302) -> Fault:
    """Somewhere else."""
    return lambda handler: handler.send(code, "", Location=location)


def reset(handler: Handler) -> None:
    """The connection is gone before anything was said."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def cut(handler: Handler) -> None:
    """Fewer bytes than promised."""
    handler.send_response(200)
    handler.send_header("Content-Type", TYPE)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'["half')
    handler.close_connection = True


def cut_chunks(handler: Handler) -> None:
    """The last chunk is missing."""
    handler.send_response(200)
    handler.send_header("Content-Type", TYPE)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'5\r\n["hal\r\n')
    handler.close_connection = True


def cut_silently(handler: Handler) -> None:
    """An old server that ends an answer by hanging up, in the middle."""
    handler.send_response(200)
    handler.send_header("Content-Type", TYPE)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(b'["half')
    handler.close_connection = True


def bad_gzip(handler: Handler) -> None:
    """Said to be packed, and is not."""
    handler.send(200, "[]", Content_Encoding="gzip")


def slow(seconds: float) -> Fault:
    """Nothing for a while."""

    def wait(handler: Handler) -> None:
        time.sleep(seconds)
        handler.send(200, [])

    return wait


def drip(seconds: float) -> Fault:
    """A byte now and then, so that no time-out between bytes is ever reached."""

    def write(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", TYPE)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            handler.wfile.write(b"[")
            handler.wfile.flush()
            time.sleep(0.02)
        handler.close_connection = True

    return write
