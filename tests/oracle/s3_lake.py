"""A lake on an S3 server. The process under test speaks S3, through a proxy when it is to be disturbed; the observer sees all objects at one moment."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from functools import cache
from typing import TypeVar

from compactor.core.model.files import FileInfo
from compactor.core.results.record import TableReport
from compactor.core.settings.s3 import S3Settings
from compactor.flows.environment import Environment
from compactor.flows.run import run_table
from compactor.flows.table import Table
from compactor.storage.s3.storage import S3Storage
from tests.oracle.lake import Lake, copied, table
from tests.oracle.whole_engine import WholeEngine
from tests.parts.memory_storage import MemoryStorage
from tests.parts.proxy import Proxy
from tests.parts.s3 import Server

L = TypeVar("L", bound=Lake)
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
"""The KMS key of the raw files of the table at ROOT."""
BUCKET, ROOT = "lake", "s3://lake/t"
SETTINGS = S3Settings(
    path_style=True,
    region="us-east-1",
    connect_seconds=2,
    read_seconds=0.3,
    operation_seconds=20,
    wait_seconds_min=0.02,
    wait_seconds_max=0.1,
    client_attempts=1,
    list_page=5,
)


@cache
def storage(url: str, seconds: float) -> S3Storage:
    """One connection an endpoint and patience."""
    return S3Storage(ROOT, S3Settings(**{**vars(SETTINGS), "endpoint": url, "operation_seconds": seconds}), {ROOT: KEY})


class Mirror(MemoryStorage):
    """What a bucket held when it was last looked at; writes go to the bucket."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def refresh(self) -> None:
        """Look again."""
        self._objects = {
            f"s3://{BUCKET}/{key}": (FileInfo(f"s3://{BUCKET}/{key}", len(data), etag, modified), data)
            for key, (etag, modified, data) in self._server.objects(BUCKET).items()
        }

    def write(self, path: str, data: bytes) -> None:
        """As a sink would."""
        storage(self._server.url, 20.0).write(path, data)
        self.refresh()


class Aside(MemoryStorage):
    """Objects of a bucket, taken out of it; names and content give the etag, as they do in S3."""

    def __init__(self, objects: dict[str, tuple[FileInfo, bytes]]) -> None:
        super().__init__()
        # of a raw file under a key the server's etag says nothing, and this storage compares by it
        self._objects = {path: (_with_etag(info, data), data) for path, (info, data) in objects.items()}

    def write(self, path: str, data: bytes) -> None:
        """Create or replace."""
        super().write(path, data)
        self._objects[path] = (_with_etag(self._objects[path][0], data), data)


def _with_etag(info: FileInfo, data: bytes) -> FileInfo:
    return replace(info, etag=hashlib.md5(data, usedforsecurity=False).hexdigest())


class S3Lake(Lake):
    """A lake that lives in the server's bucket: there is one at a time; `saved` keeps it, `copy` of what was saved brings it back."""

    storage: Mirror

    def __init__(self, server: Server, proxy: Proxy) -> None:
        super().__init__(table(root=ROOT, landing=f"{ROOT}/incremental"))
        self.server, self.proxy, self.name = server, proxy, ""
        self.storage = Mirror(server)

    def saved(self, name: str) -> S3Lake:
        """This lake as it is, to be copied from."""
        self.server.save(name)
        other = self._twin()
        other.name = name
        return other

    def copy(self) -> S3Lake:
        """Make the bucket hold what was saved."""
        self.server.restore(self.name)
        other = self._twin()
        other.storage.refresh()
        return other

    def aside(self) -> Lake:
        """This lake as it is, in memory from now on: where the next runs are not to be disturbed, they need no server."""
        other = Lake(self.spec)
        other.storage = Aside(dict(self.storage._objects))
        return self._as_here(other)

    def _twin(self) -> S3Lake:
        return self._as_here(S3Lake(self.server, self.proxy))

    def _as_here(self, other: L) -> L:
        other.now, other.delivered, other._nonces = self.now, dict(self.delivered), copy.copy(self._nonces)
        other.catalog = copied(self.catalog)
        return other

    def run_on(self, url: str, seconds: float = 20.0) -> TableReport:
        """One run by a process that speaks to the store at `url`."""
        self.now += 1.0
        there = storage(url, seconds)
        engine = WholeEngine(there)
        env = Environment(
            there, lambda: engine, lambda: self.catalog, self._clock, lambda: f"{next(self._nonces):08x}", catalog_name=lambda: "memory"
        )
        try:
            return run_table(Table(env, self.spec))
        finally:
            self.proxy.quiet()
            self.storage.refresh()

    def run(self, faults: object = None) -> TableReport:
        """One run that nobody disturbs."""
        assert faults is None
        return self.run_on(self.server.url)

    def disturbed(self, seconds: float = 20.0) -> TableReport:
        """One run through the proxy."""
        return self.run_on(self.proxy.url, seconds)
