"""Stop: end a run early after Ctrl-C or SIGTERM. Nothing is lost by it: what was not committed is left to the next run, as after a crash."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Callable

from compactor.core.model.errors import Stopped, TryLater
from compactor.core.results.reports import Progress

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.5
"""Interval at which jobs are cancelled, until the run has ended: a table may start another one."""

POLL_SECONDS = 0.2
"""How soon a loop that waits for its next run notices that it has to end."""

_FINISHED = ("publish", "archive", "done")
"""Steps that are finished. They are short, and what they show is committed."""


class Stop:
    """Whether the run has to end. `cancel` cancels the computations that are going on."""

    def __init__(self, cancel: Callable[[], None] = lambda: None) -> None:
        self._cancel = cancel
        self._requested, self._ended = threading.Event(), threading.Event()
        self._steps: dict[str, str] = {}

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """End the run: begin no other step, and cancel what is being computed until `on_interrupt` ends."""
        if not self._requested.is_set():
            self._requested.set()
            # not here: a signal handler must not wait for a lock that the thread which it interrupts may have
            threading.Thread(target=self._cancel_until_ended, daemon=True, name="stop").start()

    def _cancel_until_ended(self) -> None:
        at = ", ".join(f"{table} ({step})" for table, step in sorted(self._steps.items())) or "no table"
        log.warning("stopping, which interrupts %s. What is committed stays; the next run does the rest. Ctrl-C again ends at once.", at)
        while True:
            try:
                self._cancel()
            except Exception as error:
                log.warning("the computations could not be cancelled: %s", error)
            if self._ended.wait(AGAIN_SECONDS):
                return

    def checking(self, progress: Progress) -> Progress:
        """Return a callback that raises Stopped before a step that has to wait for the next run, and else calls `progress`."""

        def checked(table: str, step: str, share: float) -> None:
            if step == "done":
                self._steps.pop(table, None)
            elif self.requested and step not in _FINISHED:
                raise stopped()
            else:
                self._steps[table] = step
            progress(table, step, share)

        return checked

    @contextlib.contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Let the first Ctrl-C or SIGTERM request the stop, and the second one end the process. In other threads nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._requested.clear()
        self._ended.clear()

        def interrupted(*_: object) -> None:
            if self.requested:
                end_process()
            self.request()

        with _handling(interrupted):
            try:
                yield
            finally:
                self._ended.set()

    def repeat(self, run: Callable[[], None], seconds: float) -> None:
        """Call `run` again and again, every `seconds` from the beginning of one run to that of the next, until Ctrl-C or SIGTERM.

        A run that is going on then ends as after Ctrl-C. TryLater of a run is logged, and the loop goes on; other errors end it. Call this in the
        main thread.
        """
        # no Event: a second signal inside of its `set` would wait for the lock of the first
        ended: list[int] = []
        with _handling(lambda number, _: ended.append(number)):
            while not ended:
                next_run = time.monotonic() + seconds
                try:
                    run()
                except TryLater as error:
                    log.warning("the run could not be made, and is tried again in %.0f s: %s", max(0.0, next_run - time.monotonic()), error)
                if self.requested:
                    return
                while not ended and (left := next_run - time.monotonic()) > 0:
                    time.sleep(min(left, POLL_SECONDS))


@contextlib.contextmanager
def _handling(handler: Callable[..., None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def end_process() -> None:
    """End this process at once. Its JVM ends when it notices that."""
    with contextlib.suppress(OSError, ValueError):
        print("compactor: ended at once; the next run continues", file=sys.stderr, flush=True)
    os._exit(Stopped.exit_code)


def stopped() -> Stopped:
    return Stopped("stopped by Ctrl-C or SIGTERM. What is committed stays; the next run does the rest.")
