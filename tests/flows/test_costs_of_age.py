"""What a command reads depends on what is kept, not on how many versions a table ever had."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from compactor.core.model.layout import commit_id
from compactor.flows.keep import pin
from compactor.flows.keep.erase import Request, erase
from compactor.flows.read.status import status
from compactor.flows.read.verify import verify
from compactor.flows.run import look_at
from compactor.flows.table import Table
from compactor.flows.write import restore
from tests.oracle.lake import HOUR, Lake, table
from tests.oracle.model import line

WIDE = {f"column_{number}": number for number in range(60)}


def aged(versions: int, row: dict[str, int], rounds: int = 3, **settings: Any) -> Lake:
    """A table with a pin on an old version, many stubs between that and the newest versions, and erased keys from before them."""
    lake = Lake(table(keep=HOUR, keep_versions=3, grace=HOUR, **settings))
    for number in range(3):
        lake.deliver(f"increment_202601010{number}/a.json", [line("c", [number], [number + 1], row)])
        lake.run()
    erase(lake.table(), Request((("1",),), now=True))
    lake.pin(pinned := lake.newest().version)  # type: ignore[union-attr]
    before = lake.newest()
    assert before is not None
    for number in range(before.version + 1, before.version + 1 + versions):
        made = dataclasses.replace(before, version=number, parent=number - 1, writer=commit_id(number, "00000000"), operation="compact")
        lake.storage.write(lake.layout.snapshot(number), made.to_bytes())
    lake.deliver("increment_2026010105/a.json", [line("c", [5], [50], {**row, "new": 1})])
    lake.run()
    for _ in range(rounds):
        lake.now += 5 * HOUR
        lake.deliver("increment_2026010106/a.json", [line("c", [6], [60 + int(lake.now) % 1000], row)])
        lake.run()
        lake.vacuum()
    whole = [snapshot.version for snapshot in lake.committed() if not snapshot.expired]
    assert len(whole) < 8
    assert whole[0] == pinned
    return lake


def reads(lake: Lake, command: Callable[[Table], object]) -> Counter[str]:
    """How often each method of the storage is called."""
    counts: Counter[str] = Counter()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            counts[name] += name in ("read", "stat")
            return getattr(lake.storage, name)

    command(Table(dataclasses.replace(lake.env(), storage=Counting(), files_only=True), lake.spec))  # type: ignore[arg-type]
    return counts


COMMANDS: dict[str, Callable[[Table], object]] = {
    "verify --files-only": lambda made: verify(made),
    "verify --files-only --deep": lambda made: verify(made, deep=True),
    "vacuum": lambda made: vacuum_dry(made),
    "status": lambda made: status(made),
    "an idle run": lambda made: look_at(made),
    "log -n 20": lambda made: [*islice(made.history(), 20)],
    "restorable": lambda made: restore._listed(made),
    "erase": lambda made: erase_report(made),
}


def vacuum_dry(made: Table) -> object:
    from compactor.flows.keep.vacuum import vacuum

    return vacuum(made, dry=True)


def erase_report(made: Table) -> object:
    from compactor.flows.keep.erase import _erased, _report

    return _report(made, Request(), _erased(made, made.existing(made.newest())), ())


def test_reads_do_not_grow_with_the_number_of_versions_ever() -> None:
    """40 and 400 versions cost the same, with vacuumed stubs, a pin on an old version, and erased keys."""
    young, old = aged(40, {}), aged(400, {})
    assert {name: reads(young, command) for name, command in COMMANDS.items()} == {name: reads(old, command) for name, command in COMMANDS.items()}


def test_one_vacuum_is_enough() -> None:
    """The next one reads what it has written over, unless the store's clock shows that it has."""
    young, old = aged(4, {}, rounds=2), aged(40, {}, rounds=2)
    for name in ("verify --files-only", "verify --files-only --deep", "status", "an idle run", "restorable"):
        assert reads(young, COMMANDS[name]) == reads(old, COMMANDS[name]), name
    assert reads(old, COMMANDS["vacuum"])["read"] > 40
    for snapshot in [*old.committed()]:
        if snapshot.expired:
            old.now += 1
            old.storage.write(old.layout.snapshot(snapshot.version), snapshot.to_bytes())
    assert reads(old, COMMANDS["vacuum"])["read"] < 20


def test_a_pin_that_is_removed_lets_its_version_expire() -> None:
    """Although no other version of its age is looked at any more."""
    lake = aged(10, {})
    (old,) = [item.version for item in pin.pins(lake.table())]
    lake.unpin(f"v{old}")
    lake.now += 5 * HOUR
    lake.vacuum()
    assert lake.committed_at(old).expired
    assert lake.failed_checks() == []


@pytest.mark.parametrize("feed", ["off", "net"])
def test_stubs_do_not_repeat_columns(feed: str) -> None:
    """Those are most of a stub. The history of the columns stays whole, and where one changed it is written down."""
    lake = aged(12, WIDE, feed=feed, feed_retention=HOUR)
    stubs = [snapshot for snapshot in lake.committed() if snapshot.expired]
    assert len(stubs) > 12
    assert sum(bool(stub.schema.fields) for stub in stubs) <= 3
    assert sorted(len(stub.to_bytes()) for stub in stubs)[-5] < 3000
    shown = {snapshot.version: len(snapshot.schema.fields) for snapshot in lake.table().history()}
    assert set(shown.values()) == {61, 62}
    assert sorted(shown.items()) == sorted(shown.items(), key=lambda item: (item[1], item[0]))
