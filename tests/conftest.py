"""For every test: a JVM that runs for seconds compiles as little as it can; one Spark session a process; all Spark tests in one of two processes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "parts" / "quick"))

GROUP = "spark"
"""xdist's group: its tests share a process, and so a session, while the other process does everything else."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Put all tests on the shared session into one process: before xdist looks for groups."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group(GROUP))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the shared session before a test that opens its own: a process has one at a time."""
    if item.get_closest_marker("own_spark") or item.get_closest_marker("engines"):
        _close()


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test calls configures the logging of its process."""
    root, own = logging.getLogger(), logging.getLogger("compactor")
    level, handlers = own.level, [*root.handlers]
    yield
    own.setLevel(level)
    for handler in [*root.handlers]:
        if handler not in handlers:
            root.removeHandler(handler)


def pytest_sessionfinish() -> None:
    """End the shared session."""
    _close()


def _close() -> None:
    # imported only where a test has imported it: most processes never start Spark
    if "tests.parts.one_spark" in sys.modules:
        sys.modules["tests.parts.one_spark"].close_one_spark()
