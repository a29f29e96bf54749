"""Runner on this machine: each command line is a process with its own process group, so that its JVM ends with it."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.reports import Ended

GRACE_SECONDS = 15.0
"""Time between SIGTERM and SIGKILL."""

_KEPT_LINES = 100
_POLL_SECONDS = 0.1


class LocalRunner:
    """Run command lines as local processes.

    `program` precedes the arguments, for example `python -m compactor` of another environment. `last` follows them, for example the location of
    the configuration. `grace` are the seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, program: Sequence[str], last: Sequence[str] = (), grace: float = GRACE_SECONDS) -> None:
        self._program, self._last = tuple(program), tuple(last)
        self._grace = grace
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], on_line: Callable[[str], None]) -> Ended:
        # Spark and Derby leave files in the directory they are started in.
        with tempfile.TemporaryDirectory(prefix="compactor-", ignore_cleanup_errors=True) as directory:
            process = self._start([*self._program, *arguments, *self._last], directory)
            output: list[str] = []
            errors: deque[str] = deque(maxlen=_KEPT_LINES)

            def logged(line: str) -> None:
                errors.append(line)
                # `on_line` may fail; unread pipes would block the process for ever
                with contextlib.suppress(Exception):
                    on_line(line.rstrip("\n"))

            readers = [_reader(process.stdout, output.append), _reader(process.stderr, logged)]
            try:
                # Not `wait`: a signal handler may need the process object while this loop waits.
                while (code := process.poll()) is None:
                    time.sleep(_POLL_SECONDS)
                for reader in readers:
                    # a grandchild may outlive the process and keep the pipes open
                    reader.join(self._grace)
            finally:
                self.cancel()
                self._process = None
        return Ended(code, "".join(output), "".join(errors))

    def _start(self, command: Sequence[str], directory: str) -> subprocess.Popen[str]:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the program is the operator's own
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise Refused(f"{command[0]}: cannot be started: {error.strerror}. Correct `airflow: {{command: ..}}`.") from None
        except OSError as error:
            raise Unavailable(f"{command[0]}: cannot be started now: {error.strerror}") from None
        return self._process

    def cancel(self) -> None:
        """Send SIGTERM to the process and its children, and SIGKILL to those that still run after the grace period."""
        process = self._process
        if process is None:
            return
        _signal(process.pid, signal.SIGTERM)
        until = time.monotonic() + self._grace
        while _alive(process) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        _signal(process.pid, signal.SIGKILL)
        process.poll()


def _reader(stream: IO[str] | None, take: Callable[[str], None]) -> threading.Thread:
    def read() -> None:
        if stream is not None:
            with stream, contextlib.suppress(ValueError):
                for line in stream:
                    take(line)

    reader = threading.Thread(target=read, daemon=True, name="compactor-output")
    reader.start()
    return reader


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _alive(process: subprocess.Popen[str]) -> bool:
    """Whether a process of the group still runs."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _running(process.pid) is not False


def _running(group: int) -> bool | None:
    """Whether a process of the group is no zombie. In a container without an init, zombies stay for ever. None: unknown."""
    running = None
    for stat in glob.iglob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # the name, in brackets, may have any character
            state, _, number = Path(stat).read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            if int(number) == group:
                running = running or state != "Z"
    return running
