"""Environment: everything a flow needs from outside, made by `runtime.py` (or by a test)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compactor.core.model import times
from compactor.core.model.spec import TableSpec
from compactor.core.results.notice import Message, Target
from compactor.core.results.reports import Tasks
from compactor.core.sources.source_profile import FileSample, ReadSample
from compactor.flows.stop import Stop
from compactor.ports import Catalog, Engine, Storage


def no_sample(path: str, data: bytes, rows_max: int, spec: TableSpec | None) -> FileSample:
    return FileSample(())


@dataclass(frozen=True)
class Environment:
    """Ports, clock and randomness. `engine` and `catalog` are made on first use: what reads only files starts no JVM."""

    storage: Storage
    engine: Callable[[], Engine]
    catalog: Callable[[], Catalog]
    clock: Callable[[], float] = time.time
    """Returns the time in epoch seconds."""
    nonce: Callable[[], str] = lambda: secrets.token_hex(4)
    """Returns 8 random hex digits: the id of an attempt."""
    notify: Callable[[Target, Message], None] = lambda target, message: None
    """Sends a message to one target. Raises a CompactorError if it cannot."""
    files_only: bool = False
    """Whether neither engine nor catalog may be used."""
    catalog_name: Callable[[], str] | None = None
    """Returns the name of the catalog without connecting to it; what is remembered of one counts for no other. None: nothing is remembered."""
    dry: bool = False
    """Whether the catalog only records statements, so that nothing may be written beside it."""
    program: str = ""
    stop: Stop = field(default_factory=Stop)
    tasks: Callable[[str], Tasks | None] = lambda group: None
    """Counts the engine's tasks for a phase (`logs.GROUP`); returns None if it has none."""
    share: Callable[[str], None] = lambda name: None
    """Gives what the calling thread computes a fair share of the engine, under this name."""

    read_sample: ReadSample = no_sample

    tables: Sequence[TableSpec] = ()
    """Every configured table; empty where only some of them are known, as in a job on a cluster."""

    def now(self) -> str:
        return times.from_seconds(self.clock(), "milliseconds")
