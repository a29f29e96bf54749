"""Input: one landed file as the ledger records it, and what became of it.

The ledger of a table has one entry for each attempt at a file: in the Snapshots of the newest versions, and in ledger files for older ones.
The newest entry of a (path, etag) is the one that counts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from compactor.core.model.position import Position

AGAIN = ("replayed", "reread")
"""Outcomes of inputs that were taken from quarantine again."""

REBUILT = "rebuilt"
"""The outcome of inputs in which a rebuild has found more invalid records."""

GIVEN_UP = "given up"
"""The outcome of inputs whose records in quarantine somebody has given up."""

LATER = (*AGAIN, "undone", "redone", "discarded", "erased", REBUILT, GIVEN_UP)
"""Outcomes of entries about an input whose first attempt is in the ledger too."""


ORIGINAL = "~original"
"""The end of the etag of an original that is read beside its repaired copy."""

NAME_ENDING = f"(~[0-9]+)?({ORIGINAL})?$"
"""Regular expression for what a name has beside the path."""


@dataclass(frozen=True)
class Input:
    """An attempt at one landed file. (path, etag) identifies the file."""

    path: str
    """Path below the landing root."""
    size: int
    etag: str
    """The store's etag, which changes with the content."""
    folder: str
    """The folder of its increment below the landing root; "" for a flat landing."""
    hour: str | None
    """The hour that the folder names, UTC, as `2026-11-20T14:00`; None if it names none."""
    rows: int = 0
    position_min: Position | None = None
    """The least Position of its rows; None without any."""
    position_max: Position | None = None
    outcome: str = "absorbed"
    """What this attempt did:

    | outcome | meaning |
    |---|---|
    | `absorbed` | first attempt: its rows are in the table, except those in quarantine |
    | `quarantined` | first attempt: the file could not be opened |
    | `replayed` | taken again after the whole file was in quarantine |
    | `reread` | taken again after some of its records were in quarantine |
    | `undone` | a restore removed its rows from the table |
    | `redone` | its rows were taken again after a restore had removed them |
    | `discarded` | its raw file was deleted from the archive |
    | `rebuilt` | a rebuild has read it again and left more of its records out: they are in quarantine |
    | `given up` | `quarantined` of its records are invalid, and wait no more |
    | `erased` | records of erased keys were removed from its raw file: `size` is the new size |
    """
    quarantined: int = 0
    """Number of its invalid records. They are in quarantine unless they were given up."""
    reason: str = ""
    """Why the file could not be opened; "" if it could."""
    epoch: int = 0
    """The epoch of its events. The first attempt decides it, and every later one keeps it, so that a replay gives each event its old Position."""
    replaces_epochs: bool = False
    """Whether its epoch removes the rows of those before it, as `epoch_replaces` said when its rows were taken."""
    was: int = 0
    """Bytes of its raw file before `compactor erase` rewrote it; 0 if it never did. An interrupted erase may have left this content."""
    content: int = 1
    """Which content of its path this is: 1 for the first that was listed, 2 once the sink has written the name again, and so on."""
    columns: tuple[str, ...] = ()
    """Of CSV without header: the columns that the settings named when it was last taken from landing or quarantine. They may name more since, which
    the file lacks."""

    @property
    def id(self) -> tuple[str, str]:
        """Return (path, etag), by which maps of inputs find it."""
        return self.path, self.etag

    @property
    def name(self) -> str:
        """Return what Positions call the file. No two inputs have one name: the second content of a path is `path~2`.

        Of a file whose records were repaired, the original is read beside the repaired copy.
        """
        # a path may end as if it were that of another content
        content = f"~{self.content}" if self.content > 1 or path_of(self.path) != self.path else ""
        return f"{self.path}{content}{ORIGINAL if self.etag.endswith(ORIGINAL) else ''}"

    def as_unreadable(self, reason: str) -> Input:
        """Return the entry for an attempt that could not open the file."""
        return dataclasses.replace(self, outcome=self.outcome if self.outcome in LATER else "quarantined", reason=reason)

    @property
    def unabsorbed(self) -> bool:
        """Return whether none of its rows are in the table: no attempt could open it, or a restore removed its rows."""
        return self.outcome == "undone" or (bool(self.reason) and self.outcome in ("quarantined", "replayed", "redone"))

    @property
    def waiting(self) -> int:
        """Return the number of its records in quarantine. What a restore has undone waits as a whole, for `--reabsorb`."""
        return 0 if self.outcome in (GIVEN_UP, "undone") else self.quarantined

    @property
    def in_quarantine(self) -> bool:
        """Return whether the file or some of its records are in quarantine."""
        return bool(self.reason or self.waiting)


