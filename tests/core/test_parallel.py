"""Several calls at a time (`core/parallel.py`)."""

from __future__ import annotations

import threading
import time

import pytest

from compactor.core.parallel import AT_ONCE, FEW, in_parallel
from compactor.flows.table import Listed
from tests.parts.memory_storage import MemoryStorage


def test_calls_that_wait_for_each_other_are_made_at_once() -> None:
    """As many as are allowed, and their results come in the order of the items."""
    together = threading.Barrier(AT_ONCE, timeout=20)

    def call(number: int) -> int:
        together.wait()
        return number * number

    assert in_parallel(call, range(AT_ONCE)) == [number * number for number in range(AT_ONCE)]


def test_few_calls_are_made_in_order_in_the_thread_of_the_caller() -> None:
    """What is simulated, or fails at the n-th operation, does so again."""
    made: list[tuple[int, str]] = []
    in_parallel(lambda number: made.append((number, threading.current_thread().name)), range(FEW))
    assert made == [(number, threading.current_thread().name) for number in range(FEW)]


@pytest.mark.parametrize("count", [FEW, 10 * AT_ONCE])
def test_after_an_error_no_other_call_begins(count: int) -> None:
    """The first error in the order of the items is raised; a thousand files are not tried when the first is refused."""
    made = []
    released = threading.Event()

    def call(number: int) -> None:
        made.append(number)
        if number == 0:
            raise PermissionError("no")
        released.wait(0.2)

    with pytest.raises(PermissionError, match="no"):
        in_parallel(call, range(count))
    assert len(made) < 3 * AT_ONCE


def test_threads_that_ask_for_files_of_one_folder_list_it_once() -> None:
    """Whoever looks at many files of a folder pays for one request."""
    storage = MemoryStorage()
    paths = [f"/lake/landing/{number}.json" for number in range(3 * AT_ONCE)]
    for path in paths:
        storage.write(path, b"1")
    listings = []
    looked_at = Listed(storage)
    looked_at.list = lambda folder: (listings.append(folder), time.sleep(0.01), [*storage.list(folder)])[2]  # type: ignore[assignment, func-returns-value]
    assert [info.path for info in in_parallel(looked_at.stat, paths) if info is not None] == paths
    assert listings == ["/lake/landing"]
