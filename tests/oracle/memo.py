"""Recoveries that were tried before: a cut at a read leaves the same state as the cut before it, and what follows is the same too.

    with suppress(Crash):
        lake.run(faults)
    watch.look()
    if anew(lake, watch, "a run and a rebuild"):
        lake.run()
        ...

Storage, catalog, clock, nonces and the watch's memory decide everything that comes after. All of it is in the digest. Only the uuid of a first
version is drawn anew each time; it is part of the stored bytes, so states after it are tried more often than they need to be.
"""

from __future__ import annotations

import hashlib

from tests.oracle.lake import Lake
from tests.oracle.watch import Watch

_SEEN: set[str] = set()


def anew(lake: Lake, watch: Watch, *context: object) -> bool:
    """Whether this process has not yet gone on from this state in this context. `context` names what follows."""
    found = digest(lake, watch, *context)
    if found in _SEEN:
        return False
    _SEEN.add(found)
    return True


def digest(lake: Lake, watch: Watch, *context: object) -> str:
    """Return a digest of all that decides what happens next."""
    storage = lake.storage
    # an etag of MemoryStorage holds the content's digest and the number of its write
    objects = sorted((path, info.etag, info.modified) for path, (info, _) in storage._objects.items())
    catalog = sorted((name, repr(found)) for name, found in lake.catalog._objects.items())
    state = (
        objects,
        storage._generation,
        catalog,
        lake.now,
        repr(lake._nonces),
        sorted(lake.epochs.items()),
        sorted(lake.delivered),
        repr(lake.spec),
    )
    known = (watch.shown, sorted(watch.overwritten), sorted(watch._snapshots.items()), sorted(watch._named.items()), sorted(watch._rows.items()))
    return hashlib.sha256(repr((state, lake.catalog._databases, known, context)).encode()).hexdigest()
