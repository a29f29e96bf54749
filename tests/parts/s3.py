"""An S3 server for tests, on loopback, in a process of its own: moto's, made as strict as S3 where moto is not. It answers for Glue
(`strict_glue.py`) too: whom a request is for is in its signature.

    with s3_server(tmp) as server:
        server.url, server.bucket("lake"), server.save("before"), server.restore("before")

What moto 5.2 lacks and is added here: one request at a time (its check for If-None-Match and its put are two steps), conditions of copies, the
expected owner of a bucket, another etag for the copy of an object of many parts, etags of objects under a KMS key that are no hashes of the content.
`tests/storage/test_s3.py` looks that it is so.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path
from typing import Any

ACCOUNT = "123456789012"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
CONTROL = "/_parts/"
STATE = "x-parts-state"
"""A request with this header is answered from a saved state: the past."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def save(self, name: str) -> None:
        """Remember all objects under a name."""
        self._control("save", name)

    def restore(self, name: str) -> None:
        """Go back to them, as if they had just been written."""
        self._control("restore", name)

    def bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self._control("bucket", name)

    def keys(self, bucket: str) -> dict[str, str]:
        """The KMS key of everything in a bucket: key → ARN, "" for an object without one."""
        found: dict[str, str] = json.loads(self._control("kms", bucket))
        return found

    def objects(self, bucket: str) -> dict[str, tuple[str, float, bytes]]:
        """Everything in a bucket at one moment: key → etag, modified, content."""
        found = json.loads(self._control("objects", bucket))
        return {key: (etag, modified, base64.b64decode(data)) for key, (etag, modified, data) in found.items()}

    def _control(self, verb: str, name: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", f"{CONTROL}{verb}/{name}")
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return body


@contextmanager
def s3_server(log: Path, python: str = sys.executable) -> Iterator[Server]:
    """Start it; what it says goes to `log`. `python`: one that has moto."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **CREDENTIALS,
        "S3_UPLOAD_PART_MIN_SIZE": "1",
        # else it keeps each object in a file of its own that is open for ever
        "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(1 << 30),
    }
    with log.open("w") as said:
        process = subprocess.Popen([python, __file__], stdout=subprocess.PIPE, stderr=said, text=True, env=environment)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("port "), f"the S3 server did not start: {log.read_text()}"
            server = Server(int(line.split()[1]))
            # moto loads itself with the first request; nobody is to wait for that with a time-out of tests
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
                connection.request("GET", "/")
                connection.getresponse().read()
            yield server
        finally:
            process.terminate()
            process.wait(30)
            if process.stdout:
                process.stdout.close()


Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Strict:
    """moto's application, one request at a time, with S3's conditions."""

    def __init__(self, inner: Application) -> None:
        from moto.s3.models import FakeKey, s3_backends

        # Objects are shared by the states that name them: nobody may take their content away.
        FakeKey.dispose = lambda self, garbage=False: None  # type: ignore[method-assign]
        # And nobody keeps what is deleted: hours of tests make millions.
        FakeKey.__new__ = lambda cls, *_, **__: object.__new__(cls)
        FakeKey.etag = property(_kms_etag(FakeKey.etag.fget))
        self._inner = inner
        self._backend = s3_backends[ACCOUNT]["aws"]
        self._states: dict[str, dict[str, dict[str, list[Any]]]] = {}
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = str(environ["PATH_INFO"])
        with self._lock:
            if path.startswith(CONTROL):
                verb, _, name = path[len(CONTROL) :].partition("/")
                return self._answer(start_response, "200 OK", getattr(self, f"_{verb}")(name) or b"")
            code = self._objection(environ)
            if code is not None:
                status = "412 Precondition Failed" if code == "PreconditionFailed" else "403 Forbidden"
                return self._answer(start_response, status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
            past = environ.get("HTTP_X_PARTS_STATE")
            with self._in_the_past(past) if past else contextlib.nullcontext():
                return self._whole(environ, start_response)

    def _whole(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        told: list[Any] = []
        body = b"".join(self._inner(environ, lambda status, headers, info=None: told.extend([status, headers])))
        status, headers = told
        if status.startswith("200") and "HTTP_X_AMZ_COPY_SOURCE" in environ and "partNumber" not in environ.get("QUERY_STRING", ""):
            self._copied(environ)
        plain = [(name, value) for name, value in headers if name.lower() not in ("connection", "transfer-encoding")]
        if not any(name.lower() == "content-length" for name, _ in plain) and not status.startswith("204"):
            plain.append(("Content-Length", str(len(body))))
        start_response(status, plain)
        return [body]

    def _answer(self, start_response: Callable[..., Any], status: str, body: bytes) -> Iterable[bytes]:
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def _object(self, bucket: str, key: str) -> Any:
        found = self._backend.buckets.get(bucket)
        return found.keys.get(key) if found is not None else None

    @staticmethod
    def _target(environ: dict[str, Any]) -> tuple[str, str]:
        # WSGI gives the path as UTF-8 bytes dressed as latin-1
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
        return bucket, key

    def _objection(self, environ: dict[str, Any]) -> str | None:
        """The code of the answer that S3 would give and moto would not."""
        owners = (environ.get("HTTP_X_AMZ_EXPECTED_BUCKET_OWNER"), environ.get("HTTP_X_AMZ_SOURCE_EXPECTED_BUCKET_OWNER"))
        if any(owner not in (None, ACCOUNT) for owner in owners):
            return "AccessDenied"
        source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
        if source is None:
            completed = environ["REQUEST_METHOD"] == "POST" and "uploadId=" in environ.get("QUERY_STRING", "")
            return self._objection_to_target(environ) if completed else None
        bucket, _, key = urllib.parse.unquote(source.partition("?")[0]).lstrip("/").partition("/")
        found, wanted = self._object(bucket, key), environ.get("HTTP_X_AMZ_COPY_SOURCE_IF_MATCH")
        if found is not None and wanted is not None and found.etag.strip('"') != wanted.strip('"'):
            return "PreconditionFailed"
        return self._objection_to_target(environ)

    def _objection_to_target(self, environ: dict[str, Any]) -> str | None:
        target, expected = self._object(*self._target(environ)), environ.get("HTTP_IF_MATCH")
        taken = environ.get("HTTP_IF_NONE_MATCH") == "*" and target is not None
        other = expected is not None and (target is None or target.etag.strip('"') != expected.strip('"'))
        return "PreconditionFailed" if taken or other else None

    def _copied(self, environ: dict[str, Any]) -> None:
        found = self._object(*self._target(environ))
        if found is not None and found.multipart is not None:
            found.multipart, found._etag = None, None

    def _save(self, name: str) -> None:
        self._states[name] = {bucket.name: {key: list(dict.__getitem__(bucket.keys, key)) for key in bucket.keys} for bucket in self._buckets()}

    def _restore(self, name: str) -> None:
        from moto.core.utils import utcnow

        now = utcnow()
        for content in self._states[name].values():
            for versions in content.values():
                versions[-1].last_modified = now
        for bucket in self._buckets():
            bucket.keys = self._store(self._states[name].get(bucket.name, {}))
            bucket.multiparts.clear()

    def _objects(self, name: str) -> bytes:
        keys = self._backend.buckets[name].keys
        found = {key: keys[key] for key in keys}
        told = {
            key: (
                item.etag.strip('"'),
                float(int(item.last_modified.replace(tzinfo=timezone.utc).timestamp())),
                base64.b64encode(item.value).decode(),
            )
            for key, item in found.items()
        }
        return json.dumps(told).encode()

    def _kms(self, name: str) -> bytes:
        keys = self._backend.buckets[name].keys
        return json.dumps({key: (keys[key].encryption == "aws:kms" and keys[key].kms_key_id) or "" for key in keys}).encode()

    def _bucket(self, name: str) -> None:
        self._backend.create_bucket(name, "us-east-1")

    @contextmanager
    def _in_the_past(self, name: str) -> Iterator[None]:
        present = {bucket.name: bucket.keys for bucket in self._buckets()}
        self._restore_keys(self._states[name])
        try:
            yield
        finally:
            for bucket in self._buckets():
                bucket.keys = present[bucket.name]

    def _restore_keys(self, state: dict[str, dict[str, list[Any]]]) -> None:
        for bucket in self._buckets():
            bucket.keys = self._store(state.get(bucket.name, {}))

    def _buckets(self) -> list[Any]:
        return [*self._backend.buckets.values()]

    @staticmethod
    def _store(content: dict[str, list[Any]]) -> Any:
        from moto.s3.utils import _VersionedKeyStore

        store = _VersionedKeyStore()
        for key, versions in content.items():
            store.setlist(key, list(versions))
        return store


def _kms_etag(plain: Callable[[Any], str]) -> Callable[[Any], str]:
    def etag(key: Any) -> str:
        if key._etag is None and (key.encryption or "").startswith("aws:kms"):
            key._etag = uuid.uuid4().hex
        return plain(key)

    return etag


def main() -> None:
    """Serve until terminated; the first line says the port."""
    import strict_glue  # beside this file, which is started as a program
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    strict_glue.patch()

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_request(self, *args: Any, **options: Any) -> None:
            """Thousands of lines that nobody reads."""

    server = make_server("127.0.0.1", 0, Strict(DomainDispatcherApplication(create_backend_app)), threaded=True, request_handler=Handler)
    print("port", server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
