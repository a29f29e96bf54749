"""A lease: who works on a table now, so that nobody computes the same beside it (`lease:` in the configuration, off by default).

It saves work and nothing else. What keeps a table right is the put of the Snapshot: a holder that sleeps longer than its lease loses that race, two
that took the lease in the same moment run it, and nothing here is asked before a commit. Commits, folds and rebuilds have a lease each, because
commits go on beside a long fold.

`_compactor/lease/<work>.json` tells who; its age, on the store's clock, tells whether they live: it is written anew in every third of its time.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from compactor.core.errors import CompactorError, Leased
from compactor.core.spec import TableSpec
from compactor.flows import snapshots
from compactor.flows.world import World
from compactor.ports import Storage

log = logging.getLogger(__name__)

COMMIT, FOLD, REBUILD = "commit", "fold", "rebuild"


@contextmanager
def held(world: World, spec: TableSpec, work: str, label: str = "") -> Iterator[None]:
    """Hold the table's lease for this kind of work while the block runs; nothing where the table has none. Raises Leased when another holds it."""
    if spec.lease is None:
        yield
        return
    place = snapshots.layout_of(spec).lease(work)
    holder = {"id": world.nonce(), "run": label, "host": platform.node(), "process": os.getpid(), "since": world.now()}
    mine = json.dumps(holder, indent=1, ensure_ascii=False).encode()
    _take(world.storage, place, mine, spec, work)
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(world.storage, place, mine, spec.lease / 3, over), name=f"lease of {spec.name}", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        # a renewal on its way would bring the lease back after it was given up
        renewing.join()
        _give_up(world.storage, place, mine)


def _take(storage: Storage, place: str, mine: bytes, spec: TableSpec, work: str) -> None:
    # A plain write, and a look at who was last. A conditional put would be exact, but where claims stand in for it a name is taken for ever.
    there = storage.stat(place)
    if there is not None:
        age = storage.now() - there.modified
        if spec.lease is not None and age < spec.lease:
            raise _busy(spec, work, _read(storage, place), f"has held its lease since then, and renewed it {age:.0f} s ago")
        log.info(
            "table %s: the lease for its %s is %.0f s old and runs %.0f s: its holder is gone, this run takes it", spec.name, work, age, spec.lease
        )
    storage.write(place, mine)
    found = _read(storage, place)
    if found != mine:
        raise _busy(spec, work, found, "took its lease in the same moment")


def _busy(spec: TableSpec, work: str, holder: bytes, what: str) -> Leased:
    try:
        told = json.loads(holder)
        who = f"{told['run'] or 'a run'} on {told['host']} (process {told['process']}), begun {told['since']},"
    except (ValueError, KeyError, TypeError):
        who = "another run"
    return Leased(
        f"table {spec.name}: {who} does its {work} and {what}. This run leaves it to that one; nothing is lost, run again later. Should "
        f"that one have died, its lease ends by itself {spec.lease:.0f} s after it was last renewed."
    )


def _read(storage: Storage, place: str) -> bytes:
    try:
        return storage.read(place)
    except FileNotFoundError:
        return b""


def _renew(storage: Storage, place: str, mine: bytes, every: float, over: threading.Event) -> None:
    while not over.wait(every):
        try:
            if _read(storage, place) != mine:
                # it ran out while we slept, and somebody else took it
                return
            storage.write(place, mine)
        except Exception as error:
            # the work goes on without it
            log.debug("a lease could not be renewed: %s", error)


def _give_up(storage: Storage, place: str, mine: bytes) -> None:
    with suppress(CompactorError, OSError):
        if _read(storage, place) == mine:
            storage.delete([place])
