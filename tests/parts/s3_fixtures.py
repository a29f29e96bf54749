"""Fixtures: one S3 server for all tests, and a proxy before it. A folder takes them by importing them in its conftest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.loaders import Loader

from tests.parts.proxy import Proxy
from tests.parts.s3 import CREDENTIALS, Server, s3_server


def _remembering(real: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def load(self: Loader, *words: str, **options: Any) -> Any:
        key = (words, *sorted(options.items()))
        if key not in known:
            known[key] = real(self, *words, **options)
        return known[key]

    return load


def remember_models(patch: pytest.MonkeyPatch) -> None:
    """Read botocore's descriptions of services once. Every new session reads megabytes of JSON, and most tests here make one."""
    for name in ("load_data", "load_service_model"):
        patch.setattr(Loader, name, _remembering(getattr(Loader, name)))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With the bucket `lake`; its credentials are in the environment, where the standard chain begins."""
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3") / "log") as running:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        remember_models(patch)
        running.bucket("lake")
        yield running


@pytest.fixture(scope="session")
def s3_endpoint(server: Server) -> Iterator[None]:
    """The server is what the environment names as the endpoint."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        yield


@pytest.fixture(scope="session")
def proxy(server: Server) -> Iterator[Proxy]:
    """Between a client and the server."""
    with Proxy(server) as running:
        yield running
