"""What py4j does by itself and must not: call a JVM that ends, and answer Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker

_WAIT_SECONDS = 5.0


def end_finalizer(gateway: Any) -> None:
    """End the thread that releases Java objects. It would go on to call a JVM that is ending, and log the failure with a traceback."""
    queue = getattr(getattr(gateway, "_gateway_client", None), "finalizer_deque", None)
    if queue is None:
        return
    # the thread takes from the right: it takes this next, whatever else waits
    queue.append(SHUTDOWN_FINALIZER_WORKER)
    for thread in threading.enumerate():
        if isinstance(thread, FinalizerWorker) and thread.deque is queue:
            thread.join(_WAIT_SECONDS)


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Put back the handler of Ctrl-C that a SparkContext replaces.

    Spark's handler calls the JVM on a connection that may wait for an answer, and the tables of a run would go on with their next jobs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # None: it was not set by Python, which cannot put it back
        if before is not None:
            signal.signal(signal.SIGINT, before)
