"""Environment: everything a flow needs from outside, handed in by `app/app.py` (or by a test)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from compactor.core.model import times
from compactor.core.results.notice import Message, Target
from compactor.core.results.reports import Tasks
from compactor.flows.stop import Stop
from compactor.ports import Catalog, Engine, Storage


def _nonce() -> str:
    return secrets.token_hex(4)


def _unknown() -> float | None:
    """Return no CPU time."""
    return None


def _nobody(target: Target, message: Message) -> None:
    """Notify nobody."""


def _no_tasks(group: str) -> None:
    """Count none."""


def _no_share(name: str) -> None:
    """Share nothing."""


@dataclass(frozen=True)
class Environment:
    """Ports, clock and randomness. `engine` and `catalog` are made on first use: what reads only files starts no JVM (H31).

    `notify` sends a message to one target and raises a CompactorError if it cannot. `nonce` returns 8 random hex digits: the id of an attempt (H2).
    `catalog_name` identifies the catalog without connecting to it, because what is remembered of one catalog counts for no other. None: nothing is
    remembered of what the catalog shows. `cpu` returns the CPU seconds of this process and its children so far, None if unknown. `program` is the
    version of compactor. `stop` ends a run early. `tasks` counts the engine's tasks for a phase (`logs.GROUP`); None where it has none. `share` gives
    what the calling thread computes a fair share of the engine, under this name.
    """

    storage: Storage
    engine: Callable[[], Engine]
    catalog: Callable[[], Catalog]
    clock: Callable[[], float] = time.time
    nonce: Callable[[], str] = _nonce
    notify: Callable[[Target, Message], None] = _nobody
    files_only: bool = False
    catalog_name: Callable[[], str] | None = None
    cpu: Callable[[], float | None] = _unknown
    program: str = ""
    stop: Stop = field(default_factory=Stop)
    tasks: Callable[[str], Tasks | None] = _no_tasks
    share: Callable[[str], None] = _no_share

    def now(self) -> str:
        """The time as ISO 8601 text, UTC."""
        return times.from_seconds(self.clock(), "milliseconds")
