"""For every test: a JVM that runs for seconds compiles as little as it can; one Spark session a process; all fast Spark tests in one process."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "parts" / "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Let one process run all fast tests on the shared session."""
    if config.getoption("dist") != "loadscope":
        return None
    # not every environment of the tests has xdist
    from tests.parts.one_process import OneProcess

    return OneProcess(config, log)


# not every environment of the tests has Hypothesis
with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import settings

    # machines of CI pause
    settings.register_profile("no deadline", deadline=None)
    settings.load_profile("no deadline")

PART = os.environ.get("COMPACTOR_PART", "1/1")
"""Which part of the chosen tests runs: 2/3 is the second third."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in PART."""
    part, parts = map(int, PART.split("/"))
    others = {item for item in items if zlib.crc32(item.nodeid.encode()) % parts != part - 1}
    if others:
        config.hook.pytest_deselected(items=[*others])
        items[:] = [item for item in items if item not in others]


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