def path_of(name: str) -> str:
    """Return the path of an input by its name.

    >>> path_of("hour/a.json"), path_of("hour/a.json~2"), path_of("hour/a.json~2~original"), path_of(Input("a~2", 1, "", "", None).name)
    ('hour/a.json', 'hour/a.json', 'hour/a.json', 'a~2')
    """
    return re.sub(NAME_ENDING, "", name)


def other_events(location: str, entries: Iterable[Input], events: int) -> str | None:
    """Return that a raw file has another number of events than when it was ingested, or None.

    `entries`: the newest ledger entry of each input that the file may hold. A file that was repaired or rewritten since may have any number.
    """
    ingested = sorted({item.rows for item in entries if item.outcome == "absorbed"})
    if not ingested or events in ingested:
        return None
    return f"{location}: expected {' or '.join(f'{rows:,}' for rows in ingested)} events as when it was ingested, found {events:,}"


_TO_OPEN = 1 << 20
"""Bytes that a store delivers in about the time that it takes to open a file."""


def work(inputs: Iterable[Input]) -> int:
    """Return the bytes to read, and 1 MB more for each file: many tiny files take as long to read as a few large ones."""
    return sum(item.size + _TO_OPEN for item in inputs)


@dataclass(frozen=True)
class LedgerFile:
    """A file with the inputs of older versions."""

    path: str
    entries: int
    folders: tuple[str, ...]
    """Folders of these inputs. Discovery skips the file if none of them is still in landing."""


IN_QUARANTINE = "records wait in quarantine, or were undone by a restore"
"""A value of `Watermark.incomplete` that stays until the ledger has no such input."""

LEFT_OUT = "files that had landed wait for the next run"
"""A value of `Watermark.incomplete` for one version."""


@dataclass(frozen=True)
class Brought:
    """What a stream brought in one commit."""

    stream: str
    """Its name, as `whole_hours.stream_of` returns it."""
    time: int | None
    """The newest source time of its changes, also of other tables, in microseconds since 1970; None without any."""
    own: bool
    """Whether a record of this table was among them."""


@dataclass(frozen=True)
class Watermark:
    """Up to when everything has been ingested."""

    partitions: tuple[tuple[str, str | None], ...] = ()
    """Stream → the newest source time of its changes, ISO 8601; None if it has brought only reads of a snapshot so far."""
    whole_to: str | None = None
    """The end of the newest whole hour, ISO 8601; None if no hour is known to be whole."""
    incomplete: str = ""
    """Why `whole_to` stays as it is although changes come: IN_QUARANTINE or LEFT_OUT; "" otherwise."""


NOTHING_KNOWN = Watermark()
"""The watermark of a table without changes that have a source time."""


@dataclass(frozen=True)
class InputLimits:
    """What a landed file may cost. A file or record beyond them is unusable."""

    columns: int = 5000
    """The largest number of columns, with members of structs."""
    record_bytes: int = 64 << 20
    """The largest record of a text file, unpacked."""
    unpacked_bytes: int = 4 << 30
    """The largest size of what a file unpacks to that is unpacked on a disk of the driver (zstd)."""


LIMITED, UNLIMITED = InputLimits(), InputLimits(1 << 31, (1 << 31) - 4096, 1 << 60)
"""The limits of `limits: true` and `false`. Hadoop counts the bytes of a line in 31 bits."""
