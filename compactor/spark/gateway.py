"""Keep py4j from calling a JVM that is ending, and from answering Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from pyspark import SparkContext

_WAIT_SECONDS = 5.0
_NOTICED_SECONDS = 10.0
_SPARK_OOM = 52
"""The exit code org.apache.spark.util.SparkExitCode.OOM."""
OUT_OF_MEMORY = f"out of memory, exit code {_SPARK_OOM}"
"""How a JVM ended whose heap was full."""


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


def jvm_end() -> str:
    """Return how the JVM that this process started has ended, such as `killed by SIGKILL`; empty if that is unknown."""
    process = getattr(SparkContext._gateway, "proc", None)
    try:
        # its end is noticed a moment after that of its connections
        code = process.wait(_NOTICED_SECONDS) if process is not None else None
    except subprocess.TimeoutExpired:
        return ""
    if code is None:
        return ""
    if code == _SPARK_OOM:
        return OUT_OF_MEMORY
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def jvm_has_ended() -> bool:
    """Return whether this process started a JVM that has ended."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


@contextlib.contextmanager
def interrupted_after() -> Iterator[None]:
    """Let the first Ctrl-C wait for the end.

    PySpark forgets a JVM that is starting when it is interrupted. Without the folder for its port that never ends, and keeps the metastore's lock.
    """
    before = signal.getsignal(signal.SIGINT)
    # a run's own handler raises nothing
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return
    received: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            raise KeyboardInterrupt


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
