"""Pin: keep a version until the pin is removed. Pins are part of the Snapshot, so they cannot race with vacuum: one of the two conflicts.

Each change is a Snapshot of the same data; the next run publishes it. A crash leaves nothing, or the change.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from compactor.core.model.errors import Conflict, Refused
from compactor.core.model.layout import commit_id
from compactor.core.model.snapshot import Pin, Snapshot
from compactor.core.model.spec import TableSpec
from compactor.flows import ledger, snapshots
from compactor.flows.environment import World
from compactor.flows.write import restore
from compactor.flows.write.commit import ATTEMPTS


def pins(world: World, spec: TableSpec) -> tuple[Pin, ...]:
    """Those of a table, in the order they were made."""
    newest = snapshots.newest(world, snapshots.layout_of(spec))
    return newest.pins if newest else ()


def pin(world: World, spec: TableSpec, version: int, name: str = "", label: str = "") -> Pin:
    """Pin a version; doing it again changes nothing. Raises Refused for a version that is gone, and for a name that another version has."""
    made = Pin(name or f"v{version}", version, world.now())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", made.name):
        raise Refused(f"expected a name of letters, digits, _, . and -, found {made.name!r}")

    def added(newest: Snapshot) -> tuple[Pin, ...]:
        known = {item.name: item for item in newest.pins}
        if made.name in known:
            if known[made.name].version != version:
                raise Refused(f"table {spec.name}: {made.name} pins version {known[made.name].version}; remove it first, or say another name")
            return newest.pins
        restore.at_version(world, spec, version)
        return (*newest.pins, made)

    return next(item for item in _changed(world, spec, added, label) if item.name == made.name)


def unpin(world: World, spec: TableSpec, name: str, label: str = "") -> None:
    """Remove a pin by its name. Raises Refused for one that is not there."""

    def removed(newest: Snapshot) -> tuple[Pin, ...]:
        if name not in {item.name for item in newest.pins}:
            known = ", ".join(f"{item.name} (version {item.version})" for item in newest.pins) or "none"
            raise Refused(f"table {spec.name}: expected the name of a pin, found {name!r}; there are: {known}")
        return tuple(item for item in newest.pins if item.name != name)

    _changed(world, spec, removed, label)


def _changed(world: World, spec: TableSpec, change: Callable[[Snapshot], tuple[Pin, ...]], label: str) -> tuple[Pin, ...]:
    layout = snapshots.layout_of(spec)
    for attempt in range(ATTEMPTS):
        newest = snapshots.newest(world, layout)
        if newest is None:
            raise Refused(f"table {spec.name}: nothing is committed yet")
        wanted = change(newest)
        if wanted == newest.pins:
            return wanted
        commit = commit_id(newest.version + 1, world.nonce())
        made = dataclasses.replace(
            snapshots.child(world, newest, commit, "pin", label), pins=wanted, ledger=ledger.carried(world, layout, newest, commit)
        )
        try:
            snapshots.put(world, layout, made)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        return wanted
    raise AssertionError("unreachable")
