"""Calls that mostly wait for an answer of the object store, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""Calls at a time."""
FEW = 4
"""Up to so many calls are made one after another, in the caller's thread: others would gain nothing, and what fails fails at the same place again."""


def in_parallel(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what `call` returns for each item, in the order of the items. Raises the first error in this order; calls that have not begun when its
    turn comes are not made.

    >>> in_parallel(len, ["a", "bc"]), in_parallel(abs, range(-9, 1))
    ([1, 2], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    """
    every = [*items]
    if len(every) <= FEW:
        return [call(item) for item in every]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [*pool.map(call, every)]
