"""Runner on this machine: the command line as a process of its own, in a process group of its own, so that its JVM ends with it."""

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

PATIENCE = 15.0
"""Seconds that a process has between SIGTERM and SIGKILL."""

_KEPT_LINES = 100
_POLL_SECONDS = 0.1


class LocalRunner:
    """`program`: what comes before the arguments, such as `python -m compactor`; another environment's Python has its own packages.
    `last`: what comes after them, such as where the configuration is."""

    def __init__(self, program: Sequence[str], last: Sequence[str] = (), patience: float = PATIENCE) -> None:
        self._program, self._last = tuple(program), tuple(last)
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], told: Callable[[str], None]) -> Ended:
        """Run to the end."""
        # Spark and Derby leave files in the directory they are started in.
        with tempfile.TemporaryDirectory(prefix="compactor-", ignore_cleanup_errors=True) as directory:
            process = self._start([*self._program, *arguments, *self._last], directory)
            output: list[str] = []
            errors: deque[str] = deque(maxlen=_KEPT_LINES)

            def logged(line: str) -> None:
                errors.append(line)
                # who listens may fail; unread pipes would stop the process for ever
                with contextlib.suppress(Exception):
                    told(line.rstrip("\n"))

            readers = [_reader(process.stdout, output.append), _reader(process.stderr, logged)]
            try:
                # Not `wait`: the handler of a signal may have to look at the process while this loop waits for it.
                while (code := process.poll()) is None:
                    time.sleep(_POLL_SECONDS)
                for reader in readers:
                    # a grandchild that outlived it may hold the pipes open
                    reader.join(self._patience)
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
            raise Refused(f"{command[0]}: cannot be started: {error.strerror}; correct `airflow: {{command: ..}}`") from None
        except OSError as error:
            raise Unavailable(f"{command[0]}: cannot be started now: {error.strerror}") from None
        return self._process

    def cancel(self) -> None:
        """SIGTERM for the process and whatever it started, SIGKILL for what is left of them after `patience`."""
        process = self._process
        if process is None:
            return
        _signal(process.pid, signal.SIGTERM)
        until = time.monotonic() + self._patience
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
    """Whether anything of the group still runs."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _running(process.pid) is not False


def _running(group: int) -> bool | None:
    """Whether a process of the group is more than a zombie, which in a container without an init stays one for ever. None: nobody knows."""
    found = None
    for stat in glob.iglob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # the name, in brackets, may hold anything
            state, _, number = Path(stat).read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            if int(number) == group:
                found = found or state != "Z"
    return found
