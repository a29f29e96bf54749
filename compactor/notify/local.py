"""Messages on this machine: into the log, and to a program's standard input."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Sequence

from compactor.core.model.errors import Refused, Unavailable
from compactor.core.results.notice import Message

log = logging.getLogger("compactor.notice")

_SECONDS_MAX = 60.0


def to_log(message: Message) -> None:
    """Log the message: as a warning if somebody must act, otherwise as information."""
    log.log(logging.WARNING if message.urgent else logging.INFO, "%s", message.text)


def to_command(words: Sequence[str], message: Message) -> None:
    """Run a program, without a shell, with the message as JSON on its standard input.

    Raises Refused when it cannot be run, Unavailable when it fails.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own program, its words as they are
            list(words), input=json.dumps(message.to_json()).encode(), capture_output=True, timeout=_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[0]} did not end within {_SECONDS_MAX:g} seconds") from None
    except OSError as error:
        raise Refused(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        output = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-300:]
        raise Unavailable(f"{words[0]} ended with {done.returncode}" + (f": {output}" if output else ""))
