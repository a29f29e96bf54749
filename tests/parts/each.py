"""One test that checks many values: thousands of tests that take a millisecond each cost more in reports than in checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def each(values: Iterable[T], label: Callable[[T], str] = str) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Make a test of a check of one value. It fails with every value for which the check fails."""
    every = [*values]
    assert every

    def decorated(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            problems = []
            for value in every:
                try:
                    check(value)
                except AssertionError as error:
                    problems.append(f"{label(value)}: {error}")
            if problems:
                pytest.fail("\n".join(problems), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorated
