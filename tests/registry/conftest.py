"""Time that passes only when somebody sleeps, and registries to ask."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.registry.confluent import ConfluentRegistry
from compactor.registry.http import RegistrySettings, Waiting
from tests.parts.one_spark import app_on_one_spark
from tests.registry.server import RegistryServer, serving

__all__ = ["app_on_one_spark"]


class SleepLess:
    """A clock that sleeping moves on, at once; what was slept is kept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def waiting(self, uneven: float = 1.0) -> Waiting:
        """As the client takes it."""
        return Waiting(lambda: time.monotonic() + sum(self.slept), self.slept.append, lambda: uneven)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """Confluent's."""
    with serving() as registry:
        yield registry


@pytest.fixture
def clock() -> SleepLess:
    """Nobody waits for pauses."""
    return SleepLess()


@pytest.fixture
def opened(server: RegistryServer, clock: SleepLess) -> Iterator[Any]:
    """Clients of `server`: call it with settings that differ."""
    made: list[ConfluentRegistry] = []

    def make(environment: dict[str, str] | None = None, urls: tuple[str, ...] = (), **settings: Any) -> ConfluentRegistry:
        client = ConfluentRegistry(RegistrySettings(urls or (server.url,), **settings), environment or {}, clock.waiting())
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()
