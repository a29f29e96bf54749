"""Pin: keep a version until the pin is removed. Pins are part of the Snapshot, so they cannot race with vacuum: one of the two plans again.

A pin is a Snapshot of the same rows; the next run publishes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

from compactor.core.model.edit import Edit
from compactor.core.model.errors import Refused
from compactor.core.model.snapshot import Pin, Snapshot
from compactor.flows.table import Table
from compactor.flows.transact import transact
from compactor.flows.write import restore

Pins = tuple[Pin, ...]


def pins(table: Table) -> Pins:
    newest = table.newest()
    return newest.pins if newest else ()


def pin(table: Table, version: int, name: str = "") -> Pin:
    """Pin a version; a second time changes nothing. Raises Refused for a version that is gone, and for a name that pins another version."""
    made = Pin(name or f"v{version}", version, table.env.now())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", made.name):
        raise Refused(f"expected a name of letters, digits, _, . and -, found {made.name!r}")

    def added(newest: Snapshot) -> Pins:
        by_name = {item.name: item for item in newest.pins}
        if made.name in by_name:
            if by_name[made.name].version != version:
                raise Refused(
                    f"table {table.name}: {made.name} pins version {by_name[made.name].version}; remove that pin first, or choose another name"
                )
            return newest.pins
        restore.at_version(table, version)
        return (*newest.pins, made)

    return next(item for item in _change(table, added) if item.name == made.name)


def unpin(table: Table, name: str) -> None:
    """Remove a pin by its name. Raises Refused for an unknown name."""

    def removed(newest: Snapshot) -> Pins:
        if name not in {item.name for item in newest.pins}:
            by_name = ", ".join(f"{item.name} (version {item.version})" for item in newest.pins) or "none"
            raise Refused(f"table {table.name}: expected the name of a pin, found {name!r}; the pins are: {by_name}")
        return tuple(item for item in newest.pins if item.name != name)

    _change(table, removed)


def _change(table: Table, change: Callable[[Snapshot], Pins]) -> Pins:
    """Commit the pins that `change` returns, unless they are the same. Return them."""
    after: list[Pins] = []

    def planned(newest: Snapshot | None, scratch: ExitStack) -> Edit | None:
        newest = table.existing(newest)
        after.append(change(newest))
        if after[-1] == newest.pins:
            return None
        # vacuum looks again at versions that are not pinned any more
        unpinned = {item.version for item in newest.pins} - {item.version for item in after[-1]}
        return Edit("pin", table.next_commit(newest), pins=after[-1], oldest=min({newest.oldest, *unpinned}))

    transact(table, planned)
    return after[-1]
