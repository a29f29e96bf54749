"""How much the random programs try: an eighth of their number in the fast tests, three fifths in the sample, and twenty times as much with `COMPACTOR_TESTS=full`."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SAMPLE = os.environ.get("COMPACTOR_TESTS") == "sample"
FULL = os.environ.get("COMPACTOR_TESTS") == "full"


def tiered(values: Iterable[Any], fast: Container[Any], several: bool = False) -> list[Any]:
    """Parameters of a test (`several`: tuples of them). Those not in `fast` are marked slow: `make test-sample` takes them, and so does CI."""
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(*(value if several else (value,)), marks=marks[value in fast]) for value in values]


def sized(examples: int, steps: int = 50) -> settings:
    """Settings for `examples` programs (of `steps` steps, for a state machine). No deadline: machines of CI pause."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    # the sample is the same on every machine; at full size each run draws other programs
    return settings(
        max_examples=examples * 20 if FULL else max(1, examples * 3 // 5 if SAMPLE else examples // 8),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=slow,
        derandomize=not FULL,
    )
