"""Edit: one change of a table as a value, what it requires of the version it is applied to, and `apply`, which makes the next Snapshot.

Every verb (commit, compact, restore, rebuild, adopt, vacuum, pin) describes its work as an Edit. `flows/transact.py` applies it.
PyIceberg's table requirements and LevelDB's `VersionEdit` are the models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from compactor.core.model.files import DataFile
from compactor.core.model.inputs import Input, LedgerFile
from compactor.core.model.snapshot import Days, Erased, Feed, PendingDeletion, Pin, Snapshot, State


class Requirement(Protocol):
    """A condition on the version that an Edit is applied to."""

    def problem(self, newest: Snapshot | None) -> str | None:
        """Return why `newest` does not meet the condition ("expected .., found .."), or None if it does."""


@dataclass(frozen=True)
class NewestIs:
    """No other version was committed since the Edit was planned."""

    version: int
    """The version that the Edit was planned on; 0 for a table without a Snapshot."""

    def problem(self, newest: Snapshot | None) -> str | None:
        actual = newest.version if newest else 0
        return None if actual == self.version else f"expected version {self.version} to be the newest, found {actual}"


@dataclass(frozen=True)
class ContinuesState:
    """No restore and no rebuild replaced the State that the Edit was computed from (`read`), and no barrier, epoch or generation changed."""

    read: Snapshot

    def problem(self, newest: Snapshot | None) -> str | None:
        if newest is None or newest.uuid != self.read.uuid:
            return f"expected the table {self.read.uuid}, found {newest.uuid if newest else 'none'}"
        if newest.replaced > self.read.version:
            return f"expected no restore or rebuild since version {self.read.version}, found version {newest.replaced}"
        for name in ("truncated_to", "shards_truncated_to", "epoch"):
            expected, actual = getattr(self.read, name), getattr(newest, name)
            if expected != actual:
                return f"expected {name} {expected}, found {actual}"
        if newest.schema.generation != self.read.schema.generation:
            return f"expected schema generation {self.read.schema.generation}, found {newest.schema.generation}"
        return None


@dataclass(frozen=True)
class NotReplaced:
    """No restore and no rebuild was committed since a version. Commits, compactions, pins and vacuums may have been."""

    since: int

    def problem(self, newest: Snapshot | None) -> str | None:
        actual = newest.replaced if newest else 0
        return None if actual <= self.since else f"expected no restore or rebuild since version {self.since}, found version {actual}"


@dataclass(frozen=True)
class HasSegments:
    """The Segments that the Edit replaces are still part of the base."""

    ids: tuple[str, ...]

    def problem(self, newest: Snapshot | None) -> str | None:
        there = {segment.id for segment in newest.segments} if newest else set()
        gone = [each for each in self.ids if each not in there]
        return f"expected segment {gone[0]} in the base, found it replaced" if gone else None


@dataclass(frozen=True)
class Edit:
    """What the next version changes. Fields are those of Snapshot, if nothing else is said. One that is None keeps the parent's value."""

    operation: str
    writer: str
    """The id of the attempt, which the names of its files contain."""
    state: State | None = None
    replaces: bool = False
    """Whether the new State does not continue the parent's (first version, restore, rebuild)."""
    inputs: tuple[Input, ...] = ()
    pending: tuple[Input, ...] | None = None
    """Inputs that are not archived yet."""
    counts: dict[str, int] = field(default_factory=dict)
    ties: int = 0
    unresolved: int = 0
    pins: tuple[Pin, ...] | None = None
    pending_deletions: tuple[PendingDeletion, ...] | None = None
    """What vacuum has given up after the Edit."""
    oldest: int | None = None
    restored: int | None = None
    feed: Feed | None = None
    """The feed after the Edit. None: the parent's, without a part of its own."""
    erased: Erased | None = None
    days: Days | None = None
    """The frozen days after the Edit. `transact` adds those that end with it."""
    requires: tuple[Requirement, ...] = ()
    files: tuple[tuple[str, DataFile], ...] = ()
    """The data files written for this Edit: (directory below the root, file). They must still exist when the Edit is applied to a newer version."""


@dataclass(frozen=True)
class Stamp:
    """Who applies an Edit, and when."""

    table: str
    uuid: str
    """The uuid of a table that has no Snapshot yet."""
    run: str
    time: str


SAME_ROWS = ("compact", "pin", "vacuum", "daily")
"""Operations after which a version has the rows of its parent."""


def apply(parent: Snapshot | None, edit: Edit, stamp: Stamp, ledger: tuple[LedgerFile, ...] = ()) -> Snapshot:
    """Return the Snapshot after `parent`. `ledger`: the files with the inputs of all older versions.

    Raises ValueError for a first version without a State.
    """
    state = edit.state if edit.state is not None else parent.state if parent else None
    if state is None:
        raise ValueError(f"{edit.operation}: the first version of {stamp.table} needs a State")
    version = parent.version + 1 if parent else 1
    names = ("pending", "pending_deletions", "pins", "oldest", "feed", "erased", "days")
    carried: dict[str, Any] = {name: getattr(parent, name) for name in names} if parent else {}
    carried["feed"] = parent.feed.idle() if parent and parent.feed else None
    changed = {name: getattr(edit, name) for name in names if getattr(edit, name) is not None}
    return Snapshot(
        table=stamp.table,
        uuid=parent.uuid if parent else stamp.uuid,
        version=version,
        parent=parent.version if parent else None,
        writer=edit.writer,
        run=stamp.run,
        time=stamp.time,
        operation=edit.operation,
        **{each.name: getattr(state, each.name) for each in dataclasses.fields(State)},
        inputs=edit.inputs,
        ledger=ledger,
        counts=edit.counts,
        ties=edit.ties,
        unresolved=edit.unresolved,
        restored=edit.restored,
        replaced=version if edit.replaces or parent is None else parent.replaced,
        **{**carried, **changed},
    )


def unmet(requires: Collection[Requirement], newest: Snapshot | None) -> str | None:
    """Return the first problem of these requirements, or None if `newest` meets all of them."""
    return next((problem for each in requires if (problem := each.problem(newest)) is not None), None)
